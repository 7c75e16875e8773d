"""A build that is killed after any change on the disk: what gymbuild made is never taken for what a person wrote."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.faults.builders import wait_for_no_process
from tests.trees import Tree

KILLER = """
import os, signal

def killing(function, target):
    def call(*args, **options):
        result = function(*args, **options)
        if counts(os.fsdecode(args[target]) if not isinstance(args[target], int) else ""):
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    return call

left = [int(os.environ.get("KILL_AFTER", "0"))]

def counts(path):
    if "KILL_PLAN" in os.environ:
        return "/.cache/plans/" in path
    left[0] -= 1
    return left[0] == 0

if ("KILL_AFTER" in os.environ or "KILL_PLAN" in os.environ) and "GYMBUILD_OBSERVED_RUN" not in os.environ:
    os.replace = killing(os.replace, 1)
    os.rename = killing(os.rename, 1)
    os.unlink = killing(os.unlink, 0)
    os.write = killing(os.write, 0)
    os.mkdir = killing(os.mkdir, 0)
    os.fsync = killing(os.fsync, 0)
"""

BODY = """
word = (HERE / "word.txt").read_text()
rows = [{"task_id": f"{word} {number}"} for number in range(3)]
"""


@pytest.fixture
def killed(tree: Tree) -> Tree:
    """A checkout that is current; its processes kill themselves when `KILL_AFTER` or `KILL_PLAN` is set."""
    hook = tree.root.parent / "hook"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(KILLER)
    tree.environment["PYTHONPATH"] = os.pathsep.join([str(hook), tree.variables()["PYTHONPATH"]])
    tree.benchmark("alpha", BODY, signature="")
    tree.write("benchmarks/alpha/word.txt", "first")
    tree.gymbuild("plan")
    return tree


def words(path: Path) -> set[str]:
    return {task["task_id"]["task_id"].split()[0] for task in json.loads(path.read_text())["tasks"]}


def die(tree: Tree, **environment: str) -> bool:
    """Build with a kill; False when the build came to its end."""
    done = subprocess.run(
        tree.command("plan"), cwd=tree.root, env=tree.variables(environment), capture_output=True, check=False
    )
    assert done.returncode in (0, -9), done.stdout + done.stderr
    wait_for_no_process(tree.root)
    return done.returncode == -9


def test_a_plan_that_is_in_its_place_and_not_recorded_is_one_of_ours(killed: Tree) -> None:
    killed.write("benchmarks/alpha/word.txt", "second")
    assert die(killed, KILL_PLAN="1")
    assert words(killed.plan("alpha")) == {"second"}
    said = killed.gymbuild("plan")
    assert "kept as" not in said
    assert not killed.displaced()
    assert words(killed.plan("alpha")) == {"second"}
    assert "nothing to do" in killed.gymbuild("plan")


def test_a_plan_that_a_person_wrote_is_still_kept(killed: Tree) -> None:
    killed.write("benchmarks/alpha/word.txt", "second")
    killed.plan("alpha").write_text("by hand\n")
    assert "it is kept as .cache/displaced/.cache/plans/alpha.json" in killed.gymbuild("plan")
    assert list(killed.displaced().values()) == ["by hand\n"]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_kill_after_every_change_on_the_disk_displaces_nothing(killed: Tree) -> None:
    number = 1
    while True:
        word = f"word{number}"
        killed.write("benchmarks/alpha/word.txt", word)
        if not die(killed, KILL_AFTER=str(number)):
            break
        said = killed.gymbuild("plan")
        assert "kept as" not in said, f"killed after change {number}\n{said}"
        assert not killed.displaced(), number
        assert words(killed.plan("alpha")) == {word}, f"killed after change {number}\n{said}"
        assert word in killed.output("alpha").read_text()
        number += 1
    assert number > 20
