"""`shard PLAN --of N`: a plan split into N plans, for a job array."""

from __future__ import annotations

import os
from typing import Any

from gymbuild.commands.base import GymbuildCommand, usage_error
from gymbuild.commands.options import option
from gymbuild.commands.plan_files import named_plan, write_plan, written_text
from gymbuild.config.session import Session


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
        option("of", 0, "how many shards"),
        option(
            "by",
            "count",
            "what is to be even",
            choices=[("count", "tasks"), ("bytes", "bytes of their rows")],
        ),
        option("keep", "", "folder of the earlier shards"),
        option("out", "", "where to; default: beside PLAN"),
    )

    def run(self, session: Session, words: list[str], options: Any) -> int:
        """Write the shards and print their names."""
        from gymbuild.plan.kept import KeptRows
        from gymbuild.plan.shards import split

        if len(words) != 1 or not options["of"]:
            raise usage_error(
                self, "name one plan file and how many shards, such as `shard plan.json --of 8`."
            )
        count, (word,) = options["of"], words
        plan = named_plan(word)
        earlier = [
            named_plan(os.path.join(options["keep"], shard_name(word, number, count)))
            for number in range(1, count + 1 if options["keep"] else 1)
        ]
        sizes: dict[str, int] = {}
        if options["by"] == "bytes":
            sizes = {row.task_id: row.size for row in KeptRows(session).scan(plan, dict(plan.tasks))}
        shards = split(plan, count, by=options["by"], sizes=sizes, earlier=earlier)
        folder = options["out"] or os.path.dirname(word)
        for number, shard in enumerate(shards, 1):
            path = os.path.join(folder, shard_name(word, number, count))
            write_plan(path, shard.to_bytes())
            size = sum(sizes[task_id] for task_id, _ in shard.tasks) if sizes else None
            print(written_text(path, shard, size))
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
