"""The step `prepare`: one JSONL file per dataset, made by its prepare script."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from gymbuild.cache.digests import digest_json
from gymbuild.config.file_step import remove_product
from gymbuild.config.graph import Preparation
from gymbuild.config.step import InputState, Observed, Say, State, Step
from gymbuild.preparation.args import args_path
from gymbuild.preparation.failures import (
    guarded,
    read_failure,
    release_guards,
    still_fails,
)
from gymbuild.preparation.inputs import OBSERVED, declared_files, source_files
from gymbuild.preparation.script import check_script
from gymbuild.system.errors import (
    EXIT_FAILED,
    GymbuildError,
    PreparationFailedError,
    PreparationMayPassError,
    PreparationRefusedError,
)
from gymbuild.system.text import size_text

if TYPE_CHECKING:
    from gymbuild.preparation.assessment import Assessment
    from gymbuild.preparation.preparer import Preparer

_VERBS = {
    "run": "run",
    "restore": "restore from the store",
    "judge": "ask the script of",
    "current": "check again, after what it reads,",
}
_PLANS = {
    "run": "its script will run",
    "restore": "it will be restored from the store, without running its script",
    "judge": "its script will be asked whether the file is current",
    "current": "what it reads is stale",
}
_DONE = {
    "prepared": "prepared",
    "restored": "restored from the store",
    "current": "is current",
    "adopted": "taken as it is",
}
_MOST_FOLDERS = 2000
"""Globs over more folders than this are not compared by `stat`: their tasks are always decided by content."""


class PrepareStep(Step):
    """Prepares the datasets of one checkout: `prepare:<dataset>`."""

    group = "prepare"
    doc = "prepared datasets, one JSONL file each"

    @cached_property
    def preparer(self) -> Preparer:
        """Decides about datasets and makes them."""
        from gymbuild.preparation.preparer import Preparer

        return Preparer(self.session)

    def preparation(self, name: str) -> Preparation:
        """The dataset and script of a task."""
        return self.session.graph.preparations[name]

    # -- what there is -------------------------------------------------------------------------------------------

    def names(self) -> Iterable[str]:
        """Every distinct output."""
        return self.session.graph.preparations

    def name_of(self, word: str) -> str | None:
        """By its own name, or by a benchmark's."""
        found = self.session.graph.preparation_of(word)
        return None if found is None else found.name

    def nicknames(self) -> Mapping[str, str]:
        """The names of benchmarks."""
        return self.session.graph.aliases

    def of_target(self, path: str) -> str | None:
        """The task that makes an output."""
        return self.session.graph.outputs.get(path)

    def problems(self) -> Mapping[str, GymbuildError]:
        """Benchmarks and datasets that cannot be built."""
        return self.session.graph.problems

    def sources(self, name: str) -> Sequence[str]:
        """The preparations whose outputs the script was seen to read, or declares as inputs."""
        preparation, by_output = self.preparation(name), self.session.graph.outputs
        record = self.preparer.record(preparation)
        read = {item.name for item in record.inputs if item.kind == "output"} if record is not None else set()
        read |= {path for path in preparation.dataset.prepare_inputs if path in by_output}
        return sorted(f"prepare:{by_output[path]}" for path in read if by_output.get(path, name) != name)

    def title(self, name: str) -> str:
        """The output, and the other benchmarks that share it."""
        preparation = self.preparation(name)
        names = [other for other in preparation.benchmarks if other != name]
        return preparation.dataset.jsonl_fpath + (f" (for {', '.join(names)} too)" if names else "")

    def files(self, name: str) -> Sequence[str]:
        """The script, its lock and its serialized args, as far as they are there."""
        preparation, checkout = self.preparation(name), self.session.checkout
        paths = [preparation.script, checkout.relative(args_path(checkout, name))]
        with contextlib.suppress(GymbuildError):
            paths[1:1] = self.preparer.environment(preparation).inputs
        return [path for path in dict.fromkeys(paths) if os.path.isfile(checkout.absolute(path))]

    def targets(self, name: str) -> Sequence[str]:
        """The output."""
        return (self.preparation(name).dataset.jsonl_fpath,)

    # -- what of it is stale -------------------------------------------------------------------------------------

    def obstacles(self, name: str) -> list[str]:
        """What the script's text tells: that it has no `prepare`, or does not take its arguments."""
        preparation = self.preparation(name)
        facts = check_script(
            self.session.checkout.absolute(preparation.script),
            preparation.dataset.args,
            name=preparation.script,
        )
        return [f"{problem} (declared in {preparation.dataset.config_path})" for problem in facts.problems]

    def observed_obstacle(self, name: str) -> Observed | None:
        """The script's text."""
        return Observed((self.preparation(name).script,))

    def assess(self, name: str) -> State:
        """What is to be done about a dataset, and why."""
        preparation = self.preparation(name)
        self.preparer.environment(preparation)
        self.preparer.check_inside(preparation)
        assessment = self.preparer.assess(preparation, always=self.session.always)
        decision = assessment.decision
        return State(decision.state == "current", decision.reasons, _VERBS[decision.state], detail=assessment)

    def setup(self, name: str, state: State | None) -> Sequence[str]:
        """The environment, where the script has to run."""
        if state is not None and state.detail.decision.state not in ("run", "judge"):
            return ()
        try:
            environment = self.preparer.environment(self.preparation(name))
        except GymbuildError:
            return ()
        return (f"venv:{environment.name}",)

    def token(self, name: str) -> str:
        """The digest of what the configs ask for."""
        preparation = self.preparation(name)
        return digest_json(
            [name, preparation.dataset.to_plain(), preparation.benchmarks, preparation.siblings]
        )

    def observed(self, name: str, state: State) -> Observed | None:
        """Every path that the last run used, the outputs, and what the environment was chosen by."""
        from gymbuild.environments.choice import environment_paths, environment_variables

        assessment: Assessment = state.detail
        preparation, checkout = self.preparation(name), self.session.checkout
        action = assessment.decision.action
        if action is None:
            return None
        paths = [preparation.script, *assessment.environment.inputs]
        folders: list[str] = []
        for item in action.inputs:
            if item.kind in OBSERVED:
                paths.append(item.name)
            elif item.kind == "declared":
                paths += declared_files(checkout, item.name)
                folders.append(_literal(item.name))
            elif item.kind == "editable":
                paths += source_files(checkout, item.name)
                folders.append(item.name)
        for folder in folders:
            below = [folder]
            for parent, names, _ in os.walk(checkout.absolute(folder)):
                below += [checkout.relative(os.path.join(parent, child)) for child in names]
                if len(below) > _MOST_FOLDERS:
                    return None
            paths += below
        paths += [path for path, _ in action.outputs]
        paths += environment_paths(assessment.environment, checkout)
        variables = {
            *preparation.dataset.prepare_env,
            *environment_variables(assessment.environment, checkout),
        }
        return Observed(
            tuple(dict.fromkeys(paths)),
            tuple(sorted(variables)),
            tuple(item.name for item in action.inputs if item.kind == "missing"),
        )

    def refusals(self, states: Mapping[str, State]) -> list[str]:
        """Preparations that are in the guard file with the very inputs that they have now."""
        return [
            f"prepare:{name} failed before with the very inputs that it has now, and would fail the same "
            f"way (.cache/failures/{name}.json says how); nothing was run. Change what it is made from, or "
            "take its line out of the file that GYMBUILD_FAILURE_FILE names."
            for name, fails in self._guarded(states).items()
            if fails
        ]

    def _guarded(self, states: Mapping[str, State]) -> dict[str, bool]:
        """The tasks in the guard file, and whether each would fail the same way."""
        lines, found = guarded(), {}
        for name in states:
            if name in lines:
                record = read_failure(self.session.checkout, name)
                now = (
                    self.preparer.inputs_of_failure(self.preparation(name), record)
                    if record is not None
                    else {}
                )
                found[name] = still_fails(record, lines[name], now)
        return found

    # -- doing ---------------------------------------------------------------------------------------------------

    def recover(self, say: Say) -> None:
        """Put back outputs whose preparation was cut off."""
        self.preparer.journal.recover(say)

    def begin(self, states: Mapping[str, State]) -> None:
        """Take the lines of what is worth another try out of the guard file, and write the args of what may run."""
        release_guards(name for name, fails in self._guarded(states).items() if not fails)
        for name, state in states.items():
            with contextlib.suppress(OSError):  # a run says so
                self.preparer.write_args(self.preparation(name), state.detail.args)

    def run(self, name: str, say: Say) -> str:
        """Make a dataset current.

        Raises:
            PreparationFailedError: it cannot be made; the output is as it was.
            GymbuildError: its environment, its args or its output's folder cannot be used.
        """
        preparation = self.preparation(name)
        self._check_environment(preparation)
        outcome = self.preparer.prepare(preparation, say, always=self.session.always)
        facts = []
        if outcome.rows is not None:
            facts.append(f"{outcome.rows:,} rows")
        if outcome.size is not None:
            facts.append(size_text(outcome.size))
        if outcome.seconds is not None:
            facts.append(f"{outcome.seconds:.1f} s")
        line = f"   prepare:{name} {_DONE[outcome.state]}: {preparation.dataset.jsonl_fpath}"
        say(line + (f" ({', '.join(facts)})" if facts else ""))
        return outcome.state

    def _check_environment(self, preparation: Preparation) -> None:
        """Fail where the environment could not be built earlier in this run: doit runs a task all the same then."""
        record = read_failure(self.session.checkout, preparation.name)
        if record is None or record.get("action") != "environment" or record.get("run") != self.session.run:
            return
        kinds = (PreparationFailedError, PreparationMayPassError, PreparationRefusedError)
        codes = {kind.kind: kind.stop_exit_code for kind in kinds}
        raise EnvironmentMissingError(codes.get(str(record.get("kind")), EXIT_FAILED))

    def clean(self, name: str, say: Say, dry_run: bool) -> None:
        """Remove a dataset's files; the store keeps their content."""
        preparation = self.preparation(name)
        self.preparer.check_inside(preparation)
        with self.preparer.locks(preparation, say):
            record = self.preparer.record(preparation)
            paths = [path for path, _ in record.outputs] if record is not None else []
            for path in dict.fromkeys([preparation.dataset.jsonl_fpath, *paths]):
                digest = self.preparer.output_digest(path)
                ours = digest is not None and self.session.store.has(digest)
                remove_product(self, path, say, dry_run, ours=ours)

    def forget(self, names: Iterable[str]) -> None:
        """Have scripts run again; the store is not asked."""
        self.session.database.put(
            [("forgotten", self.preparation(name).dataset.jsonl_fpath, True) for name in names]
        )

    def needed(self, objects: set[str], actions: set[str]) -> None:
        """The outputs, and what an unfinished run may need back."""
        for preparation in self.session.graph.preparations.values():
            record = self.preparer.record(preparation)
            if record is not None:
                actions.add(record.key)
                objects.update(digest for _, digest in record.outputs)
        for name in self.preparer.journal.unfinished():
            objects.update(self.preparer.journal.beside(name))

    # -- telling -------------------------------------------------------------------------------------------------

    def explain(self, name: str, state: State) -> str:
        """What was compared, or what will be done."""
        decision = state.detail.decision
        action = decision.action
        if not state.current:
            return f"prepare:{name} is stale: {_PLANS[decision.state]}"
        if action is None:
            return f"prepare:{name} is current: its file is taken as it is"
        kinds: dict[str, int] = {}
        for item in action.inputs:
            kinds[item.kind] = kinds.get(item.kind, 0) + 1
        compared = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(action.made))
        return (
            f"prepare:{name} is current\n"
            f"  compared {len(action.inputs)} inputs ({compared}) and {len(action.outputs)} output"
            f"{'s' if len(action.outputs) != 1 else ''}\n"
            f"  prepared {when}, action key {action.key}"
        )

    def inputs(self, name: str, state: State) -> list[InputState]:
        """The inputs that the config gives and those that the last run was seen to use."""
        assessment: Assessment = state.detail
        record = assessment.record
        then: dict[Any, Any] = (
            {(item.kind, item.name): item.state for item in record.inputs} if record is not None else {}
        )
        return [
            InputState(
                item.kind,
                item.name,
                item.state,
                "new"
                if (item.kind, item.name) not in then
                else "same"
                if then[item.kind, item.name] == item.state
                else "changed",
            )
            for item in [*assessment.static, *assessment.observed]
        ]


class EnvironmentMissingError(GymbuildError):
    """A preparation whose environment could not be built earlier in the same run.

    Args:
        exit_code: of that failure.
    """

    def __init__(self, exit_code: int = EXIT_FAILED) -> None:
        super().__init__("its environment could not be built")
        self.exit_code = exit_code


def _literal(pattern: str) -> str:
    """The folder that a glob starts from: its parts before the first wildcard."""
    parts = pattern.split("/")
    for position, part in enumerate(parts):
        if any(char in part for char in "*?["):
            return "/".join(parts[:position]) or "."
    return "/".join(parts[:-1]) or "."
