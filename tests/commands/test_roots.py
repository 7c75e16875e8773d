"""Other roots than the checkout: their scripts run in their own root, and what changes there is noticed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.trees import Tree

BODY = """
from benchmarks.extra.helper import COUNT
from benchmarks.extra_helpers import NAME
from . import helper
assert helper.COUNT == COUNT
rows = [{"task_id": str(i), "module": __name__, "name": NAME, "cwd": os.getcwd()} for i in range(COUNT)]
"""


@pytest.fixture(params=["outside", "inside"])
def other(request: pytest.FixtureRequest, tree: Tree, tmp_path: Path) -> Tree:
    """A root beside the checkout, or a folder of it; it has the benchmark `extra`, and both have `both`."""
    folder = tmp_path / "other" if request.param == "outside" else tree.root / "roots" / "other"
    other = Tree(folder.resolve(), tree.runs)
    other.benchmark("extra", BODY, signature="")
    other.write("benchmarks/extra/helper.py", "COUNT = 3\n")
    other.write("benchmarks/extra_helpers.py", "NAME = 'other'\n")
    tree.write("benchmarks/extra_helpers.py", "NAME = 'checkout'\n")
    tree.write("benchmarks/extra/helper.py", "COUNT = 100\n")
    tree.environment["NEMO_GYM_EXTRA_ROOTS"] = str(other.root)
    return other


def _rows(tree: Tree) -> list[dict[str, str]]:
    return [json.loads(line) for line in tree.output("extra").read_text().splitlines()]


def test_a_script_runs_in_its_own_root_and_its_output_is_in_the_checkout(tree: Tree, other: Tree) -> None:
    tree.gymbuild("plan:extra")
    expected = {"module": "benchmarks.extra.prepare", "name": "other", "cwd": str(tree.root)}
    assert _rows(tree) == [{"task_id": str(number), **expected} for number in range(3)]
    assert not other.output("extra").exists()
    assert len(json.loads(tree.plan("extra").read_text())["tasks"]) == 3
    assert tree.build("plan:extra").ran == frozenset()


def test_what_a_script_imports_in_its_own_root_is_an_input(tree: Tree, other: Tree) -> None:
    tree.gymbuild("prepare:extra")
    other.replace("benchmarks/extra/helper.py", "3", "4")
    assert tree.build("prepare:extra").ran == {"extra"}
    assert len(_rows(tree)) == 4
    # a module that comes before the one that was imported
    other.write("benchmarks/extra_helpers/__init__.py", "NAME = 'package'\n")
    assert tree.build("prepare:extra").ran == {"extra"}
    assert {row["name"] for row in _rows(tree)} == {"package"}
    # also one that hides a module of Python's own
    other.write("fnmatch.py", "")
    assert tree.build("prepare:extra", code=None).ran == {"extra"}


def test_the_module_of_the_checkout_of_the_same_name_is_none(tree: Tree, other: Tree) -> None:
    tree.gymbuild("prepare:extra")
    tree.write("benchmarks/extra/helper.py", "COUNT = 200\n")
    assert tree.build("prepare:extra").ran == frozenset()


def test_the_first_root_that_has_a_name_wins_at_once(tree: Tree, other: Tree) -> None:
    tree.benchmark("both")
    tree.gymbuild("prepare:both")
    assert tree.build("prepare:both").ran == frozenset()
    other.benchmark("both", "rows = [{'task_id': 'of the other root'}]", signature="")
    assert tree.build("prepare:both").ran == {"both"}
    assert "of the other root" in tree.output("both").read_text()
    other.path("benchmarks/both/config.yaml").unlink()
    tree.gymbuild("prepare:both")
    assert "of the other root" not in tree.output("both").read_text()
    listed = [entry["name"] for entry in json.loads(tree.gymbuild("benchmarks", "--json"))]
    assert listed == ["both", "extra"]
    # and without the variable the other root is gone
    assert "there is no such task" in tree.gymbuild("prepare:extra", code=3, NEMO_GYM_EXTRA_ROOTS="")


def test_search_dirs_come_before_the_variable(tree: Tree, other: Tree, tmp_path: Path) -> None:
    first = Tree((tmp_path / "first").resolve(), tree.runs)
    first.benchmark("extra", "rows = [{'task_id': 'first'}]", signature="")
    tree.gymbuild("prepare:extra", f"search_dirs=[{first.root}]")
    assert [row["task_id"] for row in _rows(tree)] == ["first"]
