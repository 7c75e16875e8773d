"""Datasets that a resolved config declares → validated `Dataset` values, with agents and checked paths."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gymbuild.config.agents import NoAgentError, agent_of, first_server
from gymbuild.config.datasets import Dataset
from gymbuild.config.dialect import servers
from gymbuild.config.dialect.interpolation import Interpolations, UnresolvableError
from gymbuild.config.dialect.merging import MISSING
from gymbuild.config.dialect.yaml_files import kind_of
from gymbuild.config.models import FIELDS, BenchmarkDataset, OtherDataset, json_fault, validate_dataset
from gymbuild.config.settings import merge_arguments
from gymbuild.system.errors import ConfigError
from gymbuild.system.paths import Checkout

ARGUMENTS = "prepare_script_args"


@dataclass(frozen=True, slots=True)
class Declared:
    """One entry of a server's `datasets`."""

    instance: str
    path: tuple[Any, ...]
    """Where it is in the config."""
    type: Any
    """Its `type`, interpolations resolved where they can be."""
    prepared: bool
    """Whether it is a benchmark or has a prepare script."""


class PathRules:
    """Which paths a dataset may name.

    Args:
        checkout: what paths are relative to.
        roots: where prepare scripts and prompts are looked for, first one first; the checkout is among them.
        allow_outside: whether paths may be absolute or lead outside the checkout.
    """

    def __init__(self, checkout: Checkout, roots: Sequence[str] = (), *, allow_outside: bool = False) -> None:
        self.checkout = checkout
        self.roots = tuple(roots) or (checkout.root,)
        self.allow_outside = allow_outside
        self.looked_at: dict[str, None] = {}
        """Absolute paths that decided: those whose presence in a root told which root's file is meant, and those
        that led outside."""
        self._contained: dict[str, bool] = {}

    def output(self, path: str, key: str, file: str) -> str:
        """A path that is written: always relative to the checkout."""
        self._check(path, key, file, self.checkout.root)
        return self.checkout.relative(path)

    def script(self, path: str, key: str, file: str) -> str:
        """A path that is read: of the first root that has it, else of the checkout."""
        root = self._root_of(path)
        self._check(path, key, file, root)
        return self.checkout.relative(os.path.join(root, path))

    def script_root(self, path: str) -> str:
        """The root that a script is of: where it was found; the folder of one that is outside of every root."""
        root = self._root_of(path)
        absolute = os.path.normpath(os.path.join(root, path))
        if not absolute.startswith(root.rstrip(os.sep) + os.sep):
            root = os.path.dirname(absolute)
        return self.checkout.relative(root)

    def _root_of(self, path: str) -> str:
        root = self.checkout.root
        if len(self.roots) > 1 and not os.path.isabs(path):
            for candidate in self.roots:
                absolute = os.path.normpath(os.path.join(candidate, path))
                self.looked_at[absolute] = None
                if os.path.exists(absolute):
                    return candidate
        return root

    def glob(self, path: str, key: str, file: str) -> str:
        """A glob relative to the checkout."""
        if not self.allow_outside and (os.path.isabs(path) or ".." in path.replace("\\", "/").split("/")):
            raise self._refused(path, key, file, "is not a glob inside the checkout")
        return path

    def _check(self, path: str, key: str, file: str, root: str) -> None:
        if "\0" in path or any(ord(char) < 32 for char in path):
            raise ConfigError(f"{kind_of(path)} holds a control character.", file=file, key=key)
        if self.allow_outside:
            return
        if os.path.isabs(path):
            raise self._refused(path, key, file, "is absolute")
        absolute = os.path.normpath(os.path.join(root, path))
        if not absolute.startswith(root.rstrip(os.sep) + os.sep):
            raise self._refused(path, key, file, "is outside the checkout")
        if not self._leads_inside(absolute, root):
            # once that is mended, the config is looked at again though its text is the same
            self.looked_at[os.path.dirname(absolute)] = None
            if os.path.islink(absolute):
                self.looked_at[absolute] = None
            raise self._refused(path, key, file, "leads outside the checkout through a symbolic link")

    def _leads_inside(self, absolute: str, root: str) -> bool:
        if os.path.islink(absolute):
            real = os.path.realpath(absolute)
            return real.startswith(os.path.realpath(root).rstrip(os.sep) + os.sep)
        folder = os.path.dirname(absolute)
        known = self._contained.get(folder)
        if known is None:
            real, top = os.path.realpath(folder), os.path.realpath(root)
            known = self._contained[folder] = real == top or real.startswith(top.rstrip(os.sep) + os.sep)
        return known

    def _refused(self, path: str, key: str, file: str, why: str) -> ConfigError:
        return ConfigError(
            f"{path!r} {why}. Use a path relative to the checkout and inside it, or allow_outside=true.",
            file=file,
            key=key,
        )


