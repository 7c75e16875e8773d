"""Options of commands, as doit describes them."""

from __future__ import annotations

from typing import Any


def option(name: str, default: Any, text: str, **more: Any) -> dict[str, Any]:
    """An option whose long form is its name.

    Args:
        name: what the command reads it by; with `-` for `_` on the command line.
        default: its default, whose type is the type of its value.
        text: for the command's help.
        more: doit's other keys, such as `short` or `choices`.
    """
    long = name.replace("_", "-")
    return {"name": name, "long": long, "type": type(default), "default": default, "help": text, **more}
