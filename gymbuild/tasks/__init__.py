"""The task graph: what of it is stale, and its tasks for doit. A checkout's dodo.py imports what is here."""

from __future__ import annotations

_PLACES = {
    "DOIT_CONFIG": "creators",
    "task_plan": "creators",
    "task_prepare": "creators",
    "task_validate": "creators",
    "task_venv": "creators",
    "tasks_of": "creators",
    "add_step": "steps",
}


def __getattr__(name: str) -> object:
    # lazy on purpose: a start that finds nothing to do must not import doit
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
