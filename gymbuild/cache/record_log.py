"""An append-only file of keyed records: cheap to read one of, safe to append to from several processes.

It holds what makes the next start fast: witnesses, digests, and doit's own state. A record is one frame,
appended by one `write` under a lock, so that what a killed process had finished stays. A torn frame ends the
reading: it is cut off by the next write. A damaged record counts as none. Nothing but time is lost either way.

A large log has a table of contents beside it (record_table.py): only what was appended behind the place up to which
it goes is read frame by frame. This module reads, record_writing.py writes.

Format (ours): the magic line and 16 random bytes, then frames of `<key length:u32><value length:u32><crc32 of key and
value:u32><key utf-8><value marshal>`; the last frame of a key wins, one without a value deletes it.
"""

from __future__ import annotations

import marshal
import os
import struct
import zlib

# not from typing: importing that costs a third of a start that finds nothing to do
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from gymbuild.cache.record_table import Table

MAGIC = b"gymbuild-log-2\n"
START = len(MAGIC) + 16
HEADER = struct.Struct("<III")
CHUNK = 1 << 16
"""Bytes that are read at a time when frames are looked for."""


class RecordLog:
    """The records of one file, the last one of each key.

    Reading never locks and never writes. The file is opened at the first use and kept open: what others do to it
    since is seen by `refresh` and `put`, and not before.

    Args:
        path: the file; it and its folder are made at the first write.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.descriptor = -1
        self.forget()

    def __del__(self) -> None:
        self.forget()

    def __reduce__(self) -> tuple[object, ...]:
        return (RecordLog, (self.path,))

    def forget(self) -> None:
        """Know nothing of the file; the next use opens it."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
        self.descriptor = -1
        self.is_open = False
        self.seen: tuple[int, int] | None = None
        self.identity = b""
        self.end = 0
        """Up to where whole frames are known; 0: there is no log of ours."""
        self.live = 0
        """Bytes of frames up to there that count."""
        self.table: Table | None = None
        self.gone: set[int] = set()
        """Records of the table that later frames replaced or deleted."""
        self.tail: dict[bytes, tuple[int, int]] = {}
        """Place and size of what was appended behind the table, the last frame of each key; deletions too."""
        self.deleted: set[bytes] = set()

    # -- reading ---------------------------------------------------------------------------------------------------

    def get(self, key: str) -> Any:
        """The value of `key`, or None."""
        if not self.is_open:
            self.open()
        name = encoded(key)
        place = self.tail.get(name)
        if place is not None:
            return None if name in self.deleted else value_in(self.frame_at(place), name)
        if self.table is None:
            return None
        for at in self.table.candidates(name):
            if at not in self.gone:
                value = value_in(self.frame_at(self.table.place(at)), name)
                if value is not None:
                    return value
        return None

    def __contains__(self, key: str) -> bool:
        return self.get(key) is not None

    def keys(self) -> Iterator[str]:
        """Every key that has a value, the one that was written longest ago first."""
        if not self.is_open:
            self.open()
        return iter([name.decode("utf-8", "surrogatepass") for name, _ in self.places()])

    def places(self) -> list[tuple[bytes, tuple[int, int]]]:
        """Keys with the places of their records, in the order of the file."""
        found = [
            self.table.place(at)
            for at in range(self.table.count if self.table is not None else 0)
            if self.table is not None and at not in self.gone
        ]
        named = [(self._key_at(place), place) for place in found]
        named += [(name, place) for name, place in self.tail.items() if name not in self.deleted]
        return sorted(named, key=lambda item: item[1])

    def open(self) -> None:
        """Open the file and note where its records are; that it is not there is no error."""
        self.is_open = True
        try:
            self.descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            status = os.fstat(self.descriptor)
            start = os.pread(self.descriptor, START, 0)
        except OSError:
            return
        self.seen = (status.st_dev, status.st_ino)
        if len(start) < START or not start.startswith(MAGIC):
            return
        self.identity = start[len(MAGIC) :]
        self.end = START
        if status.st_size > CHUNK:
            from gymbuild.cache.record_table import read_table

            table = read_table(self.path, self.identity)
            if table is not None and table.end <= status.st_size:
                self.table, self.end, self.live = table, table.end, table.live
        self.scan(status.st_size)

    def scan(self, size: int) -> None:
        """Note the whole frames from the end of what is known up to `size`."""
        position, base, chunk = self.end, 0, b""
        tail, table, deleted = self.tail, self.table, self.deleted
        header = HEADER.size
        while position + header <= size:
            if not base <= position <= base + len(chunk) - header:
                base, chunk = position, os.pread(self.descriptor, CHUNK, position)
                if len(chunk) < header:
                    break
            key_length, value_length, _ = HEADER.unpack_from(chunk, position - base)
            total = header + key_length + value_length
            if position + total > size:
                break
            if position + header + key_length > base + len(chunk):
                base, chunk = position, os.pread(self.descriptor, max(CHUNK, header + key_length), position)
            start = position + header - base
            name = chunk[start : start + key_length]
            old = tail.pop(name, None)
            if old is not None:
                self.live -= 0 if name in deleted else old[1]
            elif table is not None:
                at = self._in_table(table, name)
                if at is not None:
                    self.gone.add(at)
                    self.live -= table.place(at)[1]
            tail[name] = (position, total)
            if value_length:
                deleted.discard(name)
                self.live += total
            else:
                deleted.add(name)
            position += total
        self.end = position

    def _in_table(self, table: Table, name: bytes) -> int | None:
        for at in table.candidates(name):
            if at not in self.gone and self._key_at(table.place(at)) == name:
                return at
        return None

    def frame_at(self, place: tuple[int, int]) -> bytes:
        """The frame at a place, as it is in the file."""
        return os.pread(self.descriptor, place[1], place[0])

    def _key_at(self, place: tuple[int, int]) -> bytes:
        start = os.pread(self.descriptor, min(place[1], 256), place[0])
        length = HEADER.unpack_from(start)[0] if len(start) >= HEADER.size else 0
        if HEADER.size + length > len(start):
            start = os.pread(self.descriptor, min(place[1], HEADER.size + length), place[0])
        return start[HEADER.size : HEADER.size + length]

    def refresh(self) -> None:
        """See what other processes have appended since; costs one `stat` when nothing was."""
        if not self.is_open:
            return
        try:
            status = os.stat(self.path)
        except OSError:
            self.forget()
            return
        if self.seen != (status.st_dev, status.st_ino) or status.st_size < self.end or not self.end:
            self.forget()
        elif status.st_size > self.end:
            self.scan(status.st_size)

    # -- writing ---------------------------------------------------------------------------------------------------

    def put(self, records: Iterable[tuple[str, Any]]) -> None:
        """Append records, in one write; they are there for every later reader, also after a SIGKILL.

        Args:
            records: keys with what marshal can write; None deletes the key.

        Raises:
            OSError: the file cannot be written.
        """
        # a start that finds nothing to do writes nothing
        from gymbuild.cache.record_writing import append

        append(self, records)


def encoded(key: str) -> bytes:
    """A key as frames have it."""
    return key.encode("utf-8", "surrogatepass")


def value_in(frame: bytes, name: bytes) -> Any:
    """The value in a frame, or None when it is not whole or that of another key."""
    header = HEADER.size
    if len(frame) <= header:
        return None
    key_length, value_length, crc = HEADER.unpack_from(frame)
    start = header + key_length
    view = memoryview(frame)
    if start + value_length != len(frame) or frame[header:start] != name or zlib.crc32(view[header:]) != crc:
        return None
    return marshal.loads(view[start:])
