"""Rows as a run would receive them: the very ids and digests of the plan, messages in full, the rest folded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from gymbuild.plan.plan import build_plan
from gymbuild.plan.prompts import load_prompt
from gymbuild.plan.show import ReceivedRow, received_rows, render_row, row_to_json
from gymbuild.system.errors import PlanError

DATA = Path(__file__).resolve().parents[1] / "data"
PROMPTS = json.loads((DATA / "prompt-vectors.json").read_text(encoding="utf-8"))


def write(folder: Path, rows: list[object]) -> str:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def find_row(path: str, task_id: str) -> ReceivedRow | None:
    return next(received_rows(path, wanted=[task_id]), None)


@pytest.mark.parametrize("name", PROMPTS)
def test_a_row_is_what_nemo_gym_gives_a_run(tmp_path: Path, name: str) -> None:
    case = PROMPTS[name]
    template = tmp_path / "prompt.yaml"
    template.write_text(yaml.safe_dump(case["prompt"]))
    found = list(received_rows(write(tmp_path, case["rows"]), prompt=load_prompt(str(template))))
    assert [row.task_input for row in found] == case["materialized"]
    planned = {task["task_id"]["task_id"]: task["digest"] for task in json.loads(case["plan"])["tasks"]}
    assert {row.task_id: row.digest for row in found} == planned


def test_ids_and_digests_are_those_of_the_plan(tmp_path: Path) -> None:
    path = write(tmp_path, [{"q": 1}, {"task_id": 3}, {"q": 1}, {"q": 2, "_ng_x": 1}, {"q": 1}])
    plan = build_plan(
        path, benchmark="b", taskset=None, config_paths=[], prompt=None, gym_version="1", gym_commit=None
    )
    found = list(received_rows(path))
    assert sorted((row.task_id, row.digest) for row in found) == list(plan.tasks)
    assert [row.line for row in found] == [1, 2, 3, 4, 5]
    assert [row.size for row in found] == [8, 14, 8, 20, 8]
    assert found[3].task_input == {"q": 2}


def test_one_row_is_found_by_its_id(tmp_path: Path) -> None:
    path = write(tmp_path, [{"task_id": "a"}, {"task_id": "b", "x": 1}])
    found = find_row(path, "b")
    assert found is not None
    assert row_to_json(found) == {
        "task_id": "b",
        "line": 2,
        "digest": found.digest,
        "task_input": {"task_id": "b", "x": 1},
    }
    assert find_row(path, "c") is None


def test_a_row_that_no_task_can_be_made_of_is_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"task_id": "a"}\n{"task_id": \n')
    with pytest.raises(PlanError, match=r"rows\.jsonl:2: not JSON"):
        list(received_rows(str(path)))
    path.write_text('{"task_id": "a"}\n{}\n')
    with pytest.raises(PlanError, match=r"rows\.jsonl:2: the row has no task_id"):
        list(received_rows(str(path), ids="explicit"))


def test_messages_are_shown_in_full_and_the_rest_on_a_line_each(tmp_path: Path) -> None:
    row = {
        "task_id": "a",
        "verifier_metadata": {"tests": ["x" * 50] * 10},
        "responses_create_params": {
            "input": [
                {"role": "system", "content": "Be terse."},
                {"role": "user", "content": [{"type": "input_text", "text": "Long\n" * 3}]},
                {"type": "function_call", "name": "f", "arguments": "{}"},
            ],
            "temperature": 1.0,
        },
    }
    found = find_row(write(tmp_path, [row]), "a")
    assert found is not None
    assert render_row(found).split("\n") == [
        f"a   (line 1, {found.digest})",
        "",
        "[system]",
        "Be terse.",
        "",
        "[user]",
        "Long",
        "Long",
        "Long",
        "",
        "",
        '[function_call] {"arguments":"{}","name":"f","type":"function_call"}',
        "",
        "responses_create_params:",
        "  temperature: 1.0",
        "",
        "fields:",
        '  task_id: "a"',
        '  verifier_metadata: {"tests":["' + "x" * 50 + '","' + "x" * 36 + "… (1 field)",
    ]


def test_a_row_without_an_input_says_so(tmp_path: Path) -> None:
    found = find_row(write(tmp_path, [{"task_id": "a", "responses_create_params": {}}]), "a")
    assert found is not None
    assert "no input" in render_row(found)
