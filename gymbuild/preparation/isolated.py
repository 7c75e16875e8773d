"""The script's side: runs one prepare script inside its environment, and observes what it uses.

This file is the only one of gymbuild that runs in a benchmark's environment. It needs Python 3.9 or newer and
the standard library, and nothing else; it must never import anything of gymbuild.

It is started as `python isolated.py REQUEST.json LIFELINE`, calls one function of one prepare script, and writes what
came of it to the result file that the request names. Python processes that the script starts load the second
half of it (`observe_child`) through a `sitecustomize` module, so that they are observed as well.

What is observed is appended, as it happens, to one file per process in the run's private folder: one line per
observation, the `ascii()` of `(monotonic time in ns, operation, path relative to the checkout, detail)`.
gymbuild makes sense of the lines afterwards (`observe.py`); here, every line is only a fact.
"""

from __future__ import annotations

import os
import posix
import sys
import time
from _thread import _local as _ThreadLocal

TYPE_CHECKING = False  # the typing module is slow to import, and only type checkers need it
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import FrameType
    from typing import Any

RUN_VARIABLE = "GYMBUILD_OBSERVED_RUN"
"""Names, in the environment of the script and its children, the private folder of the run."""
SETTINGS_FILE = "observe"
"""In that folder: checkout, private folder, script, then path prefixes that are no inputs; NUL between them."""
WHOLE_FILE = "whole"
"""In that folder: removed by whoever could not write down what it saw (a full disk); the run then counts as failed."""
HOOK_FOLDER = "hook"
"""In that folder: the `sitecustomize` module that observes Python children."""

_OWN_FILE = os.path.abspath(__file__)
_bootstrap: Any = sys.modules["_frozen_importlib"]
_external: Any = sys.modules["_frozen_importlib_external"]


# --- what is observed ----------------------------------------------------------------------------------------


