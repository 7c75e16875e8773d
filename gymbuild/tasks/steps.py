"""The steps that there are, and the session of a command that has them.

A new kind of task is one line here, or `add_step` in a checkout's dodo.py.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module

from gymbuild.config.session import Session
from gymbuild.config.step import Step

STEPS = (
    "gymbuild.environments.step:VenvStep",
    "gymbuild.preparation.step:PrepareStep",
    "gymbuild.plan.validator:Validator",
    "gymbuild.plan.planner:Planner",
)
"""`module:class`, each after those whose products it is made from."""

_added: dict[str, type[Step]] = {}
_current: Session | None = None


def step_types() -> tuple[type[Step], ...]:
    """Every step: gymbuild's own, and those that a dodo.py has added."""
    found: dict[str, type[Step]] = {}
    for place in STEPS:
        module, _, name = place.partition(":")
        step: type[Step] = getattr(import_module(module), name)
        found[step.group] = step
    return tuple({**found, **_added}.values())


def add_step(step: type[Step]) -> type[Step]:
    """Add a step of a checkout's own: call it in dodo.py, and name its task creator there (`tasks_of`).

    Args:
        step: its group must not be that of another step.

    Returns:
        the same, so that this can be a decorator.
    """
    _added[step.group] = step
    return step


def new_session(root: str, words: Sequence[str] = (), *, parallel: bool = False) -> Session:
    """A session with every step.

    Args:
        root: the checkout.
        words: the command line's `name=value` words.
        parallel: whether several tasks run at once.

    Raises:
        UsageError: a setting that cannot be used.
    """
    return Session(root, words, step_types(), parallel=parallel)


def current_session() -> Session:
    """The session of this command: the one that a command of ours set, or one made from doit's command line."""
    global _current
    if _current is None or _current.checkout.root != os.path.realpath(os.getcwd()):
        from gymbuild.system.errors import GymbuildError

        try:
            words = [word for word in sys.argv[1:] if "=" in word and not word.startswith("-")]
            _current = new_session(os.getcwd(), words)
            _current.named = tuple(word for word in sys.argv[1:] if ":" in word and "=" not in word)
        except GymbuildError as error:
            from doit.exceptions import InvalidCommand

            raise InvalidCommand(str(error)) from None
    return _current


def use_session(session: Session | None) -> None:
    """Have the task creators make the tasks of this session.

    Args:
        session: made by the command that runs; None to make one from doit's command line.
    """
    global _current
    _current = session
