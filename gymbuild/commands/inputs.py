"""`inputs TASK`: every input of a task, with its kind and whether it is as it was."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from gymbuild.commands.base import TaskCommand, usage_error
from gymbuild.config.session import Session
from gymbuild.config.step import InputState, group_of
from gymbuild.system.errors import UsageError
from gymbuild.tasks.decision import decide


class Inputs(TaskCommand):
    """List the inputs of tasks."""

    name = "inputs"
    doc_purpose = "list all inputs of a task with their kinds"
    doc_usage = "TASK ..."
    cmd_options = (
        {"name": "json", "long": "json", "type": bool, "default": False, "help": "print a JSON list"},
    )

    def run(self, session: Session, words: list[str], options: Any) -> int:
        """Print the inputs of each selected task."""
        if not words:
            raise usage_error(self, "name a task, such as prepare:aime24.")
        decided = decide(session, words)
        if decided.selection.others:
            raise UsageError(f"{decided.selection.others[0]}: there is no such task of gymbuild's.")
        for task, problems in {**decided.named_problems, **decided.skipped}.items():
            print(f"{task} cannot be built:\n" + "\n".join(f"  {problem}" for problem in problems))
        asked = {group_of(word) for word in words}
        listed: dict[str, list[InputState]] = {}
        for task, state in {**decided.stale, **decided.current}.items():
            assert state is not None  # nothing was taken to be current by `stat` alone
            if group_of(task) in asked:
                step, name = session.step_of(task)
                if state.detail is None:
                    state = step.assess(name)
                listed[task] = step.inputs(name, state)
        if options["json"]:
            rows = [
                {"task": task, **dataclasses.asdict(row)} for task, found in listed.items() for row in found
            ]
            print(json.dumps(rows, indent=2, ensure_ascii=False))
            return 3 if decided.named_problems else 0
        width = max((len(row.kind) for rows in listed.values() for row in rows), default=0)
        for task, found in listed.items():
            print(task)
            if found and all(row.state == "new" for row in found):
                print("  it was never made here: what it uses beyond these is seen when it runs")
            for row in found:
                digest = "not there" if row.digest is None else row.digest[:12]
                note = "" if row.state == "same" else f"  ({row.state})"
                print(f"  {row.kind:<{width}}  {digest:<12}  {row.name}{note}")
        return 3 if decided.named_problems else 0
