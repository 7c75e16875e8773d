"""Scripts that make nothing: they check a file that people keep, which is their declared output (osworld does)."""

from __future__ import annotations

import json

from tests.trees import Tree

CHECKS = """
if not OUT.is_file():
    raise FileNotFoundError(f"there is no {OUT}")
rows = [json.loads(line) for line in OUT.read_text().splitlines()]
assert all(row['task_id'] for row in rows)
return OUT
"""


def _keeps(tree: Tree, *ids: str) -> None:
    tree.output("alpha").parent.mkdir(parents=True, exist_ok=True)
    tree.output("alpha").write_text("".join(json.dumps({"task_id": name}) + "\n" for name in ids))


def test_the_file_is_there_for_its_script_and_left_alone(tree: Tree) -> None:
    tree.benchmark("alpha", CHECKS, signature="")
    _keeps(tree, "a", "b")
    before = tree.output("alpha").read_bytes()
    tree.gymbuild("prepare:alpha")
    assert tree.output("alpha").read_bytes() == before
    assert tree.build("prepare:alpha").ran == frozenset()
    assert not tree.displaced()


def test_an_edit_of_it_is_checked_and_kept(tree: Tree) -> None:
    tree.benchmark("alpha", CHECKS, signature="")
    _keeps(tree, "a", "b")
    tree.gymbuild("prepare:alpha")
    _keeps(tree, "a", "b", "c")
    assert tree.build("prepare:alpha").ran == {"alpha"}
    assert len(tree.output("alpha").read_text().splitlines()) == 3
    tree.replace("benchmarks/alpha/prepare.py", "assert all(", "assert any(")
    assert tree.build("prepare:alpha").ran == {"alpha"}
    assert tree.build("prepare:alpha").ran == frozenset()


def test_a_check_that_fails_leaves_the_file_as_it_was(tree: Tree) -> None:
    tree.benchmark("alpha", CHECKS, signature="")
    _keeps(tree, "a", "")
    before = tree.output("alpha").read_bytes()
    tree.gymbuild("prepare:alpha", code=76)
    assert tree.output("alpha").read_bytes() == before


def test_what_gymbuild_made_is_not_taken_for_a_file_that_people_keep(tree: Tree) -> None:
    tree.benchmark("alpha")
    tree.gymbuild("prepare:alpha")
    tree.script("alpha", CHECKS, signature="size: int = 3")
    assert "FileNotFoundError" in tree.gymbuild("prepare:alpha", code=76)
