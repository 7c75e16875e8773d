"""The version of its checkout that a plan names (its commit: tests/system/test_git.py)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gymbuild.plan.plan import gym_version
from gymbuild.system.paths import Checkout


@pytest.mark.parametrize(
    ("files", "version"),
    [
        ({}, "0.0.0"),
        ({"pyproject.toml": '[project]\nversion = "1.2"\n'}, "1.2"),
        ({"pyproject.toml": "[project]\ndynamic = ['version']\n"}, "0.0.0"),
        ({"pyproject.toml": "not toml"}, "0.0.0"),
        (
            {
                "pyproject.toml": '[project]\nversion = "1.2"\n',
                "nemo_gym/package_info.py": "MAJOR = 0\nMINOR = 7\nPATCH = 1\nPRE_RELEASE = 'rc0'  # soon\n",
            },
            "0.7.1rc0",
        ),
        ({"nemo_gym/package_info.py": '__version__ = "3.1.dev0"\n'}, "3.1.dev0"),
        (
            {
                "pyproject.toml": '[project]\nversion = "1.2"\n',
                "nemo_gym/package_info.py": "raise SystemExit('never run')\n",
            },
            "1.2",
        ),
    ],
)
def test_the_version_is_the_checkouts_own(tmp_path: Path, files: dict[str, str], version: str) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert gym_version(Checkout(tmp_path)) == version


def test_importing_the_plan_imports_nothing_heavy() -> None:
    heavy = {"pydantic", "yaml", "omegaconf", "rich", "orjson", "multiprocessing"}
    done = subprocess.run(
        [sys.executable, "-c", "import sys, gymbuild.plan.plan; print(*sys.modules)"],
        check=True,
        capture_output=True,
        text=True,
        cwd=Path(__file__).resolve().parents[2],
    )
    assert not heavy & {name.partition(".")[0] for name in done.stdout.split()}
