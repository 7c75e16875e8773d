"""A prepared file is read once, part by part: the same in one process or several, in little memory."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from gymbuild.plan import plan as plans
from gymbuild.plan import workers
from gymbuild.plan.digesting import Rows, Rules, digester
from gymbuild.plan.plan import Plan, Tasks, build_plan
from gymbuild.plan.prompts import Prompt
from gymbuild.plan.reading import read_part, whole_lines
from gymbuild.plan.workers import read_in_processes, read_rows
from gymbuild.system.errors import PlanError

SOME = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
REPOSITORY = Path(__file__).resolve().parents[2]
MARK = b"\xef\xbb\xbf"
LINES = st.sampled_from(
    [
        b'{"task_id":"a"}',
        b'{"task_id": 7, "x": 1e3}',
        b'{"q":"same"}',
        b'{"question":"x","n":"y"}',
        b'{"question":"x","n":"y","responses_create_params":{"input":"z"}}',
        b"",
        b"  \t",
        b"[]",
        b'{"task_id":"b","x":"' + b"y" * 90 + b'"}',
    ]
)
WAYS = [None, "orjson", "plain"]
"""Ways that workers have."""
_KILLED = (
    "import sys, os, signal; sys.path[:] = {path!r}; from gymbuild.plan import workers; answers = []\n"
    "real = workers._write\n"
    "def write(pipe, data):\n"
    "    answers.append(1)\n"
    "    if len(answers) == 3: os.kill(os.getpid(), signal.SIGKILL)\n"
    "    real(pipe, data)\n"
    "workers._write = write\n"
    "workers.main()"
)
"""A worker that is killed when it is about to give its third answer."""
ENDS = st.sampled_from([b"\n", b"\n", b"\r\n", b"\r"])


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """Lines of all kinds with all kinds of ends, with or without a byte order mark and a last newline."""
    data = b"".join(draw(st.lists(st.builds(lambda line, end: line + end, LINES, ENDS), max_size=12)))
    return draw(st.sampled_from([b"", MARK])) + data + draw(st.sampled_from([b"", b'{"task_id":"last"}']))


def cuts(data: bytes, points: Iterable[int]) -> list[tuple[int, int]]:
    """Parts of a file from the points where it is cut."""
    places = sorted({0, len(data), *(point % (len(data) + 1) for point in points)})
    return list(pairwise(places))


def write(folder: Path, data: bytes) -> str:
    path = folder / "rows.jsonl"
    path.write_bytes(data)
    return str(path)


def rows_file(folder: Path, count: int, change: dict[int, bytes] | None = None) -> str:
    """A file of rows of about 100 bytes, some of them replaced."""
    lines = [json.dumps({"task_id": f"t{n}", "question": "é" * 10, "n": n}).encode() for n in range(count)]
    for number, line in (change or {}).items():
        lines[number] = line
    return write(folder, b"\n".join(lines))


@SOME
@given(
    data=st.lists(st.sampled_from([b"a", b"\n", b"\r", b"\r\n", MARK]), max_size=40).map(b"".join),
    points=st.lists(st.integers(0, 200), max_size=4),
    block=st.integers(1, 9),
)
def test_parts_are_whole_lines_and_together_the_file(
    tmp_path: Path, data: bytes, points: list[int], block: int
) -> None:
    path = write(tmp_path, data)
    pieces = [piece for start, end in cuts(data, points) for piece in whole_lines(path, start, end, block)]
    assert b"".join(pieces) == data.removeprefix(MARK)
    assert all(piece.endswith(b"\n") for piece in pieces[:-1])


@SOME
@given(data=files(), points=st.lists(st.integers(0, 2000), max_size=5), filled=st.booleans())
@example(data=b'{"task_id":"a"}\n[]\n{}\n[]\n', points=[20, 22], filled=False)
def test_parts_add_up_to_the_whole(
    tmp_path: Path, way: str, data: bytes, points: list[int], filled: bool
) -> None:
    path = write(tmp_path, data)
    prompt = Prompt("{question} {n}", None, frozenset(["question", "n"])) if filled else None
    digest = digester(Rules(prompt), way)  # type: ignore[arg-type]
    together = Rows()
    for start, end in cuts(data, points):
        together.extend(read_part(path, start, end, digest))
    assert together == read_rows(path, Rules(prompt), way="plain")


@pytest.mark.parametrize("processes", [1, 2, 3])
@pytest.mark.parametrize("way", WAYS)
def test_several_processes_give_what_one_gives(tmp_path: Path, way: Any, processes: int) -> None:
    path = rows_file(tmp_path, 400, {7: b"", 8: b'{"question":1,"n":2}\r', 200: b'{"n":2,"question":1}'})
    size = os.path.getsize(path)
    for rules in (Rules(), Rules(Prompt("{question}", "{n}", frozenset(["n", "question"])))):
        found = read_in_processes(path, size, rules, processes, way, part=3000)
        assert found == read_rows(path, rules, way="plain")
        assert len(found.ids) == 399


def test_a_plan_is_the_same_from_several_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = rows_file(tmp_path, 300, {9: b'{"q":1}', 290: b'{"q":1}', 150: b'{"q":1}'})

    def make(processes: int) -> bytes:
        return build_plan(
            path,
            benchmark="b",
            taskset=None,
            config_paths=[],
            prompt=None,
            gym_version="0",
            gym_commit=None,
            processes=processes,
        ).to_bytes()

    alone = make(1)
    assert b'-3"' in alone
    used = []
    real = read_in_processes

    def small_parts(*arguments: Any) -> Rows:
        used.append(arguments)
        return real(*arguments, part=4096)

    monkeypatch.setattr(workers, "PART", 4096)
    monkeypatch.setattr(workers, "read_in_processes", small_parts)
    assert make(2) == alone
    assert used


@pytest.mark.parametrize("way", WAYS)
def test_the_first_error_of_the_file_is_the_one_that_is_said(tmp_path: Path, way: Any) -> None:
    path = rows_file(tmp_path, 500, {130: b"[1]", 131: b"{", 480: b'"\xff"'})
    found = read_in_processes(path, os.path.getsize(path), Rules(), 2, way, part=2000)
    assert found.error == (131, "a row must be a JSON object, and this is an array")
    assert found == read_rows(path, Rules(), way="plain")


@pytest.mark.parametrize("way", WAYS)
def test_rows_that_cannot_be_filled_are_named_alike(tmp_path: Path, way: Any) -> None:
    rules = Rules(Prompt("{question}{n}", None, frozenset(["n", "question"])))
    lacking = dict.fromkeys(range(0, 400, 20), b'{"question":"x"}')
    path = rows_file(tmp_path, 400, lacking)
    found = read_in_processes(path, os.path.getsize(path), rules, 2, way, part=2000)
    assert found.missing["n"].count == 20
    assert found.missing["n"].first == [1 + 20 * number for number in range(10)]
    assert found == read_rows(path, rules, way="plain")


@pytest.mark.parametrize("program", ["import sys; sys.exit(7)  # {path}", _KILLED])
def test_what_a_process_that_ends_early_had_to_do_is_done_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    path = rows_file(tmp_path, 3000)
    monkeypatch.setattr(workers, "_START", program)
    monkeypatch.setattr(workers, "read_part", slowly(workers.read_part))
    found = read_in_processes(path, os.path.getsize(path), Rules(), 3, None, part=8000)
    assert found == read_rows(path, Rules(), way="plain")


def slowly(work: Any) -> Any:
    """`work`, taking so long that others get something to do."""

    def slow(*arguments: Any) -> Any:
        time.sleep(0.01)
        return work(*arguments)

    return slow


def test_a_file_that_is_gone_is_an_error_for_the_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = rows_file(tmp_path, 100)
    with pytest.raises(PlanError, match=r"missing\.jsonl: the prepared file cannot be read: No such file"):
        read_rows(str(tmp_path / "missing.jsonl"), Rules())
    monkeypatch.setattr(workers, "PART", 1000)
    real = os.stat

    def then_gone(name: Any, *arguments: Any, **options: Any) -> os.stat_result:
        status = real(name, *arguments, **options)
        if name == path:
            os.rename(path, path + ".moved")
        return status

    monkeypatch.setattr(workers.os, "stat", then_gone)
    with pytest.raises(PlanError, match=r"rows\.jsonl: the prepared file cannot be read: No such file"):
        read_rows(path, Rules(), processes=2)


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="children are looked up in /proc")
def test_no_process_is_left_behind(tmp_path: Path) -> None:
    def children() -> set[str]:
        # by parent, not by thread: a thread may end between its listing and the look at its children
        found = set()
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                if int(stat[1]) == os.getpid():
                    found.add(pid)
        return found

    before = children()
    path = rows_file(tmp_path, 500, {3: b"[]"})
    assert read_in_processes(path, os.path.getsize(path), Rules(), 2, None, part=1000).error is not None
    assert children() <= before


@SOME
@given(
    ids=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=6), unique=True, max_size=12),
    taskset=st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
    chunk=st.integers(1, 5),
)
def test_a_plan_written_piece_by_piece_is_the_one_that_json_writes(
    monkeypatch: pytest.MonkeyPatch, ids: list[str], taskset: str, chunk: int
) -> None:
    monkeypatch.setattr(plans, "_CHUNK", chunk)
    tasks = Tasks.of((task_id, "sha256:" + f"{place:064x}") for place, task_id in enumerate(ids))
    plan = Plan("b", ("a/ü.yaml",), "1", None, taskset, tasks, tuple(sorted(ids)) if ids else None)
    expected = json.dumps(plan.to_json(), indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    assert b"".join(plan.chunks()) == plan.to_bytes() == expected.encode()
    assert [task["task_id"]["task_id"] for task in plan.to_json()["tasks"]] == sorted(ids)


MEASURE = """
import resource, sys
from gymbuild.plan.plan import build_plan
processes = int(sys.argv[2])
def plan(path):
    return build_plan(path, benchmark="b", taskset=None, config_paths=[], prompt=None, gym_version="0",
                      gym_commit=None, processes=processes)
