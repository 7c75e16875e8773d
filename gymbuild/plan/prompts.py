"""Prompt templates: a YAML file with `user` and optional `system`, filled with each row's top-level fields."""

from __future__ import annotations

import string
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gymbuild.errors import PlanError


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt template."""

    user: str
    system: str | None
    fields: frozenset[str]
    """The fields that it takes from a row."""


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
        raise PlanError(f"{path}: the prompt template cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{path}:{mark.line + 1}" if mark is not None else path
        raise PlanError(
            f"{place}: the prompt template is no YAML ({getattr(error, 'problem', None) or error})"
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
            fields |= _fields(path, key, text)
    return Prompt(texts["user"], texts["system"], frozenset(fields))


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


def fill(prompt: Prompt, row: Mapping[str, Any], place: str) -> dict[str, Any]:
    """The row with `responses_create_params.input` made from the template; the row itself stays as it is.

    Args:
        prompt: the template.
        row: a row of the prepared file.
        place: file and line, for errors.

    Raises:
        MissingFieldError: the row lacks a field of the template.
        FilledAlreadyError: the row has an input already.
        PlanError: a field's value does not fit the template's format.
    """
    params = row.get("responses_create_params")
    if params is None:
        params = {}
    if not isinstance(params, dict):
        raise PlanError(f"{place}: responses_create_params: must be an object")
    if params.get("input"):
        raise FilledAlreadyError(place)
    for name in sorted(prompt.fields):
        if name not in row:
            raise MissingFieldError(place, name)
    try:
        messages = (
            [] if prompt.system is None else [{"role": "system", "content": prompt.system.format_map(row)}]
        )
        messages.append({"role": "user", "content": prompt.user.format_map(row)})
    except (ValueError, TypeError) as error:
        raise PlanError(f"{place}: the prompt template cannot be filled: {error}") from None
    return {**row, "responses_create_params": {**params, "input": messages}}


class MissingFieldError(PlanError):
    """A row lacks a field that the prompt template takes."""

    def __init__(self, place: str, field: str) -> None:
        super().__init__(f"{place}: the row has no field {field!r}, which the prompt template takes")
        self.place = place
        self.field = field


class FilledAlreadyError(PlanError):
    """A row has an input, and a prompt template is to make one."""

    def __init__(self, place: str) -> None:
        super().__init__(
            f"{place}: the row has responses_create_params.input already, and prompt_config is to make it; "
            "use one or the other"
        )
        self.place = place
