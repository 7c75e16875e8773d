"""Rows of a prepared file: reading them one by one, their task ids, task inputs, and digests.

The rules are those of `nemo-gym.eval-plan.v1`; content ids are an extension of our own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

from gymbuild.errors import PlanError

ID_KEYS = ("task_id", "problem_id", "instance_id")
"""Where a row's own id is looked for; the first that is not null counts."""
BOOKKEEPING = frozenset(("agent_ref", "task_source", "skills_ref"))
"""Top-level fields that are no part of the task input, as is every one that begins with `_ng_`."""
BOOKKEEPING_PREFIX = "_ng_"
CONTENT_ID_DIGITS = 16
_BOM = b"\xef\xbb\xbf"


def lines_of(path: str) -> Iterator[tuple[int, bytes]]:
    """The lines of a JSONL file that hold something, with their numbers from 1.

    A byte order mark at the start, line ends of either kind and blank lines do not count; the last line may
    lack its end.

    Raises:
        PlanError: the file cannot be read.
    """
    try:
        with open(path, "rb") as file:
            for number, line in enumerate(file, 1):
                if number == 1 and line.startswith(_BOM):
                    line = line[len(_BOM) :]
                line = line.strip()
                if line:
                    yield number, line
    except OSError as error:
        raise PlanError(f"{path}: the prepared file cannot be read: {error.strerror}") from None


def parse_row(line: bytes, place: str) -> dict[str, Any]:
    """One row, as Python's `json` reads it.

    Args:
        line: its bytes.
        place: file and line, for errors.

    Raises:
        PlanError: it is no UTF-8, no JSON, or no object.
    """
    try:
        row = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise PlanError(f"{place}: not UTF-8 (byte {error.start + 1} of the line)") from None
    except (ValueError, RecursionError) as error:
        raise PlanError(f"{place}: not JSON ({error})") from None
    if not isinstance(row, dict):
        raise PlanError(f"{place}: a row must be a JSON object, and this is {_kind(row)}")
    return row


def canonical(value: Any) -> str:
    """Canonical JSON: keys sorted at every level, no spaces, not ASCII-escaped, numbers as Python writes them."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def canonical_bytes(value: Any, place: str) -> bytes:
    """Canonical JSON in UTF-8.

    Raises:
        PlanError: it holds a lone surrogate, which UTF-8 has no form for.
    """
    try:
        return canonical(value).encode("utf-8")
    except UnicodeEncodeError as error:
        lone = f"U+{ord(error.object[error.start]):04X}"
        raise PlanError(
            f"{place}: the row holds {lone}, a lone surrogate, which UTF-8 has no form for"
        ) from None


def task_input(row: Mapping[str, Any]) -> dict[str, Any]:
    """What of a row a run receives: all but the bookkeeping fields."""
    return {
        key: value
        for key, value in row.items()
        if key not in BOOKKEEPING and not key.startswith(BOOKKEEPING_PREFIX)
    }


def explicit_id(row: Mapping[str, Any], place: str) -> str | None:
    """The id that a row states, or None.

    Raises:
        PlanError: the row is a materialized task already.
    """
    if "task_input" in row or isinstance(row.get("task_id"), dict):
        raise PlanError(
            f"{place}: the row is a materialized task (task_input, or a mapping as task_id), not a dataset row"
        )
    for key in ID_KEYS:
        value = row.get(key)
        if value is not None:
            return str(value)
    return None


def content_id(data: bytes) -> str:
    """The id of a row without one: from its task input as canonical JSON, before any prompt is filled."""
    return "row-" + sha256(data).hexdigest()[:CONTENT_ID_DIGITS]


def _kind(value: Any) -> str:
    names = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