class Recorder:
    """Appends observations of checkout paths to this process's file.

    Nothing it does may disturb the script: it swallows its own errors, and opens and closes its file for each
    line, so that it holds no descriptor that a script could close or reuse.

    Args:
        root: the checkout, real path.
        folder: the run's private folder.
        excluded: absolute path prefixes that are no inputs (the environment's own files).
        script_root: the root that the script is of; outside the checkout it is observed as well.
    """

    def __init__(self, root: str, folder: str, excluded: Iterable[str], script_root: str = "") -> None:
        self.root = root
        self.prefix = root.rstrip("/") + "/"
        self.root_bytes = os.fsencode(self.prefix)
        outside = script_root and not (script_root + "/").startswith(self.prefix)
        self.other = script_root.rstrip("/") + "/" if outside else None
        self.folder = folder
        self.excluded = tuple(path.rstrip("/") + "/" for path in excluded)
        self.seen: set[tuple[str, str]] = set()
        self.unwritten: list[str] = []
        """Lines for which there was no free descriptor: they come before the next ones."""
        self.thread = _ThreadLocal()
        self.enabled = True
        # The functions as they are before anything is wrapped, and that raise no audit event of interest.
        self.stat = posix.stat
        self.lstat = posix.lstat
        self.readlink = posix.readlink
        self.getcwd = posix.getcwd

    def relative(self, path: Any, dir_fd: Any = None) -> str | None:
        """`path` relative to the checkout, or None when it is nothing that could be an input.

        In the script's own root outside the checkout it stays absolute.
        """
        kind = type(path)
        if kind is not str:
            if kind is int or path is None:
                return None
            if kind is not bytes:
                path = os.fspath(path)
            if type(path) is bytes:
                path = os.fsdecode(path)
        if path[:1] == "/":
            if not path.startswith(self.prefix):
                if path + "/" == self.prefix:
                    return "."
                if self.other is not None and (path + "/").startswith(self.other):
                    pass
                elif "/.." not in path and "//" not in path:
                    return None
        elif not path:
            return None
        else:
            base = _folder_of(dir_fd) if type(dir_fd) is int and dir_fd >= 0 else self.getcwd()
            if base is None:
                return None
            path = base.rstrip("/") + "/" + path
        if "/." in path or "//" in path or path[-1] == "/":
            path = self._normal(path)
        name: str
        if path.startswith(self.prefix):
            name = inner = path[len(self.prefix) :]
        elif path + "/" == self.prefix:
            return "."
        elif self.other is not None and (path + "/").startswith(self.other):
            name, inner = path, path[len(self.other) :]
        else:
            return None
        if "__pycache__" in inner or ".git" in inner or inner.startswith(".cache"):
            parts = inner.split("/")
            if "__pycache__" in parts or ".git" in parts or parts[0] == ".cache":
                return None
        with_slash = path + "/"
        for prefix in self.excluded:
            if with_slash.startswith(prefix):
                return None
        return name

    def absolute(self, name: str) -> str:
        """The path of what `relative` gave."""
        return name if name[:1] == "/" else self.prefix + name

    def _normal(self, path: str) -> str:
        plain = os.path.normpath(path)
        if "/.." in path:
            # `a/link/../b` is not `a/b` when `link` leads elsewhere
            try:
                there, here = self.stat(path), self.stat(plain)
            except OSError:
                return plain
            if (there.st_dev, there.st_ino) != (here.st_dev, here.st_ino):
                return _real_path(path)
        return plain

    def note(self, operation: str, name: str, detail: Any = None) -> None:
        """Append one observation, once per operation and path."""
        if (operation, name) not in self.seen:
            self.note_all([(operation, name, detail)])

    def note_all(self, observations: list[tuple[str, str, Any]]) -> None:
        """Append several observations at once: `(operation, path, detail)` each."""
        new = [item for item in observations if item[:2] not in self.seen]
        if not new or not self.enabled:
            return
        now = time.monotonic_ns()
        lines = "".join([ascii((now, *item)) + "\n" for item in new])
        self.seen.update([item[:2] for item in new])
        self.write(lines)

    def write(self, lines: str) -> None:
        """Append lines to this process's file, after those that could not be written before."""
        inside = getattr(self.thread, "inside", False)
        self.thread.inside = True
        try:
            while self.unwritten:
                lines = self.unwritten.pop() + lines
        except IndexError:
            pass  # another thread was faster
        try:
            path = self.folder + "/seen." + str(posix.getpid())
            # O_CLOEXEC is what os.open would set
            descriptor = posix.open(
                path, posix.O_WRONLY | posix.O_APPEND | posix.O_CREAT | posix.O_CLOEXEC, 0o600
            )
            try:
                data = lines.encode("ascii")
                if posix.write(descriptor, data) != len(data):
                    self.give_up()
            finally:
                posix.close(descriptor)
        except OSError as error:
            if error.errno in (
                23,
                24,
            ):  # ENFILE, EMFILE, on Linux and macOS: the script has all descriptors in use
                self.unwritten.append(lines)
            else:
                self.give_up()
        finally:
            self.thread.inside = inside

    def give_up(self) -> None:
        """Have the run count as failed: an input that was not written down would never make it stale."""
        try:
            posix.unlink(self.folder + "/" + WHOLE_FILE)
        except OSError:
            return  # it is gone already

    def read(self, name: str, operation: str = "r") -> None:
        """A file is about to be read, or a path is looked for in order to read it."""
        if (operation, name) in self.seen:
            return
        try:
            status = self.stat(self.absolute(name))
        except (OSError, ValueError):
            self.note("m", name)
            return
        if (status.st_mode & 0o170000) == 0o100000:
            self.note(operation, name, _signature(status))

    def missing(self, name: str) -> None:
        self.note("m", name)

    def created(self, name: str) -> None:
        """A file is about to be opened for writing, or takes this name."""
        self.note("w", name)

    def listed(self, name: str) -> None:
        if ("l", name) in self.seen:
            return
        inside = getattr(self.thread, "inside", False)
        self.thread.inside = True
        try:
            with posix.scandir(self.absolute(name) if name != "." else self.root) as entries:
                names = sorted((entry.name, entry.is_dir()) for entry in entries)
        except FileNotFoundError:
            self.note("m", name)
            return
        except OSError:
            return
        finally:
            self.thread.inside = inside
        self.note("l", name, names)


def _signature(status: os.stat_result) -> tuple[int, int, int, int, int]:
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _folder_of(descriptor: int) -> str | None:
    """The path of an open folder, or None."""
    try:
        if sys.platform == "darwin":
            import fcntl

            return os.fsdecode(fcntl.fcntl(descriptor, 50, b"\0" * 1024).split(b"\0", 1)[0])  # F_GETPATH
        return posix.readlink("/proc/self/fd/%d" % descriptor)
    except (OSError, ImportError):
        return None


def _real_path(path: str) -> str:
    """os.path.realpath, through the functions as they are before they are wrapped."""
    done = ""
    rest = [part for part in reversed(path.split("/")) if part]
    links = 0
    while rest:
        part = rest.pop()
        if part == ".":
            continue
        if part == "..":
            done = done.rpartition("/")[0]
            continue
        step = done + "/" + part
        try:
            target = posix.readlink(step)
        except OSError:
            done = step
            continue
        links += 1
        if links > 40:
            return path
        if target[:1] == "/":
            done = ""
        rest.extend(part for part in reversed(target.split("/")) if part)
    return done or "/"


