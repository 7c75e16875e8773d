"""From the bytes of a prepared file to the ids and digests of its rows, by the fastest way that is right.

Two ways give the same bytes: `plain` is the reference of rows.py; `orjson` parses and writes with orjson and leaves to
the reference every row that orjson refuses or might write otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Literal

from gymbuild.plan import rows
from gymbuild.plan.prompts import FilledAlreadyError, MissingFieldError, Prompt, filled_params

DIGEST_SIZE = 32
"""Bytes of a SHA-256."""
MOST_SHOWN = 10
"""How many ids or rows an error lists."""
_MOST_SHAPES = 1000

Way = Literal["orjson", "plain"]


@dataclass(frozen=True, slots=True)
class Rules:
    """What decides, beside its content, what task a row makes."""

    prompt: Prompt | None = None
    ids: str = "content"
    """`content` gives rows without an id one from their content; `explicit` refuses them."""


@dataclass(slots=True)
class Lines:
    """Lines that have something in common: the first ten, and how many there are."""

    count: int = 0
    first: list[int] = field(default_factory=list)

    def add(self, number: int) -> None:
        """One more, in the file's order."""
        self.count += 1
        if len(self.first) < MOST_SHOWN:
            self.first.append(number)

    def extend(self, other: Lines, offset: int) -> None:
        """The lines of a later part of the file, that begins after `offset` lines."""
        self.count += other.count
        self.first = (self.first + [number + offset for number in other.first])[:MOST_SHOWN]


@dataclass(slots=True)
class Rows:
    """What a part of a prepared file has: for each row its id and digest, in the file's order.

    Compact on purpose: about 110 bytes for a row of any size.
    """

    lines: int = 0
    """How many lines the part has."""
    ids: list[str] = field(default_factory=list)
    stated: bytearray = field(default_factory=bytearray)
    """For each row, 1 when it states its id, 0 when that comes from its content."""
    digests: bytearray = field(default_factory=bytearray)
    """32 bytes for each row."""
    lacking: Lines = field(default_factory=Lines)
    """Rows without an id, where ids are asked for."""
    filled: Lines = field(default_factory=Lines)
    """Rows that have an input although a template is to make it."""
    missing: dict[str, Lines] = field(default_factory=dict)
    """By field, rows that lack a field of the template."""
    error: tuple[int, str] | None = None
    """The first row that nothing can be made of: its line and what is wrong. Nothing after it was read."""

    def extend(self, other: Rows) -> None:
        """Add what the next part of the file has."""
        if self.error is not None:
            return
        offset = self.lines
        self.ids += other.ids
        self.stated += other.stated
        self.digests += other.digests
        self.lacking.extend(other.lacking, offset)
        self.filled.extend(other.filled, offset)
        for name, found in other.missing.items():
            self.missing.setdefault(name, Lines()).extend(found, offset)
        if other.error is not None:
            self.error = (other.error[0] + offset, other.error[1])
        self.lines += other.lines


class LackingIdError(rows.RowError):
    """A row without an id, where ids are asked for."""


def digest_row(line: bytes, rules: Rules) -> tuple[str, bool, bytes]:
    """One row's id, whether it states it, and its digest: the reference, with the standard library alone.

    Args:
        line: the row's bytes.
        rules: prompt template and the rule for ids.

    Raises:
        RowError: no task can be made of it.
    """
    row = rows.parse_row(line)
    task_id = rows.explicit_id(row)
    data = None
    if task_id is None:
        if rules.ids == "explicit":
            raise LackingIdError("the row has no task_id, problem_id or instance_id")
        data = rows.canonical_bytes(rows.task_input(row))
    if rules.prompt is not None:
        filled = {**row, "responses_create_params": filled_params(rules.prompt, row)}
        digest = sha256(rows.canonical_bytes(rows.task_input(filled))).digest()
    else:
        digest = sha256(rows.canonical_bytes(rows.task_input(row)) if data is None else data).digest()
    if task_id is None:
        assert data is not None
        return rows.content_id(data), False, digest
    return task_id, True, digest


Digester = Callable[[bytes, Rows], None]
"""Adds the rows of some whole lines to what was found; after an error in a row it leaves the rest."""


