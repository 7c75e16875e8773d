"""Fixtures that tests of several folders use."""

from __future__ import annotations

import compileall
from pathlib import Path

import pytest

from tests.trees import REPOSITORY, Tree, new_tree


def pytest_configure(config: pytest.Config) -> None:
    """Compile gymbuild once: else each of the thousands of starts does where no bytecode is written."""
    if not hasattr(config, "workerinput"):
        compileall.compile_dir(REPOSITORY / "gymbuild", quiet=2)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """An empty checkout without a dodo.py; see tests/trees.py."""
    return new_tree(tmp_path)
