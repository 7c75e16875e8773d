"""The plan of one benchmark: every task with its id and the digest of its exact input.

Format `nemo-gym.eval-plan.v1`: one JSON document, keys sorted, two-space indent, not ASCII-escaped, a newline at
the end; tasks sorted by id as plain strings.
"""

from __future__ import annotations

import json
import operator
import re
import sys
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from json.encoder import encode_basestring
from typing import Any, Literal, overload

from gymbuild.plan.digesting import DIGEST_SIZE, MOST_SHOWN, Lines, Rows, Rules, Way
from gymbuild.plan.prompts import load_prompt
from gymbuild.plan.provenance import gym_commit, gym_version
from gymbuild.plan.rows import kind, lines_of
from gymbuild.plan.workers import read_rows
from gymbuild.system.errors import PlanError, SelectionError
from gymbuild.system.text import clipped, quoted

__all__ = ["SCHEMA", "Plan", "Tasks", "build_plan", "gym_commit", "gym_version", "parse_plan", "read_plan"]

SCHEMA = "nemo-gym.eval-plan.v1"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_CHUNK = 4096
"""Tasks that are put in order, or written, at a time."""


class Tasks(Sequence[tuple[str, str]]):
    """Task ids with digests (`sha256:…`), sorted by id; about 110 bytes for a task.

    Args:
        ids: the task ids, sorted.
        digests: 32 bytes for each.
    """

    __slots__ = ("_digests", "ids")

    def __init__(self, ids: list[str], digests: bytes | bytearray) -> None:
        self.ids = ids
        """The task ids, sorted as plain strings."""
        self._digests = digests

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]]) -> Tasks:
        """Tasks from ids and digests in any order."""
        ordered = sorted(pairs)
        return cls([pair[0] for pair in ordered], bytes.fromhex("".join(pair[1][7:] for pair in ordered)))

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, index: int) -> tuple[str, str]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[tuple[str, str]]: ...
    def __getitem__(self, index: int | slice) -> tuple[str, str] | Sequence[tuple[str, str]]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        place = range(len(self.ids))[index]
        return self.ids[place], self._digest(place)

    def _digest(self, place: int) -> str:
        return "sha256:" + self._digests[place * DIGEST_SIZE : (place + 1) * DIGEST_SIZE].hex()

    def __iter__(self) -> Iterator[tuple[str, str]]:
        digest = self._digest
        for place, task_id in enumerate(self.ids):
            yield task_id, digest(place)

    def find(self, task_id: str) -> str | None:
        """The digest of a task, or None when there is no such task."""
        place = bisect_left(self.ids, task_id)
        if place < len(self.ids) and self.ids[place] == task_id:
            return self._digest(place)
        return None

    def only(self, wanted: Sequence[str]) -> Tasks:
        """The tasks of these ids, sorted and all there."""
        places = [bisect_left(self.ids, task_id) for task_id in wanted]
        digests = b"".join(self._digests[place * DIGEST_SIZE : (place + 1) * DIGEST_SIZE] for place in places)
        return Tasks(list(wanted), digests)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Tasks):
            return self.ids == other.ids and self._digests == other._digests
        return NotImplemented

    def __hash__(self) -> int:
        return hash((len(self.ids), bytes(self._digests[:DIGEST_SIZE])))


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of one benchmark."""

    benchmark: str
    """The dataset's name."""
    config_paths: tuple[str, ...]
    """The files that it was selected with."""
    gym_version: str
    gym_commit: str | None
    taskset: str
    tasks: Tasks
    """Every task, or only the selected ones where some are selected."""
    selected: tuple[str, ...] | None
    """The selected task ids, sorted; None when the plan covers every task."""

    def to_json(self) -> dict[str, Any]:
        """The document, as plain values."""
        return {
            "schema": SCHEMA,
            "gym": {"version": self.gym_version, "commit": self.gym_commit},
            "benchmark": {"name": self.benchmark, "config_paths": list(self.config_paths)},
            "selected_task_ids": None if self.selected is None else list(self.selected),
            "tasks": [
                {"task_id": {"taskset": self.taskset, "task_id": task_id}, "digest": digest}
                for task_id, digest in self.tasks
            ],
        }

    def chunks(self) -> Iterator[bytes]:
        """The exact bytes of the plan file, piece by piece: a plan of millions of tasks is never whole in memory."""
        document = {**self.to_json_head(), "tasks": []}
        text = json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False)
        if not len(self.tasks):
            yield (text + "\n").encode("utf-8")
            return
        # `tasks` is the last key of the document
        yield (text.removesuffix("[]\n}") + "[\n").encode("utf-8")
        before = '    {\n      "digest": "'
        between = '",\n      "task_id": {\n        "task_id": '
        after = f',\n        "taskset": {encode_basestring(self.taskset)}\n      }}\n    }}'
        pieces = []
        separator = ""
        for task_id, digest in self.tasks:
            pieces.append(f"{separator}{before}{digest}{between}{encode_basestring(task_id)}{after}")
            separator = ",\n"
            if len(pieces) == _CHUNK:
                yield "".join(pieces).encode("utf-8")
                pieces.clear()
        yield ("".join(pieces) + "\n  ]\n}\n").encode("utf-8")

    def to_json_head(self) -> dict[str, Any]:
        """The document without its tasks."""
        return Plan(**{**_fields(self), "tasks": Tasks([], b"")}).to_json()

    def to_bytes(self) -> bytes:
        """The exact bytes of the plan file."""
        return b"".join(self.chunks())


