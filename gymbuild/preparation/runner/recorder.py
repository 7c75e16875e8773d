"""Writes down which paths of the checkout a process uses."""

from __future__ import annotations

import marshal
import os
import posix
import sys
import time
from _thread import _local as _ThreadLocal

TYPE_CHECKING = False  # the typing module is slow to import, and only type checkers need it
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

COMPLETE_FILE = "complete"
"""In the run's folder: removed by whoever could not write an observation down; the run then counts as failed."""
_MARSHAL_VERSION = 2
"""Plain values only, and each whole by itself; read by the Python of gymbuild, whichever that is."""
_TOO_MANY_OPEN = (23, 24)
"""ENFILE and EMFILE, on Linux and macOS: the script has all descriptors in use."""


class Recorder:
    """Appends observations of checkout paths to this process's file.

    Nothing it does may disturb the script: it swallows its own errors, and opens and closes its file for each
    observation, so that it holds no descriptor that a script could close or reuse.

    Args:
        root: the checkout, real path.
        folder: the run's folder.
        excluded: absolute path prefixes that are not inputs (the environment's own files).
        script_root: the root that the script is of; outside the checkout it is observed as well.
    """

    def __init__(self, root: str, folder: str, excluded: Iterable[str], script_root: str = "") -> None:
        self.root = root
        self.prefix = root.rstrip("/") + "/"
        outside = script_root and not (script_root + "/").startswith(self.prefix)
        self.other = script_root.rstrip("/") + "/" if outside else None
        self.folder = folder
        self.excluded = tuple(path.rstrip("/") + "/" for path in excluded)
        self.noted: set[tuple[str, str]] = set()
        self.unwritten: list[bytes] = []
        """Observations for which there was no free descriptor: they come before the next ones."""
        self.thread = _ThreadLocal()
        """Its attribute `observing` is true while this thread makes an observation, which is not observed itself."""
        self.enabled = True
        # The functions as they are before anything is wrapped, and that raise no audit event of interest.
        self.stat = posix.stat
        self.lstat = posix.lstat
        self.readlink = posix.readlink
        self.getcwd = posix.getcwd

    def observe(self, note: Callable[..., object], *args: Any) -> None:
        """Make an observation by calling `note`; one that cannot be made must not become the script's error."""
        thread = self.thread
        if not self.enabled or getattr(thread, "observing", False):
            return
        thread.observing = True
        try:
            note(*args)
        except Exception:
            pass
        finally:
            thread.observing = False

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
            base = folder_of(dir_fd) if type(dir_fd) is int and dir_fd >= 0 else self.getcwd()
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
        return None if (path + "/").startswith(self.excluded) else name

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
        if (operation, name) not in self.noted:
            self.note_all([(operation, name, detail)])

    def note_all(self, observations: list[tuple[str, str, Any]]) -> None:
        """Append several observations at once: `(operation, path, detail)` each."""
        new = [item for item in observations if item[:2] not in self.noted]
        if not new or not self.enabled:
            return
        now = time.monotonic_ns()
        data = b"".join([marshal.dumps((now, *item), _MARSHAL_VERSION) for item in new])
        self.noted.update([item[:2] for item in new])
        self.write(data)

    def write(self, data: bytes) -> None:
        """Append observations to this process's file, after those that could not be written before."""
        try:
            while self.unwritten:
                data = self.unwritten.pop() + data
        except IndexError:
            pass  # another thread was faster
        try:
            path = self.folder + "/observed." + str(posix.getpid())
            # O_CLOEXEC is what os.open would set
            descriptor = posix.open(
                path, posix.O_WRONLY | posix.O_APPEND | posix.O_CREAT | posix.O_CLOEXEC, 0o600
            )
            try:
                if posix.write(descriptor, data) != len(data):
                    self.give_up()
            finally:
                posix.close(descriptor)
        except OSError as error:
            if error.errno in _TOO_MANY_OPEN:
                self.unwritten.append(data)
            else:
                self.give_up()

    def give_up(self) -> None:
        """Have the run count as failed: an input that was not written down would never make it stale."""
        try:
            posix.unlink(self.folder + "/" + COMPLETE_FILE)
        except OSError:
            return  # it is gone already

    def read(self, name: str, operation: str = "r") -> None:
        """A file is about to be read, or a path is looked for in order to read it."""
        if (operation, name) in self.noted:
            return
        try:
            status = self.stat(self.absolute(name))
        except (OSError, ValueError):
            self.missing(name)
            return
        if (status.st_mode & 0o170000) == 0o100000:
            self.note(operation, name, signature(status))

    def missing(self, name: str) -> None:
        """A path was looked for and is not there."""
        self.note("m", name)

    def created(self, name: str) -> None:
        """A file is about to be opened for writing, or takes this name."""
        self.note("w", name)

    def listed(self, name: str) -> None:
        """A folder is about to be listed."""
        if ("l", name) in self.noted:
            return
        try:
            with posix.scandir(self.absolute(name) if name != "." else self.root) as entries:
                names = sorted((entry.name, entry.is_dir()) for entry in entries)
        except FileNotFoundError:
            self.missing(name)
        except OSError:
            return
        else:
            self.note("l", name, names)

    def presence(self, name: str, only_presence: bool) -> None:
        """A path was looked for and is there; where more than that was asked of a file, it counts as read."""
        if ("p", name) in self.noted and only_presence:
            return
        path = self.absolute(name)
        try:
            status = self.stat(path)
        except OSError:
            self.missing(name)  # a symlink that leads nowhere
            return
        kind = {0o040000: "folder", 0o100000: "file"}.get(status.st_mode & 0o170000, "other")
        if kind == "file" and not only_presence:
            self.note("r", name, signature(status))
            return
        try:
            target = self.readlink(path)
        except OSError:
            self.note("p", name, kind)
        else:
            self.note("p", name, "link:" + target + ":" + kind)


def signature(status: os.stat_result) -> tuple[int, int, int, int, int]:
    """What tells one state of a file from another; as gymbuild's own digests have it."""
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def folder_of(descriptor: int) -> str | None:
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
    pending = [part for part in reversed(path.split("/")) if part]
    links = 0
    while pending:
        part = pending.pop()
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
        pending.extend(part for part in reversed(target.split("/")) if part)
    return done or "/"
