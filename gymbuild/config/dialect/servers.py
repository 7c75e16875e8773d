"""Server instances of a resolved config: what they are, which agent composition makes of them, what is refused.

The rules are those of NeMo Gym 0.7.0's config parser, found out by running it; docs/config.md lists them.
"""

from __future__ import annotations

import difflib
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gymbuild.config.dialect.directives import INHERIT
from gymbuild.config.dialect.interpolation import Interpolations
from gymbuild.config.dialect.merging import MISSING, copy_plain, merge
from gymbuild.config.dialect.yaml_files import kind_of
from gymbuild.system.errors import ConfigError

AGENTS = "responses_api_agents"
RESOURCES = "resources_servers"
MODELS = "responses_api_models"
ENVIRONMENTS = "environment_servers"
GROUPS = (MODELS, RESOURCES, AGENTS, ENVIRONMENTS)
ROUTES = "environment_server_routes"
DUMMY_MODEL = "dummy_model"

RESERVED = frozenset(
    [
        "allow_openai_version_skew",
        "allow_unsupported_pairing",
        "cache_dir",
        "component_name",
        "config_paths",
        "_copy",
        "default_host",
        "disallowed_ports",
        "dry_run",
        "entrypoint",
        "environment_routing_mode",
        "environment_server_name",
        "environment_server_routes",
        "head_server",
        "head_server_deps",
        "hf_token",
        "_inherit_from",
        "json",
        "model_call_capture_dir",
        "model_endpoint_readiness_timeout_seconds",
        "nemo_gym_log_dir",
        "observability_enabled",
        "pip_install_verbose",
        "port_range_high",
        "port_range_low",
        "python_version",
        "query",
        "ray_head_node_address",
        "results_dir",
        "server_spinup_timeout_seconds",
        "skip_venv_if_present",
        "skip_verification",
        "skip_verification_reward",
        "telemetry",
        "token_id_capture",
        "use_absolute_ip",
        "uv_cache_dir",
        "uv_lock_timeout_seconds",
        "uv_pip_set_python",
        "uv_venv_dir",
        "verbose",
    ]
)
"""Top-level keys that are settings, never server instances."""
DOMAINS = frozenset(
    [
        "math",
        "coding",
        "agent",
        "knowledge",
        "instruction_following",
        "long_context",
        "safety",
        "games",
        "translation",
        "e2e",
        "rlhf",
        "other",
    ]
)
UPSTREAM_FIELDS = frozenset(
    (
        *("name", "type", "jsonl_fpath", "num_repeats", "taskset", "agent", "prompt_config", "license"),
        *("prepare_script", "prepare_dependencies", "source", "gitlab_identifier", "huggingface_identifier"),
    )
)
"""Fields of a dataset that NeMo Gym knows."""
_RELAY_SUFFIX = "_environment_server"
PAIRING_VARIABLE = "NEMO_GYM_ALLOW_UNSUPPORTED_PAIRING"
_CARRIED_OVER = ("resources_server", "model_server", "datasets")


@dataclass(frozen=True, slots=True)
class AgentInstance:
    """A top-level entry that holds exactly one agent."""

    name: str
    kind: str
    """The agent's implementation: the one key under `responses_api_agents`."""
    config: dict[Any, Any]


def value(mapping: Any, key: Any, default: Any = None) -> Any:
    """`mapping[key]`, or the default where the key is absent or `???`."""
    if not isinstance(mapping, dict) or isinstance(key, dict | list):
        return default
    found = mapping.get(key, default)
    return default if isinstance(found, str) and found == MISSING else found


def has(mapping: Any, key: Any) -> bool:
    """Whether a mapping has the key with a value other than `???`."""
    return isinstance(mapping, dict) and key in mapping and mapping[key] != MISSING


def is_missing(mapping: Any, key: Any) -> bool:
    """Whether the key is there and `???`."""
    return isinstance(mapping, dict) and isinstance(mapping.get(key), str) and mapping[key] == MISSING


def agent_instances(config: Mapping[Any, Any]) -> list[AgentInstance]:
    """Every top-level agent instance, in the config's order."""
    found = []
    for name, block in config.items():
        if name in RESERVED or not has(block, AGENTS):
            continue
        agents = block[AGENTS]
        if isinstance(agents, str):
            agents = Interpolations(dict(config)).follow(agents)
        if not isinstance(agents, dict) or len(agents) != 1:
            continue
        kind, inner = next(iter(agents.items()))
        if isinstance(inner, dict):
            found.append(AgentInstance(str(name), str(kind), inner))
    return found


