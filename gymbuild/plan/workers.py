"""Reading a large prepared file in several processes: parts that end at line ends, results in the file's order.

A worker is a fresh Python that imports only this package: no fork of a process that may have threads, and no
import of the caller's main module. It is given parts over its stdin and answers over its stdout, both in
marshal frames. It ends when its stdin does, and so with the process that started it. What a worker that died had
to do is done by the process that started it.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from typing import Any, BinaryIO

from gymbuild.plan.digesting import Lines, Rows, Rules, Way, digester
from gymbuild.plan.prompts import Prompt
from gymbuild.plan.reading import PART, read_part
from gymbuild.plan.rows import unreadable

_START = "import sys; sys.path[:] = {path!r}; from gymbuild.plan.workers import main; main()"


LEAST_FOR_PROCESSES = 24 << 20
"""Bytes below which starting processes costs more than it saves."""


def read_rows(jsonl: str, rules: Rules, *, processes: int = 1, way: Way | None = None) -> Rows:
    """The ids and digests of all rows of a prepared file.

    Args:
        jsonl: the file.
        rules: prompt template and the rule for ids.
        processes: how many processes work at once; 0 decides by the file's size and the machine.
        way: see `digester`.

    Raises:
        PlanError: the file cannot be read.
    """
    try:
        size = os.stat(jsonl).st_size
        if not processes:
            processes = _processors() if size >= LEAST_FOR_PROCESSES else 1
        if processes > 1 and size > PART:
            return read_in_processes(jsonl, size, rules, min(processes, -(-size // PART)), way)
        return read_part(jsonl, 0, size, digester(rules, way))
    except OSError as error:
        raise unreadable(jsonl, error) from None


def read_in_processes(
    jsonl: str, size: int, rules: Rules, processes: int, way: Way | None, part: int = PART
) -> Rows:
    """The ids and digests of all rows, from several processes.

    Args:
        jsonl: the file.
        size: its bytes.
        rules: prompt template and the rule for ids.
        processes: how many work at once, this one among them.
        way: see `digester`.
        part: bytes that a process is given at a time.

    Raises:
        OSError: the file cannot be read.
    """
    parts = _Parts(size, part)
    stop = threading.Event()

    def serve() -> None:
        try:
            with _worker() as worker:
                _send(worker, _plain_job(jsonl, rules, way))
                while not stop.is_set() and (taken := parts.take()) is not None:
                    index, start, end = taken
                    answer = None
                    try:
                        _send(worker, (start, end))
                        answer = _receive(worker)
                    finally:
                        if answer is None:
                            parts.give_back(index)
                    parts.answer(index, answer)
        except (OSError, EOFError):
            # a worker that cannot be started, or that ended: this process does what is left
            return

    threads = [threading.Thread(target=serve, daemon=True) for _ in range(processes - 1)]
    for thread in threads:
        thread.start()
    found = Rows()
    try:
        digest = digester(rules, way)
        # this process is one of them: it works while the others start, and puts the answers in order
        while found.error is None and not parts.collect(found):
            if (taken := parts.take()) is not None:
                index, start, end = taken
                parts.answer(index, read_part(jsonl, start, end, digest))
            else:
                parts.wait()
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    return found


class _Parts:
    """The parts of a file: given out once each, answers put in the file's order."""

    def __init__(self, size: int, part: int) -> None:
        self._count = -(-size // part)
        self._size, self._part = size, part
        self._waiting = deque(range(self._count))
        self._answers: dict[int, Rows | bytes] = {}
        self._next = 0
        self._changed = threading.Condition()

    def take(self) -> tuple[int, int, int] | None:
        """A part that nobody has: its number and bounds; None when all were given out."""
        with self._changed:
            if not self._waiting:
                return None
            index = self._waiting.popleft()
        return index, index * self._part, min((index + 1) * self._part, self._size)

    def give_back(self, index: int) -> None:
        """Another has to do this part."""
        with self._changed:
            self._waiting.appendleft(index)
            self._changed.notify()

    def answer(self, index: int, answer: Rows | bytes) -> None:
        """What a part has: rows, or a frame that holds them."""
        with self._changed:
            self._answers[index] = answer
            self._changed.notify()

    def wait(self) -> None:
        """Wait until there is the next answer, or a part to do."""
        with self._changed:
            while self._next not in self._answers and not self._waiting:
                self._changed.wait()

    def collect(self, found: Rows) -> bool:
        """Add the answers that come next; whether all are there."""
        while found.error is None:
            with self._changed:
                answer = self._answers.pop(self._next, None)
            if answer is None:
                break
            self._next += 1
            found.extend(answer if isinstance(answer, Rows) else _rows(marshal.loads(answer)))
        return self._next == self._count


class _worker:
    """A worker process, ended when the block ends."""

    def __enter__(self) -> subprocess.Popen[bytes]:
        program = _START.format(path=[entry for entry in sys.path if isinstance(entry, str)])
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-E", "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        return self._process

    def __exit__(self, *_: object) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self._process.wait()


def _send(worker: subprocess.Popen[bytes], message: Any) -> None:
    assert worker.stdin is not None
    _write(worker.stdin, marshal.dumps(message))


def _receive(worker: subprocess.Popen[bytes]) -> bytes:
    assert worker.stdout is not None
    frame = _read(worker.stdout)
    if frame is None:
        raise EOFError("the worker ended")
    return frame


def _write(pipe: BinaryIO | Any, data: bytes) -> None:
    pipe.write(len(data).to_bytes(8, "little") + data)
    pipe.flush()


def _read(pipe: BinaryIO | Any) -> bytes | None:
    head = pipe.read(8)
    if len(head) < 8:
        return None
    size = int.from_bytes(head, "little")
    data: bytes = pipe.read(size)
    return data if len(data) == size else None


def _plain_job(jsonl: str, rules: Rules, way: Way | None) -> tuple[Any, ...]:
    prompt = rules.prompt
    texts = None if prompt is None else (prompt.user, prompt.system, sorted(prompt.fields))
    return os.path.abspath(jsonl), texts, rules.ids, way


def _plain_rows(found: Rows) -> tuple[Any, ...]:
    return (
        found.lines,
        found.ids,
        bytes(found.stated),
        bytes(found.digests),
        (found.lacking.count, found.lacking.first),
        (found.filled.count, found.filled.first),
        {name: (lines.count, lines.first) for name, lines in found.missing.items()},
        found.error,
    )


def _rows(plain: tuple[Any, ...]) -> Rows:
    if len(plain) == 2:
        raise OSError(*plain)
    lines, ids, stated, digests, lacking, filled, missing, error = plain
    return Rows(
        lines,
        ids,
        bytearray(stated),
        bytearray(digests),
        Lines(*lacking),
        Lines(*filled),
        {name: Lines(*found) for name, found in missing.items()},
        error,
    )


def _messages(pipe: BinaryIO | Any) -> Iterator[Any]:
    while (frame := _read(pipe)) is not None:
        yield marshal.loads(frame)


def main() -> None:
    """A worker: parts come over stdin, what they have goes over stdout."""
    import signal

    # Ctrl-C goes to the whole group; the one that started this says what happened, and closes stdin
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    messages = _messages(sys.stdin.buffer)
    jsonl, texts, ids, way = next(messages)
    prompt = None if texts is None else Prompt(texts[0], texts[1], frozenset(texts[2]))
    digest = digester(Rules(prompt, ids), way)
    for start, end in messages:
        try:
            answer: tuple[Any, ...] = _plain_rows(read_part(jsonl, start, end, digest))
        except OSError as error:
            answer = (error.errno, error.strerror)
        _write(answers, marshal.dumps(answer))


def _processors() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1
