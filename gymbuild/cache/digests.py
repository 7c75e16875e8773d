"""Digests: XXH3-128 of content, and the cache that saves hashing what `stat` says is the same."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterable
from typing import Any

from xxhash import xxh3_128

from gymbuild.cache.database import Database
from gymbuild.cache.witness import Signature, is_racy, signature, wait_until_not_racy
from gymbuild.system.clock import ask_also, now_ns

CHUNK = 1 << 20
"""Bytes read at a time."""


def digest_bytes(data: bytes) -> str:
    """XXH3-128 of `data`, as 32 hex digits."""
    return xxh3_128(data).hexdigest()


def digest_json(value: Any) -> str:
    """XXH3-128 of `value` as canonical JSON."""
    return digest_bytes(canonical_json(value))


def canonical_json(value: Any) -> bytes:
    """JSON with sorted keys and no spaces, UTF-8; equal values give equal bytes.

    Raises:
        TypeError: a value that JSON has no form for.
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass")


def digest_file(path: str) -> str:
    """XXH3-128 of a file's content.

    Raises:
        OSError: it cannot be read.
    """
    hasher = xxh3_128()
    with open(path, "rb", buffering=0) as file:
        while chunk := file.read(CHUNK):
            hasher.update(chunk)
    return hasher.hexdigest()


class FileHasher:
    """XXH3-128 of content that comes in pieces, each of which is passed on.

    Args:
        write: takes each piece.
    """

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._hasher = xxh3_128()
        self._write = write

    def write(self, piece: bytes) -> None:
        """Hash the next piece, and pass it on."""
        self._hasher.update(piece)
        self._write(piece)

    def digest(self) -> str:
        """The digest of all that came, as 32 hex digits."""
        return self._hasher.hexdigest()


def listing_digest(path: str, ignore: Iterable[str] = ()) -> str | None:
    """The digest of a folder's entry names with their kinds, or None when it is not a readable folder.

    Args:
        path: the folder.
        ignore: entry names that do not count.
    """
    skip = {"__pycache__", ".git", ".cache", *ignore}
    try:
        with os.scandir(path) as entries:
            names = sorted((e.name, e.is_dir()) for e in entries if e.name not in skip)
    except OSError:
        return None
    return digest_json(names)


class DigestCache:
    """Digests of files by path and signature: one hash per content change, shared by all tasks.

    An entry is trusted only when the file's signature is the very one that it was hashed under, and that
    signature was old enough then to hide no second change (git's rule for racily clean entries).

    Args:
        remembered: keeps the digests between runs.
        root: the checkout; paths inside it are kept relative to it.
    """

    def __init__(self, remembered: Database, root: str) -> None:
        self._database = remembered
        ask_also(os.path.dirname(remembered.path))
        self._root = root
        self._prefix = root.rstrip("/") + "/"
        self._fresh: dict[str, tuple[Signature, str, int]] = {}
        self.hashed = 0
        """How many files were hashed, for tests and reports."""

    def _key(self, path: str) -> tuple[str, str]:
        absolute = path if path[:1] == "/" else self._prefix + path
        if absolute.startswith(self._prefix):
            return absolute[len(self._prefix) :], absolute
        return absolute, absolute

    def get(self, path: str) -> str | None:
        """The digest of a file's content, or None when there is no readable regular file.

        Args:
            path: relative to the checkout, or absolute; symlinks are followed.
        """
        key, absolute = self._key(path)
        found = signature(absolute)
        if found is None:
            return None
        fresh = self._fresh.get(key)
        if fresh is not None and fresh[0] == found and not is_racy(found, fresh[2]):
            return fresh[1]
        if fresh is None:
            before = self._database.digest(key)
            if before is not None and before[0] == found:
                return before[1]
        return self._hash(key, absolute)

    def _hash(self, key: str, absolute: str) -> str | None:
        for _ in range(5):
            at = now_ns()
            try:
                status = os.stat(absolute)
                if not stat.S_ISREG(status.st_mode):
                    return None
                before = signature(absolute)
                digest = digest_file(absolute)
            except OSError:
                return None
            if before is not None and signature(absolute) == before:
                break
        else:
            before = None
        self.hashed += 1
        if before is not None:
            self._fresh[key] = (before, digest, at)
        return digest

    def save(self, *, wait: bool = False) -> None:
        """Remember what was hashed since the last save; writes nothing when nothing was.

        An entry whose signature could still hide a change is not remembered.

        Args:
            wait: wait for the clock's step instead, hash such files once more, and remember them if nothing
                changed.
        """
        if not self._fresh:
            return
        if wait:
            racy = [key for key, (found, _, at) in self._fresh.items() if is_racy(found, at)]
            wait_until_not_racy(self._fresh[key][0] for key in racy)
            for key in racy:
                self._hash(key, self._key(key)[1])
        settled = {key: entry for key, entry in self._fresh.items() if not is_racy(entry[0], entry[2])}
        self._database.put_digests([(key, found, digest) for key, (found, digest, _) in settled.items()])
        for key in settled:
            del self._fresh[key]
