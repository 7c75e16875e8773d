"""Which lock beside a script decides its environment, and what it says."""

from __future__ import annotations

import os
import re
from typing import Any

from gymbuild.cache.digests import digest_bytes
from gymbuild.config.datasets import Dataset
from gymbuild.environments.dependencies import dependencies_recipe
from gymbuild.environments.environment import Kind
from gymbuild.environments.recipe import Recipe
from gymbuild.environments.sources import (
    PROJECT,
    build_files,
    decoded,
    folder_requires,
    join,
    parse_toml,
    read_bytes,
    read_project,
    relevant,
    relevant_file,
    tree_digest,
    unique,
)
from gymbuild.system.errors import ConfigError
from gymbuild.system.paths import Checkout

PROJECT_LOCK = "uv.lock"

REQUIREMENTS_LOCK = "requirements.lock"

_METADATA = re.compile(
    r"^# /// (?P<type>[a-zA-Z0-9-]+)[ \t]*\r?\n(?P<lines>(?:#(?: .*)?\r?\n)+)# ///[ \t]*$", re.M
)
"""A block of inline metadata, as the specification "Inline script metadata" (PEP 723) has it."""

_LOCAL_SOURCE = re.compile(r'^source = \{ (?P<kind>editable|directory|virtual) = "(?P<path>[^"]*)"', re.M)

_LOCK_REQUIRES = re.compile(r'^requires-python = "(?P<specifiers>[^"]*)"', re.M)

_NOT_FLAT = ("-r", "--requirement", "-c", "--constraint", "-e", "--editable")
"""Options that lead away from a requirements.lock."""


def recipe_for(dataset: Dataset, checkout: Checkout) -> Recipe:
    """The recipe of a dataset's environment: its prepare_dependencies, else the first lock that is there.

    Raises:
        ConfigError: a file that cannot be read as what it is, a lock that is missing, or one without hashes.
    """
    assert dataset.prepare_script is not None
    script = dataset.prepare_script
    folder = os.path.dirname(script)

    def there(name: str) -> bool:
        return os.path.isfile(checkout.absolute(os.path.join(folder, name)))

    if dataset.prepare_dependencies:
        return dependencies_recipe(dataset, checkout)
    if there(PROJECT) and there(PROJECT_LOCK):
        project = join(folder, PROJECT)
        document = read_project(project, checkout)
        given = document.get("project", {}).get("requires-python")
        return _uv_lock("project", project, join(folder, PROJECT_LOCK), relevant(document), given, checkout)
    metadata = _script_metadata(script, checkout)
    if there(REQUIREMENTS_LOCK):
        return _requirements(script, metadata, checkout)
    if metadata is None:
        return Recipe("interpreter", None, "the interpreter")
    lock = script + ".lock"
    if not os.path.isfile(checkout.absolute(lock)):
        raise ConfigError(
            f"the script has inline metadata, but no lock: there is no {lock}. Run `uv lock --script {script}` "
            "and keep the file beside the script.",
            file=script,
        )
    return _uv_lock("script", script, lock, metadata, metadata.get("requires-python"), checkout)


def _script_metadata(script: str, checkout: Checkout) -> dict[str, Any] | None:
    """The inline metadata (PEP 723) of a script, or None when it has none.

    Raises:
        ConfigError: it has two blocks, or one that is not TOML.
    """
    try:
        with open(checkout.absolute(script), encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:
        return None
    if "# ///" not in text:
        return None
    blocks = [match for match in _METADATA.finditer(text) if match["type"] == "script"]
    if not blocks:
        return None
    if len(blocks) > 1:
        raise ConfigError(
            "the script has two `# /// script` blocks; one is allowed. Put their lines into one.", file=script
        )
    lines = [line[2:] if line[:2] == "# " else line[1:] for line in blocks[0]["lines"].splitlines()]
    return parse_toml("\n".join(lines), script, "the `# /// script` block")


def _uv_lock(kind: Kind, file: str, lock: str, content: Any, requires: Any, checkout: Checkout) -> Recipe:
    """What uv has locked.

    Args:
        kind: `project` or `script`.
        file: what was locked.
        lock: its lock.
        content: what of the file decides the environment.
        requires: the file's requires-python.
        checkout: where they are.
    """
    data = read_bytes(lock, checkout)
    text = decoded(data, lock)
    # uv writes one `source = { … }` line per package; reading just those is much faster than parsing
    # a lock of a thousand packages, and a damaged lock is reported by uv itself
    local = sorted(
        {
            (match["kind"], checkout.relative(os.path.join(os.path.dirname(file), match["path"])))
            for match in _LOCAL_SOURCE.finditer(text)
        }
    )
    inputs: list[str] = []
    sources: list[Any] = []
    for source, path in local:
        files = build_files(path, checkout)
        inputs += files
        # nothing of a virtual one is installed: what it depends on counts, where it lies does not
        place = [] if source == "virtual" else [path]
        sources.append([source, *place, [relevant_file(name, checkout) for name in files]])
        if source == "directory":
            sources.append([path, tree_digest(path, checkout)])
    match = _LOCK_REQUIRES.search(text)
    return Recipe(
        kind=kind,
        content=[content, digest_bytes(data), sources],
        title=lock,
        lock=lock,
        requires_python=requires if isinstance(requires, str) else None,
        requires_file=file,
        locked_python=match["specifiers"] if match else None,
        inputs=unique(file, lock, *inputs),
        editable=tuple(path for source, path in local if source == "editable" and checkout.contains(path)),
        trees=tuple(path for source, path in local if source == "directory"),
    )


def _requirements(script: str, metadata: dict[str, Any] | None, checkout: Checkout) -> Recipe:
    folder = os.path.dirname(script)
    lock = join(folder, REQUIREMENTS_LOCK)
    again = f"uv pip compile --universal --generate-hashes REQUIREMENTS -o {lock}"
    lines = requirement_lines(decoded(read_bytes(lock, checkout), lock))
    for number, line in lines:
        if line.startswith(_NOT_FLAT):
            wrong = (
                f"found {line!r}; a lock names every package itself, with its hashes. Make it with `{again}`."
            )
            raise ConfigError(wrong, file=lock, line=number)
        if not line.startswith("-") and "--hash" not in line and not re.search(r"#sha\d+=", line):
            wrong = f"found {line!r} without a hash; every package must have one (--hash=sha256:…). Make the lock with `{again}`."
            raise ConfigError(wrong, file=lock, line=number)
    given, file, inputs = (metadata or {}).get("requires-python"), script, [lock]
    project = join(folder, PROJECT)
    if given is None and os.path.isfile(checkout.absolute(project)):
        given, file = folder_requires(folder, checkout), project
        inputs.append(project)
    return Recipe(
        kind="requirements",
        content=[line for _, line in lines],
        title=lock,
        lock=lock,
        requires_python=given if isinstance(given, str) else None,
        requires_file=file,
        inputs=tuple(inputs),
    )


def requirement_lines(text: str) -> list[tuple[int, str]]:
    """The lines of a requirements file without comments, continued lines joined, with their 1-based numbers.

    The format is pip's (its reference, "Requirements File Format").
    """
    lines: list[tuple[int, str]] = []
    start, pending = 0, ""
    for number, raw in enumerate(text.splitlines(), 1):
        line = re.sub(r"(^|\s)#.*$", "", raw).strip()
        if not pending:
            start = number
        if line.endswith("\\"):
            pending += line[:-1].strip() + " "
            continue
        whole = " ".join((pending + line).split())
        pending = ""
        if whole:
            lines.append((start, whole))
    if pending.strip():
        lines.append((start, " ".join(pending.split())))
    return lines
