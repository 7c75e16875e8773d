"""One benchmark's plan, from the decision to the record: current, restored from the store, or written anew."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gymbuild.cache.digests import DigestCache, digest_chunks, digest_json
from gymbuild.cache.record_log import RecordLog
from gymbuild.cache.store import DamagedObjectError, Store, temporary_beside
from gymbuild.config.datasets import Benchmark
from gymbuild.config.settings import Settings
from gymbuild.preparation.journal import preserve
from gymbuild.preparation.staleness import Reason
from gymbuild.system.paths import Checkout, file_name

if TYPE_CHECKING:
    from gymbuild.plan.plan import Plan

FORMAT = 1
"""Part of every plan's key: raised when the same inputs would give another plan."""

Say = Any


@dataclass(frozen=True, slots=True)
class PlanState:
    """What is known of one benchmark's plan."""

    path: str
    """The plan file, relative to the checkout when inside it."""
    facts: Mapping[str, Any]
    """All that the plan depends on, as it is now."""
    reasons: tuple[Reason, ...]
    """Why it is stale; empty when it is current."""
    digest: str | None = None
    """The digest of the plan that these very facts gave, where it is known."""
    tasks: int | None = None


@dataclass(frozen=True, slots=True)
class PlanOutcome:
    """What was done for one plan."""

    state: str
    """`current`, `restored` or `written`; `same` when it was made anew and is what it was."""
    path: str
    tasks: int
    selected: int | None = None


