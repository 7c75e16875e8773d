"""One or more config files → one resolved config: includes, merge, `env.yaml`, settings, directives, composition."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gymbuild.cache.witness import Signature, is_racy, signature
from gymbuild.config.dialect import servers
from gymbuild.config.dialect.directives import apply_directives, leftovers
from gymbuild.config.dialect.interpolation import Interpolations, UnresolvableError, has_interpolation
from gymbuild.config.dialect.merging import MISSING, MOST_VALUES, merge
from gymbuild.config.dialect.yaml_files import check_values, count_values, kind_of, parse, read_bytes
from gymbuild.system.errors import ConfigError
from gymbuild.system.paths import Checkout

INCLUDES = "config_paths"
ROOTS_VARIABLE = "NEMO_GYM_EXTRA_ROOTS"
MOST_FILES = 2_000
"""Files that one config may include."""

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


@dataclass(frozen=True, slots=True)
class ResolvedConfig:
    """What config files come to."""

    config: dict[Any, Any]
    """Plain data, `???` and interpolations kept."""
    files: tuple[str, ...]
    """Every file that was merged, as `ConfigFile.shown`, the first one asked for first."""
    file: str
    """The config that was asked for, for errors."""
    filled_in: tuple[str, ...]
    """Top-level keys that stand in for the model that is named at run time."""
    warnings: tuple[str, ...]


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
        self._parsed: dict[str, dict[Any, Any] | ConfigError] = {}
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

    def load(self, path: str) -> dict[Any, Any]:
        """The mapping that a config file holds.

        Raises:
            ConfigError: it cannot be read, or is not a mapping.
        """
        known = self._parsed.get(path)
        if known is None:
            try:
                known = self._load(path)
            except ConfigError as error:
                known = error
            self._parsed[path] = known
        if isinstance(known, ConfigError):
            raise known
        return known

    def _load(self, path: str) -> dict[Any, Any]:
        shown = self.shown(path)
        try:
            text = read_bytes(path, shown)
        except FileNotFoundError:
            raise ConfigError("there is no such file.", file=shown) from None
        self._signatures[path] = text.signature
        if is_racy(text.signature, text.read_at):
            from gymbuild.cache.digests import digest_bytes

            self.racy[path] = (text.signature, digest_bytes(text.data))
        data = parse(text.data, shown)
        if data is None:
            return {}
        if not isinstance(data, dict):
            raise ConfigError(f"a config is a mapping at its top, found {kind_of(data)}.", file=shown)
        check_values(data, shown)
        return data

    def resolve(
        self,
        entries: Sequence[str],
        trace: Trace,
        *,
        own: ConfigFile | None = None,
        overrides: Mapping[str, Any] | None = None,
    ) -> ResolvedConfig:
        """Merge configs with all that they include, and carry out their directives.

        Args:
            entries: config paths, relative to a root or absolute; a later one overrides an earlier.
            trace: takes down what was looked at.
            own: a config that was read already and overrides the entries, which are its includes.
            overrides: settings that override everything.

        Raises:
            ConfigError: anything in them that cannot be used.
        """
        asked = own.shown if own is not None else (entries[0] if entries else "config_paths")
        files = self._in_merge_order(list(entries), trace, asked)
        if own is not None:
            files.append(own)
        merged: dict[Any, Any] = {}
        for position, file in enumerate(files):
            over = file.data
            merged = (
                merge(merged, over, file=file.shown, dereference=_dereference) if position else dict(over)
            )
        names = [file.shown for file in files]
        settings = self.find("env.yaml", trace)
        if settings is not None:
            data = {key: value for key, value in self.load(settings).items() if key != INCLUDES}
            merged = merge(merged, data, file=self.shown(settings), dereference=_dereference)
        held: dict[Any, Any] = {}
        if overrides:
            composed = servers.composed_names(merged)
            held = {name: value for name, value in overrides.items() if name in composed}
            rest = {name: value for name, value in overrides.items() if name not in composed}
            merged = merge(merged, rest, file="the command line", dereference=_dereference)
        merged.pop(INCLUDES, None)
        filled_in = []
        if _POLICY_MODEL not in merged:
            filled_in.append(_POLICY_MODEL)
        if own is None or _POLICY_MODEL not in own.data:
            stand_in = {servers.MODELS: {servers.DUMMY_MODEL: {"entrypoint": "app.py"}}}
            merged = merge(merged, {_POLICY_MODEL: stand_in}, file=asked, dereference=_dereference)
        for key in _RUN_TIME_MODEL:
            if key not in merged:
                merged[key] = MISSING
                filled_in.append(key)

        config = apply_directives(merged, file=asked)
        servers.follow_moved_agents(merged, config, file=asked)
        servers.compose_unbound_agent(config, file=asked, held=held)
        servers.drop_stand_ins(config, file=asked)
        warnings = tuple(
            f"{asked}: {key}: a directive is left over: what it stands in was itself inherited or copied from, and "
            "a chain is not followed twice."
            for key in leftovers(config)
        )
        order = [asked, *names] if own is None else [own.shown, *names]
        return ResolvedConfig(
            config,
            tuple(dict.fromkeys(name for name in order if name in set(names))),
            asked,
            tuple(filled_in),
            warnings,
        )

    def _in_merge_order(self, entries: list[str], trace: Trace, asked: str) -> list[ConfigFile]:
        """The files of a list of entries and of all that they include, each after what it includes.

        An entry counts once, by its text, where a breadth-first reading meets it first.
        """
        roots = len(entries)
        includes: list[list[int]] = [[] for _ in entries]
        known = set(entries)
        files: list[ConfigFile] = []
        origin = [asked] * roots
        position = values = 0
        while position < len(entries):
            entry = entries[position]
            file = self._included(entry, trace, origin[position])
            values += count_values(file[0].data, MOST_VALUES)
            if values > MOST_VALUES:
                raise ConfigError(
                    f"with all that it includes it holds more than {MOST_VALUES:,} values.",
                    file=asked,
                    key=INCLUDES,
                )
            if file[1] is not None:
                entries[position] = file[1]
                known = set(entries)
            files.append(file[0])
            for inner in self._includes_of(file[0], trace):
                if inner not in known:
                    if len(entries) >= MOST_FILES:
                        raise ConfigError(
                            f"it includes more than {MOST_FILES:,} files.", file=asked, key=INCLUDES
                        )
                    known.add(inner)
                    includes[position].append(len(entries))
                    entries.append(inner)
                    includes.append([])
                    origin.append(file[0].shown)
            position += 1
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
            return ConfigFile(path, self.shown(path), self.load(path)), renamed
        except ConfigError as error:
            if error.file == self.shown(path) and origin != error.file:
                raise ConfigError(
                    f"{error.message} ({origin} includes it.)",
                    file=error.file,
                    line=error.line,
                    key=error.key,
                ) from None
            raise

    def _includes_of(self, file: ConfigFile, trace: Trace) -> list[str]:
        return includes_of(file, trace)


def includes_of(file: ConfigFile, trace: Trace) -> list[str]:
    """The entries of a config's own `config_paths`.

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
        interpolations = Interpolations(file.data)
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


def _dereference(tree: dict[Any, Any], text: str) -> Any:
    return Interpolations(tree).follow(text)
