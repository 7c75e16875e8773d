"""Rows of a prepared file by the rules of `nemo-gym.eval-plan.v1`: task ids, task inputs, canonical JSON.

This is the plain reference: standard library only, one row at a time. What is faster (digesting.py)
gives the same for every row, and asks here whenever it is not sure to. Content ids are our own extension.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from typing import Any, TypeVar

from gymbuild.system.errors import PlanError
from gymbuild.system.permissions import sentence

ID_KEYS = ("task_id", "problem_id", "instance_id")
"""Where a row's own id is looked for; the first that is not null counts."""
BOOKKEEPING = frozenset(("agent_ref", "task_source", "skills_ref"))
"""Top-level fields that are not part of the task input, as is every one that begins with `_ng_`."""
BOOKKEEPING_PREFIX = "_ng_"
CONTENT_ID_DIGITS = 16
DEEPEST = 500
"""Nesting beyond which a row is an error: Python's own limit differs by version and by who calls."""
BOM = b"\xef\xbb\xbf"
_TOO_DEEP = f"the row is nested more than {DEEPEST} levels deep"
BLANKS = b" \t\r\n"
"""What JSON takes for white space; a line of nothing else is blank."""

Result = TypeVar("Result")


class RowError(PlanError):
    """A row that no task can be made of; the text does not yet say where it is.

    Args:
        text: what is wrong.
    """

    def at(self, jsonl: str, number: int) -> PlanError:
        """The error for the reader, with its place.

        Args:
            jsonl: the prepared file.
            number: the row's line, from 1.
        """
        return PlanError(f"{jsonl}:{number}: {self}")


def lines_of(path: str) -> Iterator[tuple[int, bytes]]:
    """The lines of a JSONL file that hold something, with their numbers from 1.

    Lines end as they do for Python's text files: at `\\n`, `\\r\\n` or `\\r`. A byte order mark at the start and
    blank lines do not count; the last line may lack its end.

    Raises:
        PlanError: the file cannot be read.
    """
    number = 0
    try:
        with open(path, "rb") as file:
            for raw in file:
                if not number:
                    raw = raw.removeprefix(BOM)
                for line in split_lines(raw):
                    number += 1
                    if line.strip(BLANKS):
                        yield number, line
    except OSError as error:
        raise unreadable(path, error) from None


def split_lines(data: bytes) -> list[bytes]:
    """The lines of `data`, which ends where a line does, without their ends."""
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return lines


def unreadable(path: str, error: OSError) -> PlanError:
    """The error for a prepared file that cannot be read."""
    return PlanError(f"{path}: the prepared file cannot be read: {sentence(error, writing=False)}")


def parse_row(line: bytes) -> dict[str, Any]:
    """One row, as Python's `json` reads it; integers of any size.

    Args:
        line: its bytes.

    Raises:
        RowError: it is not UTF-8, not JSON, or not an object.
    """
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RowError(f"not UTF-8 (byte {error.start + 1} of the line)") from None
    try:
        row = any_size(json.loads, text)
    except json.JSONDecodeError as error:
        raise RowError(f"not JSON ({error.msg}, column {error.colno})") from None
    except RecursionError:
        raise RowError(_TOO_DEEP) from None
    if not isinstance(row, dict):
        raise RowError(f"a row must be a JSON object, and this is {kind(row)}")
    return row


def any_size(work: Callable[..., Result], *arguments: Any) -> Result:
    """What `work(*arguments)` gives, with Python's limit on the digits of an integer lifted if it is met.

    The limit guards servers from strangers; a plan has to write the integers that its data has.
    """
    try:
        return work(*arguments)
    except json.JSONDecodeError:
        raise
    except ValueError:
        limit = sys.get_int_max_str_digits()
        sys.set_int_max_str_digits(0)
        try:
            return work(*arguments)
        finally:
            sys.set_int_max_str_digits(limit)


def canonical(value: Any) -> str:
    """Canonical JSON: keys sorted at every level, no spaces, not ASCII-escaped, numbers as Python writes them."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def canonical_bytes(value: Any) -> bytes:
    """Canonical JSON in UTF-8.

    Raises:
        RowError: it holds a lone surrogate, which UTF-8 has no form for; or it is nested too deeply.
    """
    try:
        text = any_size(canonical, value)
        if text.count("[") + text.count("{") > DEEPEST and _is_deep(value):
            raise RowError(_TOO_DEEP)
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        lone = f"U+{ord(error.object[error.start]):04X}"
        raise RowError(f"the row holds {lone}, a lone surrogate, which UTF-8 has no form for") from None
    except RecursionError:
        raise RowError(_TOO_DEEP) from None


def _is_deep(value: Any) -> bool:
    """Whether arrays and objects in `value` are nested beyond what is allowed."""
    level = [value]
    for _ in range(DEEPEST + 1):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return False
    return any(isinstance(outer, dict | list) for outer in level)


def is_bookkeeping(key: str) -> bool:
    """Whether a top-level field is not part of the task input."""
    return key in BOOKKEEPING or key.startswith(BOOKKEEPING_PREFIX)


def task_input(row: Mapping[str, Any]) -> dict[str, Any]:
    """What of a row a run receives: all but the bookkeeping fields."""
    return {key: value for key, value in row.items() if not is_bookkeeping(key)}


def explicit_id(row: Mapping[str, Any]) -> str | None:
    """The id that a row states, or None.

    Raises:
        RowError: the row is a materialized task already, or the id holds a lone surrogate.
    """
    if "task_input" in row or isinstance(row.get("task_id"), dict):
        raise RowError(
            "the row is a materialized task (task_input, or a mapping as task_id), not a dataset row"
        )
    for key in ID_KEYS:
        value = row.get(key)
        if value is not None:
            task_id = value if isinstance(value, str) else any_size(str, value)
            try:
                task_id.encode("utf-8")
            except UnicodeEncodeError:
                raise RowError("the task id holds a lone surrogate, which UTF-8 has no form for") from None
            return task_id
    return None


def content_id(data: bytes) -> str:
    """The id of a row without one: from its task input as canonical JSON, before any prompt is filled."""
    return "row-" + sha256(data).hexdigest()[:CONTENT_ID_DIGITS]


def kind(value: Any) -> str:
    """What JSON calls a value."""
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
