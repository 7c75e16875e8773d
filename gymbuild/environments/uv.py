"""Running uv: where it is, with which environment variables, and that it ends when gymbuild does."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gymbuild.system.errors import UsageError

_GRACE = 2.0
"""Seconds that uv gets to end politely."""

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


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run of uv ended."""

    code: int
    """Its exit code; above 128 when a signal ended it."""
    output: str
    """What it printed, both streams."""


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
    """The user's environment variables without what would lead into gymbuild's own environment."""
    return {name: value for name, value in os.environ.items() if name not in _LEAKS}


def uv_variables() -> dict[str, str]:
    """The environment variables for uv: the user's settings (indexes, cache, certificates, …) stay."""
    variables = {name: value for name, value in plain_variables().items() if name not in _CHANGES_CONTENT}
    # Pythons are never downloaded behind a person's back, unless that person has set it up so
    variables.setdefault("UV_PYTHON_DOWNLOADS", "never")
    variables.setdefault("UV_COMPILE_BYTECODE", "1")
    variables["NO_COLOR"] = "1"
    return variables


def run_uv(
    arguments: Sequence[str], *, cwd: str, variables: Mapping[str, str], keep_open: Sequence[int] = ()
) -> Ended:
    """Run uv to its end, in a process group of its own that dies with gymbuild.

    Between gymbuild and uv stands a guard (guard.py) that holds the reading end of a pipe; when gymbuild is
    gone, however it went, the pipe closes and the guard ends the whole group.

    Args:
        arguments: without `uv` itself.
        cwd: the folder to run in.
        variables: all of its environment.
        keep_open: file descriptors that stay open as long as the guard lives: the lock of the build, so
            that nobody takes over before the last process of this build is gone.

    Raises:
        OSError: it could not be started.
    """
    from gymbuild.environments import guard

    reading, writing = os.pipe()
    try:
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-I",
                    "-S",
                    guard.__file__,
                    str(reading),
                    str(os.getpid()),
                    uv_binary(),
                    *arguments,
                ],
                cwd=cwd,
                env=dict(variables),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=(reading, *keep_open),
                start_new_session=True,
            )
            try:
                code = process.wait()
            except BaseException:
                _end(process)
                raise
            finally:
                # what uv may have left behind in its group
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
            output.seek(0)
            text = output.read().decode("utf-8", "replace")
    finally:
        os.close(reading)
        os.close(writing)
    return Ended(128 - code if code < 0 else code, text)


def _end(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE)
            return
