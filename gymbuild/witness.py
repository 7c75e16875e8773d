"""Witnesses: lists of cheap observations that prove, by `stat` alone, that something has not changed.

A witness holds when every file, folder and environment variable that it names is as it was written down.
It is only ever written by whoever compared the contents; that it fails to hold proves nothing, and the
contents are compared again. This module is on the path of a start that finds nothing to do, so it imports
next to nothing.
"""

from __future__ import annotations

import os
import time

# not from typing: importing that costs a third of a start that finds nothing to do
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Signature = tuple[int, int, int, int, int]
"""What `stat` says of a file: device, inode, size in bytes, mtime and ctime in nanoseconds."""

Witness = tuple[tuple[tuple[str, Signature | None], ...], tuple[tuple[str, str | None], ...]]
"""Paths (relative to the checkout, or absolute) with their signatures, None for "is not there"; and
environment variables with the digests of their values, None for "is not set"."""

RACY_NS = 40_000_000
"""How long after a change a second one might get the same timestamp, in nanoseconds: some steps of the
coarsest clock that Linux kernels stamp files with (10 ms)."""
RACY_COARSE_NS = 2_100_000_000
"""The same, on file systems that store whole seconds (or two)."""


def signature(path: str) -> Signature | None:
    """The signature of what `path` leads to (symlinks followed), or None when nothing is there."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def racy_until(found: Signature) -> int:
    """Until when (nanoseconds since the epoch) a change could hide behind this signature.

    Only ctime counts: every change of content moves it, and no program can set it.
    """
    coarse = found[3] % 1_000_000_000 == 0 and found[4] % 1_000_000_000 == 0
    return found[4] + (RACY_COARSE_NS if coarse else RACY_NS)


def is_racy(found: Signature, at: int) -> bool:
    """Whether content that was read at `at` (nanoseconds) could have changed since without a trace."""
    return at < racy_until(found)


def wait_until_not_racy(signatures: Iterable[Signature | None]) -> None:
    """Sleep until none of the signatures could hide a change (at most the coarsest clock's step)."""
    now = time.time_ns()
    until = max((racy_until(found) for found in signatures if found is not None), default=0)
    if until > now:
        time.sleep(min((until - now) / 1e9 + 0.001, RACY_COARSE_NS / 1e9))


def holds(witness: Witness, root: str, environment_digest: Mapping[str, str | None] | None = None) -> bool:
    """Whether everything that the witness names is as it was.

    Args:
        witness: as `Witness` says.
        root: the checkout, for relative paths.
        environment_digest: digests of environment variables already computed, by name.
    """
    return _paths_hold(witness[0], root) and _variables_hold(witness[1], environment_digest or {})


def all_hold(witnesses: Sequence[Witness], root: str) -> bool:
    """Whether several witnesses hold; what many of them name is looked at once.

    Args:
        witnesses: as `Witness` says.
        root: the checkout, for relative paths.
    """
    if len(witnesses) == 1:
        return holds(witnesses[0], root)
    paths: dict[str, Signature | None] = {}
    variables: dict[str, str | None] = {}
    for witness in witnesses:
        for path, expected in witness[0]:
            if paths.setdefault(path, expected) != expected:
                return False
        for name, digest in witness[1]:
            if variables.setdefault(name, digest) != digest:
                return False
    return _paths_hold(paths.items(), root) and _variables_hold(variables.items(), {})


def _paths_hold(paths: Iterable[tuple[str, Signature | None]], root: str) -> bool:
    stat = os.stat
    prefix = root + "/"
    for path, expected in paths:
        try:
            status = stat(path if path[:1] == "/" else prefix + path)
        except (OSError, ValueError):
            if expected is not None:
                return False
            continue
        if expected is None or expected != (
            status.st_dev,
            status.st_ino,
            status.st_size,
            status.st_mtime_ns,
            status.st_ctime_ns,
        ):
            return False
    return True


def _variables_hold(variables: Iterable[tuple[str, str | None]], known: Mapping[str, str | None]) -> bool:
    for name, digest in variables:
        if name in known:
            now = known[name]
        elif name not in os.environ:
            now = None
        else:
            # not before a variable is set: its digest takes an import
            from gymbuild.digests import variable_digest

            now = variable_digest(name)
        if now != digest:
            return False
    return True
