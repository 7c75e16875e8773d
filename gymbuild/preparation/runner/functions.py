"""Observation of the functions of `os` that raise no audit event.

They are wrapped in objects, not functions: a function that is a class attribute (pathlib up to Python 3.10 has such)
would be bound and be given one argument too many.
"""

from __future__ import annotations

import os
import posix
import sys

from .audit import note_open
from .recorder import Recorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any

RUN_VARIABLE = "GYMBUILD_OBSERVED_RUN"
"""Names, in the environment of the script and its children, the run's folder."""
HOOK_FOLDER = "hook"
"""In that folder: the `sitecustomize` module that observes Python children."""

_EXISTENCE = frozenset(
    [
        "exists",
        "lexists",
        "isfile",
        "isdir",
        "islink",
        "ismount",
        "isjunction",
        "is_file",
        "is_dir",
        "is_symlink",
        "is_mount",
        "is_junction",
    ]
)
_RESOLVING = frozenset(("realpath", "_joinrealpath", "resolve", "_resolve"))


class _Wrapped:
    def __init__(self, recorder: Recorder, function: Any) -> None:
        self._recorder = recorder
        self._function = function
        self.__wrapped__ = function
        self.__name__ = function.__name__
        self.__qualname__ = function.__name__
        self.__module__ = "os"
        self.__doc__ = function.__doc__

    def __repr__(self) -> str:
        return repr(self._function)

    def __reduce__(self) -> tuple[Any, ...]:
        return (getattr, (os, self.__name__))


class _WrappedStat(_Wrapped):
    """`os.stat` and `os.lstat`."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            result = self._function(*args, **kwargs)
        except (FileNotFoundError, NotADirectoryError):
            self._asked(args, kwargs, False)
            raise
        self._asked(args, kwargs, True)
        return result

    def _asked(self, args: tuple[Any, ...], kwargs: dict[str, Any], found: bool) -> None:
        recorder = self._recorder
        path = args[0] if args else kwargs.get("path")
        if (
            type(path) is str
            and path[:1] == "/"
            and not path.startswith(recorder.prefix)
            and (recorder.other is None or not path.startswith(recorder.other))
            and "/.." not in path
        ):
            return
        recorder.observe(self._note, path, kwargs.get("dir_fd"), found)

    def _note(self, path: Any, dir_fd: Any, found: bool) -> None:
        recorder = self._recorder
        name = recorder.relative(path, dir_fd)
        if name is None or name == "." or (not found and ("m", name) in recorder.noted):
            return
        purpose = _purpose(sys._getframe(4))
        if purpose == "resolve":
            return  # os.path.realpath asks about each part of a path; links are observed in os.readlink
        if found:
            recorder.presence(name, purpose == "exists" or self.__name__ not in ("stat", "lstat"))
        else:
            recorder.missing(name)


def _purpose(frame: FrameType | None) -> str | None:
    """`exists` or `resolve` when the standard library asks on the script's behalf for that only."""
    for _ in range(3):
        if frame is None:
            break
        module = frame.f_globals.get("__name__", "")
        if module not in ("genericpath", "posixpath") and not module.startswith("pathlib"):
            break
        name = frame.f_code.co_name
        if name in _EXISTENCE:
            return "exists"
        if name in _RESOLVING:
            return "resolve"
        frame = frame.f_back
    return None


