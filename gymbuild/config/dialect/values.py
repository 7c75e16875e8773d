"""Plain data: what a config holds, how it is read with `???` in mind, and what it is called in errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gymbuild.system.errors import ConfigError

MISSING = "???"
"""OmegaConf's mark of a value that is still to be given."""
_KEY_TYPES = frozenset({str, int, float, bool, bytes})
_SCALARS = frozenset({str, int, float, bool, bytes, type(None)})


def value(mapping: Any, key: Any, default: Any = None) -> Any:
    """`mapping[key]`, or the default where the key is absent or `???`."""
    if not isinstance(mapping, dict) or isinstance(key, dict | list):
        return default
    found = mapping.get(key, default)
    return default if isinstance(found, str) and found == MISSING else found


def has(mapping: Any, key: Any) -> bool:
    """Whether a mapping has the key with a value other than `???`."""
    return isinstance(mapping, dict) and key in mapping and mapping[key] != MISSING


def is_missing(mapping: Any, key: Any) -> bool:
    """Whether the key is there and `???`."""
    return isinstance(mapping, dict) and isinstance(mapping.get(key), str) and mapping[key] == MISSING


def only_item(mapping: Any) -> tuple[Any, Any] | None:
    """The one entry of a mapping that has exactly one."""
    return next(iter(mapping.items())) if isinstance(mapping, dict) and len(mapping) == 1 else None


def copy_plain(value: Any) -> Any:
    """A deep copy of plain data (much faster than `copy.deepcopy`, and shared parts become separate)."""
    if isinstance(value, dict):
        return {
            key: copy_plain(item) if isinstance(item, dict | list) else item for key, item in value.items()
        }
    if isinstance(value, list):
        return [copy_plain(item) if isinstance(item, dict | list) else item for item in value]
    return value


def dotted(path: Sequence[Any]) -> str:
    """A path in a config as `a.b[0].c`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) and not isinstance(part, bool) else f".{part}"
    return text.lstrip(".")


def kind_of(value: Any) -> str:
    """What a value is, in a reader's words, shortened: `the text 'abc'`, `a list`, `null`, `3`."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f"the text {(value if len(value) <= 60 else value[:57] + '...')!r}"
    if isinstance(value, int | float):
        shown = repr(value)
        return shown if len(shown) <= 60 else shown[:57] + "..."
    names = {type(None): "null", dict: "a mapping", list: "a list", tuple: "a list"}
    return names.get(type(value), f"a {type(value).__name__}")


def check_values(value: Any, shown: str, key: str = "") -> None:
    """Refuse what a config cannot hold: sets, dates, keys that are null or a list.

    Raises:
        ConfigError: with the key.
    """
    kind = type(value)
    if kind is dict:
        for name, item in value.items():
            if type(name) not in _KEY_TYPES:
                raise ConfigError(
                    f"a key is {kind_of(name)}; keys are text, numbers or booleans.",
                    file=shown,
                    key=key or None,
                )
            if type(item) not in _SCALARS:
                check_values(item, shown, f"{key}.{name}" if key else str(name))
    elif kind is list:
        for position, item in enumerate(value):
            if type(item) not in _SCALARS:
                check_values(item, shown, f"{key}[{position}]")
    elif kind not in _SCALARS:
        raise ConfigError(
            f"found {kind_of(value)}; a config holds mappings, lists, text, numbers, booleans and null.",
            file=shown,
            key=key or None,
        )
