"""What the commands share: the session of a command line, and errors without a traceback."""

from __future__ import annotations

import getopt
import io
import os
import sys
from collections.abc import Callable
from typing import Any

from doit.cmd_base import DoitCmdBase
from doit.exceptions import InvalidCommand

from gymbuild.commands.checkout import checkout_of
from gymbuild.config.session import Session
from gymbuild.system.errors import (
    EXIT_INTERRUPTED,
    GymbuildError,
    PreparationFailedError,
    exit_code_of,
)
from gymbuild.system.text import safe
from gymbuild.tasks.steps import new_session, use_session


def words_of_command_line() -> list[str]:
    """The `name=value` words that doit has set aside for this command."""
    from doit import doit_cmd

    variables = getattr(doit_cmd, "_CMDLINE_VARS", None) or {}
    return [f"{name}={value}" for name, value in variables.items()]


def open_session(*, parallel: bool = False) -> Session:
    """The session of this command, in the present folder; task creators use it from now on.

    Raises:
        UsageError: a setting that cannot be used.
    """
    session = new_session(os.getcwd(), words_of_command_line(), parallel=parallel)
    use_session(session)
    return session


def reported(function: Callable[[], Any]) -> Any:
    """Run a command's body; what is wrong is said in a sentence, and gives the documented exit code."""
    try:
        return function()
    except GymbuildError as error:
        sys.stdout.flush()
        print(f"error: {safe(str(error))}", file=sys.stderr)
        return error.exit_code
    except PreparationFailedError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.stop_exit_code
    except BrokenPipeError:
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, sys.stdout.fileno())
        return 1
    except OSError as error:
        from gymbuild.system.permissions import sentence

        sys.stdout.flush()
        place = f"{error.filename}: " if error.filename else ""
        print(f"error: {place}{sentence(error)}; outputs are as they were", file=sys.stderr)
        return exit_code_of(error)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED


class GymbuildCommand(DoitCmdBase):  # type: ignore[misc]
    """A command of ours: it works on the session's graph and loads no task.

    Subclasses define `run`, which gets the positional words and the options.
    """

    base_options = ()

    def parse_execute(self, in_args: list[str]) -> Any:
        """doit's entry: the command line, in which options may also follow the words (`shard PLAN --of 4`)."""
        return super().parse_execute(options_first(in_args, self.cmdparser))

    def execute(self, params: Any, args: list[str]) -> Any:
        """doit's entry: go to the checkout, make the session, run the command."""
        return reported(lambda: self._in_checkout(params, args))

    def _in_checkout(self, params: Any, args: list[str]) -> Any:
        os.chdir(checkout_of(params))
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                # an id or a name must not end a command in a locale that has no form for it
                stream.reconfigure(errors="backslashreplace")
        self.load_steps(params)
        return self.run(open_session(), args, params)

    def load_steps(self, params: Any) -> None:
        """Have the steps that the checkout's dodo.py adds, for a command that asks for all of them."""

    def run(self, session: Session, words: list[str], options: Any) -> int:
        """The command itself.

        Args:
            session: of this command line.
            words: positional words.
            options: the command's options by name.

        Returns:
            the exit code.
        """
        raise NotImplementedError


class TaskCommand(GymbuildCommand):
    """A command about tasks: the steps of the checkout's own dodo.py count too."""

    def load_steps(self, params: Any) -> None:
        """Load the dodo.py; its tasks are not made."""
        self.loader.setup(params)


def options_first(arguments: list[str], parser: Any) -> list[str]:
    """A command line with its options before its words, where doit looks for them; what follows `--` stays words.

    Args:
        arguments: as they came.
        parser: doit's, which has the options. A mistake in them is left for it to report.
    """
    try:
        options, words = getopt.gnu_getopt(arguments, parser.get_short(), parser.get_long())
    except getopt.GetoptError:
        return arguments
    first = []
    for name, value in options:
        takes_value = parser.get_option(name)[0].type is not bool
        first += [name, value] if takes_value else [name]
    return [*first, "--", *words]


def usage_error(command: Any, text: str) -> InvalidCommand:
    """An error about how a command was called."""
    return InvalidCommand(
        f"{text}\nType `{command.bin_name} help {command.get_name()}` to see how it is used."
    )
