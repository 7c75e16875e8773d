"""What git says of a checkout: its commit, its files in a revision, whether it has a file; whatever a hook has set."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gymbuild.system.git import (
    GitError,
    GitOwnershipError,
    commit_at,
    commit_of,
    content_at,
    files_at,
    is_tracked,
)
from gymbuild.system.processes import REPOSITORY_VARIABLES


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.invalid"]
    environment = {name: value for name, value in os.environ.items() if name not in REPOSITORY_VARIABLES}
    return subprocess.run(
        ["git", *identity, *words], cwd=folder, env=environment, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "repository with spaces é"
    (folder / "inner").mkdir(parents=True)
    git(folder, "init", "-q")
    (folder / "tracked.txt").write_text("a")
    (folder / "inner" / "file.txt").write_text("a")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    return folder


def test_dirty_only_when_a_tracked_file_differs(repository: Path) -> None:
    head = git(repository, "rev-parse", "HEAD")
    assert commit_of(str(repository)) == head
    (repository / "untracked.txt").write_text("x")
    os.utime(repository / "tracked.txt", (1, 1))
    assert commit_of(str(repository)) == head
    (repository / "tracked.txt").write_text("b")
    assert commit_of(str(repository)) == head + "-dirty"
    git(repository, "add", "tracked.txt")
    assert commit_of(str(repository)) == head + "-dirty"
    git(repository, "commit", "-qm", "second")
    assert commit_of(str(repository)) == git(repository, "rev-parse", "HEAD")


def test_no_commit_without_git_in_a_folder_of_a_repository_or_before_the_first_commit(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plain").mkdir()
    assert commit_of(str(tmp_path / "plain")) is None
    assert commit_of(str(repository / "inner")) is None
    (tmp_path / "empty").mkdir()
    git(tmp_path / "empty", "init", "-q")
    assert commit_of(str(tmp_path / "empty")) is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit_of(str(repository)) is None


def test_what_a_hook_says_of_another_repository_does_not_count(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / "index"))
    assert commit_of(str(repository)) == git(repository, "rev-parse", "HEAD")


@pytest.mark.parametrize("linked", [False, True], ids=["main work tree", "linked work tree"])
def test_in_a_commit_hook_a_committed_file_is_tracked(repository: Path, tmp_path: Path, linked: bool) -> None:
    tree = repository
    if linked:
        tree = tmp_path.resolve() / "linked"
        git(repository, "worktree", "add", "-q", "--detach", str(tree))
    said = tmp_path / "said"
    hook = repository / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(
        f"#!{sys.executable}\n"
        f"import sys; sys.path[:0] = {sys.path!r}\n"
        "import os; from gymbuild.system.git import commit_of, is_tracked\n"
        f"names = ['tracked.txt', 'inner/file.txt', 'new.txt', 'missing.txt']\n"
        f"found = [is_tracked(os.path.join({str(tree)!r}, name)) for name in names]\n"
        f"open({str(said)!r}, 'w').write(repr((sorted(os.environ), found, commit_of({str(tree)!r}))))\n"
    )
    hook.chmod(0o755)
    head = git(tree, "rev-parse", "HEAD")
    (tree / "new.txt").write_text("x")
    git(tree, "add", "new.txt")
    git(tree, "commit", "-qm", "second")
    variables, found, commit = eval(said.read_text())
    assert "GIT_INDEX_FILE" in variables and ("GIT_DIR" in variables or not linked)
    assert found == [True, True, True, False]
    assert commit == head + "-dirty"


def test_the_name_of_a_file_is_no_pattern(repository: Path, tmp_path: Path) -> None:
    assert is_tracked(str(repository / "tracke[d].txt")) is False
    for name in ("tracke[d].txt", ":(top)x", "é\n"):
        (repository / name).write_text("x")
        assert is_tracked(str(repository / name)) is False
        git(repository, "--literal-pathspecs", "add", name)
        assert is_tracked(str(repository / name)) is True
    assert is_tracked(str(tmp_path / "x")) is None
    assert is_tracked(str(repository / "nowhere" / "x")) is None


def test_the_files_of_a_revision_as_seen_from_a_folder_below_the_top(repository: Path) -> None:
    first = commit_at(str(repository / "inner"), "HEAD")
    (repository / "inner/plans").mkdir()
    (repository / "inner/plans/é.json").write_text("{}")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "second")
    folder, second = str(repository / "inner"), commit_at(str(repository), "HEAD")
    assert first != second == git(repository, "rev-parse", "HEAD")
    assert files_at(folder, second, "plans") == ["plans/é.json"] and not files_at(folder, first, "plans")
    assert content_at(folder, second, "plans/é.json") == b"{}"
    with pytest.raises(GitError, match="plans"):
        content_at(folder, first, "plans/é.json")
    with pytest.raises(GitError, match="no such commit"):
        commit_at(folder, "HEAD~9")
    with pytest.raises(GitError, match="no such commit"):
        commit_at(folder, "--all")


def test_why_git_says_nothing_of_a_folder(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(GitError, match="not a git repository"):
        commit_at(str(tmp_path), "HEAD")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GitError, match="git cannot be started: No such file"):
        commit_at(str(repository), "HEAD")


def test_a_repository_of_somebody_else_is_an_error_that_names_the_remedy_and_settings_of_the_environment_count(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # what git's own tests set, to take every repository for somebody else's
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    head = "git config --global --add safe.directory"
    for ask in (lambda: commit_of(str(repository)), lambda: commit_at(str(repository), "HEAD")):
        with pytest.raises(GitOwnershipError, match=f"dubious ownership.*{head}"):
            ask()
    assert is_tracked(str(repository / "tracked.txt")) is None
    # from the command line and the environment git takes no safe.directory on some versions, from a file always
    settings = repository / ".git" / "settings"
    settings.write_text(f'[safe]\n\tdirectory = "{repository}"\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    assert commit_of(str(repository)) == commit_at(str(repository), "HEAD")
