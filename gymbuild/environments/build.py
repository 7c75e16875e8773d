"""Building an environment's venv: once per key, whole or not at all."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

from gymbuild.cache.digests import digest_bytes
from gymbuild.environments.environment import Environment
from gymbuild.environments.failure import build_failure
from gymbuild.environments.uv import plain_variables, run_uv, uv_variables
from gymbuild.system.errors import PreparationFailedError, PreparationMayPassError
from gymbuild.system.paths import Checkout
from gymbuild.system.permissions import DENIED, sentence

MARKER = "gymbuild.json"
"""Written last into a venv: one without it was never finished."""


def venv_path(env: Environment, checkout: Checkout, venv_dir: str | None = None) -> str:
    """The folder of an environment's venv.

    Args:
        env: one that is built.
        checkout: whose `.cache/venvs` is the default.
        venv_dir: the setting `uv_venv_dir`, relative to the checkout.
    """
    name = env.key
    if env.editable:
        # an editable install leads into this very checkout, so another one must not share it
        name += "-" + digest_bytes(os.fsencode(checkout.root))[:12]
    return os.path.join(checkout.absolute(venv_dir) if venv_dir else checkout.cached("venvs"), name)


def venv_python(env: Environment, checkout: Checkout, venv_dir: str | None = None) -> str:
    """The Python that runs an environment's scripts, built or not."""
    return env.python or os.path.join(venv_path(env, checkout, venv_dir), "bin", "python")


def is_built(env: Environment, checkout: Checkout, *, venv_dir: str | None = None) -> bool:
    """Whether the environment is there and whole, as far as files tell; no process is started."""
    if env.python is not None:
        return os.path.exists(env.python)
    venv = venv_path(env, checkout, venv_dir)
    marker = _marker(venv)
    return (
        marker is not None
        and marker.get("key") == env.key
        # launchers and editable installs hold the absolute path: a venv that was moved is none
        and marker.get("path") == venv
        and marker.get("installed") == _distributions(venv)
        and os.path.exists(os.path.join(venv, "bin", "python"))
    )


def build_environment(
    env: Environment,
    checkout: Checkout,
    *,
    module: str,
    venv_dir: str | None = None,
    offline: bool = False,
    report: Callable[[str], None] = lambda line: None,
) -> str:
    """Build the environment unless it is there and works. Of several builders at once, one builds.

    Args:
        env: from `environment_for`.
        checkout: where its files are.
        module: the dotted path of the script that needs it, for errors.
        venv_dir: the setting `uv_venv_dir`.
        offline: the network must not be used.
        report: told what is being built, and whom it waits for.

    Returns:
        the absolute path of the Python to run.

    Raises:
        PreparationFailedError: it cannot be built.
        PreparationMayPassError: it could not be built for a reason that may pass: no network, no room on the
            disk, uv killed from outside.
    """
    if env.python is not None:
        if not _runs(env.python, env.version):
            raise PreparationFailedError(
                module, "environment", f"{env.python} is no longer a Python {env.version} that runs."
            )
        return env.python
    venv = venv_path(env, checkout, venv_dir)
    python = os.path.join(venv, "bin", "python")
    if is_built(env, checkout, venv_dir=venv_dir) and _runs(python, env.version):
        return python
    try:
        with _held(
            venv, lambda holder: report(f"waiting for {holder}, which builds {env.title}")
        ) as descriptors:
            if is_built(env, checkout, venv_dir=venv_dir) and _runs(python, env.version):
                return python
            report(f"building {env.title}")
            _throw_away(venv)
            _build(env, checkout, module, venv, offline, descriptors)
            if not _runs(python, env.version):
                raise PreparationFailedError(
                    module,
                    "environment",
                    f"the Python of {env.title} was built from {env.interpreter}, but does not run.",
                )
            _finish(env, venv)
    except OSError as error:
        kind = PreparationFailedError if error.errno in DENIED else PreparationMayPassError
        raise kind(
            module, "environment", f"{env.title} cannot be built in {venv}: {sentence(error)}."
        ) from error
    return python


