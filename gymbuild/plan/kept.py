"""The rows behind a plan, found again by id and digest: in the prepared file as it is, or in the store.

A plan has digests only. Every prepared file, and every prompt template that a plan was made from, is an object of
the store; a row of one of them is the one that a plan means when it gives the same id and the same digest.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gymbuild.cache.digests import digest_bytes
from gymbuild.plan.plan import Plan
from gymbuild.plan.prompts import load_prompt
from gymbuild.plan.show import ReceivedRow, received_rows
from gymbuild.system.errors import GymbuildError, PlanError

if TYPE_CHECKING:
    from gymbuild.config.datasets import Benchmark
    from gymbuild.config.session import Session


@dataclass(frozen=True, slots=True)
class Source:
    """A prepared file and a prompt template that a plan may have been made from."""

    jsonl: str
    """The prepared file, or its object in the store; absolute."""
    prompt: str | None
    """The prompt template, or its object; absolute."""
    key: tuple[str | None, str | None]
    """The digests of both."""


class KeptRows:
    """Finds the rows behind plans of one checkout.

    Args:
        session: of the checkout. Its configs need not be readable.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._store = session.store
        self._digests = session.digests

    def find(self, plan: Plan, wanted: Mapping[str, str]) -> dict[str, ReceivedRow]:
        """The rows of a plan's tasks that are still to be found.

        Args:
            plan: the plan.
            wanted: task ids of it with their digests.

        Returns:
            rows by task id; those that are not there any more are left out.
        """
        return {row.task_id: row for row in self.scan(plan, wanted)}

    def scan(self, plan: Plan, wanted: Mapping[str, str]) -> Iterator[ReceivedRow]:
        """The same, one by one and none of them kept: in the order of the prepared file, if one file has them all."""
        left = set(wanted)
        seen: set[tuple[str | None, str | None]] = set()
        for source in self._sources(plan) if left else ():
            if source.key in seen:
                continue
            seen.add(source.key)
            try:
                prompt = load_prompt(source.prompt) if source.prompt is not None else None
                for row in received_rows(source.jsonl, prompt=prompt, wanted=frozenset(left)):
                    if row.digest == wanted[row.task_id]:
                        left.discard(row.task_id)
                        yield row
            except PlanError:
                # a template that is not for these rows, or an object that was damaged or collected meanwhile
                continue
            if not left:
                return

    def benchmarks(self, plan: Plan) -> list[Benchmark]:
        """The benchmarks that a plan may be of, the most likely first; none where the configs cannot be read."""
        try:
            graph = self._session.graph
        except GymbuildError:
            return []
        same = [item for item in graph.benchmarks.values() if item.dataset.name == plan.benchmark]
        return sorted(same, key=lambda item: (item.config_path not in plan.config_paths, item.name))

    def _sources(self, plan: Plan) -> Iterator[Source]:
        """What a plan may have been made from, the most likely first."""
        checkout, digests = self._session.checkout, self._digests
        exact = self._session.database.get("planned", digest_bytes(plan.to_bytes()))
        if exact is not None and (source := self._recorded(exact)) is not None:
            yield source
        prompts: dict[str, str] = {}
        benchmarks = self.benchmarks(plan)
        for benchmark in benchmarks:
            dataset = benchmark.dataset
            template = checkout.absolute(dataset.prompt_config) if dataset.prompt_config else None
            known = digests.get(dataset.prompt_config) if dataset.prompt_config else None
            if template is not None and known is not None:
                prompts[known] = template
            jsonl = checkout.absolute(dataset.jsonl_fpath)
            if os.path.isfile(jsonl):
                yield Source(jsonl, template, (digests.get(dataset.jsonl_fpath), known))
        for record in self._planned(plan):
            if (source := self._recorded(record)) is not None:
                if source.prompt is not None and source.key[1] is not None:
                    prompts[source.key[1]] = source.prompt
                yield source
        # what was prepared and never planned with that prompt template
        names = {self._session.graph.aliases[benchmark.name] for benchmark in benchmarks}
        actions = [action for _, action in self._store.all_actions() if action.dataset in names]
        for action in sorted(actions, key=lambda action: -action.made):
            digest = action.outputs[0][1]
            if self._store.has(digest):
                for known, template in [(None, None), *prompts.items()]:
                    yield Source(self._store.object_path(digest), template, (digest, known))

    def _planned(self, plan: Plan) -> list[Mapping[str, Any]]:
        """The records of plans of the same dataset, the newest first."""
        records = self._session.database.all("planned").values()
        same = [record for record in records if record["facts"]["dataset"] == plan.benchmark]
        return sorted(same, key=lambda record: -float(record["made"]))

    def _recorded(self, record: Mapping[str, Any]) -> Source | None:
        """What a plan was made from, if the store still has it."""
        facts = record["facts"]
        digest, template = facts["prepared file"], facts["prompt template"]
        has, path = self._store.has, self._store.object_path
        if digest is None or not has(digest) or (template is not None and not has(template)):
            return None
        return Source(path(digest), None if template is None else path(template), (digest, template))
