"""Merging plain data with OmegaConf's semantics: mappings merge, lists replace, a later `???` leaves a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gymbuild.config.dialect.interpolation import Interpolations
from gymbuild.config.dialect.limits import Budget, count
from gymbuild.config.dialect.values import MISSING, kind_of
from gymbuild.system.errors import ConfigError


def merge(
    base: dict[Any, Any],
    over: dict[Any, Any],
    budget: Budget,
    *,
    file: str | None = None,
    follow: bool = True,
) -> dict[Any, Any]:
    """`over` merged onto `base`, as a new mapping; neither is changed, and unchanged parts are shared.

    Args:
        base: what was merged so far.
        over: what overrides it.
        budget: is spent on the mappings that interpolations bring.
        file: the file that `over` comes from, for errors; default the budget's.
        follow: merge onto what an interpolation in `base` leads to, not onto its text, as OmegaConf does.

    Raises:
        ConfigError: a mapping meets a list, or interpolations multiply what is merged.
    """
    return _Merge(budget, file or budget.file, follow).merge(base, over, None, "", frozenset())


@dataclass(frozen=True, slots=True)
class _Merge:
    budget: Budget
    file: str | None
    follow: bool

    def merge(
        self,
        base: dict[Any, Any],
        over: dict[Any, Any],
        root: dict[Any, Any] | None,
        path: str,
        above: frozenset[int],
    ) -> dict[Any, Any]:
        """`merge` at `path`.

        `root` is the whole of the merged config, None where that is `base`; `above` are the mappings that `base` lies
        in, which are never merged onto again.
        """
        result = dict(base)
        tree = result if root is None else root
        above = above | {id(base)}
        for key, new in over.items():
            if key not in result:
                result[key] = new
                continue
            old = result[key]
            here = f"{path}.{key}".lstrip(".")
            if self.follow and isinstance(old, str) and "${" in old:
                target = Interpolations(tree).follow(old)
                if target is not None and id(target) not in above:
                    old = result[key] = target
                    if isinstance(new, dict):
                        self.budget.spend(count(target, self.budget.left), key=here)
            if isinstance(old, dict | list) and isinstance(new, dict | list) and type(old) is not type(new):
                raise ConfigError(
                    f"it is {kind_of(new)} here and {kind_of(old)} in a config that is overridden; a mapping and "
                    "a list do not merge. Use the same kind in both, or remove the key with `_delete_key` first.",
                    file=self.file,
                    key=here,
                )
            if isinstance(new, dict) and isinstance(old, dict):
                result[key] = self.merge(old, new, tree, here, above)
            elif not (isinstance(new, str) and new == MISSING):
                result[key] = new
        return result
