"""Locks: one at a time, the holder is named, and none outlives who held it; also where a file system has none."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gymbuild.system import locks
from gymbuild.system.locks import lock, lock_descriptor, lock_file, lock_path, unlock_descriptor
from gymbuild.system.paths import Checkout

HOLDER = """
import subprocess, sys, time
from gymbuild.system import locks
from gymbuild.system.paths import Checkout
if sys.argv[2] == "none":
    locks.files_have_locks = lambda folder: False
with locks.lock(Checkout(sys.argv[1]), "prepare:a/b") as descriptors:
    if sys.argv[2] == "inherited":
        subprocess.Popen(["sleep", "60"], pass_fds=descriptors, stdout=subprocess.DEVNULL)
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture(params=["kernel", "none"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Whether the file system has locks."""
    kind: str = request.param
    if kind == "none":
        monkeypatch.setattr(locks, "files_have_locks", lambda folder: False)
    return kind


@contextlib.contextmanager
def holder(checkout: Checkout, kind: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock `prepare:a/b`."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, checkout.root, kind],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout and process.stdout.readline() == "held\n"
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_one_at_a_time_and_the_holder_is_named_once(tmp_path: Path, kind: str) -> None:
    checkout, said = Checkout(tmp_path), []
    with holder(checkout, kind) as other:
        with lock(checkout, "prepare:a/b", blocking=False) as found:
            assert found is None
        with lock(checkout, "prepare:a", blocking=False) as found:
            assert found is not None
        timer = threading.Timer(0.3, lambda: (other.kill(), other.wait()))
        timer.start()
        before = time.monotonic()
        with lock(checkout, "prepare:a/b", waiting=said.append) as found:
            assert found is not None and time.monotonic() - before > 0.2
        assert len(said) == 1
        assert re.match(rf"process {other.pid} (\(since \d\d:\d\d:\d\d\)|on \S+)$", said[0])


def test_a_lock_whose_process_was_killed_is_free(tmp_path: Path, kind: str) -> None:
    checkout, said = Checkout(tmp_path), []
    with holder(checkout, kind) as other:
        other.send_signal(signal.SIGKILL)
        other.wait()
        with lock(checkout, "prepare:a/b", waiting=said.append) as found:
            assert found is not None
    assert len(said) <= 1  # a lock file is there until the first try has found out


def test_a_lock_file_of_another_machine_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(locks, "files_have_locks", lambda folder: False)
    monkeypatch.setattr(locks, "_warned", False)
    path, said = tmp_path / "x", []
    (tmp_path / "x.held").write_text("1\nelsewhere\n")
    with lock_file(str(path), blocking=False) as found:
        assert found is None
    timer = threading.Timer(0.2, (tmp_path / "x.held").unlink)
    timer.start()
    with lock_file(str(path), waiting=said.append) as found:
        assert found == ()
    assert said == ["process 1 on elsewhere"]
    assert not (tmp_path / "x.held").exists()
    assert capsys.readouterr().err.count("has no file locks") == 1


def test_a_process_that_inherits_the_descriptors_keeps_the_lock(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path)
    with holder(checkout, "inherited") as other:
        os.kill(other.pid, signal.SIGKILL)
        os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
        with lock(checkout, "prepare:a/b", blocking=False) as found:
            assert found is None
    with lock(checkout, "prepare:a/b", waiting=lambda who: None) as found:
        assert found


def test_an_open_file_is_locked_until_its_descriptor_is_closed(tmp_path: Path) -> None:
    one, other = (os.open(tmp_path / "x", os.O_RDWR | os.O_CREAT) for _ in range(2))
    assert lock_descriptor(one)
    assert not lock_descriptor(other, blocking=False)
    unlock_descriptor(one)
    assert lock_descriptor(other, blocking=False)
    os.close(other)
    assert lock_descriptor(one, blocking=False)
    os.close(one)
    assert not lock_descriptor(one)  # nothing that could be locked


def test_names_of_locks_are_paths_under_the_cache(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path)
    assert lock_path(checkout, "prepare:a/b") == f"{checkout.cache}/locks/prepare%3Aa/b.lock"
