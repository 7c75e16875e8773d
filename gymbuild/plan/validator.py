"""The validation of one benchmark's datasets, from the decision to the record."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from gymbuild.config.datasets import Dataset
from gymbuild.system.errors import PlanError

if TYPE_CHECKING:
    from gymbuild.plan.validation import Report
    from gymbuild.tasks.session import Session

FORMAT = 1
"""Part of every record: raised when the same rows would be judged another way."""


class Validator:
    """Validates the datasets of one checkout.

    A validation is of a benchmark's own dataset and of the others that its config declares: its examples, and the
    datasets for training and validation that are there.

    Args:
        session: of the command.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._digests = session.preparer.digests
        self._state = session.preparer.state

    def names(self) -> Iterator[str]:
        """What can be validated: every benchmark, and every dataset with a prepare script that none declares."""
        graph = self._session.graph
        yield from graph.benchmarks
        for name, preparation in graph.preparations.items():
            if not preparation.benchmarks and name not in graph.benchmarks:
                yield name

    def source(self, name: str) -> str:
        """The preparation that a validation comes after."""
        return self._session.graph.aliases.get(name, name)

    def dataset(self, name: str) -> Dataset:
        """A validation's own dataset."""
        graph = self._session.graph
        return (
            graph.benchmarks[name].dataset if name in graph.benchmarks else graph.preparations[name].dataset
        )

    def is_current(self, name: str) -> bool:
        """Whether the very files that there are have been validated, with the rules that hold, and were good."""
        record = self._state.get("validated:" + name)
        return record is not None and record["facts"] == self._facts(name, record["files"])

    def validate(self, name: str) -> list[Report]:
        """Validate the datasets, and keep it when nothing failed.

        Raises:
            ConfigError: the config cannot be resolved.
            PlanError: the prepared file is not there.
        """
        from gymbuild.plan.validation import validate_rows

        session = self._session
        checkout, settings = session.checkout, session.settings
        own = self.dataset(name)
        if not os.path.isfile(checkout.absolute(own.jsonl_fpath)):
            raise PlanError(f"{own.jsonl_fpath}: is not there; `doit prepare:{self.source(name)}` makes it")
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
            self._state.put([("validated:" + name, record)])
            self._digests.save()
        return reports

    def _companions(self, name: str, own: Dataset) -> Iterator[Dataset]:
        """The other datasets of the same config: examples, and what is there of those for training."""
        from gymbuild.config.catalog import resolve_configs

        session = self._session
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
        seen = {own.jsonl_fpath}
        for item in resolved.datasets:
            if item.jsonl_fpath in seen or item.type == "benchmark":
                continue
            seen.add(item.jsonl_fpath)
            if item.type == "example" or os.path.isfile(session.checkout.absolute(item.jsonl_fpath)):
                yield item

    def _facts(self, name: str, files: Iterable[str]) -> Mapping[str, Any]:
        """All that a validation depends on, as it is now."""
        session = self._session
        benchmark = session.graph.benchmarks.get(name)
        own = self.dataset(name)
        configs = benchmark.config_files if benchmark is not None else (own.config_path,)
        return {
            "format": FORMAT,
            "strict": session.settings.strict,
            "plan_ids": session.settings.plan_ids,
            "own": [own.jsonl_fpath, own.prompt_config],
            "configs": {path: self._digests.get(path) for path in configs},
            "files": {path: self._digests.get(path) for path in files},
        }
