"""doit's main program with our commands, state and task creators, on a checkout that need not name them."""

from __future__ import annotations

import os
import sys
from typing import Any

from doit.cmd_base import DodoTaskLoader, ModuleTaskLoader
from doit.doit_cmd import DoitMain

from gymbuild.commands import COMMANDS
from gymbuild.system.errors import EXIT_USAGE
from gymbuild.tasks import creators
from gymbuild.tasks.steps import step_types


def run_doit(root: str, arguments: list[str]) -> int:
    """Run a command line as `doit` would, in a checkout.

    A dodo.py of the checkout that imports gymbuild is used, so that tasks of its own are there as well.

    Args:
        root: the checkout.
        arguments: without `--root`.

    Returns:
        the exit code.
    """
    os.chdir(root)
    words = [word for word in arguments if not word.startswith("-") and "=" not in word]
    if "" in words and words[0] != "rows":
        print("error: an empty word on the command line names no task and no file", file=sys.stderr)
        return EXIT_USAGE
    loader: Any = DodoTaskLoader() if _has_dodo() else ModuleTaskLoader(_namespace())
    main = _Main(loader, config_filenames=_config_files(), extra_config=doit_config())
    main.BIN_NAME = "gymbuild"
    if arguments[:1] == ["--help"]:
        # doit answers it with a help of its own, whatever command there is of that name
        arguments = ["help"]
    try:
        return int(main.run(arguments) or 0)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


class _Main(DoitMain):  # type: ignore[misc]
    """doit's main program, for command lines with an empty word too, which is a task id like others."""

    def process_args(self, cmd_args: list[str]) -> list[str]:
        """The words that are not settings; doit looks at the first character of each."""
        words: list[str] = super().process_args([word or _EMPTY for word in cmd_args])
        return ["" if word == _EMPTY else word for word in words]


_EMPTY = "\0"
"""Stands for an empty word: no real one has this character."""


def doit_config() -> dict[str, dict[str, Any]]:
    """What a checkout's pyproject.toml says under `[tool.doit]` to have all of gymbuild in plain `doit`."""
    return {
        "GLOBAL": {"backend": "gymbuild", "dep_file": os.path.join(".cache", "state.db")},
        "BACKEND": {"gymbuild": "gymbuild.tasks.doit_state:DatabaseBackend"},
        "COMMAND": dict(COMMANDS),
    }


def _namespace() -> dict[str, Any]:
    tasks = {f"task_{step.group}": creators.tasks_of(step.group) for step in step_types()}
    return {"DOIT_CONFIG": creators.DOIT_CONFIG, **tasks}


def _has_dodo() -> bool:
    try:
        with open("dodo.py", encoding="utf-8", errors="replace") as file:
            return "gymbuild" in file.read()
    except OSError:
        return False


def _config_files() -> tuple[str, ...]:
    return ("pyproject.toml", "doit.cfg") if _has_dodo() else ()
