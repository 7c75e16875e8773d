"""The folders under `benchmarks/`: which YAML files may be configs, and what benchmark each would be."""

from __future__ import annotations

import os
from collections.abc import Iterator

from gymbuild.cache.witness import Signature, signature
from gymbuild.system.clock import now_ns

FOLDER = "benchmarks"
MANIFEST = "manifest.yaml"
SUFFIX = ".yaml"
Folders = dict[str, tuple[Signature | None, int, tuple[str, ...]]]
"""Every folder scanned → signature, time of scanning, names in it."""


def yaml_files(top: str, folders: Folders, denied: dict[str, OSError]) -> Iterator[str]:
    """Every `*.yaml` under a folder, symbolic links followed, names with a leading dot left out.

    Args:
        top: the folder.
        folders: takes every folder that was scanned.
        denied: takes the folders that this user may not read.
    """
    pending: list[tuple[str, frozenset[tuple[int, int]]]] = [(top, frozenset())]
    while pending:
        folder, above = pending.pop()
        at = now_ns()
        # taken before the scan, so that what changes meanwhile shows
        before = signature(folder)
        names, files, deeper = scan(folder, denied)
        folders[folder] = (before, at, names)
        if before is None or before[:2] in above:
            continue
        yield from files
        pending += [(path, above | {before[:2]}) for path in deeper]


def scan(
    folder: str, denied: dict[str, OSError] | None = None
) -> tuple[tuple[str, ...], list[str], list[str]]:
    """Of a folder: every name in it, the YAML files that may be configs, and the folders to scan.

    Args:
        folder: absolute.
        denied: takes the error where this user may not read it.
    """
    names, files, deeper = [], [], []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                names.append(entry.name)
                if entry.name.startswith("."):
                    continue
                if _is_folder(entry, denied):
                    deeper.append(entry.path)
                elif entry.name.endswith(SUFFIX) and entry.name != MANIFEST:
                    files.append(entry.path)
    except PermissionError as error:
        if denied is not None:
            denied[folder] = error
    except OSError:
        pass
    return tuple(sorted(names)), files, deeper


def _is_folder(entry: os.DirEntry[str], denied: dict[str, OSError] | None) -> bool:
    try:
        return entry.is_dir()
    except OSError as error:  # a symlink to where this user may not read
        if denied is not None and isinstance(error, PermissionError):
            denied[entry.path] = error
        return False


def benchmark_name(relative: str) -> str:
    """The name of a benchmark by its config's path under `benchmarks/`: `X/config.yaml` and `X.yaml` are `X`."""
    parts = relative.removesuffix(SUFFIX).split(os.sep)
    return parts[0] if len(parts) == 2 and parts[1] == "config" else "/".join(parts)
