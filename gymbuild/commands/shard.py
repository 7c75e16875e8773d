"""`shard PLAN --of N`: a plan split into N plans, for a job array."""

from __future__ import annotations

import os
from typing import Any

from gymbuild.commands.base import GymbuildCommand, usage_error
from gymbuild.config.session import Session
from gymbuild.system.errors import PlanError, UsageError
from gymbuild.system.permissions import sentence
from gymbuild.system.text import visible


class Shard(GymbuildCommand):
    """Split a plan."""

    name = "shard"
    doc_purpose = "split a plan into N plans, for a job array"
    doc_usage = "PLAN --of N [--by count|bytes] [--keep DIR] [--out DIR]"
    doc_description = (
        "Writes PLAN.shard-1-of-N.json and so on; every task is in exactly one, and `merge` gives the plan back. "
        "By count, a task's shard is decided by its id alone (its SHA-256, first eight bytes, modulo N), so with the same N it stays where it is whatever other tasks come or go. "
        "By bytes, rows are dealt in the order of the prepared file, each to the shard that has the fewest bytes so "
        "far: shards are even, and a task stays where it is when rows are added at the end of the file. With --keep, "
        "tasks stay where the earlier shards in that folder have them, whatever changed."
    )
    cmd_options = (
        {"name": "of", "long": "of", "type": int, "default": 0, "help": "how many shards"},
        {
            "name": "by",
            "long": "by",
            "type": str,
            "default": "count",
            "choices": [("count", "tasks"), ("bytes", "bytes of their rows")],
            "help": "what is to be even",
        },
        {"name": "keep", "long": "keep", "type": str, "default": "", "help": "folder of the earlier shards"},
        {"name": "out", "long": "out", "type": str, "default": "", "help": "where to; default: beside PLAN"},
    )

    def run(self, session: Session, words: list[str], options: Any) -> int:
        """Write the shards and print their names."""
        from gymbuild.plan.diff import tasks_text
        from gymbuild.plan.kept import KeptRows
        from gymbuild.plan.plan import read_plan
        from gymbuild.plan.shards import split
        from gymbuild.system.files import write_atomically
        from gymbuild.system.text import size_text

        if len(words) != 1 or not options["of"]:
            raise usage_error(
                self, "name one plan file and how many shards, such as `shard plan.json --of 8`."
            )
        count = options["of"]
        try:
            plan = read_plan(words[0])
            earlier = [
                read_plan(os.path.join(options["keep"], shard_name(words[0], number, count)))
                for number in range(1, count + 1 if options["keep"] else 1)
            ]
        except PlanError as error:
            raise UsageError(str(error)) from None
        sizes: dict[str, int] = {}
        if options["by"] == "bytes":
            sizes = {row.task_id: row.size for row in KeptRows(session).scan(plan, dict(plan.tasks))}
        shards = split(plan, count, by=options["by"], sizes=sizes, earlier=earlier)
        folder = options["out"] or os.path.dirname(words[0])
        for number, shard in enumerate(shards, 1):
            path = os.path.join(folder, shard_name(words[0], number, count))
            try:
                write_atomically(os.path.abspath(path), shard.to_bytes())
            except OSError as error:
                raise PlanError(f"{path}: cannot be written: {sentence(error)}") from None
            total = sum(sizes[task_id] for task_id, _ in shard.tasks) if sizes else 0
            print(
                f"{visible(path)}  {tasks_text(len(shard.tasks))}"
                + (f", {size_text(total)}" if sizes else "")
            )
        return 0


def shard_name(plan: str, number: int, of: int) -> str:
    """The file name of a shard.

    Args:
        plan: the plan file that is split; `-` is standard input.
        number: from 1.
        of: how many shards there are; numbers are padded to its width, so that names sort as numbers do.
    """
    stem = "stdin" if plan == "-" else os.path.basename(plan).removesuffix(".json")
    return f"{stem}.shard-{number:0{len(str(of))}d}-of-{of}.json"
