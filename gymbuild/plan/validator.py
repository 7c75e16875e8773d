"""The step `validate`: the rows of each benchmark's datasets, checked."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gymbuild.cache.digests import digest_json
from gymbuild.config.datasets import Dataset
from gymbuild.config.step import Observed, Reason, Say, State, Step
from gymbuild.system.errors import GymbuildError, PlanError

if TYPE_CHECKING:
    from gymbuild.plan.validation import Report

FORMAT = 1
"""Part of every record: raised when the same rows would be judged another way."""


class Validator(Step):
    """Validates the datasets of one checkout: `validate:<benchmark>`.

    A validation is of a benchmark's own dataset and of the others that its config declares: its examples, and the
    datasets for training and validation that are there.
    """

    group = "validate"
    doc = "rows of prepared files checked, and of the datasets beside them"

    def names(self) -> Iterable[str]:
        """Every benchmark, and every dataset with a prepare script that none declares."""
        graph = self.session.graph
        others = [name for name, item in graph.preparations.items() if not item.benchmarks]
        return dict.fromkeys([*graph.benchmarks, *others])

    def problems(self) -> Mapping[str, GymbuildError]:
        """Benchmarks whose config cannot be used."""
        return self.session.graph.problems

    def sources(self, name: str) -> Sequence[str]:
        """The preparation of its dataset."""
        return (f"prepare:{self._source(name)}",)

    def _source(self, name: str) -> str:
        return self.session.graph.aliases.get(name, name)

    def dataset(self, name: str) -> Dataset:
        """A validation's own dataset."""
        graph = self.session.graph
        return (
            graph.benchmarks[name].dataset if name in graph.benchmarks else graph.preparations[name].dataset
        )

    def title(self, name: str) -> str:
        """What is checked."""
        return f"check the rows of {self.dataset(name).jsonl_fpath}"

    def assess(self, name: str) -> State:
        """Whether the very files that there are have been validated, with the rules that hold, and were good."""
        record = self.session.database.get("validated", name)
        if record is None:
            text = f"the rows of {self.dataset(name).jsonl_fpath} were never validated here"
            return State(False, (Reason(name, None, None, text),), "validate")
        now = self._facts(name, record["files"])
        changed = [
            Reason(fact, None, None, f"{fact} changed since the rows were validated")
            for fact in now
            if record["facts"].get(fact) != now[fact]
        ]
        return State(not changed, tuple(changed), "validate", detail=record["files"])

    def observed(self, name: str, state: State) -> Observed | None:
        """The files that were validated, and the configs that name them."""
        return Observed((*state.detail, *self._configs(name)))

    def token(self, name: str) -> str:
        """The digest of what the config asks for."""
        dataset = self.dataset(name)
        return digest_json([FORMAT, dataset.to_plain(), list(self._configs(name))])

    def run(self, name: str, say: Say) -> str:
        """Validate the datasets, and remember it when nothing failed.

        Raises:
            ConfigError: the config cannot be resolved.
            PlanError: the prepared file is not there, or rows are not as they have to be.
        """
        from gymbuild.plan.validation import render_report

        reports = self.validate(name)
        for report in reports:
            if report.ok:
                say("   " + render_report(report).replace("\n", "\n   "))
        failed = [render_report(report) for report in reports if not report.ok]
        if failed:
            raise PlanError("\n".join(failed))
        return "validated"

    def validate(self, name: str) -> list[Report]:
        """The reports over a validation's datasets."""
        from gymbuild.plan.validation import validate_rows

        session = self.session
        checkout, settings = session.checkout, session.settings
        own = self.dataset(name)
        if not os.path.isfile(checkout.absolute(own.jsonl_fpath)):
            raise PlanError(f"{own.jsonl_fpath}: is not there; `doit prepare:{self._source(name)}` makes it")
        datasets = [own, *self._companions(name, own)]
        files = [path for item in datasets for path in (item.jsonl_fpath, item.prompt_config) if path]
        facts = self._facts(name, files)
        reports = [
            validate_rows(
                checkout.absolute(item.jsonl_fpath), item, checkout, settings.strict, ids=settings.plan_ids
            )
            for item in datasets
        ]
        if all(report.ok for report in reports):
            record = {"facts": facts, "files": files, "made": time.time()}
            session.database.put([("validated", name, record)])
            session.digests.save()
        return reports

    def forget(self, names: Iterable[str]) -> None:
        """Have rows validated again."""
        self.session.database.put([("validated", name, None) for name in names])

    def _companions(self, name: str, own: Dataset) -> Iterator[Dataset]:
        """The other datasets of the same config: examples, and what is there of those for training."""
        from gymbuild.config.catalog import resolve_configs

        session = self.session
        benchmark = session.graph.benchmarks.get(name)
        configs = session.settings.config_paths or (
            benchmark.config_path if benchmark is not None else own.config_path,
        )
        resolved = resolve_configs(
            session.checkout,
            configs,
            search_dirs=session.settings.search_dirs,
            allow_outside=session.settings.allow_outside,
        )
        done = {own.jsonl_fpath}
        for item in resolved.datasets:
            if item.jsonl_fpath in done or item.type == "benchmark":
                continue
            done.add(item.jsonl_fpath)
            if item.type == "example" or os.path.isfile(session.checkout.absolute(item.jsonl_fpath)):
                yield item

    def _configs(self, name: str) -> Sequence[str]:
        benchmark = self.session.graph.benchmarks.get(name)
        return benchmark.config_files if benchmark is not None else (self.dataset(name).config_path,)

    def _facts(self, name: str, files: Iterable[str]) -> dict[str, Any]:
        """All that a validation depends on, as it is now."""
        session, own = self.session, self.dataset(name)
        return {
            "format": FORMAT,
            "strict": session.settings.strict,
            "plan_ids": session.settings.plan_ids,
            "own": [own.jsonl_fpath, own.prompt_config],
            **{path: session.digests.get(path) for path in (*self._configs(name), *files)},
        }
