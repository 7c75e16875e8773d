"""doit's own state: it writes nothing on a no-op, keeps finished tasks through a SIGKILL, bears several builders."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path

from gymbuild.tasks.doit_state import DatabaseBackend
from tests.tasks.conftest import Project


def finish(backend: DatabaseBackend, task: str, value: object) -> None:
    backend.set(task, "_values_:", {"x": value})
    backend.set(task, "checker:", "DigestChecker")
    backend.set(task, "deps:", ("a", "b"))


def test_a_finished_task_is_kept_though_its_process_is_killed(tmp_path: Path) -> None:
    path = str(tmp_path / "state.db")

    def build() -> None:
        backend = DatabaseBackend(path, None)
        finish(backend, "prepare:a", 1)
        backend.set("prepare:b", "_values_:", {"x": 2})
        os.kill(os.getpid(), signal.SIGKILL)

    process = multiprocessing.get_context("fork").Process(target=build)
    process.start()
    process.join()
    backend = DatabaseBackend(path, None)
    assert backend.get("prepare:a", "_values_:") == {"x": 1}
    assert backend.get("prepare:a", "deps:") == ["a", "b"]
    assert not backend.in_("prepare:b")


def test_two_builders_write_at_once_and_lose_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "state.db")

    def build(number: int) -> None:
        backend = DatabaseBackend(path, None)
        for task in range(50):
            finish(backend, f"prepare:{number}-{task}", task)
        backend.dump()

    processes = [multiprocessing.get_context("fork").Process(target=build, args=(i,)) for i in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    backend = DatabaseBackend(path, None)
    for number in range(4):
        for task in range(50):
            assert backend.get(f"prepare:{number}-{task}", "_values_:") == {"x": task}


def test_a_no_op_leaves_the_database_as_it_is(project: Project) -> None:
    project.add("alpha")
    project.run("plan")
    project.run("list", "--all", "--status")
    database = project.path(".cache/state.db")
    before = database.stat()
    project.run("plan")
    project.run("list", "--all", "--status")
    after = database.stat()
    assert (after.st_mtime_ns, after.st_ino) == (before.st_mtime_ns, before.st_ino)


def test_deleting_the_database_runs_nothing(project: Project) -> None:
    project.add("alpha")
    project.run("plan")
    project.path(".cache/state.db").unlink()
    project.run("plan")
    assert project.runs("alpha") == 1