def uv_commands(env: Environment, venv: str) -> list[tuple[list[str], dict[str, str]]]:
    """The runs of uv that build an environment: arguments and the variables that each needs besides.

    All of them run in the checkout.
    """
    python = os.path.join(venv, "bin", "python")
    make: tuple[list[str], dict[str, str]] = (
        ["venv", "--no-project", "--no-progress", "--quiet", "--python", env.interpreter, venv],
        {},
    )
    folder = os.path.dirname(env.script) or "."
    match env.kind:
        case "project":
            return [
                make,
                (
                    ["sync", "--locked", "--no-progress", "--project", folder, "--python", env.interpreter],
                    {"UV_PROJECT_ENVIRONMENT": venv},
                ),
            ]
        case "requirements":
            assert env.lock is not None
            return [
                make,
                (
                    [
                        "pip",
                        "sync",
                        "--require-hashes",
                        "--allow-empty-requirements",
                        "--no-progress",
                        "--python",
                        python,
                        env.lock,
                    ],
                    {},
                ),
            ]
        case "script":
            return [
                make,
                (
                    [
                        "sync",
                        "--script",
                        env.script,
                        "--locked",
                        "--active",
                        "--no-progress",
                        "--python",
                        env.interpreter,
                    ],
                    {"VIRTUAL_ENV": venv},
                ),
            ]
        case "dependencies":
            return [make, (["pip", "install", "--no-progress", "--python", python, *env.words], {})]
        case "interpreter":
            return []


def _build(
    env: Environment, checkout: Checkout, module: str, venv: str, offline: bool, descriptors: list[int]
) -> None:
    for arguments, extra in uv_commands(env, venv):
        variables = {**uv_variables(), **extra}
        if offline:
            variables["UV_OFFLINE"] = "1"
        ended = run_uv(arguments, cwd=checkout.root, variables=variables, keep_open=descriptors)
        if ended.code:
            with contextlib.suppress(OSError):
                _throw_away(venv)
            raise build_failure(env, module, ended, offline)


def _marker(venv: str) -> dict[str, Any] | None:
    try:
        with open(os.path.join(venv, MARKER), encoding="utf-8") as file:
            marker = json.load(file)
    except (OSError, ValueError):
        return None
    return marker if isinstance(marker, dict) else None


def _finish(env: Environment, venv: str) -> None:
    temporary = os.path.join(venv, MARKER + ".new")
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(
            {
                "key": env.key,
                "kind": env.kind,
                "title": env.title,
                "path": venv,
                "python": env.version,
                "interpreter": env.interpreter,
                "uv": _uv_version(),
                "installed": _distributions(venv),
            },
            file,
            indent=1,
        )
    os.replace(temporary, os.path.join(venv, MARKER))


def _uv_version() -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("uv")
    except PackageNotFoundError:
        return None


def _distributions(venv: str) -> list[str]:
    """Names and versions of what a venv has installed: what a person adds or takes by hand is noticed."""
    found: list[str] = []
    with contextlib.suppress(OSError):
        library = os.path.join(venv, "lib")
        for folder in sorted(os.listdir(library)):
            with contextlib.suppress(OSError):
                names = os.listdir(os.path.join(library, folder, "site-packages"))
                found.extend(sorted(name for name in names if name.endswith(".dist-info")))
    return found


def _runs(python: str, version: str) -> bool:
    try:
        answer = subprocess.run(
            [python, "-I", "-S", "-c", "import platform; print(platform.python_version())"],
            env=plain_variables(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return answer.returncode == 0 and answer.stdout.strip() == version


def _throw_away(venv: str) -> None:
    # the marker goes first: whatever dies in between, what is left is not taken for a finished venv
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        os.unlink(os.path.join(venv, MARKER))
    if os.path.islink(venv) or os.path.isfile(venv):
        os.unlink(venv)
    elif os.path.isdir(venv):
        shutil.rmtree(venv)


@contextlib.contextmanager
def _held(venv: str, waiting: Callable[[str], None]) -> Iterator[list[int]]:
    """Hold the lock of one venv. It lies beside the venvs, since several checkouts may share that folder.

    Yields:
        the lock's descriptor. Whoever inherits it keeps the lock: so a builder that was killed holds it
        until the last of its processes is gone. Empty where the file system has no locks.
    """
    folder, name = os.path.split(venv)
    path = os.path.join(folder, ".locks", name)
    while True:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.pread(descriptor, 100, 0).decode("ascii", "replace").strip()
                waiting(f"process {holder}" if holder.isdigit() else "another process")
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            except OSError as error:
                from gymbuild.system.locks import _NO_LOCKS, SoftLock

                if error.errno not in _NO_LOCKS:
                    raise
                soft = SoftLock(path + ".held")
                soft.take(waiting, True)
                try:
                    yield []
                finally:
                    soft.release()
                return
            if _is_still(path, descriptor):
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, str(os.getpid()).encode(), 0)
                yield [descriptor]
                return
        finally:
            os.close(descriptor)


def _is_still(path: str, descriptor: int) -> bool:
    # the folder of venvs may have been deleted while this process waited
    try:
        now = os.stat(path)
    except OSError:
        return False
    held = os.fstat(descriptor)
    return (now.st_dev, now.st_ino) == (held.st_dev, held.st_ino)
