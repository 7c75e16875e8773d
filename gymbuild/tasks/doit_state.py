"""doit's own state: a backend that writes nothing on a no-op, and the checker that compares content.

The backend keeps finished tasks through a SIGKILL and bears several builders at once. The checker takes the
place of doit's MD5: the same content is never stale, whatever its timestamp.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from doit.dependency import FileChangedChecker

from gymbuild.cache.digests import DigestCache
from gymbuild.cache.record_log import RecordLog

LAST_KEY = "deps:"
"""What doit saves last of a finished task: from then on its record is whole."""
IGNORE_KEY = "ignore:"
IGNORES = "ignored"
"""The file beside the database that is there while any task is ignored (`doit ignore`)."""


class LogBackend:
    """A doit backend over a record log: one record per task, appended when the task has finished.

    Args:
        name: the database file.
        codec: doit's codec; not used, the log has its own.
        module_name: not used; part of doit's interface.
    """

    desc = "append-only log; writes nothing when nothing ran"

    def __init__(self, name: str, codec: Any, *, module_name: str | None = None) -> None:
        self.name = name
        self._log = RecordLog(name)
        self._tasks: dict[str, dict[str, Any]] = {}
        self._changed: dict[str, None] = {}
        self._ignores_changed = False
        self._told = False

    def _task(self, task_id: str) -> dict[str, Any]:
        task = self._tasks.get(task_id)
        if task is None:
            task = self._tasks[task_id] = self._log.get(task_id) or {}
        return task

    def get(self, task_id: str, dependency: str) -> Any:
        """The value saved for a task under `dependency`, or None."""
        return self._task(task_id).get(dependency)

    def set(self, task_id: str, dependency: str, value: Any) -> None:
        """Save a value; the record is written once the task's last value is set, and at `dump`."""
        task = self._task(task_id)
        task[dependency] = value
        self._changed[task_id] = None
        self._ignores_changed |= dependency == IGNORE_KEY
        if dependency == LAST_KEY:
            self._write()

    def in_(self, task_id: str) -> bool:
        """Whether anything is saved for a task."""
        return bool(self._task(task_id))

    def remove(self, task_id: str) -> None:
        """Forget a task."""
        if task := self._task(task_id):
            self._ignores_changed |= IGNORE_KEY in task
            self._tasks[task_id] = {}
            self._changed[task_id] = None
            self._write()

    def remove_all(self) -> None:
        """Forget every task."""
        self._ignores_changed = True
        for task_id in {*self._log.keys(), *self._tasks}:
            self._tasks[task_id] = {}
            self._changed[task_id] = None
        self._write()

    def dump(self) -> None:
        """Write what is not written yet."""
        self._write()

    def _write(self) -> None:
        if not self._changed:
            return
        records = [(task_id, _plain(self._tasks[task_id]) or None) for task_id in self._changed]
        self._changed.clear()
        try:
            self._log.put(records)
        except OSError as error:
            # doit's bookkeeping: what is current is decided from records of our own
            if not self._told:
                self._told = True
                print(
                    f"warning: {self.name}: {error.strerror}; doit will not remember this run",
                    file=sys.stderr,
                )
            return
        if self._ignores_changed:
            self._ignores_changed = False
            self._note_ignored()

    def _note_ignored(self) -> None:
        """Keep the marker file that tells a start without doit that some task is ignored."""
        marker = os.path.join(os.path.dirname(os.path.abspath(self.name)), IGNORES)
        some = any((self._log.get(task_id) or {}).get(IGNORE_KEY) for task_id in list(self._log.keys()))
        if some and not os.path.exists(marker):
            with open(marker, "w", encoding="ascii"):
                pass
        elif not some and os.path.exists(marker):
            os.unlink(marker)


def _plain(value: Any) -> Any:
    """`value` as what marshal can write."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, str | int | float | bool | bytes) else str(value)


class DigestChecker(FileChangedChecker):  # type: ignore[misc]
    """Whether a `file_dep` changed, by the XXH3-128 of its content.

    After a change of the timestamp alone the new `stat` is remembered, so that the file is not hashed again.
    """

    CheckerError = OSError

    def __init__(self) -> None:
        root = os.getcwd()
        self._digests = DigestCache(os.path.join(root, ".cache", "digests"), root)

    def check_modified(self, file_path: str, file_stat: os.stat_result, state: Any) -> bool:
        """Whether the file's content is another than the one that `state` is the digest of."""
        digest = self._digests.get(os.path.abspath(file_path))
        self._digests.save()
        return digest is None or digest != state

    def get_state(self, dep: str, current_state: Any) -> Any:
        """The digest of the file's content, or None when it is the saved one already.

        Raises:
            FileNotFoundError: it is not there.
        """
        digest = self._digests.get(os.path.abspath(dep))
        if digest is None:
            os.stat(dep)
            raise IsADirectoryError(dep)
        return None if digest == current_state else digest
