"""Canonical JSON and digests equal a plain `json.dumps` + `hashlib` reference, and bad rows are errors that name them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gymbuild.plan.plan import build_plan
from gymbuild.system.errors import PlanError

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=2**62, max_value=2**70)
    | st.floats(allow_nan=True, allow_infinity=True)
    | st.text(st.characters(exclude_categories=["Cs"]))
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)
KEYS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.sampled_from(
    ["agent_ref", "task_source", "skills_ref", "_ng_x", "question", "responses_create_params"]
)
ROWS = st.lists(
    st.dictionaries(KEYS.filter(lambda key: key != "task_input"), VALUES, max_size=6), min_size=1, max_size=5
)


def build(path: Path, **options: Any) -> list[tuple[str, str]]:
    arguments = {"taskset": None, "config_paths": [], "prompt": None, "gym_version": "0", "gym_commit": None}
    return list(build_plan(str(path), benchmark="b", **{**arguments, **options}).tasks)


def reference(line: str) -> tuple[str | None, str]:
    """The id and digest of one row, in the plainest way."""
    row = json.loads(line)
    task_id = next(
        (str(row[k]) for k in ("task_id", "problem_id", "instance_id") if row.get(k) is not None), None
    )
    content = {
        key: value
        for key, value in row.items()
        if key not in ("agent_ref", "task_source", "skills_ref") and not key.startswith("_ng_")
    }
    data = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    return task_id, "sha256:" + hashlib.sha256(data).hexdigest()


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS, ascii_only=st.booleans(), spaces=st.booleans())
def test_digests_are_those_of_the_reference(
    tmp_path: Path, rows: list[Any], ascii_only: bool, spaces: bool
) -> None:
    separators = None if spaces else (",", ":")
    for number, row in enumerate(rows):
        row["task_id"] = f"t{number}"
        row.pop("problem_id", None)
    lines = [json.dumps(row, ensure_ascii=ascii_only, separators=separators) for row in rows]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    assert sorted(build(path)) == sorted(reference(line) for line in lines)  # type: ignore[type-var]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS, data=st.data())
def test_any_mutation_of_bytes_is_a_plan_of_the_reference_or_an_error_for_the_reader(
    tmp_path: Path, rows: list[Any], data: st.DataObject
) -> None:
    raw = bytearray("\n".join(json.dumps(row, ensure_ascii=False) for row in rows).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(raw)))
        raw[place : place + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
    path = tmp_path / "rows.jsonl"
    path.write_bytes(bytes(raw))
    try:
        tasks = build(path)
    except PlanError as error:
        assert "Traceback" not in str(error)
        return
    lines = [line for line in bytes(raw).removeprefix(b"\xef\xbb\xbf").split(b"\n") if line.strip()]
    digests = sorted(reference(line.decode())[1] for line in lines)
    assert sorted(digest for _, digest in tasks) == digests


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"task_id": "a"}\n{"task_id": "b", "x": "\\ud800"}\n', ":2: the row holds U+D800"),
        (b'{"task_id": "a"}\n[1]\n', ":2: a row must be a JSON object, and this is an array"),
        (b'{"task_id": "a"}\n{"task_id": \n', ":2: not JSON"),
        (b'{"task_id": "\xff"}\n', ":1: not UTF-8"),
        (b'{"task_id": {"a": 1}}\n', ":1: the row is a materialized task"),
        (b'{"task_id": "a", "task_input": {}}\n', ":1: the row is a materialized task"),
        (b"\n \n", "has no rows"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(content)
    with pytest.raises(PlanError) as caught:
        build(path)
    assert f"{path}{message}" in str(caught.value) or message in str(caught.value)


def test_line_ends_blank_lines_a_mark_and_a_missing_last_newline_change_nothing(tmp_path: Path) -> None:
    plain, odd = tmp_path / "plain.jsonl", tmp_path / "odd.jsonl"
    plain.write_bytes(b'{"task_id":"a"}\n{"task_id":"b"}\n')
    odd.write_bytes(b'\xef\xbb\xbf{"task_id":"a"}\r\n\r\n  \n{"task_id":"b"}')
    assert build(plain) == build(odd)


def test_the_first_ten_duplicate_ids_are_listed(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"task_id": i % 12, "n": i}) + "\n" for i in range(24)))
    with pytest.raises(PlanError) as caught:
        build(path)
    assert "'0' (rows 1, 13)" in str(caught.value)
    assert "'9' (rows 10, 22) and 2 more" in str(caught.value)


def test_an_explicit_id_that_equals_a_content_id_is_a_duplicate(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"q": 1}\n')
    ((content_id, _),) = build(path)
    path.write_text('{"q": 1}\n' + json.dumps({"task_id": content_id}) + "\n")
    with pytest.raises(PlanError, match="must be unique"):
        build(path)


def test_duplicate_keys_in_one_object_the_last_wins(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"task_id": "a", "x": 1, "x": 2}\n')
    ((_, digest),) = build(path)
    assert digest == reference('{"task_id": "a", "x": 2}')[1]
