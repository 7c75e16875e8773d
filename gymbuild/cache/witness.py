"""Witnesses: cheap observations that prove, by `stat` alone, that something has not changed.

A witness holds when every file, folder and environment variable that it names is as it was written down. Only whoever
compared the contents writes one; that it fails to hold proves nothing, and the contents are compared again. This module
is on the path of a start that finds nothing to do, so it imports next to nothing.
"""

from __future__ import annotations

import os
import struct
import time

# not from typing: importing that costs a third of a start that finds nothing to do
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

Signature = tuple[int, int, int, int, int]
"""What `stat` says of a file: device, inode, size in bytes, mtime and ctime in nanoseconds."""

Variables = tuple[tuple[str, str | None], ...]
"""Environment variables with the digests of their values, None for "is not set"."""

Witness = tuple[tuple[tuple[str, Signature | None], ...], Variables]
"""Paths (relative to the checkout, or absolute) with their signatures, None for "is not there"; and variables."""

RACY_NS = 40_000_000
"""How long after a change a second one might get the same timestamp, in nanoseconds: some steps of the
coarsest clock that Linux kernels stamp files with (10 ms)."""
RACY_COARSE_NS = 2_100_000_000
"""The same, on file systems that store whole seconds (or two)."""

_FIELDS = struct.Struct("<5Q")
SIZE = _FIELDS.size
"""Bytes of a packed signature."""
NOTHING = bytes(SIZE)
"""The packed signature of what is not there."""
_MASK = (1 << 64) - 1


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


def pack(entries: Iterable[tuple[str, Signature | None]]) -> tuple[str, bytes]:
    """Paths and signatures in the form that `Comparison` takes: paths with zero bytes between, 40 bytes a signature."""
    # no path has a zero byte, so what has one is nowhere
    there = [(path, found) for path, found in entries if "\0" not in path]
    return (
        "\0".join(path for path, _ in there),
        b"".join(NOTHING if found is None else _packed(found) for _, found in there),
    )


def _packed(found: Signature) -> bytes:
    return _FIELDS.pack(*(value & _MASK for value in found))


class Comparison:
    """Compares files with the signatures that they had; each is looked up once.

    Args:
        root: the checkout, for relative paths.
    """

    def __init__(self, root: str) -> None:
        self._prefix = root + "/"
        self._found: dict[str, bytes] = {}

    def differing(self, paths: str, signatures: bytes, most: int = 0) -> list[str]:
        """The paths that have not the signatures that are expected.

        Args:
            paths: as `pack` gives them.
            signatures: likewise.
            most: how many are enough; 0 for all.
        """
        differing: list[str] = []
        if not signatures:
            return differing
        found, at = self._found, 0
        for path in paths.split("\0"):
            now = found.get(path)
            if now is None:
                now = found[path] = self._signature(path)
            if now != signatures[at : at + SIZE]:
                differing.append(path)
                if len(differing) == most:
                    break
            at += SIZE
        return differing

    def _signature(self, path: str) -> bytes:
        try:
            status = os.stat(path if path[:1] == "/" else self._prefix + path)
            return _FIELDS.pack(
                status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
            )
        except (OSError, ValueError):
            return NOTHING
        except struct.error:  # a time before 1970
            found = signature(path if path[:1] == "/" else self._prefix + path)
            return NOTHING if found is None else _packed(found)


def holds(witness: Witness, root: str) -> bool:
    """Whether everything that the witness names is as it was.

    Args:
        witness: as `Witness` says.
        root: the checkout, for relative paths.
    """
    paths, signatures = pack(witness[0])
    return not Comparison(root).differing(paths, signatures, 1) and variables_hold(witness[1])


def variables_hold(variables: Iterable[tuple[str, str | None]]) -> bool:
    """Whether environment variables are as they were."""
    return all(variable_digest(name) == digest for name, digest in variables)


def variable_digest(name: str) -> str | None:
    """The digest of an environment variable's value, or None when it is not set. The value goes nowhere."""
    value = os.environ.get(name)
    if value is None:
        return None
    # not before a variable is set: most starts do without it
    from xxhash import xxh3_128

    return xxh3_128(b"gymbuild-env\0" + os.fsencode(value)).hexdigest()
