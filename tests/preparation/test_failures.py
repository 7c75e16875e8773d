"""Records of failures: which run they are of, and what an error of the operating system is."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from gymbuild.preparation.failures import failure_class, read_failure, record_failure
from gymbuild.system.errors import PreparationFailedError
from gymbuild.system.paths import Checkout


def test_a_failure_names_the_run_that_it_happened_in(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path)
    error = PreparationFailedError("benchmarks.x.prepare", "environment", "no such version")
    record_failure(checkout, "x", error, [], None, run="a run")
    record = read_failure(checkout, "x")
    assert record is not None and record["run"] == "a run"


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ENOSPC, 75),
        (errno.EMFILE, 75),
        (errno.EIO, 75),
        (errno.ESTALE, 75),
        (errno.EACCES, 3),
        (errno.EROFS, 3),
        (errno.EISDIR, 3),
        (errno.ENOTDIR, 3),
        (errno.ENAMETOOLONG, 3),
    ],
)
def test_what_the_disk_refuses_is_not_the_scripts_failure(number: int, code: int) -> None:
    assert failure_class(OSError(number, "no")).stop_exit_code == code
