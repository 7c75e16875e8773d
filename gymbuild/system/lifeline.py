"""A process group that ends as soon as gymbuild is gone, however it went. Standard library only, Python 3.9 or newer.

gymbuild holds one end of a pipe, the lifeline; the other end is watched by a process that kills the group when the
pipe breaks. A prepare script's runner calls `watch` itself. Any other command is started by this file:

    python -I -S lifeline.py LIFELINE[,KEPT…] GRACE COMMAND…

which forks the watcher and then becomes the command. What else is named beside the lifeline stays open in the watcher
until the group is gone, and is closed in the command: a lock that others may take only then.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # the typing module is slow to import
if TYPE_CHECKING:
    from collections.abc import Sequence


def watch(lifeline: int, *, grace: float = 0.0, folder: str = "", command_follows: bool = False) -> None:
    """Fork a watcher that ends this process's group when the lifeline breaks.

    It waits on two pipes: the lifeline, and one whose other end this process and its forked children hold. It is no
    child that this process could wait for, and is in a session of its own.

    Args:
        lifeline: read end of a pipe from gymbuild; closed here, open in the watcher.
        grace: seconds between SIGTERM and SIGKILL; 0 kills at once.
        folder: removed when gymbuild can no longer do it.
        command_follows: this process will become another program, which counts as alive as well.
    """
    import select
    import signal

    group = os.getpid()
    alive, ours = os.pipe()
    between = os.fork()
    if between:
        os.close(lifeline)
        os.close(alive)
        os.set_inheritable(ours, command_follows)
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
                if not os.read(lifeline, 1):  # broken; gymbuild writes a byte when all is well
                    try:
                        _end_group(group, grace)
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


def _end_group(group: int, grace: float) -> None:
    import signal
    import time

    if grace:
        os.killpg(group, signal.SIGTERM)
        deadline = time.monotonic() + grace
        while time.monotonic() < deadline:
            os.killpg(group, 0)
            time.sleep(0.01)
    os.killpg(group, signal.SIGKILL)
    for _ in range(500):
        os.killpg(group, 0)  # raises when the last one is gone
        time.sleep(0.01)


def _remove(folder: str) -> None:
    for where, folders, files in os.walk(folder, topdown=False):
        for name in files:
            os.unlink(os.path.join(where, name))
        for name in folders:
            os.rmdir(os.path.join(where, name))
    if folder:
        os.rmdir(folder)


def main(arguments: Sequence[str]) -> None:
    """Watch this process's group, and become the command.

    Args:
        arguments: the descriptors, the grace in seconds, then the command.
    """
    import signal

    lifeline, *kept = map(int, arguments[0].split(","))
    command = list(arguments[2:])
    watch(lifeline, grace=float(arguments[1]), command_follows=True)
    for descriptor in kept:
        os.close(descriptor)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)  # which Python ignores
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.stderr.write("cannot start " + command[0] + ": " + str(error.strerror) + "\n")
        sys.exit(127)


if __name__ == "__main__":
    main(sys.argv[1:])
