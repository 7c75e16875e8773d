"""Process groups: what they print and how they end arrives, and nothing of them outlives us."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gymbuild.system import processes
from gymbuild.system.processes import Ended, run


def eventually(condition: Callable[[], bool], seconds: float = 20) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def is_running(pid: int) -> bool:
    shown = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout
    return bool(shown.strip()) and "Z" not in shown


def pid_in(path: Path) -> int:
    assert eventually(lambda: path.exists() and path.read_text().endswith("\n"))
    return int(path.read_text())


@pytest.fixture(params=["watched", "none"])
def lifeline(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_what_is_printed_and_how_it_ended(lifeline: str) -> None:
    command = ["sh", "-c", "echo one; echo two >&2; exit 3"]
    assert run(command, lifeline=lifeline) == Ended(3, b"one\ntwo\n")  # type: ignore[arg-type]
    assert run(command, errors="apart") == Ended(3, b"one\n", b"two\n")
    assert run(command, errors="nowhere") == Ended(3, b"one\n")
    taken: list[bytes] = []
    assert run(command, write=taken.append).output == b""
    assert b"".join(taken) == b"one\ntwo\n"
    assert run(["sh", "-c", "kill -SEGV $$"], lifeline=lifeline).status == -signal.SIGSEGV  # type: ignore[arg-type]


def test_much_output_on_both_streams(lifeline: str) -> None:
    program = "import sys\nfor _ in range(300): sys.stdout.write('o' * 5000); sys.stderr.write('e' * 5000)"
    ended = run([sys.executable, "-c", program], errors="apart", lifeline=lifeline)  # type: ignore[arg-type]
    assert ended == Ended(0, b"o" * 1_500_000, b"e" * 1_500_000)


def test_folder_variables_and_no_input(tmp_path: Path) -> None:
    ended = run(
        ["sh", "-c", "pwd -P; echo $X; cat"], cwd=str(tmp_path), environment={"PATH": os.defpath, "X": "x"}
    )
    assert ended.output.decode() == f"{tmp_path.resolve()}\nx\n"


def test_a_pipe_that_nobody_reads_ends_a_command_as_it_should() -> None:
    # Python ignores SIGPIPE; what it becomes must not
    assert run(["sh", "-c", "trap - PIPE; kill -PIPE $$; echo alive"]).output == b""


def test_a_program_that_is_not_there() -> None:
    with pytest.raises(FileNotFoundError):
        run(["/not/there"], lifeline="none")
    assert run(["/not/there"]) == Ended(127, b"cannot start /not/there: No such file or directory\n")


def test_a_child_left_behind_ends(tmp_path: Path, lifeline: str) -> None:
    run(["sh", "-c", "sleep 600 & echo $! > pid"], cwd=str(tmp_path), lifeline=lifeline)  # type: ignore[arg-type]
    assert eventually(lambda: not is_running(pid_in(tmp_path / "pid")))


def test_a_child_that_never_stops_printing_does_not_hold_us(tmp_path: Path) -> None:
    started = time.monotonic()
    run(["sh", "-c", "yes & echo $! > pid"], cwd=str(tmp_path), write=len)
    assert time.monotonic() - started < 10
    assert eventually(lambda: not is_running(pid_in(tmp_path / "pid")))


def test_over_its_time_it_is_asked_to_end_and_then_made_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lifeline: str
) -> None:
    monkeypatch.setattr(processes, "GRACE", 0.3)
    program = "trap 'echo asked' TERM; echo $$ > pid; while true; do sleep 0.05; done"
    ended = run(["sh", "-c", program], cwd=str(tmp_path), timeout=1, lifeline=lifeline)  # type: ignore[arg-type]
    assert ended.timed_out
    assert b"asked\n" in ended.output
    assert not is_running(pid_in(tmp_path / "pid"))


def test_descriptors_are_given_back() -> None:
    folder = "/dev/fd" if sys.platform == "darwin" else "/proc/self/fd"
    run(["true"])
    before = len(os.listdir(folder))
    for _ in range(3):
        run(["true"], errors="apart")
    assert len(os.listdir(folder)) == before


RUNS = """
import os, sys
from gymbuild.system.processes import run
lock = os.open("lock", os.O_RDWR | os.O_CREAT)
import fcntl
fcntl.flock(lock, fcntl.LOCK_EX)
run(["sh", "-c", sys.argv[1]], keep_open=[lock])
"""


@pytest.mark.parametrize("stubborn", [False, True])
def test_a_command_ends_with_us_and_the_lock_is_free_only_then(tmp_path: Path, stubborn: bool) -> None:
    program = (
        "trap '' TERM; " if stubborn else ""
    ) + "sleep 600 & echo $! > child; echo $$ > pid; wait; sleep 600"
    ours = subprocess.Popen([sys.executable, "-c", RUNS, program], cwd=tmp_path)
    child, command = pid_in(tmp_path / "child"), pid_in(tmp_path / "pid")
    ours.kill()
    ours.wait()
    with (tmp_path / "lock").open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert not is_running(command)
        assert not is_running(child)


def test_a_command_does_not_hold_the_lock(tmp_path: Path) -> None:
    lock = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    try:
        ended = run(["sh", "-c", f"true <&{lock}"], keep_open=[lock])
    finally:
        os.close(lock)
    assert ended.status != 0
