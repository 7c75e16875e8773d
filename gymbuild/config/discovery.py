"""Finds every benchmark under the roots and resolves those that changed since they were last resolved."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gymbuild.cache.witness import Signature, Witness, variable_digest
from gymbuild.config.datasets import Benchmark, Dataset
from gymbuild.config.declared import Resolver, declared_datasets, metadata
from gymbuild.config.dialect.interpolation import Interpolations
from gymbuild.config.dialect.limits import Budget, nested
from gymbuild.config.dialect.pairings import PAIRING_VARIABLE
from gymbuild.config.dialect.reader import ROOTS_VARIABLE, ConfigReader, ResolvedConfig, Trace
from gymbuild.config.dialect.yaml_files import parse, read_bytes
from gymbuild.config.folders import FOLDER, Folders, benchmark_name, yaml_files
from gymbuild.config.models import name_fault
from gymbuild.config.path_rules import PathRules
from gymbuild.config.server_checks import check_and_route
from gymbuild.system.errors import ConfigDeniedError, ConfigError
from gymbuild.system.permissions import sentence

ALWAYS_READ = (ROOTS_VARIABLE, PAIRING_VARIABLE)
"""Environment variables that every resolution reads."""


@dataclass(slots=True)
class Outcome:
    """What one candidate came to, and what that depended on."""

    root: str
    path: str
    benchmark: Benchmark | None
    problem: ConfigError | None
    warnings: tuple[str, ...]
    paths: tuple[tuple[str, Signature | None], ...]
    """Absolute paths that it depended on, with their signatures."""
    variables: tuple[tuple[str, str | None], ...]
    """Variables that were read, with the digests of their values."""


@dataclass(slots=True)
class Discovery:
    """Everything that was found under the roots."""

    outcomes: dict[str, Outcome] = field(default_factory=dict)
    """By benchmark name."""
    problems: dict[str, ConfigError] = field(default_factory=dict)
    """Files that cannot be a benchmark's for their name."""
    candidates: dict[str, tuple[Signature, bool]] = field(default_factory=dict)
    """Every YAML file scanned → its signature, and whether its own text declares one benchmark."""
    folders: Folders = field(default_factory=dict)
    resolved: list[str] = field(default_factory=list)
    """Names of the benchmarks that were resolved anew."""


def discover(
    reader: ConfigReader,
    *,
    overrides: Mapping[str, Any] | None = None,
    allow_outside: bool = False,
    previous: Discovery | None = None,
) -> Discovery:
    """Find every benchmark and resolve it.

    Args:
        reader: knows the roots.
        overrides: settings that override every config.
        allow_outside: whether datasets may name paths outside the checkout.
        previous: what was found before with the same settings; what it depended on is compared, and
            what did not change is taken from it.

    Returns:
        what was found; one candidate that cannot be resolved never takes others down.
    """
    found = Discovery()
    candidates = _candidates(reader, found, previous)
    for name, (root, path) in sorted(candidates.items()):
        before = previous.outcomes.get(name) if previous is not None else None
        if (
            before is not None
            and (before.root, before.path) == (root, path)
            and _is_unchanged(before, reader)
        ):
            found.outcomes[name] = before
            continue
        found.resolved.append(name)
        trace = Trace({path: None})
        benchmark: Benchmark | None = None
        problem: ConfigError | None = None
        warnings: tuple[str, ...] = ()
        try:
            benchmark, warnings = _benchmark(reader, trace, name, root, path, overrides, allow_outside)
        except ConfigError as error:
            problem = error
        found.outcomes[name] = Outcome(
            root,
            path,
            benchmark,
            problem,
            warnings,
            tuple((path, reader.signature(path)) for path in trace.paths),
            tuple((name, variable_digest(name)) for name in sorted(trace.variables)),
        )
    return found


def _is_unchanged(outcome: Outcome, reader: ConfigReader) -> bool:
    """Whether everything that an outcome depended on is as it was."""
    return all(reader.signature(path) == before for path, before in outcome.paths) and all(
        variable_digest(name) == before for name, before in outcome.variables
    )


def witness_of(found: Discovery, reader: ConfigReader) -> Witness:
    """Everything that a discovery depended on."""
    paths: dict[str, Signature | None] = {}
    variables: dict[str, str | None] = {name: variable_digest(name) for name in ALWAYS_READ}
    for outcome in found.outcomes.values():
        paths.update(outcome.paths)
        variables.update(outcome.variables)
    paths.update((path, at) for path, (at, _) in found.candidates.items())
    paths.update((folder, at) for folder, (at, _, _) in found.folders.items())
    return (
        tuple(sorted((reader.shown(path), at) for path, at in paths.items())),
        tuple(sorted(variables.items())),
    )


