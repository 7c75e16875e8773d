"""Reading a prepared file in one pass: whole lines, some hundred at a time."""

from __future__ import annotations

from collections.abc import Iterator
from io import BufferedReader

from gymbuild.plan.digesting import Digester, Rows
from gymbuild.plan.rows import BOM

BLOCK = 1 << 18
"""Bytes read at a time, and the rest of the last line."""
PART = 8 << 20
"""Bytes of the file that a process is given at a time."""


def read_part(jsonl: str, start: int, end: int, digest: Digester) -> Rows:
    """The rows whose lines begin at byte `start` or later and before byte `end`.

    Args:
        jsonl: the file.
        start: first byte.
        end: the byte after the last.
        digest: from `digester`.

    Raises:
        OSError: the file cannot be read.
    """
    found = Rows()
    for data in whole_lines(jsonl, start, end):
        digest(data, found)
        if found.error is not None:
            break
    return found


def whole_lines(jsonl: str, start: int, end: int, block: int = BLOCK) -> Iterator[bytes]:
    """The lines that begin at byte `start` or later and before byte `end`, many at a time.

    The byte order mark at the file's start is left out. Lines are cut at `\\n` alone here.

    Args:
        jsonl: the file.
        start: first byte.
        end: the byte after the last.
        block: bytes to read at a time.

    Raises:
        OSError: the file cannot be read.
    """
    with open(jsonl, "rb") as file:
        position = _line_start(file, start)
        stop = _line_start(file, end)
        file.seek(position)
        while position < stop:
            data = file.read(min(block, stop - position))
            if not data.endswith(b"\n"):
                data += file.readline()
            if not data:
                break
            first = position == 0
            position += len(data)
            if first:
                data = data.removeprefix(BOM)
            yield data


def _line_start(file: BufferedReader, offset: int) -> int:
    """Where the first line begins that begins at byte `offset` or later."""
    if offset <= 0:
        return 0
    file.seek(offset - 1)
    return offset - 1 + len(file.readline())
