"""Plans from the command line: selection, ids, commit, output path, and what they depend on."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from tests.tasks.conftest import Project


def plan_of(project: Project, name: str = "alpha") -> dict:
    return json.loads(project.path(f".cache/plans/{name}.json").read_text())


def test_the_plan_lists_every_task(project: Project) -> None:
    project.add("alpha")
    project.run("plan:alpha")
    plan = plan_of(project)
    assert plan["schema"] == "nemo-gym.eval-plan.v1"
    assert plan["benchmark"] == {"config_paths": ["benchmarks/alpha/config.yaml"], "name": "alpha"}
    assert plan["gym"] == {"commit": None, "version": "0.0.0"}
    assert [task["task_id"]["task_id"] for task in plan["tasks"]] == ["0", "1", "2"]


def test_selected_ids_are_text(project: Project) -> None:
    project.add("alpha", "rows = [{'task_id': x} for x in ('007', '1e3', 'no', 'a,b')]")
    out = project.root.parent / "selected.json"
    project.run("plan:alpha", 'plan_task_ids=[no,007,1e3,"a,b"]', f"plan_output_fpath={out}")
    assert json.loads(out.read_text())["selected_task_ids"] == ["007", "1e3", "a,b", "no"]
    said = project.run("plan:alpha", "plan_task_ids=[7]", code=3)
    assert "'7'" in said


def test_rows_without_ids_get_one_from_their_content_unless_refused(project: Project) -> None:
    project.add("alpha", "rows = [{'question': 'q'}, {'question': 'q'}]")
    project.run("plan:alpha")
    ids = [task["task_id"]["task_id"] for task in plan_of(project)["tasks"]]
    assert ids[1] == ids[0] + "-2"
    assert "plan_ids=explicit" in project.run("plan:alpha", "plan_ids=explicit", code=1)


def test_a_prompt_template_is_an_input_of_the_plan_alone(project: Project) -> None:
    project.write("benchmarks/prompt.yaml", "user: 'Say: {question}'\n")
    project.add("alpha", dataset="prompt_config: benchmarks/prompt.yaml")
    project.run("plan")
    before = plan_of(project)
    project.write("benchmarks/prompt.yaml", "user: 'Tell: {question}'\n")
    said = project.run("plan")
    assert "plan:alpha written" in said
    assert project.runs("alpha") == 1
    after = plan_of(project)
    assert [t["task_id"] for t in before["tasks"]] == [t["task_id"] for t in after["tasks"]]
    assert [t["digest"] for t in before["tasks"]] != [t["digest"] for t in after["tasks"]]


def test_a_template_that_takes_a_field_no_row_has_names_the_rows_and_the_field(project: Project) -> None:
    project.write("benchmarks/prompt.yaml", "user: '{answer}'\n")
    project.add("alpha", dataset="prompt_config: benchmarks/prompt.yaml")
    said = project.run("plan", code=1)
    assert "no field 'answer'" in said
    assert "3 rows (1, 2, 3)" in said


def test_the_commit_is_in_the_plan_only_when_asked_for(project: Project) -> None:
    project.add("alpha")
    project.write(".gitignore", ".cache/\n*.jsonl\n")

    def git(*words: str) -> str:
        identity = ["-c", "user.name=x", "-c", "user.email=x@example.invalid"]
        return subprocess.run(
            ["git", *identity, *words], cwd=project.root, check=True, capture_output=True, text=True
        ).stdout.strip()

    project.run("plan:alpha", "plan_commit=true")
    assert plan_of(project)["gym"]["commit"] is None
    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "x")
    project.run("plan:alpha", "plan_commit=true")
    head = git("rev-parse", "HEAD")
    assert plan_of(project)["gym"]["commit"] == head
    project.write("untracked.txt", "x")
    project.run("plan:alpha", "plan_commit=true")
    assert plan_of(project)["gym"]["commit"] == head
    project.write(".gitignore", ".cache/\n*.jsonl\nuntracked.txt\n")
    project.run("plan:alpha", "plan_commit=true")
    assert plan_of(project)["gym"]["commit"] == head + "-dirty"
    project.run("plan:alpha")
    assert plan_of(project)["gym"]["commit"] is None


def test_the_version_is_the_checkouts_own(project: Project) -> None:
    project.add("alpha")
    project.write("pyproject.toml", '[project]\nname = "x"\nversion = "1.2.3"\n')
    project.run("plan:alpha")
    assert plan_of(project)["gym"]["version"] == "1.2.3"
    project.write("nemo_gym/package_info.py", 'MAJOR = 0\nMINOR = 7\nPATCH = 0\nPRE_RELEASE = "rc1"\n')
    project.run("plan:alpha")
    assert plan_of(project)["gym"]["version"] == "0.7.0rc1"


def test_schemas_describe_what_is_written(project: Project) -> None:
    schema = json.loads(project.run("schema", "plan"))
    project.add("alpha")
    project.run("plan:alpha")
    from gymbuild.plan.schema import EvalPlan

    EvalPlan.model_validate(plan_of(project))
    assert set(schema["required"]) == set(plan_of(project))
    assert json.loads(project.run("schema", "row"))["type"] == "object"


@pytest.mark.parametrize("setting", ["plan_output_fpath=x.json", "plan_task_ids=[a]"])
def test_settings_for_one_plan_need_one_plan(project: Project, setting: str) -> None:
    project.add("alpha")
    project.add("beta")
    assert "name one" in project.run("plan", setting, code=3)


def test_the_same_plan_whatever_the_folder_locale_hash_seed_or_time_zone(project: Project) -> None:
    project.add("alpha", "rows = [{'task_id': str(i), 'é': {'b': 1e-7, 'a': 10**20}} for i in range(size)]")
    project.run("plan:alpha")
    first = project.path(".cache/plans/alpha.json").read_bytes()
    other = Project(project.root.parent / "another folder")
    os.rename(project.root, other.root)
    other.path(".cache/plans/alpha.json").unlink()
    other.run("-n", "2", "-a", "plan:alpha", LC_ALL="C", PYTHONHASHSEED="7", TZ="Asia/Tokyo", PYTHONUTF8="0")
    assert other.path(".cache/plans/alpha.json").read_bytes() == first


def test_nan_is_planned_as_python_writes_it_and_found_by_the_validation(project: Project) -> None:
    project.add("alpha", "rows = [{'task_id': 'a', 'question': 'q', 'x': float('nan')}]")
    project.run("plan:alpha")
    assert len(plan_of(project)["tasks"]) == 1
    assert "NaN" in project.run("validate:alpha", code=None)


def test_a_plan_is_stale_once_its_dataset_was_prepared_anew_by_another_command(project: Project) -> None:
    project.write("benchmarks/alpha/ids.txt", "a b")
    project.add(
        "alpha", "rows = [{'task_id': x} for x in Path('benchmarks/alpha/ids.txt').read_text().split()]"
    )
    project.run("plan")
    project.write("benchmarks/alpha/ids.txt", "c d")
    project.run("prepare:alpha")
    assert "written" in project.run("plan")
    assert [task["task_id"]["task_id"] for task in plan_of(project)["tasks"]] == ["c", "d"]
