"""`validate:<benchmark>`: rows checked after they are prepared, and the datasets beside them."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.tasks.conftest import Project

GOOD = "rows = [{'task_id': str(i), 'responses_create_params': {'input': [{'role': 'user', 'content': 'q'}]}} for i in range(size)]"


def example(project: Project, rows: int) -> None:
    data = project.path("benchmarks/alpha/data/example.jsonl")
    data.parent.mkdir(exist_ok=True)
    row = {"task_id": "x", "responses_create_params": {"input": "q"}}
    data.write_text("".join(json.dumps({**row, "task_id": str(number)}) + "\n" for number in range(rows)))
    config = project.path("benchmarks/alpha/config.yaml")
    text = config.read_text()
    if "example" not in text:
        text = text.replace(
            "policy_model:\n",
            "      - name: alpha_example\n        type: example\n        jsonl_fpath: benchmarks/alpha/data/example.jsonl\npolicy_model:\n",
            1,
        )
        config.write_text(text)


def write_rows(project: Project, text: str) -> None:
    """Add alpha, whose script writes exactly this."""
    project.add("alpha", "rows = []")
    script = project.path("benchmarks/alpha/prepare.py")
    script.write_text(
        script.read_text().replace("    return OUT", f"    OUT.write_text({text!r})\n    return OUT")
    )


def git(project: Project, *words: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, *words], cwd=project.root, check=True, capture_output=True)


def test_good_rows_are_validated_once_they_are_prepared_and_not_again(project: Project) -> None:
    project.add("alpha", GOOD)
    said = project.run("validate:alpha")
    assert "prepare:alpha prepared" in said
    assert "alpha.jsonl: 3 rows, nothing to complain about" in said
    said = project.run("validate:alpha")
    assert "-- validate:alpha" in said and "rows" not in said
    assert project.runs("alpha") == 1


def test_rows_that_changed_are_validated_again(project: Project) -> None:
    project.add("alpha", GOOD)
    project.run("validate:alpha")
    script = project.path("benchmarks/alpha/prepare.py")
    script.write_text(script.read_text().replace("'content': 'q'", "'text': 'q'"))
    said = project.run("validate:alpha", code=1)
    assert "input[0] has no content" in said
    assert project.runs("alpha") == 2


def test_findings_have_line_numbers_and_twenty_of_a_kind_are_listed(project: Project) -> None:
    project.add("alpha", "rows = [{'task_id': str(i)} for i in range(size)]", signature="size: int = 50")
    said = project.run("validate:alpha", code=1)
    assert "FAILED validate:alpha" in said
    assert "no responses_create_params.input, and no prompt template makes it (50)" in said
    assert "line 20\n" in said and "line 21\n" not in said
    assert "… and 30 more" in said


def test_an_input_and_a_prompt_template_are_not_both_allowed(project: Project) -> None:
    project.write("benchmarks/prompt.yaml", "user: 'x'\n")
    project.add("alpha", GOOD, dataset="prompt_config: benchmarks/prompt.yaml")
    assert "has an input already, and prompt_config is to make it" in project.run("validate:alpha", code=1)


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (
            '{"task_id": "0", "responses_create_params": {"input": "q"}, "verifier_metadata": []}',
            "verifier_metadata",
        ),
        ('{"task_id": "1", "responses_create_params": {"input": 5}}', "input must be text or an array"),
        ('{"task_id": "0", "responses_create_params": {"input": "q"}}\n' * 2, "more than once"),
    ],
)
def test_what_no_run_could_take_is_an_error(project: Project, row: str, text: str) -> None:
    write_rows(project, row)
    said = project.run("validate:alpha", code=1)
    assert text in said
    assert "Traceback" not in said


def test_strict_makes_warnings_errors(project: Project) -> None:
    write_rows(project, '{"task_id": "1", "task_id": "2", "responses_create_params": {"input": "q"}}')
    said = project.run("validate:alpha")
    assert "warning: an object has a key more than once" in said and "line 1: 'task_id'" in said
    for words in (
        ("validate:alpha", "--strict"),
        ("--strict", "validate:alpha"),
        ("validate", "strict=true"),
    ):
        assert "error: an object has a key more than once" in project.run(*words, code=1)
    assert "-- validate:alpha" in project.run("validate:alpha")


def test_example_datasets_have_five_rows(project: Project) -> None:
    project.add("alpha", GOOD)
    example(project, 4)
    said = project.run("validate:alpha", code=1)
    assert "example.jsonl: 4 rows, 1 error" in said
    assert "an example dataset has exactly 5 rows" in said
    example(project, 5)
    assert "example.jsonl: 5 rows, nothing to complain about" in project.run("validate:alpha")


def test_example_datasets_are_committed(project: Project) -> None:
    project.add("alpha", GOOD)
    example(project, 5)
    git(project, "init", "-q")
    assert "an example dataset is committed" in project.run("validate:alpha", code=1)
    git(project, "add", "benchmarks/alpha/data/example.jsonl")
    git(project, "commit", "-q", "-m", "example")
    project.run("validate:alpha")


def test_an_example_that_is_not_there_is_an_error(project: Project) -> None:
    project.add("alpha", GOOD)
    example(project, 5)
    project.path("benchmarks/alpha/data/example.jsonl").unlink()
    assert "cannot be read" in project.run("validate:alpha", code=1)


@pytest.mark.parametrize("kind", ["train", "validation"])
def test_a_dataset_for_training_has_a_license(project: Project, kind: str) -> None:
    project.add("alpha", GOOD)
    config = project.path("benchmarks/alpha/config.yaml")
    entry = (
        f"      - name: more\n        type: {kind}\n        jsonl_fpath: benchmarks/alpha/data/more.jsonl\n"
    )
    config.write_text(config.read_text().replace("policy_model:\n", entry + "policy_model:\n", 1))
    said = project.run("validate:alpha", code=3)
    assert "license" in said
    assert project.runs("alpha") == 0


def test_the_group_validates_every_benchmark_and_one_failure_does_not_stop_the_others(
    project: Project,
) -> None:
    project.add("alpha", GOOD)
    project.add("beta", "rows = [{'task_id': '1'}]")
    said = project.run("validate", code=1)
    assert "benchmarks/alpha/data/alpha.jsonl: 3 rows, nothing to complain about" in said
    assert "FAILED validate:beta" in said
    assert "validate:zeta" not in said
    assert project.run("validate:zeta", code=3)


def test_the_benchmarks_that_ship_are_good(shipped: Project) -> None:
    said = shipped.doit("validate:state_tracking", "--strict")
    assert "state_tracking_benchmark.jsonl: 200 rows, nothing to complain about" in said
    assert "data/example.jsonl: 5 rows, nothing to complain about" in said
