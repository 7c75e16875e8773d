"""`why TASK`: what makes a task stale, in words, or that it is current and what was compared."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
import time
from collections.abc import Iterable
from typing import Any

from gymbuild.commands.base import GymbuildCommand, usage_error
from gymbuild.preparation.staleness import Reason
from gymbuild.system.errors import UsageError
from gymbuild.tasks.session import Session


class Why(GymbuildCommand):
    """Say why a task is stale, or that it is current."""

    name = "why"
    doc_purpose = "say what makes a task stale, or that it is current and what was compared"
    doc_usage = "TASK ..."

    def run(self, session: Session, words: list[str], options: Any) -> int:
        """Print the answer for each task; 0 whatever it is."""
        if not words:
            raise usage_error(self, "name a task, such as prepare:aime24.")
        decided = session.decide(words)
        for task, problems in {**decided.named_problems, **decided.skipped}.items():
            print(f"{task} cannot be built:\n" + "\n".join(f"  {problem}" for problem in problems))
        for name, named in decided.selection.preparations.items():
            if (
                named
                and f"plan:{name}" in words
                and f"prepare:{name}" not in words
                and name in decided.current
            ):
                continue
            if name in decided.current or name in decided.stale:
                _say(preparation_text(session, decided, name))
        for name in decided.selection.plans:
            _say(plan_text(session, decided, name))
        if decided.selection.rest:
            raise UsageError(
                f"{decided.selection.rest[0]}: `why` knows tasks of prepare and plan, such as prepare:aime24."
            )
        return 3 if decided.named_problems else 0


def _say(text: str) -> None:
    """Print lines; on a terminal those that are wider than it are broken between words."""
    if sys.stdout.isatty():
        width = max(shutil.get_terminal_size().columns, 20)
        wrap = textwrap.TextWrapper(
            width, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
        )
        text = "\n".join(wrap.fill(line) if len(line) > width else line for line in text.split("\n"))
    print(text)


def preparation_text(session: Session, decided: Any, name: str) -> str:
    """Why a preparation is stale, or what was compared."""
    assessment = decided.stale.get(name) or decided.current[name]
    decision = assessment.decision
    action = decision.action
    if name in decided.current:
        if action is None:
            return f"prepare:{name} is current: its file is taken as it is"
        kinds: dict[str, int] = {}
        for item in action.inputs:
            kinds[item.kind] = kinds.get(item.kind, 0) + 1
        compared = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
        lines = [
            f"prepare:{name} is current",
            f"  compared {len(action.inputs)} inputs ({compared}) and {len(action.outputs)} output"
            f"{'s' if len(action.outputs) != 1 else ''}",
            f"  prepared {_when(action.made)}, action key {action.key}",
        ]
        return "\n".join(lines)
    verbs = {
        "run": "its script will run",
        "restore": "it will be restored from the store, without running its script",
        "judge": "its script will be asked whether the file is current",
        "current": "what it reads is stale",
    }
    head = f"prepare:{name} is stale: {verbs[decision.state]}"
    return f"{head}\n{reasons_text(decision.reasons, session.checkout.root)}".rstrip()


def plan_text(session: Session, decided: Any, name: str) -> str:
    """Why a plan is stale, or what was compared."""
    source = session.graph.aliases[name]
    if source in decided.stale:
        return f"plan:{name} is stale: prepare:{source}, which it is made from, is stale"
    plan = decided.plans[name]
    if plan.reasons:
        return f"plan:{name} is stale\n{reasons_text(plan.reasons, session.checkout.root)}"
    return f"plan:{name} is current\n  compared {', '.join(plan.facts)} and {plan.path}"


def reasons_text(reasons: Iterable[Reason], root: str | None = None) -> str:
    """Reasons, one a line, with the time of the change where a file tells it."""
    lines = []
    for reason in reasons:
        since = ""
        if root is not None and reason.path and reason.after is not None:
            try:
                since = f", since {_when(os.stat(os.path.join(root, reason.path)).st_mtime)}"
            except OSError:
                since = ""
        lines.append(f"  {reason}{since}")
    return "\n".join(lines)


def _when(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
