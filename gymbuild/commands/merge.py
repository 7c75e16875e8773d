"""`merge SHARD…`: the plan that was split, the same to the byte."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from typing import Any

from gymbuild.commands.base import GymbuildCommand, usage_error
from gymbuild.commands.options import option
from gymbuild.commands.plan_files import named_plan, write_plan, written_text
from gymbuild.config.session import Session
from gymbuild.system.errors import PlanError, UsageError

_SHARD = re.compile(r"(.+)\.shard-(\d+)-of-(\d+)\.json")


class Merge(GymbuildCommand):
    """Put shards together again."""

    name = "merge"
    doc_purpose = "put the shards of a plan together again"
    doc_usage = "SHARD ... [--output FILE]"
    doc_description = "Prints the plan, or writes it to FILE. That a shard is missing is told by the names that `shard` gave."
    cmd_options = (option("output", "", "where to; default: standard output", short="o"),)

    def run(self, session: Session, words: list[str], options: Any) -> int:
        """Print or write the plan."""
        from gymbuild.plan.shards import merge

        if not words:
            raise usage_error(self, "name the shards, such as `merge plan.shard-*.json`.")
        check_names(words)
        try:
            plan = merge([named_plan(word) for word in words])
        except PlanError as error:
            raise UsageError(str(error)) from None
        output = options["output"]
        if output:
            write_plan(output, plan.to_bytes())
            print(written_text(output, plan))
        else:
            for chunk in plan.chunks():
                sys.stdout.buffer.write(chunk)
            sys.stdout.flush()
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
