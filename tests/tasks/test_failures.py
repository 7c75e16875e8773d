"""Failures: what is said and written, exit codes, and the guard of a job chain's next segment."""

from __future__ import annotations

import json
import pickle

from gymbuild import PreparationFailedError
from tests.tasks.conftest import Project


def test_a_failure_says_what_failed_with_the_last_lines_and_the_log(project: Project) -> None:
    project.add("alpha", "print('so far so good')\nraise ValueError('the source has moved')")
    project.add("beta")
    said = project.run("plan", code=76)
    assert "FAILED prepare:alpha" in said
    assert "the source has moved" in said
    assert "so far so good" in said
    assert ".cache/logs/alpha.log" in said
    assert "left out plan:alpha: prepare:alpha failed" in said
    assert project.path(".cache/plans/beta.json").exists()
    record = json.loads(project.path(".cache/failures/alpha.json").read_text())
    assert record["module"] == "benchmarks.alpha.prepare"
    assert record["action"] == "prepare"
    assert record["kind"] == "preparation_failed"
    assert "the source has moved" in record["reason"]
    assert len(record["action_key"]) == 32


def test_no_network_may_pass(project: Project) -> None:
    project.add("alpha", "raise ConnectionError('no hub')")
    project.run("prepare:alpha", code=75)
    project.add("beta", "raise ValueError('its own fault')")
    project.run("prepare", code=76)


def test_a_failed_run_leaves_the_last_good_output(project: Project) -> None:
    project.add("alpha")
    project.run("prepare:alpha")
    data = project.path("benchmarks/alpha/data/alpha.jsonl")
    good = data.read_text()
    script = project.path("benchmarks/alpha/prepare.py")
    script.write_text(
        script.read_text().replace("    return OUT", "    OUT.write_text('half')\n    raise OSError(5, 'x')")
    )
    project.run("prepare:alpha", code=76)
    assert data.read_text() == good


def test_the_error_travels_between_processes() -> None:
    error = PreparationFailedError("benchmarks.x.prepare", "prepare", "no luck")
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.module, copy.action, copy.reason) == ("benchmarks.x.prepare", "prepare", "no luck")
    assert copy.stop_exit_code == 76
    assert str(copy) == str(error)


def test_the_guard_stops_the_next_segment_until_an_input_changes(project: Project) -> None:
    guard = project.root.parent / "guard"
    project.write("benchmarks/alpha/helper.py", "WORKS = False\n")
    project.add(
        "alpha",
        "from benchmarks.alpha.helper import WORKS\nassert WORKS, 'broken'\nrows = [{'task_id': 'x'}]",
    )
    project.add("beta")
    project.run("prepare:alpha", code=76, GYMBUILD_FAILURE_FILE=str(guard))
    key = json.loads(project.path(".cache/failures/alpha.json").read_text())["action_key"]
    assert guard.read_text() == f"preparation_failed alpha {key}\n"
    assert project.runs("alpha") == 1
    said = project.run("prepare:alpha", "prepare:beta", code=76, GYMBUILD_FAILURE_FILE=str(guard))
    assert "nothing was run" in said
    assert (project.runs("alpha"), project.runs("beta")) == (1, 0)
    project.run("prepare:beta", GYMBUILD_FAILURE_FILE=str(guard))
    project.write("benchmarks/alpha/helper.py", "WORKS = True\n")
    project.run("prepare:alpha", GYMBUILD_FAILURE_FILE=str(guard))
    assert guard.read_text() == ""
    assert project.runs("alpha") == 2


def test_a_failure_that_may_pass_is_never_written_to_the_guard(project: Project) -> None:
    guard = project.root.parent / "guard"
    project.add("alpha", "raise ConnectionError('no hub')")
    project.run("prepare:alpha", code=75, GYMBUILD_FAILURE_FILE=str(guard))
    assert not guard.exists()


def test_failures_in_parallel_processes_give_the_same_exit_code(project: Project) -> None:
    project.add("alpha", "raise ValueError('x')")
    project.add("beta")
    project.run("-n", "2", "prepare", code=76)
    assert project.runs("beta") == 1


def test_an_environment_that_cannot_be_built_fails_its_datasets(project: Project) -> None:
    project.add("alpha", dataset="prepare_dependencies: ['no-such-package-of-anybody==99']")
    project.add("beta")
    said = project.run("prepare", "offline=true", code=75)
    assert "FAILED venv:" in said
    assert said.count("building no-such-package-of-anybody") == 1
    assert "FAILED prepare:alpha\n  its environment could not be built" in said
    assert project.runs("beta") == 1
    assert json.loads(project.path(".cache/failures/alpha.json").read_text())["action"] == "environment"


def test_who_only_looks_takes_no_line_out_of_the_guard_file(project: Project) -> None:
    guard = project.root.parent / "guard"
    project.write("benchmarks/alpha/helper.py", "WORKS = False\n")
    project.add(
        "alpha",
        "from benchmarks.alpha.helper import WORKS\nassert WORKS, 'broken'\nrows = [{'task_id': 'x'}]",
    )
    project.environment["GYMBUILD_FAILURE_FILE"] = str(guard)
    project.run("prepare:alpha", code=76)
    lines = guard.read_text()
    assert lines.startswith("preparation_failed alpha ")
    project.write("benchmarks/alpha/helper.py", "WORKS = True\n")
    for words in (
        ("why", "prepare:alpha"),
        ("inputs", "prepare:alpha"),
        ("info", "prepare:alpha"),
        ("benchmarks",),
        ("list", "--all", "--status"),
        ("prepare:alpha", "dry_run=true"),
    ):
        project.run(*words, code=None)
        assert guard.read_text() == lines, words
    project.run("prepare:alpha")
    assert guard.read_text() == ""
    assert project.runs("alpha") == 2


def test_a_run_that_is_refused_takes_no_line_out_of_the_guard_file(project: Project) -> None:
    guard = project.root.parent / "guard"
    project.environment["GYMBUILD_FAILURE_FILE"] = str(guard)
    project.add("alpha", "raise ValueError('broken')")
    project.add("beta")
    project.run("prepare:alpha", code=76)
    lines = guard.read_text()
    script = project.path("benchmarks/alpha/prepare.py")
    script.write_text(script.read_text().replace("raise ValueError('broken')", "rows = [{'task_id': 'x'}]"))
    project.path("benchmarks/beta/prepare.py").unlink()
    assert "nothing was run" in project.run("prepare:alpha", "prepare:beta", code=3)
    assert guard.read_text() == lines
    project.run("prepare:alpha")
    assert guard.read_text() == ""
