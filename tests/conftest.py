"""Fixtures that tests of several folders use."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.trees import Tree, new_tree


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """An empty checkout without a dodo.py; see tests/trees.py."""
    return new_tree(tmp_path)
