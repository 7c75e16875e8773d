"""The task graph: what of it is stale, and its tasks for doit. A checkout's dodo.py imports what is here."""

from __future__ import annotations

__all__ = ["DOIT_CONFIG", "task_plan", "task_prepare", "task_validate", "task_venv"]


def __getattr__(name: str) -> object:
    # lazy on purpose: a start that finds nothing to do must not import doit
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from gymbuild.tasks import creators

    return getattr(creators, name)
