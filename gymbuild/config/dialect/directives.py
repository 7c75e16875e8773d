"""Directives: `_inherit_from`, `_copy`, `_delete_key` and their `${…}` forms, in one pass over a merged config."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gymbuild.config.dialect.interpolation import NOTHING, Interpolations
from gymbuild.config.dialect.limits import Budget, count
from gymbuild.config.dialect.merging import merge
from gymbuild.config.dialect.values import MISSING, copy_plain, dotted, has, kind_of
from gymbuild.system.errors import ConfigError

INHERIT = "_inherit_from"
COPY = "_copy"
DELETE = "_delete_key"
_INHERIT_TEXT = "${inherit_from:"
_COPY_TEXT = "${copy:"
_UNSET = object()


@dataclass(frozen=True, slots=True)
class _Pass:
    """One pass: the tree that changes, and the tree as it stood before."""

    live: dict[Any, Any]
    before: dict[Any, Any]
    budget: Budget

    def fault(self, path: Sequence[Any], text: str) -> ConfigError:
        """An error at a path."""
        return ConfigError(text, file=self.budget.file, key=dotted(path))


def apply_directives(config: dict[Any, Any], budget: Budget) -> dict[Any, Any]:
    """The config with its directives carried out; `config` itself is not changed.

    Sources are read as they stood before the pass, so a directive inside a source is not carried out in the
    place that it moved to (see `leftovers`).

    Args:
        config: the merged config.
        budget: is spent on what directives bring; its file is named in errors.

    Raises:
        ConfigError: a source that does not exist, or a key to delete that is nowhere, by key; or more values than
            a config may have.
    """
    live = copy_plain(config)
    _visit(_Pass(live, config, budget), live, (), set())
    return live  # type: ignore[no-any-return]


def _visit(work: _Pass, mapping: dict[Any, Any], path: tuple[Any, ...], visited: set[int]) -> None:
    # the entries as they are now: what a directive moves away is still visited, what it brings is not
    for key, value in list(mapping.items()):
        here = (*path, key)
        to_delete: set[str] | None = None
        if has(value, DELETE):
            to_delete = _names(value.pop(DELETE), work, here)
            for name in [name for name in to_delete if has(value, name)]:
                del value[name]
                to_delete.discard(name)
        if isinstance(value, dict):
            _visit(work, value, here, visited)
        elif isinstance(value, list):
            _visit_items(work, value, here, visited)

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
                raise work.fault(
                    here, f"{source} is {kind_of(found)}; `{INHERIT}` and `{COPY}` take a mapping."
                )
            found = merge(found, value, work.budget)
        work.budget.spend(count(found, work.budget.left), key=here)
        mapping[key] = copy_plain(found)
        for name in sorted(to_delete or ()):
            if not has(mapping[key], name):
                raise work.fault(
                    here, f"`{DELETE}` names {name!r}, which neither this mapping nor {source} has."
                )
            del mapping[key][name]


def _visit_items(work: _Pass, items: list[Any], path: tuple[Any, ...], visited: set[int]) -> None:
    """Mappings that are items of a list are looked into; they are not themselves targets, nor are deeper lists."""
    for position, item in enumerate(items):
        if isinstance(item, str) and "${" in item:
            item = Interpolations(work.live).follow(item)
            if id(item) in visited:
                continue
            visited.add(id(item))
        if isinstance(item, dict):
            _visit(work, item, (*path, position), visited)


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
    if has(value, INHERIT):
        source, moves = _text(value.pop(INHERIT), INHERIT, work, path), True
    if has(value, COPY):
        source = _text(value.pop(COPY), COPY, work, path)
    return source, moves


def _text(value: Any, directive: str, work: _Pass, path: tuple[Any, ...]) -> str:
    if isinstance(value, str) and "${" in value:
        value = Interpolations(work.live).plain(value)
    if not isinstance(value, str):
        raise work.fault(path, f"`{directive}` takes a dotted path as text, found {kind_of(value)}.")
    return value


def _names(value: Any, work: _Pass, path: tuple[Any, ...]) -> set[str]:
    if not isinstance(value, str):
        raise work.fault(
            path, f"`{DELETE}` takes key names as text, with commas between them, found {kind_of(value)}."
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
    return work.fault(
        path,
        f"it inherits from or copies {'.'.join(parts)!r}, which the merged config does not have. Correct the path, "
        "or include the config that defines it in `config_paths`.",
    )


def leftovers(config: dict[Any, Any]) -> list[str]:
    """Dotted keys of directives that are still there after the pass: a chain, which is not followed twice."""
    found: list[str] = []

    def search(value: Any, path: str) -> None:
        if isinstance(value, dict):
            for key, item in value.items():
                here = f"{path}.{key}" if path else str(key)
                if key in (INHERIT, COPY) or (
                    isinstance(item, str) and item.startswith((_INHERIT_TEXT, _COPY_TEXT))
                ):
                    found.append(here)
                if isinstance(item, dict | list):
                    search(item, here)
        elif isinstance(value, list):
            for position, item in enumerate(value):
                search(item, f"{path}[{position}]")

    search(config, "")
    return found
