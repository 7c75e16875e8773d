"""The catalog kept in `.cache/`, so that a tree that did not change costs stats instead of parses.

What answers the question "is it still so?" imports next to nothing; what writes the answer down imports more.
Two logs: `configs` holds the catalog, which every start reads; `config-dependencies` holds what each benchmark
depended on, which only a start that finds a change reads.
"""

from __future__ import annotations

import os
import sys

from gymbuild.cache.record_log import RecordLog
from gymbuild.cache.witness import holds, is_racy, wait_until_not_racy
from gymbuild.system.paths import Checkout

# not from typing: importing that costs a third of a start that finds nothing to do
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from gymbuild.config.dialect.reader import ConfigReader
    from gymbuild.config.discovery import Discovery

FORMAT = 2
"""Raised when what is written changes its shape."""
_MOST_SETTINGS = 4
"""Settings beside the present ones that a catalog is kept for."""
_LONGEST_WAIT_NS = 100_000_000
"""How long a save may wait for files that were changed just now, in nanoseconds; else it is left to a later start."""
_ALWAYS_READ = ("NEMO_GYM_ALLOW_UNSUPPORTED_PAIRING", "NEMO_GYM_EXTRA_ROOTS")


def quick(
    checkout: Checkout,
    search_dirs: Sequence[str] = (),
    *,
    overrides: Mapping[str, Any] | None = None,
    allow_outside: bool = False,
) -> dict[str, Any] | None:
    """The catalog as plain data, when nothing that it depended on has changed.

    Args:
        checkout: whose `.cache/` is asked.
        search_dirs: as for `load_catalog`.
        overrides: as for `load_catalog`.
        allow_outside: as for `load_catalog`.

    Returns:
        `benchmarks` (name → `Benchmark.to_plain()`), `problems` (name → message, file, line, key), `warnings`
        and `witness`; or None when something changed, or nothing is known.
    """
    try:
        known = RecordLog(checkout.cached("configs")).get(_key(tuple(search_dirs), overrides, allow_outside))
        if not isinstance(known, dict) or not holds(known["quick_witness"], checkout.root):
            return None
        return {name: known[name] for name in ("benchmarks", "problems", "warnings", "witness")}
    except (KeyError, TypeError, ValueError, EOFError, IndexError):
        return None


def _key(search_dirs: tuple[str, ...], overrides: Mapping[str, Any] | None, allow_outside: bool) -> str:
    """What a catalog is kept under: the settings that it was made with, and the code that made it."""
    roots = [os.environ.get(name) for name in _ALWAYS_READ]
    return repr(
        (FORMAT, sys.hexversion, _code(), search_dirs, _sorted(overrides or {}), allow_outside, roots)
    )


def _sorted(value: Any) -> Any:
    if hasattr(value, "items"):
        return sorted((str(key), _sorted(item)) for key, item in value.items())
    return value


def _code() -> tuple[Any, ...]:
    """Signatures of the modules that resolve configs, and of where the packages that they use are installed."""
    here = os.path.dirname(__file__)
    found: list[Any] = []
    for folder in (here, os.path.join(here, "dialect")):
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    status = entry.stat()
                    found.append((entry.name, status.st_size, status.st_mtime_ns))
    found.sort()
    for place in sys.path:
        if place.endswith(("site-packages", "dist-packages")):
            try:
                found.append((place, os.stat(place).st_mtime_ns))
            except OSError:
                continue
    return tuple(found)


def previous(
    checkout: Checkout, search_dirs: tuple[str, ...], overrides: Mapping[str, Any] | None, allow_outside: bool
) -> Discovery | None:
    """What was found before with the same settings, and what each part of it depended on."""
    from gymbuild.config.datasets import Benchmark
    from gymbuild.config.discovery import Discovery, Outcome
    from gymbuild.system.errors import ConfigError

    try:
        known = RecordLog(checkout.cached("config-dependencies")).get(
            _key(search_dirs, overrides, allow_outside)
        )
        if not isinstance(known, dict):
            return None
        table: tuple[Any, ...] = known["paths"]
        outcomes = {}
        for name, (root, path, benchmark, problem, warnings, paths, variables) in known["outcomes"].items():
            outcomes[name] = Outcome(
                root,
                path,
                None if benchmark is None else Benchmark.from_plain(benchmark),
                None
                if problem is None
                else ConfigError(problem[0], file=problem[1], line=problem[2], key=problem[3]),
                warnings,
                tuple(table[number] for number in paths),
                variables,
            )
        return Discovery(outcomes=outcomes, candidates=known["candidates"])
    except (KeyError, TypeError, ValueError, EOFError, IndexError):
        return None