def environment_servers(config: Mapping[Any, Any]) -> Iterator[tuple[Any, Any, dict[Any, Any]]]:
    """(instance name, implementation, config) of every environment server."""
    for name, block in config.items():
        servers = value(block, ENVIRONMENTS)
        if isinstance(servers, dict):
            for kind, server in servers.items():
                if isinstance(server, dict):
                    yield name, kind, server


def agent_references(server: Mapping[Any, Any]) -> list[tuple[Any, dict[Any, Any]]]:
    """(field, reference) of the agents that an environment server fronts.

    Any field of type `responses_api_agents` is one; `agent_server` is one without a type as well.
    """
    return [
        (name, reference)
        for name, reference in server.items()
        if isinstance(reference, dict)
        and (
            value(reference, "type") == AGENTS
            or (name == "agent_server" and value(reference, "type") is None)
        )
    ]


def attributed_agent(server: Mapping[Any, Any]) -> str | None:
    """The agent that an environment server's results count for: its `agent_server`, or its only agent."""
    reference = server.get("agent_server")
    if isinstance(reference, dict):
        name = value(reference, "name")
        return None if name is None else str(name)
    names = [value(reference, "name") for _, reference in agent_references(server)]
    names = [name for name in names if name is not None]
    return str(names[0]) if len(names) == 1 else None


# ---- moving agents -------------------------------------------------------------------------------------------


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
                            f"it names the agent {source!r}, which moved to {_and(sorted(targets))}. Name one of "
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


# ---- composition ---------------------------------------------------------------------------------------------


def compose_unbound_agent(
    config: dict[Any, Any], *, file: str | None, held: Mapping[Any, Any] | None = None
) -> None:
    """Where one agent leaves its `resources_server` unset, let it take the place of every other agent.

    Args:
        config: after the directives; changed in place.
        file: the config that was asked for, for errors.
        held: command-line settings for instances that only composition makes, by their composed name.

    Raises:
        ConfigError: several unbound agents, none to take the place of, a name that is taken, an agent that a
            resources server does not allow, or routing to an instance that is renamed.
    """
    instances = agent_instances(config)
    sources = [agent for agent in instances if _is_unbound(config, agent)]
    if not sources:
        return
    if len(sources) > 1:
        raise ConfigError(
            f"the agents {_and(sorted(agent.name for agent in sources))} all leave their `resources_server` unset "
            f"({MISSING}); only one may, the one that the others are replaced by.",
            file=file,
        )
    source = sources[0]
    targets = [
        agent
        for agent in instances
        if agent.name != source.name and _resources_reference(config, agent.config) is not None
    ]
    if not targets:
        raise ConfigError(
            f"the agent leaves its `resources_server` unset ({MISSING}), and no other agent in the config is bound "
            "to one. Include a config that binds it, or set the name.",
            file=file,
            key=f"{source.name}.{AGENTS}.{source.kind}.resources_server.name",
        )
    _check_pairing(config, source, targets, file)
    renames = {agent.name: composed_name(agent, source.kind) for agent in targets}
    _check_names(config, renames, source.name, file)
    config.pop(source.name)
    for agent in targets:
        composed = copy_plain(source.config)
        for key in _CARRIED_OVER:
            if key in agent.config:
                composed[key] = copy_plain(agent.config[key])
        override = _at(held, renames[agent.name], AGENTS, source.kind)
        if isinstance(override, dict):
            unknown = _first_unknown(composed, override, f"{renames[agent.name]}.{AGENTS}.{source.kind}")
            if unknown:
                raise ConfigError("the agent has no such field to override.", file=file, key=unknown)
            composed = merge(composed, override, file=file)
        block = config.pop(agent.name)
        agents = block[AGENTS]
        agents.pop(agent.kind)
        agents[source.kind] = composed
        config[renames[agent.name]] = block
    _retarget(config, renames)
    _check_routing(config, renames, file)


def composed_name(agent: AgentInstance, kind: str) -> str:
    """What an instance is called once an agent of another kind has taken its place."""
    return _stem(agent.name, agent.kind, kind)


