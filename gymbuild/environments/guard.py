"""Runs one command and ends its process group when gymbuild is gone. Standard library only; run as a file.

    python -I -S guard.py <pipe> <parent> <command> …

The pipe's writing end is held by gymbuild. It closes when gymbuild dies, however that happens. Should another
process have inherited it, the change of this process's parent tells the same, half a second later.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time

GRACE = 2.0
"""Seconds between the polite signal and the other one."""
_GLANCE = 0.5
"""Seconds between two looks at who the parent is."""


def _watch(pipe: int, parent: int, child: subprocess.Popen[bytes], ending: threading.Event) -> None:
    while os.getppid() == parent:
        if select.select([pipe], [], [], _GLANCE)[0]:
            break
    ending.set()
    os.killpg(0, signal.SIGTERM)
    deadline = time.monotonic() + GRACE
    while child.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    if child.poll() is None:
        child.kill()
        child.wait()
    os.killpg(0, signal.SIGKILL)


def main(arguments: list[str]) -> int:
    """Run the command that the arguments end in; its exit code, or 128 and the signal that ended it."""
    signal.signal(signal.SIGTERM, lambda *_: None)
    child = subprocess.Popen(arguments[2:])
    ending = threading.Event()
    watch = threading.Thread(
        target=_watch, args=(int(arguments[0]), int(arguments[1]), child, ending), daemon=True
    )
    watch.start()
    code = child.wait()
    if ending.is_set():
        watch.join()
    return 128 - code if code < 0 else code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
