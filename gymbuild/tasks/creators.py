"""doit's task creators: they loop over the steps of the session. A checkout's dodo.py imports what is here."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

from gymbuild.config.session import Session
from gymbuild.config.step import Step, group_of
from gymbuild.system.errors import GymbuildError, PreparationFailedError
from gymbuild.tasks.doit_state import DigestChecker
from gymbuild.tasks.steps import current_session

DOIT_CONFIG: dict[str, Any] = {
    "default_tasks": ["plan"],
    "check_file_uptodate": DigestChecker,
    "continue": True,
    "verbosity": 2,
    "action_string_formatting": "both",
}


def tasks_of(group: str) -> Callable[[], Iterator[dict[str, Any]]]:
    """The task creator of a step, for a dodo.py: `task_count = tasks_of("count")`."""

    def creator() -> Iterator[dict[str, Any]]:
        session = current_session()
        step: Step = session.steps[group]
        yield {"basename": group, "name": None, "doc": step.doc}
        for name in _names(session, step):
            yield task_of(session, step, name)

    return creator


task_venv = tasks_of("venv")
task_prepare = tasks_of("prepare")
task_validate = tasks_of("validate")
task_plan = tasks_of("plan")


def _names(session: Session, step: Step) -> list[str]:
    """The names of a step's tasks: all, or, for the command that runs tasks, those that go to doit."""
    decided = session.decided
    if decided is None or decided.complete:
        return list(step.names())
    chosen = [task for task in decided.tasks() if group_of(task) == step.group]
    for task, state in decided.stale.items():
        other, name = session.step_of(task)
        chosen += [needed for needed in other.setup(name, state) if group_of(needed) == step.group]
    return [task.partition(":")[2] for task in dict.fromkeys(chosen)]


def task_of(session: Session, step: Step, name: str) -> dict[str, Any]:
    """A task, as doit takes it."""
    decided = session.decided
    partly = decided is not None and not decided.complete
    state = decided.stale.get(f"{step.group}:{name}") if decided is not None else None
    return {
        "name": name,
        "doc": step.title(name),
        "actions": [(run_task, [session, step.group, name])],
        "targets": list(step.targets(name)),
        "file_dep": list(step.files(name)),
        "task_dep": [task for task in step.sources(name) if not partly or task in decided.stale],
        "setup": list(step.setup(name, state)),
        "uptodate": [(is_current, [session, step.group, name])],
        "clean": [(clean_task, [session, step.group, name])],
        "verbosity": 2,
        "io": {"capture": False},
    }


# -- what the tasks do (module-level functions, so that doit can hand them to other processes) -------------------


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def run_task(session: Session, group: str, name: str) -> Any:
    """The action of a task."""
    from gymbuild.system.masking import mask
    from gymbuild.system.workers import end_with_parent
    from gymbuild.tasks.reporter import GymbuildTaskFailed

    end_with_parent()
    try:
        return {"state": session.steps[group].run(name, _say)}
    except PreparationFailedError as error:
        return GymbuildTaskFailed(mask(str(error)), error.stop_exit_code)
    except GymbuildError as error:
        return GymbuildTaskFailed(mask(str(error)), error.exit_code)


def is_current(session: Session, group: str, name: str) -> bool:
    """Whether nothing has to be done for a task; starts no process."""
    decided, task = session.decided, f"{group}:{name}"
    if decided is not None:
        if task in decided.current:
            return True
        if task in decided.stale and not decided.stale[task].after:
            return False
    if session.always:
        return False
    try:
        return bool(session.steps[group].assess(name).current)
    except GymbuildError:
        return False


def clean_task(session: Session, group: str, name: str, dryrun: bool) -> None:
    """The clean action of a task."""
    try:
        session.steps[group].clean(name, _say, dryrun)
    except GymbuildError as error:
        _say(f"error: {error}")
