"""A disk that is full at any write: a clear error and the right exit code, the last good output, and no input lost."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable

import pytest

from tests.trees import Tree

BODY = """
version = (HERE / "version.txt").read_text()
rows = [{"task_id": str(number), "question": version} for number in range(50)]
"""

ROOM = {"fsync": 8, "rename": 8, "mkdir": 4, "flock": 12, "write": 40}
"""System calls that a build makes, and how many of them are failed, one after the other."""


@pytest.fixture
def strace() -> str:
    """The program that fails system calls; the test is skipped where it cannot."""
    found = shutil.which("strace")
    if found is None:
        pytest.skip("strace is not there")
    done = subprocess.run(
        [found, "-qq", "-o", "/dev/null", "-e", "inject=fsync:error=ENOSPC", "true"], check=False
    )
    if done.returncode:
        pytest.skip("tracing is not allowed here")
    return found


@pytest.fixture
def failing(tree: Tree, strace: str) -> Callable[[str, int], subprocess.CompletedProcess[str]]:
    """Builds with the n-th system call of a kind failing for want of room, in each process of the build."""
    tree.benchmark("alpha", BODY, signature="")
    tree.write("benchmarks/alpha/version.txt", "0")
    tree.gymbuild("plan")

    def build(call: str, number: int) -> subprocess.CompletedProcess[str]:
        inject = f"inject={call}:error=ENOSPC:when={number}"
        return subprocess.run(
            [
                strace,
                "-f",
                "-qq",
                "-o",
                "/dev/null",
                "-e",
                f"trace={call}",
                "-e",
                inject,
                *tree.command("plan"),
            ],
            cwd=tree.root,
            env=tree.variables(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    return build


def version_of(tree: Tree) -> str:
    rows = [json.loads(line) for line in tree.output("alpha").read_text().splitlines()]
    assert len(rows) == 50
    (version,) = {row["question"] for row in rows}
    return str(version)


def check(
    tree: Tree, failing: Callable[[str, int], subprocess.CompletedProcess[str]], call: str, number: int
) -> None:
    old, new = version_of(tree), str(int(version_of(tree)) + 1)
    tree.path("benchmarks/alpha/version.txt").write_text(new)
    done = failing(call, number)
    at = f"{call} {number}: exit {done.returncode}\n{done.stdout}"
    assert done.returncode in (0, 75), at
    assert 'File "' not in done.stdout or f"{tree.root}/benchmarks/alpha/prepare.py" in done.stdout, at
    if done.returncode:
        assert "No space left on device" in done.stdout or "is the disk full?" in done.stdout, at
    assert version_of(tree) in ((old, new) if done.returncode else (new,)), at
    tree.gymbuild("plan")
    assert version_of(tree) == new, at
    # what was recorded is whole: the next change is seen as well
    tree.path("benchmarks/alpha/version.txt").write_text(str(int(new) + 1))
    tree.gymbuild("plan")
    assert version_of(tree) == str(int(new) + 1), at


@pytest.mark.parametrize(("call", "number"), [("fsync", 1), ("rename", 2), ("write", 14)])
def test_no_room_at_some_writes(
    tree: Tree, failing: Callable[[str, int], subprocess.CompletedProcess[str]], call: str, number: int
) -> None:
    check(tree, failing, call, number)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("call", ROOM)
def test_no_room_at_every_write(
    tree: Tree, failing: Callable[[str, int], subprocess.CompletedProcess[str]], call: str
) -> None:
    for number in range(1, ROOM[call] + 1):
        check(tree, failing, call, number)
