"""The pre-commit hook as a repository uses it: installed by pre-commit itself, run by `git commit`."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import uv
import yaml

from tests.tasks.conftest import REPOSITORY, Project

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
GIT = ("git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")


def run(words: tuple[str, ...], folder: Path, code: int = 0, **environment: str) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(
        words,
        cwd=folder,
        env={**clean, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == code, f"exit {done.returncode}\n{done.stdout}"
    return done.stdout


@pytest.fixture
def pre_commit(tmp_path: Path) -> str:
    """The command, from the package index; skips where it cannot be had."""
    folder = tmp_path / "pre-commit"
    for words in (("venv", "-q", str(folder)), ("pip", "install", "-q", "pre-commit")):
        done = subprocess.run(
            [uv.find_uv_bin(), *words],
            env={**os.environ, "VIRTUAL_ENV": str(folder)},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            pytest.skip(f"pre-commit cannot be installed here: {done.stderr.strip().splitlines()[-1:]}")
    return str(folder / "bin" / "pre-commit")


@pytest.fixture
def hook_repository(tmp_path: Path) -> Path:
    """This repository's tracked files as a repository of their own, with the revision that the docs name."""
    folder = tmp_path / "hook"
    if not (REPOSITORY / ".git").exists():
        pytest.skip("the tests do not run in a git checkout")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (REPOSITORY / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(REPOSITORY / name, folder / name)
    run((*GIT, "init", "-q"), folder)
    run((*GIT, "add", "--all"), folder)
    run((*GIT, "commit", "-q", "-m", "all"), folder)
    run((*GIT, "tag", "v0.1.0"), folder)
    return folder


def config_of_the_docs(repository: Path) -> str:
    text = (REPOSITORY / "docs/ci.md").read_text(encoding="utf-8")
    block = text.split("```yaml\n# .pre-commit-config.yaml\n")[1].split("```")[0]
    (entry,) = yaml.safe_load(block)["repos"]
    assert entry["repo"].endswith("/gymbuild")
    return block.replace(entry["repo"], str(repository))


def test_a_commit_that_changes_tasks_passes_once_the_plans_are_updated(
    project: Project, pre_commit: str, hook_repository: Path, tmp_path: Path
) -> None:
    project.add("alpha", "rows = [{'task_id': str(i), 'question': f'q{i}'} for i in range(size)]")
    project.write(".gitignore", ".cache/\nbenchmarks/**/data/\n")
    project.write(".pre-commit-config.yaml", config_of_the_docs(hook_repository))
    project.run("check", "--update")
    home = str(tmp_path / "home")

    def commit(text: str, code: int = 0) -> str:
        return run((*GIT, "commit", "-m", text), project.root, code, PRE_COMMIT_HOME=home)

    run((*GIT, "init", "-q"), project.root)
    run((*GIT, "add", "--all"), project.root)
    run((pre_commit, "install"), project.root, PRE_COMMIT_HOME=home)
    assert "plans match the benchmarks" in commit("plans are kept")

    script = project.path("benchmarks/alpha/prepare.py")
    script.write_text(script.read_text().replace("f'q{i}'", "f'Q{i}'"))
    run((*GIT, "add", "--all"), project.root)
    said = commit("other questions", 1)
    assert "- exit code: 1\n" in said
    assert "files were modified" not in said
    assert "plans/alpha.json: 3 tasks; 3 changed" in said
    assert "in question (3)" in said
    assert "`gymbuild check --update` writes the plans" in said

    project.run("check", "--update")
    run((*GIT, "add", "--all"), project.root)
    assert "Passed" in commit("other questions")

    project.write("README.md", "nothing about tasks\n")
    run((*GIT, "add", "--all"), project.root)
    assert "(no files to check)Skipped" in commit("words")
