"""What is known by `stat` alone: the graph of the last start, and the tasks of it that are still current.

It is read from `.cache/index`, where every task has its witness, and (only when a task has to be made) from
`.cache/graph`, where the tasks themselves are. This module is on the path of a start that finds nothing to do,
so it imports next to nothing.
"""

from __future__ import annotations

import marshal
import os
import sys

from gymbuild.cache.record_log import RecordLog
from gymbuild.cache.witness import SIZE, holds, look_at, nothing_at, pack_signatures, signature

# not from typing: importing that costs a third of a start that finds nothing to do
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from gymbuild.cache.snapshot import Entry, Snapshot
    from gymbuild.cache.witness import Look
    from gymbuild.config.graph import Graph

FORMAT = 7
"""Raised when what is kept changes."""
_MANY = 500
"""Tasks from which on two threads look at files at once, and paths from which on the native module does."""
_ALONE = 16
"""Tasks of a snapshot that are looked at one by one before it is compared as a whole."""
CONFIGS = "benchmarks"
"""The folder of the checkout that configs are looked for in."""


def index_log(root: str) -> RecordLog:
    """The log of what proves that the graph (`graph`, `graph-rest`) and tasks are as they were: most tasks in one
    record (`tasks`, `absent`), those that were written since each by itself (`task:<task>`)."""
    return RecordLog(os.path.join(root, ".cache", "index"))


def own_tasks(index: RecordLog) -> list[str]:
    """The tasks that have a record of their own in an index."""
    return [key[len("task:") :] for key in list(index.keys()) if key.startswith("task:")]


def parts_log(root: str) -> RecordLog:
    """The log of the graph (`graph`) and of its tasks, each by itself."""
    return RecordLog(os.path.join(root, ".cache", "graph"))


def circumstances() -> tuple[int, str, str, str, str, str]:
    """What decides besides files: this gymbuild, the Python that it runs on, and where Pythons are looked for."""
    from gymbuild import __version__

    return (FORMAT, __version__, sys.byteorder, sys.executable, sys.version, os.environ.get("PATH", ""))


