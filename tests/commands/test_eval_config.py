"""`eval-config` and `check-split`, suites and datasets that are not benchmarks, through the command line."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.trees import Tree

TRAINING = """\
      - name: {name}
        type: {type}
        license: Apache 2.0
        jsonl_fpath: {output}
        prepare_script: {script}
      - name: shown
        type: example
        jsonl_fpath: benchmarks/alpha/data/example.jsonl
"""


@pytest.fixture
def suite(tree: Tree) -> Tree:
    """Two benchmarks, a config that includes both, and one of them with training and example data as well."""
    tree.benchmark("alpha")
    tree.benchmark("beta")
    tree.write(
        "benchmarks/both.yaml",
        "config_paths:\n- benchmarks/alpha/config.yaml\n- benchmarks/beta/config.yaml\n",
    )
    script = tree.script("alpha_train", "rows = [{'task_id': 'one'}]")
    output = "benchmarks/alpha_train/data/alpha_train.jsonl"
    text = tree.read("benchmarks/alpha/config.yaml")
    more = TRAINING.format(name="alpha_train", type="train", output=output, script=script)
    tree.write(
        "benchmarks/alpha/training.yaml",
        text.replace("policy_model:\n  resp", more + "policy_model:\n  resp"),
    )
    return tree


def test_a_suite_has_one_plan_for_each_benchmark_in_it(suite: Tree) -> None:
    built = suite.build("plan", "config_paths=[benchmarks/both.yaml]")
    assert built.ran == {"alpha", "beta"}
    assert built.plans == {"alpha", "beta"}
    assert json.loads(suite.plan("beta").read_text())["benchmark"]["name"] == "beta"


def test_datasets_with_a_script_are_prepared_whatever_their_type(suite: Tree) -> None:
    built = suite.build("prepare", "config_paths=[benchmarks/alpha/training.yaml]")
    assert built.ran == {"alpha", "alpha_train"}
    assert (
        suite.build("prepare:alpha_train", "config_paths=[benchmarks/alpha/training.yaml]").ran == frozenset()
    )


def test_the_resolved_config_of_names_and_files_is_the_same_text_each_time(suite: Tree) -> None:
    said = suite.gymbuild("eval-config", "alpha", "beta")
    assert "alpha_config_yaml_agent:" in said and "beta_config_yaml_agent:" in said
    assert said == suite.gymbuild("eval-config", "benchmarks/both.yaml", PYTHONHASHSEED="7")


def test_missing_values_stay_and_secrets_do_not(suite: Tree) -> None:
    suite.replace(
        "benchmarks/alpha/config.yaml",
        "    model:\n      entrypoint: app.py\n",
        "    model:\n      entrypoint: app.py\n      key: ${oc.env:MODEL_API_KEY}\n      url: ???\n",
    )
    said = suite.gymbuild("eval-config", "alpha", MODEL_API_KEY="sk-very-secret")
    assert "url: ???" in said.replace("'", "") and "sk-very-secret" not in said and "***" in said


def test_a_name_that_is_no_benchmark_is_an_error(suite: Tree) -> None:
    assert "did you mean alpha" in suite.gymbuild("eval-config", "alhpa", code=3)


def test_a_split_that_is_not_declared_lists_what_is(suite: Tree) -> None:
    said = suite.gymbuild("check-split", "validation", "benchmarks/alpha/training.yaml", code=3)
    for line in ("alpha (benchmark)", "alpha_train (train)", "shown (example)"):
        assert line in said
    assert "a few rows that are committed to show the format" in said


@pytest.mark.parametrize("options", [[], ["-O"]])
def test_a_split_file_that_is_not_there_is_an_error_also_without_asserts(
    suite: Tree, options: list[str]
) -> None:
    words = ["check-split", "train", "benchmarks/alpha/training.yaml"]
    command = [sys.executable, *options, *suite.command(*words)[1:]]
    done = subprocess.run(command, env=suite.variables(), capture_output=True, text=True)
    assert done.returncode == 3
    assert "benchmarks/alpha_train/data/alpha_train.jsonl" in done.stderr
    suite.gymbuild("prepare:alpha_train", "config_paths=[benchmarks/alpha/training.yaml]")
    done = subprocess.run(command, env=suite.variables(), capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (
        0,
        "alpha_train\tbenchmarks/alpha_train/data/alpha_train.jsonl\n",
    )
