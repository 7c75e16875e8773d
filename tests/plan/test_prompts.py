"""Prompt templates: what is allowed in them, and errors that name the file, the rows and the field."""

from __future__ import annotations

from pathlib import Path

import pytest

from gymbuild.plan.prompts import FilledAlreadyError, MissingFieldError, fill, load_prompt
from gymbuild.system.errors import PlanError


def template(folder: Path, text: str) -> str:
    path = folder / "prompt.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("user: '{row.__class__}'", "{row.__class__}: a field is the plain name"),
        ("user: '{row[0]}'", "{row[0]}: a field is the plain name"),
        ("user: '{}'", "a field must have a name"),
        ("user: '{0}'", "a field must have a name"),
        ("user: '{'", "write a literal brace twice"),
        ("user: '{x:{y.z}}'", "{y.z}: a field is the plain name"),
        ("system: x", "user: is missing"),
        ("user: [a]", "user: must be text"),
        ("user: x\nsystem: 3", "system: must be text"),
        ("- a", "must be a mapping"),
        ("user: 'a\nx: b: c", "is not YAML"),
    ],
)
def test_a_template_that_cannot_be_used_is_an_error_for_the_reader(
    tmp_path: Path, text: str, message: str
) -> None:
    path = template(tmp_path, text)
    with pytest.raises(PlanError) as caught:
        load_prompt(path)
    assert message in str(caught.value)
    assert path in str(caught.value)


def test_other_fields_of_the_params_stay_and_the_row_is_not_changed(tmp_path: Path) -> None:
    prompt = load_prompt(template(tmp_path, "user: '{q} {{x}}'\nsystem: s"))
    row = {"q": "hi", "responses_create_params": {"temperature": 0.5, "input": []}}
    filled = fill(prompt, row)
    assert filled["responses_create_params"] == {
        "temperature": 0.5,
        "input": [{"role": "system", "content": "s"}, {"role": "user", "content": "hi {x}"}],
    }
    assert row["responses_create_params"] == {"temperature": 0.5, "input": []}


def test_a_missing_field_and_an_input_that_is_there_are_told_apart(tmp_path: Path) -> None:
    prompt = load_prompt(template(tmp_path, "user: '{q}'"))
    with pytest.raises(MissingFieldError, match="'q'"):
        fill(prompt, {})
    with pytest.raises(FilledAlreadyError):
        fill(prompt, {"q": 1, "responses_create_params": {"input": "x"}})
    with pytest.raises(PlanError, match="cannot be filled"):
        fill(load_prompt(template(tmp_path, "user: '{q:d}'")), {"q": "text"})
