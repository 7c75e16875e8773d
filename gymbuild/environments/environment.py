"""What an environment is: its key, what decides it, and what it takes to build it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["project", "requirements", "script", "dependencies", "interpreter"]


@dataclass(frozen=True, slots=True)
class Environment:
    """The isolated venv that a prepare script runs in, or the interpreter that it runs on.

    Scripts whose environments have the same key share one venv.
    """

    key: str
    """Over everything that decides what the environment holds; 32 hex digits."""
    kind: Kind
    """`project` (pyproject.toml and uv.lock), `requirements` (requirements.lock), `script` (inline metadata
    and its lock), `dependencies` (prepare_dependencies), or `interpreter` (nothing is built)."""
    lock: str | None
    """The lock file that decides it, relative to the checkout."""
    python: str | None
    """For `interpreter`: the absolute path of the Python to run."""
    request: str | None
    """What chose the interpreter: a requires-python, or the setting `python`; None for the default."""
    title: str
    """For people: what it is made of, and for which Python."""
    inputs: tuple[str, ...]
    """Files whose content is in the key, relative to the checkout when inside it. Only what matters of a
    pyproject.toml is in the key, so that a comment in it changes nothing."""
    editable: tuple[str, ...]
    """Folders of the checkout that it has installed editable: their sources are inputs of a preparation."""
    script: str
    """The prepare script that it was chosen for, relative to the checkout."""
    interpreter: str
    """Absolute path of the Python that it is built from (for `interpreter`: runs on)."""
    version: str
    """The full version of that Python, such as `3.12.4`."""
    words: tuple[str, ...] = ()
    """For `dependencies`: the words for `uv pip install`."""
    trees: tuple[str, ...] = ()
    """Folders whose files are in the key: path dependencies that are installed as a copy."""
    sites: tuple[str, ...] = ()
    """For `interpreter`: the folders that packages are installed in."""

    def to_plain(self) -> dict[str, Any]:
        """A dict of plain values (for marshal and JSON)."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Environment:
        """The environment that `to_plain` gave."""
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in plain.items()
        }
        return cls(**values)
