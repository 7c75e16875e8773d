"""Directives: `_inherit_from`, `_copy`, `_delete_key` and their `${…}` forms, in one pass over a merged config."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gymbuild.config.dialect.interpolation import NOTHING, Interpolations
from gymbuild.config.dialect.merging import MISSING, MOST_VALUES, copy_plain, merge, too_many_values
from gymbuild.config.dialect.yaml_files import count_values, kind_of
from gymbuild.system.errors import ConfigError

INHERIT = "_inherit_from"
COPY = "_copy"
DELETE = "_delete_key"
_INHERIT_TEXT = "${inherit_from:"
_COPY_TEXT = "${copy:"
_UNSET = object()


@dataclass(slots=True)
class _Pass:
    """One pass: the tree that changes, and the tree as it stood before."""

    live: dict[Any, Any]
    before: dict[Any, Any]
    file: str | None
    left: int = MOST_VALUES
    """How many more values directives may bring."""


def apply_directives(config: dict[Any, Any], *, file: str | None = None) -> dict[Any, Any]:
    """The config with its directives carried out; `config` itself is not changed.

    Sources are read as they stood before the pass, so a directive inside a source is not carried out in the
    place that it moved to (see `leftovers`).

    Args:
        config: the merged config.
        file: the config that was asked for, for errors.

    Raises:
        ConfigError: a source that does not exist, or a key to delete that is nowhere, by key; or more values than
            a config may have.
    """
    if count_values(config, MOST_VALUES) > MOST_VALUES:
        raise too_many_values(file, None)
    live = copy_plain(config)
    _visit(_Pass(live, config, file), live, (), set())
    return live  # type: ignore[no-any-return]


def _visit(work: _Pass, mapping: dict[Any, Any], path: tuple[Any, ...], seen: set[int]) -> None:
    # the entries as they are now: what a directive moves away is still visited, what it brings is not
    for key, value in list(mapping.items()):
        here = (*path, key)
        to_delete: set[str] | None = None
        if _is_set(value, DELETE):
            to_delete = _names(value.pop(DELETE), work, here)
            for name in [name for name in to_delete if _is_set(value, name)]:
                del value[name]
                to_delete.discard(name)
        if isinstance(value, dict):
            _visit(work, value, here, seen)
        elif isinstance(value, list):
            _visit_items(work, value, here, seen)

        source, moves = _source_of(work, value, here)
        if source is None:
            continue
        parts = source.split(".")
        owner = _lookup(work, work.live, parts[:-1], here)
        if moves and owner is not _UNSET:
            if not isinstance(owner, dict):
                raise _no_source(parts, work, here)
            owner.pop(parts[-1], None)
        found = _lookup(work, work.before, parts, here)
        if owner is _UNSET or found is _UNSET:
            mapping[key] = MISSING
            continue
        if isinstance(value, dict):
            if not isinstance(found, dict):
                raise ConfigError(
                    f"{source} is {kind_of(found)}; `{INHERIT}` and `{COPY}` take a mapping.",
                    file=work.file,
                    key=_dotted(here),
                )
            found = merge(found, value, file=work.file, dereference=_dereference)
        work.left -= count_values(found, work.left)
        if work.left <= 0:
            raise too_many_values(work.file, _dotted(here))
        mapping[key] = copy_plain(found)
        for name in sorted(to_delete or ()):
            if (
                not isinstance(mapping[key], dict)
                or name not in mapping[key]
                or mapping[key][name] == MISSING
            ):
                raise ConfigError(
                    f"`{DELETE}` names {name!r}, which neither this mapping nor {source} has.",
                    file=work.file,
                    key=_dotted(here),
                )
            del mapping[key][name]


def _visit_items(work: _Pass, items: list[Any], path: tuple[Any, ...], seen: set[int]) -> None:
    """Mappings that are items of a list are looked into; they are not themselves targets, nor are deeper lists."""
    for position, item in enumerate(items):
        if isinstance(item, str) and "${" in item:
            item = Interpolations(work.live).follow(item)
            if id(item) in seen:
                continue
            seen.add(id(item))
        if isinstance(item, dict):
            _visit(work, item, (*path, position), seen)


def _source_of(work: _Pass, value: Any, path: tuple[Any, ...]) -> tuple[str | None, bool]:
    """The dotted path that a value inherits from or copies, and whether the source goes away."""
    if isinstance(value, str):
        if value.startswith(_INHERIT_TEXT):
            return value.removeprefix(_INHERIT_TEXT).removesuffix("}"), True
        if value.startswith(_COPY_TEXT):
            return value.removeprefix(_COPY_TEXT).removesuffix("}"), False
        return None, False
    # where both are given, the copy names the source and the source goes away nevertheless
    source: str | None = None
    moves = False
    if _is_set(value, INHERIT):
        source, moves = _text(value.pop(INHERIT), INHERIT, work, path), True
    if _is_set(value, COPY):
        source = _text(value.pop(COPY), COPY, work, path)
    return source, moves


def _is_set(value: Any, key: str) -> bool:
    return isinstance(value, dict) and key in value and value[key] != MISSING


def _text(value: Any, directive: str, work: _Pass, path: tuple[Any, ...]) -> str:
    if isinstance(value, str) and "${" in value:
        value = Interpolations(work.live).plain(value)
    if not isinstance(value, str):
        raise ConfigError(
            f"`{directive}` takes a dotted path as text, found {kind_of(value)}.",
            file=work.file,
            key=_dotted(path),
        )
    return value


def _names(value: Any, work: _Pass, path: tuple[Any, ...]) -> set[str]:
    if not isinstance(value, str):
        raise ConfigError(
            f"`{DELETE}` takes key names as text, with commas between them, found {kind_of(value)}.",
            file=work.file,
            key=_dotted(path),
        )
    return {name.strip() for name in value.split(",")}


def _lookup(work: _Pass, tree: dict[Any, Any], parts: Sequence[str], path: tuple[Any, ...]) -> Any:
    """What a dotted path leads to, or `_UNSET` where it or a mapping on the way is `???`."""
    node: Any = tree
    for part in parts:
        if not isinstance(node, dict) or part not in node:
            raise _no_source(parts, work, path)
        node = node[part]
        if node == MISSING and isinstance(node, str):
            return _UNSET
        if isinstance(node, str) and "${" in node:
            followed = Interpolations(tree).plain(node)
            node = node if followed is NOTHING else followed
    return node


def _no_source(parts: Sequence[str], work: _Pass, path: tuple[Any, ...]) -> ConfigError:
    return ConfigError(
        f"it inherits from or copies {'.'.join(parts)!r}, which the merged config does not have. Correct the path, "
        "or include the config that defines it in `config_paths`.",
        file=work.file,
        key=_dotted(path),
    )


def leftovers(config: dict[Any, Any]) -> list[str]:
    """Dotted keys of directives that are still there after the pass: a chain, which is not followed twice."""
    found: list[str] = []

    def look(value: Any, path: str) -> None:
        if isinstance(value, dict):
            for key, item in value.items():
                here = f"{path}.{key}" if path else str(key)
                if key in (INHERIT, COPY) or (
                    isinstance(item, str) and item.startswith((_INHERIT_TEXT, _COPY_TEXT))
                ):
                    found.append(here)
                if isinstance(item, dict | list):
                    look(item, here)
        elif isinstance(value, list):
            for position, item in enumerate(value):
                look(item, f"{path}[{position}]")

    look(config, "")
    return found


def _dotted(path: Sequence[Any]) -> str:
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.lstrip(".")


def _dereference(tree: dict[Any, Any], text: str) -> Any:
    return Interpolations(tree).follow(text)
