"""What a plan says of its checkout: the version, and the commit of a git work tree whose top the checkout is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gymbuild.plan.plan import gym_commit, gym_version
from gymbuild.system.paths import Checkout


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.invalid"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return subprocess.run(
        ["git", *identity, *words], cwd=folder, env=environment, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository with spaces é"
    (folder / "inner").mkdir(parents=True)
    git(folder, "init", "-q")
    (folder / "tracked.txt").write_text("a")
    (folder / "inner" / "file.txt").write_text("a")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    return folder


def test_dirty_only_when_a_tracked_file_differs(repository: Path) -> None:
    head = git(repository, "rev-parse", "HEAD")
    checkout = Checkout(repository)
    assert gym_commit(checkout) == head
    (repository / "untracked.txt").write_text("x")
    os.utime(repository / "tracked.txt", (1, 1))
    assert gym_commit(checkout) == head
    (repository / "tracked.txt").write_text("b")
    assert gym_commit(checkout) == head + "-dirty"
    git(repository, "add", "tracked.txt")
    assert gym_commit(checkout) == head + "-dirty"
    git(repository, "commit", "-qm", "second")
    assert gym_commit(checkout) == git(repository, "rev-parse", "HEAD")


def test_no_commit_without_git_in_a_folder_of_a_repository_or_before_the_first_commit(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plain").mkdir()
    assert gym_commit(Checkout(tmp_path / "plain")) is None
    assert gym_commit(Checkout(repository / "inner")) is None
    (tmp_path / "empty").mkdir()
    git(tmp_path / "empty", "init", "-q")
    assert gym_commit(Checkout(tmp_path / "empty")) is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gym_commit(Checkout(repository)) is None


def test_what_a_hook_says_of_another_repository_is_not_listened_to(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / "index"))
    assert gym_commit(Checkout(repository)) == git(repository, "rev-parse", "HEAD")


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