def _fields(plan: Plan) -> dict[str, Any]:
    return {name: getattr(plan, name) for name in Plan.__slots__}  # type: ignore[attr-defined, unused-ignore]


def build_plan(
    jsonl: str,
    *,
    benchmark: str,
    taskset: str | None,
    config_paths: Sequence[str],
    prompt: str | None,
    gym_version: str,
    gym_commit: str | None,
    task_ids: Sequence[str] | None = None,
    ids: Literal["content", "explicit"] = "content",
    processes: int = 1,
    way: Way | None = None,
) -> Plan:
    """Make the plan of a prepared file, in one pass over it.

    Args:
        jsonl: the prepared file.
        benchmark: the dataset's name.
        taskset: the plan's taskset; None for the dataset's name.
        config_paths: the files that the benchmark was selected with.
        prompt: a prompt template (absolute path), or None.
        gym_version: for `gym.version`.
        gym_commit: for `gym.commit`.
        task_ids: the selected task ids, as text; None for every task.
        ids: `content` gives rows without an id one from their content; `explicit` refuses them.
        processes: how many may work at once; 0 decides by the size of the file.
        way: how rows are digested (see digesting.py); None for the fastest. The plan is the same.

    Raises:
        PlanError: a row, the template or the ids cannot be used; says which.
        SelectionError: a selected id is not there.
    """
    template = load_prompt(prompt) if prompt is not None else None
    found = read_rows(jsonl, Rules(template, ids), processes=processes, way=way)
    _refuse(jsonl, found)
    tasks = _sorted_tasks(jsonl, found)
    selected = None
    if task_ids is not None:
        selected = tuple(sorted(set(task_ids)))
        absent = [task_id for task_id in selected if tasks.find(task_id) is None]
        if absent:
            raise SelectionError(
                f"plan_task_ids: {benchmark} has no task {_some(absent)}; it has {len(tasks):,} tasks, "
                f"such as {_some(tasks.ids[:3])}"
            )
        tasks = tasks.only(selected)
    return Plan(
        benchmark, tuple(config_paths), gym_version, gym_commit, taskset or benchmark, tasks, selected
    )


def _refuse(jsonl: str, found: Rows) -> None:
    """Raise what the rows of a prepared file do not allow."""
    if found.error is not None:
        raise PlanError(f"{jsonl}:{found.error[0]}: {found.error[1]}")
    if found.lacking.count:
        raise PlanError(
            f"{jsonl}: {_rows_have(found.lacking)} no task_id, problem_id or instance_id, "
            "and plan_ids=explicit asks for one"
        )
    if found.filled.count:
        raise PlanError(
            f"{jsonl}: {_rows_have(found.filled)} responses_create_params.input already, and prompt_config is "
            "to make it; use one or the other"
        )
    for name in sorted(found.missing):
        raise PlanError(
            f"{jsonl}: {_rows_have(found.missing[name])} no field {name!r}, which the prompt template takes"
        )
    if not found.ids:
        raise PlanError(f"{jsonl}: the prepared file has no rows")


