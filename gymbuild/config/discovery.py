"""Finds every benchmark under the roots and resolves those that changed since they were last resolved."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gymbuild.cache.witness import Signature, Witness, signature, variable_digest
from gymbuild.config.datasets import Benchmark, Dataset
from gymbuild.config.declared import (
    PathRules,
    Resolver,
    check_and_route,
    declared_datasets,
    metadata,
)
from gymbuild.config.dialect.interpolation import Interpolations
from gymbuild.config.dialect.reader import (
    ROOTS_VARIABLE,
    ConfigFile,
    ConfigReader,
    ResolvedConfig,
    Trace,
    includes_of,
)
from gymbuild.config.dialect.servers import PAIRING_VARIABLE
from gymbuild.config.dialect.yaml_files import parse, read_bytes
from gymbuild.config.models import name_fault
from gymbuild.system.clock import now_ns
from gymbuild.system.errors import ConfigDeniedError, ConfigError
from gymbuild.system.permissions import sentence

FOLDER = "benchmarks"
MANIFEST = "manifest.yaml"
SUFFIX = ".yaml"
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
    """Absolute paths that were looked at, with their signatures."""
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
    folders: dict[str, tuple[Signature | None, int, tuple[str, ...]]] = field(default_factory=dict)
    """Every folder scanned → signature, time of scanning, names in it."""
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
        previous: what was found before with the same settings; what it depended on is looked at again, and
            what did not change is taken from it.

    Returns:
        what was found; one candidate that cannot be resolved never takes others down.
    """
    found = Discovery()
    candidates = _candidates(reader, found, previous)
    for name, (root, path) in sorted(candidates.items()):
        before = previous.outcomes.get(name) if previous is not None else None
        if before is not None and (before.root, before.path) == (root, path) and _holds(before, reader):
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


def _holds(outcome: Outcome, reader: ConfigReader) -> bool:
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
        for path in sorted(_yaml_files(top, found, denied), key=lambda path: path.split(os.sep)):
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


def _yaml_files(top: str, found: Discovery, denied: dict[str, OSError]) -> Iterator[str]:
    """Every `*.yaml` under a folder, symbolic links followed, names with a leading dot left out.

    Args:
        top: the folder.
        found: takes every folder that was scanned.
        denied: takes the folders that this user may not look into.
    """
    pending: list[tuple[str, frozenset[tuple[int, int]]]] = [(top, frozenset())]
    while pending:
        folder, above = pending.pop()
        at = now_ns()
        # looked up before the scan, so that what changes meanwhile shows
        before = signature(folder)
        names, files, deeper = scan(folder, denied)
        found.folders[folder] = (before, at, names)
        if before is None or before[:2] in above:
            continue
        yield from files
        pending += [(path, above | {before[:2]}) for path in deeper]


def scan(
    folder: str, denied: dict[str, OSError] | None = None
) -> tuple[tuple[str, ...], list[str], list[str]]:
    """Of a folder: every name in it, the YAML files that may be configs, and the folders to look into.

    Args:
        folder: absolute.
        denied: takes the error where this user may not look into it.
    """
    names, files, deeper = [], [], []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                names.append(entry.name)
                if entry.name.startswith("."):
                    continue
                if _is_folder(entry, denied):
                    deeper.append(entry.path)
                elif entry.name.endswith(SUFFIX) and entry.name != MANIFEST:
                    files.append(entry.path)
    except PermissionError as error:
        if denied is not None:
            denied[folder] = error
    except OSError:
        pass
    return tuple(sorted(names)), files, deeper


def _is_folder(entry: os.DirEntry[str], denied: dict[str, OSError] | None) -> bool:
    try:
        return entry.is_dir()
    except OSError as error:  # a symlink to where this user may not look
        if denied is not None and isinstance(error, PermissionError):
            denied[entry.path] = error
        return False


def benchmark_name(relative: str) -> str:
    """The name of a benchmark by its config's path under `benchmarks/`: `X/config.yaml` and `X.yaml` are `X`."""
    parts = relative.removesuffix(SUFFIX).split(os.sep)
    return parts[0] if len(parts) == 2 and parts[1] == "config" else "/".join(parts)


def declares_one_benchmark(reader: ConfigReader, path: str) -> bool:
    """Whether a file's own text declares exactly one benchmark; a file that does not parse counts as one."""
    try:
        return count_benchmarks(reader.load(path)) == 1
    except ConfigDeniedError:
        return True
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
    file = ConfigFile(path, reader.shown(path), reader.load(path))
    entries = includes_of(file, trace)
    resolved = reader.resolve(entries, trace, own=file, overrides=overrides)
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
    """Path rules that look into the declaring root first."""
    roots = (root, *(other for other in reader.roots if other != root))
    return PathRules(reader.checkout, roots, allow_outside=allow_outside)


def datasets_of(
    resolved: ResolvedConfig, rules: PathRules, trace: Trace, *, only: str | None = None
) -> tuple[list[Dataset], tuple[str, ...]]:
    """The datasets of a resolved config, and a warning for each one that was left out.

    Args:
        resolved: the config.
        rules: which paths a dataset may name.
        trace: takes down what was looked at.
        only: leave out datasets of other types.

    Raises:
        ConfigError: servers that cannot be used, or a dataset to prepare that cannot. One that is not prepared
            (its data is downloaded, or committed) keeps nothing from being built, and is left out.
    """
    config, file = resolved.config, resolved.file
    routing = check_and_route(config, file=file)
    interpolations = Interpolations(config)
    resolver = Resolver(config, file, rules, with_relays=routing, interpolations=interpolations)
    found: list[Dataset] = []
    warnings: list[str] = []
    try:
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
        trace.paths.update(rules.looked_at)
    return found, tuple(warnings)
