"""Every error that a person can meet, with the exit code that it ends in."""

from __future__ import annotations

import errno

# not from typing at run time: errors are imported by every start
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

EXIT_FAILED = 76
"""A preparation failed in its own code or environment: running again unchanged fails the same way."""
EXIT_MAY_PASS = 75
"""A preparation failed for a reason that may pass (no network, a timeout, a kill from outside)."""
EXIT_USAGE = 3
"""A config or usage error, found before anything ran."""
EXIT_INTERRUPTED = 130
"""Interrupted by the user."""


PASSING = frozenset(
    number
    for name in (
        *(
            "ENOSPC",
            "EDQUOT",
            "EIO",
            "ENOMEM",
            "EMFILE",
            "ENFILE",
            "EAGAIN",
            "EINTR",
            "EBUSY",
            "ETXTBSY",
            "ESTALE",
        ),
        *("ETIMEDOUT", "ENETDOWN", "ENETUNREACH", "ENETRESET", "EHOSTDOWN", "EHOSTUNREACH", "ENOBUFS"),
        *("ECONNREFUSED", "ECONNRESET", "ECONNABORTED", "ENOTCONN", "EREMOTEIO"),
    )
    if (number := getattr(errno, name, None)) is not None
)
"""Errors of the operating system that may pass: a full disk, too many open files, a file server that is gone, …"""


def exit_code_of(error: OSError) -> int:
    """The exit code of a command that an error of the operating system has ended, outside of any preparation."""
    return EXIT_MAY_PASS if error.errno in PASSING else EXIT_USAGE


class GymbuildError(Exception):
    """Base of what gymbuild reports without a traceback.

    The text of the exception is for the reader: what is wrong, where, and what to do about it.
    """

    exit_code = 1


class UsageError(GymbuildError):
    """A command line or a setting that cannot be used."""

    exit_code = EXIT_USAGE


class ConfigError(GymbuildError):
    """A benchmark config, or a file that it names, that cannot be used.

    Args:
        message: what was found and what is allowed.
        file: the config file, relative to the checkout.
        line: 1-based line in that file, where there is one.
        key: dotted key in the resolved config, where there is one.
    """

    exit_code = EXIT_USAGE

    def __init__(
        self, message: str, *, file: str | None = None, line: int | None = None, key: str | None = None
    ) -> None:
        place = ""
        if file:
            place = f"{file}:{line}: " if line else f"{file}: "
        if key:
            place += f"{key}: "
        super().__init__(place + message)
        self.message = message
        self.file = file
        self.line = line
        self.key = key

    def __reduce__(self) -> tuple[object, ...]:
        return (_config_error, (self.message, self.file, self.line, self.key))


class ConfigDeniedError(ConfigError):
    """A config, or a folder of configs, that this user may not read: another user may, so it is nothing to keep."""


def _config_error(message: str, file: str | None, line: int | None, key: str | None) -> ConfigError:
    return ConfigError(message, file=file, line=line, key=key)


class PlanError(GymbuildError):
    """A prepared file, a prompt template or a selection that no plan can be made from."""

    exit_code = 1


class SelectionError(PlanError):
    """A selected task id that the benchmark does not have."""

    exit_code = EXIT_USAGE


class PreparationFailedError(RuntimeError):
    """A dataset's preparation failed in its own code or environment.

    Not resumable: the command exits with `stop_exit_code` and records the failure for the guard of a job
    chain's next segment, which would fail the same way.

    Args:
        module: dotted module path of the prepare script.
        action: `prepare`, `is_prepared_data_current`, or `environment` when the venv could not be built.
        reason: what happened, with the last lines of the script's output.
    """

    stop_exit_code = EXIT_FAILED
    kind = "preparation_failed"

    def __init__(self, module: str, action: str, reason: str) -> None:
        super().__init__(f"{module}: {action} failed: {reason}")
        self.module = module
        self.action = action
        self.reason = reason
        self.observations: Any = None
        """What the run was seen to use before it failed; stays in the process that ran it."""

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.module, self.action, self.reason))


class PreparationMayPassError(PreparationFailedError):
    """A preparation that failed for a reason that may pass: no network, a timeout, a kill from outside."""

    stop_exit_code = EXIT_MAY_PASS
    kind = "preparation_may_pass"


class PreparationRefusedError(PreparationFailedError):
    """A preparation that a path keeps from being made: it may not be written, or a folder is in a file's place."""

    stop_exit_code = EXIT_USAGE
    kind = "preparation_refused"
