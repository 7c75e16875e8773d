"""Processes for whom permissions count: root's own are dropped, so that tests say the same whoever runs them."""

from __future__ import annotations

import contextlib
import functools
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.trees import Tree

_AS_A_PERSON = """
import ctypes, os, sys
if os.geteuid() == 0:
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH: read, write and search what one may not
        prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP: from the next exec on
os.execv(sys.argv[1], sys.argv[1:])
"""


def as_a_person(command: list[str]) -> list[str]:
    """A command line that runs `command` without root's power over permissions; it stays root, if it is.

    The test is skipped where that cannot be done.
    """
    if not _permissions_count():
        pytest.skip("permissions do not count for this user, and that cannot be changed here")
    return _prefixed(command)


def _prefixed(command: list[str]) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", _AS_A_PERSON, *command]


@functools.cache
def _permissions_count() -> bool:
    with tempfile.TemporaryDirectory() as folder:
        inner = Path(folder, "inner")
        inner.mkdir()
        inner.chmod(0o500)
        try:
            write = f"open({str(inner / 'file')!r}, 'w')"
            done = subprocess.run(
                _prefixed([sys.executable, "-c", write]), capture_output=True, text=True, check=False
            )
        finally:
            inner.chmod(0o700)
    return "PermissionError" in done.stderr


def build(tree: Tree, *words: str, code: int | None = 0, **environment: str) -> str:
    """Run `gymbuild --root` as somebody for whom permissions count; returns what it printed."""
    return tree.run(as_a_person(tree.command(*words)), code, environment)[0]


@contextlib.contextmanager
def mode(path: Path, bits: int) -> Iterator[None]:
    """Other permissions of a file or a folder for a while."""
    before = path.stat().st_mode & 0o7777
    path.chmod(bits)
    try:
        yield
    finally:
        path.chmod(before)
