"""Which exit code an error of the operating system ends a command in."""

from __future__ import annotations

import errno
import os

import pytest

from gymbuild.system.errors import EXIT_MAY_PASS, EXIT_USAGE, exit_code_of


@pytest.mark.parametrize(
    ("name", "code"),
    [
        *(
            (name, EXIT_MAY_PASS)
            for name in ("ENOSPC", "EDQUOT", "EIO", "EMFILE", "EAGAIN", "ENOMEM", "EINTR")
        ),
        *((name, EXIT_MAY_PASS) for name in ("ETIMEDOUT", "ESTALE", "EBUSY", "ENETUNREACH", "ECONNREFUSED")),
        *(
            (name, EXIT_USAGE)
            for name in ("EACCES", "EPERM", "ENOTDIR", "EISDIR", "ENOENT", "EROFS", "ELOOP")
        ),
    ],
)
def test_what_may_pass_and_what_a_person_has_to_change(name: str, code: int) -> None:
    number = getattr(errno, name)
    assert exit_code_of(OSError(number, os.strerror(number), "/path")) == code


def test_an_error_without_a_number_is_told_as_one_of_a_path() -> None:
    assert exit_code_of(OSError("no number")) == EXIT_USAGE
