"""An append-only file of keyed records: cheap to read one of, safe to append to from several processes.

It holds what makes the next start fast: witnesses, digests, and doit's own state. A record is one frame,
appended by one `write` under a lock, so that what a killed process had finished stays. A torn frame ends the
reading: it is cut off by the next write. A damaged record counts as none. Nothing but time is lost either way.

A large log has a table of contents beside it, which says where its records are up to some place; only what was
appended behind that place is read frame by frame. The table is derived: one that is missing, damaged or of
another log is not used.

Formats (ours). The log: the magic line and 16 random bytes, then frames of `<key length:u32><value length:u32>
<crc32 of key and value:u32><key utf-8><value marshal>`; the last frame of a key wins, one without a value deletes
it. The table (`<log>.toc`, in the machine's byte order): magic, the log's 16 bytes, up to where it goes, how many
bytes count up to there, the number of records; the crc32 of their keys in ascending order, their sizes, their
places; the crc32 of it all.
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

MAGIC = b"gymbuild-log-2\n"
_START = len(MAGIC) + 16
_HEADER = struct.Struct("<III")
_COMPACT_MINIMUM = 1 << 20
"""Bytes below which a log is never compacted."""
_CHUNK = 1 << 16
"""Bytes that are read at a time when frames are looked for."""

_TABLE_MAGIC = b"gymbuild-toc-1\n\0"
_TABLE = struct.Struct("=16s16sIIQQ")
_ORDER = 0x01020304
_TABLE_MINIMUM = 64
"""Records behind the table that are read frame by frame before a new one is written; and the 16th part of all."""


class RecordLog:
    """The records of one file, the last one of each key.

    Reading never locks and never writes. The file is opened at the first use and kept open: what others do to it
    since is seen by `refresh` and `put`, and not before.

    Args:
        path: the file; it and its folder are made at the first write.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptor = -1
        self._forget()

    def __del__(self) -> None:
        self._forget()

    def __reduce__(self) -> tuple[object, ...]:
        return (RecordLog, (self.path,))

    def _forget(self) -> None:
        """Know nothing of the file; the next use opens it."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1
        self._read = False
        self._seen: tuple[int, int] | None = None
        self._identity = b""
        self._end = 0
        """Up to where whole frames are known; 0: there is no log of ours."""
        self._live = 0
        """Bytes of frames up to there that count."""
        self._table = _NO_TABLE
        self._gone: set[int] = set()
        """Records of the table that later frames replaced or deleted."""
        self._tail: dict[bytes, tuple[int, int]] = {}
        """Place and size of what was appended behind the table, the last frame of each key; deletions too."""
        self._deleted: set[bytes] = set()

    # -- reading ---------------------------------------------------------------------------------------------------

    def get(self, key: str) -> Any:
        """The value of `key`, or None."""
        if not self._read:
            self._open()
        name = _encoded(key)
        place = self._tail.get(name)
        if place is not None:
            return None if name in self._deleted else _value(self._frame_at(place), name)
        for at in self._table.candidates(name):
            if at not in self._gone:
                value = _value(self._frame_at(self._table.place(at)), name)
                if value is not None:
                    return value
        return None

    def __contains__(self, key: str) -> bool:
        return self.get(key) is not None

    def keys(self) -> Iterator[str]:
        """Every key that has a value, the one that was written longest ago first."""
        if not self._read:
            self._open()
        return iter([name.decode("utf-8", "surrogatepass") for name, _ in self._places()])

    def _places(self) -> list[tuple[bytes, tuple[int, int]]]:
        """Keys with the places of their records, in the order of the file."""
        found = [
            place
            for at in range(self._table.count)
            for place in [self._table.place(at)]
            if at not in self._gone
        ]
        named = [(self._key_at(place), place) for place in found]
        named += [(name, place) for name, place in self._tail.items() if name not in self._deleted]
        return sorted(named, key=lambda item: item[1])

    def _open(self) -> None:
        self._read = True
        try:
            self._descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            status = os.fstat(self._descriptor)
            start = os.pread(self._descriptor, _START, 0)
        except OSError:
            return
        self._seen = (status.st_dev, status.st_ino)
        if len(start) < _START or not start.startswith(MAGIC):
            return
        self._identity = start[len(MAGIC) :]
        self._end = _START
        table = _read_table(self.path, self._identity) if status.st_size > _CHUNK else None
        if table is not None and table.end <= status.st_size:
            self._table, self._end, self._live = table, table.end, table.live
        self._scan(status.st_size)

    def _scan(self, size: int) -> None:
        """Note the whole frames from the end of what is known up to `size`."""
        position, base, chunk = self._end, 0, b""
        tail, table, deleted = self._tail, self._table, self._deleted
        header = _HEADER.size
        while position + header <= size:
            if not base <= position <= base + len(chunk) - header:
                base, chunk = position, os.pread(self._descriptor, _CHUNK, position)
                if len(chunk) < header:
                    break
            key_length, value_length, _ = _HEADER.unpack_from(chunk, position - base)
            total = header + key_length + value_length
            if position + total > size:
                break
            if position + header + key_length > base + len(chunk):
                base, chunk = position, os.pread(self._descriptor, max(_CHUNK, header + key_length), position)
            start = position + header - base
            name = chunk[start : start + key_length]
            old = tail.pop(name, None)
            if old is not None:
                self._live -= 0 if name in deleted else old[1]
            elif table.count:
                at = self._in_table(name)
                if at is not None:
                    self._gone.add(at)
                    self._live -= table.place(at)[1]
            tail[name] = (position, total)
            if value_length:
                deleted.discard(name)
                self._live += total
            else:
                deleted.add(name)
            position += total
        self._end = position

    def _in_table(self, name: bytes) -> int | None:
        for at in self._table.candidates(name):
            if at not in self._gone and self._key_at(self._table.place(at)) == name:
                return at
        return None

    def _frame_at(self, place: tuple[int, int]) -> bytes:
        return os.pread(self._descriptor, place[1], place[0])

    def _key_at(self, place: tuple[int, int]) -> bytes:
        start = os.pread(self._descriptor, min(place[1], 256), place[0])
        length = _HEADER.unpack_from(start)[0] if len(start) >= _HEADER.size else 0
        if _HEADER.size + length > len(start):
            start = os.pread(self._descriptor, min(place[1], _HEADER.size + length), place[0])
        return start[_HEADER.size : _HEADER.size + length]

    def refresh(self) -> None:
        """See what other processes have appended since; costs one `stat` when nothing was."""
        if not self._read:
            return
        try:
            status = os.stat(self.path)
        except OSError:
            self._forget()
            return
        if self._seen != (status.st_dev, status.st_ino) or status.st_size < self._end or not self._end:
            self._forget()
        elif status.st_size > self._end:
            self._scan(status.st_size)

    # -- writing ---------------------------------------------------------------------------------------------------

    def put(self, records: Iterable[tuple[str, Any]]) -> None:
        """Append records, in one write; they are there for every later reader, also after a SIGKILL.

        Args:
            records: keys with what marshal can write; None deletes the key.

        Raises:
            OSError: the file cannot be written.
        """
        frames = b"".join(_frame(key, value) for key, value in records)
        if not frames:
            return
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        descriptor = self._locked()
        try:
            status = os.fstat(descriptor)
            start = os.pread(descriptor, _START, 0)
            if (
                not self._end
                or self._seen != (status.st_dev, status.st_ino)
                or start != MAGIC + self._identity
                or status.st_size < self._end
            ):
                self._forget()
                self._open()
            elif status.st_size > self._end:
                self._scan(status.st_size)
            if self._end < status.st_size:
                # a torn tail, or not ours: cut it off before anything is appended behind it
                os.ftruncate(descriptor, self._end)
            if not self._end:
                self._identity = os.urandom(16)
                frames = MAGIC + self._identity + frames
            _write_all(descriptor, frames)
            self._end = self._end or _START
            self._scan(os.fstat(descriptor).st_size)
            if self._end > _COMPACT_MINIMUM and self._end > 3 * self._live:
                self._compact()
            elif len(self._tail) > max(_TABLE_MINIMUM, self._table.count // 16):
                _write_table(self.path, self._identity, self._end, self._live, self._places())
        finally:
            os.close(descriptor)

    def _locked(self) -> int:
        """The file, open for appending, locked, and still the one under its name."""
        while True:
            descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                lock(descriptor)
                status = os.fstat(descriptor)
                try:
                    now = os.stat(self.path)
                except FileNotFoundError:
                    now = None
                if now is not None and (now.st_dev, now.st_ino) == (status.st_dev, status.st_ino):
                    return descriptor
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)

    def _compact(self) -> None:
        """Write the live records into a new file and put it in the place of this one (lock held)."""
        identity = os.urandom(16)
        frames, places, position = [MAGIC, identity], [], _START
        for name, place in self._places():
            frame = self._frame_at(place)
            if _value(frame, name) is not None:
                frames.append(frame)
                places.append((name, (position, len(frame))))
                position += len(frame)
        temporary = f"{self.path}.{os.getpid()}.new"
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
            try:
                _write_all(descriptor, b"".join(frames))
            finally:
                os.close(descriptor)
            os.replace(temporary, self.path)
        except OSError:
            # what was put is in the old file
            _remove(temporary)
            return
        self._forget()
        if len(places) > _TABLE_MINIMUM:
            _write_table(self.path, identity, position, position - _START, places)


class _Table:
    """A table of contents.

    Args:
        count: how many records it has.
        end: up to where it goes.
        live: how many bytes of frames count up to there.
        hashes: crc32 of the keys, ascending.
        sizes: of the frames.
        places: of the frames.
    """

    __slots__ = ("_hashes", "_places", "_sizes", "count", "end", "live")

    def __init__(
        self,
        count: int,
        end: int,
        live: int,
        hashes: memoryview | tuple[int, ...],
        sizes: memoryview | tuple[int, ...],
        places: memoryview | tuple[int, ...],
    ) -> None:
        self.count, self.end, self.live = count, end, live
        self._hashes, self._sizes, self._places = hashes, sizes, places

    def candidates(self, name: bytes) -> Iterable[int]:
        """The records whose key may be `name`."""
        if not self.count:
            return ()
        wanted, hashes = zlib.crc32(name), self._hashes
        low, high = 0, self.count
        while low < high:
            middle = (low + high) // 2
            if hashes[middle] < wanted:
                low = middle + 1
            else:
                high = middle
        high = low
        while high < self.count and hashes[high] == wanted:
            high += 1
        return range(low, high)

    def place(self, at: int) -> tuple[int, int]:
        """Place and size of a record's frame."""
        return self._places[at], self._sizes[at]


