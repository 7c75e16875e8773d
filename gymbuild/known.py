"""What is known by `stat` alone: the graph of the last start, and the tasks of it that are still current.

It is read from `.cache/index`, where every task has its witness, and (only when a task has to be made) from
`.cache/graph`, where the tasks themselves are. This module is on the path of a start that finds nothing to do,
so it imports next to nothing.
"""

from __future__ import annotations

import marshal
import os
import sys

from gymbuild.record_log import RecordLog
from gymbuild.witness import holds, signature

# not from typing: importing that costs a third of a start that finds nothing to do
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from gymbuild.graph import Graph
    from gymbuild.witness import Signature, Witness

FORMAT = 4
"""Raised when what is kept changes."""
CONFIGS = "benchmarks"
"""The folder of the checkout that configs are looked for in."""


def index_log(root: str) -> RecordLog:
    """The log of the graph's record (`graph`) and of each task's (`task:<task>`)."""
    return RecordLog(os.path.join(root, ".cache", "index"))


def parts_log(root: str) -> RecordLog:
    """The log of the graph's tasks, each kept so that it can be read by itself."""
    return RecordLog(os.path.join(root, ".cache", "graph"))


def circumstances() -> tuple[int, str, str, str, str]:
    """What decides besides files: this gymbuild, the Python that it runs on, and where Pythons are looked for."""
    from gymbuild import __version__

    return (FORMAT, __version__, sys.executable, sys.version, os.environ.get("PATH", ""))


class Known:
    """What a checkout's index knows, compared with what is there. Every path is looked at once.

    Args:
        root: the checkout.
    """

    def __init__(self, root: str) -> None:
        self.root = root
        self._index = index_log(root)
        self._prefix = root + "/"
        self._found: dict[str, Signature | None] = {}
        self._tasks: dict[str, bool] = {}
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

    def graph_holds(self) -> bool:
        """Whether the graph would be the same if it were made anew."""
        if self._graph_holds is None:
            self._graph_holds = self.record is not None and self._graph_is_same(self.record)
        return self._graph_holds

    def _graph_is_same(self, record: dict[str, Any]) -> bool:
        found, prefix = self._found, self._prefix
        for path, expected in record["witness"][0]:
            now = found[path] = signature(path if path[:1] == "/" else prefix + path)
            if now != expected and not self._has_same_configs(path):
                return False
        return holds(((), record["witness"][1]), self.root)

    def _has_same_configs(self, folder: str) -> bool:
        """Whether a folder that changed has the same folders and YAML files in it: then no config came or went.

        Preparations change their folders: prepared files are put there.
        """
        assert self.record is not None
        names = self.record["folders"].get(folder)
        return names is not None and names == config_names(self._prefix + folder)

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
        return all(
            self._has_same_configs(folder) for folder in folders if os.path.isdir(self._prefix + folder)
        )

    def sources(self, task: str) -> tuple[str, ...] | None:
        """The tasks whose outputs a task reads; None when nothing is known of it."""
        entry = self._index.get("task:" + task)
        return None if entry is None else entry[1]

    def is_current(self, task: str) -> bool:
        """Whether a task, and every one whose output it reads, is current for certain. The graph has to hold."""
        known = self._tasks.get(task)
        if known is None:
            self._tasks[task] = False
            entry = self._index.get("task:" + task)
            known = (
                entry is not None
                and self.record is not None
                # what is known of a task says nothing once its config asks for something else
                and entry[3] == self.record["tokens"].get(task)
                and self._holds(entry[0], entry[2])
                and all(self.is_current(source) for source in entry[1])
            )
            self._tasks[task] = known
        return known

    def _holds(
        self, witness: Witness, absent: Iterable[tuple[str, Signature | None, tuple[str, ...]]]
    ) -> bool:
        found, prefix = self._found, self._prefix
        for path, expected in witness[0]:
            if path not in found:
                found[path] = signature(path if path[:1] == "/" else prefix + path)
            if found[path] != expected:
                return False
        for folder, expected, names in absent:
            if folder not in found:
                found[folder] = signature(folder if folder[:1] == "/" else prefix + folder)
            if expected is not None and found[folder] == expected:
                # nothing was added to the folder, so what was missing in it still is
                continue
            for path in names:
                if path not in found:
                    found[path] = signature(path if path[:1] == "/" else prefix + path)
                if found[path] is not None:
                    return False
        return not witness[1] or holds(((), witness[1]), self.root)

    def graph(self) -> Graph | None:
        """The graph, its tasks made when they are asked for; None when it has to be made anew."""
        if self.record is None or not self.graph_holds():
            return None
        parts = parts_log(self.root).get("parts")
        if parts is None or parts["token"] != self.record["token"]:
            return None
        from gymbuild.graph import kept_graph

        return kept_graph(parts)


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
