"""Nothing lost: SIGKILLs at any instant, of gymbuild, a script or uv; the next plain build has everything right."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from tests.faults.builders import (
    finish,
    kill,
    make,
    names,
    processes_of,
    set_version,
    wait_for_no_process,
    whole_version,
)
from tests.trees import Tree

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="finds processes by /proc")

DATASETS = 10


def kill_and_build(tree: Tree, rounds: int, seed: int) -> dict[str, int]:
    """In each round: change some datasets, build, kill something at some instant, look, and build again."""
    choose = random.Random(seed)
    done = dict.fromkeys(names(DATASETS), "0")
    hits = {"gymbuild": 0, "script": 0}
    for number in range(1, rounds + 1):
        before = dict(done)
        for name in choose.sample(names(DATASETS), choose.randint(1, 3)):
            done[name] = f"{number}"
            set_version(tree, name, done[name])
        process = tree.start(*(["-n", "3"] if choose.random() < 0.3 else []), "plan")
        time.sleep(choose.uniform(0, 0.5))
        pids = [pid for pid in processes_of(tree.root) if pid != process.pid]
        if pids and choose.random() < 0.4:
            hits["script"] += kill(choose.choice(pids))
        elif process.poll() is None:
            hits["gymbuild"] += kill(process.pid)
        finish(process)
        wait_for_no_process(tree.root)
        # Whatever died: a start that reads nothing but recovers, and then all is whole, old or new.
        tree.gymbuild("prepare:set0", "dry_run=true", code=None)
        for name in names(DATASETS):
            found = whole_version(tree, name)
            assert found in (before[name], done[name]), f"round {number} (seed {seed}): {name} is {found}"
        said = tree.gymbuild("plan")
        for name in names(DATASETS):
            assert whole_version(tree, name) == done[name], f"round {number} (seed {seed}): {name}\n{said}"
            assert tree.plan(name).exists()
        assert "nothing to do" in tree.gymbuild("plan"), f"round {number} (seed {seed})"
    tree.gymbuild("-a", "prepare")
    assert not list(tree.path("benchmarks").rglob("*.gymbuild")), (
        "a temporary file was left among the outputs"
    )
    return hits


@pytest.fixture
def many(tree: Tree) -> Tree:
    make(tree, DATASETS)
    tree.gymbuild("plan")
    return tree


@pytest.mark.slow
def test_eight_kills_at_random_instants(many: Tree) -> None:
    hits = kill_and_build(many, 8, seed=1)
    assert sum(hits.values()) >= 3


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_three_hundred_kills_at_random_instants(many: Tree) -> None:
    many.forked = True
    hits = kill_and_build(many, 300, seed=int(os.environ.get("GYMBUILD_TEST_SEED", "2")))
    assert hits["gymbuild"] >= 50
    assert hits["script"] >= 20


@pytest.mark.parametrize("delay", [0.0, 0.1, 0.4])
def test_workers_and_scripts_end_with_a_killed_builder(many: Tree, delay: float) -> None:
    # also workers that have had no task yet: they wait for one in a pipe that they hold open themselves
    for name in names(DATASETS)[:2]:
        set_version(many, name, "1")
    process = many.start("-n", "4", "prepare")
    deadline = time.monotonic() + 30
    while len(processes_of(many.root)) < 3:
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.001)
    time.sleep(delay)
    kill(process.pid)
    finish(process)
    wait_for_no_process(many.root, 10)


def test_uv_killed_while_it_builds_an_environment(tree: Tree) -> None:
    tree.benchmark("locked")
    tree.write("benchmarks/locked/requirements.lock", "")
    for _ in range(3):
        process = tree.start("prepare:locked")
        deadline = time.monotonic() + 30
        while process.poll() is None and time.monotonic() < deadline:
            uv = [pid for pid in processes_of(tree.root) if b"uv\0" in _command(pid)[:200]]
            if uv:
                kill(uv[-1])
                break
        code, text = finish(process)
        assert code in (0, 75), text
        assert code == 0 or "uv was ended by SIGKILL" in text, text
    tree.gymbuild("prepare:locked")
    assert tree.output("locked").exists()


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_a_script_that_dies_half_way_leaves_the_last_good_output(many: Tree) -> None:
    script = many.read("benchmarks/set1/prepare.py")
    many.path("benchmarks/set1/prepare.py").write_text(
        script.replace("        time.sleep(0.001)", "        if number == 7: os.kill(os.getpid(), 9)")
    )
    set_version(many, "set1", "9")
    said = many.gymbuild("prepare:set1", code=75)
    assert "killed it (SIGKILL)" in said
    assert whole_version(many, "set1") == "0"


def test_the_journal_of_a_running_builder_is_left_alone(many: Tree) -> None:
    many.write("benchmarks/set1/hold", "")
    many.replace(
        "benchmarks/set1/prepare.py",
        "    print(",
        "    while (HERE / 'hold').exists(): time.sleep(0.01)\n    print(",
    )
    process = many.start("prepare:set1")
    deadline = time.monotonic() + 30
    while not list(many.path(".cache/journal").glob("*.json")):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert not many.output("set1").exists()
    many.gymbuild("prepare:set2")
    assert list(many.path(".cache/journal").glob("set1.json"))
    many.path("benchmarks/set1/hold").unlink()
    code, text = finish(process)
    assert code == 0, text
    assert whole_version(many, "set1") == "0"
