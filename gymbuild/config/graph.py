"""Benchmarks and datasets → preparations, one per distinct output, with their names; and what cannot be built."""

from __future__ import annotations

import ast
import marshal
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gymbuild.cache.database import Database
from gymbuild.cache.digests import canonical_json
from gymbuild.config.datasets import Benchmark, Dataset
from gymbuild.system.errors import ConfigDeniedError, ConfigError, GymbuildError
from gymbuild.system.paths import Checkout


@dataclass(frozen=True, slots=True)
class Preparation:
    """One distinct output and the script that makes it."""

    name: str
    """What follows `prepare:` in its task's name."""
    dataset: Dataset
    benchmarks: tuple[str, ...] = ()
    """The benchmarks that share it, in name order."""
    siblings: tuple[tuple[str, str], ...] = ()
    """Other outputs of the same script, each with the config that declares it."""

    @property
    def script(self) -> str:
        """The prepare script, relative to the checkout."""
        assert self.dataset.prepare_script is not None
        return self.dataset.prepare_script

    @property
    def module(self) -> str:
        """The script's dotted module path from the root that it is of."""
        root = self.dataset.script_root
        return module_name(self.script if root == "." else self.script.removeprefix(root + "/"))


@dataclass(slots=True)
class Graph:
    """The tasks that the configs of a checkout come to."""

    preparations: Mapping[str, Preparation] = field(default_factory=dict)
    """By task name (without `prepare:`)."""
    benchmarks: Mapping[str, Benchmark] = field(default_factory=dict)
    """By name: one plan each."""
    aliases: dict[str, str] = field(default_factory=dict)
    """Benchmark name → name of its dataset's preparation, for every benchmark."""
    outputs: dict[str, str] = field(default_factory=dict)
    """Output → name of the preparation that makes it."""
    problems: dict[str, GymbuildError] = field(default_factory=dict)
    """Benchmarks and preparations that cannot be built, by name, with what is wrong."""
    scripts: list[str] = field(default_factory=list)
    """Scripts whose text was read to tell which of several declared outputs they write."""

    def preparation_of(self, name: str) -> Preparation | None:
        """The preparation that `prepare:<name>` stands for, by its own name or by a benchmark's."""
        return self.preparations.get(name) or self.preparations.get(self.aliases.get(name, ""))


