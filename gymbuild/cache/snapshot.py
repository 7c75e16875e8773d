"""The entries of many tasks in one record, compared in one go: what thousands of tasks cost is one read and stats.

Each distinct pair of a path and a signature is there once, and each task has the numbers of those that it names.
This module is on the path of a start that finds nothing to do, so it imports next to nothing.
"""

from __future__ import annotations

import marshal

from gymbuild.cache.witness import SIZE, nothing_at

# not from typing: importing that costs a third of a start that finds nothing to do
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from gymbuild.cache.witness import Look

    Variables = tuple[tuple[str, str | None], ...]
    Entry = tuple[str, str, bytes, bytes, bytes, bytes, bytes, Variables, tuple[str, ...], tuple[str, ...]]
    """What is kept of a task: the token of the graph that it was in; the digest of what its config asks for; paths and their signatures; folders, their
    signatures, and (marshalled) for each the paths that were not in it; environment variables with their digests;
    the tasks whose outputs it reads; why it cannot be built, if so. Paths and signatures are packed, as `pack_signatures` says."""


class _Pool:
    """Distinct pairs of a path and a signature, numbered."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[bytes, bytes], int] = {}

    def add(self, paths: bytes, signatures: bytes) -> list[int]:
        numbers = self.numbers
        names = paths.split(b"\0") if signatures else []
        pairs = [(name, signatures[SIZE * at : SIZE * (at + 1)]) for at, name in enumerate(names)]
        return [numbers.setdefault(pair, len(numbers)) for pair in pairs]

    def packed(self) -> tuple[bytes, bytes]:
        return b"\0".join(path for path, _ in self.numbers), b"".join(found for _, found in self.numbers)


def gather(entries: Mapping[str, Entry], graph: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """One record for many tasks.

    Args:
        entries: by task.
        graph: the token of the graph that all of them are in.

    Returns:
        the record, and a second one that is needed only when something was added to a folder.
    """
    import array
    import os

    paths, folders = _Pool(), _Pool()
    lists: dict[bytes, int] = {}
    numbers, tokens = {}, []
    files, file_ends = array.array("I"), array.array("I")
    stands, absents, stand_ends = array.array("I"), array.array("I"), array.array("I")
    variables, sources, problems = {}, {}, {}
    for number, (task, entry) in enumerate(entries.items()):
        numbers[task] = number
        tokens.append(entry[1])
        files.extend(paths.add(entry[2], entry[3]))
        file_ends.append(len(files))
        for folder, absent in zip(paths_of(entry[4], entry[5]), marshal.loads(entry[6]), strict=True):
            stands.extend(folders.add(*folder))
            absents.append(lists.setdefault(absent, len(lists)))
        stand_ends.append(len(stands))
        if entry[7]:
            variables[number] = entry[7]
        if entry[8]:
            sources[number] = entry[8]
        if entry[9]:
            problems[number] = entry[9]
    (names, signatures), (stand_ins, stand_in_signatures) = paths.packed(), folders.packed()
    identity = os.urandom(16)
    record = {
        "identity": identity,
        "graph": graph,
        "tasks": numbers,
        "tokens": marshal.dumps(tokens),
        "paths": names,
        "signatures": signatures,
        "folders": stand_ins,
        "folder_signatures": stand_in_signatures,
        "file_uses": (files.tobytes(), file_ends.tobytes()),
        "folder_uses": (stands.tobytes(), stand_ends.tobytes()),
        "absent_uses": absents.tobytes(),
        "variables": variables,
        "sources": sources,
        "problems": problems,
    }
    return record, {"identity": identity, "absent": list(lists)}


def paths_of(paths: bytes, signatures: bytes) -> list[tuple[bytes, bytes]]:
    """Packed paths with their packed signatures, one by one."""
    if not signatures:
        return []
    return [(name, signatures[SIZE * at : SIZE * (at + 1)]) for at, name in enumerate(paths.split(b"\0"))]


class _Uses:
    """Which numbers each task names.

    Args:
        packed: the numbers of one task after the other, and where those of each task end.
    """

    def __init__(self, packed: tuple[bytes, bytes]) -> None:
        self.numbers, self._ends = (memoryview(part).cast("I") for part in packed)

    def of(self, task: int) -> range:
        """Where the numbers of a task are."""
        return range(self._ends[task - 1] if task else 0, self._ends[task])

    def tasks_of(self, wanted: set[int]) -> set[int]:
        """The tasks that name one of these numbers."""
        found: set[int] = set()
        numbers, ends = self.numbers.tolist(), self._ends
        for number in wanted:
            at, size = -1, len(numbers)
            while True:
                try:
                    at = numbers.index(number, at + 1)
                except ValueError:
                    break
                low, high = 0, len(ends)
                while low < high:
                    middle = (low + high) // 2
                    if ends[middle] <= at:
                        low = middle + 1
                    else:
                        high = middle
                found.add(low)
                # a task names a number once
                at = min(ends[low], size) - 1
        return found


class Snapshot:
    """The record that `gather` made, compared with what is there.

    Args:
        record: the record.
        absent: gives the second one, or None when it is lost.
    """

    def __init__(self, record: dict[str, Any], absent: Callable[[], dict[str, Any] | None]) -> None:
        self._record = record
        self._read_absent = absent
        self._absent: list[bytes] | None = None
        self._files, self._folders = _Uses(record["file_uses"]), _Uses(record["folder_uses"])
        self._absents = memoryview(record["absent_uses"]).cast("I")
        self._numbers: dict[str, int] = record["tasks"]
        self._bad: set[int] | None = None
        self._bad_folders: set[int] | None = None
        self._pairs: tuple[list[tuple[bytes, bytes]], list[tuple[bytes, bytes]]] | None = None
        self._tokens: list[str] | None = None
        self.graph: str = record["graph"]
        """The token of the graph that the tasks are in."""

    def __contains__(self, task: str) -> bool:
        return task in self._numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def token(self, task: str) -> str:
        """The digest of what the task's config asks for."""
        if self._tokens is None:
            self._tokens = marshal.loads(self._record["tokens"])
        return self._tokens[self._numbers[task]]

    def variables(self, task: str) -> Variables:
        """The environment variables that matter, with their digests."""
        found: Variables = self._record["variables"].get(self._numbers[task], ())
        return found

    def sources(self, task: str) -> tuple[str, ...]:
        """The tasks whose outputs the task reads."""
        found: tuple[str, ...] = self._record["sources"].get(self._numbers[task], ())
        return found

    def problems(self, task: str) -> tuple[str, ...]:
        """Why the task cannot be built; nothing when it can."""
        found: tuple[str, ...] = self._record["problems"].get(self._numbers[task], ())
        return found

    @property
    def is_compared(self) -> bool:
        """Whether every path has been looked at."""
        return self._bad is not None and self._bad_folders is not None

    def count_files(self) -> int:
        """How many paths there are besides folders."""
        return len(self._record["signatures"]) // SIZE

    def changed_files(self, look: Look, first: int = 0, last: int | None = None) -> list[int]:
        """Look at the files of all tasks, or a range of them; `note_changed` has to follow."""
        last = self.count_files() if last is None else last
        return look.differences(self._record["paths"], self._record["signatures"], 0, first, last)

    def note_changed(self, files: Iterable[int]) -> None:
        """Keep what `changed_files` found; `note_folders` has to follow as well."""
        self._bad = set(files)

    def changed_tasks(self) -> list[str]:
        """The tasks that name a file that changed."""
        touched = self._files.tasks_of(self._bad or set())
        return [task for task, number in self._numbers.items() if number in touched] if touched else []

    def changed_folders(self, look: Look) -> list[int]:
        """Look at every folder that stands for what was missing in it; `note_folders` has to follow."""
        return look.differences(self._record["folders"], self._record["folder_signatures"])

    def note_folders(self, folders: Iterable[int]) -> None:
        """Keep what `changed_folders` found."""
        self._bad_folders = set(folders)

    def certain(self) -> dict[str, bool]:
        """The tasks whose paths are all as they were, and of which nothing else counts: no variable, source, problem."""
        assert self._bad is not None and self._bad_folders is not None
        found = dict.fromkeys(self._numbers, True)
        unsure = {*self._record["variables"], *self._record["sources"], *self._record["problems"]}
        unsure |= self._files.tasks_of(self._bad) | self._folders.tasks_of(self._bad_folders)
        for task in [task for task, number in self._numbers.items() if number in unsure] if unsure else ():
            del found[task]
        return found

    def holds(self, task: str, look: Look) -> bool:
        """Whether all paths of a task are as they were."""
        number = self._numbers[task]
        files, stands = self._files.of(number), self._folders.of(number)
        bad, folders = self._bad, self._bad_folders
        if bad is None or folders is None:
            return self._holds_alone(files, stands, look)
        return bad.isdisjoint(self._files.numbers[files.start : files.stop]) and all(
            self._folders.numbers[at] not in folders or self._is_absent(self._absents[at], look)
            for at in stands
        )

    def _holds_alone(self, files: range, stands: range, look: Look) -> bool:
        paths, folders = self._all_pairs()
        named = [paths[self._files.numbers[at]] for at in files]
        if look.differences(b"\0".join(name for name, _ in named), b"".join(found for _, found in named), 1):
            return False
        for at in stands:
            folder = folders[self._folders.numbers[at]]
            if look.differences(*folder, 1) and not self._is_absent(self._absents[at], look):
                return False
        return True

    def _is_absent(self, number: int, look: Look) -> bool:
        absent = self._absent_lists()
        if absent is None:
            return False
        return not look.differences(absent[number], nothing_at(absent[number]), 1)

    def _absent_lists(self) -> list[bytes] | None:
        """The paths that were not in each folder; None when they are lost."""
        if self._absent is None:
            record = self._read_absent()
            if record is not None and record["identity"] == self._record["identity"]:
                self._absent = record["absent"]
        return self._absent

    def _all_pairs(self) -> tuple[list[tuple[bytes, bytes]], list[tuple[bytes, bytes]]]:
        if self._pairs is None:
            record = self._record
            self._pairs = (
                paths_of(record["paths"], record["signatures"]),
                paths_of(record["folders"], record["folder_signatures"]),
            )
        return self._pairs

    def entries(self) -> dict[str, Entry]:
        """The entries that it was gathered from; none when the second record is lost."""
        absent = self._absent_lists()
        if absent is None:
            return {}
        paths, folders = self._all_pairs()
        found: dict[str, Entry] = {}
        for task, number in self._numbers.items():
            named = [paths[self._files.numbers[at]] for at in self._files.of(number)]
            stands = self._folders.of(number)
            stand_ins = [folders[self._folders.numbers[at]] for at in stands]
            found[task] = (
                self.graph,
                self.token(task),
                b"\0".join(name for name, _ in named),
                b"".join(signature for _, signature in named),
                b"\0".join(name for name, _ in stand_ins),
                b"".join(signature for _, signature in stand_ins),
                marshal.dumps([absent[self._absents[at]] for at in stands], 2),
                self.variables(task),
                self.sources(task),
                self.problems(task),
            )
        return found
