"""Interpreters: finding the one that a request asks for, and what it is, remembered by its signature."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
from dataclasses import dataclass
from typing import Any

from gymbuild.cache.database import Database, database
from gymbuild.cache.digests import digest_bytes, digest_json
from gymbuild.cache.witness import is_racy, signature
from gymbuild.environments.python_versions import fits
from gymbuild.system.clock import now_ns
from gymbuild.system.errors import UsageError
from gymbuild.system.paths import Checkout

_SEARCH_VARIABLES = (
    "PATH",
    "PYENV_ROOT",
    "HOME",
    "UV_PYTHON_DOWNLOADS",
    "UV_PYTHON_INSTALL_DIR",
    "UV_PYTHON_PREFERENCE",
    "UV_MANAGED_PYTHON",
    "UV_NO_MANAGED_PYTHON",
)
"""Environment variables that decide what a search finds."""


_OF_THIS_PLACE = ("..", "/", "__editable__", "_editable_impl_")
"""What a RECORD says of launchers and editable installs: it holds where they are."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """One Python, and what decides which packages fit it."""

    path: str
    """Absolute; what is run."""
    implementation: str
    version: str
    abi: str
    platform: str
    machine: str
    sites: tuple[str, ...]
    """The folders that packages are installed in (they need not exist)."""

    def identity(self) -> list[str]:
        """What of it belongs into an environment's key: nothing of where it is."""
        return [self.implementation, self.version, self.abi, self.platform, self.machine]


class NoInterpreterError(Exception):
    """There is no Python here that fits a request."""


def fitting_interpreter(request: str | None, checkout: Checkout, *, near: bool = False) -> Interpreter:
    """The interpreter for a request.

    Tried in this order, so that most answers need no search: the checkout's own `.venv` (with `near`), the
    Python that gymbuild runs on, then what `uv python find` finds.

    Args:
        request: version specifiers, a version word, or a path (of an interpreter or of a venv, relative to
            the checkout); None for the default.
        checkout: whose `.venv` and whose `.cache/` are meant.
        near: whether the checkout's own `.venv` is taken when it fits.

    Raises:
        NoInterpreterError: nothing fits; the text says what was looked for.
    """
    if request is not None and _is_path(request, checkout):
        return _at(request, checkout)
    candidates = []
    if near:
        own = checkout_interpreter(checkout)
        if os.path.isfile(own):
            with contextlib.suppress(NoInterpreterError):
                candidates.append(inspect(own, checkout))
    candidates.append(running_interpreter())
    for candidate in candidates:
        if request is None or fits(candidate.version, request):
            return candidate
    assert request is not None
    return _search(request, checkout)


def checkout_interpreter(checkout: Checkout) -> str:
    """Where the Python of the checkout's own `.venv` is, if it has one."""
    return os.path.join(checkout.root, ".venv", "bin", "python")


@functools.cache
def running_interpreter() -> Interpreter:
    """The Python that gymbuild runs on."""
    from gymbuild.environments.probe import facts

    if not sys.executable:
        raise UsageError("gymbuild does not know which Python it runs on; set python=PATH.")
    return _interpreter(facts())


def inspect(path: str, checkout: Checkout) -> Interpreter:
    """What the interpreter at `path` is; it is started once for each state of its files.

    Raises:
        NoInterpreterError: it cannot be started.
    """
    at = now_ns()
    found = (signature(path), signature(_settings_file(path)))
    remembered = database(checkout.cache)
    known = remembered.get("interpreter", f"facts {path}")
    if known is not None and found[0] is not None and _signatures(known[0]) == found:
        return _interpreter(known[1])
    facts = _ask(path)
    if found[0] is not None and not any(item is not None and is_racy(item, at) for item in found):
        _remember(remembered, f"facts {path}", (found, facts))
    return _interpreter(facts)


def installed(interpreter: Interpreter, checkout: Checkout) -> list[list[str]]:
    """What is installed in an interpreter's own folders, without starting it.

    Returns:
        name and version of each distribution with the digest of what it installed: the hashes of its RECORD,
        without what differs from place to place (launchers, `.pth` files, the installer's own notes).
    """
    remembered = database(checkout.cache)
    everything: set[tuple[str, str]] = set()
    for site in interpreter.sites:
        at = now_ns()
        found = signature(site)
        if found is None:
            continue
        known = remembered.get("interpreter", f"installed {site}")
        if known is not None and tuple(known[0]) == found:
            everything.update((name, digest) for name, digest in known[1])
            continue
        distributions = _distributions(site)
        if not is_racy(found, at):
            _remember(remembered, f"installed {site}", (found, distributions))
        everything.update(distributions)
    return [list(item) for item in sorted(everything)]


def witness_paths(path: str) -> tuple[str, ...]:
    """The files that decide what an interpreter is."""
    return (path, _settings_file(path))


