"""Server instances of a config: the top-level entries that hold an agent, a resources server, a model, an environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gymbuild.config.dialect.interpolation import Interpolations
from gymbuild.config.dialect.values import has, only_item, value

AGENTS = "responses_api_agents"
RESOURCES = "resources_servers"
MODELS = "responses_api_models"
ENVIRONMENTS = "environment_servers"
GROUPS = (MODELS, RESOURCES, AGENTS, ENVIRONMENTS)
ROUTES = "environment_server_routes"
DUMMY_MODEL = "dummy_model"

_SETTINGS = """
allow_openai_version_skew allow_unsupported_pairing cache_dir component_name config_paths _copy
default_host disallowed_ports dry_run entrypoint environment_routing_mode environment_server_name
environment_server_routes head_server head_server_deps hf_token _inherit_from json
model_call_capture_dir model_endpoint_readiness_timeout_seconds nemo_gym_log_dir
observability_enabled pip_install_verbose port_range_high port_range_low python_version query
ray_head_node_address results_dir server_spinup_timeout_seconds skip_venv_if_present
skip_verification skip_verification_reward telemetry token_id_capture use_absolute_ip uv_cache_dir
uv_lock_timeout_seconds uv_pip_set_python uv_venv_dir verbose
"""
RESERVED = frozenset(_SETTINGS.split())
"""Top-level keys that are settings, never server instances."""


@dataclass(frozen=True, slots=True)
class AgentInstance:
    """A top-level entry that holds exactly one agent."""

    name: str
    kind: str
    """The agent's implementation: the one key under `responses_api_agents`."""
    config: dict[Any, Any]


def agent_instances(config: Mapping[Any, Any]) -> list[AgentInstance]:
    """Every top-level agent instance, in the config's order."""
    found = []
    for name, block in config.items():
        if name in RESERVED or not has(block, AGENTS):
            continue
        agents = block[AGENTS]
        if isinstance(agents, str):
            agents = Interpolations(config).follow(agents)
        kind, inner = only_item(agents) or ("", None)
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


def resources_reference(config: Mapping[Any, Any], agent: Mapping[Any, Any]) -> dict[Any, Any] | None:
    """What an agent's `resources_server` refers to, an interpolation followed."""
    reference = value(agent, "resources_server")
    if isinstance(reference, str) and "${" in reference:
        reference = Interpolations(config).follow(reference)
    return reference if isinstance(reference, dict) else None


def stem_of(agent: AgentInstance) -> str:
    """An agent instance's name without its ending; empty where that is all of it."""
    stem = agent.name.removesuffix(f"_{agent.kind}").removesuffix(agent.kind).rstrip("_")
    return agent.name.removesuffix("_agent").rstrip("_") if stem == agent.name else stem