class _WrappedAnswer(_WrappedStat):
    """Functions that answer with True or False: `os.access`, and C versions of `os.path.exists` and its like."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        result = self._function(*args, **kwargs)
        found = bool(result)
        if not found:
            path: Any = args[0] if args else kwargs.get("path")
            if type(path) is int or kwargs.get("dir_fd") is not None:
                return result
            try:
                self._recorder.lstat(path)
                found = True
            except (OSError, ValueError, TypeError):
                pass
        self._asked(args, kwargs, found)
        return result


class _WrappedReadlink(_Wrapped):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        result = self._function(*args, **kwargs)
        self._recorder.observe(self._note, args[0] if args else kwargs.get("path"), kwargs.get("dir_fd"))
        return result

    def _note(self, path: Any, dir_fd: Any) -> None:
        name = self._recorder.relative(path, dir_fd)
        if name is not None:
            self._recorder.presence(name, True)


class _WrappedOpen(_Wrapped):
    """`os.open`: its audit event does not say which folder a relative path is relative to."""

    def __call__(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: Any = None) -> Any:
        if dir_fd is None:
            return self._function(path, flags, mode)
        recorder = self._recorder
        recorder.observe(self._note, path, flags, dir_fd)
        thread = recorder.thread
        before = getattr(thread, "observing", False)
        thread.observing = True
        try:
            return self._function(path, flags, mode, dir_fd=dir_fd)
        finally:
            thread.observing = before

    def _note(self, path: Any, flags: int, dir_fd: Any) -> None:
        note_open(self._recorder, self._recorder.relative(path, dir_fd), flags)


class _WrappedSpawn(_Wrapped):
    """Whatever starts a program with an environment of its own: Python children stay observed."""

    def __init__(self, recorder: Recorder, function: Any, position: int) -> None:
        super().__init__(recorder, function)
        self._position = position

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        position = self._position
        try:
            if len(args) > position and args[position] is not None:
                args = (*args[:position], _with_hook(self._recorder, args[position]), *args[position + 1 :])
            elif kwargs.get("env") is not None:
                kwargs["env"] = _with_hook(self._recorder, kwargs["env"])
            else:
                add_hook(os.environb, self._recorder.folder)  # the script may have changed them
        except Exception:
            pass
        return self._function(*args, **kwargs)


def _with_hook(recorder: Recorder, environment: Any) -> Any:
    """The environment with the hook in it.

    Args:
        recorder: whose hook.
        environment: a mapping, or the list of `NAME=VALUE` bytes that fork_exec takes.
    """
    if isinstance(environment, (list, tuple)):
        pairs = [os.fsencode(item).partition(b"=") for item in environment]
        variables = {key: value for key, _, value in pairs}
        add_hook(variables, recorder.folder)
        return [key + b"=" + value for key, value in variables.items()]
    variables = {os.fsencode(key): os.fsencode(value) for key, value in environment.items()}
    add_hook(variables, recorder.folder)
    return variables


def add_hook(variables: Any, folder: str) -> None:
    """Have Python processes with these variables (bytes) observed; only what differs is set."""
    hook = os.fsencode(folder + "/" + HOOK_FOLDER)
    path = variables.get(b"PYTHONPATH", b"")
    if hook not in path.split(b":"):
        variables[b"PYTHONPATH"] = hook + (b":" + path if path else b"")
    name, value = RUN_VARIABLE.encode(), os.fsencode(folder)
    if variables.get(name) != value:
        variables[name] = value


def wrap_functions(recorder: Recorder) -> None:
    """Wrap them, also where modules that were imported before us have them already."""
    wrapped = {}

    def put(module: Any, name: str, wrapper: Callable[..., Any], *more: Any) -> None:
        function = getattr(module, name, None)
        if function is None:
            return
        replacement = wrapper(recorder, function, *more)
        wrapped[function] = replacement
        setattr(module, name, replacement)
        # shutil and others ask whether the very function is in these sets
        for supported in (
            os.supports_dir_fd,
            os.supports_fd,
            os.supports_follow_symlinks,
            os.supports_effective_ids,
        ):
            if function in supported:
                supported.add(replacement)

    put(os, "stat", _WrappedStat)
    put(os, "lstat", _WrappedStat)
    put(os, "access", _WrappedAnswer)
    put(os, "readlink", _WrappedReadlink)
    put(os, "open", _WrappedOpen)
    builtin = type(posix.stat)
    for name in sorted(_EXISTENCE):
        if type(getattr(os.path, name, None)) is builtin:
            put(os.path, name, _WrappedAnswer)
    put(os, "execve", _WrappedSpawn, 2)
    put(os, "posix_spawn", _WrappedSpawn, 2)
    put(os, "posix_spawnp", _WrappedSpawn, 2)
    put(_optional("_posixsubprocess"), "fork_exec", _WrappedSpawn, 5)

    users: list[Any] = [getattr(sys.modules.get("pathlib"), "_NormalAccessor", None)]
    users += [sys.modules.get(name) for name in ("subprocess", "posixpath", "genericpath")]
    for user in users:
        for name, value in list(vars(user).items()) if user is not None else ():
            static = isinstance(value, staticmethod)
            try:
                replacement = wrapped.get(value.__func__ if static else value)
            except TypeError:
                continue
            if replacement is not None:
                setattr(user, name, staticmethod(replacement) if static else replacement)


def _optional(name: str) -> Any:
    try:
        return __import__(name)
    except ImportError:
        return None
