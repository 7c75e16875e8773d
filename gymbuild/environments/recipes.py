"""What decides a script's environment: the files beside it, and the words on its dataset."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass
from typing import Any

from gymbuild.datasets import Dataset
from gymbuild.digests import DigestCache, digest_bytes, digest_json
from gymbuild.environments.environment import Kind
from gymbuild.errors import ConfigError
from gymbuild.paths import Checkout

PROJECT = "pyproject.toml"
PROJECT_LOCK = "uv.lock"
REQUIREMENTS_LOCK = "requirements.lock"

_METADATA = re.compile(
    r"^# /// (?P<type>[a-zA-Z0-9-]+)[ \t]*\r?\n(?P<lines>(?:#(?: .*)?\r?\n)+?)# ///[ \t]*$", re.M
)
"""A block of inline metadata, as the specification "Inline script metadata" (PEP 723) has it."""
_LOCAL_SOURCE = re.compile(r'^source = \{ (?P<kind>editable|directory|virtual) = "(?P<path>[^"]*)"', re.M)
_LOCK_REQUIRES = re.compile(r'^requires-python = "(?P<specifiers>[^"]*)"', re.M)
_PROSE = (
    "authors",
    "classifiers",
    "description",
    "keywords",
    "license",
    "license-files",
    "maintainers",
    "readme",
    "urls",
)
_ELSEWHERE = ("--target", "--prefix", "--python", "--system", "--root", "--break-system-packages", "--user")
_ELSEWHERE_SHORT = ("-t", "-p")
_FILE_OPTIONS = (
    "-r",
    "--requirement",
    "--requirements",
    "-c",
    "--constraint",
    "--constraints",
    "--override",
    "--overrides",
    "--build-constraint",
    "--build-constraints",
    "-b",
    "--excludes",
)
_NOT_SOURCES = {"__pycache__", "build", "dist", "node_modules", "venv"}


@dataclass(frozen=True, slots=True)
class Recipe:
    """What an environment is made of, before it is known for which Python."""

    kind: Kind
    content: Any
    """JSON: everything that decides what is installed, nothing that does not."""
    title: str
    lock: str | None = None
    requires_python: str | None = None
    """As it is given by a person."""
    locked_python: str | None = None
    """The requires-python that uv wrote into the lock, given or not."""
    inputs: tuple[str, ...] = ()
    editable: tuple[str, ...] = ()
    trees: tuple[str, ...] = ()
    words: tuple[str, ...] = ()


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
        return _dependencies(dataset, checkout)
    if there(PROJECT) and there(PROJECT_LOCK):
        return _project(folder, checkout, digests)
    metadata = script_metadata(script, checkout)
    if there(REQUIREMENTS_LOCK):
        return _requirements(folder, metadata, checkout)
    if metadata is not None:
        return _script(script, metadata, checkout, digests)
    return Recipe("interpreter", None, "the interpreter")


def script_metadata(script: str, checkout: Checkout) -> dict[str, Any] | None:
    """The inline metadata (PEP 723) of a script, or None when it has none.

    Raises:
        ConfigError: it has two blocks, or one that is no TOML.
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
    return _toml("\n".join(lines), script, "the `# /// script` block")


