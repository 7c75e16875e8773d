"""Our side of observation: makes inputs of what the runner and its children noted."""

from __future__ import annotations

import marshal
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gymbuild.cache.witness import Signature
from gymbuild.preparation.patterns import PathMatcher, is_below, literal_part, parents_of

Event = tuple[int, str, str, Any]
"""Monotonic time in ns; operation; path relative to the checkout; detail.

Operations: `i` imported and `r` read (detail: signature), `m` looked for and not there, `p` looked for and there
(detail: as `presence` says), `l` listed (detail: names), `w` opened for writing, `d` made under this
name with all that is below it, `x` removed or renamed away."""


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

    A last one that its process did not live to finish is left out.

    Args:
        folder: the run's folder.

    Raises:
        ValueError: a file holds something else; what a script used cannot be told then.
    """
    events: list[Event] = []
    for name in sorted(os.listdir(folder)):
        if not name.startswith("observed."):
            continue
        with open(os.path.join(folder, name), "rb") as file:
            try:
                while True:
                    at, operation, path, detail = marshal.load(file)
                    events.append((at, operation, path, detail))
            except EOFError:
                pass
            except TypeError as error:
                raise ValueError(f"{name}: {error}") from None
    events.sort(key=lambda event: event[0])
    return events


def inputs_of(events: Iterable[Event], outputs: Sequence[str], root: str) -> Observations:
    """What of the observations is an input, and what the run made itself.

    A path is made during the run when it was first opened for writing, came by renaming, lies in a folder that the
    run made, or was there after the run had looked for it and not found it (a child that is not Python made it).

    Args:
        events: in the order of time.
        outputs: paths and globs of the task's own outputs, relative to the checkout.
        root: the checkout.
    """
    is_output = PathMatcher(outputs)
    above_outputs = {parent for pattern in outputs for parent in parents_of(literal_part(pattern))}
    files: dict[str, tuple[str, Signature]] = {}
    missing: dict[str, None] = {}
    present: dict[str, str] = {}
    listings: dict[str, list[tuple[str, bool]]] = {}
    made: set[str] = set()
    made_trees: set[str] = set()
    removed: set[str] = set()
    written: dict[str, None] = {}

    def is_made(path: str) -> bool:
        return path in made or is_below(path, made_trees)

    def found(path: str) -> bool:
        """Whether a path that is there is of the run's own making."""
        if is_made(path):
            return True
        for step in (path, *parents_of(path)):
            if step in missing:
                del missing[step]
                made_trees.add(step)
                written[step] = None
                return True
        return False

    for _, operation, path, detail in events:
        if is_output(path):
            continue
        if operation in ("r", "i"):
            if not found(path):
                kind = "import" if operation == "i" else "data"
                _, first_use = files.get(path, (kind, tuple(detail)))
                if kind == "import" or path not in files:
                    files[path] = (kind, first_use)
        elif operation == "m":
            if path not in above_outputs and not is_made(path) and path not in files and path not in present:
                missing[path] = None
        elif operation == "p":
            if path not in above_outputs and not found(path):
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

    no_inputs = made | made_trees
    return Observations(
        files=dict(sorted(files.items())),
        missing=tuple(sorted(path for path in missing if not is_below(path, made_trees))),
        present={
            path: kind
            for path, kind in sorted(present.items())
            if path not in files and not is_below(path, removed)
        },
        listings={
            folder: tuple(
                (name, is_folder)
                for name, is_folder in names
                if name not in NO_INPUT_NAMES
                and (path := name if folder == "." else f"{folder}/{name}") not in no_inputs
                and path not in above_outputs
                and not is_output(path)
            )
            for folder, names in sorted(listings.items())
            if not is_below(folder, removed)
        },
        written=tuple(path for path in sorted(written) if os.path.lexists(os.path.join(root, path))),
    )


NO_INPUT_NAMES = frozenset(("__pycache__", ".git", ".cache"))
"""Names in listings that never count; as `gymbuild.cache.digests.listing_digest` has it."""


def ignored_names(
    folder: str, names: Iterable[str], written: Iterable[str], outputs: Sequence[str]
) -> set[str]:
    """The names in a listed folder that do not count: what the run wrote, and the task's own outputs.

    Args:
        folder: relative to the checkout.
        names: the names that are in it now.
        written: `Observations.written` of the run.
        outputs: paths and globs of the task's own outputs, relative to the checkout.
    """
    is_output = PathMatcher(outputs)
    above_outputs = {parent for pattern in outputs for parent in parents_of(literal_part(pattern))}
    made = set(written)
    result = set()
    for name in names:
        path = name if folder == "." else f"{folder}/{name}"
        if path in made or path in above_outputs or is_output(path):
            result.add(name)
    return result
