"""What changed between two plans: tasks added, removed, renamed and changed, and which fields of a row did.

All of it is pure: `kept.py` finds the rows behind a plan again.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from gymbuild.plan.plan import Plan
from gymbuild.plan.rows import ID_KEYS, any_size, canonical_bytes
from gymbuild.system.text import clipped, id_text, visible

_SHOWN_IDS = 10
"""How many ids a line of the text lists."""
_SHOWN_TASKS = 3
"""Of how many changed tasks the text shows the fields with their values."""
_KINDS = 100
"""For how many different sets of changed fields the values of one task are kept."""
_SHOWN_FIELDS = 5
"""How many fields of one task the text shows."""
_EXCERPT = 72
"""Characters of a value that the text shows."""
_LONGEST_PATH = 160
"""Characters of the path of a field that the text shows."""
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
    renamed_in_row: tuple[tuple[str, str], ...] = ()
    """Tasks whose rows state another id and are the same otherwise, so that their digests differ; the old id, the
    new id. Known only where both rows are still to be found; until then these are removed and added."""

    def __bool__(self) -> bool:
        """Whether anything changed."""
        return bool(
            self.facts or self.added or self.removed or self.renamed or self.changed or self.renamed_in_row
        )

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
            "renamed_in_row": [{"old": old, "new": new} for old, new in self.renamed_in_row],
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
            "renamed_in_row": len(self.renamed_in_row),
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
        values: for how many of the changed tasks the values are kept, the first ones, and beside them one of
            every other set of fields that changed together; None for all. Of the others, which may be millions, only
            the paths are.
    """
    with_values = {change.task_id for change in diff.changed[:values]}
    fields: dict[str, tuple[FieldChange, ...]] = {}
    known: dict[tuple[str, ...], tuple[FieldChange, ...]] = {}
    firsts: dict[tuple[str, ...], tuple[str, tuple[FieldChange, ...]]] = {}
    for task_id, before, after in pairs:
        changes = field_changes(before, after)
        if task_id not in with_values:
            paths = tuple(change.path for change in changes)
            first = firsts.get(paths)
            if task_id < first[0] if first is not None else len(firsts) < _KINDS:
                firsts[paths] = (task_id, changes)
            changes = known.setdefault(paths, tuple(FieldChange(path, None, None) for path in paths))
        fields[task_id] = changes
    shown = {
        tuple(change.path for change in changes)
        for task_id, changes in fields.items()
        if task_id in with_values
    }
    fields.update(first for paths, first in firsts.items() if paths not in shown)
    return dataclasses.replace(
        diff,
        changed=tuple(
            dataclasses.replace(change, fields=fields.get(change.task_id)) for change in diff.changed
        ),
    )


def with_rows_of_another_id(
    diff: PlanDiff, removed: Mapping[bytes, list[str]], added: Mapping[bytes, list[str]]
) -> PlanDiff:
    """The same with removed and added tasks paired whose rows are the same but for the id that they state.

    Args:
        diff: from `compare`.
        removed: by what `without_id` gives for a row, the removed tasks that have it.
        added: the same of the added tasks.
    """
    pairs = []
    for body, old_ids in removed.items():
        pairs += list(zip(sorted(old_ids), sorted(added.get(body, ())), strict=False))
    gone, come = {old_id for old_id, _ in pairs}, {new_id for _, new_id in pairs}
    return dataclasses.replace(
        diff,
        added=tuple(task_id for task_id in diff.added if task_id not in come),
        removed=tuple(task_id for task_id in diff.removed if task_id not in gone),
        renamed_in_row=tuple(sorted(pairs)),
    )


def without_id(task_input: Mapping[str, Any]) -> bytes:
    """The digest of a task input without the field that states its id."""
    stated = next((key for key in ID_KEYS if task_input.get(key) is not None), None)
    rest = {key: value for key, value in task_input.items() if key != stated}
    return sha256(canonical_bytes(rest)).digest()


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


_RENAMED_IN_ROW = "renamed in their rows"


# -- for people --------------------------------------------------------------------------------------------------


def diff_text(title: str, diff: PlanDiff) -> str:
    """What changed, for a reviewer: counts, first ids, and the fields of the first changed tasks.

    Args:
        title: of the plan.
        diff: what changed in it.
    """
    lines = [f"{visible(title)}: {headline(diff)}"]
    for name, before, after in diff.facts:
        lines.append(f"  {name}: {_fact(before)} → {_fact(after)}")
    lines += _ids("+", "added", diff.added)
    lines += _ids("-", "removed", diff.removed)
    lines += _ids("=", "renamed", diff.renamed)
    lines += _ids("=", _RENAMED_IN_ROW + ", which are the same otherwise", diff.renamed_in_row)
    lines += _ids("~", "changed", [change.task_id for change in diff.changed])
    fields = diff.field_counts()
    if fields:
        shown = [
            f"{visible(clipped(path, _LONGEST_PATH))} ({count:,})"
            for path, count in list(fields.items())[:_SHOWN_IDS]
        ]
        lines.append(f"      in {', '.join(shown)}{_more(len(fields))}")
    known = [change for change in diff.changed if change.fields is not None]
    for change, likewise in _examples(known):
        lines += _change_lines(change)
        if likewise:
            lines.append(
                f"      and the same field{'s' * (len(change.fields or ()) != 1)} in {likewise:,} more"
            )
    if len(known) < len(diff.changed):
        count = len(diff.changed) - len(known)
        lines.append(
            f"      which fields changed is not known for {count:,} of them: their old or their new rows are "
            "neither in the prepared file nor in the store"
        )
    return "\n".join(lines)


