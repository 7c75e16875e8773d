"""Interpolations (`${a.b}`, `${oc.env:NAME,default}`): plain ones by hand, everything else by OmegaConf."""

from __future__ import annotations

import inspect
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from gymbuild.config.dialect.limits import MAX_VALUES, Budget, count, weight
from gymbuild.config.dialect.values import MISSING

_NODE = re.compile(r"\$\{\s*([A-Za-z_][\w-]*(?:\.[\w-]+)*)\s*\}")
"""An interpolation of one node by its absolute path: what needs no OmegaConf."""
_REFERENCE = re.compile(r"(?:\$\{|:|,)\s*(\.*)([A-Za-z_][\w.-]*)")
"""What might name another node inside an interpolation; taking too much for a reference does no harm."""
_INTERPOLATION = 25
"""Values that one interpolation counts for: it takes OmegaConf as long."""
_NODE_MADE = 10
"""Values that one node counts for which OmegaConf makes of a value: a tenth of a millisecond."""
_PARSED = 20
"""Characters from the first to the last interpolation of a text that take OmegaConf as long as an interpolation."""
_SMALL = 1_000
"""Values of a config of which OmegaConf is given all."""
_WORDS = re.compile(r"[\w-]+")
_NESTED = re.compile(r"\$\{[^}]{0,5000}?\$\{")
_LOCK = threading.RLock()
NOTHING: Any = object()
"""What `Interpolations.plain` gives where there is nothing that it can tell."""


class UnresolvableError(Exception):
    """An interpolation that leads to nothing; the text says why."""


def has_interpolation(value: Any) -> bool:
    """Whether anything in plain data is an interpolation."""
    if isinstance(value, str):
        return "${" in value
    if isinstance(value, dict):
        return any(has_interpolation(item) for item in value.values())
    if isinstance(value, list):
        return any(has_interpolation(item) for item in value)
    return False


