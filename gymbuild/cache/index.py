"""The index of a checkout: what a start reads first. One file, `.cache/index`, written as a whole and read as a whole.

It has what proves, by `stat` alone, that the graph is the one of the last start, and for every task that was found
current what proves that it is so still. It only ever says what was compared by content; that something differs proves
nothing, and the whole decision is made. This module is on the path of a start that finds nothing to do, so it imports
next to nothing.
"""

from __future__ import annotations

import marshal
import os
import sys
import zlib

from gymbuild.cache.witness import NOTHING, Comparison, signature, variables_hold
from gymbuild.system.version import __version__

# not from typing: importing that costs a third of a start that finds nothing to do
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    Entry = tuple[
        str,
        str,
        bytes,
        str,
        bytes,
        tuple[str, ...],
        tuple[tuple[str, str | None], ...],
        tuple[str, ...],
        tuple[str, ...],
    ]
    """What is written of a task: the digest of what its config asks for; paths and signatures (packed); folders and
    signatures (packed), and for each the paths in it that were not there, with zero bytes between; environment
    variables; the tasks whose products it reads; why it cannot be built, if so."""

MAGIC = b"gymbuild index 2\n"
"""How the file begins; raised when what is written changes its shape."""
CONFIGS = "benchmarks"
"""The folder of the checkout that configs are looked for in."""


def index_path(root: str) -> str:
    """Where the index of a checkout is."""
    return os.path.join(root, ".cache", "index")


def maker() -> tuple[str, str, str, str]:
    """What decides besides files: this gymbuild and the Python that it runs on."""
    return (__version__, sys.byteorder, sys.prefix, sys.version)


def read_index(root: str) -> dict[str, Any] | None:
    """The content of the index; None where there is none that is whole and of this gymbuild and Python."""
    try:
        with open(index_path(root), "rb") as file:
            data = file.read()
        start = len(MAGIC) + 4
        content = memoryview(data)[start:]
        if (
            data[: len(MAGIC)] != MAGIC
            or zlib.crc32(content).to_bytes(4, "little") != data[len(MAGIC) : start]
        ):
            return None
        found: dict[str, Any] = marshal.loads(content)
        return found if found["maker"] == maker() else None
    except (OSError, EOFError, ValueError, TypeError, KeyError):
        return None


def index_bytes(content: dict[str, Any]) -> bytes:
    """The file that `read_index` reads."""
    data = marshal.dumps(content, 2)
    return MAGIC + zlib.crc32(data).to_bytes(4, "little") + data


