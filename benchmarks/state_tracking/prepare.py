"""State tracking: where a thing is after a sequence of swaps and rotations, generated from a seed.

Each row composes permutations of the boxes, so every move matters for the answer and none can be skipped. Difficulty adds
boxes and doubles the moves. Rows are made with integer arithmetic alone and are the same on every Python and machine.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

OUTPUT_FPATH = Path(__file__).parent / "data" / "state_tracking_benchmark.jsonl"

FORMAT_VERSION = 1
"""Written into every row. Raise it when rows of the same arguments come out differently."""

MAX_DIFFICULTY = 8

THINGS = (
    "anchor",
    "bell",
    "candle",
    "drum",
    "egg",
    "feather",
    "glove",
    "hammer",
    "ink",
    "jar",
    "key",
    "lamp",
)


def prepare(size: int = 200, seed: int = 0, difficulty: int = 3) -> Path:
    """Write `size` rows. A row depends on seed, difficulty and its own number only, so a larger set begins with the smaller.

    Args:
        size: number of rows, at least 1.
        seed: any integer; another seed gives other rows.
        difficulty: from 1 (5 boxes, 4 moves) to MAX_DIFFICULTY (12 boxes, 512 moves).
    Returns: the prepared file.
    Raises: ValueError when an argument is out of its range.
    """
    for name, value in (("size", size), ("seed", seed), ("difficulty", difficulty)):
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError(f"`{name}` is {value!r}; it has to be an integer.")
    if size < 1:
        raise ValueError(f"`size` is {size}; it has to be at least 1.")
    if not 1 <= difficulty <= MAX_DIFFICULTY:
        raise ValueError(f"`difficulty` is {difficulty}; it goes from 1 to {MAX_DIFFICULTY}.")

    OUTPUT_FPATH.parent.mkdir(parents=True, exist_ok=True)
    with open(OUTPUT_FPATH, "w", encoding="utf-8", newline="\n") as output:
        for index in range(size):
            row = make_row(seed, difficulty, index)
            output.write(json.dumps(row, ensure_ascii=False, sort_keys=True) + "\n")
    print(f"{size} rows of difficulty {difficulty} written to {OUTPUT_FPATH.name}")
    return OUTPUT_FPATH


def is_prepared_data_current(fpath: Path) -> bool:
    """Whether every row of a prepared file has this script's format version."""
    with open(fpath, encoding="utf-8") as lines:
        for line in lines:
            try:
                version = json.loads(line)["verifier_metadata"]["format_version"]
            except (ValueError, KeyError, TypeError):
                return False
            if version != FORMAT_VERSION:
                return False
    return True


def make_row(seed: int, difficulty: int, index: int) -> dict[str, Any]:
    """The row with this number: boxes filled in random order, the moves, and the box that holds one moved thing at the end."""
    random = Random(f"state_tracking/{FORMAT_VERSION}/{seed}/{difficulty}/{index}")
    box_count = 4 + difficulty
    move_count = 2 ** (difficulty + 1)

    contents = random.sample(THINGS, box_count)
    lines = [f"Box {box} holds the {thing}." for box, thing in enumerate(contents, 1)]
    steps = []
    moved = set()
    for number in range(1, move_count + 1):
        boxes = random.sample(range(box_count), 2 + random.below(2))
        names = [str(box + 1) for box in boxes]
        if len(boxes) == 2:
            steps.append(f"{number}. Swap what is in box {names[0]} with what is in box {names[1]}.")
        else:
            steps.append(
                f"{number}. Rotate: box {names[0]} to box {names[1]}, box {names[1]} to box {names[2]}, "
                f"box {names[2]} to box {names[0]}."
            )
        held = [contents[box] for box in boxes]
        moved.update(held)
        for position, box in enumerate(boxes):
            contents[box] = held[position - 1]
    # One that never moved could be answered from the first lines.
    thing = random.sample(sorted(moved), 1)[0]
    answer = str(contents.index(thing) + 1)

    question = "\n".join(
        [
            f"There are {box_count} boxes, and one thing in each.",
            *lines,
            "",
            "Then the things are moved, a step at a time:",
            *steps,
            "",
            f"Which box holds the {thing} now? End with the box's number in \\boxed{{}}.",
        ]
    )
    return {
        "task_id": f"d{difficulty}-s{seed}-{index:05d}",
        "question": question,
        "expected_answer": answer,
        "responses_create_params": {"input": [{"role": "user", "content": question}]},
        "verifier_metadata": {
            "format_version": FORMAT_VERSION,
            "boxes": box_count,
            "moves": move_count,
        },
    }


class Random:
    """SplitMix64 (Steele, Lea and Flood, 2014). Python promises the same draws in later versions for `random()` alone."""

    def __init__(self, name: str) -> None:
        """Start from a name: equal names, equal draws."""
        self.state = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")

    def next(self) -> int:
        """The next 64 bits."""
        mask = 2**64 - 1
        self.state = (self.state + 0x9E3779B97F4A7C15) & mask
        mixed = self.state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & mask
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & mask
        return mixed ^ (mixed >> 31)

    def below(self, bound: int) -> int:
        """An integer from 0 to bound - 1, all equally likely."""
        limit = 2**64 - 2**64 % bound
        while True:
            drawn = self.next()
            if drawn < limit:
                return drawn % bound

    def sample(self, items: Any, count: int) -> list[Any]:
        """`count` different items in random order (the first steps of a Fisher-Yates shuffle)."""
        pool = list(items)
        for position in range(count):
            other = position + self.below(len(pool) - position)
            pool[position], pool[other] = pool[other], pool[position]
        return pool[:count]


if __name__ == "__main__":
    prepare()
