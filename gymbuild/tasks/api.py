"""The Python API, for callers that hold a resolved config: the same code as under the tasks.

The names and arguments are those of NeMo Gym's `benchmark_preparation` module. Paths are relative to the
checkout, which is the present working folder.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from gymbuild.config.datasets import Benchmark, Dataset
from gymbuild.config.graph import Graph, build_graph
from gymbuild.config.session import Session
from gymbuild.system.errors import ConfigError, PreparationFailedError
from gymbuild.system.paths import Checkout
from gymbuild.tasks.decision import Decided, decide
from gymbuild.tasks.steps import new_session

if TYPE_CHECKING:
    from gymbuild.plan.plan import Plan

__all__ = [
    "PreparationFailedError",
    "PrepareBenchmarkConfig",
    "datasets_to_prepare",
    "gym_relative_path",
    "plan_for_config",
    "prepare_datasets",
]


class PrepareBenchmarkConfig(BaseModel):
    """How datasets are prepared: the settings of the command line, for Python callers."""

    model_config = ConfigDict(extra="ignore")

    use_cached_prepared_benchmarks: bool | None = Field(
        default=None,
        description="None: rebuild what is stale. True: adopt an existing prepared file, unless its script says "
        "that it is not current. False: always prepare again.",
    )
    num_prepare_benchmark_processes: int = Field(
        default=1, ge=1, description="Preparations that run at once."
    )
    prepare_script_args: dict[str, Any] = Field(
        default_factory=dict, description="Arguments for prepare(), merged onto those of the config."
    )
    uv_venv_dir: Path = Field(default=Path(".cache/venvs"), description="Where environments are built.")


def gym_relative_path(path: str) -> str:
    """A config path relative to the checkout when it lies inside it, so that plans match across machines.

    Args:
        path: relative to the checkout, or absolute.

    Returns:
        the path with forward slashes; one outside the checkout stays absolute.
    """
    return Checkout(os.getcwd()).relative(path)


def datasets_to_prepare(global_config_dict: Mapping[str, Any]) -> list[Dataset]:
    """Every dataset that a resolved config prepares: benchmark datasets, and others with a `prepare_script`.

    Args:
        global_config_dict: the resolved config, a mapping or OmegaConf's `DictConfig`.

    Raises:
        ConfigError: a dataset that cannot be used.
    """
    from gymbuild.config.catalog import datasets_of_config

    found = datasets_of_config(
        global_config_dict, Checkout(os.getcwd()), config_path=_name(global_config_dict)
    )
    return [dataset for dataset in found if dataset.type == "benchmark" or dataset.prepare_script]


def prepare_datasets(datasets: Sequence[Dataset], prepare_benchmark_config: PrepareBenchmarkConfig) -> None:
    """Make each dataset current, after validating all of them.

    Args:
        datasets: from `datasets_to_prepare`.
        prepare_benchmark_config: how.

    Raises:
        ConfigError: a dataset cannot be built; nothing was run.
        PreparationFailedError: a preparation failed; the others were done. The first one that failed.
    """
    _prepare(_session(datasets, prepare_benchmark_config), prepare_benchmark_config)


def plan_for_config(
    global_config_dict: Mapping[str, Any],
    prepare_config: PrepareBenchmarkConfig,
    task_ids: Sequence[str] | None = None,
) -> Plan:
    """Prepare the one benchmark that a resolved config declares, and build its plan.

    Args:
        global_config_dict: the resolved config, a mapping or OmegaConf's `DictConfig`. Its `config_paths` are
            what the plan says it was selected with.
        prepare_config: how to prepare it.
        task_ids: the selected tasks; None for all.

    Raises:
        ConfigError: the config declares no benchmark dataset, or several; or it cannot be built.
        PreparationFailedError: its preparation failed.
        PlanError: no plan can be made of what was prepared.
    """
    from gymbuild.plan.plan import build_plan

    found = [item for item in datasets_to_prepare(global_config_dict) if item.type == "benchmark"]
    if len(found) != 1:
        names = ", ".join(item.name for item in found) or "none"
        raise ConfigError(
            f"a plan is made of one benchmark dataset, and the config declares {len(found)} ({names})."
        )
    session = _session(found, prepare_config)
    _prepare(session, prepare_config)
    dataset = found[0]
    version, commit = session.steps["plan"].gym()
    paths = [gym_relative_path(str(path)) for path in global_config_dict.get("config_paths") or ()]
    return build_plan(
        session.checkout.absolute(dataset.jsonl_fpath),
        benchmark=dataset.name,
        taskset=dataset.taskset,
        config_paths=paths,
        prompt=session.checkout.absolute(dataset.prompt_config) if dataset.prompt_config else None,
        gym_version=version,
        gym_commit=commit,
        task_ids=task_ids,
    )


def _name(config: Mapping[str, Any]) -> str:
    paths = config.get("config_paths")
    return ", ".join(map(str, paths)) if paths else "the config"


def _session(datasets: Sequence[Dataset], config: PrepareBenchmarkConfig) -> Session:
    words = [f"uv_venv_dir={config.uv_venv_dir}"]
    if config.use_cached_prepared_benchmarks is not None:
        words.append(f"use_cached_prepared_benchmarks={str(config.use_cached_prepared_benchmarks).lower()}")
    session = new_session(os.getcwd(), words, parallel=config.num_prepare_benchmark_processes > 1)
    session.graph = _graph(session.checkout, datasets, config.prepare_script_args)
    return session


def _graph(checkout: Checkout, datasets: Sequence[Dataset], arguments: dict[str, Any]) -> Graph:
    import dataclasses

    from gymbuild.config.settings import merge_arguments

    benchmarks = {}
    for dataset in datasets:
        if arguments:
            dataset = dataclasses.replace(dataset, args=merge_arguments(dict(dataset.args), arguments))
        name, count = dataset.name, 2
        while name in benchmarks:
            name, count = f"{dataset.name}-{count}", count + 1
        benchmarks[name] = Benchmark(name, dataset.config_path, "", dataset)
    return build_graph(checkout, benchmarks)


def _prepare(session: Session, config: PrepareBenchmarkConfig) -> Decided:
    graph = session.graph
    words = [f"prepare:{name}" for name in (*graph.preparations, *graph.problems)]
    for step in session.steps.values():
        step.recover(print)
    decided = decide(session, words)
    if decided.named_problems:
        lines = [f"{task}: {text}" for task, texts in decided.named_problems.items() for text in texts]
        raise ConfigError("nothing was run:\n" + "\n".join(lines))
    session.steps["prepare"].begin(decided.states_of("prepare"))
    stale = [task.partition(":")[2] for task in decided.stale]
    failures: list[PreparationFailedError] = []

    def prepare(name: str) -> None:
        # a session of its own: records are read and written by one thread each
        own = session.renewed()
        own.graph = graph
        try:
            own.steps["prepare"].preparer.prepare(graph.preparations[name], print)
        except PreparationFailedError as error:
            failures.append(error)

    if config.num_prepare_benchmark_processes > 1:
        with ThreadPoolExecutor(config.num_prepare_benchmark_processes) as pool:
            list(pool.map(prepare, stale))
    else:
        for name in stale:
            prepare(name)
    if failures:
        raise failures[0]
    return decided