class Index:
    """A checkout's index, compared with what is there. Every path is looked up once.

    Args:
        root: the checkout.
    """

    def __init__(self, root: str) -> None:
        self.root = root
        self.at = signature(index_path(root))
        """The file, as it was when it was read."""
        content = read_index(root)
        if content is not None and _has_entries(os.path.join(root, ".cache", "journal")):
            # a run was cut off: what is there is not what was compared
            content = None
        self.content = content
        """What it holds; None when nothing of it can be used."""
        self.refused = False
        """Whether it was asked already if everything is current, and it is not."""
        self._comparison = Comparison(root)
        self._tasks: dict[str, bool] = {}
        self._entries: dict[str, Entry | None] = {}
        self._graph_holds: bool | None = None
        self._child: tuple[int, int] | None = None

    # -- comparing while something else is done ------------------------------------------------------------------

    def compare_meanwhile(self, tasks: Iterable[str]) -> None:
        """Have a child process compare the graph and these tasks, so that doit can be imported at the same time.

        Whatever keeps it from that, this process compares them when it is asked.
        """
        read, write = os.pipe()
        try:
            child = os.fork()
        except OSError:
            os.close(read)
            os.close(write)
            return
        if not child:
            try:
                found = (self.graph_holds(), [task for task in tasks if self.is_current(task)])
                with open(write, "wb") as pipe:
                    pipe.write(marshal.dumps(found, 2))
            finally:
                os._exit(0)
        os.close(write)
        self._child = (child, read)

    def _collect(self) -> None:
        """Take over what a child process has compared."""
        if self._child is None:
            return
        (child, read), self._child = self._child, None
        with open(read, "rb") as pipe:
            data = pipe.read()
        os.waitpid(child, 0)
        try:
            self._graph_holds, current = marshal.loads(data)
        except (EOFError, ValueError, TypeError):
            return
        self._tasks.update(dict.fromkeys(current, True))

    # -- the graph -----------------------------------------------------------------------------------------------

    def graph_holds(self) -> bool:
        """Whether the graph would be the same if it were made anew."""
        self._collect()
        if self._graph_holds is None:
            graph = self.content
            self._graph_holds = (
                graph is not None
                and all(
                    self._has_same_configs(path)
                    for path in self._comparison.differing(graph["paths"], graph["signatures"])
                )
                and variables_hold(graph["variables"])
            )
        return self._graph_holds

    def _has_same_configs(self, folder: str) -> bool:
        """Whether a folder that changed has the same folders and YAML files in it: then no config came or went.

        Preparations change their folders: prepared files are put there.
        """
        assert self.content is not None
        names = self.content["folders"].get(folder)
        path = os.path.join(self.root, folder)
        # one that has become a symlink may lead out of the checkout
        return names is not None and not os.path.islink(path) and names == config_names(path)

    def has_folders_of(self, paths: Iterable[str]) -> bool:
        """Whether the folders that files lie in have the configs that they had when the graph was made.

        Args:
            paths: of files below `benchmarks`, relative to the checkout.
        """
        if self.content is None:
            return False
        folders = set()
        for path in paths:
            while (path := os.path.dirname(path)).startswith(CONFIGS):
                folders.add(path)
        return all(
            self._has_same_configs(folder)
            for folder in folders
            if os.path.isdir(os.path.join(self.root, folder))
        )

    def task_named(self, word: str) -> str | None:
        """The task that a word of the command line names, by its own name or a benchmark's."""
        assert self.content is not None
        if word in self.content["tokens"]:
            return word
        name: str | None = self.content["nicknames"].get(word)
        return name

    # -- tasks ---------------------------------------------------------------------------------------------------

    def sources(self, task: str) -> tuple[str, ...]:
        """The tasks whose products a task reads, as far as that is written."""
        entry = self._entry(task)
        return () if entry is None else entry[7]

    def is_current(self, task: str) -> bool:
        """Whether it is proved that a task, and every one whose product it reads, is current. The graph has to hold."""
        if self._child is not None:
            self._collect()
        found = self._tasks.get(task)
        if found is None:
            self._tasks[task] = False
            entry = self._entry(task)
            found = self._tasks[task] = entry is not None and not entry[8] and self._holds(entry)
        return found

    def problems(self, task: str) -> tuple[str, ...]:
        """Why a task cannot be built, where that is proved; else nothing. The graph has to hold."""
        entry = self._entry(task)
        return entry[8] if entry is not None and entry[8] and self._holds(entry) else ()

    def _entry(self, task: str) -> Entry | None:
        if task not in self._entries:
            data = self.content["tasks"].get(task) if self.content is not None else None
            self._entries[task] = None if data is None else marshal.loads(data)
        return self._entries[task]

    def _holds(self, entry: Entry) -> bool:
        _, paths, signatures, folders, folder_signatures, absent, variables, sources, _ = entry
        differing = self._comparison.differing
        if differing(paths, signatures, 1):
            return False
        changed = differing(folders, folder_signatures)
        if changed:
            # where nothing was added to a folder, nothing in it needs a look
            by_folder = dict(zip(folders.split("\0"), absent, strict=True))
            for folder in changed:
                names = by_folder[folder]
                if differing(names, NOTHING * (names.count("\0") + 1), 1):
                    return False
        return (not variables or variables_hold(variables)) and all(map(self.is_current, sources))


def config_names(folder: str) -> tuple[str, ...] | None:
    """The names in a folder that matter for configs: folders and YAML files; None when it is not a readable folder."""
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


_compared: dict[str, Index] = {}


def leave_for_session(index: Index) -> None:
    """Leave what was just compared to the session of this process, which then need not do so again."""
    _compared[index.root] = index


def compared_index(root: str) -> Index:
    """What was left for the session, once; else a new one."""
    return _compared.pop(root, None) or Index(root)


def _has_entries(folder: str) -> bool:
    """Whether a folder, or one below it, has any file."""
    try:
        with os.scandir(folder) as entries:
            return any(not entry.is_dir() or _has_entries(entry.path) for entry in entries)
    except OSError:
        return False
