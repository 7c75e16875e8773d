"""What `list`, `inputs`, `forget` and `clean` do to tasks, and what a start may differ in without a new decision."""

from __future__ import annotations

import os
import shutil
import sys
import time

import pytest

from tests.trees import Tree

WAIT = """
(HERE / "started").touch()
while not (HERE / "go").exists():
    time.sleep(0.02)
rows = [{"task_id": "1", "question": "q"}]
"""


@pytest.fixture
def built(tree: Tree) -> Tree:
    tree.benchmark("alpha")
    tree.gymbuild("plan")
    return tree


@pytest.mark.parametrize("words", [["--help"], ["help"]])
def test_help_says_what_gymbuild_is(tree: Tree, words: list[str]) -> None:
    tree.benchmark("alpha")
    said = tree.gymbuild(*words)
    assert said.startswith("gymbuild: make for LLM benchmarks\n") and "  gymbuild why " in said
    assert tree.with_dodo().doit("help").startswith("gymbuild: make for LLM benchmarks\n")
    assert "say what makes a task stale" in tree.gymbuild("help", "why")


def test_list_writes_no_args(tree: Tree) -> None:
    tree.benchmark("alpha")
    assert "prepare:alpha" in tree.gymbuild("list", "--all", "--status")
    assert not tree.path(".cache/args").exists()
    tree.gymbuild("prepare:alpha")
    assert tree.path(".cache/args/alpha.json").is_file()


@pytest.mark.parametrize("word", ["prepare:alpah", "plan:alpah", "alpha", "count:alpha"])
def test_inputs_of_what_is_not_there_is_an_error(built: Tree, word: str) -> None:
    assert "there is no such task" in built.gymbuild("inputs", word, code=3)


def test_inputs_of_a_task_without_any_says_nothing_of_them(built: Tree) -> None:
    said = built.gymbuild("inputs", "venv")
    assert said.startswith("venv:interpreter-") and "never" not in said


def test_forget_without_words_may_be_told_to_forget_nothing(built: Tree) -> None:
    plan = built.plan("alpha").stat().st_ino
    built.gymbuild("forget", "--disable-default")
    assert "nothing to do: 2 current" in built.gymbuild("plan")
    built.gymbuild("forget")
    assert "plan:alpha is the same" in built.gymbuild("plan")
    assert built.plan("alpha").stat().st_ino == plan
    assert built.count()["alpha"] == 1


def test_forget_follows_what_a_plan_is_made_from_when_it_is_asked_to(built: Tree) -> None:
    built.gymbuild("forget", "plan:alpha")
    assert built.build().ran == set()
    built.gymbuild("forget", "-s", "plan:alpha")
    said = built.build()
    assert said.ran == {"alpha"}
    assert "plan:alpha is the same" in said.text


@pytest.mark.parametrize("task", ["prepare:alpha", "venv"])
def test_clean_waits_for_a_preparation_that_runs(tree: Tree, task: str) -> None:
    tree.benchmark("alpha", WAIT, signature="")
    if task == "venv":
        tree.write("benchmarks/alpha/requirements.lock", "")
    builder = tree.start("prepare:alpha")
    started = tree.path("benchmarks/alpha/started")
    deadline = time.monotonic() + 60
    while not started.exists():
        assert time.monotonic() < deadline and builder.poll() is None, builder.communicate()[0]
        time.sleep(0.02)
    cleaner = tree.start("clean", task)
    time.sleep(0.7)
    assert cleaner.poll() is None, cleaner.communicate()[0]
    tree.path("benchmarks/alpha/go").touch()
    assert builder.wait() == 0, builder.communicate()[0]
    said = cleaner.communicate()[0]
    assert cleaner.returncode == 0 and "waiting for it" in said and "removed" in said, said
    assert tree.output("alpha").exists() == (task == "venv")


def test_another_path_and_another_way_to_start_ask_nothing_anew(built: Tree) -> None:
    index = built.path(".cache/index").stat()
    program = shutil.which("gymbuild", path=os.path.dirname(sys.executable))
    assert program is not None
    commands = [[program, "--root", str(built.root), "plan"], built.command("plan")]
    for command in commands * 2:
        for path in (os.environ["PATH"], os.environ["PATH"] + ":/nowhere"):
            said, _ = built.run(command, 0, {"PATH": path})
            assert said == "nothing to do: 2 current\n"
    after = built.path(".cache/index").stat()
    assert (after.st_ino, after.st_mtime_ns) == (index.st_ino, index.st_mtime_ns)


def test_a_warm_start_sees_which_of_two_declared_outputs_a_script_writes_now(tree: Tree) -> None:
    tree.script("alpha", "rows = [{'task_id': '1'}]")
    tree.config("alpha")
    tree.config("alpha", file="other.yaml", output="benchmarks/alpha/data/other.jsonl")
    assert "1 skipped" in tree.gymbuild("plan")
    assert "plan:alpha/other" in tree.gymbuild("plan")
    tree.replace("benchmarks/alpha/prepare.py", "data/alpha.jsonl", "data/other.jsonl")
    said = tree.gymbuild("plan")
    assert "plan:alpha/other written" in said
    assert tree.path("benchmarks/alpha/data/other.jsonl").is_file()
    shutil.rmtree(tree.path(".cache"))
    assert "1 skipped" in tree.gymbuild("plan") and "plan:alpha:" in tree.gymbuild("plan")
