"""Checks of what a script has made: the path that it returned, and the prepared file."""

from __future__ import annotations

import json
import os
from typing import Any

from gymbuild.system.masking import mask
from gymbuild.system.paths import Checkout


class OutputError(ValueError):
    """A prepared file that is not what a prepared file has to be; its text says which line and why."""


def check_returned(returned: str, expected: str, checkout: Checkout) -> None:
    """Check that the path that `prepare` returned is the one in the config.

    Args:
        returned: absolute, or relative to the checkout.
        expected: the configured `jsonl_fpath`, the same way.
        checkout: what relative paths are relative to.

    Raises:
        OutputError: it is another path.
    """
    found, wanted = checkout.absolute(returned), checkout.absolute(expected)
    if found != wanted and os.path.realpath(found) != os.path.realpath(wanted):
        raise OutputError(
            f"prepare() returned {checkout.relative(returned)}, but the config's jsonl_fpath is "
            f"{checkout.relative(expected)}; they have to be the same file"
        )


_MARK = b"\xef\xbb\xbf"
"""UTF-8's byte order mark."""


def check_output(path: str, name: str) -> int:
    """Check a prepared file: there, not empty, and a JSON object in each line that is not blank.

    What plans read is taken here as well: a byte order mark, and NaN and Infinity, which Python reads and writes.
    Those are findings of the validation.

    Args:
        path: the file, absolute.
        name: how errors call it.

    Returns:
        the number of rows.

    Raises:
        OutputError: it is none of that; says which line.
    """
    import orjson

    loads = orjson.loads
    rows = 0
    try:
        with open(path, "rb") as file:
            for number, line in enumerate(file, 1):
                if number == 1:
                    line = line.removeprefix(_MARK)
                try:
                    value = loads(line)
                except ValueError:
                    if not line.strip():
                        continue
                    value = _read_line(line, number, name)
                if type(value) is not dict:
                    raise OutputError(
                        f"{name}, line {number}: each line has to be a JSON object; this one is {_json_kind(value)}"
                    )
                rows += 1
    except FileNotFoundError:
        raise OutputError(f"{name} is not there: prepare() did not write it") from None
    except IsADirectoryError:
        raise OutputError(f"{name} is a folder, not a file") from None
    except OSError as error:
        raise OutputError(f"{name} cannot be read: {error.strerror}") from None
    if not rows:
        raise OutputError(f"{name} is empty: it has no row")
    return rows


def _read_line(line: bytes, number: int, name: str) -> Any:
    """The same with Python's own reader, which accepts a little more (numbers beyond 64 bits, NaN, lone surrogates)."""
    try:
        return json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise OutputError(
            f"{name}, line {number}: not UTF-8 ({error.reason} at byte {error.start + 1})"
        ) from None
    except RecursionError:
        raise OutputError(f"{name}, line {number}: nested too deeply") from None
    except ValueError as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        column = f" at column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        start = mask(line[:80].decode("utf-8", "replace").rstrip())
        raise OutputError(f"{name}, line {number}: not JSON ({reason}{column}): {start}") from None


def _json_kind(value: Any) -> str:
    if value is None:
        return "null"
    return {list: "an array", str: "a string", bool: "true or false", int: "a number", float: "a number"}[
        type(value)
    ]
