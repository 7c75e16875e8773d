"""`diff OLD [NEW]`: tasks added, removed, renamed and changed between plans, and which fields of their rows did."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from gymbuild.commands.base import GymbuildCommand, usage_error
from gymbuild.commands.options import option
from gymbuild.config.session import Session
from gymbuild.system.errors import UsageError
from gymbuild.system.text import visible

if TYPE_CHECKING:
    from gymbuild.plan.diff import PlanDiff
    from gymbuild.plan.sets import PlanSet


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
        option("json", False, "print one JSON object"),
        option("exit_code", False, "exit with 1 when anything differs"),
    )

    def run(self, session: Session, words: list[str], options: Any) -> int:
        """Print what differs; 0, or with --exit-code 1 when anything does."""
        from gymbuild.plan.diff import compare, diff_text, tasks_text
        from gymbuild.plan.kept import KeptRows
        from gymbuild.plan.row_changes import with_rows
        from gymbuild.plan.sets import PLANS_DIR, read_set

        if not 1 <= len(words) <= 2:
            raise usage_error(self, "name what to compare, such as `diff main` or `diff OLD.json NEW.json`.")
        plans_dir = session.settings.plans_dir or PLANS_DIR
        old = read_set(session.checkout, words[0], plans_dir)
        new = read_set(session.checkout, words[1] if len(words) > 1 else plans_dir, plans_dir)
        pairs, only_old, only_new = _pairs(old, new)
        finder = KeptRows(session)
        found: list[tuple[str, str, PlanDiff]] = []
        for before, after in pairs:
            one, other = old.plans[before], new.plans[after]
            diff = with_rows(finder, compare(one, other), one, other, every_value=options["json"])
            if diff or options["json"] or old.one:
                found.append((before, after, diff))
        differs = bool(only_old or only_new or any(diff for *_, diff in found))
        if options["json"]:
            document = {
                "old": old.title,
                "new": new.title,
                "plans": [{"old": before, "new": after, **diff.to_json()} for before, after, diff in found],
                "only_old": only_old,
                "only_new": only_new,
            }
            print(json.dumps(document, indent=2, ensure_ascii=False))
        else:
            for side, names in ((old, only_old), (new, only_new)):
                for name in names:
                    count = tasks_text(len(side.plans[name].tasks))
                    print(f"{visible(name)}: only in {visible(side.title)} ({count})")
            for before, after, diff in found:
                title = f"{old.plans[before].benchmark} ({before} → {after})"
                print(diff_text(before if before == after else title, diff))
            if not differs and not old.one:
                print(f"the same {len(pairs):,} plan{'s' if len(pairs) != 1 else ''}")
        return 1 if differs and options["exit_code"] else 0


def _pairs(old: PlanSet, new: PlanSet) -> tuple[list[tuple[str, str]], list[str], list[str]]:
    """Which plan is compared with which, and the names that only one side has."""
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
    both = old.plans.keys() & new.plans.keys()
    return (
        [(name, name) for name in sorted(both)],
        sorted(old.plans.keys() - both),
        sorted(new.plans.keys() - both),
    )
