"""The one place that starts processes: each is a process group that ends before `run` does, and ends with us."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Literal

GRACE = 3.0
"""Seconds that a process group has between SIGTERM and SIGKILL."""
_DRAIN_SECONDS = 1.0
"""How long output is still awaited after the process has ended, while a child of it holds the pipe."""
_CHUNK = 1 << 16

REPOSITORY_VARIABLES = frozenset(
    [
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_COMMON_DIR",
        "GIT_CONFIG",
        "GIT_DIR",
        "GIT_GRAFT_FILE",
        "GIT_IMPLICIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_INTERNAL_SUPER_PREFIX",
        "GIT_NAMESPACE",
        "GIT_NO_REPLACE_OBJECTS",
        "GIT_OBJECT_DIRECTORY",
        "GIT_PREFIX",
        "GIT_QUARANTINE_PATH",
        "GIT_REPLACE_REF_BASE",
        "GIT_SHALLOW_FILE",
        "GIT_WORK_TREE",
    ]
)
"""Variables that say which repository git works in; a git hook has them set.

What `git rev-parse --local-env-vars` lists, without those that carry settings (`GIT_CONFIG_COUNT`,
`GIT_CONFIG_PARAMETERS`): credentials may be among these."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended."""

    status: int
    """Its exit code; negative when a signal ended it."""
    output: bytes = b""
    """What it printed, unless a function was given that took it."""
    errors: bytes = b""
    """What it printed to stderr, where that was asked for apart."""
    timed_out: bool = False


_lifelines: set[int] = set()
"""Our ends of the lifelines in use: a process forked meanwhile must not keep them from breaking."""


def _close_lifelines() -> None:
    for descriptor in _lifelines:
        with contextlib.suppress(OSError):
            os.close(descriptor)
    _lifelines.clear()


os.register_at_fork(after_in_child=_close_lifelines)


def run(
    command: Sequence[str],
    *,
    cwd: str | None = None,
    environment: Mapping[str, str] | None = None,
    timeout: float | None = None,
    write: Callable[[bytes], object] | None = None,
    errors: Literal["output", "apart", "nowhere"] = "output",
    lifeline: Literal["watched", "argument", "none"] = "watched",
    keep_open: Sequence[int] = (),
) -> Ended:
    """Run a command to its end, in a process group of its own; nothing of the group is left when this returns.

    Safe to call from several threads and from forked processes at once.

    Args:
        command: the program and its arguments.
        cwd: the folder to run in.
        environment: all of its variables; default this process's own.
        timeout: seconds after which the group is ended.
        write: takes what is printed, as it comes.
        errors: where its stderr goes: to its output, apart from it, or nowhere.
        lifeline: how the group ends when this process dies: `watched` starts the command by way of lifeline.py (about
            10 ms); `argument` gives the lifeline's descriptor as a last argument to a command that watches it itself;
            `none` leaves a command to itself that ends soon anyway.
        keep_open: descriptors that stay open until the group is gone, also where this process dies: of a lock.

    Raises:
        OSError: it could not be started. A `watched` command ends with status 127 then, and says why in its output.
        KeyboardInterrupt, SystemExit: as they come, after the group has ended.
    """
    if lifeline == "none":
        return _finish(_start(command, cwd, environment, errors), timeout, write)
    theirs, ours = os.pipe()
    _lifelines.add(ours)
    try:
        if lifeline == "argument":
            command = [*command, str(theirs)]
        else:
            from gymbuild.system import lifeline as watcher

            kept = ",".join(map(str, (theirs, *keep_open)))
            command = [sys.executable, "-I", "-S", watcher.__file__, kept, str(GRACE), *command]
        try:
            process = _start(command, cwd, environment, errors, (theirs, *keep_open))
        finally:
            os.close(theirs)
        return _finish(process, timeout, write)
    finally:
        _lifelines.discard(ours)
        with contextlib.suppress(OSError):
            os.write(ours, b".")  # the group has ended: there is nothing to watch any more
        os.close(ours)


def _start(
    command: Sequence[str],
    cwd: str | None,
    environment: Mapping[str, str] | None,
    errors: str,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr={"output": subprocess.STDOUT, "apart": subprocess.PIPE, "nowhere": subprocess.DEVNULL}[errors],
        pass_fds=pass_fds,
        start_new_session=True,
        bufsize=0,
    )


