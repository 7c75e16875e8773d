"""Never stale, never idle: each row of the mutation matrix, through real processes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.matrix.page import PAGE, page
from tests.matrix.slow_table import SLOW_TABLE, make_slow_world
from tests.matrix.table import TABLE, Change
from tests.matrix.world import NAMES, make_world
from tests.trees import Tree, new_tree


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    """The world, built once."""
    tree = new_tree(tmp_path_factory.mktemp("world"))
    make_world(tree)
    tree.forked = True
    done = tree.build()
    assert done.ran == set(NAMES), done.text
    return tree


@pytest.fixture
def world(built: Tree, tmp_path: Path) -> Tree:
    """A copy of the built world, in which a build has found that nothing is to be done."""
    root = tmp_path / "checkout"
    shutil.copytree(built.root, root, symlinks=True)
    (tmp_path / "runs").mkdir()
    tree = Tree(root.resolve(), built.runs, forked=True)
    assert "nothing to do: 11 current" in tree.build().text
    return tree


@pytest.mark.parametrize("change", TABLE, ids=lambda change: f"{change.group}: {change.title}")
def test_after(change: Change, world: Tree) -> None:
    change.change(world)
    done = world.build(*change.words, code=change.code, **change.environment)
    assert done.ran == change.runs, done.text
    assert done.restored == change.restores, done.text
    assert done.plans == change.plans, done.text
    assert change.says in done.text
    assert sorted(world.displaced()) == sorted(change.keeps), done.text
    environment = {k: v for k, v in change.environment.items() if k != "EDIT_WHILE_RUNNING"}
    again = world.build(code=76 if change.again and change.code else None, **environment)
    assert again.ran == change.again, done.text + again.text
    if change.words == ("plan",) and not change.again:
        assert not again.plans
        assert "nothing to do" in again.text


@pytest.fixture(scope="module")
def built_slowly(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    """The world with environments, built once."""
    tree = new_tree(tmp_path_factory.mktemp("environments"))
    tree.forked = True
    make_slow_world(tree)
    assert tree.build().ran == {"locked", "project", "editable", "plain"}
    return tree


@pytest.mark.slow
@pytest.mark.parametrize("change", SLOW_TABLE, ids=lambda change: change.title)
def test_after_in_environments(change: Change, built_slowly: Tree, tmp_path: Path) -> None:
    # in place, since an editable install leads to its checkout: what the change did is undone afterwards
    tree, kept = built_slowly, tmp_path / "kept"
    shutil.copytree(tree.root, kept, symlinks=True, ignore=shutil.ignore_patterns(".cache", "data"))
    tree.build()
    try:
        change.change(tree)
        done = tree.build(*change.words, code=change.code)
        assert done.ran == change.runs, done.text
        assert done.restored == change.restores, done.text
        assert done.plans == change.plans, done.text
        assert change.says in done.text
        if not change.code:
            again = tree.build()
            assert not again.ran
            assert "nothing to do" in again.text
    finally:
        for path in [path for path in tree.root.iterdir() if path.name != ".cache"]:
            shutil.rmtree(path)
        shutil.copytree(kept, tree.root, symlinks=True, dirs_exist_ok=True)
        assert not tree.build().ran  # back at what was built: the store has it all


def test_the_page_is_made_of_the_table() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `python -m tests.matrix.page`"


def test_the_table_has_every_kind_of_change_once() -> None:
    titles = [(change.group, change.title) for change in [*TABLE, *SLOW_TABLE]]
    assert len(set(titles)) == len(titles) >= 45
