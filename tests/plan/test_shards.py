"""Shards: every task in one of them, each where it was when a dataset grows, and the plan back to the byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gymbuild.plan.plan import Plan, Tasks, parse_plan, read_plan
from gymbuild.plan.shards import merge, shard_of, split
from gymbuild.system.errors import PlanError, UsageError

DATA = Path(__file__).resolve().parents[1] / "data"
IDS = st.sets(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12), min_size=1, max_size=40
)


def plan_of(ids: Any, selected: bool = False) -> Plan:
    tasks = Tasks.of((task_id, "sha256:" + f"{len(task_id):064x}") for task_id in ids)
    return Plan("b", ("c.yaml",), "1", None, "set", tasks, tuple(tasks.ids) if selected else None)


def places(shards: list[Plan]) -> dict[str, int]:
    return {task_id: index for index, shard in enumerate(shards) for task_id in shard.tasks.ids}


def through_files(shards: list[Plan]) -> list[Plan]:
    return [parse_plan(shard.to_bytes(), "shard") for shard in shards]


@settings(max_examples=150, deadline=None)
@given(ids=IDS, of=st.integers(1, 9), selected=st.booleans(), by=st.sampled_from(["count", "bytes"]))
def test_every_task_is_in_one_shard_and_merging_gives_the_bytes_back(
    ids: set[str], of: int, selected: bool, by: Literal["count", "bytes"]
) -> None:
    plan = plan_of(ids, selected)
    shards = split(plan, of, by=by, sizes={task_id: len(task_id) for task_id in ids})
    assert len(shards) == of
    assert sorted(task_id for shard in shards for task_id in shard.tasks.ids) == sorted(ids)
    assert merge(through_files(shards)[::-1]).to_bytes() == plan.to_bytes()


@pytest.mark.parametrize("of", [1, 2, 3])
@pytest.mark.parametrize("name", json.loads((DATA / "eval-plan-vectors.json").read_text()))
def test_a_plan_of_nemo_gym_comes_back_to_the_byte(tmp_path: Path, name: str, of: int) -> None:
    data = json.loads((DATA / "eval-plan-vectors.json").read_text())[name]["plan"]
    path = tmp_path / "plan.json"
    path.write_text(data)
    assert merge(through_files(split(read_plan(str(path)), of))).to_bytes().decode() == data


@settings(max_examples=100, deadline=None)
@given(ids=IDS, more=IDS, of=st.integers(2, 9))
def test_a_task_stays_in_its_shard_whatever_others_come_or_go(ids: set[str], more: set[str], of: int) -> None:
    before = places(split(plan_of(ids), of))
    after = places(split(plan_of(ids | more), of))
    assert all(after[task_id] == place for task_id, place in before.items())


def test_the_shard_of_a_task_is_the_same_on_every_machine() -> None:
    assert [shard_of(f"task-{number}", 8) for number in range(8)] == [0, 7, 0, 2, 6, 5, 1, 1]


@settings(max_examples=100, deadline=None)
@given(sizes=st.lists(st.integers(1, 1000), min_size=1, max_size=60), of=st.integers(2, 6), data=st.data())
def test_shards_by_bytes_are_even_and_stay_when_rows_are_added_at_the_end(
    sizes: list[int], of: int, data: st.DataObject
) -> None:
    known = {f"t{number}": size for number, size in enumerate(sizes)}
    shards = split(plan_of(known), of, by="bytes", sizes=known)
    loads = [sum(known[task_id] for task_id in shard.tasks.ids) for shard in shards]
    assert max(loads) - min(loads) <= max(sizes)
    grown = {
        **known,
        **{f"a{number}": size for number, size in enumerate(data.draw(st.lists(st.integers(1, 99))))},
    }
    after = places(split(plan_of(grown), of, by="bytes", sizes=grown))
    assert all(after[task_id] == place for task_id, place in places(shards).items())


def test_with_the_earlier_shards_a_task_stays_when_rows_are_added_anywhere() -> None:
    known = {f"t{number}": 10 + number for number in range(20)}
    shards = split(plan_of(known), 3, by="bytes", sizes=known)
    grown = {"first": 500, **dict(reversed(known.items())), "last": 1}
    after = split(plan_of(grown), 3, by="bytes", sizes=grown, earlier=shards)
    assert all(places(after)[task_id] == place for task_id, place in places(shards).items())
    assert merge(after).to_bytes() == plan_of(grown).to_bytes()


def test_a_shard_says_that_it_is_a_selection() -> None:
    shards = split(plan_of("abcdefgh"), 2)
    assert [list(shard.selected or ()) for shard in shards] == [shard.tasks.ids for shard in shards]


def test_what_is_no_split_or_no_set_of_shards_is_refused() -> None:
    plan = plan_of("abcdef")
    shards = split(plan, 2)
    with pytest.raises(UsageError, match="1 shard or more, not 0"):
        split(plan, 0)
    with pytest.raises(UsageError, match="100,000 shards at the most, not 100,001"):
        split(plan, 100_001)
    with pytest.raises(UsageError, match="2 earlier shards, and 3"):
        split(plan, 3, earlier=shards)
    with pytest.raises(PlanError, match="no row for 'f'"):
        split(plan, 2, by="bytes", sizes=dict.fromkeys("abcde", 1))
    with pytest.raises(PlanError, match="more than one has"):
        merge([shards[0], *shards])
    with pytest.raises(PlanError, match=r"gym\.version is '1' in one of them, and '2'"):
        merge([shards[0], Plan("b", ("c.yaml",), "2", None, "set", shards[1].tasks, shards[1].selected)])
    with pytest.raises(PlanError, match="shards are missing: no shard has"):
        merge(split(plan_of("abcdef", selected=True), 3)[:2])
    with pytest.raises(PlanError, match="do not fit together"):
        merge([shards[0], split(plan_of("abcdef", selected=True), 2)[1]])
