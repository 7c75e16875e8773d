"""The benchmarks that ship, end to end through plain `doit` and real environments."""

from __future__ import annotations

import json
import os
import subprocess

from tests.benchmarks.test_aime24 import REPOSITORY, REVISION, SPLIT_FILE, WRITE_PARQUET
from tests.hub_server import HubServer
from tests.tasks.conftest import Project


def test_human_eval_becomes_a_plan_of_164_tasks_and_a_second_start_does_nothing(shipped: Project) -> None:
    said = shipped.doit("plan:human_eval")
    assert "building benchmarks/human_eval/requirements.lock" in said
    plan = json.loads(shipped.path(".cache/plans/human_eval.json").read_text())
    assert len(plan["tasks"]) == 164
    said = shipped.doit("plan:human_eval")
    assert said == "-- prepare:human_eval\n-- plan:human_eval\nnothing to do: 2 current\n"

    script = shipped.path("benchmarks/human_eval/prepare.py")
    os.utime(script)
    assert "nothing to do" in shipped.doit("plan:human_eval")
    script.write_text(script.read_text() + "\n# edited\n")
    said = shipped.doit("prepare:human_eval", "plan:human_eval", "plan:human_eval/config_instruct")
    assert "prepare:human_eval prepared" in said
    assert (
        "plan:human_eval is the same" not in said
    )  # the same bytes: its plan is current without being made again
    assert "-- plan:human_eval\n" in said
    assert "plan:human_eval/config_instruct written" in said


def test_two_prompts_over_one_dataset_give_two_plans_with_the_same_ids(shipped: Project) -> None:
    shipped.doit("plan:human_eval", "plan:human_eval/config_instruct")
    one = json.loads(shipped.path(".cache/plans/human_eval.json").read_text())
    two = json.loads(shipped.path(".cache/plans/human_eval/config_instruct.json").read_text())
    assert [t["task_id"]["task_id"] for t in one["tasks"]] == [t["task_id"]["task_id"] for t in two["tasks"]]
    assert [t["digest"] for t in one["tasks"]] != [t["digest"] for t in two["tasks"]]


def test_the_others_that_need_no_hub(shipped: Project) -> None:
    said = shipped.doit("-n", "3", "plan:arc_agi", "plan:graph_atlas", "plan:state_tracking")
    for name, tasks in (("arc_agi", 400), ("graph_atlas", 965), ("state_tracking", 200)):
        assert f"plan:{name} written: .cache/plans/{name}.json ({tasks} tasks)" in said


def test_aime24_through_the_hubs_own_client(shipped: Project) -> None:
    shipped.doit(
        "venv", "prepare:aime24", code=75, HF_HUB_OFFLINE="1", HF_HOME=str(shipped.root.parent / "none")
    )
    (python,) = shipped.path(".cache/venvs").glob("*/lib/python*/site-packages/pyarrow")
    table = shipped.root.parent / "table.parquet"
    records = [
        {"id": i, "problem": f"{i}?", "solution": "s", "answer": f"{i:03}", "url": "u", "year": "2024"}
        for i in range(3)
    ]
    subprocess.run(
        [python.parents[3] / "bin" / "python", "-c", WRITE_PARQUET, table],
        input=json.dumps(records),
        text=True,
        check=True,
    )
    with HubServer() as hub:
        hub.add(REPOSITORY, {SPLIT_FILE: table.read_bytes()}, REVISION, "main")
        said = shipped.doit("plan:aime24", HF_ENDPOINT=hub.url, HF_HOME=str(shipped.root.parent / "hub"))
    assert "plan:aime24 written: .cache/plans/aime24.json (3 tasks)" in said


def test_aime24_without_a_hub_is_a_clear_error_that_may_pass(shipped: Project) -> None:
    said = shipped.doit(
        "prepare:aime24", code=75, HF_HUB_OFFLINE="1", HF_HOME=str(shipped.root.parent / "hub")
    )
    assert "FAILED prepare:aime24" in said
    assert "HF_ENDPOINT" in said