class Interpolations:
    """Resolves interpolations within one config.

    Args:
        config: the whole config, as plain data; it must not change afterwards.
        budget: is spent on what is resolved; default one of its own.
    """

    def __init__(self, config: Mapping[Any, Any], budget: Budget | None = None) -> None:
        self._config = config
        self._budget = budget or Budget(None)
        self._small: bool | None = None
        self._by_top: dict[Any, Any] = {}
        self._by_keys: dict[frozenset[Any] | None, Any] = {}
        self._unusual_keys: list[Any] | None = None
        self._named_in: dict[Any, frozenset[str] | None] = {}
        self._plain_values: dict[str, Any] = {}
        self._costs: dict[int, int] = {}
        self._counted = 0
        self._by_key: dict[str, list[Any]] = {}
        self.variables: set[str] = set()
        """Environment variables that were read."""

    def plain(self, text: str) -> Any:
        """What a plain interpolation leads to, or `NOTHING` when it is not plain or leads nowhere.

        This needs no OmegaConf, so it costs nothing where many values are asked for.
        """
        if text not in self._plain_values:
            # until it is found: a circle leads nowhere
            self._plain_values[text] = NOTHING
            match = _NODE.fullmatch(text)
            if match is not None:
                found = self._at(match.group(1).split("."))
                if isinstance(found, str) and "${" in found:
                    found = self.plain(found)
                self._plain_values[text] = found
        return self._plain_values[text]

    def follow(self, text: str) -> Any:
        """The mapping or list that a plain interpolation leads to; None for anything else."""
        found = self.plain(text)
        return found if isinstance(found, dict | list) else None

    def walk(self, path: Sequence[Any]) -> Any:
        """The value at a path as it is written, interpolations on the way there followed.

        Raises:
            LookupError: nothing is there.
        """
        node: Any = self._config
        for part in path:
            if isinstance(node, str):
                node = self.follow(node)
            if isinstance(node, dict) or (isinstance(node, list) and isinstance(part, int)):
                node = node[part]
            else:
                raise LookupError(part)
        return node

    def _at(self, path: Sequence[str]) -> Any:
        node: Any = self._config
        for part in path:
            if isinstance(node, str) and "${" in node:
                node = self.plain(node)
            if isinstance(node, dict):
                if part not in node:
                    return NOTHING
                node = node[part]
            elif isinstance(node, list) and part.isdecimal() and int(part) < len(node):
                node = node[int(part)]
            else:
                return NOTHING
        return node

    def resolve(self, path: Sequence[Any]) -> Any:
        """The value at a path with every interpolation in it resolved, as plain data.

        Args:
            path: keys and list positions from the top.

        Raises:
            LookupError: nothing is there.
            UnresolvableError: an interpolation in it leads nowhere, to `???`, to itself, or to a variable that is
                not set.
            ConfigError: the config comes to more values than it may.
        """
        value = self.walk(path)
        if isinstance(value, str):
            found = self.plain(value)
            if found is not NOTHING and found is not None and found != MISSING:
                value = found
            if isinstance(value, dict | list):
                self._budget.spend(count(value, self._budget.left), key=path)
        if not has_interpolation(value):
            return value
        self._counted = 0
        try:
            self._budget.spend(self._cost(value), key=path)
        except RecursionError:
            self._costs.clear()
            self._budget.spend(self._counted, key=path)
            raise UnresolvableError("it leads to itself, or through too many others") from None
        from omegaconf import OmegaConf
        from omegaconf.errors import OmegaConfBaseException

        with _LOCK, _recorded_variables(self.variables):
            try:
                node: Any = self._nodes(path)
                for part in path:
                    node = node[part]
                return OmegaConf.to_container(node, resolve=True) if OmegaConf.is_config(node) else node
            except RecursionError:
                raise UnresolvableError("it leads to itself") from None
            except (OmegaConfBaseException, ValueError, TypeError, AttributeError, LookupError) as error:
                raise UnresolvableError(_reason(error)) from None

    def _nodes(self, path: Sequence[Any]) -> Any:
        """OmegaConf's nodes of the config: of all of it if it is small, else of what can matter for a path."""
        top = path[0]
        found = self._by_top.get(top)
        if found is not None:
            return found
        from omegaconf import OmegaConf

        if self._small is None:
            self._small = count(self._config, _SMALL) <= _SMALL
        keys = None if self._small else self._keys_that_matter(top)
        found = self._by_keys.get(keys)
        if found is None:
            part = dict(self._config)
            if keys is not None:
                part = {key: item for key, item in self._config.items() if key in keys}
            self._budget.spend(_NODE_MADE * count(part, self._budget.left), key=path)
            found = self._by_keys[keys] = OmegaConf.create(part)
        self._by_top[top] = found
        return found

    def _keys_that_matter(self, top: Any) -> frozenset[Any] | None:
        """The top-level keys that interpolations can lead to from within one; None when any of them might be.

        OmegaConf makes a node of every value that it is given, which takes far longer than to find the few
        that it needs. Taking too many does no harm.
        """
        if self._unusual_keys is None:
            self._unusual_keys = [
                key for key in self._config if not isinstance(key, str) or not _WORDS.fullmatch(key)
            ]
        found: dict[Any, None] = {top: None, **dict.fromkeys(self._unusual_keys)}
        pending = list(found)
        while pending:
            key = pending.pop()
            if key not in self._named_in:
                self._named_in[key] = self._keys_named_in(self._config[key])
            named = self._named_in[key]
            if named is None:
                return None
            for other in named:
                if other not in found:
                    found[other] = None
                    pending.append(other)
        return frozenset(found)

    def _keys_named_in(self, value: Any) -> frozenset[str] | None:
        """The top-level keys that are words of interpolated texts; None where one text stands in another."""
        named: set[str] = set()
        for text in _texts(value):
            if "${" in text:
                if _NESTED.search(text):
                    # what the inner one gives may name anything
                    return None
                named.update(word for word in _WORDS.findall(text) if word in self._config)
        return frozenset(named)

    def _cost(self, item: Any) -> int:
        """How many values an item counts for once it is resolved; soon after `MAX_VALUES` it ends."""
        self._counted += 1
        if not (isinstance(item, dict | list) or (isinstance(item, str) and "${" in item)):
            return weight(item)
        if id(item) not in self._costs:
            # until it is counted: what leads to itself adds nothing more, OmegaConf refuses it later
            self._costs[id(item)] = 1
            total = 1
            if isinstance(item, str):
                total += weight(item) + _INTERPOLATION * item.count("${")
                total += _INTERPOLATION * max(item.rfind("}") - item.find("${"), 0) // _PARSED
            for part in self._parts(item):
                total += self._cost(part)
                if total > MAX_VALUES:
                    break
            self._costs[id(item)] = total
        return self._costs[id(item)]

    def _parts(self, item: Any) -> Iterator[Any]:
        """What an item comes to: its items, or what its interpolations might lead to."""
        if isinstance(item, dict):
            yield from item
            yield from item.values()
        elif isinstance(item, list):
            yield from item
        else:
            for dots, name in _REFERENCE.findall(item):
                yield from self._targets(dots, name)

    def _targets(self, dots: str, name: str) -> list[Any]:
        if not dots:
            found = self._at(name.split("."))
            return [] if found is NOTHING else [found]
        if not self._by_key:
            _index_keys(self._config, self._by_key)
        return self._by_key.get(name.rsplit(".", 1)[-1], [])


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            if isinstance(item, str | dict | list):
                yield from _texts(item)


def _index_keys(value: Any, by_key: dict[str, list[Any]]) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            by_key.setdefault(str(key), []).append(item)
            _index_keys(item, by_key)
    elif isinstance(value, list):
        for item in value:
            _index_keys(item, by_key)


@contextmanager
def _recorded_variables(variables: set[str]) -> Iterator[None]:
    """Have OmegaConf's `oc.env` tell which variables it reads."""
    from omegaconf import OmegaConf
    from omegaconf.resolvers import oc

    def environment(name: str, *default: Any) -> Any:
        variables.add(str(name))
        return oc.env(name, *default)

    # OmegaConf 2.4 gives a new name to what 2.3 calls register_new_resolver, where that name is another function
    register: Any = OmegaConf.register_resolver
    if "replace" not in inspect.signature(register).parameters:
        register = OmegaConf.register_new_resolver
    register("oc.env", environment, replace=True)
    try:
        yield
    finally:
        register("oc.env", oc.env, replace=True)


def _reason(error: Exception) -> str:
    text = str(error).splitlines()[0].strip() if str(error) else type(error).__name__
    return text.rstrip(".")
