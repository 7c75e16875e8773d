"""An append-only file of keyed records: cheap to read whole, safe to append to from several processes.

It holds what makes the next start fast: witnesses, digests, and doit's own state. A record is one frame,
appended by one `write` under a lock, so that what a killed process had finished stays. A torn or damaged
frame ends the reading: what follows it is dropped at the next compaction, and nothing but time is lost.

Format (ours): the magic line, then frames of `<key length:u32><value length:u32><crc32 of key and
value:u32><key utf-8><value marshal>`; the last frame of a key wins, a value of `None` deletes it.
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

MAGIC = b"gymbuild-log-1\n"
_HEADER = struct.Struct("<III")
_COMPACT_MINIMUM = 1 << 20
"""Bytes below which a log is never compacted."""


_TELLING = 4096
"""Bytes before the end of what was read that have to be the same for it to be the same file."""
_read_before: dict[str, tuple[tuple[int, int] | None, int, bytes, dict[str, tuple[int, int]], int]] = {}
"""What this process has read of each file: device and inode, up to where, the bytes, the places of the records,
and the bytes that still count."""


class RecordLog:
    """The records of one file, the last one of each key.

    Reading never locks and never writes. The file is opened at the first use.

    Args:
        path: the file; it and its folder are made at the first write.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._places: dict[str, tuple[int, int]] | None = None
        self._data = b""
        self._seen: tuple[int, int] | None = None
        self._end = 0
        self._live = 0

    def _read(self) -> dict[str, tuple[int, int]]:
        if self._places is None:
            self._places = {}
            self._live = 0
            self._end = 0
            try:
                with open(self.path, "rb") as file:
                    status = os.fstat(file.fileno())
                    self._seen = (status.st_dev, status.st_ino)
                    if self._recall(file.fileno()):
                        file.seek(self._end)
                        tail = file.read()
                        self._data = self._data + tail if tail else self._data
                    else:
                        self._data = file.read()
            except OSError:
                self._data = b""
                self._seen = None
            if self._data.startswith(MAGIC):
                self._scan(self._end or len(MAGIC))
                self._note()
        return self._places

    def _recall(self, descriptor: int) -> bool:
        """Take what this process has read of the very same file before: what is appended to changes no more."""
        read = _read_before.get(self.path)
        if read is None or read[0] != self._seen:
            return False
        _, end, data, places, live = read
        # an inode may have been given to a new file
        last = data[-_TELLING:]
        if os.pread(descriptor, len(last), end - len(last)) != last:
            return False
        self._end, self._data, self._live = end, data, live
        self._places = dict(places)
        return True

    def _note(self) -> None:
        assert self._places is not None
        read = _read_before.get(self.path)
        if self._seen is not None and (read is None or read[:2] != (self._seen, self._end)):
            whole = self._data if len(self._data) == self._end else self._data[: self._end]
            _read_before[self.path] = (self._seen, self._end, whole, dict(self._places), self._live)

    def _scan(self, position: int) -> None:
        assert self._places is not None
        data, size = self._data, len(self._data)
        unpack, header = _HEADER.unpack_from, _HEADER.size
        while position + header <= size:
            key_length, value_length, crc = unpack(data, position)
            start = position + header
            stop = start + key_length + value_length
            if stop > size or zlib.crc32(data[start:stop]) != crc:
                break
            key = data[start : start + key_length].decode("utf-8", "surrogatepass")
            old = self._places.pop(key, None)
            if old:
                self._live -= old[1] + key_length + header
            if value_length:
                self._places[key] = (start + key_length, value_length)
                self._live += stop - position
            position = stop
        self._end = position

    def get(self, key: str) -> Any:
        """The value of `key`, or None."""
        place = self._read().get(key)
        if place is None:
            return None
        return marshal.loads(self._data[place[0] : place[0] + place[1]])

    def __contains__(self, key: str) -> bool:
        return key in self._read()

    def keys(self) -> Iterator[str]:
        """Every key that has a value."""
        return iter(list(self._read()))

    def refresh(self) -> None:
        """See what other processes have appended since; costs one `stat` when nothing was."""
        if self._places is None:
            return
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._places = None
            return
        try:
            status = os.fstat(descriptor)
            if self._seen != (status.st_dev, status.st_ino) or status.st_size < self._end:
                self._places = None
            elif status.st_size > self._end:
                tail = os.pread(descriptor, status.st_size - self._end, self._end)
                self._data = self._data[: self._end] + tail
                self._scan(self._end or len(MAGIC))
        finally:
            os.close(descriptor)

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
            if self._places is None or self._seen != (status.st_dev, status.st_ino):
                self._places = None
                self._read()
            elif status.st_size > self._end:
                self._data = self._data[: self._end] + os.pread(
                    descriptor, status.st_size - self._end, self._end
                )
                self._scan(self._end)
            if status.st_size == 0:
                frames = MAGIC + frames
                self._data, self._end, self._live, self._places = b"", 0, 0, {}
            elif self._end != status.st_size or not self._data.startswith(MAGIC):
                # a torn tail, or not ours: cut it off before anything is appended behind it
                keep = self._end if self._data.startswith(MAGIC) else 0
                os.ftruncate(descriptor, keep)
                self._data = self._data[:keep]
                if not keep:
                    frames, self._places, self._live = MAGIC + frames, {}, 0
                self._end = keep
            _write_all(descriptor, frames)
            self._seen = (status.st_dev, status.st_ino)
            self._data = self._data[: self._end] + frames
            self._scan(self._end or len(MAGIC))
            if self._end > _COMPACT_MINIMUM and self._end > 3 * self._live:
                self._compact()
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
        assert self._places is not None
        frames = [MAGIC]
        for key, (start, length) in self._places.items():
            frames.append(
                _frame_bytes(key.encode("utf-8", "surrogatepass"), self._data[start : start + length])
            )
        temporary = f"{self.path}.{os.getpid()}.new"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        try:
            _write_all(descriptor, b"".join(frames))
        finally:
            os.close(descriptor)
        os.replace(temporary, self.path)
        self._places = None


def lock(descriptor: int) -> None:
    """An exclusive lock on an open file; none where the file system has no locks."""
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError as error:
        import errno

        if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP):
            raise


def _frame(key: str, value: Any) -> bytes:
    return _frame_bytes(
        key.encode("utf-8", "surrogatepass"), b"" if value is None else marshal.dumps(value, 4)
    )


def _frame_bytes(key: bytes, value: bytes) -> bytes:
    return _HEADER.pack(len(key), len(value), zlib.crc32(key + value)) + key + value


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
