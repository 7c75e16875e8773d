"""Plan files that commands are given, and that they write."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from gymbuild.system.errors import PlanError, UsageError
from gymbuild.system.permissions import sentence
from gymbuild.system.text import size_text, visible

if TYPE_CHECKING:
    from gymbuild.plan.plan import Plan


def named_plan(path: str) -> Plan:
    """The plan of a file that was named on the command line.

    Args:
        path: of the file; `-` is standard input.

    Raises:
        UsageError: it is not a plan, or cannot be read.
    """
    from gymbuild.plan.plan import read_plan

    try:
        return read_plan(path)
    except PlanError as error:
        raise UsageError(str(error)) from None


def write_plan(path: str, data: bytes) -> None:
    """Write a plan file as a whole.

    Raises:
        PlanError: it cannot be written; what was there is as it was.
    """
    from gymbuild.system.files import write_atomically

    try:
        write_atomically(os.path.abspath(path), data)
    except OSError as error:
        raise PlanError(f"{path}: cannot be written: {sentence(error)}") from None


def written_text(path: str, plan: Plan, size: int | None = None) -> str:
    """What is said of a plan file that was written.

    Args:
        path: as it was named.
        plan: what is in it.
        size: bytes of its rows, where they were counted.
    """
    from gymbuild.plan.diff import tasks_text

    text = f"{visible(path)}  {tasks_text(len(plan.tasks))}"
    return text if size is None else f"{text}, {size_text(size)}"
