"""Interpolations (`${a.b}`, `${oc.env:NAME,default}`): plain ones by hand, everything else by OmegaConf."""

from __future__ import annotations

import inspect
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from gymbuild.config.merging import MISSING

_NODE = re.compile(r"\$\{\s*([A-Za-z_][\w-]*(?:\.[\w-]+)*)\s*\}")
"""An interpolation of one node by its absolute path: what needs no OmegaConf."""
_REFERENCE = re.compile(r"(?:\$\{|:|,)\s*(\.*)([A-Za-z_][\w.-]*)")
"""What might name another node inside an interpolation; taking too much for a reference does no harm."""
_MOST_CHARACTERS = 1_000_000
"""What one value may come to when its interpolations are resolved."""
_MOST_STEPS = 50
"""Interpolations that may lead to one another before they count as a loop."""
_LOCK = threading.RLock()
NOTHING: Any = object()
"""What `Interpolations.plain` gives where there is nothing that it can tell."""


class Unresolvable(Exception):
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
    """

    def __init__(self, config: dict[Any, Any]) -> None:
        self._config = config
        self._omegaconf: Any = None
        self.variables: set[str] = set()
        """Environment variables that were read."""

    def plain(self, text: str) -> Any:
        """What a plain interpolation leads to, or `NOTHING` when it is not plain or leads nowhere.

        This needs no OmegaConf, so it costs nothing where many values are looked at.
        """
        return self._plain(text, [_MOST_STEPS])

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
            Unresolvable: an interpolation in it leads nowhere, to `???`, to itself, or to a variable that is
                not set.
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
                if self._omegaconf is None:
                    self._omegaconf = OmegaConf.create(self._config)
                node: Any = self._omegaconf
                for part in path:
                    node = node[part]
                return OmegaConf.to_container(node, resolve=True) if OmegaConf.is_config(node) else node
            except RecursionError:
                raise Unresolvable("it leads to itself") from None
            except (OmegaConfBaseException, ValueError, TypeError, AttributeError, LookupError) as error:
                raise Unresolvable(_reason(error)) from None

    def _check_growth(self, value: Any) -> None:
        """Refuse interpolations that repeat one another into a text of gigabytes, or that go in a circle."""
        sizes: dict[int, int] = {}
        by_key: dict[str, list[Any]] = {}

        def size(item: Any) -> int:
            if isinstance(item, str):
                if "${" not in item:
                    return len(item)
                known = sizes.get(id(item))
                if known is not None:
                    return known
                sizes[id(item)] = len(item)
                total = len(item)
                for dots, name in _REFERENCE.findall(item):
                    total += sum(size(target) for target in targets(dots, name))
                    if total > _MOST_CHARACTERS:
                        break
                sizes[id(item)] = total
                return total
            if isinstance(item, dict | list):
                known = sizes.get(id(item))
                if known is None:
                    sizes[id(item)] = 0
                    known = 1 + sum(
                        size(part) for part in (item.values() if isinstance(item, dict) else item)
                    )
                    sizes[id(item)] = known
                return known
            return 8

        def targets(dots: str, name: str) -> list[Any]:
            if not dots:
                found = self._at(name.split("."), [_MOST_STEPS])
                return [] if found is NOTHING else [found]
            if not by_key:
                _index_keys(self._config, by_key)
            return by_key.get(name.rsplit(".", 1)[-1], [])

        try:
            total = size(value)
        except RecursionError:
            raise Unresolvable("it leads to itself") from None
        if total > _MOST_CHARACTERS:
            raise Unresolvable(f"it expands to more than {_MOST_CHARACTERS:,} characters")


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
