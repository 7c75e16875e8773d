"""`rows`: tasks as a run would receive them."""

from __future__ import annotations

import json
import shutil
from hashlib import sha256

import pytest

from tests.commands.conftest import Make
from tests.tasks.conftest import Project

ROWS = """
rows = [
    {'task_id': f't{i}', 'question': f'q{i}', 'agent_ref': {'name': 'a'}, 'verifier_metadata': {'long': 'x' * 900}}
    for i in range(size)
]
"""


def build(project: Project) -> None:
    project.write("benchmarks/prompt.yaml", "system: 'Be brief.'\nuser: |-\n  Say:\n  {question}\n")
    project.add("alpha", ROWS, signature="size: int = 5", dataset="prompt_config: benchmarks/prompt.yaml")
    project.run("plan:alpha")
    shutil.copy(project.path(".cache/plans/alpha.json"), project.path("kept.json"))


@pytest.fixture
def planned(copy_of: Make) -> Project:
    """A checkout with alpha's plan, and a copy of it as kept.json."""
    return copy_of(build)


def test_messages_are_rendered_and_the_rest_is_folded(planned: Project) -> None:
    said = planned.run("rows", "alpha", "t1")
    assert "[system]\nBe brief.\n" in said
    assert "[user]\nSay:\nq1\n" in said
    assert "x" * 900 not in said and "verifier_metadata: " in said
    assert "agent_ref" not in said


def test_without_an_id_the_first_tasks_and_that_there_are_more(planned: Project) -> None:
    said = planned.run("rows", "alpha")
    assert [f"\nq{number}\n" in said for number in range(5)] == [True, True, True, False, False]
    assert "there are more" in said
    assert "there are more" not in planned.run("rows", "alpha", "--limit", "0")


def test_json_is_the_exact_input_whose_digest_the_plan_has(planned: Project) -> None:
    found = json.loads(planned.run("rows", "alpha", "--json"))
    plan = {
        task["task_id"]["task_id"]: task["digest"]
        for task in json.loads(planned.path("kept.json").read_text())["tasks"]
    }
    assert {task["task_id"]: task["digest"] for task in found} == plan
    for task in found:
        data = json.dumps(task["task_input"], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        assert "sha256:" + sha256(data.encode()).hexdigest() == task["digest"]


def test_a_plan_shows_its_own_tasks_after_the_prompt_has_changed(planned: Project) -> None:
    prompt = planned.path("benchmarks/prompt.yaml")
    prompt.write_text(prompt.read_text().replace("Say", "Tell"))
    assert "Tell:\nq1\n" in planned.run("rows", "alpha", "t1")
    assert "Say:\nq1\n" in planned.run("rows", "kept.json", "t1")


def test_a_plan_shows_its_own_tasks_after_the_rows_have_changed(planned: Project) -> None:
    script = planned.path("benchmarks/alpha/prepare.py")
    script.write_text(script.read_text().replace("f'q{i}'", "f'other {i}'"))
    said = planned.run("rows", "alpha", "t1")
    assert "note: prepare:alpha is stale" in said
    planned.run("plan:alpha")
    assert "Say:\nother 1\n" in planned.run("rows", "alpha", "t1")
    assert "Say:\nq1\n" in planned.run("rows", "kept.json", "t1")


def test_the_plan_of_rows_that_are_gone_says_so(planned: Project) -> None:
    shutil.rmtree(planned.path(".cache"))
    planned.path("benchmarks/alpha/data/alpha.jsonl").unlink()
    said = planned.run("rows", "kept.json", code=1)
    assert "neither in the prepared file nor in the store" in said
    assert "doit prepare:alpha" in planned.run("rows", "alpha", code=3)


def test_several_ids_in_their_order(planned: Project) -> None:
    said = planned.run("rows", "alpha", "t4", "--id=t0")
    assert said.index("q4") < said.index("q0")


def test_ids_of_every_kind_are_found(project: Project) -> None:
    project.add(
        "alpha",
        "ids = ['', ' a ', 'a=b', '--json', 'new\\nline', 7, 1.5, True, '\\u00e9', 'e\\u0301', 'x' * 10**6]\n"
        "rows = [{'task_id': name, 'n': n} for n, name in enumerate(ids)] + [{'problem_id': False, 'n': 11}]",
    )
    project.run("plan:alpha")
    named = ["", " a ", "a=b", "--json", "new\nline", "7", "1.5", "True", "\u00e9", "e\u0301", None, "False"]
    for n, name in enumerate(named):
        if name is None:
            continue
        said = project.run("rows", "alpha", *(["--", name] if "=" not in name else [f"--id={name}"]))
        assert f"(line {n + 1}, sha256:" in said and f"  n: {n}\n" in said
    assert '"" ' in project.run("rows", "alpha", "")
    assert "new\\u000aline   (line 5" in project.run("rows", "alpha", "new\nline")
    lines = project.run("rows", "alpha", "--limit", "0").splitlines()
    assert max(map(len, lines)) < 400
    assert "has no task 'nope'" in project.run("rows", ".cache/plans/alpha.json", "nope", code=3)


def test_rows_cannot_drive_a_terminal(project: Project) -> None:
    project.add(
        "alpha", "rows = [{'task_id': 'a', 'responses_create_params': {'input': '\\x1b[2Jhello\\u202e'}}]"
    )
    project.run("prepare:alpha")
    said = project.run("rows", "alpha")
    assert "\\u001b[2Jhello\\u202e" in said
    assert "\x1b" not in said


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "name a benchmark or a plan file"),
        (("alfa",), "The nearest are alpha"),
        (("alpha", "t9"), "alpha has no task 't9'"),
        (("kept.json", "t9"), "the nearest are 't"),
        (("benchmarks/alpha/config.yaml",), "is not a plan"),
    ],
)
def test_what_is_not_there_is_a_usage_error(planned: Project, words: tuple[str, ...], text: str) -> None:
    said = planned.run("rows", *words, code=3)
    assert text in said
    assert "Traceback" not in said
