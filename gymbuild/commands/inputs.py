"""`inputs TASK`: every input of a preparation, with its kind and whether it is as it was."""

from __future__ import annotations

import json
from typing import Any

from gymbuild.commands.base import GymbuildCommand, usage_error
from gymbuild.tasks.session import Session


class Inputs(GymbuildCommand):
    """List the inputs of preparations."""

    name = "inputs"
    doc_purpose = "list all inputs of a preparation with their kinds"
    doc_usage = "TASK ..."
    cmd_options = (
        {"name": "json", "long": "json", "type": bool, "default": False, "help": "print a JSON list"},
    )

    def run(self, session: Session, words: list[str], options: Any) -> int:
        """Print the inputs of each selected preparation."""
        if not words:
            raise usage_error(self, "name a task, such as prepare:aime24.")
        decided = session.decide(words)
        listed = []
        for task, problems in {**decided.named_problems, **decided.skipped}.items():
            print(f"{task} cannot be built:\n" + "\n".join(f"  {problem}" for problem in problems))
        for name, assessment in {**decided.stale, **decided.current}.items():
            assert assessment is not None  # nothing was taken to be current by `stat` alone
            record = assessment.record
            then = (
                {(item.kind, item.name): item.state for item in record.inputs} if record is not None else {}
            )
            for item in [*assessment.static, *assessment.observed]:
                key = (item.kind, item.name)
                state = "new" if key not in then else "same" if then[key] == item.state else "changed"
                listed.append(
                    {
                        "task": f"prepare:{name}",
                        "kind": item.kind,
                        "name": item.name,
                        "digest": item.state,
                        "state": state,
                    }
                )
            if record is None and not options["json"]:
                print(f"prepare:{name} was never prepared here: what its script uses is not known yet")
        if options["json"]:
            print(json.dumps(listed, indent=2, ensure_ascii=False))
            return 3 if decided.named_problems else 0
        width = max((len(str(row["kind"])) for row in listed), default=0)
        shown = ""
        for row in listed:
            if row["task"] != shown:
                shown = str(row["task"])
                print(shown)
            digest = "not there" if row["digest"] is None else str(row["digest"])[:12]
            note = "" if row["state"] == "same" else f"  ({row['state']})"
            print(f"  {row['kind']:<{width}}  {digest:<12}  {row['name']}{note}")
        return 3 if decided.named_problems else 0