def search_path(path: str) -> str:
    """`PATH` for a search, with pyenv's shims replaced by the interpreters that they lead to.

    A shim answers only for the version that pyenv has switched on, and fails for all others; uv takes that
    for a broken interpreter and stops.
    """
    folders: list[str] = []
    for folder in path.split(os.pathsep):
        root, name = os.path.split(folder.rstrip("/"))
        versions = os.path.join(root, "versions")
        if name == "shims" and os.path.isdir(versions):
            names = sorted(os.listdir(versions), key=_version_order, reverse=True)
            folders.extend(os.path.join(versions, version, "bin") for version in names)
        else:
            folders.append(folder)
    return os.pathsep.join(folders)


def _version_order(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.findall(r"\d+|[^\d.]+", name)]


def _is_path(request: str, checkout: Checkout) -> bool:
    return os.sep in request or os.path.exists(os.path.join(checkout.root, request))


def _at(request: str, checkout: Checkout) -> Interpreter:
    path = checkout.absolute(os.path.expanduser(request))
    if os.path.isdir(path):
        path = os.path.join(path, "bin", "python")
    if not os.path.isfile(path):
        raise NoInterpreterError(f"there is no interpreter at {path}")
    return inspect(path, checkout)


def _search(request: str, checkout: Checkout) -> Interpreter:
    variables = [[name, os.environ.get(name)] for name in _SEARCH_VARIABLES]
    key = f"find {request} {digest_json(variables)}"
    remembered = database(checkout.cache)
    known = remembered.get("interpreter", key)
    if known is not None and os.path.isfile(known):
        with contextlib.suppress(NoInterpreterError):
            interpreter = inspect(known, checkout)
            if fits(interpreter.version, request) is not False:
                return interpreter
    path = _find(request, checkout)
    interpreter = inspect(path, checkout)
    _remember(remembered, key, path)
    return interpreter


def _find(request: str, checkout: Checkout) -> str:
    import subprocess

    from gymbuild.environments.uv import uv_binary, uv_variables

    variables = uv_variables()
    variables["PATH"] = search_path(variables.get("PATH", os.defpath))
    answer = subprocess.run(
        [uv_binary(), "python", "find", "--no-project", "--system", "--no-progress", "--", request],
        cwd=checkout.root,
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if answer.returncode:
        lines = [line for line in answer.stderr.strip().splitlines() if line.strip()]
        said = lines[0].removeprefix("error: ") if lines else f"uv ended with {answer.returncode}"
        raise NoInterpreterError(f"no Python that fits {request!r} was found (uv: {said})")
    return answer.stdout.strip()


def _ask(path: str) -> dict[str, Any]:
    import json
    import subprocess

    from gymbuild.environments import probe
    from gymbuild.environments.uv import plain_variables

    try:
        answer = subprocess.run(
            [path, probe.__file__],
            env=plain_variables(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=60,
            check=True,
        )
        facts = json.loads(answer.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise NoInterpreterError(f"{path} does not run as a Python 3.9 or newer ({error})") from None
    assert isinstance(facts, dict)
    return facts


def _signatures(plain: Any) -> tuple[Any, ...]:
    """Signatures as the database gives them back, as tuples."""
    return tuple(None if item is None else tuple(item) for item in plain)


def search_variables(path: str, checkout: Checkout) -> tuple[str, ...]:
    """The environment variables that an interpreter was found by; none for one that is taken without a search.

    Args:
        path: the interpreter's.
        checkout: whose own `.venv` is taken without a search.
    """
    return () if path in (checkout_interpreter(checkout), running_interpreter().path) else _SEARCH_VARIABLES


def _interpreter(facts: dict[str, Any]) -> Interpreter:
    return Interpreter(**{**facts, "sites": tuple(facts["sites"])})


def _settings_file(path: str) -> str:
    return os.path.join(os.path.dirname(os.path.dirname(path)), "pyvenv.cfg")


def _distributions(site: str) -> list[tuple[str, str]]:
    with contextlib.suppress(OSError):
        return sorted(
            # installers differ in how they write a name
            (re.sub(r"[-_.]+", "-", name.rsplit(".", 1)[0]).lower(), _record_digest(os.path.join(site, name)))
            for name in os.listdir(site)
            if name.endswith((".dist-info", ".egg-info"))
        )
    return []


def _record_digest(folder: str) -> str:
    import csv

    own = os.path.basename(folder) + "/"
    lines = []
    with (
        contextlib.suppress(OSError, csv.Error, UnicodeDecodeError),
        open(os.path.join(folder, "RECORD"), encoding="utf-8", newline="") as file,
    ):
        for row in csv.reader(file):
            if len(row) < 2 or not row[1] or row[0].startswith(_OF_THIS_PLACE) or row[0].startswith(own):
                continue
            if not row[0].endswith((".pth", ".pyc")):
                lines.append(f"{row[0]} {row[1]}")
    return digest_bytes("\n".join(sorted(lines)).encode())


def _remember(remembered: Database, key: str, value: Any) -> None:
    # a cache that cannot be written costs time, nothing else
    with contextlib.suppress(OSError):
        remembered.put([("interpreter", key, value)])
