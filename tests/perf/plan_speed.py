"""How fast a plan is made, against the plain reference, and how much memory that takes; quote the ratios.

    python tests/perf/plan_speed.py [--rows 100000] [--runs 5] [--memory 1000]

The reference is what NeMo Gym does for each row: `json.loads`, a filter, `json.dumps` with sorted keys, SHA-256.
It keeps ids and digests and does nothing else; ours is the whole of `build_plan`: checks, unique ids, sorting.
Every round takes the reference and then each of ours on the same file of rows of about 1 KB; what counts is the
fastest round of each, as other work on the machine only ever adds time. `--memory` writes files of so many MB, one
at a time (to `TMPDIR`), and prints the peak of the processes that plan them; `--rows 0` measures nothing else.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(HERE))

TEXT = (
    "the of integral and sequence to prime is find such that value sum triangle function where for each"
    ' number graph vertex returns list string naïve Größe f(x) ≤ √2 \\frac{a}{b} newline\n quote" 3.14'
)
TEMPLATES = {
    "with a prompt template": "user: |\n  Solve this.\n  {question}\nsystem: You are careful.\n",
    "with one that takes a list": "user: |\n  {question}\n  Options: {options}\nsystem: You are careful.\n",
}
ARGUMENTS: dict[str, Any] = {
    "benchmark": "speed",
    "taskset": None,
    "config_paths": [],
    "gym_version": "0",
    "gym_commit": None,
}


def rows(count: int, template: bool) -> Iterator[dict[str, Any]]:
    """Rows as benchmarks have them: text, messages, some metadata, now and then a float."""
    chance, words = random.Random(0), TEXT.split(" ")
    for number in range(count):
        text = " ".join(chance.choices(words, k=110))
        row: dict[str, Any] = {
            "task_id": f"speed/{number}",
            "question": text if template else text[:60],
            "options": ["A. 1", "B. 2", "C. 3"],
            "verifier_metadata": {
                "answer": str(chance.randrange(1000)),
                "difficulty": chance.random(),
                "source": {"name": "made", "year": 2024, "tags": ["algebra", "number theory"]},
            },
            "agent_ref": {"type": "responses_api_agents", "name": "simple_agent"},
        }
        if template:
            row["responses_create_params"] = {"temperature": 0.7}
        else:
            row["responses_create_params"] = {
                "input": [
                    {"role": "system", "content": "You are careful."},
                    {"role": "user", "content": text},
                ]
            }
        yield row


def canonical(row: dict[str, Any]) -> str:
    """A row that is canonical JSON already, without bookkeeping."""
    row = {key: value for key, value in row.items() if key != "agent_ref"}
    return json.dumps(row, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def reference(path: str) -> list[tuple[str, str]]:
    """Ids and digests in the plainest way."""
    left_out = ("agent_ref", "task_source", "skills_ref")
    found = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            content = {k: v for k, v in row.items() if k not in left_out and not k.startswith("_ng_")}
            data = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
            found.append((str(row["task_id"]), "sha256:" + hashlib.sha256(data.encode()).hexdigest()))
    return found


def filling_reference(path: str, prompt: str) -> list[tuple[str, str]]:
    """The same with the prompt template filled into each row."""
    import yaml

    template = yaml.safe_load(Path(prompt).read_text())
    left_out = ("agent_ref", "task_source", "skills_ref")
    found = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            content = {k: v for k, v in row.items() if k not in left_out and not k.startswith("_ng_")}
            messages = [
                {"role": "system", "content": template["system"].format_map(row)},
                {"role": "user", "content": template["user"].format_map(row)},
            ]
            content["responses_create_params"] = {**row["responses_create_params"], "input": messages}
            data = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
            found.append((str(row["task_id"]), "sha256:" + hashlib.sha256(data.encode()).hexdigest()))
    return found


def compare(
    title: str, plain: Callable[[], list[tuple[str, str]]], ours: dict[str, Callable[[], Any]], runs: int
) -> None:
    """Time the reference and ours in turn, check that they agree, and print the ratios."""
    expected = sorted(plain())
    count = len(expected)
    for name, make in ours.items():
        assert list(make().tasks) == expected, f"{title}, {name}: other tasks than the reference"
    del expected
    spent: dict[str, list[float]] = {name: [] for name in ("reference", *ours)}
    for _ in range(runs):
        for name, make in {"reference": plain, **ours}.items():
            start = time.perf_counter()
            made = make()
            spent[name].append(time.perf_counter() - start)
            del made
    print(title)
    for name, seconds in spent.items():
        ratio = min(spent["reference"]) / min(seconds)
        print(f"  {name:<28}{1e6 * min(seconds) / count:8.2f} µs a row {ratio:7.1f} ×", flush=True)


def ways() -> list[str]:
    """The ways of digesting, fastest first."""
    return ["orjson"]


def measure_speed(folder: Path, count: int, runs: int) -> None:
    """Write the files and print the ratios of each."""
    from gymbuild.plan.plan import build_plan

    def plan(path: Path, prompt: Path | None, processes: int, way: str) -> Callable[[], Any]:
        return lambda: build_plan(
            str(path),
            prompt=None if prompt is None else str(prompt),
            processes=processes,
            way=way,  # type: ignore[arg-type]
            **ARGUMENTS,
        )

    dumped, plain, asks = folder / "dumped.jsonl", folder / "canonical.jsonl", folder / "asks.jsonl"
    for path, write, template in (
        (dumped, json.dumps, False),
        (plain, canonical, False),
        (asks, json.dumps, True),
    ):
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(write(row) + "\n" for row in rows(count, template))
    cases: list[tuple[str, Path, Path | None]] = [
        ("rows as json.dumps writes them", dumped, None),
        ("rows that are canonical already", plain, None),
    ]
    for number, (title, text) in enumerate(TEMPLATES.items()):
        prompt = folder / f"prompt{number}.yaml"
        prompt.write_text(text)
        cases.append((title, asks, prompt))
    for title, path, template_path in cases:
        size = path.stat().st_size / count
        compare(
            f"{title}: {count:,} rows of {size:,.0f} bytes",
            (lambda path=path: reference(str(path)))
            if template_path is None
            else (lambda path=path, prompt=template_path: filling_reference(str(path), str(prompt))),
            {
                f"{way}, {'one process' if processes == 1 else 'two'}": plan(
                    path, template_path, processes, way
                )
                for way in ways()
                for processes in (1, 2)
            },
            runs,
        )


def memory_files(folder: Path, megabytes: int) -> Iterator[tuple[str, Path, int, Path | None]]:
    """Files of so many MB, one at a time: a title, the file, its rows, and the prompt template to fill or None."""
    path, prompt = folder / "large.jsonl", folder / "prompt.yaml"
    prompt.write_text(TEMPLATES["with a prompt template"])
    wide = [{**row, "notes": row["question"] * 16_000} for row in rows(20, False)]
    for title, block, template in (
        ("rows of about 1 KB", list(rows(1000, False)), None),
        ("with a prompt template", list(rows(1000, True)), prompt),
        ("rows of about 1 MB", wide, None),
    ):
        lines = [json.dumps(row) for row in block]
        count = 0
        with open(path, "w", encoding="utf-8") as file:
            while file.tell() < megabytes * 1_000_000:
                file.writelines(line.replace("speed/", f"speed/{count}/", 1) + "\n" for line in lines)
                count += len(lines)
        yield title, path, count, template
        path.unlink()


def measure_memory(folder: Path, megabytes: int) -> None:
    """Write files of so many MB and print what planning them takes at its peak."""
    for title, path, count, prompt in memory_files(folder, megabytes):
        print(f"{title}: {path.stat().st_size / 1e9:.1f} GB with {count:,} rows")
        for processes in (1, 2):
            most, seconds = peak(path, prompt, processes)
            allowed = 300 + 250 * count / 1e6
            print(
                f"  {f'{processes} process' if processes == 1 else f'{processes} processes':<12} peak {most / 1e6:6,.0f} MB "
                f"of {allowed:6,.0f} allowed{'' if most / 1e6 < allowed else ': TOO MUCH'}; {seconds:.0f} s",
                flush=True,
            )


def peak(path: Path, prompt: Path | None, processes: int) -> tuple[int, float]:
    """The peak of a process that plans a file and writes the plan, with its workers, in bytes; and its seconds."""
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, __file__, "--child", str(path), str(prompt or ""), str(processes)],
        check=True,
        stdout=subprocess.PIPE,
    )
    return int(done.stdout), time.perf_counter() - start


def child(path: str, prompt: str, processes: int) -> None:
    """Plan one file, and print the peak of this process and, times their number, of the largest worker.

    On Linux no process seems smaller than the one that started it was: the figure is never too low.
    """
    from gymbuild.plan.plan import build_plan

    with open(os.devnull, "wb") as file:
        plan = build_plan(path, prompt=prompt or None, processes=processes, **ARGUMENTS)
        file.writelines(plan.chunks())
    unit = 1 if sys.platform == "darwin" else 1024
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    workers = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * (processes - 1)
    print((own + workers) * unit)


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=100_000, help="rows of each file")
    parser.add_argument("--runs", type=int, default=5, help="rounds")
    parser.add_argument(
        "--memory", type=int, default=1000, help="MB of each file that memory is measured with; 0 for none"
    )
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        path, prompt, processes = arguments.child
        child(path, prompt, int(processes))
        return
    with tempfile.TemporaryDirectory() as folder:
        if arguments.rows:
            measure_speed(Path(folder), arguments.rows, arguments.runs)
        if arguments.memory:
            measure_memory(Path(folder), arguments.memory)


if __name__ == "__main__":
    main()
