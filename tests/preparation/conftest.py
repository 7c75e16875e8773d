"""What every test of isolated runs needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from .places import VERSIONS, ScriptCheckout, find_python


@pytest.fixture(params=VERSIONS)
def python(request: pytest.FixtureRequest) -> str:
    """Each supported Python in turn."""
    found = find_python(request.param)
    if found is None:
        pytest.skip(f"no Python {request.param} on this machine")
    return found


@pytest.fixture
def place(tmp_path: Path) -> ScriptCheckout:
    return ScriptCheckout(tmp_path)
