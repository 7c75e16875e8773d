"""A full disk, a read-only cache, a read-only checkout: a clear error, the right exit code, the last good output in place."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.tasks.conftest import Project


@contextmanager
def mounted(folder: Path, *words: str) -> Iterator[None]:
    """Something mounted over a folder; skips where that is not allowed."""
    done = subprocess.run(["mount", *words, str(folder)], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"mounting is not allowed here: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    with mounted(folder, "--bind", str(folder)):
        subprocess.run(["mount", "-o", "remount,ro,bind", str(folder)], check=True)
        yield


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="mounts as Linux has them")


def edited(project: Project) -> None:
    script = project.path("benchmarks/alpha/prepare.py")
    script.write_text(script.read_text() + "# edited\n")


@pytest.mark.parametrize(
    "kilobytes", [8, 80, *(pytest.param(size, marks=pytest.mark.slow) for size in (40, 60, 120, 300, 700))]
)
def test_a_full_disk_may_pass_and_loses_nothing(project: Project, kilobytes: int) -> None:
    project.add(
        "alpha", "rows = [{'task_id': str(i), 'x': 'y' * 200} for i in range(size)]", signature="size=30"
    )
    project.run("plan")
    good = project.path("benchmarks/alpha/data/alpha.jsonl").read_text()
    project.path(".cache").rename(project.root.parent / "cache")
    project.path(".cache").mkdir()
    with mounted(project.path(".cache"), "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs"):
        said = project.run("plan:alpha", "prepare_script_args.size=4000", code=75)
        assert "No space left on device" in said
        assert "Traceback" not in said
        assert project.path("benchmarks/alpha/data/alpha.jsonl").read_text() == good
    project.run("plan")
    assert project.path("benchmarks/alpha/data/alpha.jsonl").read_text() == good


def test_a_read_only_cache_is_enough_for_what_is_current_and_an_error_for_what_is_not(
    project: Project,
) -> None:
    project.add("alpha")
    project.run("plan")
    good = project.path("benchmarks/alpha/data/alpha.jsonl").read_text()
    with read_only(project.path(".cache")):
        assert "nothing to do: 2 current" in project.run("plan")
        edited(project)
        said = project.run("plan", code=3)
        assert "Read-only file system" in said
        assert "Traceback" not in said
        assert "is stale" in project.run("why", "prepare:alpha")
        assert project.path("benchmarks/alpha/data/alpha.jsonl").read_text() == good
    project.run("plan")
    assert project.runs("alpha") == 2


def test_a_read_only_checkout_or_output_folder_is_an_error_that_leaves_the_output(project: Project) -> None:
    project.add("alpha")
    project.run("plan")
    good = project.path("benchmarks/alpha/data/alpha.jsonl").read_text()
    edited(project)
    for folder in (project.root, project.path("benchmarks/alpha/data")):
        with read_only(folder):
            said = project.run("plan", code=3)
            assert "Read-only file system" in said
            assert "Traceback" not in said
            assert project.path("benchmarks/alpha/data/alpha.jsonl").read_text() == good
    project.run("plan")


def test_a_cache_that_is_no_folder_is_a_clear_error(project: Project) -> None:
    project.add("alpha")
    project.path(".cache").write_text("")
    said = project.run("plan", code=3)
    assert "Not a directory" in said
    assert "Traceback" not in said
