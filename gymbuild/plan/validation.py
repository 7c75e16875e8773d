"""What is wrong with the rows of a prepared file: findings by kind, each with the lines where it was met.

The form of messages is that of the `input` of OpenAI's Responses API: text, or a list of items; an item is a
message (`role`, `content`), or names its `type`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from gymbuild.config.datasets import Dataset
from gymbuild.plan import rows
from gymbuild.plan.prompts import Prompt, fill, load_prompt
from gymbuild.system.errors import PlanError
from gymbuild.system.git import is_tracked
from gymbuild.system.paths import Checkout

MOST_FINDINGS = 20
"""How many findings of a kind are listed; the rest is counted."""
EXAMPLE_ROWS = 5
"""Rows of an `example` dataset."""
ROLES = ("user", "assistant", "system", "developer")
"""Who can say a message."""

Severity = Literal["error", "warning"]

KINDS: dict[str, tuple[Severity, str]] = {
    "unreadable": ("error", "the prepared file cannot be read"),
    "no_rows": ("error", "the prepared file has no rows"),
    "not_utf8": ("error", "a row is not UTF-8"),
    "not_json": ("error", "a row is not JSON"),
    "not_an_object": ("error", "a row is not a JSON object"),
    "no_canonical_form": ("error", "a row has no canonical form, so no digest"),
    "materialized": ("error", "a row is a materialized task, not a dataset row"),
    "duplicate_id": ("error", "a task id is there more than once"),
    "params": ("error", "responses_create_params is not an object"),
    "no_input": ("error", "a row has no responses_create_params.input, and no prompt template makes it"),
    "input_form": ("error", "responses_create_params.input is not in OpenAI's message form"),
    "input_and_template": ("error", "a row has an input already, and prompt_config is to make it"),
    "template": ("error", "the prompt template cannot be used"),
    "missing_field": ("error", "a row lacks a field that the prompt template takes"),
    "unfillable": ("error", "the prompt template cannot be filled from a row"),
    "verifier_metadata": ("error", "verifier_metadata is not an object"),
    "example_rows": ("error", f"an example dataset has exactly {EXAMPLE_ROWS} rows"),
    "example_not_committed": ("error", "an example dataset is committed"),
    "no_license": ("error", "train and validation datasets state a license"),
    "no_id": ("error", "a row has no task_id, problem_id or instance_id, and plan_ids=explicit asks for one"),
    "byte_order_mark": ("warning", "the file begins with a byte order mark"),
    "not_a_number": ("warning", "a row holds NaN or Infinity, which is Python's JSON and nobody else's"),
    "duplicate_key": ("warning", "an object has a key more than once; the last one counts"),
}
"""Every kind of finding: its severity, and what it says."""


@dataclass(slots=True)
class Findings:
    """What was found of one kind."""

    kind: str
    count: int = 0
    first: list[tuple[int | None, str]] = field(default_factory=list)
    """The first of them: line (None when it is about the file), and what was met there."""

    @property
    def severity(self) -> Severity:
        """`error`, or `warning`."""
        return KINDS[self.kind][0]

    @property
    def text(self) -> str:
        """What this kind is, as a sentence without its end."""
        return KINDS[self.kind][1]


@dataclass(slots=True)
class Report:
    """What is wrong with a prepared file."""

    jsonl: str
    """The file, relative to the checkout when inside it."""
    strict: bool = False
    """Whether warnings count as errors."""
    rows: int = 0
    kinds: dict[str, Findings] = field(default_factory=dict)

    def add(self, kind: str, line: int | None, text: str = "") -> None:
        """One more finding.

        Args:
            kind: one of `KINDS`.
            line: where, from 1; None for the file as a whole.
            text: what was met there.
        """
        found = self.kinds.setdefault(kind, Findings(kind))
        found.count += 1
        if len(found.first) < MOST_FINDINGS:
            found.first.append((line, text))

    @property
    def findings(self) -> list[Findings]:
        """What was found, errors first."""
        order = list(KINDS)
        return sorted(
            self.kinds.values(), key=lambda found: (found.severity != "error", order.index(found.kind))
        )

    @property
    def errors(self) -> int:
        """Findings that fail: errors, and warnings too when strict."""
        return sum(found.count for found in self.kinds.values() if self.strict or found.severity == "error")

    @property
    def warnings(self) -> int:
        """Findings that do not fail."""
        return sum(found.count for found in self.kinds.values()) - self.errors

    @property
    def ok(self) -> bool:
        """Whether nothing fails."""
        return self.errors == 0


def validate_rows(
    jsonl: str,
    dataset: Dataset,
    checkout: Checkout,
    strict: bool = False,
    *,
    ids: Literal["content", "explicit"] = "content",
) -> Report:
    """Look at every row of a prepared file, and at what its dataset's type asks for.

    Args:
        jsonl: the prepared file, absolute.
        dataset: the dataset, for its type, license and prompt template.
        checkout: the checkout.
        strict: whether warnings count as errors.
        ids: `explicit` asks for an id in every row.
    """
    report = Report(checkout.relative(jsonl), strict)
    prompt = None
    if dataset.prompt_config:
        try:
            prompt = load_prompt(checkout.absolute(dataset.prompt_config))
        except PlanError as error:
            report.add("template", None, str(error))
    seen = _Seen({}, {})
    try:
        with open(jsonl, "rb") as file:
            if file.read(len(rows.BOM)) == rows.BOM:
                report.add("byte_order_mark", 1)
        for number, line in rows.lines_of(jsonl):
            report.rows += 1
            for kind, text in _row_findings(line, number, bool(dataset.prompt_config), prompt, ids, seen):
                report.add(kind, number, text)
    except OSError as error:
        report.add("unreadable", None, error.strerror or str(error))
        return report
    except PlanError as error:
        report.add("unreadable", None, str(error))
        return report
    if not report.rows:
        report.add("no_rows", None)
    for kind, text in _dataset_findings(jsonl, dataset, checkout, report.rows):
        report.add(kind, None, text)
    return report


@dataclass(slots=True)
class _Seen:
    lines: dict[str, int]
    """Task ids that were met, with the line where each was first."""
    repeats: dict[str, int]
    """Content ids, with how often each was met."""


def _row_findings(
    line: bytes,
    number: int,
    has_template: bool,
    prompt: Prompt | None,
    ids: Literal["content", "explicit"],
    seen: _Seen,
) -> Iterator[tuple[str, str]]:
    notes: list[tuple[str, str]] = []
    row = _parsed(line, notes)
    yield from notes
    if not isinstance(row, dict):
        return
    try:
        data = rows.canonical_bytes(rows.task_input(row))
    except rows.RowError as error:
        yield "no_canonical_form", str(error)
        return
    try:
        task_id = rows.explicit_id(row)
    except rows.RowError as error:
        yield "materialized", str(error)
        return
    if task_id is None and ids == "explicit":
        yield "no_id", ""
    else:
        if task_id is None:
            task_id = rows.content_id(data)
            seen.repeats[task_id] = seen.repeats.get(task_id, 0) + 1
            if seen.repeats[task_id] > 1:
                task_id += f"-{seen.repeats[task_id]}"
        before = seen.lines.setdefault(task_id, number)
        if before != number:
            yield "duplicate_id", f"{task_id!r}, as in line {before}"
    if "verifier_metadata" in row and not isinstance(row["verifier_metadata"], dict | None):
        yield "verifier_metadata", f"it is {rows.kind(row['verifier_metadata'])}"
    yield from _input_findings(row, has_template, prompt)


def _parsed(line: bytes, notes: list[tuple[str, str]]) -> Any:
    """The row, or None; what was noticed on the way goes to `notes`."""

    def constant(name: str) -> float:
        notes.append(("not_a_number", name))
        return float(name)

    def pairs(members: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(members)
        if len(made) < len(members):
            keys = [key for key, _ in members]
            twice = sorted({key for key in keys if keys.count(key) > 1})
            notes.append(("duplicate_key", ", ".join(map(repr, twice))))
        return made

    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        notes.append(("not_utf8", f"byte {error.start + 1} of the line"))
        return None
    try:
        row = rows.any_size(lambda: json.loads(text, parse_constant=constant, object_pairs_hook=pairs))
    except (ValueError, RecursionError) as error:
        notes[:] = [("not_json", str(error))]
        return None
    if not isinstance(row, dict):
        notes[:] = [("not_an_object", f"it is {rows.kind(row)}")]
        return None
    return row


def _input_findings(
    row: Mapping[str, Any], has_template: bool, prompt: Prompt | None
) -> Iterator[tuple[str, str]]:
    params = row.get("responses_create_params")
    if params is not None and not isinstance(params, dict):
        yield "params", f"it is {rows.kind(params)}"
        return
    given = (params or {}).get("input")
    if not has_template:
        if given is None:
            yield "no_input", ""
        else:
            for text in input_findings(given):
                yield "input_form", text
        return
    if given:
        yield "input_and_template", ""
    if prompt is None:
        return  # the template cannot be used, which is a finding of its own
    missing = sorted(name for name in prompt.fields if name not in row)
    for name in missing:
        yield "missing_field", repr(name)
    if not missing and not given:
        try:
            fill(prompt, row)
        except rows.RowError as error:
            yield "unfillable", str(error)


def input_findings(value: Any) -> Iterator[str]:
    """What keeps a value from being an input in OpenAI's message form; nothing when it is one.

    Args:
        value: of `responses_create_params.input`.
    """
    if isinstance(value, str):
        return
    if not isinstance(value, list):
        yield f"input must be text or an array, and is {rows.kind(value)}"
        return
    for index, item in enumerate(value):
        yield from (f"input[{index}]{text}" for text in _item_findings(item))


def _item_findings(item: Any) -> Iterable[str]:
    if not isinstance(item, dict):
        yield f" must be an object, and is {rows.kind(item)}"
        return
    named = item.get("type", "message")
    if not isinstance(named, str):
        yield f".type must be text, and is {rows.kind(named)}"
    elif named == "message":
        if "role" not in item:
            yield " has no role"
        elif item["role"] not in ROLES:
            yield f".role must be one of {', '.join(ROLES)}, and is {rows.canonical(item['role'])}"
        if "content" not in item:
            yield " has no content"
        else:
            yield from _content_findings(item["content"])


def _content_findings(content: Any) -> Iterable[str]:
    if isinstance(content, str):
        return
    if not isinstance(content, list):
        yield f".content must be text or an array, and is {rows.kind(content)}"
        return
    for index, part in enumerate(content):
        if not isinstance(part, dict) or not isinstance(part.get("type"), str):
            yield f".content[{index}] must be an object that names its type"


def _dataset_findings(
    jsonl: str, dataset: Dataset, checkout: Checkout, count: int
) -> Iterator[tuple[str, str]]:
    if dataset.type == "example":
        if count != EXAMPLE_ROWS:
            yield "example_rows", f"it has {count:,}"
        if is_tracked(checkout.absolute(jsonl)) is False:
            yield "example_not_committed", f"git does not have {checkout.relative(jsonl)}"
    if dataset.type in ("train", "validation") and not dataset.license:
        yield "no_license", f"{dataset.config_path}: {dataset.name}: license: is missing"


def render_report(report: Report) -> str:
    """A report for a person: one line when all is well, else the findings by kind, errors first."""
    head = f"{report.jsonl}: {report.rows:,} {'row' if report.rows == 1 else 'rows'}"
    if not report.kinds:
        return f"{head}, nothing to complain about"
    lines = [f"{head}, {_count(report.errors, 'error')}, {_count(report.warnings, 'warning')}"]
    for found in report.findings:
        severity = "error" if report.strict else found.severity
        lines.append(f"  {severity}: {found.text} ({found.count:,})")
        for line, text in found.first:
            place = f"line {line}" if line is not None else ""
            said = ": ".join(part for part in (place, text) if part)
            if said:
                lines.append(f"    {said}")
        if found.count > len(found.first):
            lines.append(f"    … and {found.count - len(found.first):,} more")
    return "\n".join(lines)


def report_to_json(report: Report) -> dict[str, Any]:
    """A report for other programs."""
    return {
        "jsonl_fpath": report.jsonl,
        "rows": report.rows,
        "ok": report.ok,
        "errors": report.errors,
        "warnings": report.warnings,
        "findings": [
            {
                "kind": found.kind,
                "severity": "error" if report.strict else found.severity,
                "text": found.text,
                "count": found.count,
                "first": [{"line": line, "text": text} for line, text in found.first],
            }
            for found in report.findings
        ],
    }


def _count(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"