def _sorted_tasks(jsonl: str, found: Rows) -> Tasks:
    """The tasks in the plan's order, identical rows numbered; found is emptied, to save memory."""
    ids, stated = found.ids, found.stated
    if all(map(operator.lt, ids, islice(ids, 1, None))):
        return Tasks(ids, found.digests)
    order = sorted(range(len(ids)), key=ids.__getitem__)
    ordered = [ids[row] for row in order]
    repeated: dict[str, list[int]] = {}
    """Ids that several rows have, with the rows' indexes in the file's order (sorting is stable)."""
    if not all(map(operator.lt, ordered, islice(ordered, 1, None))):
        for place in range(1, len(order)):
            if ordered[place] == ordered[place - 1]:
                repeated.setdefault(ordered[place], [order[place - 1]]).append(order[place])
    twice: dict[str, list[int]] = {}
    numbered: dict[str, int] = {}
    for task_id, group in repeated.items():
        if any(stated[row] for row in group):
            content = [row for row in group if not stated[row]]
            if len(group) - len(content) > 1 or content:
                twice[task_id] = [row for row in group if stated[row]] + content[:1]
        for copy, row in enumerate((row for row in group if not stated[row]), 1):
            if copy > 1:
                numbered[f"{task_id}-{copy}"] = row
    for task_id, row in numbered.items():
        place = bisect_left(order, task_id, key=ids.__getitem__)
        while place < len(order) and ids[order[place]] == task_id:
            twice.setdefault(task_id, [row])
            if order[place] not in twice[task_id]:
                twice[task_id].append(order[place])
            place += 1
    if twice:
        raise PlanError(_not_unique(jsonl, {name: sorted(group) for name, group in twice.items()}))
    if numbered:
        for task_id, row in numbered.items():
            ids[row] = task_id
        order.sort(key=ids.__getitem__)
        ordered = [ids[row] for row in order]
    ids.clear()
    unordered = bytes(found.digests)
    found.digests.clear()
    digests = bytearray()
    for start in range(0, len(order), _CHUNK):
        digests += b"".join(
            [unordered[row * DIGEST_SIZE : (row + 1) * DIGEST_SIZE] for row in order[start : start + _CHUNK]]
        )
    return Tasks(ordered, digests)


def _not_unique(jsonl: str, twice: dict[str, list[int]]) -> str:
    """Says which ids several rows have; the ids in the order of their first rows."""
    shown = sorted(twice, key=lambda task_id: twice[task_id][0])[:MOST_SHOWN]
    wanted = sorted({row for task_id in shown for row in twice[task_id][:3]})
    lines = _lines_of_rows(jsonl, wanted)
    said = ", ".join(
        f"{quoted(task_id)} (rows {', '.join(str(lines[row]) for row in twice[task_id][:3])}"
        f"{' …' if len(twice[task_id]) > 3 else ''})"
        for task_id in shown
    )
    more = f" and {len(twice) - len(shown):,} more" if len(twice) > len(shown) else ""
    return f"{jsonl}: task ids must be unique, and these are not: {said}{more}"


def _lines_of_rows(jsonl: str, wanted: list[int]) -> dict[int, int]:
    """The lines, from 1, of rows given by index; the file is read once more, for an error only."""
    lines: dict[int, int] = {}
    place = 0
    for row, (number, _) in enumerate(lines_of(jsonl)):
        if place == len(wanted):
            break
        if row == wanted[place]:
            lines[row] = number
            place += 1
    return {row: lines.get(row, row + 1) for row in wanted}


def _rows_have(lines: Lines) -> str:
    shown = ", ".join(map(str, lines.first)) + (" …" if lines.count > len(lines.first) else "")
    return f"row {shown} has" if lines.count == 1 else f"{lines.count:,} rows ({shown}) have"


def _some(names: Sequence[str]) -> str:
    return ", ".join(map(quoted, names[:MOST_SHOWN])) + (" …" if len(names) > MOST_SHOWN else "")


def read_plan(path: str, name: str | None = None) -> Plan:
    """Read a plan file.

    Args:
        path: the file; `-` is standard input.
        name: what to call it in errors; default `path`.

    Raises:
        PlanError: it cannot be read, or is not a plan.
    """
    name = name or ("standard input" if path == "-" else path)
    try:
        if path == "-":
            data = sys.stdin.buffer.read()
        else:
            with open(path, "rb") as file:
                data = file.read()
    except OSError as error:
        raise PlanError(f"{name}: the plan cannot be read: {error.strerror}") from None
    return parse_plan(data, name)


