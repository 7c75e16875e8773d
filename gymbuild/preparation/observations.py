"""Our side of observation: makes inputs of what the runner and its children noted, line by line."""

from __future__ import annotations

import ast
import os
import re
import threading
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from gymbuild.cache.witness import Signature

Event = tuple[int, str, str, Any]
"""Monotonic time in ns; operation; path relative to the checkout; detail.

Operations: `i` imported and `r` read (detail: signature), `m` looked for and not there, `p` looked for and there
(detail: as `presence` says), `l` listed (detail: names), `w` opened for writing, `d` made under this
name with all that is below it, `x` removed or renamed away."""

_PARSING = threading.Lock()
"""Python 3.11 may fail when several threads parse at once (`doit -P thread`): "recursion depth mismatch"."""


@dataclass(frozen=True, slots=True)
class Observations:
    """What a script used of the checkout; all paths relative to it, with forward slashes, as they were used."""

    files: Mapping[str, tuple[str, Signature]] = field(default_factory=dict)
    """Files that were imported or read: `import` or `data`, and their signature at the first use."""
    missing: tuple[str, ...] = ()
    """Paths that were looked for and not there."""
    present: Mapping[str, str] = field(default_factory=dict)
    """Paths of which only the existence was asked, or where a symlink leads, as `presence` says: `file`, `folder`,
    `other`, or for a symlink `link:TARGET:file` and so on."""
    listings: Mapping[str, tuple[tuple[str, bool], ...]] = field(default_factory=dict)
    """Folders that were listed: sorted names with whether each is a folder, at the first use, without what is no
    input. `gymbuild.cache.digests.listing_digest(folder, ignored_names(folder))` digests the same value."""
    written: tuple[str, ...] = ()
    """Paths that the script or its Python children wrote or made, and that are still there."""

    @property
    def listed(self) -> tuple[str, ...]:
        """The folders that were listed."""
        return tuple(self.listings)

    def to_plain(self) -> dict[str, Any]:
        """A dict of plain values (for marshal and JSON)."""
        return {
            "files": {path: [kind, list(found)] for path, (kind, found) in self.files.items()},
            "missing": list(self.missing),
            "listed": list(self.listings),
            "written": list(self.written),
            "present": dict(self.present),
            "listings": {path: [list(entry) for entry in names] for path, names in self.listings.items()},
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Observations:
        """The observations that `to_plain` gave."""
        return cls(
            {path: (kind, tuple(found)) for path, (kind, found) in plain["files"].items()},
            tuple(plain["missing"]),
            dict(plain["present"]),
            {path: tuple((n, d) for n, d in names) for path, names in plain["listings"].items()},
            tuple(plain["written"]),
        )


def presence(path: str) -> str | None:
    """What `Observations.present` would say of `path` (absolute) now, or None when nothing is there.

    A symlink that leads nowhere is nothing.
    """
    if os.path.isdir(path):
        reached = "folder"
    elif os.path.isfile(path):
        reached = "file"
    elif os.path.exists(path):
        reached = "other"
    else:
        return None
    try:
        return f"link:{os.readlink(path)}:{reached}"
    except OSError:
        return reached


def read_events(folder: str) -> list[Event]:
    """All observations of a run, in the order of time.

    A last line that its process did not live to finish is left out.

    Args:
        folder: the run's private folder.
    """
    events: list[Event] = []
    for name in sorted(os.listdir(folder)):
        if not name.startswith("observed."):
            continue
        with open(os.path.join(folder, name), encoding="ascii", errors="replace") as file:
            for line in file:
                if not line.endswith("\n"):
                    break
                try:
                    with _PARSING:
                        at, operation, path, detail = ast.literal_eval(line)
                except (ValueError, SyntaxError, TypeError):
                    continue
                events.append((at, operation, path, detail))
    events.sort(key=lambda event: event[0])
    return events


def inputs_of(events: Iterable[Event], own: Sequence[str], root: str) -> Observations:
    """What of the observations is an input, and what the run made itself.

    A path is made during the run when it was first opened for writing, came by renaming, lies in a folder that the
    run made, or was there after the run had looked for it and not found it (a child that is not Python made it).

    Args:
        events: in the order of time.
        own: paths and globs of the task's own outputs, relative to the checkout.
        root: the checkout.
    """
    is_own = PathMatcher(own)
    above_own = {parent for pattern in own for parent in _parents(_literal_part(pattern))}
    files: dict[str, tuple[str, Signature]] = {}
    missing: dict[str, None] = {}
    present: dict[str, str] = {}
    listings: dict[str, list[tuple[str, bool]]] = {}
    made: set[str] = set()
    made_trees: set[str] = set()
    removed: set[str] = set()
    written: dict[str, None] = {}

    def is_made(path: str) -> bool:
        return path in made or _is_below(path, made_trees)

    def found(path: str) -> bool:
        """Whether a path that is there is of the run's own making."""
        if is_made(path):
            return True
        for step in (path, *_parents(path)):
            if step in missing:
                del missing[step]
                made_trees.add(step)
                written[step] = None
                return True
        return False

    for _, operation, path, detail in events:
        if is_own(path):
            continue
        if operation in ("r", "i"):
            if not found(path):
                kind = "import" if operation == "i" else "data"
                known = files.get(path)
                if known is None:
                    files[path] = (kind, tuple(detail))
                elif kind == "import":
                    files[path] = (kind, known[1])
        elif operation == "m":
            if path not in above_own and not is_made(path) and path not in files and path not in present:
                missing[path] = None
        elif operation == "p":
            if path not in above_own and not found(path):
                present.setdefault(path, detail)
        elif operation == "l":
            if not found(path):
                listings.setdefault(path, list(detail))
        elif operation in ("w", "d"):
            written[path] = None
            missing.pop(path, None)
            if path not in files:
                made.add(path)
                if operation == "d":
                    made_trees.add(path)
        elif operation == "x":
            # what the script removes it has at its own disposal: whether it is there says nothing about the result
            if path not in files:
                made.add(path)
            removed.add(path)

    kept = tuple(path for path in sorted(written) if os.path.lexists(os.path.join(root, path)))
    no_inputs = made | made_trees
    return Observations(
        files=dict(sorted(files.items())),
        missing=tuple(sorted(path for path in missing if not _is_below(path, made_trees))),
        present={
            path: kind
            for path, kind in sorted(present.items())
            if path not in files and not _is_below(path, removed)
        },
        listings={
            folder: tuple(
                (name, is_folder)
                for name, is_folder in names
                if name not in NO_INPUT_NAMES
                and (path := name if folder == "." else f"{folder}/{name}") not in no_inputs
                and path not in above_own
                and not is_own(path)
            )
            for folder, names in sorted(listings.items())
            if not _is_below(folder, removed)
        },
        written=kept,
    )


NO_INPUT_NAMES = frozenset(("__pycache__", ".git", ".cache"))
"""Names in listings that never count; as `gymbuild.cache.digests.listing_digest` has it."""


def ignored_names(folder: str, names: Iterable[str], written: Iterable[str], own: Sequence[str]) -> set[str]:
    """The names in a listed folder that are no inputs: what the run wrote, and the task's own outputs.

    Args:
        folder: relative to the checkout.
        names: the names that are in it now.
        written: `Observations.written` of the run.
        own: paths and globs of the task's own outputs, relative to the checkout.
    """
    is_own = PathMatcher(own)
    above_own = {parent for pattern in own for parent in _parents(_literal_part(pattern))}
    made = set(written)
    result = set()
    for name in names:
        path = name if folder == "." else f"{folder}/{name}"
        if path in made or path in above_own or is_own(path):
            result.add(name)
    return result


def _is_below(path: str, folders: Set[str]) -> bool:
    """Whether one of the folders is the path itself or above it."""
    return path in folders or any(parent in folders for parent in _parents(path))


def _parents(path: str) -> list[str]:
    """`a/b/c` → `a/b`, `a`."""
    parents = []
    while (end := path.rfind("/")) > 0:
        path = path[:end]
        parents.append(path)
    return parents


def _literal_part(pattern: str) -> str:
    """The path up to the first part with a wildcard in it, with that part."""
    parts = pattern.split("/")
    for index, part in enumerate(parts):
        if any(char in part for char in "*?["):
            return "/".join(parts[: index + 1])
    return pattern


class PathMatcher:
    """Whether a path relative to the checkout matches one of the patterns, or lies in a folder that does.

    `*`, `?` and `[…]` stay within one part of a path; `**` as a part of its own stands for any number of folders.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self._plain = {pattern for pattern in patterns if not any(char in pattern for char in "*?[")}
        globs = [glob_expression(pattern) for pattern in patterns if pattern not in self._plain]
        self._globs = re.compile("|".join(f"(?:{glob})" for glob in globs)) if globs else None

    def __call__(self, path: str) -> bool:
        if path in self._plain or any(path.startswith(plain + "/") for plain in self._plain):
            return True
        if self._globs is None:
            return False
        return any(self._globs.fullmatch(step) for step in (path, *_parents(path)))


def glob_expression(pattern: str) -> str:
    """A glob as a regular expression, by the rules of `glob.glob(recursive=True, include_hidden=True)`."""
    if pattern.endswith("/**"):
        return glob_expression(pattern[:-3]) + "(?s:/.+)?"
    parts = pattern.split("/")
    pieces = []
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        if part == "**":
            pieces.append(".+" if last else "(?:[^/]+/)*")
            continue
        position, text = 0, ""
        while position < len(part):
            char = part[position]
            position += 1
            if char == "*":
                text += "[^/]*"
            elif char == "?":
                text += "[^/]"
            elif char == "[" and (end := part.find("]", position + 1)) > 0:
                content = part[position:end]
                negated = content[:1] == "!"
                content = re.escape(content[negated:]).replace(r"\-", "-")
                text += f"[{'^/' if negated else ''}{content}]"
                position = end + 1
            else:
                text += re.escape(char)
        pieces.append(text + ("" if last else "/"))
    return "(?s:" + "".join(pieces) + ")"
