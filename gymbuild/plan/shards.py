"""A plan split into N plans for a job array, and put together again.

By count, a task's shard is decided by its id alone: SHA-256 of the id, first eight bytes, modulo N. So it stays
where it is whatever tasks come or go, and no two machines disagree; how many tasks a shard has is even only as dice are.
By bytes, tasks are taken in the order of the prepared file and each goes to the shard that has the fewest bytes so
far. So shards are even, and a task stays where it is when rows are added at the file's end; when they are added
elsewhere, it stays if the earlier shards are given.

A shard is a plan of a selection: `selected_task_ids` lists its own tasks. The shards of a plan that is a selection
itself keep that plan's list, which is how `merge` knows which of the two it was.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import pairwise
from typing import Literal

from gymbuild.plan.plan import Plan, Tasks
from gymbuild.system.errors import PlanError, UsageError
from gymbuild.system.text import quoted

_MOST_SHOWN = 10
MOST_SHARDS = 100_000
"""No job array is larger; a slip of the hand would fill the disk with files."""


def shard_of(task_id: str, of: int) -> int:
    """The shard of a task, by count: from 0, below `of`."""
    return int.from_bytes(sha256(task_id.encode("utf-8")).digest()[:8], "big") % of


def split(
    plan: Plan,
    of: int,
    *,
    by: Literal["count", "bytes"] = "count",
    sizes: Mapping[str, int] | None = None,
    earlier: Sequence[Plan] = (),
) -> list[Plan]:
    """Split a plan; every task is in one shard, and shards may be empty.

    Args:
        plan: the plan.
        of: how many shards.
        by: what is to be even.
        sizes: for `bytes`: the bytes of each task, in the order of the prepared file.
        earlier: the shards of an earlier split into as many, whose tasks stay in their shards.

    Raises:
        UsageError: `of` is not a number of shards that a job array has, or `earlier` has another number of them.
        PlanError: the size of a task is not known, or a task is in two earlier shards.
    """
    if of < 1:
        raise UsageError(f"a plan is split into 1 shard or more, not {of}")
    if of > MOST_SHARDS:
        raise UsageError(f"a plan is split into {MOST_SHARDS:,} shards at the most, not {of:,}")
    if earlier and len(earlier) != of:
        raise UsageError(
            f"there are {len(earlier)} earlier shards, and {of} are asked for: a task can stay only in as many"
        )
    if of == 1:
        return [plan]
    kept = _kept(earlier)
    if by == "bytes":
        places = _even_bytes(plan, of, sizes or {}, kept)
    else:
        places = {task_id: kept.get(task_id, shard_of(task_id, of)) for task_id in plan.tasks.ids}
    parts: list[list[str]] = [[] for _ in range(of)]
    for task_id in plan.tasks.ids:
        parts[places[task_id]].append(task_id)
    return [
        replace(
            plan,
            tasks=plan.tasks.only(part),
            selected=tuple(part) if plan.selected is None else plan.selected,
        )
        for part in parts
    ]


def _kept(earlier: Sequence[Plan]) -> dict[str, int]:
    kept: dict[str, int] = {}
    for index, shard in enumerate(earlier):
        for task_id in shard.tasks.ids:
            if kept.setdefault(task_id, index) != index:
                raise PlanError(
                    f"task {quoted(task_id)} is in the earlier shards {kept[task_id] + 1} and {index + 1}; "
                    "they are not shards of one plan"
                )
    return kept


def _even_bytes(plan: Plan, of: int, sizes: Mapping[str, int], kept: Mapping[str, int]) -> dict[str, int]:
    ids = set(plan.tasks.ids)
    unknown = sorted(ids - sizes.keys())
    if unknown:
        raise PlanError(
            f"the prepared file has no row for {_some(unknown)}, so its bytes are not known; "
            "prepare the dataset that the plan was made from, or split by count"
        )
    places: dict[str, int] = {}
    loads = [0] * of
    for task_id in ids & kept.keys():
        places[task_id] = kept[task_id]
        loads[kept[task_id]] += sizes[task_id]
    lightest = [(load, index) for index, load in enumerate(loads)]
    heapq.heapify(lightest)
    for task_id, size in sizes.items():
        if task_id in ids and task_id not in places:
            load, index = lightest[0]
            places[task_id] = index
            heapq.heapreplace(lightest, (load + size, index))
    return places


def merge(shards: Sequence[Plan]) -> Plan:
    """The plan that was split, the same to the byte.

    Args:
        shards: all of its shards, in any order.

    Raises:
        PlanError: they are not the shards of one plan, or some are missing where that can be told.
    """
    if not shards:
        raise PlanError("there are no shards to merge")
    if len(shards) == 1:
        return shards[0]
    # the file of a plan without tasks does not say its taskset
    first = next((shard for shard in shards if len(shard.tasks)), shards[0])
    for index, shard in enumerate(shards, 1):
        for what, one, other in (
            ("benchmark.name", first.benchmark, shard.benchmark),
            ("benchmark.config_paths", first.config_paths, shard.config_paths),
            ("gym.version", first.gym_version, shard.gym_version),
            ("gym.commit", first.gym_commit, shard.gym_commit),
            ("taskset", first.taskset, shard.taskset if len(shard.tasks) else first.taskset),
        ):
            if one != other:
                raise PlanError(
                    f"these are not shards of one plan: {what} is {one!r} in one of them, and {other!r} in "
                    f"the one given as number {index}"
                )
    tasks = Tasks.of(task for shard in shards for task in shard.tasks)
    twice = sorted({one for one, other in pairwise(tasks.ids) if one == other})
    if twice:
        raise PlanError(f"these are not shards of one plan: more than one has {_some(twice)}")
    return replace(first, tasks=tasks, selected=_selection(shards, tasks.ids))


def _selection(shards: Sequence[Plan], ids: list[str]) -> tuple[str, ...] | None:
    if not ids:
        return ()  # only a selection can be empty: a plan of every task has a task
    own = [tuple(shard.tasks.ids) for shard in shards]
    if [shard.selected for shard in shards] == own:
        return None
    selected = shards[0].selected
    if selected is None or any(shard.selected != selected for shard in shards):
        raise PlanError("these are not shards of one plan: their selected_task_ids do not fit together")
    missing = sorted(set(selected) - set(ids))
    if missing:
        raise PlanError(f"shards are missing: no shard has {_some(missing)}, which the plan selects")
    return selected


def _some(names: Sequence[str]) -> str:
    return ", ".join(map(quoted, names[:_MOST_SHOWN])) + (" …" if len(names) > _MOST_SHOWN else "")