def save(
    checkout: Checkout,
    search_dirs: tuple[str, ...],
    overrides: Mapping[str, Any] | None,
    allow_outside: bool,
    *,
    reader: ConfigReader,
    found: Discovery,
    plain: Mapping[str, Any],
) -> bool:
    """Keep a discovery, unless something that was just changed might change again without a trace.

    Args:
        checkout: whose `.cache/` is written; that it cannot be written is no error.
        search_dirs: the settings that it was made with.
        overrides: likewise.
        allow_outside: likewise.
        reader: what read the files.
        found: what was found.
        plain: the catalog as `quick` gives it.

    Returns:
        whether it was written. What one user may not read is not written down for others.
    """
    from gymbuild.system.errors import ConfigDeniedError

    problems = [outcome.problem for outcome in found.outcomes.values()] + list(found.problems.values())
    if any(isinstance(problem, ConfigDeniedError) for problem in problems) or not _settled(reader, found):
        return False
    numbers: dict[Any, int] = {}
    outcomes = {}
    for name, outcome in found.outcomes.items():
        problem = outcome.problem
        outcomes[name] = (
            outcome.root,
            outcome.path,
            None if outcome.benchmark is None else outcome.benchmark.to_plain(),
            None if problem is None else (problem.message, problem.file, problem.line, problem.key),
            outcome.warnings,
            tuple(numbers.setdefault(item, len(numbers)) for item in outcome.paths),
            outcome.variables,
        )
    key = _key(search_dirs, overrides, allow_outside)
    paths, variables = plain["witness"]
    # what the key holds is not looked at again: it would cost an import
    own = (paths, tuple(item for item in variables if item[0] not in _ALWAYS_READ))
    dependencies = {"paths": tuple(numbers), "outcomes": outcomes, "candidates": found.candidates}
    try:
        _put(checkout.cached("config-dependencies"), key, dependencies)
        _put(checkout.cached("configs"), key, {**plain, "quick_witness": own})
    except (OSError, ValueError):
        # a `.cache/` that cannot be written to, or a value that marshal does not know: slower, not wrong
        return False
    return True


def _put(path: str, key: str, value: Any) -> None:
    """Write one record, and drop those of settings and code that were used longest ago."""
    log = RecordLog(path)
    old = [other for other in list(log.keys()) if other != key]
    log.put([(key, value), *((other, None) for other in old[: max(len(old) - _MOST_SETTINGS, 0)])])


def _settled(reader: ConfigReader, found: Discovery) -> bool:
    """Whether no file or folder could have changed behind the signature that it was read under.

    Those that were read within a clock step of a change are read again after it (git's rule for racily clean
    entries).
    """
    from gymbuild.cache.digests import digest_bytes
    from gymbuild.cache.witness import signature
    from gymbuild.config.dialect.yaml_files import read_bytes
    from gymbuild.config.discovery import scan
    from gymbuild.system.errors import ConfigError

    folders = {
        folder: (at, names)
        for folder, (at, when, names) in found.folders.items()
        if at is not None and is_racy(at, when)
    }
    if not reader.racy and not folders:
        return True
    racy = [at for at, _ in reader.racy.values()] + [at for at, _ in folders.values()]
    from gymbuild.cache.witness import racy_until
    from gymbuild.system.clock import now_ns

    if max(map(racy_until, racy)) - now_ns() > _LONGEST_WAIT_NS:
        return False
    wait_until_not_racy(racy)
    for folder, (at, names) in folders.items():
        if signature(folder) != at or scan(folder)[0] != names:
            return False
    for path, (at, digest) in reader.racy.items():
        try:
            text = read_bytes(path, path)
        except (ConfigError, FileNotFoundError):
            return False
        if text.signature != at or digest_bytes(text.data) != digest:
            return False
    return True
