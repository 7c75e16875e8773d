"""The step `plan`: the plan of each benchmark, made from its prepared file."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gymbuild.cache.digests import digest_json
from gymbuild.config.datasets import Benchmark
from gymbuild.config.file_step import FileStep, Write
from gymbuild.system.errors import GymbuildError, UsageError
from gymbuild.system.paths import file_name

if TYPE_CHECKING:
    from gymbuild.config.session import Session
    from gymbuild.plan.plan import Plan

_VERSION_FILES = ("nemo_gym/package_info.py", "pyproject.toml")
"""Where the version that a plan states is read."""


class Planner(FileStep):
    """Writes the plans of one checkout: `plan:<benchmark>`."""

    group = "plan"
    doc = "reproducible plans, one per benchmark"

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._version: str | None = None
        self._commit: tuple[str | None] | None = None

    def names(self) -> Iterable[str]:
        """Every benchmark that can be built."""
        return self.session.graph.benchmarks

    def problems(self) -> Mapping[str, GymbuildError]:
        """Benchmarks whose config cannot be used."""
        return self.session.graph.problems

    def sources(self, name: str) -> Sequence[str]:
        """The preparation of the benchmark's dataset."""
        return (f"prepare:{self.session.graph.aliases[name]}",)

    def title(self, name: str) -> str:
        """The benchmark's description."""
        benchmark = self.session.graph.benchmarks[name]
        return benchmark.description or f"plan of {benchmark.config_path}"

    def files(self, name: str) -> Sequence[str]:
        """The prepared file and the prompt template."""
        dataset = self.session.graph.benchmarks[name].dataset
        return tuple(filter(None, (dataset.jsonl_fpath, dataset.prompt_config)))

    def fact_files(self, name: str) -> Sequence[str]:
        """Also what says which version of Gym this is."""
        return (*self.files(name), *_VERSION_FILES)

    def token(self, name: str) -> str:
        """The digest of what the config asks for."""
        return digest_json([self.format, self.session.graph.benchmarks[name].to_plain()])

    def check_selection(self, names: Sequence[str]) -> None:
        """Two settings are for one plan."""
        settings = self.session.settings
        if settings.plan_output_fpath and len(names) != 1:
            raise UsageError(
                f"plan_output_fpath={settings.plan_output_fpath} names one file, and {len(names)} plans are "
                "selected; name one benchmark: `doit plan:NAME plan_output_fpath=FILE`."
            )
        if settings.plan_task_ids is not None and len(names) != 1:
            raise UsageError(
                f"plan_task_ids selects tasks of one benchmark, and {len(names)} plans are selected; "
                "name one: `doit plan:NAME plan_task_ids=[…]`."
            )

    def path(self, name: str) -> str:
        """Where the plan of a benchmark goes, absolute."""
        if self.session.settings.plan_output_fpath:
            return self.session.checkout.absolute(self.session.settings.plan_output_fpath)
        return self.session.checkout.cached("plans", file_name(name) + ".json")

    def target(self, name: str) -> str:
        """The plan, relative to the checkout when inside it."""
        return self.session.checkout.relative(self.path(name))

    def gym(self) -> tuple[str, str | None]:
        """`gym.version` and `gym.commit` of plans made now."""
        from gymbuild.plan.provenance import gym_commit, gym_version

        if self._version is None:
            self._version = gym_version(self.session.checkout)
        if not self.session.settings.plan_commit:
            return self._version, None
        if self._commit is None:
            self._commit = (gym_commit(self.session.checkout),)
        return self._version, self._commit[0]

    def facts(self, name: str) -> dict[str, Any]:
        """All that a plan depends on, as it is now."""
        version, commit = self.gym()
        benchmark, digests, settings = (
            self.session.graph.benchmarks[name],
            self.session.digests,
            self.session.settings,
        )
        dataset, ids = benchmark.dataset, settings.plan_task_ids
        return {
            "format": self.format,
            "prepared file": digests.get(dataset.jsonl_fpath),
            "prompt template": digests.get(dataset.prompt_config) if dataset.prompt_config else None,
            "prompt_config": dataset.prompt_config,
            "dataset": dataset.name,
            "taskset": dataset.taskset,
            "config_paths": [benchmark.config_path],
            "gym.version": version,
            "gym.commit": commit,
            "plan_ids": settings.plan_ids,
            "plan_task_ids": None if ids is None else sorted(set(ids)),
        }

    def make(self, name: str, write: Write) -> dict[str, Any]:
        """Write the plan of a prepared benchmark.

        Raises:
            PlanError: the prepared file, the prompt template or the selection cannot be used.
        """
        benchmark = self.session.graph.benchmarks[name]
        plan = self.plan(benchmark)
        for chunk in plan.chunks():
            write(chunk)
        self._keep_template(benchmark)
        return {
            "tasks": len(plan.tasks),
            "selected": None if plan.selected is None else len(plan.selected),
        }

    def plan(self, benchmark: Benchmark) -> Plan:
        """A benchmark's plan from its prepared file."""
        from gymbuild.plan.plan import build_plan

        version, commit = self.gym()
        dataset, checkout = benchmark.dataset, self.session.checkout
        return build_plan(
            checkout.absolute(dataset.jsonl_fpath),
            benchmark=dataset.name,
            taskset=dataset.taskset,
            config_paths=[benchmark.config_path],
            prompt=checkout.absolute(dataset.prompt_config) if dataset.prompt_config else None,
            gym_version=version,
            gym_commit=commit,
            task_ids=self.session.settings.plan_task_ids,
            ids=self.session.settings.plan_ids,
            processes=0,
        )

    def describe(self, made: Mapping[str, Any]) -> str:
        """How many tasks it has."""
        selected = "" if made.get("selected") is None else f", {made['selected']:,} selected"
        return f"{made['tasks']:,} task{'s' if made['tasks'] != 1 else ''}{selected}"

    def remembered(self, name: str, record: Mapping[str, Any]) -> list[tuple[str, str, Any]]:
        """By digest too, which stays when the plan is made anew: `diff` asks it what an earlier plan was made from."""
        return [("planned", record["digest"], dict(record))]

    def _keep_template(self, benchmark: Benchmark) -> None:
        """Have the prompt template in the store, so that the tasks of this plan can be shown again later."""
        template = benchmark.dataset.prompt_config
        digest = self.session.digests.get(template) if template is not None else None
        if template is not None and digest is not None:
            with contextlib.suppress(OSError):
                self.session.store.add(self.session.checkout.absolute(template), digest)
