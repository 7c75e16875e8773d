"""doit's own state: a backend over the database, and the checker that compares content.

The backend writes nothing on a no-op, keeps finished tasks through a SIGKILL and bears several builders at once. The
checker takes the place of doit's MD5: the same content is never stale, whatever its timestamp.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any

from doit.dependency import FileChangedChecker

# the database and digests are imported where they are used: doit loads this module at every start
TYPE_CHECKING = False
if TYPE_CHECKING:
    from gymbuild.cache.database import Database

KIND = "doit"
LAST_KEY = "deps:"
"""What doit saves last of a finished task: from then on its record is whole."""
IGNORE_KEY = "ignore:"


class DatabaseBackend:
    """A doit backend: one record per task, written when the task has finished.

    Args:
        name: the database file.
        codec: doit's codec; not used, the database has its own.
        module_name: not used; part of doit's interface.
    """

    desc = "records in .cache/state.db; writes nothing when nothing ran"

    def __init__(self, name: str, codec: Any, *, module_name: str | None = None) -> None:
        from gymbuild.cache.database import NAME, Database, database

        self.name = os.path.abspath(name)
        folder, file = os.path.split(self.name)
        self._database = database(folder) if file == NAME else Database(self.name)
        self._tasks: dict[str, dict[str, Any]] = {}
        self._changed: dict[str, None] = {}
        self._told = False

    def _task(self, task_id: str) -> dict[str, Any]:
        task = self._tasks.get(task_id)
        if task is None:
            task = self._tasks[task_id] = self._database.get(KIND, task_id) or {}
        return task

    def get(self, task_id: str, dependency: str) -> Any:
        """The value saved for a task under `dependency`, or None."""
        return self._task(task_id).get(dependency)

    def set(self, task_id: str, dependency: str, value: Any) -> None:
        """Save a value; the record is written once the task's last value is set, and at `dump`."""
        self._task(task_id)[dependency] = value
        self._changed[task_id] = None
        if dependency == IGNORE_KEY:
            # what the index proves is not to be answered while a task is ignored
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(os.path.dirname(self.name), "index"))
        if dependency == LAST_KEY:
            self.dump()

    def in_(self, task_id: str) -> bool:
        """Whether anything is saved for a task."""
        return bool(self._task(task_id))

    def remove(self, task_id: str) -> None:
        """Forget a task."""
        if self._task(task_id):
            self._tasks[task_id] = {}
            self._changed[task_id] = None
            self.dump()

    def remove_all(self) -> None:
        """Forget every task."""
        for task_id in {*self._database.all(KIND), *self._tasks}:
            self._tasks[task_id] = {}
            self._changed[task_id] = None
        self.dump()

    def dump(self) -> None:
        """Write what is not written yet."""
        records = []
        for task_id in self._changed:
            task = self._tasks[task_id]
            records.append((KIND, task_id, _plain(task) or None))
            if IGNORE_KEY in task or not task:
                records.append(("ignored", task_id, True if IGNORE_KEY in task else None))
        self._changed.clear()
        try:
            self._database.put(records)
        except OSError as error:
            # doit's bookkeeping: what is current is decided from records of our own
            if not self._told:
                self._told = True
                print(
                    f"warning: {self.name}: {error.strerror}; doit will not remember this run",
                    file=sys.stderr,
                )


def some_are_ignored(remembered: Database) -> bool:
    """Whether any task is ignored (`doit ignore`)."""
    return bool(remembered.all("ignored"))


def _plain(value: Any) -> Any:
    """`value` as what JSON can write."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


class DigestChecker(FileChangedChecker):  # type: ignore[misc]
    """Whether a `file_dep` changed, by the XXH3-128 of its content.

    After a change of the timestamp alone the new `stat` is remembered, so that the file is not hashed again.
    """

    CheckerError = OSError

    def __init__(self) -> None:
        from gymbuild.cache.database import database
        from gymbuild.cache.digests import DigestCache

        root = os.getcwd()
        self._digests = DigestCache(database(os.path.join(root, ".cache")), root)

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