# Audit events; `args` are as Python's documentation of each event gives them.


def _on_open(recorder: Recorder, args: tuple[Any, ...]) -> None:
    path, _, flags = args
    name = recorder.relative(path)
    if name is None:
        return
    if flags & (posix.O_WRONLY | posix.O_RDWR | posix.O_CREAT | posix.O_TRUNC | posix.O_APPEND):
        recorder.created(name)
    else:
        recorder.read(name)


def _on_list(recorder: Recorder, args: tuple[Any, ...]) -> None:
    caller = sys._getframe(2)
    if caller.f_code.co_name == "_fill_cache" and "importlib" in caller.f_code.co_filename:
        return  # the import system's own cache of names: what it looks for is observed where it looks
    if str(caller.f_globals.get("__name__")).endswith(_PACKAGE_SEARCH):
        return
    path = args[0]
    if type(path) is int:
        path = _folder_of(path)
    name = recorder.relative("." if path is None else path)
    if name is not None:
        recorder.listed(name)


_PACKAGE_SEARCH = ("importlib.metadata", "importlib_metadata", "pkg_resources")
"""What lists every folder of `sys.path`, the checkout first, to find out which packages are installed; other
packages carry copies of it."""


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


def _on_import(recorder: Recorder, args: tuple[Any, ...]) -> None:
    if args[1]:  # only the import of an extension module names its file
        name = recorder.relative(args[1])
        if name is not None:
            recorder.read(name, "i")


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


def _audit_hook(recorder: Recorder) -> Callable[[str, tuple[Any, ...]], None]:
    events = _EVENTS
    thread = recorder.thread

    def hook(event: str, args: tuple[Any, ...]) -> None:
        handler = events.get(event)
        if handler is None or not recorder.enabled or getattr(thread, "inside", False):
            return
        thread.inside = True
        try:
            handler(recorder, args)
        except Exception:
            pass  # an observation that cannot be made must not become the script's error
        finally:
            thread.inside = False

    return hook


