"""The ways of digesting rows."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["orjson"])
def way(request: pytest.FixtureRequest) -> str:
    """Each way that is not the reference."""
    return str(request.param)
