"""The plans that a word of the command line means: one file, a folder of them, or those that a git revision keeps."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gymbuild.plan.plan import Plan, parse_plan, read_plan
from gymbuild.system import git
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
    try:
        commit = git.commit_at(checkout.root, revision)
    except git.GitError as error:
        raise UsageError(
            f"{revision}: is not a plan file, a folder of plans or a git revision of {checkout.root} ({error})."
        ) from None
    folder = checkout.relative(plans_dir)
    if os.path.isabs(folder):
        raise UsageError(
            f"plans_dir={plans_dir}: lies outside the checkout, so {revision} has no plans of it."
        )
    files = [file for file in git.files_at(checkout.root, commit, folder) if file.endswith(".json")]
    if not files:
        raise UsageError(
            f"{revision}: this revision has no plans in {folder}/. "
            f"`gymbuild check --update plans_dir={folder}` writes them, to be committed."
        )
    for file in files:
        data = git.content_at(checkout.root, commit, file)
        yield file[len(folder) + 1 : -len(".json")], parse_plan(data, f"{revision}:{file}")
