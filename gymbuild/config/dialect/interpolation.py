"""Interpolations (`${a.b}`, `${oc.env:NAME,default}`): plain ones by hand, everything else by OmegaConf."""

from __future__ import annotations

import inspect
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from gymbuild.config.dialect.merging import MISSING
from gymbuild.config.dialect.yaml_files import count_values

_NODE = re.compile(r"\$\{\s*([A-Za-z_][\w-]*(?:\.[\w-]+)*)\s*\}")
"""An interpolation of one node by its absolute path: what needs no OmegaConf."""
_REFERENCE = re.compile(r"(?:\$\{|:|,)\s*(\.*)([A-Za-z_][\w.-]*)")
"""What might name another node inside an interpolation; taking too much for a reference does no harm."""
_MOST_CHARACTERS = 1_000_000
"""What one value may come to when its interpolations are resolved."""
_COST = 1_000
"""Characters that one interpolation counts for: it takes OmegaConf as long as writing so many."""
_LONGEST = 20_000
"""Characters from the first to the last sign of the interpolations of one text: reading more takes OmegaConf seconds."""
_MOST_INTERPOLATIONS = 2_000
"""Interpolations that OmegaConf resolves for one config; long texts count as several."""
_MOST_NODES = 5_000
"""Values of a config that OmegaConf makes nodes of, which takes it a tenth of a millisecond each."""
_MOST_STEPS = 25
"""Interpolations that may lead to one another before they count as a loop."""
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


class TooMuchError(UnresolvableError):
    """A config with more interpolations than are resolved; a single value with too many is only unresolvable."""


