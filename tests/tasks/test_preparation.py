"""Preparation from the command line: validation first, staleness by content, arguments, and what a script may not do."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.tasks.conftest import Project


def test_everything_is_validated_before_anything_runs(project: Project) -> None:
    project.add("good")
    project.add("broken")
    project.path("benchmarks/broken/prepare.py").write_text("def prepare(:\n")
    project.add("nothing")
    project.path("benchmarks/nothing/prepare.py").write_text("x = 1\n")
    project.add("needy", signature="wanted")
    project.add("gone")
    project.path("benchmarks/gone/prepare.py").unlink()
    said = project.run(
        "prepare:good", "prepare:broken", "prepare:nothing", "prepare:needy", "prepare:gone", code=3
    )
    for name in ("broken", "nothing", "needy", "gone"):
        assert f"prepare:{name}:" in said
    assert "nothing was run" in said
    assert "'wanted'" in said
    assert "benchmarks/broken/prepare.py:1" in said
    assert project.runs("good") == 0
    said = project.run("prepare")
    assert project.runs("good") == 1
    assert "4 skipped" in said


def test_unknown_and_missing_arguments_are_found_without_running(project: Project) -> None:
    project.add("alpha")
    said = project.run("prepare:alpha", "prepare_script_args.sise=3", code=3)
    assert "'sise'" in said
    assert "did you mean 'size'?" in said
    assert project.runs("alpha") == 0


def test_arguments_go_only_to_tasks_that_are_named(project: Project) -> None:
    project.add("alpha")
    project.add("beta")
    project.run("prepare:alpha", "prepare", "prepare_script_args.size=7")
    assert len(project.path("benchmarks/alpha/data/alpha.jsonl").read_text().splitlines()) == 7
    assert len(project.path("benchmarks/beta/data/beta.jsonl").read_text().splitlines()) == 3
    assert "none is" in project.run("prepare", "prepare_script_args.size=7", code=3)


def test_args_merge_from_the_top_level_to_the_dataset_to_the_command_line(project: Project) -> None:
    project.add(
        "alpha",
        "rows = [{'task_id': 'x', 'args': [size, kind, seed]}]",
        signature="size, kind, seed",
        top="prepare_script_args: {size: 1, kind: top, seed: 1}",
        dataset="prepare_script_args: {kind: dataset, seed: 2}",
    )
    project.run("prepare:alpha", "prepare_script_args.seed=3")
    row = json.loads(project.path("benchmarks/alpha/data/alpha.jsonl").read_text())
    assert row["args"] == [1, "dataset", 3]
    assert json.loads(project.path(".cache/args/alpha.json").read_text()) == {
        "size": 1,
        "kind": "dataset",
        "seed": 3,
    }


def test_the_args_file_is_written_only_when_its_content_changes(project: Project) -> None:
    project.add("alpha")
    project.run("prepare:alpha")
    before = project.path(".cache/args/alpha.json").stat()
    project.run("-a", "prepare:alpha")
    assert project.path(".cache/args/alpha.json").stat().st_mtime_ns == before.st_mtime_ns


def test_an_edit_rebuilds_that_dataset_and_nothing_else_and_a_touch_nothing(project: Project) -> None:
    project.add("alpha")
    project.add("beta")
    project.run("plan")
    script = project.path("benchmarks/alpha/prepare.py")
    os.utime(script)
    assert "nothing to do" in project.run("plan")
    script.write_text(script.read_text().replace("'q'", "'another'"))
    said = project.run("plan")
    assert "prepare:alpha prepared" in said
    assert "plan:alpha written" in said
    assert "beta" not in said
    assert (project.runs("alpha"), project.runs("beta")) == (2, 1)


def test_after_a_touch_the_file_is_not_hashed_again_at_every_start(project: Project) -> None:
    from gymbuild.cache.database import database
    from gymbuild.cache.digests import DigestCache

    project.add("alpha")
    project.run("prepare:alpha")
    os.utime(project.path("benchmarks/alpha/prepare.py"))
    project.run("prepare:alpha")
    cache = DigestCache(database(os.path.realpath(project.path(".cache"))), os.path.realpath(project.root))
    cache.get("benchmarks/alpha/prepare.py")
    assert cache.hashed == 0


def test_the_verdict_of_the_script_is_asked_for_and_remembered(project: Project) -> None:
    asked = project.root.parent / "asked"
    project.add(
        "alpha",
        extra=f"""
            def is_prepared_data_current(fpath: Path) -> bool:
                with open({str(asked)!r}, "a") as file:
                    file.write("x")
                return "good" in fpath.read_text()
            """,
    )
    data = project.path("benchmarks/alpha/data/alpha.jsonl")
    said = project.run("prepare:alpha", code=76)
    assert "it returned False for the output that prepare() has just made" in said
    assert not data.exists()
    asked.unlink()
    data.write_text('{"task_id": "good"}\n')
    assert "taken as it is" in project.run("prepare:alpha", "use_cached_prepared_benchmarks=true")
    assert asked.read_text() == "x"
    project.run("prepare:alpha", "use_cached_prepared_benchmarks=true")
    assert asked.read_text() == "x"
    data.write_text('{"task_id": "bad"}\n')
    project.run("prepare:alpha", "use_cached_prepared_benchmarks=true", code=76)
    assert data.read_text() == '{"task_id": "bad"}\n'


def test_an_exception_in_the_verdict_is_a_failed_preparation(project: Project) -> None:
    project.add("alpha", extra="def is_prepared_data_current(fpath):\n    raise ValueError('no verdict')")
    said = project.run("prepare:alpha", code=76)
    assert "is_prepared_data_current failed" in said
    assert "no verdict" in said


def test_use_cached_false_prepares_again_and_unset_rebuilds_what_is_stale(project: Project) -> None:
    project.add("alpha")
    project.run("prepare:alpha")
    project.run("prepare:alpha", "use_cached_prepared_benchmarks=false")
    assert project.runs("alpha") == 2
    project.run("prepare:alpha")
    assert project.runs("alpha") == 2


def test_info_and_list_never_build_an_environment_to_ask(shipped: Project) -> None:
    shipped.doit("list", "--all", "--status")
    shipped.doit("info", "prepare:graph_atlas", code=1)
    assert not list(shipped.path(".cache").glob("venvs/*"))


def test_a_wrong_path_is_an_error_that_shows_both(project: Project) -> None:
    project.add(
        "alpha",
        extra="real = prepare\ndef prepare(size: int = 3):\n    real(size)\n    return 'elsewhere.jsonl'",
    )
    said = project.run("prepare:alpha", code=76)
    assert "elsewhere.jsonl" in said
    assert "benchmarks/alpha/data/alpha.jsonl" in said
    assert not project.path("benchmarks/alpha/data/alpha.jsonl").exists()


def test_an_output_that_is_empty_or_no_jsonl_is_an_error_that_shows_the_line(project: Project) -> None:
    project.add("empty", "rows = []")
    assert "empty" in project.run("prepare:empty", code=76)
    project.add("list", "rows = [{'task_id': 'a'}, [1]]")
    assert "benchmarks/list/data/list.jsonl, line 2" in project.run("prepare:list", code=76)


def test_a_run_that_changes_another_tasks_output_is_undone_and_fails_naming_both(project: Project) -> None:
    body = """
        rows = [{'task_id': which}]
        global OUT
        OUT = Path('benchmarks/alpha/data/alpha.jsonl')
    """
    project.add("alpha", body, signature="which='a'")
    project.run("prepare:alpha")
    before = project.path("benchmarks/alpha/data/alpha.jsonl").read_text()
    project.add(
        "alpha",
        config="other.yaml",
        script="benchmarks/alpha/prepare.py",
        output="benchmarks/alpha/data/other.jsonl",
        dataset="prepare_script_args: {which: b}",
    )
    said = project.run("prepare:alpha/other", code=76)
    assert "benchmarks/alpha/config.yaml" in said
    assert "benchmarks/alpha/other.yaml" in said
    assert project.path("benchmarks/alpha/data/alpha.jsonl").read_text() == before
    assert "nothing to do" in project.run("prepare:alpha")


def test_scripts_run_in_parallel_with_their_names_before_their_lines(project: Project) -> None:
    meet = """
        import time
        from pathlib import Path as P
        place = P({place!r})
        place.mkdir(exist_ok=True)
        (place / {name!r}).touch()
        deadline = time.monotonic() + 30
        while len(list(place.iterdir())) < 3:
            assert time.monotonic() < deadline, "the others never started"
            time.sleep(0.01)
        print("all here")
        rows = [{{'task_id': 'x'}}]
    """
    place = str(project.root.parent / "meeting")
    for name in ("one", "two", "three"):
        project.add(name, meet.format(place=place, name=name))
    for words in (["-n", "3"], ["num_prepare_benchmark_processes=3"]):
        for name in os.listdir(place) if os.path.isdir(place) else ():
            (Path(place) / name).unlink()
        said = project.run(*words, "-a", "prepare")
        for name in ("one", "two", "three"):
            assert f"{name} | all here\n" in said


def test_what_a_script_prints_is_shown_and_logged(project: Project) -> None:
    project.add("alpha", "print('hello from prepare')\nrows = [{'task_id': 'x'}]")
    assert "hello from prepare\n" in project.run("prepare:alpha")
    assert "hello from prepare\n" in project.path(".cache/logs/alpha.log").read_text()


def test_secrets_appear_nowhere(project: Project) -> None:
    secret = "s3cr3t-value-of-a-token"
    body = "import os\nprint(os.environ['MY_TOKEN'], os.environ['ADMIN_PASSWORD_2'])\nraise RuntimeError(os.environ['A_KEY'])"
    project.add("alpha", body, dataset="prepare_env: [MY_TOKEN]")
    names = {"MY_TOKEN": secret, "A_KEY": secret + "2", "ADMIN_PASSWORD_2": secret + "3", "B_SECRET": secret}
    said = project.run("prepare:alpha", code=76, **names)
    assert "***" in said
    assert secret not in said
    for path in project.path(".cache").rglob("*"):
        if path.is_file():
            assert secret.encode() not in path.read_bytes(), path


def test_dry_run_says_what_would_run_and_why_and_runs_nothing(project: Project) -> None:
    project.add("alpha")
    said = project.run("plan", "dry_run=true")
    assert "would run prepare:alpha" in said
    assert "was never prepared here" in said
    assert project.runs("alpha") == 0
    assert not project.path(".cache/plans").exists()


def test_a_setting_that_does_not_exist_is_answered_with_the_nearest(project: Project) -> None:
    assert "did you mean dry_run?" in project.run("plan", "dryrun=true", code=3)
    assert "must be true or false" in project.run("plan", "offline=perhaps", code=3)
