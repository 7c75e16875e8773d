"""The benchmarks of a checkout, and what config files resolve to together."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gymbuild.config import servers
from gymbuild.config.declared import (
    Declared,
    PathRules,
    Resolver,
    check_and_route,
    declared_datasets,
    metadata,
)
from gymbuild.config.dialect import (
    ROOTS_VARIABLE,
    ConfigFile,
    ConfigReader,
    ResolvedConfig,
    Trace,
    includes_of,
)
from gymbuild.config.interpolation import Interpolations
from gymbuild.config.merging import copy_plain
from gymbuild.config.models import name_fault
from gymbuild.config.yaml_files import parse, read_bytes
from gymbuild.datasets import Benchmark, Dataset
from gymbuild.digests import variable_digest
from gymbuild.errors import ConfigError
from gymbuild.paths import Checkout
from gymbuild.witness import Witness

FOLDER = "benchmarks"
MANIFEST = "manifest.yaml"
SUFFIX = ".yaml"


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
        use_index: take from, and keep in, `.cache/` what did not change.

    Returns:
        the benchmarks, and the candidates that cannot be resolved; one candidate never takes others down.
    """
    reader = ConfigReader(checkout, search_dirs)
    trace = Trace()
    candidates, problems = _candidates(reader, trace)
    benchmarks: dict[str, Benchmark] = {}
    warnings: list[str] = []
    for name, (root, path) in sorted(candidates.items()):
        own = Trace()
        try:
            benchmark, notes = _benchmark(reader, own, name, root, path, overrides, allow_outside)
            benchmarks[name] = benchmark
            warnings += notes
        except ConfigError as error:
            problems[name] = error
        trace.paths.update(own.paths)
        trace.variables |= own.variables
    return Catalog(
        dict(sorted(benchmarks.items())),
        dict(sorted(problems.items())),
        _witness(reader, trace),
        tuple(warnings),
    )


def _candidates(
    reader: ConfigReader, trace: Trace
) -> tuple[dict[str, tuple[str, str]], dict[str, ConfigError]]:
    """Benchmark name → (root, path) of the files that declare one benchmark, and names that cannot be."""
    found: dict[str, tuple[str, str]] = {}
    problems: dict[str, ConfigError] = {}
    for root in reader.roots:
        here: dict[str, str] = {}
        top = os.path.join(root, FOLDER)
        for path in sorted(_yaml_files(top, trace), key=lambda path: path.split(os.sep)):
            trace.paths[path] = None
            if declares_one_benchmark(reader, path):
                here[benchmark_name(os.path.relpath(path, top))] = path
        for name, path in here.items():
            if name in found or name in problems:
                continue
            fault = name_fault(name)
            if fault:
                problems[name] = ConfigError(
                    f"its name as a benchmark would be {name!r}: {fault}. Rename the file.",
                    file=reader.shown(path),
                )
            else:
                found[name] = (root, path)
    return found, problems


def _yaml_files(top: str, trace: Trace) -> Iterator[str]:
    """Every `*.yaml` under a folder, symbolic links followed, names with a leading dot left out."""
    pending = [(top, frozenset[str]())]
    while pending:
        folder, above = pending.pop()
        trace.paths[folder] = None
        try:
            real = os.path.realpath(folder)
            if real in above:
                continue
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.name.startswith("."):
                        continue
                    if entry.is_dir():
                        pending.append((entry.path, above | {real}))
                    elif entry.name.endswith(SUFFIX) and entry.name != MANIFEST:
                        yield entry.path
        except OSError:
            continue


def benchmark_name(relative: str) -> str:
    """The name of a benchmark by its config's path under `benchmarks/`: `X/config.yaml` and `X.yaml` are `X`."""
    parts = relative.removesuffix(SUFFIX).split(os.sep)
    return parts[0] if len(parts) == 2 and parts[1] == "config" else "/".join(parts)


def declares_one_benchmark(reader: ConfigReader, path: str) -> bool:
    """Whether a file's own text declares exactly one benchmark; a file that does not parse counts as one."""
    try:
        return count_benchmarks(reader.load(path)) == 1
    except ConfigError:
        pass
    try:
        # not ours to complain about unless plain YAML cannot read it either, or it does declare one
        text = read_bytes(path, path)
        return count_benchmarks(parse(text.data, path, count_only=True)) == 1
    except (ConfigError, FileNotFoundError):
        return os.path.lexists(path)


