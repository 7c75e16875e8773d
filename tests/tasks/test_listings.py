"""A listed folder that a program other than Python changes while the script runs: never stale, and soon current."""

from __future__ import annotations

import pytest

from tests.trees import Tree

LIST = "names = sorted(os.listdir('words'))"
MAKE = "subprocess.run(['cp', 'words/one.txt', 'words/made.txt'], check=True)"
REMOVE = "subprocess.run(['rm', 'words/made.txt'], check=True)"
ROWS = "rows = [{'task_id': name} for name in names]"


def make(tree: Tree, *lines: str, dataset: str = "") -> None:
    tree.write("words/one.txt", "one")
    tree.benchmark("alpha", "\n".join([*lines, ROWS]), signature="", dataset=dataset)


def ids(tree: Tree) -> str:
    return tree.output("alpha").read_text()


def test_a_folder_that_is_listed_before_a_program_writes_into_it_is_stale_once_more(tree: Tree) -> None:
    make(tree, LIST, MAKE)
    first = tree.build("prepare")
    assert "words changed while the script ran" in first.text
    second = tree.build("prepare")
    assert second.ran == {"alpha"}
    assert "changed while" not in second.text
    assert "made.txt" in ids(tree)
    assert tree.build("prepare").ran == frozenset()


def test_a_folder_that_is_listed_after_a_program_wrote_into_it_is_current(tree: Tree) -> None:
    make(tree, MAKE, LIST)
    assert "changed while" not in tree.build("prepare").text
    assert tree.build("prepare").ran == frozenset()
    tree.write("words/two.txt", "two")
    assert tree.build("prepare").ran == {"alpha"}
    assert "two.txt" in ids(tree)
    tree.path("words/made.txt").unlink()
    assert tree.build("prepare").ran == {"alpha"}
    assert tree.build("prepare").ran == frozenset()


def test_a_file_that_a_program_puts_there_for_a_while_is_stale_once_more_at_most(tree: Tree) -> None:
    make(tree, MAKE, LIST, REMOVE)
    tree.build("prepare")
    assert "changed while" not in tree.build("prepare").text
    assert tree.build("prepare").ran == frozenset()
    tree.write("words/two.txt", "two")
    assert tree.build("prepare").ran == {"alpha"}
    assert "two.txt" in ids(tree)
    tree.build("prepare")
    assert tree.build("prepare").ran == frozenset()


@pytest.mark.parametrize("lines", [(LIST, MAKE), (MAKE, LIST), (MAKE, LIST, REMOVE)])
def test_a_declared_output_is_no_name_of_a_listing(tree: Tree, lines: tuple[str, ...]) -> None:
    make(tree, *lines, dataset='prepare_outputs: ["words/made*"]')
    assert "changed while" not in tree.build("prepare").text
    assert tree.build("prepare").ran == frozenset()
    tree.write("words/two.txt", "two")
    assert tree.build("prepare").ran == {"alpha"}


def test_a_name_that_somebody_else_adds_while_the_script_runs_is_never_missed(tree: Tree) -> None:
    # the script plays somebody else's part too: nobody could tell the difference
    make(tree, LIST)
    tree.build("prepare")
    tree.replace(
        "benchmarks/alpha/prepare.py", ROWS, f"subprocess.run(['touch', 'words/late.txt'])\n    {ROWS}"
    )
    built = tree.build("prepare")
    assert "words changed while the script ran" in built.text
    assert "late.txt" not in ids(tree)
    assert "folder words gained or lost entries" in tree.gymbuild("why", "prepare:alpha")
    assert tree.build("prepare").ran == {"alpha"}
    assert "late.txt" in ids(tree)