class Known:
    """What a checkout's index knows, compared with what is there. Every path is looked at once.

    Args:
        root: the checkout.
    """

    def __init__(self, root: str) -> None:
        self.root = root
        self._index = index_log(root)
        self._prefix = root + "/"
        self._look: Look | None = None
        self._tasks: dict[str, bool] = {}
        self._entries: dict[str, Entry | None] = {}
        self._snapshot: Snapshot | None = None
        self._snapshot_read = False
        self._own: set[str] = set()
        self._alone = 0
        self._unfinished: Snapshot | None = None
        self._graph_aside: Aside | None = None
        self._graph_differing: list[int] = []
        record = self._index.get("graph")
        if record is not None and record["format"] != circumstances():
            record = None
        if record is not None and _is_disturbed(os.path.join(root, ".cache")):
            record = None
        self.record: dict[str, Any] | None = record
        """The graph's record; None when there is none that could be used."""
        self.refused = False
        """Whether it was asked already if all is current, and it is not."""
        self._graph_holds: bool | None = None
        self._rest: dict[str, Any] | None = None

    def graph_holds(self) -> bool:
        """Whether the graph would be the same if it were made anew."""
        if self._graph_holds is None:
            self._graph_holds = self.record is not None and self._graph_is_same(self.record)
        return self._graph_holds

    def task_named(self, word: str) -> str | None:
        """The task that a word of the command line names, by its own name or a benchmark's."""
        name: str | None = self._graph_rest()["names"].get(word)
        return name

    def _graph_rest(self) -> dict[str, Any]:
        """What of the graph's record is not needed by every start; empty when it is lost."""
        if self._rest is None:
            assert self.record is not None
            found = self._index.get("graph-rest")
            lost = found is None or found["token"] != self.record["token"]
            self._rest = {"names": {}, "folders": {}, "tokens": {}} if lost else found
        return self._rest

    def _differences(self, paths: bytes, signatures: bytes, most: int = 0) -> list[int]:
        return self._looking().differences(paths, signatures, most)

    def _looking(self) -> Look:
        if self._look is None:
            # loading the native module takes as long as some hundred looks
            few = self.record is None or len(self.record["signatures"]) < SIZE * _MANY
            self._look = look_at(self.root, plain=few)
        return self._look

    def _graph_is_same(self, record: dict[str, Any]) -> bool:
        if self._unfinished is not None:
            differing = self._finish(self._unfinished)
        else:
            differing = self._differences(record["paths"], record["signatures"])
        if differing:
            names = record["paths"].split(b"\0")
            if not all(self._has_same_configs(os.fsdecode(names[at])) for at in differing):
                return False
        return holds(((), record["variables"]), self.root)

    def _has_same_configs(self, folder: str) -> bool:
        """Whether a folder that changed has the same folders and YAML files in it: then no config came or went.

        Preparations change their folders: prepared files are put there.
        """
        names = self._graph_rest()["folders"].get(folder)
        path = self._prefix + folder
        # one that has become a symlink may lead out of the checkout
        return names is not None and not os.path.islink(path) and names == config_names(path)

    def configs_stay(self, paths: Iterable[str]) -> bool:
        """Whether the folders that files lie in have the configs that they had when the graph was made.

        Args:
            paths: of files below `benchmarks`, relative to the checkout.
        """
        record = self.record
        if record is None:
            return False
        folders = set()
        for path in paths:
            while (path := os.path.dirname(path)).startswith(CONFIGS):
                folders.add(path)
        there = [folder for folder in folders if os.path.isdir(self._prefix + folder)]
        return all(self._is_untouched(folder) or self._has_same_configs(folder) for folder in there)

    def _is_untouched(self, folder: str) -> bool:
        """Whether a folder has the signature now that it had when the graph was made."""
        assert self.record is not None
        now, packed = pack_signatures([(folder, signature(self._prefix + folder))])
        paths = b"\0" + self.record["paths"] + b"\0"
        position = paths.find(b"\0" + now + b"\0")
        if position < 0:
            return False
        at = paths.count(b"\0", 0, position) * len(packed)
        expected: bytes = self.record["signatures"][at : at + len(packed)]
        return expected == packed

    # -- tasks -----------------------------------------------------------------------------------------------------

    def sources(self, task: str) -> tuple[str, ...] | None:
        """The tasks whose outputs a task reads; None when nothing is known of it."""
        snapshot = self._snapshot_of(task)
        if snapshot is not None:
            return snapshot.sources(task)
        entry = self._entry(task)
        return None if entry is None else entry[8]

    def is_current(self, task: str) -> bool:
        """Whether a task, and every one whose output it reads, is current for certain. The graph has to hold."""
        known = self._tasks.get(task)
        if known is None:
            self._tasks[task] = False
            known = not self._problems_of(task) and self._is_as_it_was(task)
            self._tasks[task] = known
        return known

    def problems(self, task: str) -> tuple[str, ...]:
        """Why a task cannot be built, where that is known for certain; else nothing. The graph has to hold."""
        found = self._problems_of(task)
        return found if found and self._is_as_it_was(task) else ()

    def _problems_of(self, task: str) -> tuple[str, ...]:
        snapshot = self._snapshot_of(task)
        if snapshot is not None:
            return snapshot.problems(task)
        entry = self._entry(task)
        return () if entry is None else entry[9]

    def _is_as_it_was(self, task: str) -> bool:
        snapshot = self._snapshot_of(task)
        if snapshot is not None:
            return self._holds_in(snapshot, task)
        entry = self._entry(task)
        return entry is not None and self._holds(task, entry)

    def _entry(self, task: str) -> Entry | None:
        if task not in self._entries:
            self._entries[task] = self._index.get("task:" + task)
        return self._entries[task]

    def look_at_all(self, tasks: Iterable[str]) -> bool:
        """Look at everything at once, before many tasks are asked for.

        Args:
            tasks: that will be asked for.

        Returns:
            False when one of them is not current for certain; the rest is then looked at while others go on.
        """
        snapshot = self.snapshot()
        if snapshot is None or len(snapshot) < _MANY or not self._looking().releases_the_lock:
            return True
        assert self.record is not None
        paths, signatures = self.record["paths"], self.record["signatures"]
        # each with a look of its own: what one has seen, the other does not know
        look, other = self._looking(), look_at(self.root)
        asked = set(tasks)
        self._unfinished = snapshot
        # what changed last is likely to have changed again
        if not all(self.is_current(task) or self.problems(task) for task in asked & self._own):
            self._look_at_rest(snapshot, other)
            return False
        half = snapshot.count_files() // 2
        aside = Aside(lambda: snapshot.changed_files(other, half))
        changed = snapshot.changed_files(look, 0, half)
        snapshot.note_changed([*changed, *aside.result()])
        if any(task in asked and task not in self._own for task in snapshot.changed_tasks()):
            self._look_at_rest(snapshot, None)
            return False
        half = len(signatures) // SIZE // 2
        self._graph_aside = Aside(lambda: other.differences(paths, signatures, 0, half))
        self._graph_differing = look.differences(paths, signatures, 0, 0, half)
        return True

    def _look_at_rest(self, snapshot: Snapshot, files: Look | None) -> None:
        """Begin to look at what the graph depends on, and at the tasks' folders, which are among it.

        Args:
            snapshot: that has the folders.
            files: with which to look at the tasks' files before; None when that has been done.
        """
        assert self.record is not None
        paths, signatures, look = self.record["paths"], self.record["signatures"], self._looking()

        # one thread: the other processor is for what goes on meanwhile
        def rest() -> list[int]:
            if files is not None:
                snapshot.note_changed(snapshot.changed_files(files))
            differing = look.differences(paths, signatures)
            snapshot.note_folders(snapshot.changed_folders(look))
            return differing

        self._graph_aside = Aside(rest)

    def _finish(self, snapshot: Snapshot) -> list[int]:
        """Wait for what `look_at_all` has begun.

        Returns:
            the paths of the graph's witness that differ.
        """
        self._unfinished = None
        assert self._graph_aside is not None
        differing = [*self._graph_differing, *self._graph_aside.result()]
        if not snapshot.is_compared:
            snapshot.note_folders(snapshot.changed_folders(self._looking()))
        self._note_certain(snapshot)
        return differing

    def _note_certain(self, snapshot: Snapshot) -> None:
        """Take down, once a snapshot is compared, which of its tasks are current for certain."""
        if snapshot.is_compared and self.record is not None and snapshot.graph == self.record["token"]:
            certain = snapshot.certain()
            for task in self._own:
                certain.pop(task, None)
            self._tasks = {**certain, **self._tasks}

    def snapshot(self) -> Snapshot | None:
        """The tasks that are kept in one record."""
        if not self._snapshot_read:
            self._snapshot_read = True
            record = self._index.get("tasks")
            if record is not None:
                from gymbuild.cache.snapshot import Snapshot

                self._snapshot = Snapshot(record, lambda: self._index.get("absent"))
                # what was written of a task since counts, not what is in the snapshot
                self._own = set(own_tasks(self._index))
        return self._snapshot

    def _snapshot_of(self, task: str) -> Snapshot | None:
        snapshot = self.snapshot()
        return snapshot if snapshot is not None and task not in self._own and task in snapshot else None

    def _holds_in(self, snapshot: Snapshot, task: str) -> bool:
        assert self.record is not None
        if not snapshot.is_compared:
            self._alone += 1
            if self._alone > _ALONE:
                snapshot.note_changed(snapshot.changed_files(self._looking()))
                snapshot.note_folders(snapshot.changed_folders(self._looking()))
                self._note_certain(snapshot)
        return (
            # what is known of a task says nothing once its config asks for something else
            (snapshot.graph == self.record["token"] or snapshot.token(task) == self.tokens().get(task))
            and snapshot.holds(task, self._looking())
            and self._rest_holds(snapshot.variables(task), snapshot.sources(task))
        )

    def _holds(self, task: str, entry: Entry) -> bool:
        assert self.record is not None
        graph, token, paths, signatures, folders, folder_signatures, absent, variables, sources, _ = entry
        return (
            (graph == self.record["token"] or token == self.tokens().get(task))
            and not self._differences(paths, signatures, 1)
            and self._are_absent(folders, folder_signatures, absent)
            and self._rest_holds(variables, sources)
        )

    def tokens(self) -> dict[str, str]:
        """By task of the graph, the digest of what its config asks for."""
        tokens: dict[str, str] = self._graph_rest()["tokens"]
        return tokens

    def written_alone(self) -> dict[str, Entry]:
        """The entries of the tasks that have a record of their own."""
        entries = {task: self._index.get("task:" + task) for task in own_tasks(self._index)}
        return {task: entry for task, entry in entries.items() if entry is not None}

    def _are_absent(self, folders: bytes, signatures: bytes, absent: bytes) -> bool:
        """Whether what was missing still is: where nothing was added to a folder, nothing in it needs a look."""
        differing = self._differences(folders, signatures)
        if not differing:
            return True
        lists = marshal.loads(absent)
        return not any(self._differences(lists[at], nothing_at(lists[at]), 1) for at in differing)

    def _rest_holds(self, variables: tuple[tuple[str, str | None], ...], sources: tuple[str, ...]) -> bool:
        return (not variables or holds(((), variables), self.root)) and all(map(self.is_current, sources))

    def graph(self, anew: Callable[[], Graph]) -> Graph | None:
        """The graph, its tasks read when they are asked for; None when it has to be made anew.

        Args:
            anew: makes the whole graph, for the case that a task in it turns out to be damaged.
        """
        if self.record is None or not self.graph_holds():
            return None
        log = parts_log(self.root)
        parts = log.get("graph")
        if parts is None or parts["token"] != self.record["token"]:
            return None
        from gymbuild.config.graph import kept_graph

        return kept_graph(parts, log.get, anew)


