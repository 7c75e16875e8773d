"""The Python API: the names and arguments of NeMo Gym's `benchmark_preparation`, the same code underneath."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from omegaconf import OmegaConf

import gymbuild
from gymbuild.system.errors import ConfigError
from tests.tasks.conftest import Project


def resolved(project: Project, name: str = "alpha") -> object:
    config = OmegaConf.load(project.path(f"benchmarks/{name}/config.yaml"))
    config.config_paths = [str(project.path(f"benchmarks/{name}/config.yaml"))]
    return config


@pytest.fixture
def inside(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(project.root)
    return project


def test_plan_for_config_gives_the_plan_that_the_task_writes(inside: Project) -> None:
    inside.add("alpha")
    plan = gymbuild.plan_for_config(resolved(inside), gymbuild.PrepareBenchmarkConfig())
    assert inside.runs("alpha") == 1
    inside.run("plan:alpha")
    assert inside.runs("alpha") == 1
    assert inside.path(".cache/plans/alpha.json").read_bytes() == plan.to_bytes()


def test_task_ids_select(inside: Project) -> None:
    inside.add("alpha")
    plan = gymbuild.plan_for_config(resolved(inside), gymbuild.PrepareBenchmarkConfig(), task_ids=["2", "0"])
    assert json.loads(plan.to_bytes())["selected_task_ids"] == ["0", "2"]


def test_prepare_datasets_validates_all_of_them_first(inside: Project) -> None:
    inside.add("alpha")
    inside.add("beta", signature="needed")
    datasets = [
        dataset
        for name in ("alpha", "beta")
        for dataset in gymbuild.datasets_to_prepare(resolved(inside, name))
    ]
    assert [dataset.name for dataset in datasets] == ["alpha", "beta"]
    with pytest.raises(ConfigError, match="'needed'"):
        gymbuild.prepare_datasets(datasets, gymbuild.PrepareBenchmarkConfig())
    assert inside.runs("alpha") == 0
    config = gymbuild.PrepareBenchmarkConfig(
        prepare_script_args={"needed": 1}, num_prepare_benchmark_processes=2
    )
    with pytest.raises(ConfigError, match=r"prepare:alpha.*'needed'"):
        gymbuild.prepare_datasets(datasets, config)
    inside.path("benchmarks/alpha/prepare.py").write_text(
        inside.path("benchmarks/alpha/prepare.py").read_text().replace("size: int = 3", "size=3, **more")
    )
    inside.path("benchmarks/beta/prepare.py").write_text(
        inside.path("benchmarks/beta/prepare.py").read_text().replace("(needed)", "(needed, size=3)")
    )
    gymbuild.prepare_datasets(datasets, config)
    assert inside.runs("alpha") == inside.runs("beta") == 1


def test_a_failed_preparation_is_raised_after_the_others_were_done(inside: Project) -> None:
    inside.add("alpha", "raise ValueError('no luck')")
    inside.add("beta")
    datasets = [d for name in ("alpha", "beta") for d in gymbuild.datasets_to_prepare(resolved(inside, name))]
    with pytest.raises(gymbuild.PreparationFailedError, match="no luck") as caught:
        gymbuild.prepare_datasets(datasets, gymbuild.PrepareBenchmarkConfig())
    assert caught.value.stop_exit_code == 76
    assert caught.value.module == "benchmarks.alpha.prepare"
    assert inside.runs("beta") == 1


def test_a_config_with_several_benchmarks_has_no_single_plan(inside: Project) -> None:
    inside.add("alpha")
    inside.add("beta")
    both = OmegaConf.merge(resolved(inside), resolved(inside, "beta"))
    with pytest.raises(ConfigError, match="declares 2"):
        gymbuild.plan_for_config(both, gymbuild.PrepareBenchmarkConfig())


def test_paths_in_the_checkout_are_relative_and_others_stay(inside: Project, tmp_path: Path) -> None:
    assert (
        gymbuild.gym_relative_path(str(inside.path("benchmarks/x/config.yaml"))) == "benchmarks/x/config.yaml"
    )
    assert gymbuild.gym_relative_path("benchmarks/x/config.yaml") == "benchmarks/x/config.yaml"
    assert gymbuild.gym_relative_path("/elsewhere/config.yaml") == "/elsewhere/config.yaml"
