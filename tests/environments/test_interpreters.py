"""Which Python versions fit a requires-python or a version word."""

from __future__ import annotations

import pytest

from gymbuild.environments.interpreters import fits


@pytest.mark.parametrize(
    ("version", "request_", "expected"),
    [
        ("3.11.7", ">=3.9", True),
        ("3.11.7", ">=3.11.8", False),
        ("3.11.7", ">=3.9,<3.11", False),
        ("3.11.7", ">=3.9, <3.12", True),
        ("3.11.7", "<=3.11", False),
        ("3.11.0", "<=3.11", True),
        ("3.11.7", ">3.11", True),
        ("3.11.7", "==3.11.*", True),
        ("3.12.0", "==3.11.*", False),
        ("3.11.7", "==3.11", False),
        ("3.11.7", "!=3.11.*", False),
        ("3.11.7", "!=3.11.6", True),
        ("3.11.7", "~=3.9", True),
        ("3.11.7", "~=3.11.2", True),
        ("3.12.0", "~=3.11.2", False),
        ("3.12.0", ">=3.10", True),
        ("3.11.7", "3.11", True),
        ("3.11.7", "3.1", False),
        ("3.11.7", "3", True),
        ("3.11.7", "python3.11", True),
        ("3.11.7", "cpython@3.12", False),
    ],
)
def test_a_release_fits_as_pep_440_says(version: str, request_: str, expected: bool) -> None:
    assert fits(version, request_) is expected


@pytest.mark.parametrize(
    ("version", "request_"),
    [("3.14.0rc1", ">=3.9"), ("3.11.7", "pypy3.10"), ("3.11.7", "===3.11.7"), ("3.11.7", "")],
)
def test_what_cannot_be_told_here_is_left_to_uv(version: str, request_: str) -> None:
    assert fits(version, request_) is None
