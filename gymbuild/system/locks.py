"""Locks between builders: one at a time prepares a dataset, builds an environment, or runs a shared script.

They are the kernel's (through filelock), so that none outlives the process that held it. Where a file system has none,
lock files that name host and process take their place; one whose process is gone from this host is removed.
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
_POLL = 0.02
"""Seconds between two tries."""
_warned = False

Waiting = Callable[[str], None]
"""Is called once, with a sentence that says for whom, when a lock is not free."""


def lock_path(checkout: Checkout, name: str) -> str:
    """Where the lock called `name` is."""
    return checkout.cached("locks", file_name(name) + ".lock")


@contextlib.contextmanager
def lock(
    checkout: Checkout, name: str, *, waiting: Waiting | None = None, blocking: bool = True
) -> Iterator[tuple[int, ...] | None]:
    """Hold the lock called `name`.

    Args:
        checkout: whose `.cache/locks/` it lies in.
        name: what is locked, such as `prepare:aime24`.
        waiting: called when it is not free.
        blocking: wait for it; else give None at once when it is not free.

    Yields:
        None when it is not held; else its descriptors, if it has any. A process that inherits one keeps the lock: it
        is free once all of them have ended.
    """
    with lock_file(lock_path(checkout, name), waiting=waiting, blocking=blocking) as descriptors:
        yield descriptors


@contextlib.contextmanager
def lock_file(
    path: str, *, waiting: Waiting | None = None, blocking: bool = True
) -> Iterator[tuple[int, ...] | None]:
    """Hold the lock that a file stands for; as `lock`.

    Args:
        path: the file.
        waiting: called when it is not free.
        blocking: wait for it.
    """
    from filelock import BaseFileLock, FileLock, SoftFileLock, Timeout

    folder = os.path.dirname(path)
    os.makedirs(folder, exist_ok=True)
    hard = files_have_locks(folder)
    if not hard:
        _warn(folder)
        path += ".held"
    found: BaseFileLock = (FileLock if hard else SoftFileLock)(path, thread_local=False)
    try:
        found.acquire(timeout=0)
    except Timeout:
        if not blocking:
            yield None
            return
        if waiting:
            waiting(_holder(path))
        found.acquire(timeout=-1, poll_interval=_POLL)
    try:
        if hard:  # the other kind names its holder itself
            _sign(path)
        descriptor = getattr(found, "_context").lock_file_fd if hard else None  # noqa: B009 (not public)
        yield () if descriptor is None else (descriptor,)
    finally:
        found.release()


def files_have_locks(folder: str) -> bool:
    """Whether files in this folder can be locked.

    Raises:
        OSError: nothing can be written there.
    """
    descriptor = os.open(os.path.join(folder, ".probe"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in _NO_LOCKS
    finally:
        os.close(descriptor)
    return True


def _warn(folder: str) -> None:
    """Say once what it means that a file system has no locks."""
    global _warned
    if not _warned:
        _warned = True
        print(
            f"warning: the file system of {folder} has no file locks; lock files that name their holder are used "
            "instead. Builders on different machines then cannot tell whether another has died: if a build waits for "
            "one that is gone, remove the .held file there.",
            file=sys.stderr,
        )


def _sign(path: str) -> None:
    with contextlib.suppress(OSError), open(path, "r+", encoding="ascii") as file:
        file.seek(0)
        file.truncate()
        file.write(f"{os.getpid()} {int(time.time())}\n")


def _holder(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            pid, where = file.read().split()[:2]
    except (OSError, ValueError):
        return "another builder"
    if not where.isdecimal():  # as the other kind of lock names it
        return f"process {pid} on {where}"
    return f"process {pid} (since {time.strftime('%H:%M:%S', time.localtime(int(where)))})"


def lock_descriptor(descriptor: int, *, blocking: bool = True) -> bool:
    """Lock an open file or folder, until the last copy of its descriptor is closed.

    Args:
        descriptor: as `os.open` gives it.
        blocking: wait until it is free.

    Returns:
        False when it is not free, or where its file system has no locks.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if blocking else fcntl.LOCK_NB))
    except OSError:
        return False
    return True


def unlock_descriptor(descriptor: int) -> None:
    """Undo `lock_descriptor`, for a descriptor that stays open."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)