# Functions of `os` that raise no audit event. They are wrapped in objects, not functions: a function kept as a
# class attribute (pathlib up to Python 3.10 does that) would be bound and be given one argument too many.


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
    """`os.stat`, `os.lstat`, `os.access`, and `os.path` functions where those are written in C."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            result = self._function(*args, **kwargs)
        except FileNotFoundError:
            self._looked(args, kwargs, False)
            raise
        except NotADirectoryError:
            self._looked(args, kwargs, False)
            raise
        self._looked(args, kwargs, True)
        return result

    def _looked(self, args: tuple[Any, ...], kwargs: dict[str, Any], found: bool) -> None:
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
        if not recorder.enabled or getattr(recorder.thread, "inside", False):
            return
        recorder.thread.inside = True
        try:
            name = recorder.relative(path, kwargs.get("dir_fd"))
            if name is None or name == "." or (not found and ("m", name) in recorder.seen):
                return
            asker = _asker(sys._getframe(2))
            if asker == "resolve":
                return  # os.path.realpath looks at each part of a path; links are observed in os.readlink
            if found:
                _note_presence(recorder, name, asker == "exists" or self.__name__ not in ("stat", "lstat"))
            else:
                recorder.missing(name)
        except Exception:
            pass
        finally:
            recorder.thread.inside = False


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
_RESOLVING = frozenset(["realpath", "_joinrealpath", "resolve", "_resolve"])


def _asker(frame: FrameType | None) -> str | None:
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


def _note_presence(recorder: Recorder, name: str, only_presence: bool) -> None:
    if ("p", name) in recorder.seen and only_presence:
        return
    path = recorder.absolute(name)
    try:
        status = recorder.stat(path)
    except OSError:
        recorder.missing(name)  # a symlink that leads nowhere
        return
    kind = {0o040000: "folder", 0o100000: "file"}.get(status.st_mode & 0o170000, "other")
    if kind == "file" and not only_presence:
        recorder.note("r", name, _signature(status))
        return
    try:
        target = recorder.readlink(path)
    except OSError:
        recorder.note("p", name, kind)
    else:
        recorder.note("p", name, "link:" + target + ":" + kind)


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
        self._looked(args, kwargs, found)
        return result


class _WrappedReadlink(_Wrapped):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        result = self._function(*args, **kwargs)
        recorder = self._recorder
        if recorder.enabled and not getattr(recorder.thread, "inside", False):
            recorder.thread.inside = True
            try:
                name = recorder.relative(args[0] if args else kwargs.get("path"), kwargs.get("dir_fd"))
                if name is not None:
                    _note_presence(recorder, name, True)
            except Exception:
                pass
            finally:
                recorder.thread.inside = False
        return result


class _WrappedOpen(_Wrapped):
    """`os.open`: its audit event does not say which folder a relative path is relative to."""

    def __call__(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: Any = None) -> Any:
        if dir_fd is None:
            return self._function(path, flags, mode)
        recorder = self._recorder
        inside = getattr(recorder.thread, "inside", False)
        recorder.thread.inside = True
        try:
            if not inside and recorder.enabled:
                try:
                    name = recorder.relative(path, dir_fd)
                    if name is not None:
                        _on_open(recorder, (recorder.absolute(name), None, flags))
                except Exception:
                    pass
            return self._function(path, flags, mode, dir_fd=dir_fd)
        finally:
            recorder.thread.inside = inside


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
                variables = dict(os.environb)
                _add_hook(variables, self._recorder, self._recorder.folder + "/" + HOOK_FOLDER)
                if variables != os.environb:  # the script has changed them
                    os.environb.update(variables)
        except Exception:
            pass
        return self._function(*args, **kwargs)


def _with_hook(recorder: Recorder, environment: Any) -> Any:
    """The environment with the hook in it.

    Args:
        recorder: whose hook.
        environment: a mapping, or the list of `NAME=VALUE` bytes that fork_exec takes.
    """
    hook = recorder.folder + "/" + HOOK_FOLDER
    if isinstance(environment, (list, tuple)):
        variables = {}
        for item in environment:
            key, _, value = os.fsencode(item).partition(b"=")
            variables[key] = value
        _add_hook(variables, recorder, hook)
        return [key + b"=" + value for key, value in variables.items()]
    variables = {os.fsencode(key): os.fsencode(value) for key, value in environment.items()}
    _add_hook(variables, recorder, hook)
    return variables


def _add_hook(variables: dict[bytes, bytes], recorder: Recorder, hook: str) -> None:
    path = os.fsdecode(variables.get(b"PYTHONPATH", b""))
    if hook not in path.split(":"):
        variables[b"PYTHONPATH"] = os.fsencode(hook + (":" + path if path else ""))
    variables[RUN_VARIABLE.encode()] = os.fsencode(recorder.folder)


def _wrap_os(recorder: Recorder) -> None:
    wrapped = {}

    def put(module: Any, name: str, wrapper: Callable[[Recorder, Any], Any]) -> None:
        function = getattr(module, name, None)
        if function is None:
            return
        replacement = wrapper(recorder, function)
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

    def put_spawn(module: Any, name: str, position: int) -> None:
        put(module, name, lambda recorder, function: _WrappedSpawn(recorder, function, position))

    put_spawn(os, "execve", 2)
    put_spawn(os, "posix_spawn", 2)
    put_spawn(os, "posix_spawnp", 2)
    put_spawn(_optional("_posixsubprocess"), "fork_exec", 5)

    # modules that kept the functions when they were imported before us
    accessor = getattr(sys.modules.get("pathlib"), "_NormalAccessor", None)
    keepers = [accessor] if accessor is not None else []
    keepers += [
        sys.modules[name] for name in ("subprocess", "posixpath", "genericpath") if name in sys.modules
    ]
    for keeper in keepers:
        for name, value in list(vars(keeper).items()):
            try:
                replacement = wrapped.get(value.__func__ if isinstance(value, staticmethod) else value)
            except TypeError:
                continue
            if replacement is not None:
                setattr(
                    keeper,
                    name,
                    staticmethod(replacement) if isinstance(value, staticmethod) else replacement,
                )


def _optional(name: str) -> Any:
    try:
        return __import__(name)
    except ImportError:
        return None


# The import system.


class CheckoutFinder(_external.FileFinder):  # type: ignore[misc]
    """Finds modules in one folder of the checkout as FileFinder does, and notes what it did not find there."""

    recorder: Recorder

    def find_spec(self, fullname: str, target: Any = None) -> Any:
        spec = super().find_spec(fullname, target)
        recorder = self.recorder
        if not recorder.enabled:
            return spec
        inside = getattr(recorder.thread, "inside", False)
        recorder.thread.inside = True
        try:
            self._note(fullname.rpartition(".")[2], spec)
        except Exception:
            pass
        finally:
            recorder.thread.inside = inside
        return spec

    def _note(self, name: str, spec: Any) -> None:
        recorder = self.recorder
        base = (self.path or recorder.getcwd()) + "/" + name
        if spec is None:
            # found elsewhere, or nowhere: a module or a package of this name here would have come first
            candidates = [base + ".py", base + "/__init__.py"]
        else:
            suffixes = [suffix for suffix, _ in self._loaders]
            candidates = [base + "/__init__" + suffix for suffix in suffixes]
            candidates += [base + suffix for suffix in suffixes]
            origin = spec.origin if spec.loader is not None else None
            if origin in candidates:
                candidates = candidates[: candidates.index(origin)]
        paths = [recorder.relative(candidate) for candidate in candidates]
        recorder.note_all([("m", path, None) for path in paths if path is not None])


class ScriptFinder:
    """Finds the prepare script and the folders above it in their root, by the names of its dotted path.

    Python finds most of them by itself. It cannot where a folder's name has a dot in it (it would take the
    parts for packages), and it finds another package of that name where the environment has one and the
    checkout's folder has no `__init__.py`.

    Args:
        root: the root that the script is of.
        script: the script, relative to it, with forward slashes.
    """

    def __init__(self, root: str, script: str) -> None:
        self.folders = {}
        self.placeholders: dict[str, list[str]] = {}
        parts = script.split("/")
        stem = parts[-1][:-3] if parts[-1].endswith(".py") else parts[-1]
        self.module = ".".join([*parts[:-1], stem])
        self.file = root + "/" + script
        folder, name = root, ""
        for part in parts[:-1]:
            folder += "/" + part
            self._pieces(name, part, [])
            name = name + "." + part if name else part
            self.folders[name] = folder
        self._pieces(name, stem, [folder])  # its relative imports lead to the folder that it is in

    def _pieces(self, name: str, part: str, locations: list[str]) -> None:
        """Python will ask for a package of each beginning of a name with dots in it."""
        pieces = part.split(".")
        for end in range(1, len(pieces)):
            piece = ".".join(pieces[:end])
            self.placeholders[name + "." + piece if name else piece] = locations

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname == self.module:
            return _external.spec_from_file_location(
                fullname, self.file, loader=_external.SourceFileLoader(fullname, self.file)
            )
        folder = self.folders.get(fullname)
        if folder is None and fullname not in self.placeholders:
            return None
        spec = _external.PathFinder.find_spec(fullname, path, target)
        if folder is None:
            if spec is None:
                spec = _bootstrap.ModuleSpec(fullname, None, is_package=True)
                spec.submodule_search_locations.extend(self.placeholders[fullname])
            return spec
        if spec is not None and folder in list(spec.submodule_search_locations or ()):
            return spec
        init = folder + "/__init__.py"
        try:
            posix.stat(init)
        except OSError:
            spec = _bootstrap.ModuleSpec(fullname, None, is_package=True)
            spec.submodule_search_locations = [folder]
            return spec
        return _external.spec_from_file_location(
            fullname,
            init,
            loader=_external.SourceFileLoader(fullname, init),
            submodule_search_locations=[folder],
        )


def _watch_imports(recorder: Recorder) -> None:
    """Note every checkout file that is imported, and keep bytecode caches out of it.

    A cache is valid for an equal mtime and size, which a forged edit has; so a source inside the checkout is
    always compiled from what it says, and its bytecode is neither read nor written.
    """

    def imported(path: Any) -> str | None:
        inside = getattr(recorder.thread, "inside", False)
        recorder.thread.inside = True
        try:
            name = recorder.relative(path)
            if name is not None and not inside:
                recorder.read(name, "i")
            return name
        except Exception:
            return None
        finally:
            recorder.thread.inside = inside

    source_loader = _external.SourceFileLoader
    cached_code = source_loader.get_code

    def get_code(self: Any, fullname: str) -> Any:
        path = self.get_filename(fullname)
        if imported(path) is None:
            return cached_code(self, fullname)
        return self.source_to_code(self.get_data(path), path)

    source_loader.get_code = get_code

    sourceless_loader = _external.SourcelessFileLoader
    sourceless_code = sourceless_loader.get_code

    def get_sourceless_code(self: Any, fullname: str) -> Any:
        imported(self.get_filename(fullname))
        return sourceless_code(self, fullname)

    sourceless_loader.get_code = get_sourceless_code

    CheckoutFinder.recorder = recorder
    loaders = _external._get_supported_file_loaders()

    def find_in_checkout(path: str) -> CheckoutFinder:
        name = recorder.relative(path or ".")
        if name is None or not os.path.isdir(path or "."):
            raise ImportError("not a folder of the checkout")
        return CheckoutFinder(path, *loaders)

    def path_hook(path: str) -> CheckoutFinder:
        inside = getattr(recorder.thread, "inside", False)
        recorder.thread.inside = True
        try:
            return find_in_checkout(path)
        finally:
            recorder.thread.inside = inside

    sys.path_hooks.insert(0, path_hook)
    for path in list(sys.path_importer_cache):
        if recorder.relative(path or ".") is not None:
            del sys.path_importer_cache[path]


def observe(root: str, folder: str, script_root: str, script: str, excluded: Iterable[str]) -> Recorder:
    """Observe this process, and the Python processes that it will start, from now on.

    Args:
        root: the checkout, real path.
        folder: the run's private folder; holds the `hook` folder.
        script_root: the root that the script is of: the checkout or another one, real path.
        script: the prepare script, relative to that root.
        excluded: absolute path prefixes that are no inputs.
    """
    own = [sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix]
    recorder = Recorder(
        root,
        folder,
        [
            *excluded,
            folder,
            _OWN_FILE,
            *(path for path in own if not (root + "/").startswith(path.rstrip("/") + "/")),
        ],
        script_root,
    )
    _watch_imports(recorder)
    sys.meta_path.insert(_before_path_finder(), ScriptFinder(script_root, script))
    _wrap_os(recorder)
    sys.addaudithook(_audit_hook(recorder))
    hook = folder + "/" + HOOK_FOLDER
    path = os.environ.get("PYTHONPATH", "")
    if hook not in path.split(":"):
        os.environ["PYTHONPATH"] = hook + (":" + path if path else "")
    os.environ[RUN_VARIABLE] = folder
    return recorder


def _before_path_finder() -> int:
    for index, finder in enumerate(sys.meta_path):
        if finder is _external.PathFinder:
            return index
    return len(sys.meta_path)


def observe_child(folder: str) -> None:
    """Observe a Python process that the script started; called by `sitecustomize`, which it then replaces.

    Args:
        folder: the run's private folder.
    """
    hook = folder + "/" + HOOK_FOLDER
    sys.path[:] = [path for path in sys.path if path != hook]
    sys.path_importer_cache.pop(hook, None)
    try:
        with open(folder + "/" + SETTINGS_FILE, "rb") as file:
            root, _, script_root, script, *excluded = os.fsdecode(file.read()).split("\0")
        observe(root, folder, script_root, script, excluded)
    except OSError:
        pass  # the run is over; whoever is still there is no longer observed
    # the environment's own sitecustomize, which ours hides
    spec = _external.PathFinder.find_spec("sitecustomize")
    if spec is not None and spec.loader is not None:
        module = _bootstrap.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


# --- the run -------------------------------------------------------------------------------------------------


def end_with(lifeline: int, folder: str) -> None:
    """Fork a watcher that kills this process's group as soon as gymbuild is gone, however it went.

    The watcher waits on two pipes: the lifeline, whose other end only gymbuild holds, and one whose other end
    this process and its forked children hold. It is forked before any code of the script runs, is no child
    that the script could wait for, and lives in a session of its own.

    Args:
        lifeline: read end of a pipe from gymbuild.
        folder: the run's private folder, removed when gymbuild can no longer do it.
    """
    import select
    import signal

    group = os.getpid()
    alive, ours = os.pipe()
    between = os.fork()
    if between:
        os.close(lifeline)
        os.close(alive)
        os.waitpid(between, 0)
        return
    try:
        os.setsid()
        if os.fork():
            os._exit(0)
        os.close(ours)
        os.chdir("/")
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, signal.SIG_IGN)
        waiting = [lifeline, alive]
        while True:
            ready, _, _ = select.select(waiting, [], [], None if alive in waiting else 1.0)
            if lifeline in ready:
                if not os.read(lifeline, 1):  # broken; gymbuild says a word when all is well
                    try:
                        os.killpg(group, signal.SIGKILL)
                    finally:
                        _remove(folder)
                break
            if alive in ready:
                waiting.remove(alive)
            if alive not in waiting:
                os.killpg(group, 0)  # raises when nobody is left in the group
    except BaseException:
        pass
    finally:
        os._exit(0)


def _remove(folder: str) -> None:
    for where, folders, files in os.walk(folder, topdown=False):
        for name in files:
            os.unlink(os.path.join(where, name))
        for name in folders:
            os.rmdir(os.path.join(where, name))
    os.rmdir(folder)


_CONNECTION_CLASSES = frozenset(
    [
        "builtins.ConnectionError",
        "builtins.TimeoutError",
        "asyncio.exceptions.TimeoutError",
        "concurrent.futures._base.TimeoutError",
        "subprocess.TimeoutExpired",
        "socket.gaierror",
        "socket.herror",
        "socket.timeout",
        "ssl.SSLError",
        "urllib.error.URLError",
        "http.client.IncompleteRead",
        "http.client.BadStatusLine",
        "requests.exceptions.ConnectionError",
        "requests.exceptions.Timeout",
        "requests.exceptions.ChunkedEncodingError",
        "httpx.NetworkError",
        "httpx.TimeoutException",
        "httpx.RemoteProtocolError",
        "httpx.ProxyError",
        "httpx2.NetworkError",
        "httpx2.TimeoutException",
        "httpx2.RemoteProtocolError",
        "httpx2.ProxyError",
        "httpcore.NetworkError",
        "httpcore.TimeoutException",
        "httpcore.RemoteProtocolError",
        "httpcore.ProxyError",
        "httpcore2.NetworkError",
        "httpcore2.TimeoutException",
        "httpcore2.RemoteProtocolError",
        "httpcore2.ProxyError",
        "urllib3.exceptions.MaxRetryError",
        "urllib3.exceptions.TimeoutError",
        "urllib3.exceptions.NewConnectionError",
        "urllib3.exceptions.ProtocolError",
        "urllib3.exceptions.ProxyError",
        "urllib3.exceptions.SSLError",
        "aiohttp.client_exceptions.ClientConnectionError",
        "aiohttp.client_exceptions.ClientPayloadError",
        "huggingface_hub.errors.OfflineModeIsEnabled",
        "huggingface_hub.errors.LocalEntryNotFoundError",
        "huggingface_hub.errors.InferenceTimeoutError",
    ]
)
_CONNECTION_NAMES = frozenset(
    [
        "OfflineModeIsEnabled",
        "LocalEntryNotFoundError",
        "ConnectTimeout",
        "ReadTimeout",
        "EndpointConnectionError",
    ]
)
_PASSING_ERRNO = frozenset(
    [
        "ENOSPC",
        "EDQUOT",
        "ENETUNREACH",
        "EHOSTUNREACH",
        "ENETDOWN",
        "EHOSTDOWN",
        "ETIMEDOUT",
        "ECONNREFUSED",
        "ECONNRESET",
        "ECONNABORTED",
        "ENETRESET",
    ]
)
_MISTAKES = (NameError, AttributeError, TypeError, ImportError, SyntaxError, AssertionError)


def may_pass(error: BaseException) -> bool:
    """Whether an exception, or one that it came from, tells of a network, or room on a disk, that may be there another time.

    Libraries are told by the names of their exception classes, since none of them can be imported here.
    The first exception of the chain that decides, decides: an HTTP status, or a class of network errors.
    """
    pending: list[BaseException | None] = [error]
    seen = set()
    while pending:
        following = pending.pop(0)
        if following is None or id(following) in seen:
            continue
        error = following
        seen.add(id(error))
        verdict = _network_verdict(error)
        if verdict is not None:
            return verdict
        grouped = getattr(error, "exceptions", None)
        if isinstance(grouped, (list, tuple)):
            pending.extend(item for item in grouped if isinstance(item, BaseException))
        pending.append(error.__cause__)
        reason = getattr(error, "reason", None)
        if isinstance(reason, BaseException):
            pending.append(reason)
        if not error.__suppress_context__ and not isinstance(error, _MISTAKES):
            pending.append(error.__context__)
    return False


def _network_verdict(error: BaseException) -> bool | None:
    status = _http_status(error)
    if status is not None:
        return status in (408, 425, 429) or status >= 500
    classes = type(error).__mro__
    names = {c.__module__ + "." + c.__qualname__ for c in classes}
    names |= {c.__module__.partition(".")[0] + "." + c.__qualname__ for c in classes}
    if "ssl.SSLCertVerificationError" in names:
        return False
    if "urllib.error.URLError" in names:
        reason = getattr(error, "reason", None)
        if isinstance(reason, BaseException):
            return _network_verdict(reason) or False
        return not str(reason).startswith(("unknown url type", "no host given"))
    if names & _CONNECTION_CLASSES or {c.__name__ for c in classes} & _CONNECTION_NAMES:
        return True
    if isinstance(error, OSError) and error.errno is not None:
        import errno

        if errno.errorcode.get(error.errno) in _PASSING_ERRNO:
            return True
    return None


def _http_status(error: BaseException) -> int | None:
    response = getattr(error, "response", None)
    for holder, name in (
        (response, "status_code"),
        (response, "status"),
        (error, "status_code"),
        (error, "status") if _module(error) == "aiohttp" else (None, ""),
        (error, "code") if "urllib.error" in type(error).__module__ else (None, ""),
    ):
        status = getattr(holder, name, None) if holder is not None else None
        if type(status) is int and 100 <= status < 600:
            return status
    return None


def _module(error: BaseException) -> str:
    return type(error).__module__.partition(".")[0]


def _describe(error: BaseException, root: str) -> dict[str, str]:
    """The error as the result carries it; its traceback begins in the script."""
    search, sys.path[:] = sys.path[:], [path for path in sys.path if path and not path.startswith(root)]
    try:
        import traceback
    finally:
        sys.path[:] = search
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == _OWN_FILE:
        trace = trace.tb_next
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith("<frozen importlib"):
        trace = trace.tb_next
    if isinstance(error, SystemExit):
        code = error.code
        message = "the script ended itself by sys.exit(" + ("" if code is None else repr(code)) + ")"
    else:
        message = "".join(traceback.format_exception_only(type(error), error)).strip()
    text = "".join(traceback.format_exception(type(error), error, trace))
    kind = "may_pass" if may_pass(error) else "failed"
    return {"kind": kind, "type": type(error).__qualname__, "message": message, "traceback": text}


class _BadReturnError(Exception):
    pass


def _call(request: dict[str, Any]) -> Any:
    """Import the script and call the function that is asked for."""
    import importlib

    module = importlib.import_module(request["module"])
    action = request["action"]
    function = getattr(module, action, None)
    if not callable(function):
        raise _BadReturnError("the script defines no function " + action)
    if action == "prepare":
        returned = function(**request["args"])
        if isinstance(returned, (str, os.PathLike)):
            returned = os.fspath(returned)
            if isinstance(returned, str):
                return returned
        raise _BadReturnError(
            "prepare() has to return the path of the file that it wrote; it returned " + _shown(returned)
        )
    from pathlib import Path

    returned = function(Path(request["expected"]))
    if returned is not True and returned is not False:
        raise _BadReturnError(action + "() has to return True or False; it returned " + _shown(returned))
    return returned


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except Exception:
        text = "something"
    return (text if len(text) <= 200 else text[:200] + "…") + " (" + type(value).__qualname__ + ")"


def main(request_path: str, lifeline: int) -> int:
    """Run what the request says, and write the result.

    Args:
        request_path: the request file, JSON: `root`, `folder`, `script_root`, `script`, `action`, `args`, `expected`, `excluded`,
            `result` (the file to write).
        lifeline: descriptor of the pipe that breaks when gymbuild dies.

    Returns:
        the exit code: 0 when the function returned as it should.
    """
    if sys.path and os.path.abspath(sys.path[0] or ".") == os.path.dirname(_OWN_FILE):
        del sys.path[0]
    import json

    with open(request_path, encoding="utf-8") as file:
        request = json.load(file)
    end_with(lifeline, request["folder"])
    process = os.getpid()
    root, folder = request["root"], request["folder"]
    os.chdir(root)
    script_root = request["script_root"]
    # a script finds the modules of its own root before those of the checkout
    sys.path[:0] = [script_root, root] if script_root != root else [root]
    sys.argv[:] = [script_root + "/" + request["script"]]
    main_module = sys.modules["__main__"]
    for name in ("__file__", "__cached__"):
        # or multiprocessing's children would run this file as their main module
        if hasattr(main_module, name):
            delattr(main_module, name)
    import faulthandler

    faulthandler.enable()
    recorder = observe(root, folder, script_root, request["script"], request["excluded"])
    request["module"] = ScriptFinder(script_root, request["script"]).module
    try:
        result = {"returned": _call(request)}
    except _BadReturnError as error:
        if os.getpid() != process:
            os._exit(1)
        result = {"error": {"kind": "failed", "type": "", "message": str(error), "traceback": ""}}
    except BaseException as error:
        if os.getpid() != process:
            raise
        recorder.enabled = False
        result = {"error": _describe(error, root)}
        recorder.enabled = True
        if not isinstance(error, SystemExit):
            _say(result["error"]["traceback"])
        elif isinstance(error.code, str):
            _say(error.code + "\n")  # as Python itself does at exit
    if os.getpid() != process:
        os._exit(0)  # a fork of the script that came back here: not its place to tell the result
    _say("")
    if recorder.unwritten:
        recorder.write("")
        if recorder.unwritten:
            recorder.give_up()
    temporary = request["result"] + ".tmp"
    recorder.thread.inside = True
    try:
        with open(temporary, "w", encoding="utf-8", errors="surrogateescape") as file:
            json.dump(result, file, ensure_ascii=True)
            file.flush()
            os.fsync(file.fileno())
        posix.rename(temporary, request["result"])
    except OSError:
        recorder.give_up()
        return 1
    finally:
        recorder.thread.inside = False
    return 1 if "error" in result else 0


def _say(text: str) -> None:
    """Write to stderr, and have stdout written out; the script may have closed either."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
        sys.stdout.flush()
    except Exception:
        pass


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