class Interpolations:
    """Resolves interpolations within one config.

    Args:
        config: the whole config, as plain data; it must not change afterwards.
        most_nodes: values that OmegaConf is given to make nodes of, at the most.
    """

    def __init__(self, config: dict[Any, Any], *, most_nodes: int = _MOST_NODES) -> None:
        self._config = config
        self._most_nodes = self._nodes_left = most_nodes
        self._small: bool | None = None
        self._by_top: dict[Any, Any] = {}
        self._by_keys: dict[frozenset[Any] | None, Any] = {}
        self._odd_keys: list[Any] | None = None
        self._named_in: dict[Any, frozenset[str] | None] = {}
        self._plain_values: dict[str, Any] = {}
        self._sizes: dict[int, int] = {}
        self._by_key: dict[str, list[Any]] = {}
        self._left = _MOST_INTERPOLATIONS
        self.variables: set[str] = set()
        """Environment variables that were read."""

    def plain(self, text: str) -> Any:
        """What a plain interpolation leads to, or `NOTHING` when it is not plain or leads nowhere.

        This needs no OmegaConf, so it costs nothing where many values are looked at.
        """
        if text not in self._plain_values:
            self._plain_values[text] = self._plain(text, [_MOST_STEPS])
        return self._plain_values[text]

    def _plain(self, text: str, steps: list[int]) -> Any:
        """`plain`, within a number of steps that it shares with those that it calls: a circle ends."""
        while steps[0] > 0:
            steps[0] -= 1
            match = _NODE.fullmatch(text)
            if match is None:
                return NOTHING
            found = self._at(match.group(1).split("."), steps)
            if not isinstance(found, str) or "${" not in found:
                return found
            text = found
        return NOTHING

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

    def _at(self, path: Sequence[str], steps: list[int]) -> Any:
        node: Any = self._config
        for part in path:
            if isinstance(node, str) and "${" in node:
                node = self._plain(node, steps)
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
                not set; `TooMuchError` when it is the config that holds too many.
        """
        value = self.walk(path)
        if isinstance(value, str):
            found = self.plain(value)
            if found is not NOTHING and found is not None and found != MISSING:
                value = found
        if not has_interpolation(value):
            return value
        self._check_growth(value)
        from omegaconf import OmegaConf
        from omegaconf.errors import OmegaConfBaseException

        with _LOCK, _recorded_variables(self.variables):
            try:
                node: Any = self._nodes(path[0])
                for part in path:
                    node = node[part]
                return OmegaConf.to_container(node, resolve=True) if OmegaConf.is_config(node) else node
            except RecursionError:
                raise UnresolvableError("it leads to itself") from None
            except (OmegaConfBaseException, ValueError, TypeError, AttributeError, LookupError) as error:
                raise UnresolvableError(_reason(error)) from None

    def _nodes(self, top: Any) -> Any:
        """OmegaConf's nodes of the config: of all of it if it is small, else of what can matter for one key."""
        found = self._by_top.get(top)
        if found is not None:
            return found
        from omegaconf import OmegaConf

        if self._small is None:
            self._small = count_values(self._config, self._most_nodes) <= self._most_nodes
        keys = None if self._small else self._keys_that_matter(top)
        found = self._by_keys.get(keys)
        if found is None:
            part: dict[Any, Any] = self._config
            if keys is not None:
                part = {key: item for key, item in self._config.items() if key in keys}
            self._nodes_left -= count_values(part, self._nodes_left)
            if self._nodes_left < 0:
                raise TooMuchError(f"more than {self._most_nodes:,} values of the config matter for it")
            found = self._by_keys[keys] = OmegaConf.create(part)
        self._by_top[top] = found
        return found

    def _keys_that_matter(self, top: Any) -> frozenset[Any] | None:
        """The top-level keys that interpolations can lead to from within one; None when any of them might be.

        OmegaConf makes a node of every value that it is given, which takes far longer than to look for the few
        that it needs. Taking too many does no harm.
        """
        if self._odd_keys is None:
            self._odd_keys = [
                key for key in self._config if not isinstance(key, str) or not _WORDS.fullmatch(key)
            ]
        found: dict[Any, None] = {top: None, **dict.fromkeys(self._odd_keys)}
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

    def _check_growth(self, value: Any) -> None:
        """Refuse interpolations that repeat one another into a text of gigabytes, or that go in a circle."""
        self._left -= 1
        if self._left < 0:
            raise TooMuchError(f"the config holds more than {_MOST_INTERPOLATIONS:,} interpolations")
        try:
            total = self._count(value, 0)
        except RecursionError:
            raise UnresolvableError("it leads to itself") from None
        if total > _MOST_CHARACTERS:
            raise UnresolvableError(
                f"it expands to more than {_MOST_CHARACTERS:,} characters, or leads through too many interpolations"
            )
        self._left -= max(0, total // _COST - 1)

    def _count(self, item: Any, depth: int) -> int:
        """What a value costs once it is resolved, in characters; more than `_MOST_CHARACTERS` means too much."""
        if isinstance(item, str):
            if "${" not in item:
                return len(item)
            if item.rfind("}") - item.find("${") > _LONGEST or item.count("${") > _MOST_CHARACTERS // _COST:
                return _MOST_CHARACTERS + 1
        elif not isinstance(item, dict | list):
            return 8
        known = self._sizes.get(id(item))
        if known is not None:
            return known
        if depth > 2 * _MOST_STEPS:
            raise UnresolvableError("it leads to itself, or through too many others")
        # while it is being counted: what leads to itself adds nothing more, OmegaConf refuses it later
        self._sizes[id(item)] = len(item) if isinstance(item, str) else 0
        try:
            total = self._count_parts(item, depth + isinstance(item, str))
        except BaseException:
            del self._sizes[id(item)]
            raise
        self._sizes[id(item)] = total
        return total

    def _count_parts(self, item: Any, depth: int) -> int:
        total: int
        if isinstance(item, dict | list):
            total = 1
            for part in item.values() if isinstance(item, dict) else item:
                total += self._count(part, depth)
                if total > _MOST_CHARACTERS:
                    break
            return total
        total = len(item) + _COST * item.count("${") + _COST * (item.rfind("}") - item.find("${")) // 20
        for dots, name in _REFERENCE.findall(item):
            for target in self._targets(dots, name):
                total += self._count(target, depth)
                if total > _MOST_CHARACTERS:
                    return total
        return total

    def _targets(self, dots: str, name: str) -> list[Any]:
        if not dots:
            found = self._at(name.split("."), [_MOST_STEPS])
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
