"""Datasets that a resolved config declares → validated `Dataset` values, with agents and checked paths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from gymbuild.config.agents import NoAgentError, agent_of, first_server
from gymbuild.config.datasets import Dataset
from gymbuild.config.dialect.instances import AGENTS, ENVIRONMENTS, MODELS, RESOURCES
from gymbuild.config.dialect.interpolation import Interpolations, UnresolvableError
from gymbuild.config.dialect.values import MISSING, dotted, has, kind_of, value
from gymbuild.config.models import FIELDS, BenchmarkDataset, OtherDataset, json_fault, validate_dataset
from gymbuild.config.path_rules import PathRules
from gymbuild.config.settings import merge_arguments
from gymbuild.system.errors import ConfigError

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


def declared_datasets(
    config: Mapping[Any, Any], interpolations: Interpolations, file: str
) -> Iterator[Declared]:
    """Every dataset entry of every agent and resources server, in the config's order.

    Raises:
        ConfigError: an instance whose shape hides its datasets.
    """
    for name, block in config.items():
        if not has(block, AGENTS) and not has(block, RESOURCES):
            continue
        inner = first_server(config, name, interpolations)
        if inner is None:
            raise ConfigError(
                "it holds no server: an instance is a mapping of one group to a mapping of one server.",
                file=file,
                key=str(name),
            )
        group = next(iter(block))
        found = value(inner, "datasets")
        members = block[group]
        if isinstance(members, str):
            members = interpolations.follow(members)
        path = (name, group, next(iter(members)), "datasets")
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
        with self._variables_read() as variables:
            for name in entry:
                if name not in FIELDS:
                    continue
                try:
                    plain[name] = self._interpolations.resolve((*declared.path, name))
                except UnresolvableError as error:
                    raise ConfigError(
                        f"found {kind_of(entry[name])}, which cannot be resolved: {error}. A dataset's own fields "
                        "must have values.",
                        file=self._file,
                        key=f"{key}.{name}",
                    ) from None
        return plain, variables

    @contextmanager
    def _variables_read(self) -> Iterator[set[str]]:
        """Takes down the variables that interpolations read meanwhile."""
        earlier, variables = self._interpolations.variables, set[str]()
        self._interpolations.variables = variables
        try:
            yield variables
        finally:
            earlier |= variables
            self._interpolations.variables = earlier

    def _top_arguments(self) -> tuple[dict[str, Any], set[str]]:
        """The config's top-level arguments; those that are `???` are left for the command line to give."""
        if self._arguments is None:
            file = self._file
            found = value(self._config, ARGUMENTS)
            with self._variables_read() as variables:
                try:
                    found = None if found is None else self._interpolations.resolve((ARGUMENTS,))
                except UnresolvableError as error:
                    raise ConfigError(f"it cannot be resolved: {error}.", file=file, key=ARGUMENTS) from None
            if found is not None and not isinstance(found, dict):
                raise ConfigError(
                    f"it must be a mapping of arguments, found {kind_of(found)}.", file=file, key=ARGUMENTS
                )
            given = {name: item for name, item in (found or {}).items() if item != MISSING}
            fault = json_fault(given)
            if fault:
                raise ConfigError(f"{fault}.", file=file, key=ARGUMENTS)
            self._arguments = given, variables
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


def metadata(
    config: Mapping[Any, Any], interpolations: Interpolations | None = None
) -> tuple[str | None, str | None]:
    """(domain, description): the first of each over all server groups of all instances, in the config's order."""
    domain: str | None = None
    description: str | None = None
    for block in config.values():
        if not isinstance(block, dict):
            continue
        for group in (RESOURCES, AGENTS, MODELS, ENVIRONMENTS):
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


def _text(found: Any, interpolations: Interpolations | None) -> str | None:
    if isinstance(found, str) and "${" in found and interpolations is not None:
        plain = interpolations.plain(found)
        if isinstance(plain, str | int | float):
            return str(plain)
    return None if found == MISSING else str(found)


def _license(model: BenchmarkDataset | OtherDataset, plain: Mapping[str, Any]) -> str | None:
    found = plain.get("license") if isinstance(model, BenchmarkDataset) else model.license
    return found if isinstance(found, str) else None
