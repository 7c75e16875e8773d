"""Merging plain data with OmegaConf's semantics: mappings merge, lists replace, a later `???` leaves a value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gymbuild.config.dialect.yaml_files import count_values, kind_of
from gymbuild.system.errors import ConfigError

MISSING = "???"
"""OmegaConf's mark of a value that is still to be given."""
MOST_VALUES = 50_000
"""Values that a config may come to, its includes merged and its directives carried out."""


def merge(
    base: dict[Any, Any],
    over: dict[Any, Any],
    *,
    file: str | None = None,
    dereference: Callable[[dict[Any, Any], str], Any] | None = None,
) -> dict[Any, Any]:
    """`over` merged onto `base`, as a new mapping; neither is changed, and unchanged parts are shared.

    Args:
        base: what was merged so far.
        over: what overrides it.
        file: the file that `over` comes from, for errors.
        dereference: gives the mapping or list that an interpolation in `base` leads to, or None; OmegaConf
            looks behind an interpolation before it merges onto it.

    Raises:
        ConfigError: a mapping meets a list, or interpolations multiply what is merged.
    """
    return _merge(base, over, base, "", file, dereference, frozenset(), [MOST_VALUES])


def too_many_values(file: str | None, key: str | None) -> ConfigError:
    """A config that comes to more than one may have.

    Args:
        file: the config that was asked for.
        key: what is too much.
    """
    return ConfigError(
        f"it comes to more than {MOST_VALUES:,} values; a config may not have more.", file=file, key=key
    )


def _merge(
    base: dict[Any, Any],
    over: dict[Any, Any],
    root: dict[Any, Any],
    path: str,
    file: str | None,
    dereference: Callable[[dict[Any, Any], str], Any] | None,
    above: frozenset[int],
    left: list[int],
) -> dict[Any, Any]:
    """`merge` at `path`; `above` are the mappings that `base` lies in, which are never looked behind.

    `left` is how many more values may be brought by interpolations.
    """
    result = dict(base)
    above = above | {id(base)}
    for key, new in over.items():
        if key not in result:
            result[key] = new
            continue
        old = result[key]
        if dereference is not None and isinstance(old, str) and "${" in old:
            target = dereference(root if path else result, old)
            if isinstance(target, dict | list) and id(target) not in above:
                old = result[key] = target
                if isinstance(new, dict):
                    left[0] -= count_values(target, left[0])
                    if left[0] <= 0:
                        raise too_many_values(file, f"{path}.{key}".lstrip("."))
        if isinstance(new, dict):
            if isinstance(old, dict):
                result[key] = _merge(
                    old, new, root if path else result, f"{path}.{key}", file, dereference, above, left
                )
                continue
            if isinstance(old, list):
                raise _clash(path, key, new, old, file)
        elif isinstance(new, list):
            if isinstance(old, dict):
                raise _clash(path, key, new, old, file)
        elif isinstance(new, str) and new == MISSING:
            continue
        result[key] = new
    return result


def _clash(path: str, key: Any, new: Any, old: Any, file: str | None) -> ConfigError:
    return ConfigError(
        f"it is {kind_of(new)} here and {kind_of(old)} in a config that is overridden; a mapping and a list do "
        "not merge. Use the same kind in both, or remove the key with `_delete_key` first.",
        file=file,
        key=f"{path}.{key}".lstrip("."),
    )


def copy_plain(value: Any) -> Any:
    """A deep copy of plain data (much faster than `copy.deepcopy`, and shared parts become separate)."""
    if isinstance(value, dict):
        return {
            key: copy_plain(item) if isinstance(item, dict | list) else item for key, item in value.items()
        }
    if isinstance(value, list):
        return [copy_plain(item) if isinstance(item, dict | list) else item for item in value]
    return value
