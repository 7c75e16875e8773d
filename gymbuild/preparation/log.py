"""What a script prints: shown as it comes, and written to its log, in whole lines with secrets masked."""

from __future__ import annotations

import codecs
import contextlib
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import IO

from gymbuild.system.locks import lock_descriptor, lock_path, unlock_descriptor
from gymbuild.system.masking import mask, secret_values
from gymbuild.system.paths import Checkout

_TAIL_LINES = 20
"""How many of the last lines an error carries."""
_LONGEST_LINE = 1 << 20
"""Characters of a line without end after which it is passed on in pieces."""

Show = Callable[[str], object]


class Log:
    """What one script prints.

    A line that is overwritten in place (it ends in a carriage return, as progress bars do) is shown as it comes
    where one script runs alone; it is left out of the log file and of what several scripts print side by side.

    Args:
        checkout: the checkout.
        path: the log file, relative to the checkout or absolute; empty for none.
        secrets: what is masked.
        anew: begin the log file anew; else append to it.
        label: put before each line that is shown, where several scripts run at once.
        show: takes what is to be shown, whole lines as they come; default `sys.stdout`.

    Raises:
        OSError: the log file cannot be written.
    """

    def __init__(
        self,
        checkout: Checkout,
        path: str,
        secrets: list[str],
        *,
        anew: bool = True,
        label: str | None = None,
        show: Show | None = None,
    ) -> None:
        self.name = checkout.relative(path) if path else None
        """The log file, relative to the checkout."""
        self.tail: deque[str] = deque(maxlen=_TAIL_LINES)
        """The last lines."""
        self.secrets = secrets
        self._label = f"{label} | " if label else ""
        self._show = show or _show_on_stdout
        self._longest_secret = max((len(secret) for secret in secrets), default=1)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pending = ""
        self._file: IO[str] | None = None
        self._lock: int | None = None
        if path:
            absolute = checkout.absolute(path)
            os.makedirs(os.path.dirname(absolute), exist_ok=True)
            self._file = open(absolute, "w" if anew else "a", encoding="utf-8", errors="replace")  # noqa: SIM115
        if self._label:
            with contextlib.suppress(OSError):
                lock = lock_path(checkout, "output")
                os.makedirs(os.path.dirname(lock), exist_ok=True)
                self._lock = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *exception: object) -> None:
        self.write(b"", final=True)
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
        if self._lock is not None:
            os.close(self._lock)

    def write(self, data: bytes, *, final: bool = False) -> None:
        """Pass on what is complete.

        Args:
            data: bytes as they came.
            final: nothing will follow, a last line without end is passed on as well.
        """
        text = self._pending + self._decoder.decode(data, final)
        lines = []
        start = 0
        while (end := _line_end(text, start, final)) is not None:
            lines.append(text[start:end])
            start = end
        self._pending = text[start:]
        if final and self._pending:
            lines.append(self._pending + "\n")
            self._pending = ""
        elif len(self._pending) > _LONGEST_LINE:
            # a secret may reach into what is yet to come: as much as it could be long waits
            self._pending = mask(self._pending, self.secrets)
            cut = len(self._pending) - self._longest_secret + 1
            lines.append(self._pending[:cut])
            self._pending = self._pending[cut:]
        if lines:
            self._pass_on([mask(line, self.secrets) for line in lines])

    def _pass_on(self, lines: list[str]) -> None:
        whole = [line.replace("\r\n", "\n") for line in lines if not line.endswith("\r")]
        for line in whole:
            self.tail.append(line.rpartition("\r")[2].rstrip("\n"))
        if self._file is not None:
            try:
                self._file.write("".join(whole))
                self._file.flush()
            except OSError as error:
                self._file = None
                whole.append(f"(the log {self.name} cannot be written any more: {error.strerror})\n")
        shown = [self._label + line for line in whole] if self._label else lines
        if shown:
            with _one_at_a_time(self._lock):
                self._show("".join(shown))

    def describe(self, what: str) -> str:
        """A failure with the last lines of output, and where the rest of it is; secrets masked."""
        if self.tail:
            what += "\n  last lines of its output:\n" + "\n".join(f"    {line}" for line in self.tail)
        if self.name:
            what += f"\n  log: {self.name}"
        return mask(what, self.secrets)


def _line_end(text: str, start: int, final: bool) -> int | None:
    """Where the line that begins at `start` ends (behind its `\\n`, `\\r` or `\\r\\n`), or None when it does not."""
    newline = text.find("\n", start)
    limit = len(text) if newline < 0 else newline
    carriage = text.find("\r", start, limit)
    if carriage >= 0 and carriage + 1 != newline and (carriage + 1 < len(text) or final):
        return carriage + 1
    return None if newline < 0 else newline + 1


_show_lock = threading.Lock()


@contextlib.contextmanager
def _one_at_a_time(descriptor: int | None) -> Iterator[None]:
    """Lines stay whole that several threads and processes print: a pipe takes long ones in pieces."""
    with _show_lock:
        locked = descriptor is not None and lock_descriptor(descriptor)
        try:
            yield
        finally:
            if locked and descriptor is not None:
                unlock_descriptor(descriptor)


def _show_on_stdout(text: str) -> None:
    stream = sys.stdout
    try:
        try:
            stream.write(text)
        except UnicodeEncodeError:
            encoding = getattr(stream, "encoding", None) or "ascii"
            stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except (BrokenPipeError, ValueError):
        pass  # nobody reads any more; the log has it all


def secrets_to_mask(environment: Mapping[str, str]) -> list[str]:
    """Secret values of the script's variables and of our own, and the lines of those that have several."""
    values = {*secret_values(environment), *secret_values()}
    for value in list(values):
        if "\n" in value or "\r" in value:
            values.update(line for line in value.splitlines() if len(line) >= 8)
    return sorted(values, key=lambda value: (-len(value), value))
