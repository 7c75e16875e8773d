"""What changed between two plans: tasks added, removed, renamed and changed, and which fields of a row did.

All of it is pure: where the rows behind a plan are found again is the matter of `kept.py`.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from gymbuild.plan.plan import Plan
from gymbuild.plan.rows import any_size, canonical_bytes

_SHOWN_IDS = 10
"""How many ids a line of the text lists."""
_SHOWN_TASKS = 3
"""Of how many changed tasks the text shows the fields with their values."""
_SHOWN_FIELDS = 5
"""How many fields of one task the text shows."""
_EXCERPT = 72
"""Characters of a value that the text shows."""
_BEFORE = 24
"""Characters of an excerpt that come before the first difference."""


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One field of a row that is another than it was."""

    path: str
    """Such as `verifier_metadata.answer` or `responses_create_params.input[1].content`."""
    before: str | None
    """The value as canonical JSON; None where the field was not there. Both are None where values were not kept."""
    after: str | None
    """The same, as it is now."""


@dataclass(frozen=True, slots=True)
class Change:
    """A task that both plans have, with another digest."""

    task_id: str
    old: str
    """The digest in the old plan."""
    new: str
    fields: tuple[FieldChange, ...] | None = None
    """What of the row changed; None where a row is not to be found any more."""


@dataclass(frozen=True, slots=True)
class PlanDiff:
    """What changed from one plan to another, without regard to `gym`."""

    old_tasks: int
    new_tasks: int
    facts: tuple[tuple[str, Any, Any], ...]
    """What is said of the plan as a whole and differs: name, before, after."""
    added: tuple[str, ...]
    removed: tuple[str, ...]
    renamed: tuple[tuple[str, str], ...]
    """Tasks with the same digest under another id: the old id, the new id."""
    changed: tuple[Change, ...]

    def __bool__(self) -> bool:
        """Whether anything changed."""
        return bool(self.facts or self.added or self.removed or self.renamed or self.changed)

    def to_json(self) -> dict[str, Any]:
        """All of it, as plain values."""
        return {
            "tasks": {"old": self.old_tasks, "new": self.new_tasks},
            "counts": self.counts(),
            "plan": [
                {"name": name, "old": _plain(before), "new": _plain(after)}
                for name, before, after in self.facts
            ],
            "added": list(self.added),
            "removed": list(self.removed),
            "renamed": [{"old": old, "new": new} for old, new in self.renamed],
            "changed": [
                {
                    "task_id": change.task_id,
                    "old": change.old,
                    "new": change.new,
                    "fields": None
                    if change.fields is None
                    else [_field_json(field) for field in change.fields],
                }
                for change in self.changed
            ],
        }

    def counts(self) -> dict[str, int]:
        """How many tasks were added, removed, renamed and changed."""
        return {
            "added": len(self.added),
            "removed": len(self.removed),
            "renamed": len(self.renamed),
            "changed": len(self.changed),
        }

    def field_counts(self) -> dict[str, int]:
        """In how many of the changed tasks each field changed, the most frequent first."""
        counts = Counter(field.path for change in self.changed for field in change.fields or ())
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def compare(old: Plan, new: Plan) -> PlanDiff:
    """Compare two plans. What they say of `gym` does not count.

    Args:
        old: the plan as it was.
        new: the plan as it is.
    """
    before, after = dict(old.tasks), dict(new.tasks)
    added = sorted(after.keys() - before.keys())
    removed = sorted(before.keys() - after.keys())
    by_digest: dict[str, list[str]] = defaultdict(list)
    for task_id in reversed(added):
        by_digest[after[task_id]].append(task_id)
    renamed = []
    for task_id in removed:
        if same := by_digest.get(before[task_id]):
            renamed.append((task_id, same.pop()))
    gone, come = {old_id for old_id, _ in renamed}, {new_id for _, new_id in renamed}
    facts = [
        (name, one, other)
        for name, one, other in (
            ("benchmark.name", old.benchmark, new.benchmark),
            ("benchmark.config_paths", old.config_paths, new.config_paths),
            ("taskset", old.taskset, new.taskset),
            ("selected_task_ids", old.selected, new.selected),
        )
        if one != other
    ]
    return PlanDiff(
        len(old.tasks),
        len(new.tasks),
        tuple(facts),
        tuple(task_id for task_id in added if task_id not in come),
        tuple(task_id for task_id in removed if task_id not in gone),
        tuple(renamed),
        tuple(
            Change(task_id, before[task_id], after[task_id])
            for task_id in sorted(before.keys() & after.keys())
            if before[task_id] != after[task_id]
        ),
    )


def with_fields(
    diff: PlanDiff, pairs: Iterable[tuple[str, Any, Any]], *, values: int | None = None
) -> PlanDiff:
    """The same with the fields that changed, for the tasks whose rows are both known.

    Args:
        diff: from `compare`.
        pairs: task ids with the task inputs that the old and the new plan have; taken one by one.
        values: for how many of the changed tasks the values are kept, the first ones; None for all. Of the others,
            which may be millions, only the paths are.
    """
    with_values = {change.task_id for change in diff.changed[:values]}
    fields: dict[str, tuple[FieldChange, ...]] = {}
    known: dict[tuple[str, ...], tuple[FieldChange, ...]] = {}
    for task_id, before, after in pairs:
        changes = field_changes(before, after)
        if task_id not in with_values:
            paths = tuple(change.path for change in changes)
            changes = known.setdefault(paths, tuple(FieldChange(path, None, None) for path in paths))
        fields[task_id] = changes
    return dataclasses.replace(
        diff,
        changed=tuple(
            dataclasses.replace(change, fields=fields.get(change.task_id)) for change in diff.changed
        ),
    )