def _finish(
    process: subprocess.Popen[bytes], timeout: float | None, write: Callable[[bytes], object] | None
) -> Ended:
    output: list[bytes] = []
    said: list[bytes] = []
    assert process.stdout is not None
    pipes: dict[IO[bytes], Callable[[bytes], object]] = {process.stdout: write or output.append}
    if process.stderr is not None:
        pipes[process.stderr] = said.append
    try:
        timed_out = _relay(process, pipes, timeout)
        if timed_out:
            _end_group(process)
            _drain(pipes)
    except BaseException:
        _end_group(process)
        raise
    finally:
        # whatever it left running in the background
        _signal_group(process.pid, signal.SIGKILL)
        for pipe in pipes:
            pipe.close()
    return Ended(process.wait(), b"".join(output), b"".join(said), timed_out)


def _relay(
    process: subprocess.Popen[bytes],
    pipes: Mapping[IO[bytes], Callable[[bytes], object]],
    limit: float | None,
) -> bool:
    """Pass on what comes through the pipes until the process has ended; True when its time was over first."""
    deadline = None if limit is None else time.monotonic() + limit
    parent = _parent_sentinel()
    ended = _process_descriptor(process.pid)
    waiting: list[IO[bytes] | int] = [*pipes, *(item for item in (parent, ended) if item is not None)]
    try:
        with selectors.DefaultSelector() as selector:
            for item in waiting:
                selector.register(item, selectors.EVENT_READ)
            open_pipes = set(pipes)
            while True:
                # without a descriptor that tells its end, that is looked for
                wait = None if ended is not None else 0.1 if open_pipes else 0.01
                if deadline is not None:
                    remaining = deadline - time.monotonic()
                    if remaining <= 0:
                        return True
                    wait = remaining if wait is None else min(wait, remaining)
                ready = {key.fileobj for key, _ in selector.select(wait)}
                if parent is not None and parent in ready:
                    raise SystemExit(1)  # the process that this one works for is gone
                for pipe in open_pipes & ready:
                    data = pipe.read(_CHUNK)
                    if data:
                        pipes[pipe](data)
                    else:
                        selector.unregister(pipe)
                        open_pipes.discard(pipe)
                if process.poll() is not None:
                    _drain({pipe: pipes[pipe] for pipe in open_pipes})
                    return False
    finally:
        if ended is not None:
            os.close(ended)


def _drain(pipes: Mapping[IO[bytes], Callable[[bytes], object]]) -> None:
    """Pass on what is still in the pipes, until they end or nobody writes any more in time."""
    deadline = time.monotonic() + _DRAIN_SECONDS
    with selectors.DefaultSelector() as selector:
        for pipe in pipes:
            selector.register(pipe, selectors.EVENT_READ)
        while selector.get_map() and (remaining := deadline - time.monotonic()) > 0:
            ready = {key.fileobj for key, _ in selector.select(remaining)}
            for pipe in pipes.keys() & ready:
                data = pipe.read(_CHUNK)
                if data:
                    pipes[pipe](data)
                else:
                    selector.unregister(pipe)


def _process_descriptor(pid: int) -> int | None:
    """A descriptor that becomes readable when the process ends, where the system has such."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            return os.pidfd_open(pid)
    return None


def _parent_sentinel() -> int | None:
    """In a worker of multiprocessing: a descriptor that becomes readable when the main process dies."""
    if "multiprocessing.process" not in sys.modules:
        return None
    from multiprocessing import parent_process

    sentinel = getattr(parent_process(), "sentinel", None)
    return sentinel if isinstance(sentinel, int) else None


def _signal_group(group: int, number: int) -> bool:
    """Signal a process group; False when nobody is in it any more."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):  # macOS refuses when only zombies are left
        return False
    return True


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End the process and all its children: politely first, then not. A second Ctrl-C ends the politeness."""
    try:
        if _signal_group(process.pid, signal.SIGTERM):
            _signal_group(process.pid, signal.SIGCONT)
            deadline = time.monotonic() + GRACE
            while time.monotonic() < deadline:
                process.poll()
                if not _signal_group(process.pid, 0):
                    break
                time.sleep(0.02)
    finally:
        _signal_group(process.pid, signal.SIGKILL)
        process.wait()


@contextlib.contextmanager
def interrupts_wait() -> Iterator[None]:
    """While it is entered, Ctrl-C and SIGTERM wait: what puts files back is not to be cut off by a second one."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
