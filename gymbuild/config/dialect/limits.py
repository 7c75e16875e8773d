"""What a config may cost, so that none, however it was made, takes a second: bytes of a file, values once expanded."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from gymbuild.config.dialect.values import dotted
from gymbuild.system.errors import ConfigError

MAX_BYTES = 1 << 20
"""Bytes that a config file may have. Configs are written by hand; parsing more than this takes seconds."""
MAX_VALUES = 50_000
"""Values that a config may come to, its aliases, merge keys, includes, copies and interpolations expanded.

Mappings, lists, keys and scalars count one each; what takes longer counts for more (`weight`, and the users of
`Budget.spend`).
"""
_CHARACTERS = 50
"""Characters of a text that count as one value."""
_LONG_NUMBER = 18
"""Digits below which arithmetic takes no time, and at which Python's hashes of numbers begin to repeat."""
_NUMBER = re.compile(r"[-+]?(?:0x[0-9a-fA-F_]+|0b[01_]+|[0-9.][-+0-9_:.eE]*)")


def weight(scalar: Any) -> int:
    """How many values a scalar counts for; each digit of a long number counts for ten."""
    if isinstance(scalar, str):
        length = len(scalar)
        if length > _LONG_NUMBER and _NUMBER.fullmatch(scalar):
            return 10 * length
        return 1 + length // _CHARACTERS
    if isinstance(scalar, bytes):
        return 1 + len(scalar) // _CHARACTERS
    if isinstance(scalar, int) and scalar.bit_length() > 60:
        return 3 * scalar.bit_length()
    return 1


def count(value: Any, most: int = MAX_VALUES) -> int:
    """How many values there are in plain data, shared parts counted each time; soon after `most` it ends."""
    if not isinstance(value, dict | list):
        return weight(value)
    total = 1 + (sum(map(weight, value)) if isinstance(value, dict) else 0)
    for item in value.values() if isinstance(value, dict) else value:
        total += count(item, most - total)
        if total > most:
            break
    return total


class Budget:
    """The values that one config may still come to.

    Args:
        file: the config that was asked for, for errors.
    """

    def __init__(self, file: str | None) -> None:
        self.file = file
        self.left = MAX_VALUES

    @property
    def spent(self) -> int:
        """The values that it has come to."""
        return MAX_VALUES - self.left

    def spend(self, values: int, *, key: str | Sequence[Any] | None = None, line: int | None = None) -> None:
        """Count values.

        Args:
            values: how many.
            key: what they are the value of (dotted, or as a path), for errors.
            line: where that is.

        Raises:
            ConfigError: the config comes to more than it may.
        """
        self.left -= values
        if self.left < 0:
            raise ConfigError(
                f"it comes to more than {MAX_VALUES:,} values once everything in it is expanded; a config may not "
                "have more.",
                file=self.file,
                key=(key if isinstance(key, str) else dotted(key or ())) or None,
                line=line,
            )


@contextmanager
def nested(file: str | None) -> Iterator[None]:
    """Whatever walks through a config: nesting that is too deep for Python is an error of the config's.

    Raises:
        ConfigError: a `RecursionError` within.
    """
    try:
        yield
    except RecursionError:
        raise ConfigError("it is nested too deeply.", file=file) from None
