"""What an environment is: its key, what decides it, and what it takes to build it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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

    @property
    def name(self) -> str:
        """What follows `venv:` in the name of its task."""
        return f"{self.kind}-{self.key[:10]}"
