"""Which fields of their rows changed between two plans, as far as the rows are still to be found."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from itertools import zip_longest
from typing import Any

from gymbuild.plan.diff import PlanDiff, with_fields, with_rows_of_another_id, without_id
from gymbuild.plan.kept import KeptRows
from gymbuild.plan.plan import Plan
from gymbuild.plan.show import ReceivedRow

_VALUES = 100
"""For how many changed tasks the text has the values of their fields."""


def with_rows(
    finder: KeptRows, diff: PlanDiff, old: Plan, new: Plan, *, every_value: bool = False
) -> PlanDiff:
    """A diff with the fields that changed, as far as the rows of both plans are still to be found.

    Args:
        finder: finds rows.
        diff: from `compare`.
        old: the old plan.
        new: the new plan.
        every_value: keep the values of all of them, for a program; else of those that a person may be shown.
    """
    moved = bool(diff.added and diff.removed)
    if not diff.changed and not moved:
        return diff
    removed: dict[str, str] = _digests(old, diff.removed) if moved else {}
    added: dict[str, str] = _digests(new, diff.added) if moved else {}
    gone: dict[bytes, list[str]] = {}
    come: dict[bytes, list[str]] = {}
    before = finder.scan(old, {**{change.task_id: change.old for change in diff.changed}, **removed})
    after = finder.scan(new, {**{change.task_id: change.new for change in diff.changed}, **added})
    pairs = _paired(_without(before, removed, gone), _without(after, added, come))
    diff = with_fields(diff, pairs, values=None if every_value else _VALUES)
    return with_rows_of_another_id(diff, gone, come)


def _digests(plan: Plan, ids: Iterable[str]) -> dict[str, str]:
    return {task_id: plan.tasks.find(task_id) or "" for task_id in ids}


def _without(
    rows: Iterator[ReceivedRow], ids: Container[str], by_content: dict[bytes, list[str]]
) -> Iterator[ReceivedRow]:
    """The rows of other tasks than `ids`; the ids of those are added to `by_content`."""
    for row in rows:
        if row.task_id in ids:
            by_content.setdefault(without_id(row.task_input), []).append(row.task_id)
        else:
            yield row


def _paired(old: Iterator[ReceivedRow], new: Iterator[ReceivedRow]) -> Iterator[tuple[str, Any, Any]]:
    """Rows of one task each, from both sides by turns: what is in one order on both is never held for long."""
    waiting: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    for pair in zip_longest(old, new):
        for side, row in enumerate(pair):
            if row is None:
                continue
            other = waiting[1 - side].pop(row.task_id, None)
            if other is None:
                waiting[side][row.task_id] = row.task_input
            else:
                inputs = (row.task_input, other) if side == 0 else (other, row.task_input)
                yield row.task_id, *inputs
