"""The catalog in the database, so that a tree that did not change costs stats in place of parses.

The benchmarks have a record each, and nothing else keeps them; `catalog` is what every start reads beside them, and
`discovery` what each benchmark depended on, which only a start that finds a change reads.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gymbuild.cache.database import database
from gymbuild.cache.digests import digest_json
from gymbuild.cache.witness import Signature, Witness, holds, is_racy, wait_until_not_racy
from gymbuild.config.datasets import Benchmark
from gymbuild.system.errors import ConfigError
from gymbuild.system.paths import Checkout

if TYPE_CHECKING:
    from gymbuild.config.dialect.reader import ConfigReader
    from gymbuild.config.discovery import Discovery

FORMAT = 3
"""Raised when what is written changes its shape."""
_MOST_SETTINGS = 4
"""Settings beside the present ones that a catalog is kept for."""
_LONGEST_WAIT_NS = 100_000_000
"""How long a save may wait for files that were changed just now, in nanoseconds; else it is left to a later start."""
_ALWAYS_READ = ("NEMO_GYM_ALLOW_UNSUPPORTED_PAIRING", "NEMO_GYM_EXTRA_ROOTS")


class CatalogRecords:
    """The records of one checkout's catalog, made with certain settings by certain code.

    Args:
        checkout: whose database is asked.
        search_dirs: as for `load_catalog`.
        overrides: as for `load_catalog`.
        allow_outside: as for `load_catalog`.
    """

    def __init__(
        self,
        checkout: Checkout,
        search_dirs: Sequence[str] = (),
        overrides: Mapping[str, Any] | None = None,
        allow_outside: bool = False,
    ) -> None:
        self._checkout = checkout
        self._database = database(checkout.cache)
        roots = [os.environ.get(name) for name in _ALWAYS_READ]
        self._key = digest_json(
            [
                FORMAT,
                sys.hexversion,
                _code(),
                list(search_dirs),
                _sorted(overrides or {}),
                allow_outside,
                roots,
            ]
        )

    @property
    def benchmark_kind(self) -> str:
        """The kind of the benchmarks' records."""
        return f"benchmark {self._key}"

    def read(self) -> dict[str, Any] | None:
        """What the catalog was, when nothing that it depended on has changed.

        Returns:
            `benchmarks` and `problems` by name, `warnings` and `witness`; or None.
        """
        record = self._database.get("catalog", self._key)
        if record is None:
            return None
        paths, variables = record["witness"]
        witness: Witness = (tuple((path, _signature(at)) for path, at in paths), _pairs(variables))
        # what the key holds is not compared again: it would cost an import
        outside_key = tuple(item for item in witness[1] if item[0] not in _ALWAYS_READ)
        if not holds((witness[0], outside_key), self._checkout.root):
            return None
        benchmarks = self._benchmarks()
        if set(benchmarks) != set(record["names"]):
            return None
        return {
            "benchmarks": {name: benchmarks[name] for name in record["names"]},
            "problems": {name: _problem(plain) for name, plain in record["problems"].items()},
            "warnings": tuple(record["warnings"]),
            "witness": witness,
        }

    def previous(self) -> Discovery | None:
        """What was found before, and what each part of it depended on."""
        from gymbuild.config.discovery import Discovery, Outcome

        record = self._database.get("discovery", self._key)
        if record is None:
            return None
        benchmarks = self._benchmarks()
        table = [(path, _signature(at)) for path, at in record["paths"]]
        outcomes = {}
        for name, (root, path, problem, warnings, paths, variables) in record["outcomes"].items():
            if problem is None and name not in benchmarks:
                continue
            outcomes[name] = Outcome(
                root,
                path,
                benchmarks[name] if problem is None else None,
                None if problem is None else _problem(problem),
                tuple(warnings),
                tuple(table[number] for number in paths),
                _pairs(variables),
            )
        candidates = {
            path: (found, declares)
            for path, (at, declares) in record["candidates"].items()
            if (found := _signature(at)) is not None
        }
        return Discovery(outcomes=outcomes, candidates=candidates)

    def save(
        self, reader: ConfigReader, found: Discovery, problems: Mapping[str, ConfigError], witness: Witness
    ) -> bool:
        """Keep a discovery, unless something that was just changed might change again without a trace.

        Args:
            reader: what read the files.
            found: what was found.
            problems: the candidates that cannot be resolved.
            witness: everything that the discovery depended on.

        Returns:
            whether it was written. What one user may not read is not written down for others.
        """
        from gymbuild.system.errors import ConfigDeniedError

        if any(isinstance(problem, ConfigDeniedError) for problem in problems.values()):
            return False
        args = [outcome.benchmark.dataset.args for outcome in found.outcomes.values() if outcome.benchmark]
        if not all(map(_has_text_keys, args)) or not _settled(reader, found):
            return False
        numbers: dict[Any, int] = {}
        outcomes = {
            name: (
                outcome.root,
                outcome.path,
                None if outcome.problem is None else _plain_problem(outcome.problem),
                outcome.warnings,
                [numbers.setdefault(item, len(numbers)) for item in outcome.paths],
                outcome.variables,
            )
            for name, outcome in sorted(found.outcomes.items())
        }
        benchmarks = {
            name: outcome.benchmark
            for name, outcome in sorted(found.outcomes.items())
            if outcome.benchmark is not None
        }
        catalog = {
            "names": list(benchmarks),
            "problems": {name: _plain_problem(problem) for name, problem in sorted(problems.items())},
            "warnings": [text for _, outcome in sorted(found.outcomes.items()) for text in outcome.warnings],
            "witness": witness,
        }
        discovery = {"paths": list(numbers), "outcomes": outcomes, "candidates": found.candidates}
        try:
            self._drop_others()
            self._database.put([("catalog", self._key, None)])
            plain = {name: benchmark.to_plain() for name, benchmark in benchmarks.items()}
            self._database.replace_all(self.benchmark_kind, plain)
            self._database.put([("discovery", self._key, discovery), ("catalog", self._key, catalog)])
        except (OSError, ValueError, TypeError):
            # a `.cache/` that cannot be written to, or a value that JSON has no form for: slower, not wrong
            return False
        return True

    def _benchmarks(self) -> dict[str, Benchmark]:
        return {
            name: Benchmark.from_plain(plain)
            for name, plain in self._database.all(self.benchmark_kind).items()
        }

    def _drop_others(self) -> None:
        """Remove the records of settings and code that were used longest ago."""
        keys = self._database.get("catalog keys", "") or []
        if keys[:1] == [self._key]:
            return
        keys = [self._key, *(key for key in keys if key != self._key)]
        for key in keys[_MOST_SETTINGS + 1 :]:
            self._database.put([("catalog", key, None), ("discovery", key, None)])
            self._database.replace_all(f"benchmark {key}", {})
        self._database.put([("catalog keys", "", keys[: _MOST_SETTINGS + 1])])


def _problem(plain: Any) -> ConfigError:
    message, file, line, key = plain
    return ConfigError(message, file=file, line=line, key=key)


def _plain_problem(error: ConfigError) -> tuple[Any, ...]:
    return (error.message, error.file, error.line, error.key)


def _signature(plain: Any) -> Signature | None:
    return None if plain is None else tuple(plain)


def _pairs(plain: Any) -> tuple[Any, ...]:
    return tuple(tuple(item) for item in plain)


def _has_text_keys(value: Any) -> bool:
    """Whether JSON gives a value back as it was: it turns every key into text."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and _has_text_keys(item) for key, item in value.items())
    return not isinstance(value, list | tuple) or all(map(_has_text_keys, value))


def _sorted(value: Any) -> Any:
    if hasattr(value, "items"):
        return sorted((str(key), _sorted(item)) for key, item in value.items())
    return value if value is None or isinstance(value, str | int | float | bool) else repr(value)


def _code() -> list[Any]:
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
    return found


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
