"""One command in one checkout: its settings, its graph, and what to do about what was selected."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from gymbuild.config.datasets import Benchmark, Dataset
from gymbuild.config.graph import Graph, Preparation, build_graph
from gymbuild.config.settings import Settings, merge_arguments, parse_settings
from gymbuild.environments import Environment
from gymbuild.plan.planner import Planner, PlanState
from gymbuild.preparation.assessment import Assessment
from gymbuild.preparation.failures import (
    KIND,
    failure_path,
    guarded,
    read_failure,
    still_fails,
)
from gymbuild.preparation.preparer import Preparer
from gymbuild.preparation.script import check_script
from gymbuild.system.errors import ConfigError, GymbuildError, UsageError
from gymbuild.system.paths import Checkout
from gymbuild.tasks.known import Known
from gymbuild.tasks.selection import Selection, nearest, select

if TYPE_CHECKING:
    from gymbuild.plan.validator import Validator


@dataclass(slots=True)
class Decided:
    """What is to be done about a selection."""

    selection: Selection
    stale: dict[str, Assessment] = field(default_factory=dict)
    """Preparations to make current, in an order in which none comes before what it reads."""
    current: dict[str, Assessment | None] = field(default_factory=dict)
    """Preparations that are current; None for what is known by `stat` alone."""
    plans: dict[str, PlanState | None] = field(default_factory=dict)
    """Plans whose dataset is current, and what is known of them; None for current, known by `stat` alone."""
    named_problems: dict[str, list[str]] = field(default_factory=dict)
    """Tasks that were named and cannot be built: nothing may run."""
    skipped: dict[str, list[str]] = field(default_factory=dict)
    """Tasks that were swept up in a group and cannot be built."""
    guarded: list[str] = field(default_factory=list)
    """Preparations that failed before, in a way that they would fail again."""
    released: list[str] = field(default_factory=list)
    """Preparations in the guard file that are worth another try: whoever runs them takes their lines out."""
    script_problems: dict[str, list[str]] = field(default_factory=dict)
    """Preparations whose scripts cannot be run, as their text alone tells, and why."""
    hand_all: bool = False
    """Also what is current goes to doit, for a reporter that tells of every task."""

    def tasks(self, aliases: Mapping[str, str]) -> list[str]:
        """The names of the tasks that go to doit: what is stale, and the plans that depend on it.

        Args:
            aliases: the preparation of each benchmark.
        """
        preparations = [*self.stale, *(self.current if self.hand_all else ())]
        plans = [
            name
            for name in self.selection.plans
            if self.hand_all or aliases[name] in self.stale or not self.plan_is_current(name)
        ]
        return [f"prepare:{name}" for name in preparations] + [f"plan:{name}" for name in plans]

    def named_current(self) -> list[str]:
        """The tasks that were named, or are needed by one that was, and are current."""
        chosen = self.selection
        found = [f"prepare:{name}" for name in self.current if chosen.preparations.get(name)]
        return found + [
            f"plan:{name}" for name in self.plans if self.plan_is_current(name) and chosen.plans[name]
        ]

    def count_current(self) -> int:
        """How many of the selected tasks are current."""
        return len(self.current) + sum(1 for name in self.plans if self.plan_is_current(name))

    def plan_is_current(self, name: str) -> bool:
        """Whether a plan whose dataset is current is so too."""
        plan = self.plans[name]
        return plan is None or not plan.reasons


class Session:
    """One command in one checkout.

    Args:
        root: the checkout.
        words: the command line's `name=value` words.
        parallel: whether several tasks run at once.
    """

    def __init__(self, root: str, words: Sequence[str] = (), *, parallel: bool = False) -> None:
        self.checkout = Checkout(root)
        self.words = tuple(words)
        self.settings: Settings = parse_settings(words)
        self.parallel = parallel
        self.always = False
        self.started = time.time()
        self.named: tuple[str, ...] = ()
        """Words that name tasks: arguments from the command line go to their datasets only."""
        self.decided: Decided | None = None
        """Set for the command that runs tasks: task creators then make the tasks that have to run."""

    def __reduce__(self) -> tuple[object, ...]:
        return (
            _unpickle,
            (self.checkout.root, self.words, self.parallel, self.always, self.named, self.started),
        )

    def renewed(self) -> Session:
        """A session that sees the files as they are now; its graph too, unless that is one that was kept."""
        session = Session(self.checkout.root, self.words, parallel=self.parallel)
        if self.known is not None:
            session.__dict__["graph"] = self.graph
            session.__dict__["known"] = self.known
        return session

    def forget_known(self) -> None:
        """Take nothing more from the last start: the graph has changed since."""
        self.__dict__["known"] = None

    @cached_property
    def known(self) -> Known | None:
        """What is known by `stat` alone, where the graph is as it was; None with settings, which may change it."""
        from gymbuild.tasks.known import take

        if self.words or self.always:
            return None
        known = take(self.checkout.root)
        return known if known.graph_holds() else None

    # -- the graph -----------------------------------------------------------------------------------------------

    @cached_property
    def graph(self) -> Graph:
        """The tasks of the checkout, with arguments from the command line given to the tasks that were named.

        Raises:
            ConfigError: a config of `config_paths` cannot be resolved.
            UsageError: arguments were given, and no task was named.
        """
        kept = self.known.graph(self._graph_anew) if self.known is not None else None
        return kept if kept is not None else self._graph_anew()

    def _graph_anew(self) -> Graph:
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
        outputs = set()
        chosen = select(graph, self.named)
        for name, named in chosen.preparations.items():
            if named:
                outputs.add(graph.preparations[name].dataset.jsonl_fpath)
        for task, named in chosen.problems.items():
            benchmark = benchmarks.get(task.partition(":")[2])
            if named and benchmark is not None:
                outputs.add(benchmark.dataset.jsonl_fpath)
        return outputs

    @cached_property
    def preparer(self) -> Preparer:
        """Prepares this checkout's datasets."""
        return Preparer(self.checkout, self.settings, others=self.graph.outputs, label_lines=self.parallel)

    @cached_property
    def planner(self) -> Planner:
        """Writes this checkout's plans."""
        preparer = self.preparer
        return Planner(self.checkout, self.settings, preparer.digests, preparer.state, preparer.store)

    @cached_property
    def validator(self) -> Validator:
        """Validates the rows of this checkout's datasets."""
        from gymbuild.plan.validator import Validator

        return Validator(self)

    @cached_property
    def _environments(self) -> dict[str, Environment | GymbuildError]:
        return {}

    def environment(self, preparation: Preparation) -> Environment:
        """The environment of a preparation's script.

        Raises:
            GymbuildError: it cannot be told, such as inline metadata without its lock.
        """
        found = self._environments.get(preparation.name)
        if found is None:
            try:
                found = self.preparer.environment(preparation)
            except GymbuildError as error:
                found = error
            self._environments[preparation.name] = found
        if isinstance(found, GymbuildError):
            raise found
        return found

    def failed_environment(self, preparation: Preparation) -> Any:
        """The failure of a preparation whose environment could not be built earlier in this run, or None."""
        from gymbuild.system.errors import EXIT_FAILED, EXIT_MAY_PASS
        from gymbuild.tasks.reporter import GymbuildTaskFailed

        record = read_failure(self.checkout, preparation.name)
        if record is None or record.get("action") != "environment":
            return None
        if os.stat(failure_path(self.checkout, preparation.name)).st_mtime < self.started:
            return None
        code = EXIT_FAILED if record.get("kind") == KIND else EXIT_MAY_PASS
        return GymbuildTaskFailed("its environment could not be built", code)

    def upstream(self, preparation: Preparation) -> list[str]:
        """The preparations whose outputs this one's script was seen to read, or declares as inputs."""
        by_output = self.graph.outputs
        record = self.preparer.record(preparation)
        read = {item.name for item in record.inputs if item.kind == "output"} if record is not None else set()
        read |= {path for path in preparation.dataset.prepare_inputs if path in by_output}
        return sorted({by_output[path] for path in read if path in by_output} - {preparation.name})

    # -- deciding ------------------------------------------------------------------------------------------------

    def decide(self, words: Sequence[str], *, by_stat: bool = False) -> Decided:
        """Decide what to do about the selected tasks: everything is validated before anything runs.

        Args:
            words: the positional words of the command line.
            by_stat: take what is known by `stat` alone to be current as such, without the details.

        Raises:
            UsageError: a word of ours that names nothing.
            GymbuildError: the graph cannot be made.
        """
        self.named = tuple(words)
        graph = self.graph
        selection = select(graph, words)
        if selection.unknown:
            raise UsageError("\n".join(self._unknown(word) for word in selection.unknown))
        self._check_settings(selection)
        decided = Decided(selection)
        for task, named in selection.problems.items():
            error = graph.problems[task.partition(":")[2]]
            _report(decided, named, task, [str(error)])
        broken: dict[str, str] = {}
        known = self.known if by_stat else None
        certain: set[str] = set()
        if known is not None:
            certain.update(name for name in selection.preparations if known.is_current("prepare:" + name))
        decided.current = dict.fromkeys(name for name in selection.preparations if name in certain)
        for name in self._in_order(selection.preparations, certain, known):
            if known is not None and known.is_current("prepare:" + name):
                decided.current[name] = None
                continue
            named = selection.preparations.get(name, False)
            known_problems = known.problems("prepare:" + name) if known is not None else ()
            if known_problems:
                _report(decided, named, f"prepare:{name}", list(known_problems))
                broken[name] = "prepare:" + name
                continue
            preparation = graph.preparations[name]
            try:
                problems, assessment = self._assess(preparation)
                if problems:
                    decided.script_problems[name] = problems
            except GymbuildError as error:
                problems, assessment = [str(error)], None
            if problems:
                _report(decided, named, f"prepare:{name}", problems)
                broken[name] = "prepare:" + name
                continue
            assert assessment is not None
            bad = [broken[other] for other in self.upstream(preparation) if other in broken]
            if bad:
                _report(
                    decided,
                    bool(named),
                    f"prepare:{name}",
                    [f"it reads what {bad[0]} makes, which cannot be built"],
                )
                broken[name] = "prepare:" + name
            elif assessment.decision.state == "current" and not any(
                other in decided.stale for other in self.upstream(preparation)
            ):
                decided.current[name] = assessment
            else:
                decided.stale[name] = assessment
        for name in selection.plans:
            source = graph.aliases[name]
            if source in broken:
                selection.plans[name] = False
            elif source in decided.current and known is not None and known.is_current(f"plan:{name}"):
                decided.plans[name] = None
            elif source in decided.current:
                decided.plans[name] = self.planner.assess(graph.benchmarks[name])
        for name in [name for name in selection.plans if graph.aliases[name] in broken]:
            del selection.plans[name]
        self._check_guard(decided)
        return decided

    def _assess(self, preparation: Preparation) -> tuple[list[str], Assessment | None]:
        facts = check_script(
            self.checkout.absolute(preparation.script), preparation.dataset.args, name=preparation.script
        )
        where = f" (declared in {preparation.dataset.config_path})"
        problems = [problem + where for problem in facts.problems]
        if problems:
            return problems, None
        self.environment(preparation)
        self.preparer.check_inside(preparation)
        return [], self.preparer.assess(preparation, always=self.always)

    def _check_settings(self, selection: Selection) -> None:
        settings = self.settings
        if settings.plan_output_fpath and len(selection.plans) != 1:
            raise UsageError(
                f"plan_output_fpath={settings.plan_output_fpath} names one file, and {len(selection.plans)} plans are "
                "selected; name one benchmark: `doit plan:NAME plan_output_fpath=FILE`."
            )
        if settings.plan_task_ids is not None and len(selection.plans) != 1:
            raise UsageError(
                f"plan_task_ids selects tasks of one benchmark, and {len(selection.plans)} plans are selected; "
                "name one: `doit plan:NAME plan_task_ids=[…]`."
            )

    def _unknown(self, word: str) -> str:
        near = nearest(self.graph, word)
        hint = f" The nearest are {', '.join(near)}." if near else ""
        return f"{word}: there is no such task.{hint} `gymbuild benchmarks` lists what there is."

    def _in_order(self, names: dict[str, bool], certain: set[str], known: Known | None) -> list[str]:
        """The selected preparations that are not certain, and those that they read from, each after what it reads.

        Args:
            names: the selected ones.
            certain: those that are known to be current, and so are what they read.
            known: tells of the others.
        """
        ordered: dict[str, None] = {}
        entered: set[str] = set()

        def visit(name: str) -> None:
            if name in ordered or name in entered:
                return
            entered.add(name)
            if known is not None and known.is_current(f"prepare:{name}"):
                ordered[name] = None
                return
            for other in self.upstream(self.graph.preparations[name]):
                visit(other)
            ordered[name] = None

        for name in names:
            if name not in certain:
                visit(name)
        return list(ordered)

    def _check_guard(self, decided: Decided) -> None:
        lines = guarded()
        for name in decided.stale:
            if name not in lines:
                continue
            preparation = self.graph.preparations[name]
            record = read_failure(self.checkout, name)
            now = self.preparer.inputs_of_failure(preparation, record) if record is not None else {}
            if still_fails(record, lines[name], now):
                decided.guarded.append(name)
            else:
                decided.released.append(name)


def _report(decided: Decided, named: bool, task: str, problems: list[str]) -> None:
    table = decided.named_problems if named else decided.skipped
    table.setdefault(task, []).extend(problems)


def _unpickle(
    root: str, words: tuple[str, ...], parallel: bool, always: bool, named: tuple[str, ...], started: float
) -> Session:
    session = Session(root, words, parallel=parallel)
    session.always, session.named, session.started = always, named, started
    return session


def setting_words(arguments: Sequence[str]) -> list[str]:
    """The `name=value` words of a command line, as doit tells them apart from the rest."""
    return [word for word in arguments if "=" in word and not word.startswith("-")]


__all__ = ["ConfigError", "Decided", "Session", "setting_words"]
