"""The checkouts of the command-line tests, for tests of single commands."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tasks.conftest import Project, project, shipped, write_prompt

__all__ = ["project", "shipped", "write_prompt"]

Make = Callable[[Callable[[Project], None]], Project]


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """`made_once(build)` → a checkout that `build` has worked on, made once for the tests of a module."""
    made: dict[Callable[[Project], None], Project] = {}

    def make(build: Callable[[Project], None]) -> Project:
        if build not in made:
            root = tmp_path_factory.mktemp("made") / "checkout"
            (root / "benchmarks").mkdir(parents=True)
            made[build] = Project(root)
            build(made[build])
        return made[build]

    return make


@pytest.fixture
def copy_of(made_once: Make, tmp_path: Path) -> Make:
    """`copy_of(build)` → a copy of that checkout, its store included, for one test to change."""

    def copy(build: Callable[[Project], None]) -> Project:
        root = tmp_path / "checkout"
        shutil.copytree(made_once(build).root, root, symlinks=True)
        return Project(root)

    return copy
