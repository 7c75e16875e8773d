"""What time it is, told so that no file changed since could seem older: by the local clock, and by the files' own.

A file is stamped by the clock of whoever stores it. Where that clock is behind the local one, a file that changed
just now looks as if it had rested for long, and a second change could hide behind its signature. So the time is
asked from the file system as well, by touching a file of ours; both answers count, and the earlier one is taken.
"""

from __future__ import annotations

import os
import time

NAME = "clock"
"""The file in `.cache/` that is touched."""

_stamps: dict[str, tuple[int, int] | None] = {}
"""By folder: the stamp that its file system gave, and the monotonic time after it; None: not asked yet."""
_UNKNOWN = (1 << 63, 0)


def ask_also(folder: str) -> None:
    """Count from now on what the file system of a folder says; it is asked when the time is needed.

    Args:
        folder: a `.cache/`; it need not be there. Where it cannot be written to, the local clock alone counts.
    """
    _stamps.setdefault(folder, None)


def now_ns() -> int:
    """The time in nanoseconds since the epoch, the earliest by any of the clocks."""
    found = time.time_ns()
    for folder, stamp in list(_stamps.items()):
        if stamp is None:
            stamp = _stamps[folder] = _ask(folder)
        # not by the local clock, which may be set meanwhile; while a machine sleeps it stands, which errs to be safe
        found = min(found, stamp[0] + time.monotonic_ns() - stamp[1])
    return found


def _ask(folder: str) -> tuple[int, int]:
    path = os.path.join(folder, NAME)
    try:
        os.makedirs(folder, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            os.utime(descriptor)
            stamp = os.fstat(descriptor).st_ctime_ns
        finally:
            os.close(descriptor)
    except OSError:
        return _UNKNOWN
    return stamp, time.monotonic_ns()
