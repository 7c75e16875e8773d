"""Locks between builders: one at a time prepares a dataset, builds an environment, or runs a shared script.

They are the kernel's (through filelock), so that none outlives the process that held it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import sys
import time
from collections.abc import Callable, Iterator

from gymbuild.system.paths import Checkout, file_name

_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}
_warned = False


def lock_path(checkout: Checkout, name: str) -> str:
    """Where the lock called `name` is."""
    return checkout.cached("locks", file_name(name) + ".lock")


@contextlib.contextmanager
def held(
    checkout: Checkout, name: str, *, waiting: Callable[[str], None] | None = None, blocking: bool = True
) -> Iterator[bool]:
    """Hold the lock called `name`.

    Args:
        checkout: whose `.cache/locks/` it lies in.
        name: what is locked, such as `prepare:aime24`.
        waiting: called once, with a sentence that says for whom, when the lock is not free.
        blocking: wait for it; else give False at once when it is not free.

    Yields:
        whether it is held.
    """
    path = lock_path(checkout, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if not _kernel_has_locks(checkout, os.path.dirname(path)):
        soft = SoftLock(path + ".held")
        soft.take(waiting, blocking)
        try:
            yield soft.is_locked
        finally:
            soft.release()
        return

    from filelock import FileLock, Timeout

    lock = FileLock(path, thread_local=False)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        if not blocking:
            yield False
            return
        if waiting:
            waiting(_holder(path))
        lock.acquire(timeout=-1, poll_interval=0.02)
    try:
        _sign(path)
        yield True
    finally:
        lock.release()


def _sign(path: str) -> None:
    with contextlib.suppress(OSError), open(path, "r+", encoding="ascii") as file:
        file.seek(0)
        file.truncate()
        file.write(f"{os.getpid()} {int(time.time())}\n")


def _holder(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            pid, since = file.read().split()
    except (OSError, ValueError):
        return "another builder"
    return f"process {pid} (since {time.strftime('%H:%M:%S', time.localtime(int(since)))})"


def _kernel_has_locks(checkout: Checkout, folder: str) -> bool:
    """Whether files in this folder can be locked; says once what it means when they cannot."""
    global _warned
    descriptor = os.open(os.path.join(folder, ".probe"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            return True
        if not _warned:
            _warned = True
            print(
                f"warning: the file system of {checkout.cache} has no file locks ({os.strerror(error.errno)}); "
                "lock files that name their holder are used instead. Builders on different machines then cannot "
                "tell whether another has died: if a build waits for one that is gone, remove the .held file "
                "under .cache/locks.",
                file=sys.stderr,
            )
        return False
    finally:
        os.close(descriptor)
    return True


class SoftLock:
    """A lock file made with O_EXCL that names host and process, for file systems without locks.

    One whose process is gone from this host is taken over.

    Args:
        path: the lock file.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self.is_locked = False

    def take(self, waiting: Callable[[str], None] | None, blocking: bool) -> None:
        """Make the file, waiting for another's to go away when `blocking`."""
        import socket

        told = False
        while True:
            try:
                descriptor = os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666)
            except FileExistsError:
                if self._is_dead(socket.gethostname()):
                    with contextlib.suppress(OSError):
                        os.unlink(self._path)
                    continue
                if not blocking:
                    return
                if waiting and not told:
                    waiting(self._read() or "another builder")
                    told = True
                time.sleep(0.05)
                continue
            with os.fdopen(descriptor, "w") as file:
                file.write(f"{socket.gethostname()} {os.getpid()}\n")
            self.is_locked = True
            return

    def release(self) -> None:
        """Remove the file."""
        if self.is_locked:
            self.is_locked = False
            with contextlib.suppress(OSError):
                os.unlink(self._path)

    def _read(self) -> str:
        try:
            with open(self._path) as file:
                return file.read().strip()
        except OSError:
            return ""

    def _is_dead(self, host: str) -> bool:
        words = self._read().split()
        if len(words) != 2 or words[0] != host or not words[1].isdigit():
            return False
        try:
            os.kill(int(words[1]), 0)
        except ProcessLookupError:
            return True
        except OSError:
            return False
        return False
