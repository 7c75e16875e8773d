"""Which agent runs a dataset: the declaring agent, the only one bound to its server, or the one that is pinned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gymbuild.config.dialect.interpolation import Interpolations
from gymbuild.config.dialect.servers import (
    AGENTS,
    ENVIRONMENTS,
    RESOURCES,
    ROUTES,
    agent_references,
    attributed_agent,
    has,
    value,
)


class NoAgentError(Exception):
    """A dataset that no agent, or no single agent, runs; the text says why and names the candidates."""


def agent_of(
    config: Mapping[Any, Any],
    instance: str,
    *,
    pin: str | None = None,
    taskset: str | None = None,
    interpolations: Interpolations,
) -> str | None:
    """The agent that runs a dataset.

    Args:
        config: the resolved config, with the environment servers that agents without one are given.
        instance: the top-level entry that declares the dataset.
        pin: the dataset's `agent`.
        taskset: the dataset's `taskset`; it routes to an environment server.
        interpolations: of the config.

    Returns:
        the agent's instance name, or None when an environment server fronts several.

    Raises:
        NoAgentError: none, several, or a pin or a route that does not fit.
    """
    block = config.get(instance)
    declares = has(block, AGENTS)
    if taskset is not None:
        return _routed_agent(config, instance, declares, pin, taskset)
    if declares:
        if pin is not None and pin != instance:
            raise NoAgentError(
                f"`agent` is {pin!r}, but the agent {instance!r} declares the dataset and runs it. Remove `agent`, or "
                "declare the dataset on the resources server."
            )
        return instance
    candidates = agents_bound_to(config, interpolations).get(instance, [])
    named = ", ".join(sorted(candidates)) or "none"
    if pin is not None:
        if pin not in candidates:
            raise NoAgentError(
                f"`agent` is {pin!r}, which is not an agent bound to the resources server {instance!r}. Bound to it: "
                f"{named}."
            )
        return pin
    if not candidates:
        raise NoAgentError(
            f"no agent is bound to the resources server {instance!r} (candidates: none). Set the "
            "`resources_server.name` of an agent to it, or declare the dataset on the agent."
        )
    if len(candidates) > 1:
        raise NoAgentError(
            f"several agents are bound to the resources server {instance!r}: {named}. Choose one with `agent` on "
            "the dataset."
        )
    return candidates[0]


def agents_bound_to(config: Mapping[Any, Any], interpolations: Interpolations) -> dict[str, list[str]]:
    """Resources server → the agent instances whose `resources_server.name` is it, in the config's order."""
    found: dict[str, list[str]] = {}
    for name, block in config.items():
        if not has(block, AGENTS):
            continue
        inner = first_server(config, name, interpolations)
        reference = value(inner, "resources_server")
        if isinstance(reference, str):
            reference = interpolations.follow(reference)
        server = value(reference, "name")
        if isinstance(server, str) and "${" in server:
            server = interpolations.plain(server)
        if isinstance(server, str):
            found.setdefault(server, []).append(str(name))
    return found


def first_server(config: Mapping[Any, Any], instance: Any, interpolations: Interpolations) -> Any:
    """The first server of the first group of an instance, or None where the shape is another."""
    node: Any = config.get(instance)
    for _ in range(2):
        if isinstance(node, str):
            node = interpolations.follow(node)
        if not isinstance(node, dict) or not node:
            return None
        node = next(iter(node.values()))
    if isinstance(node, str):
        node = interpolations.follow(node)
    return node if isinstance(node, dict) else None


def _routed_agent(
    config: Mapping[Any, Any], instance: str, declares: bool, pin: str | None, taskset: str
) -> str | None:
    routes = value(config, ROUTES)
    route = value(routes, taskset)
    if not isinstance(route, str) or not route:
        known = ", ".join(sorted(map(str, routes))) if isinstance(routes, dict) else "none"
        raise NoAgentError(f"`taskset` is {taskset!r}, which `{ROUTES}` does not route (routed: {known}).")
    servers = value(value(config, route), ENVIRONMENTS)
    if not isinstance(servers, dict) or len(servers) != 1:
        raise NoAgentError(f"`{ROUTES}` routes {taskset!r} to {route!r}, which is not an environment server.")
    server = next(iter(servers.values()))
    if not isinstance(server, dict):
        raise NoAgentError(f"the environment server {route!r} is not a mapping.")
    names = []
    for key, reference in agent_references(server):
        name = value(reference, "name")
        if not isinstance(name, str) or not has(config.get(name), AGENTS):
            raise NoAgentError(
                f"the environment server {route!r} names {name!r} as {key}, which is not an agent."
            )
        names.append(name)
    if not names:
        raise NoAgentError(f"the environment server {route!r} names no agent (`agent_server`).")
    if pin is not None:
        raise NoAgentError(
            f"`taskset` {taskset!r} routes to the environment server {route!r}, so `agent` ({pin!r}) cannot be set as "
            "well. Remove `agent`."
        )
    if declares:
        if instance not in names:
            raise NoAgentError(
                f"`taskset` {taskset!r} routes to {route!r}, which fronts {', '.join(sorted(names))}, not the "
                f"declaring agent {instance!r}."
            )
        return instance
    bound = value(server, "resources_server")
    if (
        not isinstance(bound, dict)
        or value(bound, "name") != instance
        or value(bound, "type", RESOURCES) != RESOURCES
    ):
        raise NoAgentError(
            f"`taskset` {taskset!r} routes to the environment server {route!r}, whose `resources_server` is not "
            f"the declaring server {instance!r}."
        )
    return attributed_agent(server)
