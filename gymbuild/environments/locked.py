"""Which lock beside a script decides its environment, and what it says."""

from __future__ import annotations

import os
import re
from typing import Any

from gymbuild.cache.digests import DigestCache
from gymbuild.config.datasets import Dataset
from gymbuild.environments.dependencies import dependencies_recipe
from gymbuild.environments.recipe import Recipe
from gymbuild.environments.sources import (
    PROJECT,
    build_files,
    folder_requires,
    join,
    read_text,
    read_toml,
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


def recipe_for(dataset: Dataset, checkout: Checkout, digests: DigestCache) -> Recipe:
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
        return _project(folder, checkout, digests)
    metadata = script_metadata(script, checkout)
    if there(REQUIREMENTS_LOCK):
        return _requirements(script, metadata, checkout)
    if metadata is not None:
        return _script(script, metadata, checkout, digests)
    return Recipe("interpreter", None, "the interpreter")


def script_metadata(script: str, checkout: Checkout) -> dict[str, Any] | None:
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
    return read_toml("\n".join(lines), script, "the `# /// script` block")


def _project(folder: str, checkout: Checkout, digests: DigestCache) -> Recipe:
    project = join(folder, PROJECT)
    lock = join(folder, PROJECT_LOCK)
    document = read_toml(read_text(project, checkout), project, "the file")
    lock_text = read_text(lock, checkout)
    local = _local_sources(lock_text, folder, checkout)
    given = document.get("project", {}).get("requires-python")
    return Recipe(
        kind="project",
        content=[relevant(document), _digest(lock, digests), _local_content(local, checkout)],
        title=lock,
        lock=lock,
        requires_python=given if isinstance(given, str) else None,
        requires_file=project,
        locked_python=_locked_python(lock_text),
        inputs=unique(project, lock, *_project_files(local, checkout)),
        **_local_fields(local, checkout),
    )


def _script(script: str, metadata: dict[str, Any], checkout: Checkout, digests: DigestCache) -> Recipe:
    lock = script + ".lock"
    if not os.path.isfile(checkout.absolute(lock)):
        raise ConfigError(
            f"the script has inline metadata, but no lock: there is no {lock}. Run `uv lock --script {script}` "
            "and keep the file beside the script.",
            file=script,
        )
    lock_text = read_text(lock, checkout)
    local = _local_sources(lock_text, os.path.dirname(script), checkout)
    given = metadata.get("requires-python")
    return Recipe(
        kind="script",
        content=[metadata, _digest(lock, digests), _local_content(local, checkout)],
        title=lock,
        lock=lock,
        requires_python=given if isinstance(given, str) else None,
        requires_file=script,
        locked_python=_locked_python(lock_text),
        inputs=unique(script, lock, *_project_files(local, checkout)),
        **_local_fields(local, checkout),
    )


def _requirements(script: str, metadata: dict[str, Any] | None, checkout: Checkout) -> Recipe:
    folder = os.path.dirname(script)
    lock = join(folder, REQUIREMENTS_LOCK)
    lines = requirement_lines(read_text(lock, checkout))
    again = f"uv pip compile --universal --generate-hashes REQUIREMENTS -o {lock}"
    for number, line in lines:
        if line.startswith(_NOT_FLAT):
            raise ConfigError(
                f"found {line!r}; a lock names every package itself, with its hashes. Make it with `{again}`.",
                file=lock,
                line=number,
            )
        if not line.startswith("-") and "--hash" not in line and not re.search(r"#sha\d+=", line):
            raise ConfigError(
                f"found {line!r} without a hash; every package must have one (--hash=sha256:…). Make the lock with `{again}`.",
                file=lock,
                line=number,
            )
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


def _local_sources(lock_text: str, folder: str, checkout: Checkout) -> list[tuple[str, str]]:
    # uv writes one `source = { … }` line per package; reading just those is much faster than parsing
    # a lock of a thousand packages, and a damaged lock is reported by uv itself
    found = {
        (match["kind"], checkout.relative(os.path.join(folder, match["path"])))
        for match in _LOCAL_SOURCE.finditer(lock_text)
    }
    return sorted(found)


def _local_content(local: list[tuple[str, str]], checkout: Checkout) -> list[Any]:
    content: list[Any] = []
    for kind, path in local:
        if kind == "virtual":
            # nothing of it is installed: what it depends on counts, where it lies does not
            content.append([kind, [relevant_file(file, checkout) for file in build_files(path, checkout)]])
            continue
        content.append([kind, path, [relevant_file(file, checkout) for file in build_files(path, checkout)]])
        if kind == "directory":
            content.append([path, tree_digest(checkout.absolute(path))])
    return content


def _local_fields(local: list[tuple[str, str]], checkout: Checkout) -> dict[str, tuple[str, ...]]:
    return {
        "editable": tuple(path for kind, path in local if kind == "editable" and checkout.contains(path)),
        "trees": tuple(path for kind, path in local if kind == "directory"),
    }


def _project_files(local: list[tuple[str, str]], checkout: Checkout) -> list[str]:
    return [file for _, path in local for file in build_files(path, checkout)]


def _locked_python(lock_text: str) -> str | None:
    match = _LOCK_REQUIRES.search(lock_text)
    return match["specifiers"] if match else None


def _digest(path: str, digests: DigestCache) -> str:
    digest = digests.get(path)
    if digest is None:
        raise ConfigError("the file cannot be read.", file=path)
    return digest
