"""NeMo Gym 0.7.0's own tree, unmodified, driven through real processes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gymbuild.config.catalog import load_catalog
from gymbuild.config.graph import Graph, build_graph
from gymbuild.preparation.script import check_script
from gymbuild.system.paths import Checkout
from tests.config.test_oracle import ORACLE, released_tree
from tests.trees import Tree

pytestmark = pytest.mark.slow

SECOND_OUTPUTS = {
    "apex25/config_with_system",
    "arxivmath_0426/config_with_system",
    "arxivmath_0526/config_with_system",
    "brokenarxiv_0426/config_with_system",
    "brokenarxiv_0526/config_with_system",
}
"""Benchmarks whose script, without arguments, always writes the output of another benchmark."""

ALONE = {
    "aegis_v4_safety": 5,
    "answer-judge": 12,
    "litmus-bench/config_tier12": 20,
    "osworld": 5,
    "terminal_bench_4/miniswe": 66,
}
"""Benchmarks whose scripts need no network, and their rows."""


@pytest.fixture(scope="module")
def graph() -> Graph:
    checkout = Checkout(released_tree("0.7.0"))
    catalog = load_catalog(checkout, use_index=False)
    return build_graph(checkout, catalog.benchmarks, catalog.problems)


@pytest.fixture(scope="module")
def gym(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    """A copy of the tree, to write in, with a `.venv` of its own as a clone has one."""
    from uv import find_uv_bin

    folder = tmp_path_factory.mktemp("gym")
    root = folder / "checkout"
    shutil.copytree(released_tree("0.7.0"), root, ignore=shutil.ignore_patterns(".cache", "__pycache__"))
    uv = find_uv_bin()
    subprocess.run([uv, "venv", "-q", "--python", sys.executable, root / ".venv"], check=True)
    # osworld's script imports modules of the checkout that import these
    words = ["-q", "--python", str(root / ".venv" / "bin" / "python"), "requests", "pyyaml", "packaging"]
    words += ["pydantic", "omegaconf"]
    subprocess.run([uv, "pip", "install", *words], check=True)
    (folder / "runs").mkdir()
    return Tree(root.resolve(), (folder / "runs").resolve())


def test_each_distinct_output_is_one_task(graph: Graph) -> None:
    oracle = json.loads(ORACLE.read_text(encoding="utf-8"))
    outputs = {fields["jsonl_fpath"] for fields in oracle.values()}
    assert len(outputs) == 147
    second = {oracle[name]["jsonl_fpath"] for name in SECOND_OUTPUTS}
    assert set(graph.outputs) == outputs - second
    assert len(graph.preparations) == 142
    assert len({item.script for item in graph.preparations.values()}) == 140


def test_every_benchmark_has_a_task_under_its_own_name(graph: Graph) -> None:
    oracle = json.loads(ORACLE.read_text(encoding="utf-8"))
    assert set(graph.problems) == SECOND_OUTPUTS
    for name in set(oracle) - SECOND_OUTPUTS:
        preparation = graph.preparation_of(name)
        assert preparation is not None
        assert preparation.dataset.jsonl_fpath == oracle[name]["jsonl_fpath"]


def test_one_hundred_seventy_eight_can_be_built(graph: Graph) -> None:
    checkout = Checkout(released_tree("0.7.0"))
    unbuildable = {
        name
        for name in graph.benchmarks
        if (item := graph.preparation_of(name)) is not None
        and check_script(checkout.absolute(item.script), item.dataset.args, name=item.script).problems
    }
    assert unbuildable == {"ruler/config_pretrain"}
    assert len(graph.benchmarks) - len(unbuildable) == 178


def test_the_list_has_every_task(gym: Tree) -> None:
    lines = gym.gymbuild("list", "--all").splitlines()
    tasks = [line.split()[0] for line in lines]
    assert sum(task.startswith("prepare:") for task in tasks) == 142
    assert sum(task.startswith("plan:") for task in tasks) == 179
    assert {"plan:terminal_bench_4/miniswe", "plan:answer-judge", "plan:aime24-x"} <= set(tasks)
    assert any(task.startswith("plan:nemotron_3.5_super/") for task in tasks)


def test_named_what_cannot_be_built_is_an_error(gym: Tree) -> None:
    said = gym.gymbuild("prepare:ruler/config_pretrain", code=3)
    assert "prepare() needs the argument 'model'" in said and "nothing was run" in said
    for name in SECOND_OUTPUTS:
        said = gym.gymbuild(f"plan:{name}", code=3)
        assert f"benchmarks/{name}.yaml" in said and "declared to make two outputs" in said


def test_swept_up_what_cannot_be_built_is_reported_and_the_rest_goes_on(gym: Tree) -> None:
    said = gym.gymbuild("plan", "dry_run=true")
    assert said.startswith("skipped, since they cannot be built:\n")
    for name in (*SECOND_OUTPUTS, "ruler_pretrain"):
        assert name in said
    assert said.count("would run prepare:") + said.count(" current") >= 141
    assert "Traceback" not in said


def test_scripts_that_need_no_network_are_prepared_and_planned(gym: Tree) -> None:
    gym.gymbuild(*(f"prepare:{name}" for name in ALONE))
    gym.gymbuild(*(f"plan:{name}" for name in ALONE))
    # a file that people keep, and that its script only checks, is left alone
    kept = gym.path("benchmarks/osworld/data/example.jsonl").read_bytes()
    assert kept == Path(released_tree("0.7.0"), "benchmarks/osworld/data/example.jsonl").read_bytes()
    for name, rows in ALONE.items():
        plan = json.loads(gym.path(f".cache/plans/{name}.json").read_text())
        assert len(plan["tasks"]) == rows, name
        assert plan["gym"]["version"] == "0.7.0"
    said = gym.gymbuild(*(f"plan:{name}" for name in ALONE))
    assert said.endswith("nothing to do: 10 current\n")


def test_the_listing_has_the_oracles_fields(gym: Tree) -> None:
    oracle = json.loads(ORACLE.read_text(encoding="utf-8"))
    listed = json.loads(gym.gymbuild("benchmarks", "--json"))
    assert [entry["name"] for entry in listed] == sorted(oracle)
    for entry in listed:
        assert {key: entry[key] for key in oracle[entry["name"]]} == oracle[entry["name"]]
        assert set(entry) == {*oracle[entry["name"]], "name", "state", "rows", "bytes"}


def test_finding_puts_the_best_match_first(gym: Tree) -> None:
    def names(*words: str) -> list[str]:
        return [entry["name"] for entry in json.loads(gym.gymbuild("benchmarks", "--json", *words))]

    assert names("ruler") == ["ruler", "ruler/config_pretrain", "ruler2"]
    assert names("aime24")[0] == "aime24"
    assert names("livcodebench")[0].startswith("livecodebench")
    assert names("pairwise")[0].startswith("arena_hard")
    assert set(names("--domain", "long_context")) == {"longmemeval"}


def test_the_interpreter_is_the_checkouts_own(gym: Tree) -> None:
    said = gym.gymbuild("benchmarks", "answer-judge")
    assert ".venv/bin/python (Python " in said


def test_a_suite_is_the_benchmarks_that_its_configs_resolve_to(gym: Tree) -> None:
    paths = "benchmarks/answer-judge/config.yaml,benchmarks/aegis_v4_safety/config.yaml"
    said = gym.gymbuild("list", "--all", f"config_paths=[{paths}]")
    assert [line.split()[0] for line in said.splitlines() if line.startswith("plan:")] == [
        "plan:aegis_v4_safety",
        "plan:answer-judge",
    ]
    gym.gymbuild("plan", f"config_paths=[{paths}]")
