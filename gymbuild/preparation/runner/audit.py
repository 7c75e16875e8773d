"""Observation by audit events; `args` are as Python's documentation of each event gives them."""

from __future__ import annotations

import os
import posix
import sys

from .recorder import Recorder, folder_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_WRITING = posix.O_WRONLY | posix.O_RDWR | posix.O_CREAT | posix.O_TRUNC | posix.O_APPEND
_PACKAGE_SEARCH = ("importlib.metadata", "importlib_metadata", "pkg_resources")
"""What lists every folder of `sys.path`, the checkout first, to find out which packages are installed; other
packages carry copies of it."""


def audit_hook(recorder: Recorder) -> Callable[[str, tuple[Any, ...]], None]:
    """What `sys.addaudithook` is given."""
    events = _EVENTS
    observe = recorder.observe

    def hook(event: str, args: tuple[Any, ...]) -> None:
        note = events.get(event)
        if note is not None:
            observe(note, recorder, args)

    return hook


def note_open(recorder: Recorder, name: str | None, flags: int) -> None:
    """A file is about to be opened."""
    if name is None:
        return
    if flags & _WRITING:
        recorder.created(name)
    else:
        recorder.read(name)


def _on_open(recorder: Recorder, args: tuple[Any, ...]) -> None:
    note_open(recorder, recorder.relative(args[0]), args[2])


def _on_list(recorder: Recorder, args: tuple[Any, ...]) -> None:
    caller = sys._getframe(3)
    if caller.f_code.co_name == "_fill_cache" and "importlib" in caller.f_code.co_filename:
        return  # the import system's own cache of names: what it looks for is observed where it looks
    if str(caller.f_globals.get("__name__")).endswith(_PACKAGE_SEARCH):
        return
    path = args[0]
    if type(path) is int:
        path = folder_of(path)
    name = recorder.relative("." if path is None else path)
    if name is not None:
        recorder.listed(name)


def _on_mkdir(recorder: Recorder, args: tuple[Any, ...]) -> None:
    name = recorder.relative(args[0], args[2])
    if name is None:
        return
    try:
        recorder.lstat(recorder.absolute(name))
    except OSError:
        recorder.note("d", name)


def _on_rename(recorder: Recorder, args: tuple[Any, ...]) -> None:
    source = recorder.relative(args[0], args[2])
    target = recorder.relative(args[1], args[3])
    if source is not None:
        recorder.note("x", source)
    if target is not None:
        recorder.note("d", target)


def _on_link(recorder: Recorder, args: tuple[Any, ...]) -> None:
    source = recorder.relative(args[0], args[2])
    if source is not None:
        recorder.read(source)
    target = recorder.relative(args[1], args[3])
    if target is not None:
        recorder.created(target)


def _on_symlink(recorder: Recorder, args: tuple[Any, ...]) -> None:
    name = recorder.relative(args[1], args[2])
    if name is not None:
        recorder.note("d", name)


def _on_remove(recorder: Recorder, args: tuple[Any, ...]) -> None:
    name = recorder.relative(args[0], args[1])
    if name is not None:
        recorder.note("x", name)


def _on_truncate(recorder: Recorder, args: tuple[Any, ...]) -> None:
    name = recorder.relative(args[0])
    if name is not None:
        recorder.created(name)


def _on_run_file(recorder: Recorder, args: tuple[Any, ...]) -> None:
    """A script that is the main module of a Python child."""
    name = recorder.relative(args[0])
    if name is not None:
        recorder.read(name, "i")


def _on_import(recorder: Recorder, args: tuple[Any, ...]) -> None:
    if args[1]:  # only the import of an extension module names its file
        _on_run_file(recorder, (args[1],))


def _on_load(recorder: Recorder, args: tuple[Any, ...]) -> None:
    """A library or a program, which something else than Python opens; without a slash it is searched elsewhere."""
    path = args[0]
    if path is None or type(path) is int:
        return
    path = os.fsdecode(path)
    if "/" in path:
        name = recorder.relative(path)
        if name is not None:
            recorder.read(name)


def _on_start(recorder: Recorder, args: tuple[Any, ...]) -> None:
    """A program started by `subprocess`, from the folder that the child starts in."""
    if args[0] is None:
        return
    path = os.fsdecode(args[0])
    if path[:1] != "/" and "/" in path and args[2] is not None:
        path = os.path.join(os.fsdecode(args[2]), path)
    _on_load(recorder, (path,))


def _on_database(recorder: Recorder, args: tuple[Any, ...]) -> None:
    path = args[0]
    if type(path) is str:
        if path == ":memory:" or not path:
            return
        if path.startswith("file:"):
            path = path[5:].split("?", 1)[0]
    name = recorder.relative(path)
    if name is None:
        return
    try:
        recorder.stat(recorder.absolute(name))
    except OSError:
        recorder.created(name)
    else:
        recorder.read(name)


_EVENTS = {
    "open": _on_open,
    "os.listdir": _on_list,
    "os.scandir": _on_list,
    "os.mkdir": _on_mkdir,
    "os.rename": _on_rename,
    "os.link": _on_link,
    "os.symlink": _on_symlink,
    "os.remove": _on_remove,
    "os.rmdir": _on_remove,
    "os.truncate": _on_truncate,
    "import": _on_import,
    "cpython.run_file": _on_run_file,
    "ctypes.dlopen": _on_load,
    "subprocess.Popen": _on_start,
    "os.posix_spawn": _on_load,
    "os.exec": _on_load,
    "sqlite3.connect": _on_database,
}
