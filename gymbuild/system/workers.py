"""Worker processes: they end with the process that started them, and that one notices when one is killed."""

from __future__ import annotations

import functools
import os
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from multiprocessing.process import BaseProcess

_PR_SET_PDEATHSIG = 1
_watching = False
_parent = 0
"""Who forked last, told by the parent just before; 0 for another thread than the main one."""
_children_end = False
"""Whether what is forked from this process ends with it."""


def end_with_parent() -> None:
    """In a process that doit forked to run tasks: end when its parent does; elsewhere do nothing.

    Linux sends the signal itself (prctl(2), PR_SET_PDEATHSIG); other systems are asked for the parent, twice a
    second. A script that runs then ends through its own lifeline.
    """
    import multiprocessing

    parent = multiprocessing.parent_process()
    if (
        parent is not None
        and parent.pid is not None
        and threading.current_thread() is threading.main_thread()
    ):
        _end_with(parent.pid)


def _end_with(parent: int) -> None:
    global _watching
    if _watching:
        return
    _watching = True
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        return

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _before_fork() -> None:
    global _parent
    # the signal comes when the thread ends that forked
    _parent = os.getpid() if threading.current_thread() is threading.main_thread() else 0


def _after_fork() -> None:
    global _watching
    _watching = False
    if _children_end and _parent:
        _end_with(_parent)


@functools.cache
def _watch_forks() -> None:
    """Have forks looked at, from now on; a worker of doit waits for its first task before it runs code of ours."""
    if sys.platform == "linux":
        import ctypes  # noqa: F401  (not for the first time between a fork and what follows)

    os.register_at_fork(before=_before_fork, after_in_child=_after_fork)


class Watch:
    """While it is entered: workers of this process end when it does, also those that have not had a task yet; and it
    notices when one is killed, and then interrupts the main thread.

    doit waits for a result of each of its workers, and would wait for ever for one that is gone. The interrupt is
    a SIGTERM to this process, which a run takes as Ctrl-C.
    """

    _EVERY = 0.2
    """Seconds between looks."""
    _PATIENCE = 8.0
    """Seconds that workers have to end in, before they are killed."""

    def __init__(self) -> None:
        self.killed: int | None = None
        """The exit code of a worker that did not end by itself (negative: the signal)."""
        self._done = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Watch:
        global _children_end
        _watch_forks()
        _children_end = True
        if threading.current_thread() is threading.main_thread():
            self._thread = threading.Thread(target=self._look, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        global _children_end
        _children_end = False
        self._done.set()
        if self._thread is not None:
            self._thread.join()

    def _look(self) -> None:
        while not self._done.wait(self._EVERY):
            for child in _workers():
                if child.exitcode:
                    self.killed = child.exitcode
                    os.kill(os.getpid(), signal.SIGTERM)
                    return

    def end_all(self) -> None:
        """Wait for the workers of this process to end, and kill those that take too long."""
        import multiprocessing

        deadline = time.monotonic() + self._PATIENCE
        for child in multiprocessing.active_children():
            child.join(max(0.0, deadline - time.monotonic()))
            if child.is_alive():
                child.kill()
                child.join()


def _workers() -> list[BaseProcess]:
    """The workers of this process that are in use, those included that ended before anyone had a look at them."""
    from multiprocessing import active_children, process

    # active_children() forgets a worker as it finds it dead; what doit holds on to is in this set still
    kept: Iterable[BaseProcess] = getattr(process, "_dangling", ())
    mine = process.current_process().pid
    try:
        found = {*active_children(), *kept}
    except RuntimeError:  # one is being started just now
        return []
    return [child for child in found if getattr(child, "_parent_pid", mine) == mine and child.pid is not None]
