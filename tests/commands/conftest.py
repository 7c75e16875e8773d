"""The checkouts of the command-line tests, for tests of single commands."""

from __future__ import annotations

from tests.cli.conftest import project, shipped, write_prompt

__all__ = ["project", "shipped", "write_prompt"]