def count_benchmarks(value: Any) -> int:
    """How many mappings with `type: benchmark` are in plain data, aliases counted each time."""
    counts: dict[int, int] = {}

    def count(node: Any) -> int:
        if isinstance(node, dict):
            known = counts.get(id(node))
            if known is None:
                known = counts[id(node)] = (node.get("type") == "benchmark") + sum(
                    count(item) for item in node.values() if isinstance(item, dict | list)
                )
            return known
        if isinstance(node, list):
            return sum(count(item) for item in node if isinstance(item, dict | list))
        return 0

    return count(value)


def _benchmark(
    reader: ConfigReader,
    trace: Trace,
    name: str,
    root: str,
    path: str,
    overrides: Mapping[str, Any] | None,
    allow_outside: bool,
) -> tuple[Benchmark, tuple[str, ...]]:
    trace.paths[path] = None
    file = ConfigFile(path, reader.shown(path), reader.load(path))
    entries = includes_of(file, trace)
    resolved = reader.resolve(entries, trace, own=file, overrides=overrides)
    rules = _rules(reader, root, allow_outside)
    found = _datasets(resolved, rules, trace, only="benchmark")
    if len(found) != 1:
        raise ConfigError(
            f"it resolves to {len(found)} benchmark datasets; a benchmark has exactly one. "
            + (
                f"Build it as a suite with config_paths=[{file.shown}]."
                if found
                else "Declare the dataset in the `datasets` of an agent or a resources server."
            ),
            file=file.shown,
        )
    domain, description = metadata(file.data)
    if domain is None or description is None:
        wider = metadata(resolved.config, Interpolations(resolved.config))
        domain = wider[0] if domain is None else domain
        description = wider[1] if description is None else description
    config_path = os.path.relpath(path, root).replace(os.sep, "/")
    return (
        Benchmark(
            name=name,
            config_path=config_path,
            root="" if root == reader.checkout.root else root,
            dataset=found[0],
            config_files=resolved.files,
            domain=domain,
            description=description,
        ),
        resolved.warnings,
    )


def _rules(reader: ConfigReader, root: str, allow_outside: bool) -> PathRules:
    """Path rules that look into the declaring root first."""
    roots = (root, *(other for other in reader.roots if other != root))
    return PathRules(reader.checkout, roots, allow_outside=allow_outside)


def _datasets(
    resolved: ResolvedConfig, rules: PathRules, trace: Trace, *, only: str | None = None
) -> list[Dataset]:
    config, file = resolved.config, resolved.file
    routing = check_and_route(config, file=file)
    interpolations = Interpolations(config)
    resolver = Resolver(config, file, rules, with_relays=routing, interpolations=interpolations)
    declared: list[Declared] = list(declared_datasets(config, interpolations, file))
    try:
        return [resolver.dataset(entry) for entry in declared if only is None or entry.type == only]
    finally:
        trace.variables |= interpolations.variables
        trace.paths.update(rules.looked_at)


def _witness(reader: ConfigReader, trace: Trace) -> Witness:
    """Signatures of all that was looked at, those of read files as they were when they were read."""
    paths = []
    for path in trace.paths:
        read = reader.read.get(path)
        paths.append((reader.shown(path), read[0] if read else reader.signature(path)))
    names = sorted(trace.variables | {ROOTS_VARIABLE, "NEMO_GYM_ALLOW_UNSUPPORTED_PAIRING"})
    return tuple(sorted(paths)), tuple((name, variable_digest(name)) for name in names)


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
    reader = ConfigReader(checkout, search_dirs)
    trace = Trace()
    resolved = reader.resolve(list(config_paths), trace, overrides=overrides)
    rules = PathRules(checkout, reader.roots, allow_outside=allow_outside)
    datasets = _datasets(resolved, rules, trace)
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
    return Resolved(
        datasets, copy_plain(config), resolved.files, benchmarks, _witness(reader, trace), resolved.warnings
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
