"""One command in one checkout: its settings, its graph, what the cache holds, and the steps that work on them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from gymbuild.cache.database import Database, database
from gymbuild.cache.digests import DigestCache
from gymbuild.cache.store import Store
from gymbuild.config.graph import Graph, RecordedGraph, build_graph
from gymbuild.config.settings import Settings, merge_arguments, parse_settings
from gymbuild.config.step import Step, group_of, name_of
from gymbuild.system.errors import GymbuildError, UsageError
from gymbuild.system.paths import Checkout

if TYPE_CHECKING:
    from gymbuild.config.datasets import Benchmark, Dataset


class Session:
    """One command in one checkout.

    Args:
        root: the checkout.
        words: the command line's `name=value` words.
        steps: the kinds of task that there are, each after those whose products it is made from.
        parallel: whether several tasks run at once.
        run: of the command that this session is a part of; default a new one.
    """

    def __init__(
        self,
        root: str,
        words: Sequence[str] = (),
        steps: Sequence[type[Step]] = (),
        *,
        parallel: bool = False,
        run: str = "",
    ) -> None:
        self.checkout = Checkout(root)
        self.words = tuple(words)
        self.settings: Settings = parse_settings(words)
        self.step_types = tuple(steps)
        self.steps: dict[str, Any] = {step.group: step(self) for step in steps}
        """By group. (Any: each step has more than `Step` has, for those that know it.)"""
        self.parallel = parallel
        self.always = False
        """Every task that is selected is made, current or not (doit's `-a`)."""
        self.run = run or uuid.uuid4().hex
        """Names this command in what it leaves behind."""
        self.named: tuple[str, ...] = ()
        """Words that name tasks: arguments from the command line go to their datasets only."""

    def __reduce__(self) -> tuple[object, ...]:
        arguments = (self.checkout.root, self.words, self.step_types, self.parallel, self.run)
        return (_unpickle, (*arguments, self.always, self.named))

    def renewed(self) -> Session:
        """A session of the same command that reads everything anew."""
        return Session(self.checkout.root, self.words, self.step_types, parallel=self.parallel, run=self.run)

    def step_of(self, task: str) -> tuple[Step, str]:
        """A task's step, and its name in it."""
        return self.steps[group_of(task)], name_of(task)

    # -- the cache -----------------------------------------------------------------------------------------------

    @cached_property
    def database(self) -> Database:
        """What is remembered between starts."""
        return database(self.checkout.cache)

    @cached_property
    def digests(self) -> DigestCache:
        """Digests of this checkout's files."""
        return DigestCache(self.database, self.checkout.root)

    @cached_property
    def store(self) -> Store:
        """Every good output by its content."""
        return Store(self.checkout)

    # -- the graph -----------------------------------------------------------------------------------------------

    decided: Any = None
    """What the command that runs tasks has decided; task creators then make the tasks that have to run."""
    recorded_graph: RecordedGraph | None = None
    """The graph of an earlier start, where it is proved to be the one of now."""

    @cached_property
    def graph(self) -> Graph:
        """The tasks of the checkout, with arguments from the command line given to the tasks that were named.

        Raises:
            ConfigError: a config of `config_paths` cannot be resolved.
            UsageError: arguments were given, and no task was named.
        """
        return self.recorded_graph.read(self.new_graph) if self.recorded_graph else self.new_graph()

    def new_graph(self) -> Graph:
        """The graph, made from the configs."""
        from gymbuild.config.catalog import load_catalog, resolve_configs

        settings = self.settings
        others: list[Dataset] = []
        problems: dict[str, GymbuildError] = {}
        if settings.config_paths is not None:
            resolved = resolve_configs(
                self.checkout,
                settings.config_paths,
                search_dirs=settings.search_dirs,
                allow_outside=settings.allow_outside,
            )
            benchmarks = {benchmark.name: benchmark for benchmark in resolved.benchmarks}
            others = [dataset for dataset in resolved.datasets if dataset.type != "benchmark"]
        else:
            catalog = load_catalog(
                self.checkout, search_dirs=settings.search_dirs, allow_outside=settings.allow_outside
            )
            benchmarks = dict(catalog.benchmarks)
            problems = dict(catalog.problems)
        graph = build_graph(self.checkout, benchmarks, problems, others)
        arguments = settings.prepare_script_args
        if not arguments:
            return graph
        outputs = self._named_outputs(graph, benchmarks)
        if not outputs:
            raise UsageError(
                "prepare_script_args go to tasks that are named, and none is; write for example "
                "`doit prepare:NAME prepare_script_args.size=3`."
            )
        import dataclasses

        def with_arguments(dataset: Dataset) -> Dataset:
            if dataset.jsonl_fpath not in outputs:
                return dataset
            return dataclasses.replace(dataset, args=merge_arguments(dict(dataset.args), arguments))

        changed = {
            name: dataclasses.replace(benchmark, dataset=with_arguments(benchmark.dataset))
            for name, benchmark in benchmarks.items()
        }
        return build_graph(self.checkout, changed, problems, map(with_arguments, others))

    def _named_outputs(self, graph: Graph, benchmarks: Mapping[str, Benchmark]) -> set[str]:
        """The outputs of the datasets that the words on the command line name, themselves or by their benchmarks."""
        outputs = {word for word in self.named if word in graph.outputs}
        for word in self.named:
            name = name_of(word) if group_of(word) in self.steps else ""
            preparation = graph.preparation_of(name) if name and "*" not in name else None
            if preparation is not None:
                outputs.add(preparation.dataset.jsonl_fpath)
            elif name in benchmarks and name in graph.problems:
                outputs.add(benchmarks[name].dataset.jsonl_fpath)
        return outputs


def _unpickle(
    root: str,
    words: tuple[str, ...],
    steps: tuple[type[Step], ...],
    parallel: bool,
    run: str,
    always: bool,
    named: tuple[str, ...],
) -> Session:
    session = Session(root, words, steps, parallel=parallel, run=run)
    session.always, session.named = always, named
    return session
