"""`merge SHARD…`: the plan that was split, the same to the byte."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from typing import Any

from gymbuild.commands.base import GymbuildCommand, usage_error
from gymbuild.config.session import Session
from gymbuild.system.errors import PlanError, UsageError
from gymbuild.system.permissions import sentence
from gymbuild.system.text import visible

_SHARD = re.compile(r"(.+)\.shard-(\d+)-of-(\d+)\.json")


class Merge(GymbuildCommand):
    """Put shards together again."""

    name = "merge"
    doc_purpose = "put the shards of a plan together again"
    doc_usage = "SHARD ... [--output FILE]"
    doc_description = "Prints the plan, or writes it to FILE. That a shard is missing is told by the names that `shard` gave."
    cmd_options = (
        {
            "name": "output",
            "short": "o",
            "long": "output",
            "type": str,
            "default": "",
            "help": "where to; default: standard output",
        },
    )

    def run(self, session: Session, words: list[str], options: Any) -> int:
        """Print or write the plan."""
        from gymbuild.plan.diff import tasks_text
        from gymbuild.plan.plan import read_plan
        from gymbuild.plan.shards import merge
        from gymbuild.system.files import write_atomically

        if not words:
            raise usage_error(self, "name the shards, such as `merge plan.shard-*.json`.")
        check_names(words)
        try:
            plan = merge([read_plan(word) for word in words])
        except PlanError as error:
            raise UsageError(str(error)) from None
        if not options["output"]:
            for chunk in plan.chunks():
                sys.stdout.buffer.write(chunk)
            sys.stdout.flush()
            return 0
        try:
            write_atomically(os.path.abspath(options["output"]), plan.to_bytes())
        except OSError as error:
            raise PlanError(f"{options['output']}: cannot be written: {sentence(error)}") from None
        print(f"{visible(options['output'])}  {tasks_text(len(plan.tasks))}")
        return 0


def check_names(paths: Sequence[str]) -> None:
    """Complain about shards that are missing, or of another split, as far as their names tell.

    Raises:
        UsageError: names them.
    """
    names = [_SHARD.fullmatch(os.path.basename(path)) for path in paths]
    if not all(names):
        return
    splits = sorted({(match[1], int(match[3])) for match in names if match})
    if len(splits) > 1:
        shown = ", ".join(f"{plan} in {of}" for plan, of in splits)
        raise UsageError(f"these shards are of several splits: {shown}; merge those of one at a time.")
    of = splits[0][1]
    numbers = [int(match[2]) for match in names if match]
    missing = sorted(set(range(1, of + 1)) - set(numbers))
    if missing:
        shown = ", ".join(map(str, missing[:10])) + (" …" if len(missing) > 10 else "")
        raise UsageError(f"{len(missing)} of {of} shards missing: {shown}")
    twice = sorted({number for number in numbers if numbers.count(number) > 1})
    if twice:
        raise UsageError(f"shard {twice[0]} of {of} is named more than once")