def declared_datasets(
    config: Mapping[Any, Any], interpolations: Interpolations, file: str
) -> Iterator[Declared]:
    """Every dataset entry of every agent and resources server, in the config's order.

    Raises:
        ConfigError: an instance whose shape hides its datasets.
    """
    for name, block in config.items():
        if not servers.has(block, servers.AGENTS) and not servers.has(block, servers.RESOURCES):
            continue
        inner = first_server(config, name, interpolations)
        if inner is None:
            raise ConfigError(
                "it holds no server: an instance is a mapping of one group to a mapping of one server.",
                file=file,
                key=str(name),
            )
        group = next(iter(block))
        found = servers.value(inner, "datasets")
        held = block[group]
        if isinstance(held, str):
            held = interpolations.follow(held)
        path = (name, group, next(iter(held)), "datasets")
        if isinstance(found, str) and "${" in found:
            found = interpolations.follow(found)
        if not found:
            continue
        if not isinstance(found, list):
            raise ConfigError(
                f"datasets must be a list, found {kind_of(found)}.", file=file, key=dotted(path)
            )
        for position, entry in enumerate(found):
            here = (*path, position)
            if isinstance(entry, str) and "${" in entry:
                entry = interpolations.follow(entry)
            if not isinstance(entry, dict):
                raise ConfigError(
                    f"a dataset is a mapping, found {kind_of(entry)}.", file=file, key=dotted(here)
                )
            kind = entry.get("type")
            if isinstance(kind, str) and "${" in kind:
                try:
                    kind = interpolations.resolve((*here, "type"))
                except (UnresolvableError, LookupError):
                    kind = None
            yield Declared(str(name), here, kind, kind == "benchmark" or bool(entry.get("prepare_script")))


