"""What becomes of a config's agents: those that moved, the one that takes the others' place, the run-time model.

The rules are those of NeMo Gym 0.7.0's config parser, found out by running it; docs/config.md lists them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from gymbuild.config.dialect.directives import INHERIT
from gymbuild.config.dialect.instances import (
    AGENTS,
    DUMMY_MODEL,
    ENVIRONMENTS,
    MODELS,
    AgentInstance,
    agent_instances,
    agent_references,
    environment_servers,
    resources_reference,
    stem_of,
)
from gymbuild.config.dialect.limits import Budget, count
from gymbuild.config.dialect.merging import merge
from gymbuild.config.dialect.pairings import check_agent_pairings
from gymbuild.config.dialect.values import MISSING, copy_plain, is_missing, value
from gymbuild.system.errors import ConfigError
from gymbuild.system.text import in_words

_CARRIED_OVER = ("resources_server", "model_server", "datasets")


def follow_moved_agents(before: dict[Any, Any], after: dict[Any, Any], *, file: str | None) -> None:
    """Point environment servers at the instance that an agent moved to by a top-level `_inherit_from`.

    Args:
        before: the config as it was before the directives.
        after: as it is after them; changed in place.
        file: the config that was asked for, for errors.

    Raises:
        ConfigError: an environment server names an agent that several instances inherited.
    """
    original = {agent.name for agent in agent_instances(before)}
    destinations: dict[str, list[str]] = defaultdict(list)
    for name, block in before.items():
        source: Any = None
        if isinstance(block, str) and block.startswith("${inherit_from:"):
            source = block.removeprefix("${inherit_from:").removesuffix("}")
        elif isinstance(block, dict):
            source = value(block, INHERIT)
        if isinstance(source, str) and source in original:
            destinations[source].append(name)
    if not destinations:
        return
    final = {agent.name for agent in agent_instances(after)}
    renames: dict[str, str] = {}
    for source, names in destinations.items():
        if source in after:
            continue
        targets = [name for name in names if name in final]
        if len(targets) == 1:
            renames[source] = targets[0]
        elif len(targets) > 1:
            for name, kind, server in environment_servers(after):
                for key, reference in agent_references(server):
                    if value(reference, "name") == source and not is_missing(reference, "type"):
                        raise ConfigError(
                            f"it names the agent {source!r}, which moved to {in_words(sorted(targets))}. Name one of "
                            "them, or give each its own environment server.",
                            file=file,
                            key=f"{name}.{ENVIRONMENTS}.{kind}.{key}.name",
                        )
    if renames:
        _retarget(after, renames)


def _retarget(config: dict[Any, Any], renames: Mapping[str, str]) -> None:
    for _, _, server in environment_servers(config):
        for _, reference in agent_references(server):
            name = value(reference, "name")
            if isinstance(name, str) and name in renames:
                reference["name"] = renames[name]


def compose_unbound_agent(
    config: dict[Any, Any], budget: Budget, *, overrides: Mapping[Any, Any] | None = None
) -> None:
    """Where one agent leaves its `resources_server` unset, let it take the place of every other agent.

    Args:
        config: after the directives; changed in place.
        budget: its file is named in errors.
        overrides: command-line settings for instances that only composition makes, by their composed name.

    Raises:
        ConfigError: several unbound agents, none to take the place of, a name that is taken, an agent that a
            resources server does not allow, or routing to an instance that is renamed.
    """
    file = budget.file
    instances = agent_instances(config)
    sources = [agent for agent in instances if _is_unbound(config, agent)]
    if not sources:
        return
    if len(sources) > 1:
        raise ConfigError(
            f"the agents {in_words(sorted(agent.name for agent in sources))} all leave their `resources_server` unset "
            f"({MISSING}); only one may, the one that the others are replaced by.",
            file=file,
        )
    source = sources[0]
    targets = [
        agent
        for agent in instances
        if agent.name != source.name and resources_reference(config, agent.config) is not None
    ]
    if not targets:
        raise ConfigError(
            f"the agent leaves its `resources_server` unset ({MISSING}), and no other agent in the config is bound "
            "to one. Include a config that binds it, or set the name.",
            file=file,
            key=f"{source.name}.{AGENTS}.{source.kind}.resources_server.name",
        )
    check_agent_pairings(config, source.kind, targets, file=file)
    renames = {agent.name: composed_name(agent, source.kind) for agent in targets}
    _check_names(config, renames, source.name, file)
    config.pop(source.name)
    for agent in targets:
        budget.spend(count(source.config, budget.left), key=agent.name)
        composed = copy_plain(source.config)
        for key in _CARRIED_OVER:
            if key in agent.config:
                composed[key] = copy_plain(agent.config[key])
        override = _at(overrides, renames[agent.name], AGENTS, source.kind)
        if isinstance(override, dict):
            unknown = _first_unknown(composed, override, f"{renames[agent.name]}.{AGENTS}.{source.kind}")
            if unknown:
                raise ConfigError("the agent has no such field to override.", file=file, key=unknown)
            composed = merge(composed, override, budget, follow=False)
        block = config.pop(agent.name)
        agents = block[AGENTS]
        agents.pop(agent.kind)
        agents[source.kind] = composed
        config[renames[agent.name]] = block
    _retarget(config, renames)
    _check_routing(config, renames, file)


def composed_name(agent: AgentInstance, kind: str) -> str:
    """What an instance is called once an agent of another kind has taken its place."""
    stem = stem_of(agent)
    return f"{stem}_{kind}" if stem else kind


def composed_names(config: Mapping[Any, Any]) -> set[str]:
    """The names that composition is going to make."""
    instances = agent_instances(config)
    sources = [agent for agent in instances if _is_unbound(config, agent)]
    if len(sources) != 1:
        return set()
    return {composed_name(agent, sources[0].kind) for agent in instances if agent.name != sources[0].name}


def _first_unknown(declared: dict[Any, Any], over: Mapping[Any, Any], path: str) -> str | None:
    for key, item in over.items():
        here = f"{path}.{key}"
        if key not in declared:
            return here
        if isinstance(item, dict) and isinstance(declared[key], dict):
            deeper = _first_unknown(declared[key], item, here)
            if deeper:
                return deeper
    return None


def _at(mapping: Any, *path: Any) -> Any:
    for key in path:
        if not isinstance(mapping, Mapping) or key not in mapping:
            return None
        mapping = mapping[key]
    return mapping


def _is_unbound(config: Mapping[Any, Any], agent: AgentInstance) -> bool:
    reference = resources_reference(config, agent.config)
    return reference is not None and is_missing(reference, "name")


def _check_names(
    config: Mapping[Any, Any], renames: Mapping[str, str], source: str, file: str | None
) -> None:
    taken = set(config) - set(renames) - {source}
    users = Counter(renames.values())
    clashes = sorted(
        f"{old} would be {new}" for old, new in renames.items() if new in taken or users[new] > 1
    )
    if clashes:
        raise ConfigError(
            f"composing would give two instances one name: {in_words(clashes)}. Rename the agent instance.",
            file=file,
        )


def _check_routing(config: Mapping[Any, Any], renames: Mapping[str, str], file: str | None) -> None:
    outdated = []
    if isinstance(value(config, "agent_name"), str) and config["agent_name"] in renames:
        outdated.append(("agent_name", config["agent_name"]))
    routes = value(config, "agent_map")
    if isinstance(routes, dict):
        outdated += [(f"agent_map.{key}", name) for key, name in routes.items() if _in(name, renames)]
    fan_out = value(config, "fan_out")
    if isinstance(fan_out, dict):
        outdated += [
            (f"fan_out.{key}", name)
            for key, names in fan_out.items()
            for name in (names if isinstance(names, list) else [])
            if _in(name, renames)
        ]
    if outdated:
        key, name = outdated[0]
        raise ConfigError(
            f"it names the agent {name!r}, which is {renames[name]!r} once the unbound agent has taken its place.",
            file=file,
            key=key,
        )


def _in(name: Any, names: Mapping[str, str]) -> bool:
    return isinstance(name, str) and name in names


def remove_stand_ins(config: dict[Any, Any], budget: Budget) -> None:
    """Where the stand-in for the run-time model is beside a real one, let the real one have its place.

    Args:
        config: after the directives; changed in place.
        budget: its file is named in errors.

    Raises:
        ConfigError: the stand-in is beside something else, and there is no real model.
    """
    for name, block in config.items():
        models = value(block, MODELS)
        if (
            not isinstance(models, dict)
            or DUMMY_MODEL not in models
            or (len(models) == 1 and len(block) == 1)
        ):
            continue
        real = [kind for kind in models if kind != DUMMY_MODEL]
        if not real:
            raise ConfigError(
                "it inherits the model that is named at run time and holds something else as well; give the model a "
                "name of its own, or a kind.",
                file=budget.file,
                key=f"{name}.{MODELS}",
            )
        stand_in = models.pop(DUMMY_MODEL)
        if isinstance(stand_in, dict) and isinstance(models[real[0]], dict):
            models[real[0]] = merge(stand_in, models[real[0]], budget, follow=False)