unit = 1 if sys.platform == "darwin" else 1024
plan(sys.argv[1] + ".small").to_bytes()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with open("/dev/null", "wb") as file:
    file.writelines(plan(sys.argv[1]).chunks())
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * unit)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * unit)
"""


def peaks(path: str, processes: int) -> tuple[int, int]:
    """What planning a file adds to a process's peak of memory, and the peak of its largest worker, in bytes."""
    Path(path + ".small").write_text('{"task_id":"a"}\n')
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, path, str(processes)],
        check=True,
        stdout=subprocess.PIPE,
        cwd=REPOSITORY,
    )
    own, worker = done.stdout.split()
    return int(own), int(worker)


@pytest.mark.parametrize("processes", [1, 2])
def test_memory_does_not_grow_with_the_bytes_of_the_rows(tmp_path: Path, processes: int) -> None:
    path = tmp_path / "rows.jsonl"
    with open(path, "wb") as file:
        for number in range(300):
            file.write(b'{"task_id":"%d","x":"%s"}\n' % (number, b"y" * 500_000))
    own, worker = peaks(str(path), processes)
    assert own < 30_000_000
    assert worker < 120_000_000


@pytest.mark.parametrize("processes", [1, 2])
def test_memory_grows_with_the_tasks_by_less_than_250_bytes(tmp_path: Path, processes: int) -> None:
    path = tmp_path / "rows.jsonl"
    count = 300_000
    with open(path, "wb") as file:
        for number in range(count):
            file.write(b'{"task_id":"%020d","question":"%d + 1?"}\n' % (number, number))
    own, _ = peaks(str(path), processes)
    assert own < 30_000_000 + 250 * count
