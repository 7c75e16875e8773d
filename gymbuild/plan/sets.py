"""The plans that a word of the command line means: one file, a folder of them, or those that a git revision keeps."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gymbuild.plan.plan import Plan, parse_plan, read_plan
from gymbuild.system.errors import PlanError, UsageError
from gymbuild.system.paths import Checkout

PLANS_DIR = "plans"
"""Where a repository keeps its plans when `plans_dir` does not say."""


@dataclass(frozen=True, slots=True)
class PlanSet:
    """Plans that are compared together."""

    title: str
    """What the word was."""
    plans: Mapping[str, Plan]
    """By the name of their file, relative to the folder, without `.json`."""
    one: bool
    """Whether the word named one file."""


def read_set(checkout: Checkout, word: str, plans_dir: str) -> PlanSet:
    """The plans that a word means.

    Args:
        checkout: whose files and whose git revisions.
        word: a plan file or `-` for standard input, a folder of plans, or a git revision, in this order.
        plans_dir: where the checkout keeps its plans, in every revision.

    Raises:
        UsageError: it means none of them, or a plan among them cannot be read.
    """
    path = checkout.absolute(word)
    try:
        if word == "-":
            return PlanSet("standard input", {"standard input": read_plan("-")}, True)
        if os.path.isdir(path):
            plans = {name: read_plan(file, checkout.relative(file)) for name, file in plan_files(path)}
            return PlanSet(word, plans, False)
        if os.path.exists(path):
            # a pipe is as good as a file
            return PlanSet(word, {os.path.splitext(os.path.basename(path))[0]: read_plan(path, word)}, True)
        return PlanSet(word, dict(_of_revision(checkout, word, plans_dir)), False)
    except PlanError as error:
        raise UsageError(str(error)) from None


def plan_files(folder: str) -> Iterator[tuple[str, str]]:
    """The plan files of a folder and the folders below it, in name order: name without `.json`, and path."""
    found = []
    for parent, _, names in os.walk(folder):
        for file in names:
            if file.endswith(".json") and not file.startswith("."):
                path = os.path.join(parent, file)
                found.append((os.path.relpath(path, folder)[: -len(".json")].replace(os.sep, "/"), path))
    return iter(sorted(found))


def _of_revision(checkout: Checkout, revision: str, plans_dir: str) -> Iterator[tuple[str, Plan]]:
    commit = _git(checkout, "rev-parse", "--verify", "--quiet", "--end-of-options", revision + "^{commit}")
    if commit is None:
        raise UsageError(
            f"{revision}: is not a plan file, a folder of plans or a git revision of {checkout.root}"
            f"{_why_unknown(checkout)}."
        )
    where = checkout.relative(plans_dir)
    if os.path.isabs(where):
        raise UsageError(
            f"plans_dir={plans_dir}: lies outside the checkout, so {revision} has no plans of it."
        )
    name = commit.decode().strip()
    # names come relative to the checkout, also when the repository's top is above it
    listed = _git(checkout, "ls-tree", "-r", "-z", "--name-only", name, "--", f"./{where}/") or b""
    prefix = where + "/"
    files = [os.fsdecode(file) for file in listed.split(b"\0") if file.endswith(b".json")]
    if not files:
        raise UsageError(
            f"{revision}: this revision keeps no plans in {where}/. "
            f"`gymbuild check --update plans_dir={where}` writes them, for a commit to keep."
        )
    for file in sorted(files):
        data = _git(checkout, "cat-file", "blob", f"{name}:./{file}")
        assert data is not None, file
        yield file[len(prefix) : -len(".json")], parse_plan(data, f"{revision}:{file}")


def _why_unknown(checkout: Checkout) -> str:
    """What may be the reason that a revision is not known, where it is not its name."""
    shallow = _git(checkout, "rev-parse", "--is-shallow-repository")
    if shallow is None:
        return ", which is not a git checkout (or there is no git)"
    if shallow.strip() == b"true":
        return ", which is a shallow clone: `git fetch --unshallow` gets the commits that it lacks"
    return ""


def _git(checkout: Checkout, *words: str) -> bytes | None:
    """What git prints; None when it says no, or there is none."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", "-C", checkout.root, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**environment, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"},
            check=False,
        )
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None
