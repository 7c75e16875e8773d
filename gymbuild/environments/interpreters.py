"""Interpreters: finding the one that a request asks for, and what it is, remembered by its signature."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gymbuild.cache.database import database
from gymbuild.cache.digests import digest_json
from gymbuild.cache.witness import is_racy, signature
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

_VERSION_WORD = re.compile(r"(?:c?python)?@?(\d+(?:\.\d+){0,2})\Z", re.IGNORECASE)
_RELEASE = re.compile(r"\d+\.\d+\.\d+\Z")


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
    if near and os.path.isfile(path := checkout_interpreter(checkout)):
        with contextlib.suppress(NoInterpreterError):
            candidates.append(inspect(path, checkout))
    candidates.append(running_interpreter())
    for candidate in candidates:
        if request is None or _fits(candidate, request, checkout):
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
    return _interpreter(remembered(checkout, f"facts {path}", witness_paths(path), lambda: _ask(path)))


def remembered(checkout: Checkout, key: str, paths: Sequence[str], ask: Callable[[], Any]) -> Any:
    """What `ask` gives, as JSON; it is called again only when one of the files that decide it has changed.

    Args:
        checkout: whose `.cache/` remembers it.
        key: what is asked.
        paths: absolute; where the first is not there, nothing is remembered.
        ask: called without arguments.
    """
    at = now_ns()
    signatures = [signature(path) for path in paths]
    plain = [found and list(found) for found in signatures]
    record = database(checkout.cache).get("interpreter", key)
    if record is not None and record[0] == plain:
        return record[1]
    answer = ask()
    if None not in signatures[:1] and not any(found and is_racy(found, at) for found in signatures):
        _remember(checkout, key, [plain, answer])
    return answer


def _remember(checkout: Checkout, key: str, value: Any) -> None:
    # a cache that cannot be written costs time, nothing else
    with contextlib.suppress(OSError):
        database(checkout.cache).put([("interpreter", key, value)])


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


def _fits(interpreter: Interpreter, request: str, checkout: Checkout) -> bool | None:
    # remembered, since importing `packaging` takes longer than all else here
    version = interpreter.version
    found: bool | None = remembered(checkout, f"fits {version} {request}", (), lambda: fits(version, request))
    return found


def fits(version: str, request: str) -> bool | None:
    """Whether a Python version fits a request.

    Args:
        version: such as `3.11.7`.
        request: version specifiers as in requires-python (PEP 440), or a version word (`3.12`, `cpython3.12`).

    Returns:
        None when that cannot be told here (pre-releases, other implementations, `===`).
    """
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    word = _VERSION_WORD.match(request.strip())
    try:
        specifiers = SpecifierSet(f"=={word[1]}.*" if word else request)
    except InvalidSpecifier:
        return None
    if not len(specifiers) or "===" in request or not _RELEASE.match(version):
        return None
    return specifiers.contains(version)


def _search(request: str, checkout: Checkout) -> Interpreter:
    variables = [[name, os.environ.get(name)] for name in _SEARCH_VARIABLES]
    key = f"find {request} {digest_json(variables)}"
    path = database(checkout.cache).get("interpreter", key)
    if path is not None and os.path.isfile(path):
        with contextlib.suppress(NoInterpreterError):
            interpreter = inspect(path, checkout)
            if _fits(interpreter, request, checkout) is not False:
                return interpreter
    path = _find(request, checkout)
    interpreter = inspect(path, checkout)
    _remember(checkout, key, path)
    return interpreter


def _find(request: str, checkout: Checkout) -> str:
    from gymbuild.environments.uv import run_uv

    ended = run_uv(
        ["python", "find", "--no-project", "--system", "--no-progress", "--", request],
        cwd=checkout.root,
        variables={"PATH": search_path(os.environ.get("PATH", os.defpath))},
        errors="apart",
    )
    if ended.status:
        lines = ended.errors.decode("utf-8", "replace").strip().splitlines()
        said = lines[0].removeprefix("error: ") if lines else f"uv ended with {ended.status}"
        raise NoInterpreterError(f"no Python that fits {request!r} was found (uv: {said})")
    return os.fsdecode(ended.output).strip()


def _ask(path: str) -> dict[str, Any]:
    import json

    from gymbuild.environments import probe
    from gymbuild.environments.uv import plain_variables
    from gymbuild.system.processes import run

    try:
        ended = run(
            [path, probe.__file__], environment=plain_variables(), errors="apart", timeout=60, lifeline="none"
        )
        if ended.status:
            raise ValueError(f"it ended with {ended.status}")
        facts = json.loads(ended.output)
    except (OSError, ValueError) as error:
        raise NoInterpreterError(f"{path} does not run as a Python 3.9 or newer ({error})") from None
    assert isinstance(facts, dict)
    return facts


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
