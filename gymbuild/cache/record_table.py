"""The table of contents of a large log: where its records are, up to some place.

It is derived: one that is missing, damaged or of another log is not used.

Format (ours), `<log>.toc`, in the machine's byte order: magic, the log's 16 bytes, the number of records, up to where
the table goes, how many bytes count up to there; the crc32 of the records' keys in ascending order, their sizes, their
places; the crc32 of it all.
"""

from __future__ import annotations

import os
import struct
import zlib

# not from typing: importing that costs a third of a start that finds nothing to do
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_MAGIC = b"gymbuild-toc-1\n\0"
_HEAD = struct.Struct("=16s16sIIQQ")
_ORDER = 0x01020304


class Table:
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


def read_table(path: str, identity: bytes) -> Table | None:
    """The table of the log that has this identity; None when there is none that can be used."""
    try:
        descriptor = os.open(path + ".toc", os.O_RDONLY | os.O_CLOEXEC)
        try:
            data = os.read(descriptor, os.fstat(descriptor).st_size)
        finally:
            os.close(descriptor)
    except OSError:
        return None
    if len(data) < _HEAD.size + 4:
        return None
    magic, of, order, count, end, live = _HEAD.unpack_from(data)
    first = _HEAD.size
    if (magic, of, order) != (_MAGIC, identity, _ORDER) or len(data) != first + 20 * count + 4:
        return None
    view = memoryview(data)
    if zlib.crc32(view[:-4]) != int.from_bytes(view[-4:], "little"):
        return None
    return Table(
        count,
        end,
        live,
        view[first : first + 4 * count].cast("I"),
        view[first + 4 * count : first + 12 * count].cast("Q"),
        view[first + 12 * count : first + 20 * count].cast("Q"),
    )


def write_table(
    path: str, identity: bytes, end: int, live: int, places: list[tuple[bytes, tuple[int, int]]]
) -> None:
    """Write the table of a log; where it cannot be written, reading takes longer."""
    rows = sorted((zlib.crc32(name), size, place) for name, (place, size) in places)
    count = len(rows)
    head = _HEAD.pack(_MAGIC, identity, _ORDER, count, end, live)
    hashes = struct.pack(f"={count}I", *(row[0] for row in rows))
    data = head + hashes + struct.pack(f"={2 * count}Q", *(row[1] for row in rows), *(row[2] for row in rows))
    temporary = f"{path}.toc.{os.getpid()}.new"
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        try:
            write_all(descriptor, data + zlib.crc32(data).to_bytes(4, "little"))
        finally:
            os.close(descriptor)
        os.replace(temporary, path + ".toc")
    except OSError:
        remove(temporary)


def remove(path: str) -> None:
    """Remove a file, if that can be done."""
    try:
        os.unlink(path)
    except OSError:
        return


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of it.

    Raises:
        OSError: it cannot be written.
    """
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
