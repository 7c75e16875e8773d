"""NeMo Gym's own tree: 184 of 184 benchmarks, field by field as NeMo Gym 0.7.0 resolves them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from gymbuild.config.catalog import load_catalog
from gymbuild.config.datasets import Benchmark
from gymbuild.system.paths import Checkout

ORACLE = Path(__file__).parents[1] / "data" / "nemo-gym-0.7.0-benchmarks.json"
VERSIONS = {"0.7.0": 184, "0.5.0": 99, "0.4.0": 90}
"""Releases, and how many benchmarks each one's tree has."""


def cache_folder() -> Path:
    """Where downloads are kept between runs."""
    given = os.environ.get("GYMBUILD_TEST_CACHE")
    if given:
        return Path(given)
    caches = Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")
    return Path(os.environ.get("XDG_CACHE_HOME") or caches) / "gymbuild-tests"


def released_tree(version: str) -> Path:
    """The tree inside the wheel of a release, unpacked once."""
    tree = cache_folder() / f"nemo-gym-{version}"
    if not tree.is_dir():
        wheels = cache_folder() / "wheels"
        wheels.mkdir(parents=True, exist_ok=True)
        found = list(wheels.glob(f"nemo_gym-{version}-*.whl"))
        if not found:
            # nothing of it is imported, so its own Python does not matter
            words = [
                "--no-deps",
                "--ignore-requires-python",
                "--disable-pip-version-check",
                "-d",
                str(wheels),
            ]
            subprocess.run(
                [sys.executable, "-m", "pip", "download", "-q", *words, f"nemo-gym=={version}"], check=True
            )
            found = list(wheels.glob(f"nemo_gym-{version}-*.whl"))
        unpacked = cache_folder() / f"nemo-gym-{version}.{os.getpid()}"
        with zipfile.ZipFile(found[0]) as wheel:
            wheel.extractall(unpacked)
        unpacked.rename(tree)
    return tree


def oracle_fields(benchmark: Benchmark) -> dict[str, object]:
    """A benchmark in the oracle's words."""
    dataset = benchmark.dataset
    return {
        "agent": dataset.agent,
        "config_path": benchmark.config_path,
        "dataset": dataset.name,
        "description": benchmark.description,
        "domain": benchmark.domain,
        "jsonl_fpath": dataset.jsonl_fpath,
        "num_repeats": dataset.num_repeats,
        "prepare_dependencies": list(dataset.prepare_dependencies),
        "prepare_script": dataset.prepare_script,
        "prompt_config": dataset.prompt_config,
    }


@pytest.mark.slow
def test_every_benchmark_of_0_7_0_is_as_its_own_resolver_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NEMO_GYM_EXTRA_ROOTS", raising=False)
    catalog = load_catalog(Checkout(released_tree("0.7.0")), use_index=False)
    expected = json.loads(ORACLE.read_text(encoding="utf-8"))
    assert not catalog.problems
    assert {name: oracle_fields(benchmark) for name, benchmark in catalog.benchmarks.items()} == expected
    assert len(expected) == VERSIONS["0.7.0"]


@pytest.mark.slow
@pytest.mark.parametrize("version", ["0.4.0", "0.5.0"])
def test_other_releases_resolve(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NEMO_GYM_EXTRA_ROOTS", raising=False)
    tree = released_tree(version)
    catalog = load_catalog(Checkout(tree), use_index=False)
    assert not catalog.problems
    assert len(catalog.benchmarks) == VERSIONS[version]
    for benchmark in catalog.benchmarks.values():
        assert benchmark.dataset.prepare_script is not None
        assert (tree / benchmark.dataset.prepare_script).is_file()


@pytest.mark.slow
def test_the_shape_of_0_7_0(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NEMO_GYM_EXTRA_ROOTS", raising=False)
    benchmarks = load_catalog(Checkout(released_tree("0.7.0")), use_index=False).benchmarks.values()
    assert len({benchmark.dataset.jsonl_fpath for benchmark in benchmarks}) == 147
    assert len({benchmark.dataset.prepare_script for benchmark in benchmarks}) == 140
    assert sum(bool(benchmark.dataset.args) for benchmark in benchmarks) >= 1
