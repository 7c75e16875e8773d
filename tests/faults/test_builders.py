"""Several builders at once in one checkout: each dataset is prepared once, and all of them end well."""

from __future__ import annotations

import pytest

from tests.faults.builders import finish, make, names, set_version, whole_version
from tests.trees import Tree

DATASETS = 3
BUILDERS = 4


def build_at_once(tree: Tree, rounds: int) -> None:
    """In each round: change every dataset, and start four builders, some of them with workers."""
    for number in range(1, rounds + 1):
        before = tree.count()
        for name in names(DATASETS):
            set_version(tree, name, str(number))
        builders = [tree.start(*words, "plan") for words in ([], ["-n", "2"], [], ["-n", "3"])[:BUILDERS]]
        ends = [finish(builder) for builder in builders]
        said = "\n----\n".join(text for _, text in ends)
        assert [code for code, _ in ends] == [0] * BUILDERS, f"round {number}\n{said}"
        after = tree.count()
        assert {name: after[name] - before[name] for name in after} == dict.fromkeys(names(DATASETS), 1), (
            f"round {number}\n{said}"
        )
        for name in names(DATASETS):
            assert whole_version(tree, name) == str(number)
        assert "Traceback" not in said
    assert "nothing to do" in tree.gymbuild("plan")


@pytest.fixture
def few(tree: Tree) -> Tree:
    make(tree, DATASETS)
    tree.gymbuild("plan")
    return tree


def test_four_builders_at_once_run_each_script_once(few: Tree) -> None:
    build_at_once(few, 2)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_four_builders_at_once_for_fifty_rounds(few: Tree) -> None:
    build_at_once(few, 50)
