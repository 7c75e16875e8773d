"""`diff OLD [NEW]`: tasks added, removed, renamed and changed between plans, and which fields of their rows did."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from gymbuild.commands.base import GymbuildCommand, usage_error
from gymbuild.config.session import Session
from gymbuild.system.text import visible

if TYPE_CHECKING:
    from gymbuild.plan.diff import PlanDiff
    from gymbuild.plan.kept import KeptRows
    from gymbuild.plan.plan import Plan
    from gymbuild.plan.show import ReceivedRow


class Diff(GymbuildCommand):
    """Compare plans."""

    name = "diff"
    doc_purpose = "compare plans: files, folders of plans, or git revisions of the checkout"
    doc_usage = "OLD [NEW] [--json] [--exit-code]"
    doc_description = (
        "OLD and NEW are plan files (- is standard input), folders of plans, or git revisions; a revision's plans are those that it keeps "
        "under plans_dir (default: plans). Without NEW, the plans under plans_dir as they are now. `gym` does not "
        "count.\n\nFor a changed task, the fields of its row that changed are told where the old and the new row "
        "are still in the store."
    )
    cmd_options = (
        {"name": "json", "long": "json", "type": bool, "default": False, "help": "print one JSON object"},
        {
            "name": "exit_code",
            "long": "exit-code",
            "type": bool,
            "default": False,
            "help": "exit with 1 when anything differs",
        },
    )

    def run(self, session: Session, words: list[str], options: Any) -> int:
        """Print what differs; 0, or with --exit-code 1 when anything does."""
        from gymbuild.plan.diff import compare, diff_text, tasks_text
        from gymbuild.plan.kept import KeptRows
        from gymbuild.plan.sets import PLANS_DIR, read_set

        if not 1 <= len(words) <= 2:
            raise usage_error(self, "name what to compare, such as `diff main` or `diff OLD.json NEW.json`.")
        plans_dir = session.settings.plans_dir or PLANS_DIR
        old = read_set(session.checkout, words[0], plans_dir)
        new = read_set(session.checkout, words[1] if len(words) > 1 else plans_dir, plans_dir)
        pairs, only_old, only_new = _pairs(old, new)
        kept = KeptRows(session)
        found: list[tuple[str, str, str, PlanDiff]] = []
        for before, after in pairs:
            one, other = old.plans[before], new.plans[after]
            diff = with_rows(kept, compare(one, other), one, other, every_value=options["json"])
            if diff or options["json"] or old.one:
                found.append((_title(before, after, one.benchmark), before, after, diff))
        differs = bool(only_old or only_new or any(diff for *_, diff in found))
        if options["json"]:
            document = {
                "old": old.title,
                "new": new.title,
                "plans": [
                    {"old": before, "new": after, **diff.to_json()} for _, before, after, diff in found
                ],
                "only_old": only_old,
                "only_new": only_new,
            }
            print(json.dumps(document, indent=2, ensure_ascii=False))
        else:
            for name in only_old:
                print(
                    f"{visible(name)}: only in {visible(old.title)} ({tasks_text(len(old.plans[name].tasks))})"
                )
            for name in only_new:
                print(
                    f"{visible(name)}: only in {visible(new.title)} ({tasks_text(len(new.plans[name].tasks))})"
                )
            for title, _, _, diff in found:
                print(diff_text(title, diff))
            if not differs and not old.one:
                print(f"the same {len(pairs):,} plan{'s' if len(pairs) != 1 else ''}")
        return 1 if differs and options["exit_code"] else 0


_VALUES = 100
"""For how many changed tasks the text keeps the values of their fields."""


def with_rows(kept: KeptRows, diff: PlanDiff, old: Plan, new: Plan, *, every_value: bool = False) -> PlanDiff:
    """A diff with the fields that changed, as far as the rows of both plans are still to be found.

    Args:
        kept: finds rows.
        diff: from `compare`.
        old: the old plan.
        new: the new plan.
        every_value: keep the values of all of them, for a program; else of those that a person may be shown.
    """
    from gymbuild.plan.diff import with_fields, with_rows_of_another_id

    moved = bool(diff.added and diff.removed)
    if not diff.changed and not moved:
        return diff
    removed: dict[str, str] = _digests(old, diff.removed) if moved else {}
    added: dict[str, str] = _digests(new, diff.added) if moved else {}
    gone: dict[bytes, list[str]] = {}
    come: dict[bytes, list[str]] = {}
    before = kept.scan(old, {**{change.task_id: change.old for change in diff.changed}, **removed})
    after = kept.scan(new, {**{change.task_id: change.new for change in diff.changed}, **added})
    pairs = _paired(_set_aside(before, removed, gone), _set_aside(after, added, come))
    diff = with_fields(diff, pairs, values=None if every_value else _VALUES)
    return with_rows_of_another_id(diff, gone, come)


def _digests(plan: Plan, ids: Iterable[str]) -> dict[str, str]:
    return {task_id: plan.tasks.find(task_id) or "" for task_id in ids}


def _set_aside(
    rows: Iterator[ReceivedRow], ids: Container[str], aside: dict[bytes, list[str]]
) -> Iterator[ReceivedRow]:
    """The rows of other tasks than `ids`, whose own are kept in `aside` by what they are without their id."""
    from gymbuild.plan.diff import without_id

    for row in rows:
        if row.task_id in ids:
            aside.setdefault(without_id(row.task_input), []).append(row.task_id)
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


def _pairs(old: Any, new: Any) -> tuple[list[tuple[str, str]], list[str], list[str]]:
    """Which plan is compared with which, and the names that only one side has."""
    from gymbuild.system.errors import UsageError

    if old.one and new.one:
        return [(next(iter(old.plans)), next(iter(new.plans)))], [], []
    if old.one or new.one:
        single, many = (old, new) if old.one else (new, old)
        name, plan = next(iter(single.plans.items()))
        same = [other for other, found in many.plans.items() if found.config_paths == plan.config_paths]
        if name not in many.plans and not same:
            raise UsageError(
                f"{single.title} is one plan, of {plan.benchmark}, and {many.title} has none of that benchmark."
            )
        other = same[0] if same else name
        return [(name, other) if old.one else (other, name)], [], []
    names = sorted(old.plans.keys() & new.plans.keys())
    return (
        [(name, name) for name in names],
        sorted(old.plans.keys() - new.plans.keys()),
        sorted(new.plans.keys() - old.plans.keys()),
    )


def _title(before: str, after: str, benchmark: str) -> str:
    return before if before == after else f"{benchmark} ({before} → {after})"
