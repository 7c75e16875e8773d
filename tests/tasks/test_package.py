"""The wheel alone, in a clean environment, on a checkout that has no dodo.py."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from uv import find_uv_bin

from tests.tasks.conftest import REPOSITORY, Project


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([find_uv_bin(), "build", "-q", "--wheel", "-o", folder, REPOSITORY], check=True)
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_holds_the_runner_the_type_marker_and_the_licence(wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-any.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "gymbuild/preparation/runner/__main__.py" in names
    assert "gymbuild/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not any(name.startswith(("tests/", "benchmarks/", "dodo")) for name in names)


def test_the_wheel_alone_plans_a_benchmark_of_a_checkout_without_a_dodo(
    wheel: Path, shipped: Project
) -> None:
    venv = shipped.root.parent / "venv"
    subprocess.run([find_uv_bin(), "venv", "-q", "--python", sys.executable, venv], check=True)
    subprocess.run(
        [find_uv_bin(), "pip", "install", "-q", "--python", venv / "bin/python", wheel], check=True
    )
    shipped.path("dodo.py").unlink()
    shipped.path("pyproject.toml").unlink()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [venv / "bin/gymbuild", "--root", shipped.root, "plan:human_eval"]
    first = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True, cwd="/"
    ).stdout
    assert "plan:human_eval written: .cache/plans/human_eval.json (164 tasks)" in first
    again = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True, cwd="/"
    ).stdout
    assert "nothing to do: 2 current" in again


def test_no_entry_point_changes_doit_elsewhere(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel)
    (entry_points,) = [name for name in names.namelist() if name.endswith("entry_points.txt")]
    assert "doit" not in names.read(entry_points).decode()


def test_the_commands_that_pyproject_registers_are_the_commands_that_there_are() -> None:
    import tomllib

    from gymbuild.commands import COMMANDS

    doit = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["doit"]
    assert doit["plugins"]["command"] == COMMANDS
    assert not set(COMMANDS) & {"venv", "prepare", "validate", "plan"}


def test_no_commit_holds_a_lock_with_addresses() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    if tracked.returncode:
        pytest.skip("not a git checkout")
    names = tracked.stdout.splitlines()
    assert not [name for name in names if name.endswith(("uv.lock", ".py.lock")) or "pylock" in name]
