"""The journal: what was there before a script ran, which is put back if the run does not end well.

Before a script starts, its dataset's file is moved to `.cache/held/` (files beside it are copied to the store) and a
journal entry says so. Whatever dies then, the next start finds the entry, and restores before anything reads.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from urllib.parse import unquote

from gymbuild.cache.digests import digest_file
from gymbuild.cache.displaced import displace
from gymbuild.cache.store import DamagedObjectError, Store
from gymbuild.preparation.inputs import declared_files
from gymbuild.system.errors import UsageError
from gymbuild.system.files import TEMPORARY, move, remove, write_atomically
from gymbuild.system.locks import lock
from gymbuild.system.paths import Checkout, file_name
from gymbuild.system.permissions import sentence


class Journal:
    """The journal of one checkout.

    Args:
        checkout: whose.
        store: takes the files beside an output.
    """

    def __init__(self, checkout: Checkout, store: Store) -> None:
        self._checkout = checkout
        self._store = store

    def _entry(self, name: str) -> str:
        return self._checkout.cached("journal", file_name(name) + ".json")

    def _previous(self, name: str) -> str:
        return self._checkout.cached("held", file_name(name), "output")

    def begin(self, name: str, output: str, patterns: tuple[str, ...]) -> None:
        """Move the output to where a run cannot destroy it, and copy files of `patterns` to the store.

        Args:
            name: the preparation's.
            output: its file, relative to the checkout.
            patterns: its `prepare_outputs`.

        Raises:
            OSError: that cannot be done; everything is as before.
        """
        beside = {}
        for path in self._beside(output, patterns):
            digest = digest_file(self._checkout.absolute(path))
            self._store.add(self._checkout.absolute(path), digest)
            beside[path] = digest
        absolute = self._checkout.absolute(output)
        there = _is_there(absolute)
        record = {
            "name": name,
            "output": output,
            "held": there,
            "patterns": list(patterns),
            "beside": beside,
            "folder": self._folder(output),
            "pid": os.getpid(),
        }
        target = self._previous(name)
        _make_folder(os.path.dirname(target))
        remove(target)  # what an earlier commit left: it must not be taken for the output of now
        write_atomically(self._entry(name), json.dumps(record, sort_keys=True).encode() + b"\n")
        if there:
            try:
                move(absolute, target)
            except BaseException:
                if os.path.lexists(absolute):
                    self._remove_previous(name)
                    self._remove_entry(name)
                raise

    def _folder(self, output: str) -> str:
        """The folder that an output is really in, relative to the checkout when inside it."""
        return self._checkout.relative(os.path.realpath(os.path.dirname(self._checkout.absolute(output))))

    def previous_output(self, name: str) -> str | None:
        """Where the output of before is during a run, or None when there was none."""
        path = self._previous(name)
        return path if os.path.lexists(path) else None

    def commit(self, name: str) -> None:
        """The run went well and its result is recorded: remove the entry, and the previous output."""
        self._remove_entry(name)
        self._remove_previous(name)

    def _remove_entry(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._entry(name))

    def _remove_previous(self, name: str) -> None:
        path = self._previous(name)
        remove(path)
        remove(path + TEMPORARY)
        folder, top = os.path.dirname(path), self._checkout.cached("held")
        with contextlib.suppress(OSError):  # other datasets may have theirs there
            while folder != top:
                os.rmdir(folder)
                folder = os.path.dirname(folder)

    def roll_back(self, name: str) -> bool:
        """Put everything back as it was before the run.

        Returns:
            whether there was an entry.

        Raises:
            OSError: something cannot be put back; the entry stays, and the next start tries again.
            UsageError: the output's folder is another than when the run began; the same.
        """
        try:
            with open(self._entry(name), encoding="utf-8") as file:
                record = json.load(file)
        except FileNotFoundError:
            return False
        except ValueError:
            record = None
        if isinstance(record, Mapping):
            self._restore(name, record)
        elif os.path.lexists(self._previous(name)):
            displace(self._checkout, self._previous(name), name)  # nobody can tell any more where it was
        self._remove_entry(name)
        self._remove_previous(name)
        return True

    def _restore(self, name: str, record: Mapping[str, object]) -> None:
        output = self._checkout.absolute(str(record["output"]))
        previous = self._previous(name)
        folder = self._folder(str(record["output"]))
        if record.get("folder", folder) != folder:
            raise UsageError(
                f"{record['output']} is in {folder} now, and was in {record['folder']} when the run began; nothing is "
                "put back there. Make its folder what it was."
            )
        if os.path.lexists(previous):
            remove(output)
            os.makedirs(os.path.dirname(output), exist_ok=True)
            move(previous, output)
        elif not record["held"]:
            remove(output)
        patterns = record.get("patterns") or ()
        beside = record.get("beside") or {}
        assert isinstance(patterns, list | tuple) and isinstance(beside, Mapping)
        for path in self._beside(str(record["output"]), tuple(map(str, patterns))):
            if path not in beside:
                remove(self._checkout.absolute(path))
        for path, digest in beside.items():
            absolute = self._checkout.absolute(path)
            if not os.path.isfile(absolute) or digest_file(absolute) != digest:
                with contextlib.suppress(DamagedObjectError, FileNotFoundError):
                    remove(absolute)
                    self._store.restore(str(digest), absolute)

    def _beside(self, output: str, patterns: tuple[str, ...]) -> list[str]:
        found = {path for pattern in patterns for path in declared_files(self._checkout, pattern)}
        # what a symlink leads out of the checkout for is nobody's to remove
        return sorted(path for path in found - {output} if self._checkout.way_out(path) is None)

    def recover(self, say: Callable[[str], None]) -> None:
        """Roll back what processes that are gone have begun, and remove what they have left; runs in progress go on.

        Args:
            say: told what was put back.
        """
        for name in self.unfinished():
            try:
                with lock(self._checkout, f"prepare:{name}", blocking=False) as free:
                    if free is not None and self.roll_back(name):
                        say(
                            f"prepare:{name}: an earlier run was cut off; what was there before it is back in place"
                        )
            except (OSError, UsageError) as error:
                # whatever needs that dataset fails by it; the others do not
                previous = self.previous_output(name)
                where = f"; it is kept in {self._checkout.relative(previous)}" if previous else ""
                say(
                    f"warning: prepare:{name}: an earlier run was cut off, and what was there before it cannot be "
                    f"put back yet: {sentence(error) if isinstance(error, OSError) else error}{where}"
                )
        for name in list(self._left_over()):
            with (
                contextlib.suppress(OSError),
                lock(self._checkout, f"prepare:{name}", blocking=False) as free,
            ):
                if free is not None and not os.path.exists(self._entry(name)):
                    self._remove_previous(name)

    def _left_over(self) -> Iterator[str]:
        """The names of preparations whose previous output is there though no journal entry is: its run was committed."""
        top = self._checkout.cached("held")
        for folder, folders, files in os.walk(top):
            path = os.path.relpath(folder, top)
            if folder != top and ("output" in files or "output" in folders or not (folders or files)):
                folders[:] = [name for name in folders if name != "output"]
                name = unquote(path)
                if not os.path.exists(self._entry(name)):
                    yield name

    def beside(self, name: str) -> list[str]:
        """Digests of the files beside an output that an unfinished run may need back from the store."""
        try:
            with open(self._entry(name), encoding="utf-8") as file:
                return [str(digest) for digest in json.load(file)["beside"].values()]
        except (OSError, ValueError, KeyError, AttributeError, TypeError):
            return []

    def unfinished(self) -> list[str]:
        """The names of preparations with a journal entry."""
        names = []
        for folder, _, files in os.walk(self._checkout.cached("journal")):
            for file in sorted(files):
                if not file.endswith(".json"):
                    continue
                try:
                    with open(os.path.join(folder, file), encoding="utf-8") as opened:
                        names.append(str(json.load(opened)["name"]))
                except (OSError, ValueError, KeyError, TypeError):
                    continue
        return names


def is_readable(path: str) -> bool:
    """Whether this user may read what is at `path`; a symlink or a folder counts as readable."""
    return os.path.islink(path) or not os.path.isfile(path) or os.access(path, os.R_OK)


def _make_folder(path: str) -> None:
    try:
        os.makedirs(path, exist_ok=True)
    except FileNotFoundError:
        os.makedirs(path, exist_ok=True)  # another dataset's run has just removed an empty folder above it


def _is_there(path: str) -> bool:
    """Whether anything is at `path`.

    Raises:
        OSError: this user may not look: that is not an answer.
    """
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True