class Resolver:
    """Turns declared entries of one config into datasets.

    Args:
        config: the resolved config.
        file: the config that was asked for.
        rules: which paths a dataset may name.
        with_relays: the config with the environment servers that agents without one are given.
    """

    def __init__(
        self,
        config: dict[Any, Any],
        file: str,
        rules: PathRules,
        *,
        with_relays: Mapping[Any, Any] | None = None,
        interpolations: Interpolations | None = None,
    ) -> None:
        self._config = config
        self._routing = config if with_relays is None else with_relays
        self._file = file
        self._rules = rules
        self._interpolations = interpolations or Interpolations(config)
        self._arguments: tuple[dict[str, Any], set[str]] | None = None

    def dataset(self, declared: Declared) -> Dataset:
        """The dataset of an entry.

        Raises:
            ConfigError: a field that does not fit, a path that is refused, or no agent that runs it.
        """
        key, file = dotted(declared.path), self._file
        plain, variables = self._fields(declared, key)
        model = validate_dataset(plain, key, file)
        arguments: dict[str, Any] = {}
        if model.prepare_script is not None:
            top, read = self._top_arguments()
            arguments = merge_arguments(dict(top), model.prepare_script_args or {})
            variables |= read
        agent = self._agent(declared, model, key)
        rules = self._rules
        return Dataset(
            name=model.name,
            type=model.type,
            jsonl_fpath=rules.output(model.jsonl_fpath, f"{key}.jsonl_fpath", file),
            prepare_script=None
            if model.prepare_script is None
            else rules.script(model.prepare_script, f"{key}.prepare_script", file),
            script_root="." if model.prepare_script is None else rules.script_root(model.prepare_script),
            config_path=file,
            args=arguments,
            prepare_dependencies=tuple(model.prepare_dependencies),
            prepare_env=tuple(model.prepare_env or ()),
            prepare_inputs=tuple(
                rules.glob(glob, f"{key}.prepare_inputs", file) for glob in model.prepare_inputs or ()
            ),
            prepare_outputs=tuple(
                rules.glob(glob, f"{key}.prepare_outputs", file) for glob in model.prepare_outputs or ()
            ),
            prepare_timeout=model.prepare_timeout,
            prompt_config=None
            if not model.prompt_config
            else rules.script(model.prompt_config, f"{key}.prompt_config", file),
            num_repeats=model.num_repeats,
            taskset=model.taskset,
            agent=agent,
            license=_license(model, plain),
            variables=tuple(sorted(variables)),
        )

    def _fields(self, declared: Declared, key: str) -> tuple[dict[str, Any], set[str]]:
        """The fields that are used, interpolations resolved, and the variables that they read."""
        entry = self._interpolations.walk(declared.path)
        if isinstance(entry, str):
            entry = self._interpolations.follow(entry)
        plain: dict[str, Any] = {}
        before = set(self._interpolations.variables)
        self._interpolations.variables.clear()
        for name in entry:
            if name not in FIELDS:
                continue
            try:
                plain[name] = self._interpolations.resolve((*declared.path, name))
            except UnresolvableError as error:
                raise ConfigError(
                    f"found {kind_of(entry[name])}, which cannot be resolved: {error}. A dataset's own fields must "
                    "have values.",
                    file=self._file,
                    key=f"{key}.{name}",
                ) from None
        variables = set(self._interpolations.variables)
        self._interpolations.variables |= before
        return plain, variables

    def _top_arguments(self) -> tuple[dict[str, Any], set[str]]:
        """The config's top-level arguments; those that are `???` are left for the command line to give."""
        if self._arguments is None:
            file = self._file
            found = self._config.get(ARGUMENTS)
            before = set(self._interpolations.variables)
            self._interpolations.variables.clear()
            if isinstance(found, str) and found == MISSING:
                found = None
            if found is not None:
                try:
                    found = self._interpolations.resolve((ARGUMENTS,))
                except UnresolvableError as error:
                    raise ConfigError(f"it cannot be resolved: {error}.", file=file, key=ARGUMENTS) from None
            if found is not None and not isinstance(found, dict):
                raise ConfigError(
                    f"it must be a mapping of arguments, found {kind_of(found)}.", file=file, key=ARGUMENTS
                )
            given = {name: value for name, value in (found or {}).items() if value != MISSING}
            fault = json_fault(given)
            if fault:
                raise ConfigError(f"{fault}.", file=file, key=ARGUMENTS)
            self._arguments = (given, set(self._interpolations.variables))
            self._interpolations.variables |= before
        return self._arguments

    def _agent(self, declared: Declared, model: BenchmarkDataset | OtherDataset, key: str) -> str | None:
        # only a benchmark's `agent` counts, and only what is prepared must have an agent: as NeMo Gym has it
        pin = model.agent if isinstance(model, BenchmarkDataset) else None
        try:
            return agent_of(
                self._routing,
                declared.instance,
                pin=pin,
                taskset=model.taskset,
                interpolations=self._interpolations,
            )
        except NoAgentError as error:
            if model.prepare_script is None:
                return None
            field = "taskset" if model.taskset is not None else "agent"
            raise ConfigError(
                f"dataset {model.name!r}: {error}", file=self._file, key=f"{key}.{field}"
            ) from None


def check_and_route(config: dict[Any, Any], *, file: str) -> dict[Any, Any]:
    """Refuse servers that cannot be used; the config with the environment servers that are made for agents.

    Raises:
        ConfigError: see `servers.check_servers`, `servers.relays` and `servers.check_model_pairings`.
    """
    made = servers.relays(config, file=file)
    routing = {**config, **made}
    servers.check_servers(routing, file=file)
    servers.check_model_pairings(routing, file=file)
    return routing


def metadata(
    config: Mapping[Any, Any], interpolations: Interpolations | None = None
) -> tuple[str | None, str | None]:
    """(domain, description): the first of each over all server groups of all instances, in the config's order."""
    domain: str | None = None
    description: str | None = None
    for block in config.values():
        if not isinstance(block, dict):
            continue
        for group in (servers.RESOURCES, servers.AGENTS, servers.MODELS, servers.ENVIRONMENTS):
            found = block.get(group)
            if not isinstance(found, dict):
                continue
            for inner in found.values():
                if not isinstance(inner, dict):
                    continue
                if domain is None and inner.get("domain"):
                    domain = _text(inner["domain"], interpolations)
                if description is None and inner.get("description"):
                    description = _text(inner["description"], interpolations)
    return domain, description


def _text(value: Any, interpolations: Interpolations | None) -> str | None:
    if isinstance(value, str) and "${" in value and interpolations is not None:
        found = interpolations.plain(value)
        if isinstance(found, str | int | float):
            return str(found)
    return None if value == MISSING else str(value)


def _license(model: BenchmarkDataset | OtherDataset, plain: Mapping[str, Any]) -> str | None:
    found = plain.get("license") if isinstance(model, BenchmarkDataset) else model.license
    return found if isinstance(found, str) else None


def dotted(path: Sequence[Any]) -> str:
    """A path in a config as `a.b[0].c`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) and not isinstance(part, bool) else f".{part}"
    return text.lstrip(".")
