"""Reading plan files: what is none is said in a sentence, whatever it is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gymbuild.plan.plan import parse_plan
from gymbuild.system.errors import PlanError

DIGEST = "sha256:" + "0" * 64
TASK = {"task_id": {"taskset": "s", "task_id": "a"}, "digest": DIGEST}
PLAN: dict[str, Any] = {
    "schema": "nemo-gym.eval-plan.v1",
    "gym": {"version": "1", "commit": None},
    "benchmark": {"name": "b", "config_paths": ["benchmarks/b/config.yaml"]},
    "selected_task_ids": None,
    "tasks": [TASK],
}


def test_a_plan_that_was_read_is_written_as_it_was() -> None:
    data = (json.dumps(PLAN, indent=2, sort_keys=True) + "\n").encode()
    assert parse_plan(data, "plan.json").to_bytes() == data


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            {"schema": "nemo-gym.eval-plan.v2"},
            "schema must be 'nemo-gym.eval-plan.v1', and is \"nemo-gym.eval-plan.v2\"",
        ),
        ({"tasks": {}}, "tasks must be an array, and is an object"),
        ({"tasks": None}, "tasks must be an array, and is null"),
        ({"tasks": ["x"]}, "task number 1 has not the form of one"),
        (
            {"tasks": [TASK, {**TASK, "task_id": {"taskset": "s", "task_id": 7}}]},
            "task number 2 has not the form",
        ),
        ({"tasks": [{**TASK, "digest": "sha256:0"}]}, "task 'a' has the digest 'sha256:0'"),
        ({"tasks": [TASK, TASK]}, "task ids are not unique"),
        (
            {"tasks": [TASK, {**TASK, "task_id": {"taskset": "t", "task_id": "b"}}]},
            "one taskset, and this has 's' and 't'",
        ),
        ({"tasks": [{**TASK, "task_id": {"taskset": "s", "task_id": "\ud800"}}]}, "a lone surrogate"),
        ({"benchmark": []}, "benchmark must be an object, and is an array"),
        (
            {"benchmark": {"name": "b", "config_paths": "abc"}},
            "benchmark.config_paths must be an array, and is a string",
        ),
        ({"benchmark": {"name": "b"}}, "benchmark.config_paths is missing"),
        ({"gym": None}, "gym must be an object, and is null"),
        ({"gym": {"version": "1"}}, "gym.commit is missing"),
        ({"gym": {"version": "1", "commit": 5}}, "gym.commit must be a string, and is a number"),
        ({"selected_task_ids": "abc"}, "selected_task_ids must be an array, and is a string"),
        ({"selected_task_ids": [1]}, "selected_task_ids must hold strings, and holds a number"),
    ],
)
def test_what_is_wrong_with_a_plan_is_said(change: dict[str, Any], text: str) -> None:
    with pytest.raises(PlanError) as caught:
        parse_plan(json.dumps({**PLAN, **change}).encode(), "plan.json")
    assert str(caught.value).startswith("plan.json: is not a plan: ")
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"[]", "it must be an object, and is an array"),
        (b"\xff\xfe{", "not UTF-8 (byte 1)"),
        ("{}".encode("utf-16"), "not UTF-8"),
        (b"[" * 100_000, "a nesting that no plan has"),
        (b'{"schema":' + b"9" * 5000 + b"}", "a number or a nesting"),
    ],
)
def test_bytes_that_are_no_plan(data: bytes, text: str) -> None:
    with pytest.raises(PlanError) as caught:
        parse_plan(data, "plan.json")
    assert text in str(caught.value)
