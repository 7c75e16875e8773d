"""The ways of digesting rows, the native one built for the tests where the machine can."""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
NATIVE = "gymbuild.plan._native"
SOURCE = "gymbuild/plan/_native.c"


def _load(name: str, path: Path) -> object:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def native(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The native module: the installed one, else one that is compiled now; skips where neither is to be had."""
    from gymbuild.plan.digesting import native_module

    try:
        native_module()
    except ImportError:
        hook = _load("hatch_build", REPOSITORY / "hatch_build.py")
        target = tmp_path_factory.mktemp("native") / "_native.abi3.so"
        reason = hook.compile_native(str(REPOSITORY / SOURCE), str(target))  # type: ignore[attr-defined]
        if reason is not None:
            pytest.skip(f"no native module here: {reason}")
        sys.modules[NATIVE] = _load(NATIVE, target)  # type: ignore[assignment]


@pytest.fixture(params=["native", "orjson"])
def way(request: pytest.FixtureRequest) -> str:
    """Each way that is not the reference."""
    if request.param == "native":
        request.getfixturevalue("native")
    return str(request.param)