def composed_names(config: Mapping[Any, Any]) -> set[str]:
    """The names that composition is going to make."""
    instances = agent_instances(config)
    sources = [agent for agent in instances if _is_unbound(config, agent)]
    if len(sources) != 1:
        return set()
    return {composed_name(agent, sources[0].kind) for agent in instances if agent.name != sources[0].name}


def _stem(name: str, kind: str, suffix: str) -> str:
    stem = name.removesuffix(f"_{kind}").removesuffix(kind).rstrip("_")
    if stem == name:
        stem = name.removesuffix("_agent").rstrip("_")
    return f"{stem}_{suffix}" if stem else suffix


def _first_unknown(known: dict[Any, Any], over: Mapping[Any, Any], path: str) -> str | None:
    for key, item in over.items():
        here = f"{path}.{key}"
        if key not in known:
            return here
        if isinstance(item, dict) and isinstance(known[key], dict):
            deeper = _first_unknown(known[key], item, here)
            if deeper:
                return deeper
    return None


def _at(mapping: Any, *path: Any) -> Any:
    for key in path:
        if not isinstance(mapping, Mapping) or key not in mapping:
            return None
        mapping = mapping[key]
    return mapping


def _resources_reference(config: Mapping[Any, Any], agent: Mapping[Any, Any]) -> dict[Any, Any] | None:
    reference = value(agent, "resources_server")
    if isinstance(reference, str) and "${" in reference:
        reference = Interpolations(dict(config)).follow(reference)
    return reference if isinstance(reference, dict) else None


def _is_unbound(config: Mapping[Any, Any], agent: AgentInstance) -> bool:
    reference = _resources_reference(config, agent.config)
    return reference is not None and is_missing(reference, "name")


