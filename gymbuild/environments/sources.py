"""Reading what environments are made of: pyproject files, path dependencies, and the folders they lie in."""

from __future__ import annotations

import os
from typing import Any

from gymbuild.cache.digests import digest_bytes, digest_json
from gymbuild.system.errors import ConfigError
from gymbuild.system.paths import Checkout

PROJECT = "pyproject.toml"

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

_NOT_SOURCES = {"__pycache__", "build", "dist", "node_modules", "venv"}


def tree_digest(folder: str, checkout: Checkout) -> str:
    """The digest over the files of a folder that is installed as a copy.

    Hidden entries, build products, caches and prepared datasets (`*.jsonl`) do not count.
    """
    absolute = checkout.absolute(folder)
    files = [path for path in tree_paths(absolute) if os.path.isfile(path)]
    return digest_json([[os.path.relpath(path, absolute), file_digest(path, checkout)] for path in files])


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


def build_files(folder: str, checkout: Checkout) -> list[str]:
    """The files of a folder that say how it is built and what it needs, relative to the checkout."""
    names = (PROJECT, "setup.cfg", "setup.py")
    return [join(folder, name) for name in names if os.path.isfile(checkout.absolute(join(folder, name)))]


def folder_requires(folder: str, checkout: Checkout) -> str | None:
    """The requires-python that the pyproject.toml of a folder gives, if it does."""
    project = join(folder, PROJECT)
    if not os.path.isfile(checkout.absolute(project)):
        return None
    given = read_project(project, checkout).get("project", {}).get("requires-python")
    return given if isinstance(given, str) else None


def relevant_file(path: str, checkout: Checkout) -> Any:
    """What of a build file decides an environment: JSON for a pyproject.toml, else a digest."""
    if os.path.basename(path) == PROJECT:
        return relevant(read_project(path, checkout))
    return file_digest(path, checkout)


def relevant(document: dict[str, Any]) -> Any:
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


def read_project(path: str, checkout: Checkout) -> dict[str, Any]:
    """What a pyproject.toml says.

    Raises:
        ConfigError: it cannot be read, or is not TOML.
    """
    return parse_toml(decoded(read_bytes(path, checkout), path), path, "the file")


def parse_toml(text: str, file: str, what: str) -> dict[str, Any]:
    """`text` as TOML.

    Raises:
        ConfigError: it is not TOML; `what` of `file` is named.
    """
    import tomllib

    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{what} is not valid TOML: {error}.", file=file) from None
    for table in ("project", "tool"):
        if not isinstance(document.get(table, {}), dict):
            raise ConfigError(f"found {document[table]!r}; `{table}` must be a table.", file=file, key=table)
    return document


def read_bytes(path: str, checkout: Checkout) -> bytes:
    """The content of a file.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        with open(checkout.absolute(path), "rb") as file:
            return file.read()
    except OSError as error:
        raise ConfigError(f"the file cannot be read: {error.strerror}.", file=path) from None


def decoded(data: bytes, path: str) -> str:
    """A file's content as text.

    Raises:
        ConfigError: it is not UTF-8.
    """
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ConfigError("the file is not UTF-8.", file=path) from None


def file_digest(path: str, checkout: Checkout) -> str:
    """The digest of a file.

    Raises:
        ConfigError: it cannot be read.
    """
    return digest_bytes(read_bytes(path, checkout))


def join(folder: str, name: str) -> str:
    """`name` in a folder that may be the checkout itself."""
    return f"{folder}/{name}" if folder and folder != "." else name


def unique(*paths: str) -> tuple[str, ...]:
    """`paths` without repetitions, in their order."""
    return tuple(dict.fromkeys(paths))
