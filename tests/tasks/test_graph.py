"""One task per distinct output and one plan per benchmark; names, aliases, and configs that disagree."""

from __future__ import annotations

from tests.tasks.conftest import Project


def test_benchmarks_that_share_an_output_share_its_task(project: Project) -> None:
    project.add("alpha")
    project.add("alpha", config="other.yaml", script="benchmarks/alpha/prepare.py")
    listed = project.run("list", "--all")
    assert listed.count("prepare:alpha") == 1
    assert "plan:alpha " in listed
    assert "plan:alpha/other " in listed
    project.run("plan")
    assert project.runs("alpha") == 1
    assert project.path(".cache/plans/alpha.json").exists()
    assert project.path(".cache/plans/alpha/other.json").exists()


def test_a_benchmarks_name_is_an_alias_of_its_datasets_task(project: Project) -> None:
    project.add("alpha")
    project.add("alpha", config="other.yaml", script="benchmarks/alpha/prepare.py")
    assert "prepare:alpha prepared" in project.run("prepare:alpha/other")
    assert "-- prepare:alpha\n" in project.run("prepare:alpha/other")


def test_outputs_that_share_a_dataset_name_are_told_apart_by_their_benchmarks(project: Project) -> None:
    project.add("alpha")
    project.add("beta")
    text = project.path("benchmarks/beta/config.yaml").read_text()
    project.path("benchmarks/beta/config.yaml").write_text(text.replace("name: beta\n", "name: alpha\n"))
    listed = project.run("list", "--all")
    assert "prepare:alpha " in listed
    assert "prepare:beta " in listed


def test_configs_that_disagree_about_an_output_are_an_error_that_names_both(project: Project) -> None:
    project.add("alpha")
    project.add(
        "alpha",
        config="other.yaml",
        script="benchmarks/alpha/prepare.py",
        dataset="prepare_script_args: {size: 9}",
    )
    project.add("beta")
    said = project.run("prepare:alpha", code=3)
    assert "benchmarks/alpha/config.yaml" in said
    assert "benchmarks/alpha/other.yaml" in said
    assert '{"size":9}' in said
    assert project.runs("alpha") == 0
    said = project.run("plan")
    assert "skipped, since they cannot be built" in said
    assert "2 skipped" in said
    assert project.path(".cache/plans/beta.json").exists()


def test_one_script_with_the_same_args_makes_one_output(project: Project) -> None:
    project.add("alpha")
    project.add(
        "alpha",
        config="other.yaml",
        script="benchmarks/alpha/prepare.py",
        output="benchmarks/alpha/data/other.jsonl",
    )
    said = project.run("prepare:alpha/other", code=3)
    assert "declared to make two outputs" in said
    assert "benchmarks/alpha/config.yaml" in said
    project.run("prepare:alpha")
    said = project.run("plan")
    assert "plan:alpha/other" in said
    assert "1 skipped" in said
    assert "error" in project.run("plan", "strict=true", code=3)


def test_doit_alone_makes_the_plans(shipped: Project) -> None:
    shipped.doit("-s", "plan", "dry_run=true")
    said = shipped.doit("dry_run=true")
    assert "would run prepare:state_tracking" in said
    assert "would look at plan:human_eval again" in said


def test_all_of_doits_commands_work(project: Project) -> None:
    project.add("alpha")
    assert "prepare:alpha" in project.run("list", "--all", "--quiet")
    assert "R prepare:alpha" in project.run("list", "--all", "--status")
    info = project.run("info", "prepare:alpha", code=1)
    assert "was never prepared here" in info
    project.run("plan")
    assert "U prepare:alpha" in project.run("list", "--all", "--status")
    assert "up-to-date" in project.run("info", "plan:alpha")
    assert ".cache/args/alpha.json" in project.run("info", "prepare:alpha")
    assert "would remove benchmarks/alpha/data/alpha.jsonl" in project.run("clean", "-n", "prepare:alpha")
    project.run("clean", "prepare:alpha")
    assert not project.path("benchmarks/alpha/data/alpha.jsonl").exists()
    project.run("prepare:alpha")
    assert project.runs("alpha") == 1
    project.run("forget", "prepare:alpha")
    project.run("prepare:alpha")
    assert project.runs("alpha") == 2
    project.run("-a", "prepare:alpha")
    assert project.runs("alpha") == 3
    assert "prepare:alpha -> {" in project.run("dumpdb")
    assert "prepare:alpha" in project.run("reset-dep", "prepare:alpha")
    assert "complete" in project.run("tabcompletion", "--hardcode-tasks")
    assert '"name": "prepare:alpha"' in project.run("-r", "json", "prepare:alpha")
    project.run("ignore", "prepare:alpha")
    project.path("benchmarks/alpha/prepare.py").write_text(
        project.path("benchmarks/alpha/prepare.py").read_text() + "# edited\n"
    )
    assert "!! prepare:alpha" in project.run("prepare:alpha")
    assert project.runs("alpha") == 3


def test_a_name_that_does_not_exist_is_answered_with_the_nearest(project: Project) -> None:
    project.add("alpha")
    said = project.run("prepare:alpa", code=3)
    assert "The nearest are prepare:alpha" in said


def test_a_target_path_selects_its_task(project: Project) -> None:
    project.add("alpha")
    assert "prepare:alpha prepared" in project.run("benchmarks/alpha/data/alpha.jsonl")


def test_folders_that_are_no_identifiers_are_built_as_well(project: Project) -> None:
    project.add("aime24-x")
    project.add("nemotron_3.5_super")
    project.run("plan")
    assert project.runs("aime24-x") == project.runs("nemotron_3.5_super") == 1
