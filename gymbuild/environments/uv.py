"""Running uv: where it is, and with which environment variables."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal

from gymbuild.system.errors import UsageError
from gymbuild.system.processes import REPOSITORY_VARIABLES, Ended, run

_LEAKS = frozenset(
    {
        "CONDA_DEFAULT_ENV",
        "CONDA_PREFIX",
        "PYTHONEXECUTABLE",
        "PYTHONHOME",
        "PYTHONPATH",
        "PYTHONPLATLIBDIR",
        "PYTHONSTARTUP",
        "VIRTUAL_ENV",
        "__PYVENV_LAUNCHER__",
    }
)
"""Variables that would lead uv, or an interpreter, back into gymbuild's own environment."""

_CHANGES_CONTENT = frozenset(
    {
        "UV_BREAK_SYSTEM_PACKAGES",
        "UV_DEV",
        "UV_FROZEN",
        "UV_ISOLATED",
        "UV_LOCKED",
        "UV_NO_DEFAULT_GROUPS",
        "UV_NO_DEV",
        "UV_NO_EDITABLE",
        "UV_NO_GROUP",
        "UV_NO_INSTALL_LOCAL",
        "UV_NO_INSTALL_PROJECT",
        "UV_NO_INSTALL_WORKSPACE",
        "UV_NO_SYNC",
        "UV_PROJECT",
        "UV_PROJECT_ENVIRONMENT",
        "UV_PYTHON",
        "UV_SYSTEM_PYTHON",
        "UV_VENV_SEED",
        "UV_WORKING_DIR",
        "UV_WORKING_DIRECTORY",
    }
)
"""Variables that would make what is installed, or where, differ from what the key says."""


def uv_binary() -> str:
    """The path of uv: the one of the PyPI package, else the one on `PATH`.

    Raises:
        UsageError: there is none.
    """
    import shutil

    try:
        from uv import find_uv_bin

        return find_uv_bin()
    except (ImportError, FileNotFoundError):
        found = shutil.which("uv")
    if found is None:
        raise UsageError("uv is not installed, and environments are built with it; run `pip install uv`.")
    return found


def plain_variables() -> dict[str, str]:
    """The user's environment variables without what would lead into gymbuild's own environment or repository."""
    left_out = _LEAKS | REPOSITORY_VARIABLES
    return {name: value for name, value in os.environ.items() if name not in left_out}


def run_uv(
    arguments: Sequence[str],
    *,
    cwd: str,
    variables: Mapping[str, str] = MappingProxyType({}),
    errors: Literal["output", "apart"] = "output",
    keep_open: Sequence[int] = (),
) -> Ended:
    """Run uv to its end. The user's settings for it (indexes, cache, certificates, …) hold.

    Args:
        arguments: without `uv` itself.
        cwd: the folder to run in.
        variables: environment variables that come on top.
        errors: where its stderr goes, as in `processes.run`.
        keep_open: descriptors of the build's lock, so that nobody else gets it before the last process of this build
            is gone.

    Raises:
        UsageError: there is no uv.
        OSError: it could not be started.
    """
    environment = {name: value for name, value in plain_variables().items() if name not in _CHANGES_CONTENT}
    # Pythons are never downloaded behind a person's back, unless that person has set it up so
    environment.setdefault("UV_PYTHON_DOWNLOADS", "never")
    environment.setdefault("UV_COMPILE_BYTECODE", "1")
    environment |= {"NO_COLOR": "1", **variables}
    return run(
        [uv_binary(), *arguments], cwd=cwd, environment=environment, errors=errors, keep_open=keep_open
    )
