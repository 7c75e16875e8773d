"""Worker processes: they end with the process that started them, and that one notices when one is killed."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

_watching = False


def end_with_parent() -> None:
    """In a process that doit forked to run tasks: end when its parent does; elsewhere do nothing.

    Linux sends the signal itself (prctl(2), PR_SET_PDEATHSIG); other systems are asked for the parent, twice a
    second. A script that runs then ends through its own lifeline.
    """
    global _watching
    import multiprocessing

    parent = multiprocessing.parent_process()
    if parent is None or _watching or threading.current_thread() is not threading.main_thread():
        return
    _watching = True
    if sys.platform == "linux":
        import ctypes

        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
        if os.getppid() != parent.pid:
            os._exit(1)
        return

    def watch() -> None:
        while os.getppid() == parent.pid:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class Watch:
    """While it is entered: notices when a worker of this process is killed, and then interrupts the main thread.

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
        if threading.current_thread() is threading.main_thread():
            self._thread = threading.Thread(target=self._look, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        if self._thread is not None:
            self._thread.join()

    def _look(self) -> None:
        import multiprocessing

        seen: dict[int, multiprocessing.process.BaseProcess] = {}
        while not self._done.wait(self._EVERY):
            for child in multiprocessing.active_children():
                if child.pid is not None:
                    seen[child.pid] = child
            for child in seen.values():
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
