"""Rows as a run would receive them: found by task id, prompt filled, bookkeeping left out; as text and as JSON."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal

from gymbuild.plan import rows
from gymbuild.plan.digesting import Rules
from gymbuild.plan.prompts import Prompt, fill
from gymbuild.plan.workers import read_rows
from gymbuild.system.errors import PlanError
from gymbuild.system.text import clipped, id_text, visible

FOLDED_WIDTH = 100
"""Characters of a field's value that a person is shown."""


@dataclass(frozen=True, slots=True)
class ReceivedRow:
    """One row of a prepared file as a run would receive it."""

    line: int
    """Its line in the prepared file, from 1."""
    size: int
    """Bytes of that line, without its end."""
    task_id: str
    digest: str
    """As the plan has it: `sha256:…` of the task input, the prompt filled."""
    task_input: dict[str, Any]
    """The exact input of the task: the row without bookkeeping, the prompt filled."""


def received_rows(
    jsonl: str,
    *,
    prompt: Prompt | None = None,
    ids: Literal["content", "explicit"] = "content",
    wanted: Collection[str] | None = None,
) -> Iterator[ReceivedRow]:
    """The rows of a prepared file as a run would receive them, one by one, in the file's order.

    Args:
        jsonl: the prepared file.
        prompt: the template that fills them, or None.
        ids: `content` gives rows without an id one from their content; `explicit` refuses them.
        wanted: the task ids that matter, None for all; reading ends when all of them were found.

    Raises:
        PlanError: the file cannot be read, a row has no id, or nothing can be made of a wanted one; names the line.
    """
    left = None if wanted is None else set(wanted)
    task_ids = iter(task_ids_of(jsonl, ids)) if left is None or left else iter(())
    for (number, line), task_id in zip(rows.lines_of(jsonl), task_ids, strict=False):
        if left is not None:
            if task_id not in left:
                continue
            left.discard(task_id)
        try:
            received = as_received(rows.parse_row(line), prompt)
            digest = sha256(rows.canonical_bytes(received)).hexdigest()
        except rows.RowError as error:
            raise error.at(jsonl, number) from None
        yield ReceivedRow(number, len(line), task_id, "sha256:" + digest, received)
        if left is not None and not left:
            return


def task_ids_of(jsonl: str, ids: Literal["content", "explicit"] = "content") -> list[str]:
    """The task id of every row of a prepared file, in the file's order.

    Args:
        jsonl: the prepared file.
        ids: `content` gives rows without an id one from their content; `explicit` refuses them.

    Raises:
        PlanError: the file cannot be read, or a row has no id that a plan could give it.
    """
    found = read_rows(jsonl, Rules(None, ids), processes=0)
    if found.error is not None:
        raise PlanError(f"{jsonl}:{found.error[0]}: {found.error[1]}")
    if found.lacking.count:
        raise PlanError(
            f"{jsonl}:{found.lacking.first[0]}: the row has no task_id, problem_id or instance_id, "
            "and plan_ids=explicit asks for one"
        )
    repeats: dict[str, int] = {}
    for index, task_id in enumerate(found.ids):
        if not found.stated[index]:
            repeats[task_id] = repeats.get(task_id, 0) + 1
            if repeats[task_id] > 1:
                found.ids[index] = f"{task_id}-{repeats[task_id]}"
    return found.ids


def as_received(row: Mapping[str, Any], prompt: Prompt | None) -> dict[str, Any]:
    """The task input of one row, its prompt filled when there is a template.

    Raises:
        RowError: the template cannot be filled from the row.
    """
    return rows.task_input(row if prompt is None else fill(prompt, row))


def row_to_json(row: ReceivedRow) -> dict[str, Any]:
    """A row for other programs: its id, place and digest, and the exact input."""
    return {"task_id": row.task_id, "line": row.line, "digest": row.digest, "task_input": row.task_input}


def render_row(row: ReceivedRow) -> str:
    """A row for a person: messages in full, one line for everything else, long values folded."""
    lines = [f"{id_text(row.task_id)}   (line {row.line}, {row.digest})"]
    params = row.task_input.get("responses_create_params")
    if isinstance(params, dict):
        lines += _render_input(params.get("input"))
        rest = {key: value for key, value in params.items() if key != "input"}
        lines += _section("responses_create_params", rest)
    fields = {key: value for key, value in row.task_input.items() if key != "responses_create_params"}
    if not isinstance(params, dict) and params is not None:
        fields["responses_create_params"] = params
    lines += _section("fields", fields)
    return "\n".join(lines)


def _render_input(value: Any) -> list[str]:
    if value is None:
        return ["", "no input: neither the row nor a prompt template gives one"]
    if isinstance(value, str):
        return ["", "[user]", value]
    if not isinstance(value, list):
        return ["", f"[input] {fold(value)}"]
    lines: list[str] = [] if value else ["", "an empty input"]
    for item in value:
        if not isinstance(item, dict):
            lines += ["", f"[item] {fold(item)}"]
            continue
        extra = {key: part for key, part in item.items() if key not in ("role", "content")}
        head = f"[{item.get('role') or item.get('type') or 'item'}]"
        if set(extra) - {"type"} or ("role" not in item and extra):
            head += " " + fold(extra)
        lines += ["", head, *_render_content(item.get("content"))]
    return lines


def _render_content(content: Any) -> list[str]:
    if content is None:
        return []
    if isinstance(content, str):
        return [content]
    if not isinstance(content, list):
        return [fold(content)]
    return [
        part["text"] if isinstance(part, dict) and isinstance(part.get("text"), str) else fold(part)
        for part in content
    ]


def _section(title: str, fields: Mapping[str, Any]) -> list[str]:
    if not fields:
        return []
    return [
        "",
        f"{title}:",
        *(f"  {visible(clipped(name))}: {fold(fields[name])}" for name in sorted(fields)),
    ]


def fold(value: Any, width: int = FOLDED_WIDTH) -> str:
    """A value on one line, cut at `width` characters; says how much there is when it is cut."""
    text = rows.canonical(value)
    if len(text) <= width:
        return text
    if isinstance(value, dict):
        size = _many(len(value), "field")
    elif isinstance(value, list):
        size = _many(len(value), "item")
    else:
        size = _many(len(value) if isinstance(value, str) else len(text), "character")
    return f"{text[:width]}… ({size})"


def _many(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"