def _examples(known: Sequence[Change]) -> list[tuple[Change, int]]:
    """The changed tasks that are shown, and after how many like them: the same fields in how many more.

    One for each of the most frequent sets of changed fields, so that what is odd is seen beside what was done to all;
    then those that say something else about the same fields, while there is room.
    """
    kinds: dict[tuple[str, ...], list[Change]] = {}
    for change in known:
        kinds.setdefault(tuple(field.path for field in change.fields or ()), []).append(change)
    groups = sorted(kinds.values(), key=lambda group: -len(group))[:_SHOWN_TASKS]
    # the one whose values were kept comes first, where there is one
    shown = [[next((change for change in group if _has_values(change)), group[0])] for group in groups]
    room = _SHOWN_TASKS - len(groups)
    for group, chosen in zip(groups, shown, strict=True):
        edits = {_edits(chosen[0])}
        for change in group:
            if room and _has_values(change) and _edits(change) not in edits:
                edits.add(_edits(change))
                chosen.append(change)
                room -= 1
    found = []
    for group, chosen in zip(groups, shown, strict=True):
        found += [(change, 0) for change in chosen[:-1]]
        found.append((chosen[-1], len(group) - len(chosen)))
    return found


def _has_values(change: Change) -> bool:
    return any(field.before is not None or field.after is not None for field in change.fields or ())


def _edits(change: Change) -> tuple[tuple[str, str | None, str | None], ...]:
    """What was put in the place of what, field by field, without what stayed around it."""
    return tuple((field.path, *_middle(field.before, field.after)) for field in change.fields or ())


def _middle(before: str | None, after: str | None) -> tuple[str | None, str | None]:
    if before is None or after is None:
        return before, after
    start = _same_start(before, after)
    one, other = before[start:], after[start:]
    end = _same_start(one[::-1], other[::-1])
    return one[: len(one) - end], other[: len(other) - end]


def _same_start(one: str, other: str) -> int:
    """How many characters two texts begin with alike."""
    differs = (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(differs, min(len(one), len(other)))


def headline(diff: PlanDiff) -> str:
    """The counts in one line."""
    if not diff:
        return f"the same {tasks_text(diff.new_tasks)}"
    words = {"renamed_in_row": _RENAMED_IN_ROW}
    counts = ", ".join(f"{count:,} {words.get(name, name)}" for name, count in diff.counts().items() if count)
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
    lines = [f"      {id_text(change.task_id)}"]
    for field in change.fields[:_SHOWN_FIELDS]:
        if field.before is None and field.after is None:
            lines.append(f"        {visible(clipped(field.path, _LONGEST_PATH))}")
            continue
        before, after = excerpts(field.before, field.after)
        lines += [
            f"        {visible(clipped(field.path, _LONGEST_PATH))}",
            f"          - {before}",
            f"          + {after}",
        ]
    if len(change.fields) > _SHOWN_FIELDS:
        lines.append(f"        and {len(change.fields) - _SHOWN_FIELDS:,} more fields")
    return lines


def excerpts(before: str | None, after: str | None) -> tuple[str, str]:
    """Two values cut to where they first differ; (not there) for None."""
    if before is None or after is None:
        return _cut(before, 0), _cut(after, 0)
    start = max(0, _same_start(before, after) - _BEFORE) if max(len(before), len(after)) > _EXCERPT else 0
    return _cut(before, start), _cut(after, start)


def _cut(text: str | None, start: int) -> str:
    if text is None:
        return "(not there)"
    end = start + _EXCERPT
    return ("…" if start else "") + visible(text[start:end]) + ("…" if len(text) > end else "")


def _ids(sign: str, word: str, ids: Sequence[str | tuple[str, str]]) -> list[str]:
    if not ids:
        return []
    texts = [
        id_text(found) if isinstance(found, str) else " → ".join(map(id_text, found))
        for found in ids[:_SHOWN_IDS]
    ]
    return [f"  {sign} {len(ids):,} {word}: {', '.join(texts)}{_more(len(ids))}"]


def _more(count: int) -> str:
    return f" and {count - _SHOWN_IDS:,} more" if count > _SHOWN_IDS else ""


def _fact(value: Any) -> str:
    if value is None:
        return "every task"
    if isinstance(value, tuple):
        return "[" + ", ".join(map(id_text, value[:_SHOWN_IDS])) + _more(len(value)) + "]"
    return id_text(str(value))