class _Lazy(Mapping[str, Any]):
    """Values by name, each read when it is asked for.

    Args:
        names: in order.
        read: gives one, or None when it is damaged.
        anew: gives all of them.
    """

    def __init__(
        self, names: Iterable[str], read: Callable[[str], Any], anew: Callable[[], Mapping[str, Any]]
    ) -> None:
        self._names, self._read, self._anew = dict.fromkeys(names), read, anew
        self._values: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._values:
            if name not in self._names:
                raise KeyError(name)
            found = self._read(name)
            if found is None:
                self._values.update(self._anew())
            else:
                self._values[name] = found
        return self._values[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


@dataclass(frozen=True, slots=True)
class RecordedGraph:
    """The graph of an earlier start.

    Its benchmarks are those of the catalog's records in the database; what the graph adds to them is in the index.
    """

    database: Database
    data: bytes
    """What `graph_record` gave, marshalled."""

    def read(self, anew: Callable[[], Graph]) -> Graph:
        """The graph, its tasks read when they are asked for.

        Args:
            anew: makes the graph from the configs, should a task be damaged.
        """
        found = marshal.loads(self.data)
        kind = found["benchmark_kind"]

        def benchmark(name: str) -> Benchmark | None:
            plain = self.database.get(kind, name)
            return None if plain is None else Benchmark.from_plain(plain)

        def preparation(name: str) -> Preparation | None:
            owner, benchmarks, siblings = found["preparations"][name]
            made = benchmark(owner)
            others = tuple((path, config) for path, config in siblings)
            return None if made is None else Preparation(name, made.dataset, tuple(benchmarks), others)

        return Graph(
            _Lazy(found["preparations"], preparation, lambda: anew().preparations),
            _Lazy(found["benchmarks"], benchmark, lambda: anew().benchmarks),
            found["aliases"],
            found["outputs"],
            {
                name: ConfigError(message, file=file, line=line, key=key)
                for name, (message, file, line, key) in found["problems"].items()
            },
            found["scripts"],
        )


def graph_record(graph: Graph, benchmark_kind: str) -> dict[str, Any] | None:
    """What `RecordedGraph` reads; None when the graph has a problem that is not to be kept.

    That is one that is not a config's, or one that other users do not have.

    Args:
        graph: made from the configs.
        benchmark_kind: the kind of the catalog's records that have its benchmarks.
    """
    problems = {}
    for name, error in graph.problems.items():
        if not isinstance(error, ConfigError) or isinstance(error, ConfigDeniedError):
            return None
        problems[name] = (error.message, error.file, error.line, error.key)
    return {
        "benchmark_kind": benchmark_kind,
        "preparations": {
            name: (item.benchmarks[0], item.benchmarks, item.siblings)
            for name, item in graph.preparations.items()
        },
        "benchmarks": list(graph.benchmarks),
        "aliases": dict(graph.aliases),
        "outputs": dict(graph.outputs),
        "problems": problems,
        "scripts": list(graph.scripts),
    }


def module_name(script: str) -> str:
    """The dotted path of a script below the checkout: `benchmarks/aime24/prepare.py` → `benchmarks.aime24.prepare`."""
    return os.path.splitext(script)[0].strip("/").replace("/", ".")


def build_graph(
    checkout: Checkout,
    benchmarks: Mapping[str, Benchmark],
    problems: Mapping[str, GymbuildError] | None = None,
    other_datasets: Iterable[Dataset] = (),
) -> Graph:
    """Derive the tasks.

    Args:
        checkout: where the scripts are; their text settles which of several declared outputs a script writes.
        benchmarks: by name.
        problems: configs that could not be resolved, by benchmark name.
        other_datasets: datasets with a prepare script that no benchmark declares (train, validation).

    Returns:
        the graph; what cannot be built is in its `problems`, everything else stays buildable.
    """
    graph = Graph(problems=dict(problems or {}))
    by_output: dict[str, list[tuple[str | None, Dataset]]] = defaultdict(list)
    for name in sorted(benchmarks):
        by_output[benchmarks[name].dataset.jsonl_fpath].append((name, benchmarks[name].dataset))
    for dataset in other_datasets:
        if dataset.prepare_script is not None:
            by_output[dataset.jsonl_fpath].append((None, dataset))

    shared: dict[str, list[tuple[tuple[str, ...], Dataset]]] = {}
    for output, users in by_output.items():
        first = users[0][1]
        disagreement = next((other for _, other in users[1:] if _recipe(other) != _recipe(first)), None)
        names = tuple(name for name, _ in users if name is not None)
        if disagreement is not None:
            error = _disagreement(output, first, disagreement)
            for name in names or (first.name,):
                graph.problems[name] = error
            continue
        shared.setdefault(first.prepare_script or "", []).append((names, first))

    chosen: list[tuple[tuple[str, ...], Dataset, tuple[tuple[str, str], ...]]] = []
    for script, outputs in shared.items():
        writers = _writers(checkout, script, outputs, graph.scripts)
        for names, dataset in outputs:
            owner = writers[dataset.jsonl_fpath]
            if owner is not dataset:
                error = _second_output(dataset, owner)
                for name in names or (dataset.name,):
                    graph.problems[name] = error
                continue
            siblings = tuple(
                (other.jsonl_fpath, other.config_path) for _, other in outputs if other is not dataset
            )
            chosen.append((names, dataset, siblings))

    _name_them(graph, chosen)
    graph.benchmarks = {name: benchmarks[name] for name in sorted(benchmarks) if name not in graph.problems}
    return graph


def _name_them(
    graph: Graph, chosen: list[tuple[tuple[str, ...], Dataset, tuple[tuple[str, str], ...]]]
) -> None:
    by_dataset_name: dict[str, int] = defaultdict(int)
    for _, dataset, _ in chosen:
        by_dataset_name[dataset.name] += 1
    keepers = {dataset.name: dataset.jsonl_fpath for names, dataset, _ in chosen if dataset.name in names}
    taken = {name for names, _, _ in chosen for name in names}
    preparations: dict[str, Preparation] = {}
    for names, dataset, siblings in sorted(chosen, key=lambda item: (item[0], item[1].jsonl_fpath)):
        alone = by_dataset_name[dataset.name] == 1
        keeps = keepers.get(dataset.name, dataset.jsonl_fpath if alone else None) == dataset.jsonl_fpath
        if keeps and (dataset.name in names or dataset.name not in taken):
            name = dataset.name
        else:
            name = names[0] if names else dataset.name
        unique, count = name, 2
        while unique in preparations:
            unique, count = f"{name}-{count}", count + 1
        preparations[unique] = Preparation(unique, dataset, names, siblings)
        graph.outputs[dataset.jsonl_fpath] = unique
        for benchmark in names:
            graph.aliases[benchmark] = unique
    graph.preparations = preparations


def _recipe(dataset: Dataset) -> bytes:
    """What of a dataset decides how its output is made."""
    return canonical_json(
        [
            dataset.prepare_script,
            _comparable(dataset.args),
            dataset.prepare_dependencies,
            sorted(dataset.prepare_env),
            sorted(dataset.prepare_inputs),
            sorted(dataset.prepare_outputs),
        ]
    )


def _disagreement(output: str, one: Dataset, other: Dataset) -> ConfigError:
    facts = []
    for key, label in (
        ("prepare_script", "prepare_script"),
        ("args", "prepare_script_args"),
        ("prepare_dependencies", "prepare_dependencies"),
        ("prepare_env", "prepare_env"),
        ("prepare_inputs", "prepare_inputs"),
        ("prepare_outputs", "prepare_outputs"),
    ):
        left, right = getattr(one, key), getattr(other, key)
        if left != right:
            facts.append(
                f"{label} is {_shown(left)} in {one.config_path} and {_shown(right)} in {other.config_path}"
            )
    return ConfigError(
        f"{output} is declared by {one.config_path} and by {other.config_path}, and they disagree on how it is made: "
        f"{'; '.join(facts)}. Make them agree, or give one of them another jsonl_fpath.",
        file=one.config_path,
        key="jsonl_fpath",
    )


def _shown(value: Any) -> str:
    return canonical_json(_comparable(value)).decode("utf-8", "replace")


def _comparable(value: Any) -> Any:
    """`value` with what JSON has no form for (callers of the Python API give paths) as text, to compare and show."""
    if isinstance(value, dict):
        return {key if isinstance(key, str) else repr(key): _comparable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_comparable(item) for item in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return os.fspath(value) if isinstance(value, os.PathLike) else repr(value)


def _second_output(dataset: Dataset, owner: Dataset) -> ConfigError:
    return ConfigError(
        f"{dataset.prepare_script} with the same arguments is declared to make two outputs: {owner.jsonl_fpath} "
        f"({owner.config_path}) and {dataset.jsonl_fpath} ({dataset.config_path}). It makes the former. Give the "
        "second one its own prepare_script_args or script, or the same jsonl_fpath.",
        file=dataset.config_path,
        key="jsonl_fpath",
    )


def _writers(
    checkout: Checkout, script: str, outputs: list[tuple[tuple[str, ...], Dataset]], read: list[str]
) -> dict[str, Dataset]:
    """For each output, the dataset that a run with its arguments is taken to write.

    One script with equal arguments writes one file. Which of the declared ones that is, is told by the
    script's own text where it names exactly one of them, else it is the first in order of benchmark names.
    The scripts whose text was asked are added to `read`.
    """
    groups: dict[bytes, list[Dataset]] = defaultdict(list)
    for _, dataset in sorted(outputs, key=lambda item: (item[0], item[1].jsonl_fpath)):
        groups[_recipe(dataset)].append(dataset)
    writers: dict[str, Dataset] = {}
    for group in groups.values():
        owner = group[0]
        if len(group) > 1:
            constants = _constants(checkout, script)
            read.append(script)
            named = [dataset for dataset in group if os.path.basename(dataset.jsonl_fpath) in constants]
            if len(named) == 1:
                owner = named[0]
        for dataset in group:
            writers[dataset.jsonl_fpath] = owner
    return writers


def _constants(checkout: Checkout, script: str) -> set[str]:
    try:
        with open(checkout.absolute(script), encoding="utf-8") as file:
            tree = ast.parse(file.read())
    except (OSError, SyntaxError, ValueError):
        return set()
    return {
        os.path.basename(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
