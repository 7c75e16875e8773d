"""Values of environment variables that look like secrets never reach a log, a record or an error."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

MASK = "***"
_SECRET_NAME = re.compile(r"(_TOKEN|_KEY|_SECRET)$|PASSWORD", re.IGNORECASE)
_SHORTEST = 4
"""Values shorter than this are not searched for: masking every `1` would hide the text, not the secret."""


def is_secret_name(name: str) -> bool:
    """Whether a variable of this name is taken for a secret: `*_TOKEN`, `*_KEY`, `*_SECRET`, `*PASSWORD*`."""
    return _SECRET_NAME.search(name) is not None


def secret_values(environment: Mapping[str, str] | None = None) -> list[str]:
    """The values to mask, longest first.

    Args:
        environment: variables by name; default this process's own.
    """
    source = os.environ if environment is None else environment
    values = {value for name, value in source.items() if is_secret_name(name) and len(value) >= _SHORTEST}
    return sorted(values, key=lambda value: (-len(value), value))


def mask(text: str, secrets: list[str] | None = None) -> str:
    """`text` with every secret value in it replaced by `***`.

    Args:
        text: what is about to be shown or written.
        secrets: from `secret_values()`, where many texts are masked.
    """
    for value in secret_values() if secrets is None else secrets:
        if value in text:
            text = text.replace(value, MASK)
    return text
