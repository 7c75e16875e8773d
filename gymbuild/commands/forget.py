"""`forget [TASK …]`: doit's own; a forgotten preparation runs its script again, the store is not asked."""

from __future__ import annotations

from typing import Any

from doit.cmd_forget import Forget as DoitForget

from gymbuild.commands.base import open_session, reported
from gymbuild.config.step import group_of
from gymbuild.system.errors import UsageError
from gymbuild.tasks.index_writer import drop_index
from gymbuild.tasks.selection import select, unknown_text


class Forget(DoitForget):  # type: ignore[misc]
    """Forget that tasks were done."""

    name = "forget"

    def execute(self, params: Any, args: list[str]) -> Any:
        """doit's entry."""

        def body() -> Any:
            self.loader.setup(params)
            session = open_session()
            session.named = tuple(args)
            default = params.get("default_tasks") or self.loader.load_doit_config().get("default_tasks")
            words = list(args)
            if params.get("forget_all"):
                words = list(session.steps)
            elif not words and not params.get("forget_disable_default"):
                words = list(session.steps if default is None else default)
            chosen = select(session, words)
            if chosen.unknown:
                raise UsageError("\n".join(unknown_text(session, word) for word in chosen.unknown))
            result = super(Forget, self).execute(params, [_full_name(session, word) for word in args])
            groups = {word.partition(":")[0] for word in words}
            tasks = [task for task in chosen.tasks if group_of(task) in groups or "*" in "".join(words)]
            if params.get("forget_sub"):
                tasks = _with_sources(session, tasks)
            for group, step in session.steps.items():
                step.forget(task.partition(":")[2] for task in tasks if group_of(task) == group)
            drop_index(session.checkout.root)
            return result

        return reported(body)


def _with_sources(session: Any, tasks: list[str]) -> list[str]:
    """Tasks, and everything that they are made from."""
    found: dict[str, None] = {}

    def add(task: str) -> None:
        if task not in found:
            found[task] = None
            step, name = session.step_of(task)
            for source in step.sources(name):
                add(source)

    for task in tasks:
        add(task)
    return list(found)


def _full_name(session: Any, word: str) -> str:
    """A word with a benchmark's name replaced by its task's."""
    group, colon, name = word.partition(":")
    if not colon or group not in session.steps or "*" in word:
        return word
    return f"{group}:{session.steps[group].name_of(name) or name}"