def _candidates(
    reader: ConfigReader, found: Discovery, previous: Discovery | None
) -> dict[str, tuple[str, str]]:
    """Benchmark name → (root, path) of the files that declare one benchmark; the first root with a name wins."""
    chosen: dict[str, tuple[str, str]] = {}
    for root in reader.roots:
        here: dict[str, str] = {}
        top = os.path.join(root, FOLDER)
        denied: dict[str, OSError] = {}
        for path in sorted(yaml_files(top, found.folders, denied), key=lambda path: path.split(os.sep)):
            at = reader.signature(path)
            before = previous.candidates.get(path) if previous is not None else None
            if before is not None and before[0] == at:
                declares = before[1]
            else:
                declares = declares_one_benchmark(reader, path)
                at = reader.signature(path)
            if at is not None:
                found.candidates[path] = (at, declares)
            if declares:
                here[benchmark_name(os.path.relpath(path, top))] = path
        for folder, error in denied.items():
            problem = ConfigDeniedError(
                f"the folder cannot be looked into, and what benchmarks it has is not known: "
                f"{sentence(error, folder, writing=False)}.",
                file=reader.shown(folder),
            )
            if folder == top:
                raise problem
            found.problems.setdefault(benchmark_name(os.path.relpath(folder, top)), problem)
        for name, path in here.items():
            if name in chosen or name in found.problems:
                continue
            fault = name_fault(name)
            if fault:
                found.problems[name] = ConfigError(
                    f"its name as a benchmark would be {name!r}: {fault}. Rename the file.",
                    file=reader.shown(path),
                )
            else:
                chosen[name] = (root, path)
    return chosen


def declares_one_benchmark(reader: ConfigReader, path: str) -> bool:
    """Whether a file's own text declares exactly one benchmark; a file that does not parse counts as one."""
    try:
        data: Any = reader.load(path).data
    except ConfigDeniedError:
        return True
    except ConfigError:
        try:
            # not ours to complain about unless plain YAML cannot read it either, or it does declare one
            data = parse(read_bytes(path, path).data, Budget(path), lenient=True)
        except (ConfigError, FileNotFoundError):
            return os.path.lexists(path)
    try:
        with nested(path):
            return count_benchmarks(data) == 1
    except ConfigError:
        return True


def count_benchmarks(value: Any) -> int:
    """How many mappings with `type: benchmark` are in plain data, aliases counted each time."""
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    itself = isinstance(value, dict) and value.get("type") == "benchmark"
    return itself + sum(count_benchmarks(item) for item in items if isinstance(item, dict | list))


def _benchmark(
    reader: ConfigReader,
    trace: Trace,
    name: str,
    root: str,
    path: str,
    overrides: Mapping[str, Any] | None,
    allow_outside: bool,
) -> tuple[Benchmark, tuple[str, ...]]:
    file = reader.load(path)
    resolved = reader.resolve((), trace, benchmark=file, overrides=overrides)
    rules = _rules(reader, root, allow_outside)
    found, _ = datasets_of(resolved, rules, trace, only="benchmark")
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
    """Path rules that try the declaring root first."""
    roots = (root, *(other for other in reader.roots if other != root))
    return PathRules(reader.checkout, roots, allow_outside=allow_outside)


def datasets_of(
    resolved: ResolvedConfig, rules: PathRules, trace: Trace, *, only: str | None = None
) -> tuple[list[Dataset], tuple[str, ...]]:
    """The datasets of a resolved config, and a warning for each one that was left out.

    Args:
        resolved: the config.
        rules: which paths a dataset may name.
        trace: takes down what was looked for.
        only: leave out datasets of other types.

    Raises:
        ConfigError: servers that cannot be used, or a dataset to prepare that cannot. One that is not prepared
            (its data is downloaded, or committed) keeps nothing from being built, and is left out.
    """
    config, file = resolved.config, resolved.file
    interpolations = Interpolations(config, resolved.budget)
    found: list[Dataset] = []
    warnings: list[str] = []
    try:
        with nested(file):
            routing = check_and_route(config, file=file)
            resolver = Resolver(config, file, rules, with_relays=routing, interpolations=interpolations)
            for entry in list(declared_datasets(config, interpolations, file)):
                if only is not None and entry.type != only:
                    continue
                try:
                    found.append(resolver.dataset(entry))
                except ConfigError as error:
                    if entry.prepared:
                        raise
                    warnings.append(f"a dataset that is not prepared is left out: {error}")
    finally:
        trace.variables |= interpolations.variables
        trace.paths.update(rules.consulted)
    return found, tuple(warnings)
