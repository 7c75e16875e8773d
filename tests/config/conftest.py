"""Fixtures of the config tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.config.small_checkouts import Configs


@pytest.fixture
def configs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Configs:
    """An empty checkout; nothing in the environment changes what configs come to."""
    for name in ("NEMO_GYM_EXTRA_ROOTS", "NEMO_GYM_ALLOW_UNSUPPORTED_PAIRING"):
        monkeypatch.delenv(name, raising=False)
    root = tmp_path / "checkout"
    root.mkdir()
    return Configs(root)
