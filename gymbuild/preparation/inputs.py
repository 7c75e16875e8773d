"""The inputs of a preparation as they are now: what the config gives, and what its last run used."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator

from gymbuild.cache.digests import DigestCache, digest_bytes, digest_json, listing_digest
from gymbuild.cache.store import Action, Input
from gymbuild.cache.witness import signature, variable_digest
from gymbuild.config.datasets import Dataset
from gymbuild.config.graph import Preparation
from gymbuild.environments.environment import Environment
from gymbuild.preparation.observations import Observations, ignored_names, presence
from gymbuild.system.paths import Checkout

FORMAT = 1
"""Part of every static key: raised when what a run is, or how it is observed, changes."""

OBSERVED = frozenset(("import", "data", "output", "missing", "present", "listing"))
"""Kinds that only a run of the script can tell."""

CHANGED = "changed-while-running"
"""The state of an input whose content at the time of the run nobody can tell: it equals nothing."""

_NO_SOURCE = {"__pycache__", ".git", ".cache", ".venv", "venv", "build", "dist", "node_modules"}


def output_patterns(dataset: Dataset) -> tuple[str, ...]:
    """Paths and globs that belong to the dataset itself, relative to the checkout."""
    return (dataset.jsonl_fpath, *dataset.prepare_outputs)


class InputReader:
    """Reads the present state of inputs.

    Args:
        checkout: that names are relative to.
        digests: the digest cache, shared by all tasks.
    """

    def __init__(self, checkout: Checkout, digests: DigestCache) -> None:
        self._checkout = checkout
        self._digests = digests

    def static(self, preparation: Preparation, environment: Environment, args: bytes) -> list[Input]:
        """The inputs that the config gives.

        Args:
            preparation: whose.
            environment: that its script runs in.
            args: its arguments, serialized.
        """
        dataset = preparation.dataset
        found = [Input("script", preparation.script, self._digests.get(preparation.script))]
        # the key is over all that matters of the lock, so that a comment in it changes nothing
        found.append(Input("environment", environment.lock or environment.kind, environment.key))
        found.append(Input("args", "args", digest_bytes(args)))
        found += [Input("variable", name, variable_digest(name)) for name in sorted(set(dataset.prepare_env))]
        found += [
            Input("declared", pattern, self._declared(pattern)) for pattern in sorted(dataset.prepare_inputs)
        ]
        found += [Input("editable", folder, self._sources(folder)) for folder in environment.editable]
        recipe = [dataset.jsonl_fpath, preparation.module, sorted(dataset.prepare_outputs)]
        found.append(Input("recipe", "output", digest_json(recipe)))
        return found

    def observed(self, action: Action, outputs: Iterable[str]) -> list[Input]:
        """The inputs that a recorded run used, in their present state.

        Args:
            action: the recorded run.
            outputs: the dataset's own outputs, as `output_patterns` gives them.
        """
        patterns = tuple(outputs)
        return [
            Input(item.kind, item.name, self.state(item.kind, item.name, action.written, patterns))
            for item in action.inputs
            if item.kind in OBSERVED
        ]

    def holds(self, action: Action, outputs: Iterable[str]) -> bool:
        """Whether every input that the run used is as it was; stops at the first that is not."""
        patterns = tuple(outputs)
        return all(
            self.state(item.kind, item.name, action.written, patterns) == item.state
            for item in action.inputs
            if item.kind in OBSERVED
        )

    def state(self, kind: str, name: str, written: Iterable[str], outputs: tuple[str, ...]) -> str | None:
        """The present state of one observed input."""
        absolute = self._checkout.absolute(name)
        if kind in ("import", "data", "output"):
            return self._digests.get(name)
        if kind in ("missing", "present"):
            return presence(absolute)
        if kind == "listing":
            try:
                names = os.listdir(absolute)
            except OSError:
                return None
            return listing_digest(absolute, ignored_names(name, names, written, outputs))
        raise ValueError(f"{kind} is not an observed kind of input")

    def of_run(
        self,
        used: Observations,
        before: dict[tuple[str, str], str | None],
        outputs_of_others: Iterable[str],
        outputs: tuple[str, ...],
        counted: Iterable[str],
    ) -> tuple[list[Input], list[str]]:
        """What a run used, with the state that it had then.

        Args:
            used: what the runner noted.
            before: states that were read before the run, by kind and name.
            outputs_of_others: paths that other tasks make.
            outputs: the dataset's own outputs.
            counted: paths that are inputs of another kind already (script, lock).

        Returns:
            the inputs; and the paths that changed while the script ran, whose state equals nothing.
        """
        others, elsewhere = set(outputs_of_others), set(counted)
        found: list[Input] = []
        changed: list[str] = []
        for path, (kind, first_use) in used.files.items():
            if path in elsewhere:
                continue
            kind = "output" if path in others else kind
            state = self._digests.get(path)
            # asked after the digest, which takes minutes for a large file: only a file that is still as it was at its
            # first use has the digest that was used
            status = signature(self._checkout.absolute(path))
            earlier = before.get((kind, path))
            if state is None or (status != tuple(first_use) if earlier is None else earlier != state):
                changed.append(path)
                state = earlier or f"{CHANGED}:{path}"
            found.append(Input(kind, path, state))
        for path in used.missing:
            if path not in elsewhere:
                found.append(Input("missing", path, None))
                if presence(self._checkout.absolute(path)) is not None:
                    changed.append(path)
        for path, kind in used.present.items():
            if path not in elsewhere:
                found.append(Input("present", path, kind))
                if presence(self._checkout.absolute(path)) != kind:
                    changed.append(path)
        for folder, names in used.listings.items():
            now = self.state("listing", folder, used.written, outputs)
            then = digest_json([list(entry) for entry in names])
            if now != then:
                if now is not None and now == before.get(("listing", folder)):
                    # after the run as before it: a program that the script started put a file there for a while
                    then = now
                else:
                    changed.append(folder)
            found.append(Input("listing", folder, then))
        return found, changed

    def _declared(self, pattern: str) -> str:
        """The digest over the files that a glob names: their paths and contents."""
        return digest_json(
            [[path, self._digests.get(path)] for path in declared_files(self._checkout, pattern)]
        )

    def _sources(self, folder: str) -> str:
        """The digest over a folder's sources: what is not made by a build or a run."""
        return digest_json([[path, self._digests.get(path)] for path in source_files(self._checkout, folder)])


def declared_files(checkout: Checkout, pattern: str) -> list[str]:
    """The regular files that a glob of `prepare_inputs` or `prepare_outputs` names, relative to the checkout."""
    found = glob.glob(pattern, root_dir=checkout.root, recursive=True, include_hidden=True)
    paths = []
    for path in sorted(set(found)):
        absolute = checkout.absolute(path)
        if os.path.isdir(absolute):
            paths += source_files(checkout, path)
        elif os.path.isfile(absolute):
            paths.append(path.replace(os.sep, "/"))
    return sorted(set(paths))


def source_files(checkout: Checkout, folder: str) -> list[str]:
    """The files below a folder, without caches and what builds leave, relative to the checkout and sorted."""
    return sorted(_walk(checkout, checkout.absolute(folder)))


def _walk(checkout: Checkout, top: str) -> Iterator[str]:
    for parent, folders, names in os.walk(top):
        folders[:] = sorted(
            name
            for name in folders
            if name not in _NO_SOURCE and not name.endswith((".egg-info", ".dist-info"))
        )
        for name in names:
            if not name.endswith((".pyc", ".pyo")):
                yield checkout.relative(os.path.join(parent, name))
