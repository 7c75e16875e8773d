"""`rows BENCHMARK [ID …]`: tasks as a run would receive them, messages rendered and other fields folded."""

from __future__ import annotations

import difflib
import json
import os
import sys
from collections.abc import Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from gymbuild.commands.base import GymbuildCommand, usage_error
from gymbuild.commands.options import option
from gymbuild.commands.plan_files import named_plan
from gymbuild.config.session import Session
from gymbuild.system.errors import GymbuildError, PlanError, SelectionError, UsageError
from gymbuild.system.text import LONGEST_ID, clipped, quoted, safe

if TYPE_CHECKING:
    from gymbuild.plan.show import ReceivedRow

_SHOWN = 3
"""How many tasks are shown when neither ids nor a limit is given."""


class Rows(GymbuildCommand):
    """Show tasks as a run would receive them."""

    name = "rows"
    doc_purpose = "show tasks as a run would receive them, the prompt filled"
    doc_usage = "BENCHMARK | PLAN [ID ...] [--json] [--limit N]"
    doc_description = (
        "For a benchmark, the rows of its prepared file as it is, with the prompt template as it is. For a plan "
        "file, the very rows that its digests are of: in the prepared file, or in the store.\n\nWithout an ID the "
        "first tasks are shown. An ID that has = in it is given as --id=ID."
    )
    cmd_options = (
        option("json", False, "print a JSON list"),
        option("limit", -1, "show so many tasks; 0 for all. Default: 3, or all with --json"),
        option("ids", [], "a task id, may be repeated", long="id"),
    )

    def run(self, session: Session, words: list[str], options: Any) -> int:
        """Print the tasks."""
        if not words:
            raise usage_error(self, "name a benchmark or a plan file, such as `rows aime24`.")
        ids = [*words[1:], *options["ids"]]
        limit = options["limit"]
        if limit < 0:
            limit = 0 if options["json"] or ids else _SHOWN
        if words[0] == "-" or (os.path.exists(words[0]) and not os.path.isdir(words[0])):
            found, total = _of_plan(session, words[0], ids)
        else:
            found, total = _of_benchmark(session, words[0], ids), None
        # the first row comes before anything is printed: what is wrong is said without half an answer
        shown = islice(found, limit) if limit else found
        if options["json"]:
            _print_json(shown)
            return 0
        count = _print_text(shown)
        if limit and (total - count if total is not None else next(found, None)):
            more = f"{total - count:,} more" if total is not None else "there are more"
            print(f"\n{more}; `--limit 0` shows all, and an id shows that task")
        return 0


def _of_benchmark(session: Session, word: str, ids: list[str]) -> Iterator[ReceivedRow]:
    """The tasks of a benchmark's prepared file, in its order; named ones in the order of their names."""
    from gymbuild.plan.prompts import load_prompt
    from gymbuild.plan.show import received_rows
    from gymbuild.tasks.selection import nearest

    graph = session.graph
    name = word.removeprefix("plan:")
    if name in graph.problems:
        raise graph.problems[name]
    benchmark = graph.benchmarks.get(name)
    if benchmark is None:
        near = nearest(session, f"plan:{name}")
        hint = f" The nearest are {', '.join(task.removeprefix('plan:') for task in near)}." if near else ""
        raise UsageError(f"{word}: there is no such benchmark, and no such plan file.{hint}")
    dataset = benchmark.dataset
    jsonl = session.checkout.absolute(dataset.jsonl_fpath)
    if not os.path.isfile(jsonl):
        raise UsageError(f"{dataset.jsonl_fpath} is not there yet; `doit prepare:{name}` makes it.")
    if _is_stale(session, name):
        print(
            f"note: prepare:{name} is stale; these are the rows as they were prepared last", file=sys.stderr
        )
    prompt = load_prompt(session.checkout.absolute(dataset.prompt_config)) if dataset.prompt_config else None
    rows = received_rows(
        jsonl, prompt=prompt, ids=session.settings.plan_ids, wanted=frozenset(ids) if ids else None
    )
    return _in_order(rows, ids, f"{name} has no task") if ids else rows


def _of_plan(session: Session, path: str, ids: list[str]) -> tuple[Iterator[ReceivedRow], int]:
    """The tasks of a plan file whose rows are to be found, and how many it has or are named."""
    from gymbuild.plan.kept import KeptRows

    plan = named_plan(path)
    path = "standard input" if path == "-" else path
    digests = dict(plan.tasks)
    for task_id in ids:
        if task_id not in digests:
            raise SelectionError(
                f"{path}: {plan.benchmark} has no task {quoted(task_id)}{_nearest(task_id, digests)}"
            )
    wanted = {task_id: digests[task_id] for task_id in ids} if ids else digests
    rows = KeptRows(session).scan(plan, wanted)
    missing = (
        f"{path}: these rows are neither in the prepared file nor in the store any more, so only their digests are "
        "known:"
    )
    return (_in_order(rows, ids, missing) if ids else _some(rows, missing, wanted)), len(wanted)


def _some(rows: Iterator[ReceivedRow], text: str, wanted: dict[str, str]) -> Iterator[ReceivedRow]:
    """The rows as they come; an error when there is none at all."""
    first = next(rows, None)
    if first is not None:
        return chain((first,), rows)
    if wanted:
        raise PlanError(f"{text} all {len(wanted):,}")
    return rows


def _in_order(rows: Iterator[ReceivedRow], ids: list[str], text: str) -> Iterator[ReceivedRow]:
    """The named rows in the order of their names; an error when one is not there."""
    found = {row.task_id: row for row in rows}
    absent = [task_id for task_id in dict.fromkeys(ids) if task_id not in found]
    if absent:
        raise SelectionError(
            f"{text} {', '.join(map(quoted, absent[:10]))}{' …' if len(absent) > 10 else ''}"
        )
    return iter([found[task_id] for task_id in dict.fromkeys(ids)])


def _nearest(task_id: str, there: dict[str, str]) -> str:
    short = (other for other in islice(there, 10_000) if len(other) <= LONGEST_ID)
    near = difflib.get_close_matches(clipped(task_id), short, n=3, cutoff=0.5)
    return f"; the nearest are {', '.join(map(quoted, near))}" if near else ""


def _is_stale(session: Session, name: str) -> bool:
    from gymbuild.tasks.decision import decide

    try:
        return bool(decide(session, [f"prepare:{name}"]).stale)
    except GymbuildError:
        return False


def _print_json(rows: Iterator[ReceivedRow]) -> None:
    from gymbuild.plan.rows import any_size
    from gymbuild.plan.show import row_to_json

    separator = "[\n"
    for row in rows:
        text = any_size(lambda row=row: json.dumps(row_to_json(row), indent=2, ensure_ascii=False))
        sys.stdout.write(separator + text)
        separator = ",\n"
    sys.stdout.write("[]\n" if separator == "[\n" else "\n]\n")


def _print_text(rows: Iterator[ReceivedRow]) -> int:
    from gymbuild.plan.show import render_row

    count = 0
    for row in rows:
        print(("\n\n" if count else "") + safe(render_row(row)))
        count += 1
    return count
