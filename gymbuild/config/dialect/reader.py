"""One or more config files → one resolved config: includes, merge, `env.yaml`, settings, directives, composition."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gymbuild.cache.witness import Signature, is_racy, signature
from gymbuild.config.dialect.composition import (
    compose_unbound_agent,
    composed_names,
    follow_moved_agents,
    remove_stand_ins,
)
from gymbuild.config.dialect.directives import apply_directives, leftovers
from gymbuild.config.dialect.instances import DUMMY_MODEL, MODELS
from gymbuild.config.dialect.interpolation import Interpolations, UnresolvableError, has_interpolation
from gymbuild.config.dialect.limits import Budget, nested
from gymbuild.config.dialect.merging import merge
from gymbuild.config.dialect.values import MISSING, check_values, kind_of
from gymbuild.config.dialect.yaml_files import parse, read_bytes
from gymbuild.system.errors import ConfigError
from gymbuild.system.paths import Checkout

INCLUDES = "config_paths"
ROOTS_VARIABLE = "NEMO_GYM_EXTRA_ROOTS"
_FILE = 20
"""Values that an included file counts for beside its own: finding it takes as long."""

_ENVIRONMENT_ALIASES = {
    "reasoning_gym_claude_code": "claude_code_reasoning_gym",
    "reasoning_gym_hermes": "hermes_reasoning_gym",
    "reasoning_gym_orchestrator": "langgraph_orchestrator_reasoning_gym",
    "reasoning_gym_parallel_thinking": "langgraph_parallel_thinking_reasoning_gym",
    "reasoning_gym_reflection": "langgraph_reflection_reasoning_gym",
    "reasoning_gym_rewoo": "langgraph_rewoo_reasoning_gym",
}
ALIASES = {
    **{
        f"environments/{old}/config.yaml": f"environments/{new}/config.yaml"
        for old, new in _ENVIRONMENT_ALIASES.items()
    },
    **{
        f"responses_api_agents/{folder}/configs/{old}.yaml": f"responses_api_agents/{folder}/configs/{new}.yaml"
        for folder, old, new in (
            ("stirrup_agent", "stirrup_gdpval", "stirrup_agent"),
            ("tau2", "tau2_agent", "tau2"),
            ("verifiers_agent", "acereason-math", "verifiers_agent"),
        )
    },
}
"""Config paths that NeMo Gym renamed: taken where the old one is not there and the new one is."""
_RUN_TIME_MODEL = ("policy_base_url", "policy_api_key", "policy_model_name")
_POLICY_MODEL = "policy_model"


@dataclass(slots=True)
class Trace:
    """What an answer depended on: files looked at (whether or not they were there) and variables read."""

    paths: dict[str, None] = field(default_factory=dict)
    """Absolute paths, in the order of looking."""
    variables: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """One config file that was read."""

    path: str
    """Absolute."""
    shown: str
    """Relative to the checkout when inside it, else absolute."""
    data: dict[Any, Any]
    values: int
    """How many values `data` counts for."""


@dataclass(frozen=True, slots=True)
class ResolvedConfig:
    """What config files come to."""

    config: dict[Any, Any]
    """Plain data, with `???` and interpolations as they are written."""
    files: tuple[str, ...]
    """Every file that was merged, as `ConfigFile.shown`, the first one asked for first."""
    file: str
    """The config that was asked for, for errors."""
    filled_in: tuple[str, ...]
    """Top-level keys that stand in for the model that is named at run time."""
    warnings: tuple[str, ...]
    budget: Budget
    """What it may still come to."""


class ConfigReader:
    """Finds and reads config files, each one once.

    Args:
        checkout: its root is searched last.
        search_dirs: roots that are searched first, relative to the checkout or absolute; those that
            `NEMO_GYM_EXTRA_ROOTS` names come after them.
    """

    def __init__(self, checkout: Checkout, search_dirs: Sequence[str] = ()) -> None:
        self.checkout = checkout
        self.roots = search_roots(checkout, search_dirs)
        self._files: dict[str, ConfigFile | ConfigError] = {}
        self._signatures: dict[str, Signature | None] = {}
        self._shown: dict[str, str] = {}
        self.racy: dict[str, tuple[Signature, str]] = {}
        """Files that were read so soon after a change that a second one could hide: signature and digest."""

    def signature(self, path: str) -> Signature | None:
        """The signature of a path, looked up once."""
        if path not in self._signatures:
            self._signatures[path] = signature(path)
        return self._signatures[path]

    def shown(self, path: str) -> str:
        """How a path is written: relative to the checkout when inside it."""
        found = self._shown.get(path)
        if found is None:
            found = self._shown[path] = self.checkout.relative(path)
        return found

    def find(self, entry: str, trace: Trace) -> str | None:
        """The absolute path of the first root's file of that name, or None."""
        if os.path.isabs(entry):
            candidates: Iterable[str] = (os.path.normpath(entry),)
        else:
            candidates = (os.path.normpath(os.path.join(root, entry)) for root in self.roots)
        for path in candidates:
            trace.paths[path] = None
            if self.signature(path) is not None:
                return path
        return None

    def load(self, path: str) -> ConfigFile:
        """A config file, which is read once.

        Raises:
            ConfigError: it cannot be read, or is not a mapping.
        """
        if path not in self._files:
            try:
                self._files[path] = self._load(path)
            except ConfigError as error:
                self._files[path] = error
        found = self._files[path]
        if isinstance(found, ConfigError):
            raise found
        return found

    def _load(self, path: str) -> ConfigFile:
        shown = self.shown(path)
        try:
            text = read_bytes(path, shown)
        except FileNotFoundError:
            raise ConfigError("there is no such file.", file=shown) from None
        self._signatures[path] = text.signature
        if is_racy(text.signature, text.read_at):
            from gymbuild.cache.digests import digest_bytes

            self.racy[path] = (text.signature, digest_bytes(text.data))
        budget = Budget(shown)
        data = parse(text.data, budget)
        if data is None:
            data = {}
        if not isinstance(data, dict):
            raise ConfigError(f"a config is a mapping at its top, found {kind_of(data)}.", file=shown)
        with nested(shown):
            check_values(data, shown)
        return ConfigFile(path, shown, data, budget.spent)

    def resolve(
        self,
        entries: Sequence[str],
        trace: Trace,
        *,
        benchmark: ConfigFile | None = None,
        overrides: Mapping[str, Any] | None = None,
    ) -> ResolvedConfig:
        """Merge configs with all that they include, and carry out their directives.

        Args:
            entries: config paths, relative to a root or absolute; a later one overrides an earlier.
            trace: takes down what was looked for.
            benchmark: in place of entries, a config that was read already.
            overrides: settings that override everything.

        Raises:
            ConfigError: anything in them that cannot be used.
        """
        asked = benchmark.shown if benchmark is not None else (entries[0] if entries else INCLUDES)
        with nested(asked):
            budget = Budget(asked)
            if benchmark is not None:
                entries = includes_of(benchmark, trace, budget)
            files = self._in_merge_order(list(entries), trace, budget)
            if benchmark is not None:
                budget.spend(benchmark.values)
                files.append(benchmark)
            merged, from_command_line = self._merged(files, trace, budget, overrides or {})
            filled_in = [] if _POLICY_MODEL in merged else [_POLICY_MODEL]
            if benchmark is None or _POLICY_MODEL not in benchmark.data:
                stand_in = {MODELS: {DUMMY_MODEL: {"entrypoint": "app.py"}}}
                merged = merge(merged, {_POLICY_MODEL: stand_in}, budget)
            for key in _RUN_TIME_MODEL:
                if key not in merged:
                    merged[key] = MISSING
                    filled_in.append(key)

            config = apply_directives(merged, budget)
            follow_moved_agents(merged, config, file=asked)
            compose_unbound_agent(config, budget, overrides=from_command_line)
            remove_stand_ins(config, budget)
            warnings = tuple(
                f"{asked}: {key}: a directive is left over: what it stands in was itself inherited or copied from, "
                "and a chain is not followed twice."
                for key in leftovers(config)
            )
        names = [file.shown for file in files]
        order = [name for name in dict.fromkeys([asked, *names]) if name in names]
        return ResolvedConfig(config, tuple(order), asked, tuple(filled_in), warnings, budget)

    def _merged(
        self, files: list[ConfigFile], trace: Trace, budget: Budget, overrides: Mapping[str, Any]
    ) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """Files, `env.yaml` and settings, merged; and the settings for what only composition makes."""
        merged: dict[Any, Any] = {}
        for position, file in enumerate(files):
            merged = merge(merged, file.data, budget, file=file.shown) if position else dict(file.data)
        path = self.find("env.yaml", trace)
        if path is not None:
            settings = self.load(path)
            budget.spend(settings.values)
            data = {key: value for key, value in settings.data.items() if key != INCLUDES}
            merged = merge(merged, data, budget, file=settings.shown)
        composed = composed_names(merged) if overrides else set()
        later = {name: value for name, value in overrides.items() if name in composed}
        now = {name: value for name, value in overrides.items() if name not in composed}
        merged = merge(merged, now, budget, file="the command line")
        merged.pop(INCLUDES, None)
        return merged, later

    def _in_merge_order(self, entries: list[str], trace: Trace, budget: Budget) -> list[ConfigFile]:
        """The files of a list of entries and of all that they include, each after what it includes.

        An entry counts once, by its text, where a breadth-first reading meets it first.
        """
        roots = len(entries)
        includes: list[list[int]] = [[] for _ in entries]
        listed = set(entries)
        files: list[ConfigFile] = []
        origin = [budget.file or INCLUDES] * roots
        for position, entry in enumerate(entries):  # which grows meanwhile
            file, name = self._included(entry, trace, origin[position])
            budget.spend(_FILE + file.values, key=INCLUDES)
            if name is not None:
                entries[position] = name
                listed = set(entries)
            files.append(file)
            for inner in includes_of(file, trace, budget):
                if inner not in listed:
                    listed.add(inner)
                    includes[position].append(len(entries))
                    entries.append(inner)
                    includes.append([])
                    origin.append(file.shown)
        order: list[ConfigFile] = []
        pending = [(root, False) for root in reversed(range(roots))]
        while pending:
            index, done = pending.pop()
            if done:
                order.append(files[index])
            else:
                pending.append((index, True))
                pending.extend((inner, False) for inner in reversed(includes[index]))
        return order

    def _included(self, entry: str, trace: Trace, origin: str) -> tuple[ConfigFile, str | None]:
        """The file of an entry, and the entry's new name where it has an old one."""
        if not entry or "\0" in entry or any(ord(char) < 32 for char in entry):
            raise ConfigError(
                f"found {kind_of(entry)}; an entry is the path of a file.", file=origin, key=INCLUDES
            )
        renamed = None
        path = self.find(entry, trace)
        if path is None:
            alias = (
                None if os.path.isabs(entry) else ALIASES.get(os.path.normpath(entry).replace(os.sep, "/"))
            )
            if alias is not None:
                path = self.find(alias, trace)
                renamed = alias if path is not None else None
        if path is None:
            places = (
                [os.path.normpath(entry)]
                if os.path.isabs(entry)
                else [os.path.normpath(os.path.join(root, entry)) for root in self.roots]
            )
            raise ConfigError(
                f"there is no config {entry!r}; looked for {', '.join(places)}. Correct the path: it is relative to "
                f"the checkout, or to a root that search_dirs or {ROOTS_VARIABLE} names.",
                file=origin,
                key=INCLUDES,
            )
        try:
            return self.load(path), renamed
        except ConfigError as error:
            if error.file == self.shown(path) and origin != error.file:
                raise ConfigError(
                    f"{error.message} ({origin} includes it.)",
                    file=error.file,
                    line=error.line,
                    key=error.key,
                ) from None
            raise