class Planner:
    """Writes the plans of one checkout.

    Args:
        checkout: the checkout.
        settings: of the command line.
        digests: the digest cache.
        state: the records of what was made.
        store: keeps every plan by content.
    """

    def __init__(
        self, checkout: Checkout, settings: Settings, digests: DigestCache, state: RecordLog, store: Store
    ) -> None:
        self.checkout = checkout
        self.settings = settings
        self._digests = digests
        self._state = state
        self._store = store
        self._version: str | None = None
        self._commit: tuple[str | None] | None = None

    def path(self, benchmark: Benchmark) -> str:
        """Where the plan of a benchmark goes, absolute."""
        if self.settings.plan_output_fpath:
            return self.checkout.absolute(self.settings.plan_output_fpath)
        return self.checkout.cached("plans", file_name(benchmark.name) + ".json")

    def gym(self) -> tuple[str, str | None]:
        """`gym.version` and `gym.commit` of plans made now."""
        from gymbuild.plan.plan import gym_commit, gym_version

        if self._version is None:
            self._version = gym_version(self.checkout)
        if not self.settings.plan_commit:
            return self._version, None
        if self._commit is None:
            self._commit = (gym_commit(self.checkout),)
        return self._version, self._commit[0]

    def facts(self, benchmark: Benchmark) -> dict[str, Any]:
        """All that a plan depends on, as it is now."""
        version, commit = self.gym()
        dataset = benchmark.dataset
        return {
            "format": FORMAT,
            "prepared file": self._digests.get(dataset.jsonl_fpath),
            "prompt template": self._digests.get(dataset.prompt_config) if dataset.prompt_config else None,
            "prompt_config": dataset.prompt_config,
            "dataset": dataset.name,
            "taskset": dataset.taskset,
            "config_paths": [self.config_path(benchmark)],
            "gym.version": version,
            "gym.commit": commit,
            "plan_ids": self.settings.plan_ids,
            "plan_task_ids": None
            if self.settings.plan_task_ids is None
            else sorted(set(self.settings.plan_task_ids)),
        }

    def config_path(self, benchmark: Benchmark) -> str:
        """The file that a benchmark was selected with, as its plan has it: relative to its root."""
        return benchmark.config_path

    def assess(self, benchmark: Benchmark) -> PlanState:
        """Decide about one plan; changes nothing."""
        path = self.path(benchmark)
        relative = self.checkout.relative(path)
        facts = self.facts(benchmark)
        record = self._state.get("plan:" + relative)
        if record is None:
            return PlanState(
                relative, facts, (Reason(relative, None, None, f"{relative} was never written here"),)
            )
        then = record["facts"]
        reasons = [
            Reason(
                name, _text(then.get(name)), _text(facts[name]), _sentence(name, then.get(name), facts[name])
            )
            for name in facts
            if then.get(name) != facts[name]
        ]
        if reasons:
            return PlanState(relative, facts, tuple(reasons))
        found = None if os.path.islink(path) else self._digests.get(relative)
        if found != record["digest"]:
            text = f"{relative} is not there" if found is None else f"{relative} was changed by hand"
            reasons.append(Reason(relative, record["digest"], found, text))
        return PlanState(relative, facts, tuple(reasons), record["digest"], record["tasks"])

    def write(self, benchmark: Benchmark, say: Any) -> PlanOutcome:
        """Make one plan current.

        Args:
            benchmark: the benchmark, prepared.
            say: told what a person should know.

        Raises:
            PlanError: the prepared file, the prompt template or the selection cannot be used.
            OSError: the plan cannot be written; the old one stays.
        """
        state = self.assess(benchmark)
        path = self.checkout.absolute(state.path)
        if not state.reasons and state.tasks is not None:
            return PlanOutcome("current", state.path, state.tasks)
        self._keep_edit(state, say)
        if state.digest is not None and state.tasks is not None and self._store.has(state.digest):
            try:
                self._store.restore(state.digest, path)
                self._save(state, state.digest, state.tasks)
                return PlanOutcome("restored", state.path, state.tasks)
            except (DamagedObjectError, FileNotFoundError):
                say(f"warning: plan:{benchmark.name}: its object in the store was damaged; writing it anew")
        plan = self.make(benchmark)
        old = self._digests.get(state.path)
        digest = self._write(plan, path, None if os.path.islink(path) else old)
        self._keep_template(benchmark, state)
        self._save(state, digest, len(plan.tasks))
        selected = None if plan.selected is None else len(plan.selected)
        return PlanOutcome("same" if digest == old else "written", state.path, len(plan.tasks), selected)

    def make(self, benchmark: Benchmark) -> Plan:
        """A benchmark's plan from its prepared file."""
        from gymbuild.plan.plan import build_plan

        version, commit = self.gym()
        dataset = benchmark.dataset
        return build_plan(
            self.checkout.absolute(dataset.jsonl_fpath),
            benchmark=dataset.name,
            taskset=dataset.taskset,
            config_paths=[self.config_path(benchmark)],
            prompt=self.checkout.absolute(dataset.prompt_config) if dataset.prompt_config else None,
            gym_version=version,
            gym_commit=commit,
            task_ids=self.settings.plan_task_ids,
            ids=self.settings.plan_ids,
            processes=0,
        )

    def _keep_edit(self, state: PlanState, say: Any) -> None:
        path = self.checkout.absolute(state.path)
        if not os.path.lexists(path):
            return
        found = None if os.path.islink(path) else self._digests.get(state.path)
        record = self._state.get("plan:" + state.path)
        ours = found is not None and (self._store.has(found) or (record or {}).get("digest") == found)
        if not ours:
            kept = preserve(self.checkout, state.path)
            say(f"{state.path} was not written by gymbuild, or was changed by hand; it is kept as {kept}")

    def _write(self, plan: Plan, path: str, old: str | None) -> str:
        """Write a plan, a piece at a time, unless the file at `path` has the digest `old` and so is it; its digest.

        It is in the store before it is in its place: whatever dies between that and the record, the next start
        knows the file for one of ours, not for one that a person wrote.
        """
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with temporary_beside(path) as temporary:
            with open(temporary, "wb") as file:
                digest = digest_chunks(plan.chunks(), file.write)
                file.flush()
                if digest != old:
                    os.fsync(file.fileno())
            self._store.add(temporary, digest)
            if digest != old:
                os.replace(temporary, path)
        return digest

    def _keep_template(self, benchmark: Benchmark, state: PlanState) -> None:
        """Have the prompt template in the store, so that the tasks of this plan can be shown again later."""
        template, digest = benchmark.dataset.prompt_config, state.facts["prompt template"]
        if template is not None and digest is not None:
            with contextlib.suppress(OSError):
                self._store.add(self.checkout.absolute(template), digest)

    def _save(self, state: PlanState, digest: str, tasks: int) -> None:
        record = {"facts": dict(state.facts), "digest": digest, "tasks": tasks, "made": time.time()}
        # the second one stays when the plan is made anew: `diff` asks it what an earlier plan was made from
        self._state.put([("plan:" + state.path, record), ("planned:" + digest, record)])
        with contextlib.suppress(OSError):
            self._digests.save()  # only time is lost


def plan_key(facts: Mapping[str, Any]) -> str:
    """One digest over all that a plan depends on."""
    return digest_json(dict(facts))


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _sentence(name: str, before: Any, after: Any) -> str:
    if name in ("prepared file", "prompt template"):
        return f"the {name} changed ({str(before)[:12]} to {str(after)[:12]})"
    if name == "format":
        return "this version of gymbuild makes plans another way"
    return f"{name} changed from {before!r} to {after!r}"
