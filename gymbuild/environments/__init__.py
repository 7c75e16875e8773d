"""The isolated environments that prepare scripts run in: which one, its key, and building it through uv."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gymbuild.environments.build import build_environment, is_built, venv_python
    from gymbuild.environments.choice import environment_for, environment_paths, environment_variables
    from gymbuild.environments.environment import Environment, Kind

__all__ = [
    "Environment",
    "Kind",
    "build_environment",
    "environment_for",
    "environment_paths",
    "environment_variables",
    "is_built",
    "venv_python",
]

_MODULES = {
    "Environment": "environment",
    "Kind": "environment",
    "build_environment": "build",
    "environment_for": "choice",
    "environment_paths": "choice",
    "environment_variables": "choice",
    "is_built": "build",
    "venv_python": "build",
}


def __getattr__(name: str) -> Any:
    # lazy on purpose: choosing an environment imports nothing that starts processes
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