def includes_of(file: ConfigFile, trace: Trace, budget: Budget) -> list[str]:
    """The entries of the `config_paths` that a file itself has.

    Raises:
        ConfigError: it is not a list of paths.
    """
    entries = file.data.get(INCLUDES)
    if isinstance(entries, str) and "${" in entries:
        entries = Interpolations(file.data).follow(entries) or entries
    if entries is None or entries == MISSING or entries == []:
        return []
    if not isinstance(entries, list):
        raise ConfigError(
            f"it must be a list of config paths, found {kind_of(entries)}.", file=file.shown, key=INCLUDES
        )
    if has_interpolation(entries):
        interpolations = Interpolations(file.data, budget)
        try:
            entries = interpolations.resolve([INCLUDES])
        except UnresolvableError as error:
            raise ConfigError(f"it cannot be resolved: {error}.", file=file.shown, key=INCLUDES) from None
        finally:
            trace.variables |= interpolations.variables
    for entry in entries:
        if not isinstance(entry, str):
            raise ConfigError(
                f"it must be a list of config paths, found {kind_of(entry)} in it.",
                file=file.shown,
                key=INCLUDES,
            )
    return list(entries)


def search_roots(checkout: Checkout, search_dirs: Sequence[str] = ()) -> tuple[str, ...]:
    """The roots that configs are looked for in, absolute, the checkout last, each once."""
    extra = [root for root in os.environ.get(ROOTS_VARIABLE, "").split(os.pathsep) if root]
    roots = [checkout.absolute(root) for root in (*search_dirs, *extra)]
    found: dict[str, str] = {}
    for root in (*roots, checkout.root):
        found.setdefault(os.path.realpath(root), root)
    # the checkout keeps its own spelling, and its place at the end
    found.pop(checkout.root, None)
    return (*found.values(), checkout.root)
