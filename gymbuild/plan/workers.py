"""Reading a large prepared file in several processes: parts that end at line ends, results in the file's order.

A worker is a fresh Python that imports only this package: no fork of a process that may have threads, and no
import of the caller's main module. It is given parts over its stdin and answers over its stdout, both in
marshal frames. It ends when its stdin does, and so with the process that started it.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any, BinaryIO

from gymbuild.errors import PlanError
from gymbuild.plan.digesting import Lines, Rows, Rules, Way, digester
from gymbuild.plan.prompts import Prompt
from gymbuild.plan.reading import PART, read_part

_START = "import sys; sys.path[:] = {path!r}; from gymbuild.plan.workers import main; main()"


def read_in_processes(
    jsonl: str, size: int, rules: Rules, processes: int, way: Way | None, part: int = PART
) -> Rows:
    """The ids and digests of all rows, from several processes.

    Args:
        jsonl: the file.
        size: its bytes.
        rules: prompt template and the rule for ids.
        processes: how many work at once.
        way: see `digester`.
        part: bytes that a process is given at a time.

    Raises:
        OSError: the file cannot be read.
        PlanError: a process ended before it had answered.
    """
    parts = [(start, min(start + part, size)) for start in range(0, size, part)]
    answers: dict[int, bytes] = {}
    waiting = iter(enumerate(parts))
    changed = threading.Condition()
    failures: list[Exception] = []
    stop = threading.Event()

    def serve() -> None:
        try:
            with _worker() as worker:
                _send(worker, _plain_job(jsonl, rules, way))
                while not stop.is_set():
                    with changed:
                        index, bounds = next(waiting, (-1, (0, 0)))
                    if index < 0:
                        return
                    _send(worker, bounds)
                    answer = _receive(worker)
                    with changed:
                        answers[index] = answer
                        changed.notify_all()
        except Exception as error:
            with changed:
                failures.append(error)
                changed.notify_all()

    threads = [threading.Thread(target=serve, daemon=True) for _ in range(processes)]
    for thread in threads:
        thread.start()
    found = Rows()
    try:
        for index in range(len(parts)):
            with changed:
                while index not in answers and not failures:
                    changed.wait()
                if failures:
                    raise failures[0]
                answer = answers.pop(index)
            found.extend(_rows(marshal.loads(answer)))
            if found.error is not None:
                break
    finally:
        stop.set()
        with changed:
            for _ in waiting:
                pass
        for thread in threads:
            thread.join()
    return found


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
    try:
        _write(worker.stdin, marshal.dumps(message))
    except BrokenPipeError:
        raise _ended(worker) from None


def _receive(worker: subprocess.Popen[bytes]) -> bytes:
    assert worker.stdout is not None
    frame = _read(worker.stdout)
    if frame is None:
        raise _ended(worker)
    return frame


def _ended(worker: subprocess.Popen[bytes]) -> PlanError:
    return PlanError(f"a process that reads the prepared file ended early (exit status {worker.wait()})")


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
