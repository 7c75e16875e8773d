"""Fixtures for the benchmarks that ship: a checkout of their own, and real environments, built once for all tests."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.benchmarks.shipped import benchmark_environment, copy_benchmarks, find_python

Environments = Callable[..., Path]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with the benchmarks as a fresh clone has them."""
    return copy_benchmarks(tmp_path / "checkout")


@pytest.fixture(scope="session")
def environments(tmp_path_factory: pytest.TempPathFactory) -> Environments:
    """`environments(benchmark, version)` → the interpreter of the benchmark's environment on that Python."""
    folder = tmp_path_factory.mktemp("environments")
    built: dict[tuple[str, str], Path] = {}

    def build(benchmark: str, version: str = f"{sys.version_info.major}.{sys.version_info.minor}") -> Path:
        python = find_python(version)
        if python is None:
            pytest.skip(f"There is not a Python {version} on this machine.")
        key = benchmark, version
        if key not in built:
            built[key] = benchmark_environment(folder / f"{benchmark}-{version}", benchmark, python)
        return built[key]

    return build
