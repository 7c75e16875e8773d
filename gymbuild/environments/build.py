"""Building an environment's venv: once per key, whole or not at all."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Sequence
from typing import Any

from gymbuild.cache.digests import digest_bytes
from gymbuild.environments.environment import Environment
from gymbuild.environments.failure import build_failure
from gymbuild.environments.uv import plain_variables, run_uv
from gymbuild.system.errors import PreparationFailedError, PreparationMayPassError
from gymbuild.system.files import remove, write_atomically
from gymbuild.system.locks import lock_file
from gymbuild.system.paths import Checkout
from gymbuild.system.permissions import DENIED, sentence
from gymbuild.system.processes import run

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
        # beside the venvs, since several checkouts may share that folder; uv inherits the lock, so that a builder that
        # was killed holds it until the last of its processes is gone
        folder, name = os.path.split(venv)
        with lock_file(
            os.path.join(folder, ".locks", name),
            waiting=lambda holder: report(f"waiting for {holder}, which builds {env.title}"),
        ) as descriptors:
            if is_built(env, checkout, venv_dir=venv_dir) and _runs(python, env.version):
                return python
            report(f"building {env.title}")
            _remove(venv)
            _build(env, checkout, module, venv, offline, descriptors or ())
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


def _uv_commands(env: Environment, venv: str) -> list[tuple[list[str], dict[str, str]]]:
    """The runs of uv that build an environment, all in the checkout: arguments, and variables that each needs."""
    new = ["venv", "--no-project", "--no-progress", "--quiet", "--python", env.interpreter, venv]
    inside = ["--no-progress", "--python", os.path.join(venv, "bin", "python")]
    beside = ["--locked", "--no-progress", "--python", env.interpreter]
    variables = {}
    match env.kind:
        case "project":
            install = ["sync", "--project", os.path.dirname(env.script) or ".", *beside]
            variables = {"UV_PROJECT_ENVIRONMENT": venv}
        case "script":
            install = ["sync", "--script", env.script, "--active", *beside]
            variables = {"VIRTUAL_ENV": venv}
        case "requirements":
            assert env.lock is not None
            install = ["pip", "sync", "--require-hashes", "--allow-empty-requirements", *inside, env.lock]
        case "dependencies":
            install = ["pip", "install", *inside, *env.words]
        case "interpreter":
            return []
    return [(new, {}), (install, variables)]


def _build(
    env: Environment, checkout: Checkout, module: str, venv: str, offline: bool, descriptors: Sequence[int]
) -> None:
    for arguments, variables in _uv_commands(env, venv):
        if offline:
            variables["UV_OFFLINE"] = "1"
        ended = run_uv(arguments, cwd=checkout.root, variables=variables, keep_open=descriptors)
        if ended.status:
            with contextlib.suppress(OSError):
                _remove(venv)
            raise build_failure(env, module, ended, offline)


def _marker(venv: str) -> dict[str, Any] | None:
    try:
        with open(os.path.join(venv, MARKER), encoding="utf-8") as file:
            marker = json.load(file)
    except (OSError, ValueError):
        return None
    return marker if isinstance(marker, dict) else None


def _finish(env: Environment, venv: str) -> None:
    marker = {
        "key": env.key,
        "kind": env.kind,
        "title": env.title,
        "path": venv,
        "python": env.version,
        "interpreter": env.interpreter,
        "uv": _uv_version(),
        "installed": _distributions(venv),
    }
    write_atomically(os.path.join(venv, MARKER), json.dumps(marker, indent=1).encode())


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
    command = [python, "-I", "-S", "-c", "import platform; print(platform.python_version())"]
    try:
        ended = run(command, environment=plain_variables(), errors="nowhere", timeout=60, lifeline="none")
    except OSError:
        return False
    return ended.status == 0 and ended.output.decode("utf-8", "replace").strip() == version


def _remove(venv: str) -> None:
    # the marker goes first: whatever dies in between, what is left does not count as a finished venv
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        os.unlink(os.path.join(venv, MARKER))
    remove(venv)