def parse_plan(data: bytes, name: str) -> Plan:
    """The plan that some bytes hold.

    Args:
        data: a plan file's bytes.
        name: what to call it in errors.

    Raises:
        PlanError: it is not a plan.
    """
    try:
        return _plan_of(data)
    except _NoPlanError as error:
        raise PlanError(f"{name}: is not a plan: {error}") from None


class _NoPlanError(Exception):
    """What keeps some bytes from being a plan."""


def _plan_of(data: bytes) -> Plan:
    try:
        document = json.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise _NoPlanError(f"not UTF-8 (byte {error.start + 1})") from None
    except json.JSONDecodeError as error:
        raise _NoPlanError(f"not JSON ({error})") from None
    except (ValueError, RecursionError):
        raise _NoPlanError("it holds a number or a nesting that no plan has") from None
    if not isinstance(document, dict):
        raise _NoPlanError(f"it must be an object, and is {kind(document)}")
    if document.get("schema") != SCHEMA:
        found = json.dumps(document.get("schema"))
        raise _NoPlanError(f"schema must be {SCHEMA!r}, and is {clipped(found)}")
    gym, benchmark = _member(document, "gym", dict), _member(document, "benchmark", dict)
    selected = document.get("selected_task_ids", ...)
    if selected is not None:
        selected = tuple(_texts(document, "selected_task_ids"))
    commit = gym.get("commit", ...)
    tasks = _tasks_of(document)
    plan = Plan(
        _member(benchmark, "name", str, "benchmark."),
        tuple(_texts(benchmark, "config_paths", "benchmark.")),
        _member(gym, "version", str, "gym."),
        None if commit is None else _member(gym, "commit", str, "gym."),
        tasks[0] if tasks[0] is not None else benchmark["name"],
        tasks[1],
        selected,
    )
    # a lone surrogate can come from an escape alone
    if b"\\u" in data:
        try:
            for _ in plan.chunks():
                pass
        except UnicodeEncodeError:
            raise _NoPlanError("it holds a lone surrogate, which UTF-8 has no form for") from None
    return plan


_KINDS: dict[Any, str] = {dict: "an object", list: "an array", str: "a string"}


def _member(owner: dict[str, Any], key: str, wanted: type, place: str = "") -> Any:
    if key not in owner:
        raise _NoPlanError(f"{place}{key} is missing")
    if not isinstance(owner[key], wanted):
        raise _NoPlanError(f"{place}{key} must be {_KINDS[wanted]}, and is {kind(owner[key])}")
    return owner[key]


def _texts(owner: dict[str, Any], key: str, place: str = "") -> list[str]:
    for item in _member(owner, key, list, place):
        if not isinstance(item, str):
            raise _NoPlanError(f"{place}{key} must hold strings, and holds {kind(item)}")
    return list(owner[key])


def _tasks_of(document: dict[str, Any]) -> tuple[str | None, Tasks]:
    """The taskset, None without tasks, and the tasks."""
    taskset: str | None = None
    pairs = []
    for number, task in enumerate(_member(document, "tasks", list), 1):
        try:
            own, task_id, digest = task["task_id"]["taskset"], task["task_id"]["task_id"], task["digest"]
        except (KeyError, TypeError, IndexError):
            own = task_id = digest = None
        if not isinstance(own, str) or not isinstance(task_id, str) or not isinstance(digest, str):
            raise _NoPlanError(f"task number {number} has not the form of one: taskset, task_id and digest")
        if not _DIGEST.fullmatch(digest):
            raise _NoPlanError(f"task {quoted(task_id)} has the digest {quoted(digest)}")
        if taskset is None:
            taskset = own
        elif own != taskset:
            raise _NoPlanError(
                f"a plan has one taskset, and this has {quoted(taskset)} and {quoted(own)} (task number {number})"
            )
        pairs.append((task_id, digest))
    if len({task_id for task_id, _ in pairs}) != len(pairs):
        raise _NoPlanError("task ids are not unique")
    return taskset, Tasks.of(pairs)
