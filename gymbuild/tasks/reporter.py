"""What a run prints: doit's lines, failures in words, and one line at the end that counts."""

from __future__ import annotations

from typing import Any

from doit.exceptions import BaseFail, TaskFailed, UnmetDependency
from doit.reporter import ConsoleReporter

from gymbuild.system.errors import EXIT_FAILED, EXIT_MAY_PASS


class GymbuildTaskFailed(TaskFailed):  # type: ignore[misc]
    """A task of ours that failed, with the exit code that its command ends with.

    Args:
        message: for the reader.
        exit_code: 76, 75, 3 or 1.
    """

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Reporter(ConsoleReporter):  # type: ignore[misc]
    """doit's console reporter with failures for the reader and a closing count."""

    desc = "doit's console output, failures in words, and a closing count"

    def __init__(self, outstream: Any, options: dict[str, Any]) -> None:
        super().__init__(outstream, options)
        self.exit_codes: list[int] = []
        """Of the tasks that failed."""
        self.done = 0
        self.failed: list[str] = []
        self.left: list[str] = []
        self.current = 0
        """Tasks that had nothing to do, those included that were never handed to doit."""

    def execute_task(self, task: Any) -> None:
        """Called when the execution of a task starts."""
        super().execute_task(task)
        self.outstream.flush()

    def skip_uptodate(self, task: Any) -> None:
        """Called for a task that is current; groups are only counted."""
        if not task.has_subtask and not task.name.startswith("venv:"):
            self.current += 1
            super().skip_uptodate(task)

    def add_success(self, task: Any) -> None:
        """Called when a task has finished well."""
        if task.actions:
            self.done += 1

    def add_failure(self, task: Any, fail: BaseFail) -> None:
        """Called when a task has failed, or cannot run because one that it needs has."""
        if isinstance(fail, GymbuildTaskFailed):
            self.exit_codes.append(fail.exit_code)
            self.failed.append(task.name)
            self.write(f"FAILED {task.name}\n{_indented(fail.message)}\n")
        elif isinstance(fail, UnmetDependency):
            if not task.has_subtask:
                self.left.append(task.name)
                self.write(f"left out {task.name}: {', '.join(fail.message.split())} failed\n")
        else:
            self.failed.append(task.name)
            super().add_failure(task, fail)
        self.outstream.flush()

    def complete_run(self) -> None:
        """Called at the end."""
        if self.runtime_errors:
            self.write("Execution aborted.\n" + "\n".join(self.runtime_errors) + "\n")

    def exit_code(self, doits: int) -> int:
        """The command's exit code: 76 if any failure is of that kind, else 75 if any, else doit's own.

        Args:
            doits: doit's.
        """
        for code in (EXIT_FAILED, EXIT_MAY_PASS):
            if code in self.exit_codes:
                return code
        return self.exit_codes[0] if self.exit_codes else doits


def _indented(text: str) -> str:
    return "\n".join("  " + line if line else "" for line in text.rstrip().splitlines())
