"""Validation of rows: every kind of finding, where it is, and what passes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gymbuild.config.datasets import Dataset
from gymbuild.plan.validation import (
    KINDS,
    Report,
    input_findings,
    render_report,
    report_to_json,
    validate_rows,
)
from gymbuild.system.paths import Checkout

GOOD = '{"task_id": "a", "responses_create_params": {"input": [{"role": "user", "content": "x"}]}}'
WITH_INPUT = '"responses_create_params": {"input": "x"}'


def validate(folder: Path, content: str | bytes, strict: bool = False, **facts: Any) -> Report:
    path = folder / "rows.jsonl"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    fields = {"type": "benchmark", "prepare_script": None, "config_path": "c.yaml", "args": {}, **facts}
    ids = fields.pop("ids", "content")
    dataset = Dataset(name="d", jsonl_fpath="rows.jsonl", **fields)
    return validate_rows(str(path), dataset, Checkout(folder), strict, ids=ids)


def found(report: Report) -> dict[str, list[int | None]]:
    return {kind: [line for line, _ in findings.first] for kind, findings in report.kinds.items()}


def test_a_good_file_has_no_findings(tmp_path: Path) -> None:
    report = validate(tmp_path, GOOD + "\n\r\n" + GOOD.replace('"a"', '"b"'))
    assert report.ok
    assert (report.rows, report.errors, report.warnings) == (2, 0, 0)
    assert render_report(report) == "rows.jsonl: 2 rows, nothing to complain about"


ROWS: list[tuple[str, str | bytes, dict[str, list[int | None]]]] = [
    ("no rows", "\n \n", {"no_rows": [None]}),
    ("no UTF-8", GOOD.encode() + b'\n{"x": "\xff"}', {"not_utf8": [2]}),
    ("no JSON", GOOD + "\n{'a': 1}", {"not_json": [2]}),
    ("no object", GOOD + "\n[]\n3", {"not_an_object": [2, 3]}),
    ("a lone surrogate", '{"x": "\\ud800", ' + WITH_INPUT + "}", {"no_canonical_form": [1]}),
    ("materialized", '{"task_input": {}, ' + WITH_INPUT + "}", {"materialized": [1]}),
    ("an id twice", f"{GOOD}\n{GOOD}\n{GOOD}", {"duplicate_id": [2, 3]}),
    ("params that are not object", '{"responses_create_params": []}', {"params": [1]}),
    ("no input", '{"task_id": 1}\n{"responses_create_params": {"input": null}}', {"no_input": [1, 2]}),
    (
        "metadata that are not object",
        '{"verifier_metadata": [], ' + WITH_INPUT + '}\n{"verifier_metadata": null, ' + WITH_INPUT + "}",
        {"verifier_metadata": [1]},
    ),
    ("a byte order mark", b"\xef\xbb\xbf" + GOOD.encode(), {"byte_order_mark": [1]}),
    ("NaN", '{"x": [NaN, -Infinity], ' + WITH_INPUT + "}", {"not_a_number": [1, 1]}),
    ("a key twice", '{"x": {"a": 1, "a": 2}, ' + WITH_INPUT + "}", {"duplicate_key": [1]}),
]


@pytest.mark.parametrize(("content", "kinds"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_a_finding_says_its_line(tmp_path: Path, content: str, kinds: dict[str, list[int | None]]) -> None:
    report = validate(tmp_path, content)
    assert found(report) == kinds
    assert all(KINDS[kind][1] in render_report(report) for kind in kinds)


def test_identical_rows_without_ids_are_no_duplicates_and_explicit_ids_are_asked_for(tmp_path: Path) -> None:
    rows = ("{" + WITH_INPUT + "}\n") * 2
    assert validate(tmp_path, rows).ok
    assert found(validate(tmp_path, rows, ids="explicit")) == {"no_id": [1, 2]}


def test_twenty_findings_of_a_kind_are_listed_and_all_are_counted(tmp_path: Path) -> None:
    report = validate(tmp_path, '{"task_id": 1}\n' + '{"q": 1}\n' * 29)
    assert found(report)["no_input"] == list(range(1, 21))
    assert report.kinds["no_input"].count == 30
    assert "… and 10 more" in render_report(report)


def test_warnings_are_errors_when_strict(tmp_path: Path) -> None:
    rows = '{"x": NaN, ' + WITH_INPUT + "}"
    loose, strict = validate(tmp_path, rows), validate(tmp_path, rows, strict=True)
    assert (loose.ok, loose.errors, loose.warnings) == (True, 0, 1)
    assert (strict.ok, strict.errors, strict.warnings) == (False, 1, 0)
    assert "  error: a row holds NaN" in render_report(strict)


def test_a_template_and_rows_must_fit(tmp_path: Path) -> None:
    (tmp_path / "prompt.yaml").write_text("user: '{q:d}'")
    rows = ['{"q": 1}', '{"q": 2, ' + WITH_INPUT + "}", '{"p": 3}', '{"q": "text"}']
    report = validate(tmp_path, "\n".join(rows), prompt_config="prompt.yaml")
    assert found(report) == {"input_and_template": [2], "missing_field": [3], "unfillable": [4]}
    report = validate(tmp_path, GOOD, prompt_config="nowhere.yaml")
    assert found(report) == {"template": [None], "input_and_template": [1]}
    assert "nowhere.yaml" in render_report(report)


def test_a_file_that_is_not_there_is_a_finding(tmp_path: Path) -> None:
    dataset = Dataset("d", "benchmark", "rows.jsonl", None, "c.yaml", {})
    report = validate_rows(str(tmp_path / "rows.jsonl"), dataset, Checkout(tmp_path))
    assert found(report) == {"unreadable": [None]}


def test_an_example_dataset_has_five_rows_and_is_committed(tmp_path: Path) -> None:
    five = "".join(
        json.dumps({"task_id": n, "responses_create_params": {"input": []}}) + "\n" for n in range(5)
    )
    assert validate(tmp_path, five, type="example").ok  # no repository: nothing to ask
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], check=True)
    assert found(validate(tmp_path, five, type="example")) == {"example_not_committed": [None]}
    subprocess.run([*git, "add", "rows.jsonl"], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "x"], check=True)
    assert validate(tmp_path, five, type="example").ok
    report = validate(tmp_path, five + five.replace('_id": ', '_id": 1'), type="example")
    assert found(report) == {"example_rows": [None]}
    assert "it has 10" in render_report(report)


@pytest.mark.parametrize("kind", ["train", "validation"])
def test_train_and_validation_datasets_state_a_license(tmp_path: Path, kind: str) -> None:
    assert found(validate(tmp_path, GOOD, type=kind)) == {"no_license": [None]}
    assert validate(tmp_path, GOOD, type=kind, license="Apache-2.0").ok


@pytest.mark.parametrize(
    "value",
    [
        "text",
        [],
        [{"role": "developer", "content": "x"}],
        [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "x"}]}],
        [{"type": "function_call_output", "call_id": "1", "output": "x"}],
    ],
)
def test_what_the_api_takes_is_an_input(value: Any) -> None:
    assert not list(input_findings(value))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "input must be text or an array, and is a number"),
        (["x"], "input[0] must be an object, and is a string"),
        ([{"content": "x"}], "input[0] has no role"),
        (
            [{"role": "bot", "content": "x"}],
            'input[0].role must be one of user, assistant, system, developer, and is "bot"',
        ),
        ([{"role": "user"}], "input[0] has no content"),
        ([{"role": "user", "content": 3}], "input[0].content must be text or an array, and is a number"),
        ([{"role": "user", "content": ["x"]}], "input[0].content[0] must be an object that names its type"),
        ([{"type": 1}], "input[0].type must be text, and is a number"),
    ],
)
def test_what_the_api_does_not_take_is_told(value: Any, text: str) -> None:
    assert list(input_findings(value)) == [text]


def test_the_report_is_there_for_other_programs(tmp_path: Path) -> None:
    report = report_to_json(validate(tmp_path, '{"x": NaN}\n' + GOOD))
    assert json.loads(json.dumps(report))["findings"] == [
        {
            "kind": "no_input",
            "severity": "error",
            "text": KINDS["no_input"][1],
            "count": 1,
            "first": [{"line": 1, "text": ""}],
        },
        {
            "kind": "not_a_number",
            "severity": "warning",
            "text": KINDS["not_a_number"][1],
            "count": 1,
            "first": [{"line": 1, "text": "NaN"}],
        },
    ]
    assert (report["ok"], report["rows"], report["errors"], report["warnings"]) == (False, 2, 1, 1)
