"""Which agents and models a resources server goes with: its `allowed_agents` and `allowed_model_types`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from gymbuild.config.dialect.instances import (
    DUMMY_MODEL,
    MODELS,
    RESOURCES,
    AgentInstance,
    agent_instances,
    resources_reference,
)
from gymbuild.config.dialect.values import kind_of, only_item, value
from gymbuild.system.errors import ConfigError
from gymbuild.system.text import in_words

PAIRING_VARIABLE = "NEMO_GYM_ALLOW_UNSUPPORTED_PAIRING"


def check_agent_pairings(
    config: Mapping[Any, Any], kind: str, agents: Sequence[AgentInstance], *, file: str | None
) -> None:
    """Refuse an agent of a kind that the resources server of one whose place it takes does not allow.

    Raises:
        ConfigError: with the agent whose place it takes.
    """
    if _is_free(config):
        return
    for agent in agents:
        server = value(resources_reference(config, agent.config), "name")
        allowed = _allowed(config, server, "allowed_agents", file)
        if allowed is not None and kind not in allowed:
            raise ConfigError(
                f"the agent {kind!r} would take its place, but {server} allows {in_words(allowed)}.",
                file=file,
                key=agent.name,
            )


def check_model_pairings(config: Mapping[Any, Any], *, file: str | None) -> None:
    """Refuse an agent whose resources server does not allow the kind of model that it is bound to.

    Raises:
        ConfigError: with the agent.
    """
    if _is_free(config):
        return
    for agent in agent_instances(config):
        resources = resources_reference(config, agent.config)
        if not resources or value(resources, "type") != RESOURCES:
            continue
        server = value(resources, "name")
        allowed = _allowed(config, server, "allowed_model_types", file)
        model = value(agent.config, "model_server")
        if allowed is None or value(model, "type") != MODELS:
            continue
        found = only_item(value(value(config, value(model, "name")), MODELS))
        if found is not None and found[0] != DUMMY_MODEL and str(found[0]) not in allowed:
            raise ConfigError(
                f"its model server is of type {str(found[0])!r}, but {server} allows {in_words(allowed)}.",
                file=file,
                key=agent.name,
            )


def _is_free(config: Mapping[Any, Any]) -> bool:
    if value(config, "allow_unsupported_pairing"):
        return True
    return os.environ.get(PAIRING_VARIABLE, "").lower() not in ("", "0", "false")


def _allowed(config: Mapping[Any, Any], server: Any, key: str, file: str | None) -> list[str] | None:
    block = value(config, server) if isinstance(server, str) and server else None
    kind, inner = only_item(value(block, RESOURCES)) or ("", None)
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
