"""Reading a prepared file in one pass: whole lines, a megabyte or so at a time, in one process or several."""

from __future__ import annotations

import os
from collections.abc import Iterator
from io import FileIO

from gymbuild.plan.digesting import Digester, Rows, Rules, Way, digester
from gymbuild.plan.rows import BOM, unreadable

BLOCK = 1 << 20
"""Bytes read at a time."""
PART = 8 << 20
"""Bytes of the file that a process is given at a time."""
LEAST_FOR_PROCESSES = 24 << 20
"""Bytes below which starting processes costs more than it saves."""


def read_rows(jsonl: str, rules: Rules, *, processes: int = 1, way: Way | None = None) -> Rows:
    """The ids and digests of all rows of a prepared file.

    Args:
        jsonl: the file.
        rules: prompt template and the rule for ids.
        processes: how many processes work at once; 0 decides by the file's size and the machine.
        way: see `digester`.

    Raises:
        PlanError: the file cannot be read.
    """
    try:
        size = os.stat(jsonl).st_size
        if not processes:
            processes = _processors() if size >= LEAST_FOR_PROCESSES else 1
        if processes > 1 and size > PART:
            from gymbuild.plan.workers import read_in_processes

            return read_in_processes(jsonl, size, rules, min(processes, -(-size // PART)), way)
        return read_part(jsonl, 0, size, digester(rules, way))
    except OSError as error:
        raise unreadable(jsonl, error) from None


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
        block: bytes to read at a time; a longer line comes whole all the same.

    Raises:
        OSError: the file cannot be read.
    """
    with open(jsonl, "rb", buffering=0) as file:
        position = _line_start(file, start, block)
        stop = _line_start(file, end, block)
        file.seek(position)
        rest: list[bytes] = []
        while position < stop:
            data = file.read(min(block, stop - position))
            if not data:
                break
            if position == 0:
                while len(data) < len(BOM) and (more := file.read(min(len(BOM), stop) - len(data))):
                    data += more
                position += len(data)
                data = data.removeprefix(BOM)
            else:
                position += len(data)
            cut = data.rfind(b"\n") + 1
            if not cut:
                rest.append(data)
                continue
            rest.append(data[:cut])
            yield b"".join(rest)
            rest = [data[cut:]]
        last = b"".join(rest)
        if last:
            yield last


def _line_start(file: FileIO, offset: int, block: int) -> int:
    """Where the first line begins that begins at `offset` or later."""
    if offset <= 0:
        return 0
    position = offset - 1
    file.seek(position)
    while data := file.read(block):
        found = data.find(b"\n")
        if found >= 0:
            return position + found + 1
        position += len(data)
    return position


def _processors() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1
