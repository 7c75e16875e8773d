"""Witnesses: lists of cheap observations that prove, by `stat` alone, that something has not changed.

A witness holds when every file, folder and environment variable that it names is as it was written down.
It is only ever written by whoever compared the contents; that it fails to hold proves nothing, and the
contents are compared again. This module is on the path of a start that finds nothing to do, so it imports
next to nothing.
"""

from __future__ import annotations

import os
import struct
import time

# not from typing: importing that costs a third of a start that finds nothing to do
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

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
    """Whether content that was read at `at` (`clock.now_ns`, told before) could have changed since without a trace."""
    return at < racy_until(found)


def wait_until_not_racy(signatures: Iterable[Signature | None]) -> None:
    """Sleep until none of the signatures could hide a change (at most the coarsest clock's step)."""
    from gymbuild.system.clock import now_ns

    now = now_ns()
    until = max((racy_until(found) for found in signatures if found is not None), default=0)
    if until > now:
        time.sleep(min((until - now) / 1e9 + 0.001, RACY_COARSE_NS / 1e9))


_FIELDS = struct.Struct("<5Q")
SIZE = _FIELDS.size
"""Bytes of a packed signature."""
_MASK = (1 << 64) - 1
_ALL = 1 << 62
_NOTHING = bytes(SIZE)
"""Packed for "is not there"."""


def pack_signatures(entries: Iterable[tuple[str, Signature | None]]) -> tuple[bytes, bytes]:
    """Paths and signatures in the form that `Look` compares: paths with zero bytes between, 40 bytes a signature.

    Args:
        entries: as in a witness.
    """
    # no path has a zero byte, so what has one is nowhere
    there = [(path, found) for path, found in entries if "\0" not in path]
    return (
        b"\0".join(os.fsencode(path) for path, _ in there),
        b"".join(_NOTHING if found is None else _packed(found) for _, found in there),
    )


def nothing_at(paths: bytes) -> bytes:
    """The signatures that say that nothing is at any of these packed paths."""
    return _NOTHING * (paths.count(b"\0") + 1) if paths else b""


def _packed(found: Signature) -> bytes:
    return _FIELDS.pack(*(value & _MASK for value in found))


class _PlainLook:
    """Looks at files, each once, and compares them with the signatures that they had.

    Args:
        root: the checkout, for relative paths.
    """

    releases_the_lock = False
    """Whether other threads run while it compares."""

    def __init__(self, root: str) -> None:
        self._prefix = root + "/"
        self._found: dict[str, bytes] = {}

    def differences(
        self, paths: bytes, signatures: bytes, most: int = 0, first: int = 0, last: int = _ALL
    ) -> list[int]:
        """Which paths have not the signatures that are expected.

        Args:
            paths: packed, as `pack_signatures` gives them.
            signatures: packed.
            most: how many are enough to know; 0 for all.
            first: the path to begin with.
            last: the path to end before.
        """
        differing: list[int] = []
        if not signatures:
            return differing
        found, prefix = self._found, self._prefix
        for at, path in enumerate(os.fsdecode(paths).split("\0")[first:last], first):
            now = found.get(path)
            if now is None:
                seen = signature(path if path[:1] == "/" else prefix + path)
                now = found[path] = _NOTHING if seen is None else _packed(seen)
            if now != signatures[SIZE * at : SIZE * (at + 1)]:
                differing.append(at)
                if len(differing) == most:
                    break
        return differing


class _NativeLook:
    """The same, by the native module."""

    releases_the_lock = True

    def __init__(self, root: str, native: Any) -> None:
        self._look = native.start_look(os.fsencode(root))
        self._differences = native.differences

    def differences(
        self, paths: bytes, signatures: bytes, most: int = 0, first: int = 0, last: int = _ALL
    ) -> list[int]:
        """As `_PlainLook.differences`; other threads run meanwhile."""
        found: list[int] = self._differences(self._look, paths, signatures, most, first, last)
        return found


if TYPE_CHECKING:
    Look = _PlainLook | _NativeLook


def look_at(root: str, *, plain: bool = False) -> Look:
    """A new look at a checkout's files: what it has seen once it does not look at again.

    Args:
        root: the checkout, for relative paths.
        plain: without the native module.
    """
    if not plain:
        try:
            from gymbuild.cache import _signatures

            with open(os.path.join(os.path.dirname(__file__), "_signatures.c"), "rb") as file:
                import zlib

                if _signatures.source == f"{zlib.crc32(file.read()):08x}":
                    return _NativeLook(root, _signatures)
        except (ImportError, OSError):
            pass
    return _PlainLook(root)


def holds(witness: Witness, root: str, environment_digest: Mapping[str, str | None] | None = None) -> bool:
    """Whether everything that the witness names is as it was.

    Args:
        witness: as `Witness` says.
        root: the checkout, for relative paths.
        environment_digest: digests of environment variables already computed, by name.
    """
    return _paths_hold(witness[0], root) and _variables_hold(witness[1], environment_digest or {})


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
            from gymbuild.cache.digests import variable_digest

            now = variable_digest(name)
        if now != digest:
            return False
    return True
