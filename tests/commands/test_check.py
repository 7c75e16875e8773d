"""`check`: the plans that a repository keeps against what its checkout gives."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.tasks.conftest import REPOSITORY, Project

ROWS = "rows = [{'task_id': str(i), 'question': f'q{i}'} for i in range(size)]"


@pytest.fixture
def kept(project: Project) -> Project:
    """A checkout of two benchmarks with their plans kept under plans/."""
    project.add("alpha", ROWS)
    project.add("beta", ROWS)
    said = project.run("check", "--update")
    assert "check: 2 written" in said
    return project


def edit(project: Project, name: str, before: str, after: str) -> None:
    path = project.path(name)
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))


def test_the_same_plans_are_the_same_and_nothing_is_prepared_again(kept: Project) -> None:
    assert kept.run("check").endswith("check: 2 the same\n")
    assert (kept.runs("alpha"), kept.runs("beta")) == (1, 1)


def test_update_writes_the_very_plans_that_plan_makes(kept: Project) -> None:
    for name in ("alpha", "beta"):
        assert (
            kept.path(f"plans/{name}.json").read_bytes()
            == kept.path(f".cache/plans/{name}.json").read_bytes()
        )


def test_an_edit_is_prepared_and_shown_with_what_changed(kept: Project) -> None:
    edit(kept, "benchmarks/alpha/prepare.py", "f'q{i}'", "f'Q{i}'")
    edit(kept, "benchmarks/alpha/prepare.py", "size: int = 3", "size: int = 4")
    said = kept.run("check", code=1)
    assert "plans/alpha.json: 3 → 4 tasks; 1 added, 3 changed" in said
    assert "in question (3)" in said
    assert '- "q0"' in said and '+ "Q0"' in said
    assert "check: 1 the same, 1 different" in said
    assert (kept.runs("alpha"), kept.runs("beta")) == (2, 1)
    kept.run("check", "--update")
    kept.run("check")


def test_gym_does_not_count(kept: Project) -> None:
    before = kept.path("plans/alpha.json").read_bytes()
    kept.write("pyproject.toml", "[project]\nversion = '9.9.9'\n")
    assert "2 the same" in kept.run("check")
    kept.run("check", "--update")
    assert kept.path("plans/alpha.json").read_bytes() == before


def test_names_restrict_it(kept: Project) -> None:
    edit(kept, "benchmarks/alpha/prepare.py", "f'q{i}'", "f'Q{i}'")
    assert "check: 1 the same\n" in kept.run("check", "beta")
    assert kept.runs("alpha") == 1
    kept.run("check", "plan:alpha", code=1)
    assert "zeta" in kept.run("check", "zeta", code=3)


def test_a_benchmark_without_a_kept_plan_is_a_difference(kept: Project) -> None:
    kept.add("gamma", ROWS)
    assert "plans/gamma.json: is not there, and plan:gamma has 3 tasks" in kept.run("check", code=1)


def test_a_kept_plan_that_no_benchmark_has_is_reported_and_left_to_the_person(kept: Project) -> None:
    extra = kept.path("plans/sub/gone.json")
    extra.parent.mkdir()
    extra.write_bytes(kept.path("plans/alpha.json").read_bytes())
    kept.write("plans/notes.json", "{}\n")
    said = kept.run("check", code=1)
    assert "plans/sub/gone.json: there is no benchmark of that name; remove the file" in said
    assert "notes.json" not in said
    kept.run("check", "--update", code=1)
    assert extra.exists()
    assert "sub/gone" not in kept.run("check", "alpha")


def test_a_kept_plan_that_is_none_or_is_written_otherwise_is_a_difference(kept: Project) -> None:
    kept.write("plans/alpha.json", "<<<<<<< HEAD\n")
    plan = json.loads(kept.path("plans/beta.json").read_text())
    kept.path("plans/beta.json").write_text(json.dumps(plan))
    said = kept.run("check", code=1)
    assert "plans/alpha.json: is not a plan" in said
    assert "plans/beta.json: has the same tasks, but is not written as gymbuild writes it" in said
    kept.run("check", "--update")
    kept.run("check")


def test_a_preparation_that_fails_keeps_its_exit_code_and_the_others_are_still_told(kept: Project) -> None:
    edit(kept, "benchmarks/alpha/prepare.py", ROWS, "raise RuntimeError('broken')")
    edit(kept, "benchmarks/beta/prepare.py", "f'q{i}'", "f'Q{i}'")
    said = kept.run("check", code=76)
    assert "plans/alpha.json: cannot be told, since plan:alpha was not made" in said
    assert "plans/beta.json: 3 tasks; 3 changed" in said
    kept.run("check", "--update", code=76)
    assert "1 the same" in kept.run("check", "beta")


def test_a_benchmark_that_cannot_be_built_is_not_taken_for_the_same(kept: Project) -> None:
    edit(kept, "benchmarks/alpha/config.yaml", "prepare_script:", "prepare_skript:")
    said = kept.run("check", code=1)
    assert "plans/alpha.json: cannot be told" in said
    assert "1 the same" in said
    assert kept.run("check", "alpha", code=3)


def test_another_folder(project: Project) -> None:
    project.add("alpha", ROWS)
    assert "there is no such folder" in project.run("check", "plans_dir=kept/plans", code=3)
    assert project.runs("alpha") == 0
    project.run("check", "--update", "plans_dir=kept/plans")
    assert project.path("kept/plans/alpha.json").exists()
    project.run("check", "plans_dir=kept/plans")


@pytest.mark.parametrize("word", ["plan_task_ids=[1]", "plan_output_fpath=x.json", "dry_run=true"])
def test_it_is_about_whole_plans(kept: Project, word: str) -> None:
    assert word.partition("=")[0] in kept.run("check", word, code=3)


def test_it_works_as_a_command_of_plain_doit(shipped: Project) -> None:
    shipped.doit("check", "state_tracking", "--update")
    assert "1 the same" in shipped.doit("check", "state_tracking")
    edit(shipped, "benchmarks/state_tracking/prepare.py", "a step at a time", "one step at a time")
    said = shipped.doit("check", "state_tracking", code=1)
    assert "200 tasks; 200 changed" in said
    assert "in question (200), responses_create_params.input[0].content (200)" in said


# -- what CI and pre-commit are told to run -----------------------------------------------------------------------


def workflow() -> dict:
    """The workflow of docs/ci.md."""
    text = (REPOSITORY / "docs/ci.md").read_text(encoding="utf-8")
    return yaml.safe_load(text.split("```yaml\n# .github/workflows/plans.yml\n")[1].split("```")[0])


def test_the_workflow_of_the_docs_runs_here(kept: Project) -> None:
    """Its last step, as a shell would run it; the steps before it need GitHub."""
    jobs = workflow()["jobs"]
    (job,) = jobs.values()
    script = next(step["run"] for step in job["steps"] if "check" in step.get("run", ""))
    bin_folder = kept.root.parent / "bin"
    bin_folder.mkdir()
    import sys

    command = bin_folder / "gymbuild"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m gymbuild "$@"\n')
    command.chmod(0o755)
    environment = {"PATH": f"{bin_folder}:/usr/bin:/bin"}

    def run() -> int:
        import os

        return subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", script],
            cwd=kept.root,
            env={**os.environ, **environment},
            capture_output=True,
            check=False,
        ).returncode

    assert run() == 0
    edit(kept, "benchmarks/alpha/prepare.py", "f'q{i}'", "f'Q{i}'")
    assert run() == 1


def test_every_action_of_the_workflow_names_its_version() -> None:
    (job,) = workflow()["jobs"].values()
    used = [step["uses"] for step in job["steps"] if "uses" in step]
    assert {name.split("@")[0] for name in used} >= {"actions/checkout", "actions/cache"}
    assert all("@" in name for name in used)


def test_the_pre_commit_hook_runs_check_when_a_benchmark_is_touched(kept: Project) -> None:
    hooks = yaml.safe_load((REPOSITORY / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    (hook,) = [hook for hook in hooks if hook["id"] == "gymbuild-check"]
    assert hook["language"] == "python"
    assert hook["pass_filenames"] is False
    command, *words = hook["entry"].split()
    assert command == "gymbuild"
    assert "2 the same" in kept.run(*words)
    import re

    for name in ("benchmarks/alpha/prepare.py", "benchmarks/a/b/config.yaml", "plans/alpha.json"):
        assert re.search(hook["files"], name), name
    assert not re.search(hook["files"], "README.md")


def test_the_docs_name_no_file_that_is_not_there() -> None:
    assert (Path(REPOSITORY) / ".pre-commit-hooks.yaml").is_file()
    assert "gymbuild-check" in (REPOSITORY / "docs/ci.md").read_text(encoding="utf-8")
