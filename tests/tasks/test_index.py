"""What the index proves to the next start: never more than is still so."""

from __future__ import annotations

import sys

import pytest

from tests.trees import Tree


def _proved(tree: Tree, *words: str) -> bool:
    """Whether `stat` alone proves to a start that everything is current: then nothing is imported."""
    said = tree.gymbuild(*words, PYTHONPROFILEIMPORTTIME="1")
    assert "nothing to do" in said
    return "doit.doit_cmd" not in said


@pytest.fixture
def two(tree: Tree) -> Tree:
    tree.forked = False
    tree.benchmark("alpha", dataset="prepare_script_args: {size: 2}")
    tree.benchmark("beta")
    tree.gymbuild("plan")
    assert _proved(tree, "plan")
    return tree


def test_a_start_that_finds_nothing_to_do_imports_neither_typing_nor_doit(two: Tree) -> None:
    said = two.gymbuild("plan", PYTHONPROFILEIMPORTTIME="1")
    for module in (
        "doit",
        "typing",
        "xxhash",
        "pydantic",
        "gymbuild.tasks.session",
        "yaml",
        "rich",
        "omegaconf",
    ):
        assert f" {module}\n" not in said


def test_other_args_count_although_only_another_task_was_built_since(two: Tree) -> None:
    two.replace("benchmarks/alpha/config.yaml", "size: 2", "size: 4")
    assert two.build("prepare:beta").ran == frozenset()
    built = two.build("prepare:alpha")
    assert built.ran == {"alpha"}
    assert len(two.output("alpha").read_text().splitlines()) == 4


def test_what_a_dataset_reads_counts_although_the_dataset_has_not_changed(tree: Tree) -> None:
    tree.benchmark("alpha")
    reads = "rows = [json.loads(line) for line in open('benchmarks/alpha/data/alpha.jsonl')]"
    tree.benchmark("beta", reads)
    tree.gymbuild("prepare:alpha")
    tree.gymbuild("prepare:beta")
    assert _proved(tree, "prepare:beta")
    tree.replace("benchmarks/alpha/prepare.py", "question {i}", "problem {i}")
    assert tree.build("prepare:beta").ran == {"alpha", "beta"}
    assert "problem 1" in tree.output("beta").read_text()


def test_only_what_is_stale_is_looked_at_again(two: Tree) -> None:
    two.replace("benchmarks/alpha/prepare.py", "question {i}", "problem {i}")
    built = two.build("plan")
    assert (built.ran, built.plans) == ({"alpha"}, {"alpha"})
    assert "2 done, 2 current" in built.text or "1 done, 3 current" in built.text
    assert _proved(two, "plan")


def test_a_benchmark_that_is_added_counts(two: Tree) -> None:
    two.benchmark("gamma")
    assert two.build("plan").ran == {"gamma"}
    assert _proved(two, "plan")


def test_a_benchmark_that_is_removed_is_no_task_any_more(two: Tree) -> None:
    two.path("benchmarks/beta/config.yaml").unlink()
    assert "there is no such task" in two.gymbuild("prepare:beta", code=3)
    assert "2 current" in two.gymbuild("plan")


def test_a_module_that_was_missing_and_is_there_now_counts(tree: Tree) -> None:
    body = """
    try:
        from benchmarks.alpha import more
        rows = [{'task_id': more.NAME}]
    except ImportError:
        rows = [{'task_id': 'none'}]
    """
    tree.benchmark("alpha", body)
    tree.gymbuild("prepare:alpha")
    assert _proved(tree, "prepare:alpha")
    tree.write("benchmarks/alpha/more.py", "NAME = 'more'\n")
    assert tree.build("prepare:alpha").ran == {"alpha"}
    assert "more" in tree.output("alpha").read_text()


def test_files_that_are_not_configs_do_not_make_a_start_slower(two: Tree) -> None:
    two.write("benchmarks/alpha/README.md", "nothing of it is read\n")
    assert _proved(two, "plan")
    two.write("benchmarks/alpha/other.yaml", "no_benchmark: true\n")
    assert not _proved(two, "plan")
    assert _proved(two, "plan")


def test_a_variable_that_a_dataset_names_counts(tree: Tree) -> None:
    tree.benchmark(
        "alpha", "rows = [{'task_id': os.environ.get('SEED', 'none')}]", dataset="prepare_env: [SEED]"
    )
    assert tree.build("prepare:alpha", SEED="1").ran == {"alpha"}
    assert tree.build("prepare:alpha", SEED="1").ran == frozenset()
    assert tree.build("prepare:alpha", SEED="2").ran == {"alpha"}
    tree.gymbuild("prepare:alpha")
    assert "none" in tree.output("alpha").read_text()


MANY = """
import os, sys
from gymbuild.tasks import answer
from gymbuild.cache.index import Index
answer._MANY = 0
compare, children = Index.compare_meanwhile, []
Index.compare_meanwhile = lambda *arguments: (children.append(1), compare(*arguments))
from gymbuild.__main__ import run
code = run(sys.argv[1:])
assert children == [1], children
sys.exit(code)
"""


def test_what_a_child_has_compared_counts_as_what_this_process_has(tree: Tree) -> None:
    """As among thousands of tasks: one is found stale, and a child compares the others."""
    for name in ("alpha", "beta"):
        tree.benchmark(name)
    tree.gymbuild("plan")
    command = [sys.executable, "-c", MANY, "--root", str(tree.root), "plan"]
    tree.replace("benchmarks/alpha/prepare.py", "size: int = 3", "size: int = 4")
    said, _ = tree.run(command, 0, {})
    assert "prepare:alpha prepared" in said and "beta" not in said and said.endswith("2 done, 2 current\n")
    # the graph is compared by it as well
    tree.replace("benchmarks/alpha/prepare.py", "size: int = 4", "size: int = 5")
    tree.config("beta", dataset="prepare_script_args: {size: 7}")
    said, _ = tree.run(command, 0, {})
    assert "prepare:alpha prepared" in said and "prepare:beta prepared" in said
    assert tree.gymbuild("plan") == "nothing to do: 4 current\n"
