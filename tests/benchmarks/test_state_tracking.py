"""state_tracking: generated rows whose answers hold, the same everywhere, and refused when another format made them."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.benchmarks.shipped import REPOSITORY, run_prepare

HOME = REPOSITORY / "benchmarks" / "state_tracking"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """The script as a module; it needs no package."""
    spec = importlib.util.spec_from_file_location("state_tracking_prepare", HOME / "prepare.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def prepare(checkout: Path, **args: Any) -> list[dict[str, Any]]:
    return run_prepare(checkout, sys.executable, "state_tracking", **args).rows


def follow(question: str) -> tuple[str, int, int]:
    """Read a question as a person would, following one thing. Returns: the answer, boxes and moves that were named."""
    asked = re.search(r"Which box holds the (\w+) now", question)
    assert asked is not None
    held = dict(re.findall(r"Box (\d+) holds the (\w+)\.", question))
    (place,) = (box for box, thing in held.items() if thing == asked[1])
    moves = re.findall(r"^\d+\. (Swap|Rotate)(.+)$", question, re.MULTILINE)
    for kind, rest in moves:
        if kind == "Swap":
            one, other = re.findall(r"box (\d+)", rest)
            place = {one: other, other: one}.get(place, place)
        else:
            place = dict(re.findall(r"box (\d+) to box (\d+)", rest)).get(place, place)
    return place, len(held), len(moves)


@pytest.mark.parametrize(
    ("difficulty", "boxes", "moves"),
    [(1, 5, 4), (2, 6, 8), (3, 7, 16), (4, 8, 32), (5, 9, 64), (6, 10, 128), (7, 11, 256), (8, 12, 512)],
)
def test_following_the_moves_gives_the_answer(
    checkout: Path, difficulty: int, boxes: int, moves: int
) -> None:
    rows = prepare(checkout, size=40, seed=11, difficulty=difficulty)
    assert len(rows) == 40
    for row in rows:
        assert follow(row["question"]) == (row["expected_answer"], boxes, moves)
        assert row["responses_create_params"] == {"input": [{"role": "user", "content": row["question"]}]}


def test_the_thing_that_is_asked_for_was_moved(checkout: Path) -> None:
    for row in prepare(checkout, size=300, difficulty=1):
        question = row["question"]
        held = dict(re.findall(r"Box (\d+) holds the (\w+)\.", question))
        moved = set(re.findall(r"box (\d+)", question.split("a step at a time:")[1]))
        asked = re.search(r"Which box holds the (\w+) now", question)
        assert asked is not None
        # A box that is in no move keeps what it has, so the thing started in one that is.
        assert asked[1] in {held[box] for box in moved}


def test_no_box_is_a_better_guess_than_another(checkout: Path) -> None:
    answers = Counter(row["expected_answer"] for row in prepare(checkout, size=2000, difficulty=1))
    # 400 of each are expected; six standard deviations of a fair draw are 107.
    assert set(answers) == {"1", "2", "3", "4", "5"}
    assert all(abs(count - 400) < 108 for count in answers.values())


def test_a_larger_set_begins_with_the_smaller(checkout: Path) -> None:
    assert prepare(checkout, size=30)[:10] == prepare(checkout, size=10)


def test_another_seed_or_difficulty_gives_other_rows(checkout: Path) -> None:
    sets = [
        prepare(checkout, size=50, seed=seed, difficulty=level) for seed in (0, 1, -1) for level in (2, 3)
    ]
    questions = [row["question"] for rows in sets for row in rows]
    task_ids = [row["task_id"] for rows in sets for row in rows]
    assert len(set(questions)) == len(questions) == len(set(task_ids)) == 300


def test_draws_are_those_of_splitmix64(script: ModuleType) -> None:
    random = script.Random("any")
    random.state = 1234567
    # The first outputs for this seed, as Rosetta Code's "Pseudo-random numbers/Splitmix64" lists them.
    assert [random.next() for _ in range(5)] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


def test_the_committed_example_is_the_first_five_rows(checkout: Path) -> None:
    rows = run_prepare(checkout, sys.executable, "state_tracking", size=5)
    assert (HOME / "data" / "example.jsonl").read_bytes() == rows.content
    assert len(rows.rows) == 5


def test_a_file_of_this_format_is_current(checkout: Path, script: ModuleType) -> None:
    fpath = run_prepare(checkout, sys.executable, "state_tracking", size=5).fpath
    assert script.is_prepared_data_current(fpath) is True


@pytest.mark.parametrize(
    "line",
    [
        '{"verifier_metadata": {"format_version": 0}}',
        '{"verifier_metadata": {}}',
        '{"verifier_metadata": null}',
        '{"task_id": "d3-s0-00000"}',
        "[]",
        '{"verifier_metadata": {"format_ver',
    ],
)
def test_a_file_with_a_row_of_another_format_is_not_current(
    line: str, tmp_path: Path, script: ModuleType
) -> None:
    current = json.dumps({"verifier_metadata": {"format_version": script.FORMAT_VERSION}})
    fpath = tmp_path / "rows.jsonl"
    fpath.write_text(f"{current}\n{line}\n{current}\n")
    assert script.is_prepared_data_current(fpath) is False


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"size": 0}, "`size` is 0; it has to be at least 1."),
        ({"difficulty": 9}, "`difficulty` is 9; it goes from 1 to 8."),
        ({"seed": "7"}, "`seed` is '7'; it has to be an integer."),
        ({"size": 2.5}, "`size` is 2.5; it has to be an integer."),
        ({"size": True}, "`size` is True; it has to be an integer."),
    ],
)
def test_an_argument_out_of_range_is_an_error_and_writes_nothing(
    args: dict[str, Any], message: str, checkout: Path
) -> None:
    assert run_prepare(checkout, sys.executable, "state_tracking", **args).error == f"ValueError: {message}"
    assert not (checkout / "benchmarks/state_tracking/data/state_tracking_benchmark.jsonl").exists()
