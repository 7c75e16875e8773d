"""`gymbuild [--root DIR] …`: doit's command line on any checkout, with or without a dodo.py."""

from __future__ import annotations

import os
import sys


def main(arguments: list[str] | None = None) -> None:
    """The entry point of the `gymbuild` command.

    What finds nothing to do answers before doit is imported.

    Args:
        arguments: the command line; default that of the process.
    """
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: list[str]) -> int:
    """Run one command line.

    Returns:
        the exit code.
    """
    try:
        root, rest = _root(arguments)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    if rest[:1] == ["--version"]:
        from gymbuild import __version__

        print(f"gymbuild {__version__}")
        return 0
    from gymbuild.tasks.answer import answer

    if answer(root, rest, rest, out=sys.stdout):
        return 0
    from gymbuild.commands.command_line import run_doit

    return run_doit(root, rest)


def _root(arguments: list[str]) -> tuple[str, list[str]]:
    root, rest = ".", list(arguments)
    if rest and rest[0] == "--root":
        if len(rest) < 2:
            raise ValueError("--root: a folder is missing; write gymbuild --root DIR …")
        root, rest = rest[1], rest[2:]
    elif rest and rest[0].startswith("--root="):
        root, rest = rest[0][len("--root=") :], rest[1:]
    if not os.path.isdir(root):
        raise ValueError(f"--root {root}: there is no such folder.")
    return os.path.realpath(root), rest


if __name__ == "__main__":
    main()
