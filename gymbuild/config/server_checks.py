"""Servers that cannot be used: blocks that are almost a server, references to what is not there, wrong pairings."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from gymbuild.config.agents import relays
from gymbuild.config.dialect.instances import GROUPS, RESERVED, RESOURCES
from gymbuild.config.dialect.interpolation import Interpolations
from gymbuild.config.dialect.pairings import check_model_pairings
from gymbuild.config.dialect.values import MISSING, kind_of, value
from gymbuild.config.models import shape_fault
from gymbuild.system.errors import ConfigError
from gymbuild.system.text import in_words

_DOMAIN_NAMES = """
math coding agent knowledge instruction_following long_context safety games translation e2e rlhf
other
"""
DOMAINS = frozenset(_DOMAIN_NAMES.split())
UPSTREAM_FIELDS = frozenset(
    (
        *("name", "type", "jsonl_fpath", "num_repeats", "taskset", "agent", "prompt_config", "license"),
        *("prepare_script", "prepare_dependencies", "source", "gitlab_identifier", "huggingface_identifier"),
    )
)
"""Fields of a dataset that NeMo Gym knows."""


def check_and_route(config: dict[Any, Any], *, file: str) -> dict[Any, Any]:
    """Refuse servers that cannot be used; the config with the environment servers that are made for agents.

    Raises:
        ConfigError: see `check_servers`, `relays` and `check_model_pairings`.
    """
    routing = {**config, **relays(config, file=file)}
    check_servers(routing, file=file)
    check_model_pairings(routing, file=file)
    return routing


def check_servers(config: Mapping[Any, Any], *, file: str | None) -> None:
    """Refuse blocks that are almost a server, and references to servers that are not there.

    Raises:
        ConfigError: with the block or the field.
    """
    interpolations = Interpolations(config)
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
                text = f"it is unset ({MISSING}); name one of {in_words(others) or 'the servers (there are none)'}."
            elif near:
                text = (
                    f"there is no {reference['type']} server {target!r}; did you mean {in_words(near, 'or')}?"
                )
            else:
                text = (
                    f"there is no {reference['type']} server {target!r}; there are {in_words(others) or 'none'}. Correct "
                    "the name, or include the config that defines it."
                )
            raise ConfigError(text, file=file, key=here)


def _weight(block: Mapping[Any, Any], group: str) -> int:
    """How many fields that NeMo Gym knows a group's server has, those of its datasets included."""
    inner = next(iter(block[group].values()))
    datasets = inner.get("datasets") or ()
    fields = sum(key in inner for key in ("entrypoint", "domain", "host", "port", "num_workers", "datasets"))
    return fields + sum(
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
        return f"{here}.domain", f"its domain must be one of {in_words(sorted(DOMAINS))}, found {found}."
    host = inner.get("host")
    if host is not None and not isinstance(host, str):
        return f"{here}.host", f"its host must be text, found {kind_of(host)}."
    for key in ("port", "num_workers"):
        if inner.get(key) is not None and not _is_whole(inner[key]):
            return f"{here}.{key}", f"its {key} must be a whole number, found {kind_of(inner[key])}."
    if inner.get("datasets") is not None:
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