def _check_names(
    config: Mapping[Any, Any], renames: Mapping[str, str], source: str, file: str | None
) -> None:
    taken = set(config) - set(renames) - {source}
    new_names = list(renames.values())
    clashes = sorted(
        f"{old} would be {new}" for old, new in renames.items() if new in taken or new_names.count(new) > 1
    )
    if clashes:
        raise ConfigError(
            f"composing would give two instances one name: {_and(clashes)}. Rename the agent instance.",
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


# ---- the model that is named at run time ---


def drop_stand_ins(config: dict[Any, Any], *, file: str | None) -> None:
    """Where the stand-in for the run-time model is beside a real one, let the real one have its place.

    Args:
        config: after the directives; changed in place.
        file: the config that was asked for, for errors.

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
                file=file,
                key=f"{name}.{MODELS}",
            )
        stand_in = models.pop(DUMMY_MODEL)
        if isinstance(stand_in, dict) and isinstance(models[real[0]], dict):
            models[real[0]] = merge(stand_in, models[real[0]], file=file)


# ---- pairings ------------------------------------------------------------------------------------------------


def _pairing_is_free(config: Mapping[Any, Any]) -> bool:
    if value(config, "allow_unsupported_pairing"):
        return True
    return os.environ.get(PAIRING_VARIABLE, "").lower() not in ("", "0", "false")


def _check_pairing(
    config: Mapping[Any, Any], source: AgentInstance, targets: list[AgentInstance], file: str | None
) -> None:
    if _pairing_is_free(config):
        return
    for agent in targets:
        reference = _resources_reference(config, agent.config)
        server = value(reference, "name")
        allowed = _allowed(config, server, "allowed_agents", file)
        if allowed is not None and source.kind not in allowed:
            raise ConfigError(
                f"the agent {source.kind!r} would take its place, but {server} allows {_and(allowed)}.",
                file=file,
                key=agent.name,
            )


def check_model_pairings(config: Mapping[Any, Any], *, file: str | None) -> None:
    """Refuse an agent whose resources server does not allow the kind of model that it is bound to.

    Raises:
        ConfigError: with the agent.
    """
    if _pairing_is_free(config):
        return
    for agent in agent_instances(config):
        resources = _resources_reference(config, agent.config)
        if not resources or value(resources, "type") != RESOURCES:
            continue
        server = value(resources, "name")
        allowed = _allowed(config, server, "allowed_model_types", file)
        if allowed is None:
            continue
        model = value(agent.config, "model_server")
        if not isinstance(model, dict) or value(model, "type") != MODELS:
            continue
        block = value(config, value(model, "name"))
        models = value(block, MODELS)
        if not isinstance(models, dict) or len(models) != 1:
            continue
        kind = str(next(iter(models)))
        if kind != DUMMY_MODEL and kind not in allowed:
            raise ConfigError(
                f"its model server is of type {kind!r}, but {server} allows {_and(allowed)}.",
                file=file,
                key=agent.name,
            )


def _allowed(config: Mapping[Any, Any], server: Any, key: str, file: str | None) -> list[str] | None:
    block = value(config, server) if isinstance(server, str) and server else None
    servers = value(block, RESOURCES)
    if not isinstance(servers, dict) or len(servers) != 1:
        return None
    kind, inner = next(iter(servers.items()))
    declared = value(inner, key)
    if not declared:
        return None
    if isinstance(declared, str):
        return [declared]
    if not isinstance(declared, list):
        raise ConfigError(
            f"found {kind_of(declared)}; it is a list of names.",
            file=file,
            key=f"{server}.{RESOURCES}.{kind}.{key}",
        )
    return [str(name) for name in declared]


# ---- environment servers that are made for agents without one -------------------------------------------------


def relays(config: Mapping[Any, Any], *, file: str | None) -> dict[str, dict[str, Any]]:
    """The environment servers that agents without one are given, by instance name.

    Raises:
        ConfigError: the config forbids it (`error_on_agent_without_environment_server`).
    """
    fronted = {
        value(reference, "name")
        for _, _, server in environment_servers(config)
        for _, reference in agent_references(server)
        if isinstance(value(reference, "name"), str)
    }
    agents = sorted(
        (
            agent
            for agent in agent_instances(config)
            if agent.name not in fronted and agent.config.get("entrypoint") is not None
        ),
        key=lambda agent: agent.name,
    )
    if agents and value(config, "error_on_agent_without_environment_server", False):
        raise ConfigError(
            f"the agents {_and([agent.name for agent in agents])} have no environment server, and the config asks "
            "for one each. Declare them, or remove this key.",
            file=file,
            key="error_on_agent_without_environment_server",
        )
    made: dict[str, dict[str, Any]] = {}
    for agent in agents:
        stem = agent.name.removesuffix(f"_{agent.kind}").removesuffix(agent.kind).rstrip("_")
        if stem == agent.name:
            stem = agent.name.removesuffix("_agent").rstrip("_")
        name = f"{stem or agent.kind}{_RELAY_SUFFIX}"
        if name in config or name in made:
            name = f"{agent.name}{_RELAY_SUFFIX}"
        while name in config or name in made:
            name = f"{name}{_RELAY_SUFFIX}"
        made[name] = {
            ENVIRONMENTS: {
                "legacy_agent": {"entrypoint": "app.py", "agent_server": {"type": AGENTS, "name": agent.name}}
            }
        }
    return made


# ---- what is refused -----------------------------------------------------------------------------------------


def check_servers(config: Mapping[Any, Any], *, file: str | None) -> None:
    """Refuse blocks that are almost a server, and references to servers that are not there.

    Raises:
        ConfigError: with the block or the field.
    """
    interpolations = Interpolations(dict(config))
    valid: dict[str, tuple[str, dict[Any, Any]]] = {}
    forgiving = value(config, "error_on_almost_servers", True) in (False, "false")
    for name, block in config.items():
        if name in RESERVED or not isinstance(block, dict):
            continue
        groups = [group for group in GROUPS if group in block]
        if not groups:
            continue
        faults = [(group, _server_fault(name, block, group)) for group in groups]
        fitting = [group for group, fault in faults if fault is None]
        if fitting:
            # a block of several groups counts as the one that says most
            group = max(fitting, key=lambda group: _weight(block, group))
            valid[str(name)] = (group, next(iter(block[group].values())))
        elif _looks_like_a_server(block) and not forgiving:
            key, sentence = faults[0][1] or ("", "")
            raise ConfigError(f"this is almost a server: {sentence}", file=file, key=key)
    existing = {(group, name) for name, (group, _) in valid.items()}
    for name, (group, server) in valid.items():
        for key, reference in server.items():
            if isinstance(reference, str) and "${" in reference:
                reference = interpolations.follow(reference)
            if not isinstance(reference, dict) or reference.get("type") not in GROUPS:
                continue
            target = reference.get("name")
            if isinstance(target, str) and "${" in target:
                found = interpolations.plain(target)
                target = found if isinstance(found, str) else target
            if not isinstance(target, str) or (reference["type"], target) in existing:
                continue
            here = f"{name}.{group}.{next(iter(config[name][group]))}.{key}.name"
            others = sorted(other for kind, other in existing if kind == reference["type"])
            near = difflib.get_close_matches(target, others, n=3, cutoff=0.6)
            if target == MISSING:
                text = (
                    f"it is unset ({MISSING}); name one of {_and(others) or 'the servers (there are none)'}."
                )
            elif near:
                text = f"there is no {reference['type']} server {target!r}; did you mean {_or(near)}?"
            else:
                text = (
                    f"there is no {reference['type']} server {target!r}; there are {_and(others) or 'none'}. Correct "
                    "the name, or include the config that defines it."
                )
            raise ConfigError(text, file=file, key=here)


def _weight(block: Mapping[Any, Any], group: str) -> int:
    """How many fields that NeMo Gym knows a group's server has, those of its datasets included."""
    inner = next(iter(block[group].values()))
    datasets = inner.get("datasets") or ()
    known = sum(key in inner for key in ("entrypoint", "domain", "host", "port", "num_workers", "datasets"))
    return known + sum(
        len(UPSTREAM_FIELDS.intersection(entry)) for entry in datasets if isinstance(entry, dict)
    )


def _looks_like_a_server(block: Mapping[Any, Any]) -> bool:
    return any(
        isinstance(block.get(group), dict)
        and any(isinstance(inner, dict) and "entrypoint" in inner for inner in block[group].values())
        for group in GROUPS
    )


def _server_fault(name: Any, block: Mapping[Any, Any], group: str) -> tuple[str, str] | None:
    """What keeps a block from being a server of this group: (key, a sentence), or None."""
    here = f"{name}.{group}"
    if not isinstance(name, str):
        return here, f"its name is {kind_of(name)}, not text."
    if "server_type_config_dict" in block:
        return here, "it has the key `server_type_config_dict`, which is taken."
    if "name" in block and not isinstance(block["name"], str):
        return f"{name}.name", f"its name is {kind_of(block['name'])}, not text."
    servers = block[group]
    if not isinstance(servers, dict) or len(servers) != 1:
        found = f"{len(servers)} servers" if isinstance(servers, dict) else kind_of(servers)
        return here, f"it holds {found}; it must hold exactly one server."
    kind, inner = next(iter(servers.items()))
    here = f"{here}.{kind}"
    if not isinstance(kind, str):
        return here, f"its server is named by {kind_of(kind)}, not text."
    if not isinstance(inner, dict):
        return here, f"it is {kind_of(inner)}; a server is a mapping."
    if not isinstance(inner.get("entrypoint"), str):
        found = kind_of(inner["entrypoint"]) if "entrypoint" in inner else "nothing"
        return f"{here}.entrypoint", f"its entrypoint must be text, found {found}."
    domain = inner.get("domain")
    if (domain is not None and not (isinstance(domain, str) and domain in DOMAINS)) or (
        domain is None and group == RESOURCES
    ):
        found = "nothing" if domain is None else kind_of(domain)
        return f"{here}.domain", f"its domain must be one of {_and(sorted(DOMAINS))}, found {found}."
    host = inner.get("host")
    if host is not None and not isinstance(host, str):
        return f"{here}.host", f"its host must be text, found {kind_of(host)}."
    for key in ("port", "num_workers"):
        if inner.get(key) is not None and not _is_whole(inner[key]):
            return f"{here}.{key}", f"its {key} must be a whole number, found {kind_of(inner[key])}."
    if inner.get("datasets") is not None:
        from gymbuild.config.models import shape_fault

        return shape_fault(inner["datasets"], f"{here}.datasets")
    return None


def _is_whole(number: Any) -> bool:
    """Whether pydantic takes it for an int: an int, a whole float, or such a number as text."""
    if isinstance(number, bool | int):
        return True
    if isinstance(number, float):
        return number.is_integer()
    if isinstance(number, str):
        try:
            return float(number).is_integer() if "." in number else bool(int(number) + 1 or True)
        except (ValueError, OverflowError):
            return False
    return False


def _and(names: list[str]) -> str:
    if len(names) < 2:
        return "".join(names)
    return ", ".join(names[:-1]) + " and " + names[-1]


def _or(names: list[str]) -> str:
    if len(names) < 2:
        return "".join(names)
    return ", ".join(names[:-1]) + " or " + names[-1]