def _project(folder: str, checkout: Checkout, digests: DigestCache) -> Recipe:
    project = _join(folder, PROJECT)
    lock = _join(folder, PROJECT_LOCK)
    document = _toml(_text(project, checkout), project, "the file")
    lock_text = _text(lock, checkout)
    local = _local_sources(lock_text, folder, checkout)
    given = document.get("project", {}).get("requires-python")
    return Recipe(
        kind="project",
        content=[_relevant(document), _digest(lock, digests), _local_content(local, checkout)],
        title=lock,
        lock=lock,
        requires_python=given if isinstance(given, str) else None,
        locked_python=_locked_python(lock_text),
        inputs=_unique(project, lock, *_project_files(local, checkout)),
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
    lock_text = _text(lock, checkout)
    local = _local_sources(lock_text, os.path.dirname(script), checkout)
    given = metadata.get("requires-python")
    return Recipe(
        kind="script",
        content=[metadata, _digest(lock, digests), _local_content(local, checkout)],
        title=lock,
        lock=lock,
        requires_python=given if isinstance(given, str) else None,
        locked_python=_locked_python(lock_text),
        inputs=_unique(script, lock, *_project_files(local, checkout)),
        **_local_fields(local, checkout),
    )


def _requirements(folder: str, metadata: dict[str, Any] | None, checkout: Checkout) -> Recipe:
    lock = _join(folder, REQUIREMENTS_LOCK)
    lines = requirement_lines(_text(lock, checkout))
    again = f"uv pip compile --universal --generate-hashes REQUIREMENTS -o {lock}"
    for number, line in lines:
        if line.startswith(_FILE_OPTIONS) or line.startswith(("-e", "--editable")):
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
    given, inputs = (metadata or {}).get("requires-python"), [lock]
    project = _join(folder, PROJECT)
    if given is None and os.path.isfile(checkout.absolute(project)):
        given = _toml(_text(project, checkout), project, "the file").get("project", {}).get("requires-python")
        inputs.append(project)
    return Recipe(
        kind="requirements",
        content=[line for _, line in lines],
        title=lock,
        lock=lock,
        requires_python=given if isinstance(given, str) else None,
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


def _dependencies(dataset: Dataset, checkout: Checkout) -> Recipe:
    words = dependency_words(dataset.prepare_dependencies)

    def wrong(found: str, allowed: str) -> ConfigError:
        return ConfigError(
            f"found {found!r}; {allowed}", file=dataset.config_path, key="prepare_dependencies"
        )

    inputs: list[str] = []
    editable: list[str] = []
    trees: list[str] = []
    given = None
    content: list[Any] = [list(words)]
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        name, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if name in _ELSEWHERE or name in _ELSEWHERE_SHORT or re.match(r"-[tp].", word):
            raise wrong(
                word,
                "the words are installed into a venv of the dataset's own, so options that install elsewhere "
                "are not allowed. The setting python= chooses the interpreter.",
            )
        if name in ("-e", "--editable", *_FILE_OPTIONS):
            if not equals:
                if position == len(words):
                    raise wrong(word, "a path must follow it.")
                value = words[position]
                position += 1
            is_editable = name in ("-e", "--editable")
        elif word.startswith("-"):
            continue
        else:
            value, is_editable = word, False
            if not _is_local(value, checkout):
                continue
        path = checkout.relative(re.sub(r"\[[^\]]*\]$", "", value.removeprefix("file://")))
        absolute = checkout.absolute(path)
        if is_editable or os.path.isdir(absolute):
            if not os.path.isdir(absolute):
                raise wrong(f"{word} {value}", f"there is no folder {path} in the checkout.")
            files = _build_files(path, checkout)
            inputs.extend(files)
            content.append([path, [_relevant_file(file, checkout) for file in files]])
            if given is None:
                given = _folder_requires(path, checkout)
            if is_editable:
                if checkout.contains(path):
                    editable.append(path)
            else:
                trees.append(path)
                content.append([path, tree_digest(absolute)])
        elif "://" not in value:
            if not os.path.isfile(absolute):
                raise wrong(value, f"there is no file {path} in the checkout.")
            inputs.append(path)
            content.append([path, _file_digest(absolute)])
    from gymbuild.masking import mask

    shown = re.sub(r"://[^@/\s]*@", "://***@", mask(" ".join(words)))
    return Recipe(
        kind="dependencies",
        content=content,
        title=shown if len(shown) <= 60 else shown[:57] + "…",
        requires_python=given,
        inputs=_unique(*inputs),
        editable=_unique(*editable),
        trees=_unique(*trees),
        words=words,
    )


def dependency_words(entries: tuple[str, ...]) -> tuple[str, ...]:
    """The words for `uv pip install`; an entry such as `-e PATH` is two of them."""
    words: list[str] = []
    for entry in entries:
        entry = entry.strip()
        words.extend(shlex.split(entry) if entry.startswith("-") else [entry] if entry else [])
    return tuple(words)


def tree_digest(folder: str) -> str:
    """The digest over the files of a folder that is installed as a copy.

    Hidden entries, build products, caches and prepared datasets (`*.jsonl`) do not count.
    """
    found: list[list[str]] = []
    for path in tree_paths(folder):
        if os.path.isfile(path):
            found.append([os.path.relpath(path, folder), _file_digest(path)])
    return digest_json(found)


def tree_paths(folder: str) -> list[str]:
    """The folders and files that `tree_digest` reads, absolute, sorted."""
    paths = []
    for base, folders, files in os.walk(folder):
        folders[:] = sorted(
            name
            for name in folders
            if name[:1] != "." and name not in _NOT_SOURCES and not name.endswith(".egg-info")
        )
        paths.append(base)
        paths.extend(
            os.path.join(base, name)
            for name in files
            if name[:1] != "." and not name.endswith((".jsonl", ".pyc"))
        )
    return sorted(paths)


def _is_local(word: str, checkout: Checkout) -> bool:
    path = re.sub(r"\[[^\]]*\]$", "", word)
    if word.startswith("file://"):
        return True
    if "://" in word or " @ " in word:
        return False
    return word.startswith((".", "/")) or (
        ("/" in word or word.endswith((".whl", ".zip", ".tar.gz")))
        and os.path.exists(checkout.absolute(path))
    )


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
            content.append([kind, [_relevant_file(file, checkout) for file in _build_files(path, checkout)]])
            continue
        content.append(
            [kind, path, [_relevant_file(file, checkout) for file in _build_files(path, checkout)]]
        )
        if kind == "directory":
            content.append([path, tree_digest(checkout.absolute(path))])
    return content


def _local_fields(local: list[tuple[str, str]], checkout: Checkout) -> dict[str, tuple[str, ...]]:
    return {
        "editable": tuple(path for kind, path in local if kind == "editable" and checkout.contains(path)),
        "trees": tuple(path for kind, path in local if kind == "directory"),
    }


def _project_files(local: list[tuple[str, str]], checkout: Checkout) -> list[str]:
    return [file for _, path in local for file in _build_files(path, checkout)]


def _build_files(folder: str, checkout: Checkout) -> list[str]:
    names = (PROJECT, "setup.cfg", "setup.py")
    return [_join(folder, name) for name in names if os.path.isfile(checkout.absolute(_join(folder, name)))]


def _folder_requires(folder: str, checkout: Checkout) -> str | None:
    project = _join(folder, PROJECT)
    if not os.path.isfile(checkout.absolute(project)):
        return None
    given = _toml(_text(project, checkout), project, "the file").get("project", {}).get("requires-python")
    return given if isinstance(given, str) else None


def _relevant_file(path: str, checkout: Checkout) -> Any:
    if os.path.basename(path) == PROJECT:
        return _relevant(_toml(_text(path, checkout), path, "the file"))
    return _file_digest(checkout.absolute(path))


def _relevant(document: dict[str, Any]) -> Any:
    """What of a pyproject.toml decides an environment: no prose, and no settings of other tools."""
    project = {name: value for name, value in document.get("project", {}).items() if name not in _PROSE}
    tools = document.get("tool", {})
    if "build-system" not in document and not tools.get("uv", {}).get("package"):
        tools = {"uv": tools["uv"]} if "uv" in tools else {}
    # a date in TOML has no form in JSON
    return _plain([project, document.get("build-system"), document.get("dependency-groups"), tools])


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value if isinstance(value, str | int | float | bool) or value is None else str(value)


def _locked_python(lock_text: str) -> str | None:
    match = _LOCK_REQUIRES.search(lock_text)
    return match["specifiers"] if match else None


def _toml(text: str, file: str, what: str) -> dict[str, Any]:
    import tomllib

    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{what} is no valid TOML: {error}.", file=file) from None
    for table in ("project", "tool"):
        if not isinstance(document.get(table, {}), dict):
            raise ConfigError(f"found {document[table]!r}; `{table}` must be a table.", file=file, key=table)
    return document


def _text(path: str, checkout: Checkout) -> str:
    try:
        with open(checkout.absolute(path), encoding="utf-8") as file:
            return file.read()
    except UnicodeDecodeError:
        raise ConfigError("the file is not UTF-8.", file=path) from None
    except OSError as error:
        raise ConfigError(f"the file cannot be read: {error.strerror}.", file=path) from None


def _digest(path: str, digests: DigestCache) -> str:
    digest = digests.get(path)
    if digest is None:
        raise ConfigError("the file cannot be read.", file=path)
    return digest


def _file_digest(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return digest_bytes(file.read())
    except OSError as error:
        raise ConfigError(f"the file cannot be read: {error.strerror}.", file=path) from None


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder and folder != "." else name


def _unique(*paths: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(paths))
