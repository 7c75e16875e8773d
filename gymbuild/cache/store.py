"""The store: every good output by its content, every preparation by its action key.

    .cache/objects/<2 hex>/<digest>       the bytes, read-only, never linked to where a person could edit them
    .cache/actions/<static key>/<action key>.json    one preparation: its inputs and its outputs

A preparation is found in two steps, since what a script reads is known only after it ran. The static key is
over what is known before: script, args, environment, declared inputs. Under it lie the preparations that had
that key, each with the inputs that its run was seen to use; the first whose inputs are all as they were is
the answer (the scheme of ccache's direct mode and of Bazel's discovered inputs).
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gymbuild.cache.digests import canonical_json, digest_file
from gymbuild.system.files import TEMPORARY, copy_content, fsync_file, temporary_beside, write_atomically
from gymbuild.system.paths import Checkout


@dataclass(frozen=True, slots=True)
class Input:
    """One thing whose content decides a prepared dataset."""

    kind: str
    """`script`, `lock`, `args`, `environment`, `variable`, `declared`, `editable`, `import`, `data`,
    `missing`, `listing` or `output`."""
    name: str
    """A path relative to the checkout, the name of a variable, a glob, or what the kind says."""
    state: str | None
    """The digest of its content; None for "is not there"."""

    def plain(self) -> list[str | None]:
        """The input as a list, for JSON."""
        return [self.kind, self.name, self.state]


@dataclass(frozen=True, slots=True)
class Action:
    """One preparation that was done: what went in and what came out."""

    static_key: str
    key: str
    """The action key: the digest over all the inputs."""
    dataset: str
    inputs: tuple[Input, ...]
    outputs: tuple[tuple[str, str], ...]
    """Paths relative to the checkout, with the digests of their content; the dataset's own file first."""
    rows: int
    size: int
    """Bytes of the dataset's own file."""
    seconds: float
    """How long the script ran."""
    made: float
    """When, in seconds since the epoch."""
    judged: bool
    """Whether the script's `is_prepared_data_current`, if it has one, accepted the output."""
    written: tuple[str, ...] = ()
    """Other paths that the run made: they do not count in the folders that it listed."""

    def to_plain(self) -> dict[str, Any]:
        """The action as plain values, for JSON and marshal."""
        return {
            "static_key": self.static_key,
            "key": self.key,
            "dataset": self.dataset,
            "inputs": [item.plain() for item in self.inputs],
            "outputs": [list(item) for item in self.outputs],
            "rows": self.rows,
            "size": self.size,
            "seconds": self.seconds,
            "made": self.made,
            "judged": self.judged,
            "written": list(self.written),
        }

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Action:
        """The action that `to_plain` gave."""
        return cls(
            **{
                **plain,
                "inputs": tuple(Input(*item) for item in plain["inputs"]),
                "written": tuple(plain.get("written", ())),
                "outputs": tuple((str(path), str(digest)) for path, digest in plain["outputs"]),
            }
        )


class DamagedObjectError(Exception):
    """An object whose bytes are not what its name says; it has been dropped."""


class Store:
    """The store of one checkout.

    Args:
        checkout: whose `.cache/` it lies in.
    """

    def __init__(self, checkout: Checkout) -> None:
        self._checkout = checkout
        self._objects = checkout.cached("objects")
        self._actions = checkout.cached("actions")

    def object_path(self, digest: str) -> str:
        """Where the object with this digest is, or would be."""
        return os.path.join(self._objects, digest[:2], digest)

    def has(self, digest: str) -> bool:
        """Whether an object of this digest is there (its bytes are checked on the way out)."""
        return os.path.isfile(self.object_path(digest))

    def add(self, path: str, digest: str) -> None:
        """Keep a file's content.

        Args:
            path: absolute path of the file.
            digest: of its content, already known.

        Raises:
            OSError: it cannot be written; the store is as before.
        """
        target = self.object_path(digest)
        if os.path.isfile(target):
            with contextlib.suppress(OSError):
                os.utime(target)
            return
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with temporary_beside(target) as temporary:
            copy_content(path, temporary)
            if digest_file(temporary) != digest:
                raise OSError(errno.EAGAIN, "the file changed while it was being stored", path)
            os.chmod(temporary, 0o444)
            fsync_file(temporary)
            os.replace(temporary, target)

    def restore(self, digest: str, path: str) -> None:
        """Put an object's content at `path`, atomically; what is there is replaced.

        Raises:
            FileNotFoundError: the store has no such object.
            DamagedObjectError: its bytes are not what its name says; the object is dropped.
            OSError: `path` cannot be written; it is as before.
        """
        source = self.object_path(digest)
        if not os.path.isfile(source):
            raise FileNotFoundError(errno.ENOENT, "not in the store", source)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with temporary_beside(path) as temporary:
            copy_content(source, temporary)
            if digest_file(temporary) != digest:
                with contextlib.suppress(OSError):
                    os.unlink(source)
                raise DamagedObjectError(digest)
            fsync_file(temporary)
            if os.path.isdir(path) and not os.path.islink(path):
                raise IsADirectoryError(errno.EISDIR, "a folder is in the place of the output", path)
            os.replace(temporary, path)
        with contextlib.suppress(OSError):
            os.utime(source)

    def record(self, action: Action) -> None:
        """Keep a preparation under its action key.

        Raises:
            OSError: it cannot be written.
        """
        folder = os.path.join(self._actions, action.static_key)
        os.makedirs(folder, exist_ok=True)
        target = os.path.join(folder, f"{action.key}.json")
        write_atomically(target, canonical_json(action.to_plain()) + b"\n")

    def actions(self, static_key: str) -> list[Action]:
        """The preparations that had this static key, newest first; damaged records are passed over."""
        folder = os.path.join(self._actions, static_key)
        try:
            names = [entry for entry in os.listdir(folder) if entry.endswith(".json")]
        except OSError:
            return []
        found = [action for name in names if (action := self._load(os.path.join(folder, name))) is not None]
        return sorted(found, key=lambda action: (-action.made, action.key))

    def all_actions(self) -> Iterator[tuple[str, Action]]:
        """Every preparation with the path of its record."""
        for folder, _, names in os.walk(self._actions):
            for name in sorted(names):
                path = os.path.join(folder, name)
                if name.endswith(".json") and (action := self._load(path)) is not None:
                    yield path, action

    def all_objects(self) -> Iterator[tuple[str, str, os.stat_result]]:
        """Every object: digest, path and `stat`."""
        for folder, _, names in os.walk(self._objects):
            for name in sorted(names):
                path = os.path.join(folder, name)
                if not name.endswith(TEMPORARY):
                    with contextlib.suppress(OSError):
                        yield name, path, os.stat(path)

    def temporaries(self) -> Iterator[tuple[str, os.stat_result]]:
        """Files that are being written anywhere in the cache's own folders, or that a killed process has left."""
        for top in ("objects", "actions", "plans", "args", "failures", "journal"):
            for folder, _, names in os.walk(self._checkout.cached(top)):
                for name in names:
                    path = os.path.join(folder, name)
                    if name.endswith(TEMPORARY):
                        with contextlib.suppress(OSError):
                            yield path, os.stat(path)

    @staticmethod
    def _load(path: str) -> Action | None:
        try:
            with open(path, "rb") as file:
                return Action.from_plain(json.loads(file.read()))
        except (OSError, ValueError, TypeError, KeyError):
            return None