class Aside:
    """A look at files in a thread of its own, which runs while others do.

    Args:
        call: gives the numbers of the paths that differ.
    """

    def __init__(self, call: Callable[[], list[int]]) -> None:
        import _thread

        self._call = call
        self._result: list[int] | None = None
        self._done = _thread.allocate_lock()
        self._done.acquire()
        try:
            _thread.start_new_thread(self._run, ())
        except RuntimeError:
            # no thread is to be had: it is called when it is asked for
            self._done.release()

    def _run(self) -> None:
        try:
            self._result = self._call()
        except Exception:
            self._result = None
        finally:
            self._done.release()

    def result(self) -> list[int]:
        """Wait for the result."""
        with self._done:
            if self._result is None:
                self._result = self._call()
            return self._result


def pack(plain: Any) -> bytes:
    """Plain data as one part of the kept graph.

    Raises:
        ValueError: it holds something that marshal cannot write.
    """
    return marshal.dumps(plain, 2)


def unpack(part: bytes) -> dict[str, Any]:
    """The plain data that `pack` packed."""
    found: dict[str, Any] = marshal.loads(part)
    return found


def config_names(folder: str) -> tuple[str, ...] | None:
    """The names in a folder that matter for configs: folders and YAML files; None when it is no readable folder."""
    try:
        with os.scandir(folder) as entries:
            return tuple(
                sorted(
                    entry.name
                    for entry in entries
                    if entry.name[:1] != "." and (entry.name.endswith(".yaml") or entry.is_dir())
                )
            )
    except OSError:
        return None


_handed: dict[str, Known] = {}


def hand_over(known: Known) -> None:
    """Leave what was just compared to the session of this process, which then need not do so again."""
    _handed[known.root] = known


def take(root: str) -> Known:
    """What was handed over, once; else what is known now."""
    return _handed.pop(root, None) or Known(root)


def drop(root: str) -> None:
    """Forget what was handed over: something has been done since."""
    _handed.pop(root, None)


def _is_disturbed(cache: str) -> bool:
    """Whether a task is ignored, or a run was cut off: then nothing is known."""
    return os.path.exists(os.path.join(cache, "ignored")) or _has_entries(os.path.join(cache, "journal"))


def _has_entries(folder: str) -> bool:
    """Whether a folder, or one below it, has any file."""
    try:
        with os.scandir(folder) as entries:
            return any(not entry.is_dir() or _has_entries(entry.path) for entry in entries)
    except OSError:
        return False
