"""What an environment is made of, whatever the Python."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gymbuild.environments.environment import Kind


@dataclass(frozen=True, slots=True)
class Recipe:
    """What an environment is made of, whatever the Python."""

    kind: Kind
    content: Any
    """JSON: everything that decides what is installed, nothing that does not."""
    title: str
    lock: str | None = None
    requires_python: str | None = None
    """As it is given by a person."""
    requires_file: str | None = None
    """The file that gives it."""
    locked_python: str | None = None
    """The requires-python that uv wrote into the lock, given or not."""
    inputs: tuple[str, ...] = ()
    editable: tuple[str, ...] = ()
    trees: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
