"""The store from the command line, and a file system that has no locks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest

from tests.tasks.conftest import Project

NO_LOCKS = """
import fcntl, errno, os
def _flock(descriptor, operation):
    raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
fcntl.flock = fcntl.lockf = _flock
"""


@pytest.fixture
def used(project: Project) -> Project:
    """A dataset that was prepared with two sets of args, the first being what the config asks for."""
    project.add(
        "alpha", "rows = [{'task_id': str(i), 'x': 'y' * 100} for i in range(size)]", signature="size=3"
    )
    project.run("prepare:alpha", "prepare_script_args.size=300")
    project.run("plan")
    for path in project.path(".cache/objects").rglob("*"):
        if path.is_file():
            os.utime(path, (time.time() - 40 * 86400,) * 2)
    return project


def objects(project: Project) -> int:
    return sum(path.is_file() for path in project.path(".cache/objects").rglob("*"))


def test_the_store_is_shown_by_dataset(used: Project) -> None:
    said = used.run("cache")
    assert "alpha     2 preparations" in said
    assert "3 objects" in said  # two outputs and a plan


def test_gc_trims_by_age_and_never_what_the_graph_needs(used: Project) -> None:
    said = used.run("cache", "gc", "--keep-days", "30")
    assert "removed 1 object " in said
    assert objects(used) == 2
    data = used.path("benchmarks/alpha/data/alpha.jsonl")
    data.unlink()
    assert "restored from the store" in used.run("prepare:alpha")
    used.run("prepare:alpha", "prepare_script_args.size=300")
    assert used.runs("alpha") == 3


def test_gc_trims_by_size_and_says_when_the_graph_needs_more(used: Project) -> None:
    said = used.run("cache", "gc", "--max-size", "1K")
    assert "removed 1 object " in said
    assert used.run("plan").startswith("nothing to do")
    said = used.run("cache", "gc", "--max-size", "10")
    assert "what it needs is never removed" in said
    assert objects(used) == 2
    assert "must be a size" in used.run("cache", "gc", "--max-size", "much", code=3)
    assert "say what to keep" in used.run("cache", "gc", code=3)


def test_verify_drops_what_is_damaged_and_it_is_made_again(used: Project) -> None:
    assert "0 damaged" in used.run("cache", "verify")
    data = used.path("benchmarks/alpha/data/alpha.jsonl")
    for path in used.path(".cache/objects").rglob("*"):
        if path.is_file() and path.read_bytes() == data.read_bytes():
            os.chmod(path, 0o644)
            path.write_bytes(b"damaged")
    assert "1 damaged" in used.run("cache", "verify", code=1)
    good = data.read_text()
    data.unlink()
    used.run("prepare:alpha")
    assert data.read_text() == good
    assert used.runs("alpha") == 3


def test_an_object_is_never_a_link_to_what_a_person_edits(used: Project) -> None:
    data = used.path("benchmarks/alpha/data/alpha.jsonl")
    assert data.stat().st_nlink == 1
    good = data.read_text()
    with open(data, "a") as file:
        file.write('{"task_id": "by hand"}\n')
    said = used.run("prepare:alpha")
    assert data.read_text() == good
    kept = said.partition("it is kept as ")[2].split()[0]
    assert "by hand" in used.path(kept).read_text()


def test_a_file_system_without_locks_gets_a_warning_and_still_works(project: Project) -> None:
    folder = project.root.parent / "nolocks"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(NO_LOCKS)
    known = os.environ.get("PYTHONPATH", "")
    environment = {"PYTHONPATH": os.pathsep.join(filter(None, [str(folder), known]))}
    project.add("alpha", "import time\ntime.sleep(0.5)\nrows = [{'task_id': 'x'}]")
    builders = [
        subprocess.Popen(
            [sys.executable, "-m", "gymbuild", "--root", str(project.root), "plan"],
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for _ in range(2)
    ]
    said = [builder.communicate()[0] for builder in builders]
    assert [builder.returncode for builder in builders] == [0, 0], said
    assert all("has no file locks" in text for text in said)
    assert project.runs("alpha") == 1
    assert len(json.loads(project.path(".cache/plans/alpha.json").read_text())["tasks"]) == 1
    assert not list(project.path(".cache/locks").rglob("*.held"))
