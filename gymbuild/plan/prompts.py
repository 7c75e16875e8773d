"""Prompt templates: a YAML file with `user` and optional `system`, filled with each row's top-level fields."""

from __future__ import annotations

import string
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gymbuild.plan.rows import RowError, any_size, kind
from gymbuild.system.errors import PlanError
from gymbuild.system.permissions import sentence


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt template."""

    user: str
    system: str | None
    fields: frozenset[str]
    """The fields that it takes from a row."""

    def parts(self) -> list[tuple[str, list[tuple[str, str | None]]]] | None:
        """The messages as roles with (literal text, field) pairs, in order; a field of None ends a text.

        None when a field is formatted (`{n:>5}`, `{n!r}`), so that `str.format` has to do it.
        """
        messages = []
        for role, text in (("system", self.system), ("user", self.user)):
            if text is None:
                continue
            parts = []
            for literal, name, form, conversion in string.Formatter().parse(text):
                if form or conversion:
                    return None
                parts.append((literal, name))
            messages.append((role, parts))
        return messages


def load_prompt(path: str) -> Prompt:
    """Load and check a prompt template.

    Args:
        path: the YAML file.

    Raises:
        PlanError: it cannot be read or used; says where and why.
    """
    import yaml

    try:
        with open(path, "rb") as file:
            data = yaml.safe_load(file)
    except OSError as error:
        raise PlanError(
            f"{path}: the prompt template cannot be read: {sentence(error, writing=False)}"
        ) from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{path}:{mark.line + 1}" if mark is not None else path
        raise PlanError(
            f"{place}: the prompt template is not YAML ({getattr(error, 'problem', None) or error})"
        ) from None
    if not isinstance(data, dict):
        raise PlanError(f"{path}: a prompt template must be a mapping with `user` and, if wanted, `system`")
    texts: dict[str, str | None] = {"user": None, "system": None}
    for key in texts:
        value = data.get(key)
        if value is not None and not isinstance(value, str):
            raise PlanError(f"{path}: {key}: must be text, and is {type(value).__name__}")
        texts[key] = value
    if texts["user"] is None:
        raise PlanError(f"{path}: user: is missing; a prompt template must have it")
    fields: set[str] = set()
    for key, text in texts.items():
        if text is not None:
            _check_text(path, key, text)
            fields |= _fields(path, key, text)
    return Prompt(texts["user"], texts["system"], frozenset(fields))


def _check_text(path: str, key: str, text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise PlanError(f"{path}: {key}: holds a lone surrogate, which UTF-8 has no form for") from None


def _fields(path: str, key: str, text: str) -> set[str]:
    found: set[str] = set()
    try:
        parts = list(string.Formatter().parse(text))
    except ValueError as error:
        raise PlanError(f"{path}: {key}: {error}; write a literal brace twice, {{{{ or }}}}") from None
    for _, name, form, _ in parts:
        if name is None:
            continue
        if not name or name.isdigit():
            raise PlanError(
                f"{path}: {key}: a field must have a name, and {{{name}}} has none; write a literal brace twice"
            )
        if "." in name or "[" in name:
            raise PlanError(
                f"{path}: {key}: {{{name}}}: a field is the plain name of a row's field, without . or ["
            )
        found.add(name)
        if form:
            found |= _fields(path, key, form)
    return found


def fill(prompt: Prompt, row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with `responses_create_params.input` made from the template; the row itself stays as it is.

    Args:
        prompt: the template.
        row: a row of the prepared file.

    Raises:
        MissingFieldError: the row lacks a field of the template.
        FilledAlreadyError: the row has an input already.
        RowError: `responses_create_params` is not an object, or a field's value does not fit the template's format.
    """
    params = filled_params(prompt, row)
    return {**row, "responses_create_params": params}


def filled_params(prompt: Prompt, row: Mapping[str, Any]) -> dict[str, Any]:
    """The row's `responses_create_params` with the `input` that the template makes; errors as `fill`."""
    params = row.get("responses_create_params")
    if params is None:
        params = {}
    if not isinstance(params, dict):
        raise RowError(f"responses_create_params: must be an object, and is {kind(params)}")
    if params.get("input"):
        raise FilledAlreadyError(
            "the row has responses_create_params.input already, and prompt_config is to make it; "
            "use one or the other"
        )
    for name in sorted(prompt.fields):
        if name not in row:
            raise MissingFieldError(name)
    try:
        messages = []
        if prompt.system is not None:
            messages.append({"role": "system", "content": any_size(prompt.system.format_map, row)})
        messages.append({"role": "user", "content": any_size(prompt.user.format_map, row)})
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError) as error:
        raise RowError(f"the prompt template cannot be filled: {error}") from None
    return {**params, "input": messages}


class MissingFieldError(RowError):
    """A row lacks a field that the prompt template takes.

    Args:
        field: the field's name.
    """

    def __init__(self, field: str) -> None:
        super().__init__(f"the row has no field {field!r}, which the prompt template takes")
        self.field = field


class FilledAlreadyError(RowError):
    """A row has an input, and a prompt template is to make one."""
