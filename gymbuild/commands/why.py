"""`why TASK`: what makes a task stale, in words, or that it is current and what was compared."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
import time
from collections.abc import Iterable, Iterator
from typing import Any

from gymbuild.commands.base import TaskCommand, usage_error
from gymbuild.config.session import Session
from gymbuild.config.step import Reason, State, group_of
from gymbuild.system.errors import UsageError
from gymbuild.tasks.decision import Decided, decide


class Why(TaskCommand):
    """Say why a task is stale, or that it is current."""

    name = "why"
    doc_purpose = "say what makes a task stale, or that it is current and what was compared"
    doc_usage = "TASK ..."

    def run(self, session: Session, words: list[str], options: Any) -> int:
        """Print the answer for each task; 0 whatever it is."""
        if not words:
            raise usage_error(self, "name a task, such as prepare:aime24.")
        decided = decide(session, words)
        for text in explanations(session, decided, words):
            _say(text)
        if decided.selection.others:
            groups = ", ".join(session.steps)
            raise UsageError(
                f"{decided.selection.others[0]}: `why` is about tasks of {groups}, such as prepare:aime24."
            )
        return 3 if decided.named_problems else 0


def explanations(session: Session, decided: Decided, words: Iterable[str]) -> Iterator[str]:
    """What is to be said of each task that was asked for, and of what is stale before it.

    Args:
        session: of the command.
        decided: what was decided of the words.
        words: names of tasks.
    """
    for task, problems in {**decided.named_problems, **decided.skipped}.items():
        yield f"{task} cannot be built:\n" + "\n".join(f"  {problem}" for problem in problems)
    asked = {word.partition(":")[0] for word in words}
    for task, state in {**decided.stale, **decided.current}.items():
        # what a task that was asked for is made from says something only where it is stale
        if state is not None and (not state.current or group_of(task) in asked):
            yield explanation(session, task, state)


def explanation(session: Session, task: str, state: State) -> str:
    """Why a task is stale, or what was compared."""
    step, name = session.step_of(task)
    if state.detail is None and state.after:
        return f"{task} is stale: {state.after[0]}, which it is made from, is stale"
    head = step.explain(name, state)
    return f"{head}\n{reasons_text(state.reasons, session.checkout.root)}".rstrip()


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


def _say(text: str) -> None:
    """Print lines; on a terminal those that are wider than it are broken between words."""
    if sys.stdout.isatty():
        width = max(shutil.get_terminal_size().columns, 20)
        wrap = textwrap.TextWrapper(
            width, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
        )
        text = "\n".join(wrap.fill(line) if len(line) > width else line for line in text.split("\n"))
    print(text)


def _when(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
