"""git, asked about a checkout and never told to change anything. The one place that runs it."""

from __future__ import annotations

import os

from gymbuild.system.errors import UsageError
from gymbuild.system.processes import REPOSITORY_VARIABLES, run


class GitError(UsageError):
    """git cannot be started, or refuses; the text is what it says."""


class GitOwnershipError(GitError):
    """git reads no repository that belongs to somebody else, until this user's settings allow it."""


def git(folder: str, *words: str) -> bytes:
    """What git prints.

    What a hook's environment says of the repository does not count, since it may be another one; settings that come
    in the environment do.

    Args:
        folder: absolute; in which repository git looks.
        words: its arguments.

    Raises:
        GitError: it cannot be started, or says no.
    """
    variables = {name: value for name, value in os.environ.items() if name not in REPOSITORY_VARIABLES}
    try:
        ended = run(
            ["git", "--no-optional-locks", "-C", folder, *words],
            environment={**variables, "LC_ALL": "C"},
            errors="apart",
            lifeline="none",
        )
    except OSError as error:
        raise GitError(f"git cannot be started: {error.strerror}") from None
    if ended.status:
        text = " ".join(os.fsdecode(ended.errors).split()).removeprefix("fatal: ")
        kind = GitOwnershipError if "dubious ownership" in text else GitError
        raise kind(f"git: {text}" if text else f"git {words[0]} ended with {ended.status}")
    return ended.output


def answer(folder: str, *words: str) -> bytes | None:
    """What git prints; None when it cannot be started, or says no. Arguments as for `git`."""
    try:
        return git(folder, *words)
    except GitError:
        return None


def commit_of(folder: str) -> str | None:
    """The commit of the work tree whose top the folder is, `-dirty` appended when a tracked file differs.

    None when the folder is not such a top: the commit of a repository around it would change with files that have
    nothing to do with it.

    Args:
        folder: absolute, without symlinks.

    Raises:
        GitOwnershipError: git refuses to read it for this user, so that another one would get another answer.
    """
    try:
        top = os.fsdecode(git(folder, "rev-parse", "--show-toplevel")).removesuffix("\n")
    except GitOwnershipError:
        raise
    except GitError:
        return None
    if os.path.realpath(top) != folder:
        return None
    commit = answer(folder, "rev-parse", "--verify", "-q", "HEAD")
    if commit is None:
        return None
    changed = answer(folder, "status", "--porcelain", "--untracked-files=no", "--ignore-submodules=none")
    return commit.decode().strip() + ("-dirty" if changed else "")


def is_tracked(path: str) -> bool | None:
    """Whether git has a file, committed or added to be; None where there is no git to ask, or no work tree.

    Args:
        path: absolute.
    """
    folder, name = os.path.split(path)
    if answer(folder, "rev-parse", "--is-inside-work-tree") != b"true\n":
        return None
    # the name is a pattern to git: it may match others as well
    listed = answer(folder, "ls-files", "-z", "--", f"./{name}")
    return listed is not None and os.fsencode(name) in listed.split(b"\0")


def commit_at(folder: str, revision: str) -> str:
    """The full name of the commit that a revision stands for.

    Args:
        folder: absolute; in the repository.
        revision: as git takes it.

    Raises:
        GitError: there is none; the text says why that may be.
    """
    commit = answer(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", revision + "^{commit}")
    if commit is not None:
        return commit.decode().strip()
    if git(folder, "rev-parse", "--is-shallow-repository") == b"true\n":
        raise GitError("it is a shallow clone: `git fetch --unshallow` gets the commits that it lacks")
    raise GitError("git: no such commit")


def files_at(folder: str, commit: str, below: str) -> list[str]:
    """The files that a commit has in a folder and below it, sorted.

    Args:
        folder: absolute; in the repository, not necessarily its top.
        commit: from `commit_at`.
        below: relative to the folder, as the files are then.
    """
    listed = answer(folder, "ls-tree", "-r", "-z", "--name-only", commit, "--", f"./{below}/") or b""
    return sorted(os.fsdecode(name) for name in listed.split(b"\0") if name)


def content_at(folder: str, commit: str, file: str) -> bytes:
    """What a file of `files_at` holds in that commit.

    Raises:
        GitError: git cannot read it.
    """
    return git(folder, "cat-file", "blob", f"{commit}:./{file}")
