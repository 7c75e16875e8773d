"""The benchmarks of a checkout, and what config files resolve to together."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gymbuild.cache.witness import Witness
from gymbuild.config.catalog_records import CatalogRecords
from gymbuild.config.datasets import Benchmark, Dataset
from gymbuild.system.clock import ask_also
from gymbuild.system.errors import ConfigError
from gymbuild.system.paths import Checkout


@dataclass(frozen=True, slots=True)
class Catalog:
    """Every benchmark that the roots of a checkout have."""

    benchmarks: dict[str, Benchmark]
    """By name, in sorted order."""
    problems: dict[str, ConfigError]
    """Candidates that cannot be resolved, by benchmark name."""
    witness: Witness
    """Everything that the answer depended on."""
    warnings: tuple[str, ...] = ()
    """Things to know that keep nothing from being built."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """What config files resolve to together."""

    datasets: list[Dataset]
    """Every dataset declared, in the config's order, agents resolved."""
    config: dict[str, Any]
    """The resolved config as plain data; `???` and interpolations kept."""
    config_files: tuple[str, ...]
    benchmarks: list[Benchmark]
    """One per `type: benchmark` dataset."""
    witness: Witness
    warnings: tuple[str, ...] = ()


def load_catalog(
    checkout: Checkout,
    *,
    search_dirs: Sequence[str] = (),
    overrides: Mapping[str, Any] | None = None,
    allow_outside: bool = False,
    use_index: bool = True,
) -> Catalog:
    """Find and resolve every benchmark.

    Args:
        checkout: the last root that is searched.
        search_dirs: roots searched before it.
        overrides: settings that override every config, as a nested mapping.
        allow_outside: whether datasets may name paths outside the checkout.
        use_index: take from `.cache/` what did not change, and keep there what did.

    Returns:
        the benchmarks, and the candidates that cannot be resolved; one candidate never takes others down.
    """
    records = CatalogRecords(checkout, search_dirs, overrides, allow_outside) if use_index else None
    if records is not None:
        found_before = records.read()
        if found_before is not None:
            return Catalog(**found_before)
        ask_also(checkout.cache)
    # not before it is needed: this imports pydantic
    from gymbuild.config.dialect.reader import ConfigReader
    from gymbuild.config.discovery import discover, witness_of

    reader = ConfigReader(checkout, search_dirs)
    previous = records.previous() if records is not None else None
    found = discover(reader, overrides=overrides, allow_outside=allow_outside, previous=previous)
    outcomes = sorted(found.outcomes.items())
    problems = {name: outcome.problem for name, outcome in outcomes if outcome.problem is not None}
    catalog = Catalog(
        {name: outcome.benchmark for name, outcome in outcomes if outcome.benchmark is not None},
        dict(sorted({**problems, **found.problems}.items())),
        witness_of(found, reader),
        tuple(warning for _, outcome in outcomes for warning in outcome.warnings),
    )
    if records is not None:
        records.save(reader, found, catalog.problems, catalog.witness)
    return catalog


def resolve_configs(
    checkout: Checkout,
    config_paths: Sequence[str],
    *,
    search_dirs: Sequence[str] = (),
    overrides: Mapping[str, Any] | None = None,
    allow_outside: bool = False,
) -> Resolved:
    """Resolve exactly these configs, together.

    Args:
        checkout: the last root that is searched.
        config_paths: relative to a root, or absolute; a later one overrides an earlier.
        search_dirs: roots searched before the checkout.
        overrides: settings that override every config, as a nested mapping.
        allow_outside: whether datasets may name paths outside the checkout.

    Raises:
        ConfigError: anything in them that cannot be used.
    """
    from gymbuild.cache.witness import variable_digest
    from gymbuild.config.declared import PathRules, metadata
    from gymbuild.config.dialect.interpolation import Interpolations
    from gymbuild.config.dialect.merging import copy_plain
    from gymbuild.config.dialect.reader import ConfigReader, Trace
    from gymbuild.config.discovery import ALWAYS_READ, datasets_of

    reader = ConfigReader(checkout, search_dirs)
    trace = Trace()
    resolved = reader.resolve(list(config_paths), trace, overrides=overrides)
    rules = PathRules(checkout, reader.roots, allow_outside=allow_outside)
    datasets, left_out = datasets_of(resolved, rules, trace)
    domain, description = metadata(resolved.config, Interpolations(resolved.config))
    benchmarks = [
        Benchmark(
            name=dataset.name,
            config_path=resolved.file,
            root="",
            dataset=dataset,
            config_files=resolved.files,
            domain=domain,
            description=description,
        )
        for dataset in datasets
        if dataset.type == "benchmark"
    ]
    config = {key: value for key, value in resolved.config.items() if key not in resolved.filled_in}
    paths = tuple(sorted((reader.shown(path), reader.signature(path)) for path in trace.paths))
    variables = tuple((name, variable_digest(name)) for name in sorted({*trace.variables, *ALWAYS_READ}))
    return Resolved(
        datasets,
        copy_plain(config),
        resolved.files,
        benchmarks,
        (paths, variables),
        resolved.warnings + left_out,
    )


def datasets_of_config(
    config: Mapping[str, Any],
    checkout: Checkout,
    *,
    search_dirs: Sequence[str] = (),
    allow_outside: bool = False,
    config_path: str = "config",
) -> list[Dataset]:
    """The datasets of a config that is resolved already.

    Args:
        config: a mapping, or OmegaConf's `DictConfig`.
        checkout: what its paths are relative to.
        search_dirs: roots where scripts and prompts are looked for first.
        allow_outside: whether datasets may name paths outside the checkout.
        config_path: how the config is named in errors and in the datasets.

    Raises:
        ConfigError: a dataset that cannot be used.
    """
    from gymbuild.config.declared import PathRules, Resolver, declared_datasets
    from gymbuild.config.dialect import servers
    from gymbuild.config.dialect.interpolation import Interpolations
    from gymbuild.config.dialect.reader import ConfigReader

    plain = _plain(config)
    reader = ConfigReader(checkout, search_dirs)
    rules = PathRules(checkout, reader.roots, allow_outside=allow_outside)
    interpolations = Interpolations(plain)
    resolver = Resolver(
        plain,
        config_path,
        rules,
        with_relays={**plain, **servers.relays(plain, file=config_path)},
        interpolations=interpolations,
    )
    return [resolver.dataset(entry) for entry in declared_datasets(plain, interpolations, config_path)]


def _plain(config: Any) -> dict[Any, Any]:
    if not isinstance(config, dict) and type(config).__module__.startswith("omegaconf"):
        from omegaconf import OmegaConf

        config = OmegaConf.to_container(config, resolve=False)
    if not isinstance(config, Mapping):
        raise ConfigError("the config must be a mapping.")

    def plain(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: plain(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [plain(item) for item in value]
        return os.fspath(value) if isinstance(value, os.PathLike) else value

    return plain(config)  # type: ignore[no-any-return]