def digester(rules: Rules, way: Way | None = None) -> Digester:
    """The function that digests whole lines.

    Args:
        rules: prompt template and the rule for ids.
        way: `orjson` or `plain`; None for the fastest.
    """
    return _plain(rules) if way == "plain" else _orjson(rules)


def _add_plain(line: bytes, number: int, rules: Rules, found: Rows) -> bool:
    """Add a row by the reference; False when nothing can be made of it, so that reading ends."""
    if not line.strip(rows.BLANKS):
        return True
    try:
        task_id, stated, digest = digest_row(line, rules)
    except LackingIdError:
        found.lacking.add(number)
    except FilledAlreadyError:
        found.filled.add(number)
    except MissingFieldError as error:
        found.missing.setdefault(error.field, Lines()).add(number)
    except rows.RowError as error:
        found.error = (number, str(error))
        return False
    else:
        found.ids.append(task_id)
        found.stated.append(stated)
        found.digests += digest
    return True


def _plain(rules: Rules) -> Digester:
    def add(data: bytes, found: Rows) -> None:
        for line in rows.split_lines(data):
            found.lines += 1
            if not _add_plain(line, found.lines, rules, found):
                return

    return add


_Task = tuple[str, bool, bytes]


def _orjson_row(rules: Rules) -> Callable[[bytes], _Task | None]:
    """The function that digests one row with orjson; None where the reference has to decide."""
    import orjson

    loads, dumps, sort_keys = orjson.loads, orjson.dumps, orjson.OPT_SORT_KEYS
    prompt, explicit = rules.prompt, rules.ids == "explicit"
    left_out: dict[tuple[str, ...], list[str]] = {}
    """By the keys of a row, as most rows of a file have the same: which of them are bookkeeping."""

    def digest(line: bytes) -> _Task | None:
        row = loads(line)
        if type(row) is not dict or "task_input" in row or not _same_numbers(row.values()):
            return None
        task_id: Any = None
        for key in rows.ID_KEYS:
            task_id = row.get(key)
            if task_id is not None:
                break
        stated = task_id is not None
        if stated and type(task_id) is not str:
            if type(task_id) is not int:
                return None
            task_id = str(task_id)
        if not stated and explicit:
            return None
        params = None if prompt is None else filled_params(prompt, row)
        keys = tuple(row)
        bookkeeping = left_out.get(keys)
        if bookkeeping is None:
            if len(left_out) >= _MOST_SHAPES:
                left_out.clear()
            bookkeeping = left_out[keys] = [key for key in keys if rows.is_bookkeeping(key)]
        for key in bookkeeping:
            del row[key]
        data = None
        if not stated:
            data = dumps(row, None, sort_keys)
            task_id = rows.content_id(data)
        if params is not None:
            row["responses_create_params"] = params
            data = None
        if data is None:
            data = dumps(row, None, sort_keys)
        return task_id, stated, sha256(data).digest()

    def digest_or_none(line: bytes) -> _Task | None:
        try:
            return digest(line)
        except (ValueError, TypeError, RecursionError, rows.RowError):
            return None

    return digest_or_none


def _orjson(rules: Rules) -> Digester:
    digest = _orjson_row(rules)

    def add(data: bytes, found: Rows) -> None:
        ids, stated, digests = found.ids, found.stated, found.digests
        number = found.lines
        for line in rows.split_lines(data):
            number += 1
            task = digest(line)
            if task is not None:
                ids.append(task[0])
                stated.append(task[1])
                digests += task[2]
            elif not _add_plain(line, number, rules, found):
                break
        found.lines = number

    return add


def _same_numbers(values: Iterable[Any]) -> bool:
    """Whether orjson read and writes all numbers in `values` as Python does.

    Integers beyond 64 bits come out of orjson as floats of at least 2**63, and only floats from 1e-4 to 1e16 are
    sure to be written alike; nothing else can differ. A negative zero may have been the integer `-0`.
    """
    for value in values:
        found = type(value)
        if found is str or found is int:
            continue
        if found is dict:
            if not _same_numbers(value.values()):
                return False
        elif found is list:
            if not _same_numbers(value):
                return False
        elif found is float and not (
            1e-4 <= abs(value) < 1e15 or (value == 0.0 and math.copysign(1.0, value) > 0.0)
        ):
            return False
    return True