_NO_TABLE = _Table(0, 0, 0, (), (), ())


def _read_table(path: str, identity: bytes) -> _Table | None:
    """The table of the log that has this identity; None when there is none that can be used."""
    try:
        descriptor = os.open(path + ".toc", os.O_RDONLY | os.O_CLOEXEC)
        try:
            data = os.read(descriptor, os.fstat(descriptor).st_size)
        finally:
            os.close(descriptor)
    except OSError:
        return None
    if len(data) < _TABLE.size + 4:
        return None
    magic, of, order, count, end, live = _TABLE.unpack_from(data)
    first = _TABLE.size
    if (magic, of, order) != (_TABLE_MAGIC, identity, _ORDER) or len(data) != first + 20 * count + 4:
        return None
    view = memoryview(data)
    if zlib.crc32(view[:-4]) != int.from_bytes(view[-4:], "little"):
        return None
    return _Table(
        count,
        end,
        live,
        view[first : first + 4 * count].cast("I"),
        view[first + 4 * count : first + 12 * count].cast("Q"),
        view[first + 12 * count : first + 20 * count].cast("Q"),
    )


def _write_table(
    path: str, identity: bytes, end: int, live: int, places: list[tuple[bytes, tuple[int, int]]]
) -> None:
    """Write the table of a log; where it cannot be written, reading takes longer."""
    rows = sorted((zlib.crc32(name), size, place) for name, (place, size) in places)
    count = len(rows)
    head = _TABLE.pack(_TABLE_MAGIC, identity, _ORDER, count, end, live)
    hashes = struct.pack(f"={count}I", *(row[0] for row in rows))
    data = head + hashes + struct.pack(f"={2 * count}Q", *(row[1] for row in rows), *(row[2] for row in rows))
    temporary = f"{path}.toc.{os.getpid()}.new"
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        try:
            _write_all(descriptor, data + zlib.crc32(data).to_bytes(4, "little"))
        finally:
            os.close(descriptor)
        os.replace(temporary, path + ".toc")
    except OSError:
        _remove(temporary)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        return


def lock(descriptor: int) -> None:
    """An exclusive lock on an open file; none where the file system has no locks."""
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError as error:
        import errno

        if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP):
            raise


def _encoded(key: str) -> bytes:
    return key.encode("utf-8", "surrogatepass")


def _frame(key: str, value: Any) -> bytes:
    name, data = _encoded(key), b"" if value is None else marshal.dumps(value, 4)
    return _HEADER.pack(len(name), len(data), zlib.crc32(name + data)) + name + data


def _value(frame: bytes, name: bytes) -> Any:
    """The value in a frame, or None when it is not whole or that of another key."""
    header = _HEADER.size
    if len(frame) <= header:
        return None
    key_length, value_length, crc = _HEADER.unpack_from(frame)
    start = header + key_length
    view = memoryview(frame)
    if start + value_length != len(frame) or frame[header:start] != name or zlib.crc32(view[header:]) != crc:
        return None
    return marshal.loads(view[start:])


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