def field_changes(before: Any, after: Any) -> tuple[FieldChange, ...]:
    """The innermost fields that differ between two task inputs, in the order of the old one's fields.

    Arrays of one length are compared item by item, others as a whole. `1`, `1.0` and `true` are different.
    """
    found: list[FieldChange] = []
    _collect(before, after, "", found)
    return tuple(found)


_ABSENT = object()


def _collect(before: Any, after: Any, path: str, found: list[FieldChange]) -> None:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*before, *(key for key in after if key not in before)]:
            name = key if key.isidentifier() else json.dumps(key, ensure_ascii=False)
            _collect(
                before.get(key, _ABSENT), after.get(key, _ABSENT), f"{path}.{name}" if path else name, found
            )
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for position, (one, other) in enumerate(zip(before, after, strict=True)):
            _collect(one, other, f"{path}[{position}]", found)
    else:
        one, other = _json(before), _json(after)
        if one != other:
            found.append(FieldChange(path, one, other))


def _json(value: Any) -> str | None:
    if value is _ABSENT:
        return None
    return canonical_bytes(value).decode("utf-8")


def _field_json(field: FieldChange) -> dict[str, Any]:
    """A field with its values; `old` or `new` is left out where it was not there."""
    values = {"old": field.before, "new": field.after}
    return {
        "path": field.path,
        **{
            name: any_size(lambda text=text: json.loads(text))
            for name, text in values.items()
            if text is not None
        },
    }


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


# -- for people --------------------------------------------------------------------------------------------------


def diff_text(title: str, diff: PlanDiff) -> str:
    """What changed, for a reviewer: counts, first ids, and the fields of the first changed tasks.

    Args:
        title: of the plan.
        diff: what changed in it.
    """
    lines = [f"{title}: {headline(diff)}"]
    for name, before, after in diff.facts:
        lines.append(f"  {name}: {_fact(before)} → {_fact(after)}")
    lines += _ids("+", "added", diff.added)
    lines += _ids("-", "removed", diff.removed)
    lines += _ids("=", "renamed", [f"{visible(old)} → {visible(new)}" for old, new in diff.renamed])
    lines += _ids("~", "changed", [change.task_id for change in diff.changed])
    fields = diff.field_counts()
    if fields:
        shown = [f"{visible(path)} ({count:,})" for path, count in list(fields.items())[:_SHOWN_IDS]]
        lines.append(f"      in {', '.join(shown)}{_more(len(fields))}")
    known = [change for change in diff.changed if change.fields is not None]
    for change in known[:_SHOWN_TASKS]:
        lines += _change_lines(change)
    if len(known) < len(diff.changed):
        count = len(diff.changed) - len(known)
        lines.append(
            f"      which fields changed is not known for {count:,} of them: "
            "their old or new rows are not in the store any more"
        )
    return "\n".join(lines)


def headline(diff: PlanDiff) -> str:
    """The counts in one line."""
    if not diff:
        return f"the same {tasks_text(diff.new_tasks)}"
    counts = ", ".join(f"{count:,} {word}" for word, count in diff.counts().items() if count)
    total = (
        tasks_text(diff.new_tasks)
        if diff.old_tasks == diff.new_tasks
        else f"{diff.old_tasks:,} → {tasks_text(diff.new_tasks)}"
    )
    return f"{total}; {counts or 'none of them changed'}"


def tasks_text(count: int) -> str:
    """A number of tasks."""
    return f"{count:,} task{'s' if count != 1 else ''}"


def _change_lines(change: Change) -> list[str]:
    assert change.fields is not None
    lines = [f"      {visible(change.task_id)}"]
    for field in change.fields[:_SHOWN_FIELDS]:
        if field.before is None and field.after is None:
            lines.append(f"        {visible(field.path)}")
            continue
        before, after = excerpts(field.before, field.after)
        lines += [f"        {visible(field.path)}", f"          - {before}", f"          + {after}"]
    if len(change.fields) > _SHOWN_FIELDS:
        lines.append(f"        and {len(change.fields) - _SHOWN_FIELDS:,} more fields")
    return lines


def excerpts(before: str | None, after: str | None) -> tuple[str, str]:
    """Two values cut to where they first differ; (not there) for None."""
    if before is None or after is None:
        return _cut(before, 0), _cut(after, 0)
    same = 0
    for one, other in zip(before, after, strict=False):
        if one != other:
            break
        same += 1
    start = max(0, same - _BEFORE) if max(len(before), len(after)) > _EXCERPT else 0
    return _cut(before, start), _cut(after, start)


def _cut(text: str | None, start: int) -> str:
    if text is None:
        return "(not there)"
    end = start + _EXCERPT
    return ("…" if start else "") + visible(text[start:end]) + ("…" if len(text) > end else "")


def visible(text: str) -> str:
    """`text` with characters that a terminal would act on, or not show, as `\\u…`."""
    if text.isprintable():
        return text
    return "".join(
        char
        if char.isprintable()
        else f"\\u{ord(char):04x}"
        if ord(char) < 0x10000
        else f"\\U{ord(char):08x}"
        for char in text
    )


def _ids(sign: str, word: str, ids: Sequence[str]) -> list[str]:
    if not ids:
        return []
    return [f"  {sign} {len(ids):,} {word}: {', '.join(map(visible, ids[:_SHOWN_IDS]))}{_more(len(ids))}"]


def _more(count: int) -> str:
    return f" and {count - _SHOWN_IDS:,} more" if count > _SHOWN_IDS else ""


def _fact(value: Any) -> str:
    if value is None:
        return "every task"
    if isinstance(value, tuple):
        return "[" + ", ".join(map(visible, value[:_SHOWN_IDS])) + _more(len(value)) + "]"
    return visible(str(value))
