"""Worker processes end with the process that started them, however that ends."""

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
