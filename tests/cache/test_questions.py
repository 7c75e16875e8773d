"""Why a task is stale, what its inputs are, what `doit forget` means, and what a failing run leaves."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time

import pytest

from tests.trees import Tree

BODY = """
from lib.words import WORD
rows = [{"task_id": "1", "question": WORD, "data": (HERE / "words.txt").read_text()}]
"""


@pytest.fixture
def built(tree: Tree) -> Tree:
    tree.benchmark("alpha", BODY, signature="size: int = 1")
    tree.write("lib/words.py", "WORD = 'one'\n")
    tree.write("benchmarks/alpha/words.txt", "words\n")
    tree.gymbuild("plan")
    return tree


def test_why_says_what_was_compared_when_it_is_current(built: Tree) -> None:
    said = built.gymbuild("why", "prepare:alpha")
    assert said.startswith("prepare:alpha is current\n")
    assert re.search(r"compared \d+ inputs \(.*1 script.*\) and 1 output", said)
    assert "action key" in said
    assert "plan:alpha is current" in built.gymbuild("why", "plan:alpha")


def test_why_names_the_input_the_digests_and_since_when(built: Tree) -> None:
    built.replace("lib/words.py", "one", "two")
    said = built.gymbuild("why", "prepare:alpha")
    assert "prepare:alpha is stale: its script will run" in said
    assert re.search(
        r"imported module lib/words\.py changed from \w{12} to \w{12}, since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d",
        said,
    )
    assert "imported module lib/words.py changed" in built.gymbuild("info", "prepare:alpha", code=None)
    assert built.count()["alpha"] == 1, "asking ran the script"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("missing", "benchmarks/alpha/words.txt is gone"),
        ("output", "output benchmarks/alpha/data/alpha.jsonl is not there"),
        ("edited", "output benchmarks/alpha/data/alpha.jsonl was changed by hand"),
        ("args", "args args changed from"),
        ("forgotten", "it was forgotten (doit forget)"),
        ("cache", "was never prepared here"),
    ],
)
def test_why_has_a_sentence_for(built: Tree, change: str, sentence: str) -> None:
    if change == "missing":
        built.path("benchmarks/alpha/words.txt").unlink()
    elif change == "output":
        built.output("alpha").unlink()
    elif change == "edited":
        built.output("alpha").write_text("{}\n")
    elif change == "args":
        built.config("alpha", dataset="prepare_script_args: {size: 2}")
    elif change == "forgotten":
        built.gymbuild("forget", "prepare:alpha")
    else:
        subprocess.run(["rm", "-r", str(built.path(".cache"))], check=True)
    assert sentence in built.gymbuild("why", "prepare:alpha")


def test_inputs_lists_all_of_them_with_their_kinds(built: Tree) -> None:
    rows = json.loads(built.gymbuild("inputs", "--json", "prepare:alpha"))
    kinds = {(row["kind"], row["name"]) for row in rows}
    assert {
        ("script", "benchmarks/alpha/prepare.py"),
        ("import", "lib/words.py"),
        ("data", "benchmarks/alpha/words.txt"),
        ("missing", "lib/__init__.py"),
        ("args", "args"),
    } <= kinds
    assert {row["state"] for row in rows} == {"same"}
    built.replace("lib/words.py", "one", "two")
    said = built.gymbuild("inputs", "prepare:alpha")
    assert re.search(r"import +\w{12} +lib/words\.py +\(changed\)", said)


def test_forget_runs_the_script_again_and_deleting_doit_db_does_not(built: Tree) -> None:
    built.path(".cache/state.db").unlink()
    assert built.build().ran == set()
    built.gymbuild("forget", "prepare:alpha")
    assert built.build().ran == {"alpha"}
    assert built.build().ran == set()
    built.gymbuild("forget", "prepare")
    assert built.build().ran == {"alpha"}


def test_plain_doit_forgets_the_same_way(tree: Tree) -> None:
    tree.with_dodo().benchmark("alpha")
    tree.doit("prepare:alpha")
    tree.doit("forget", "prepare:alpha")
    tree.doit("prepare:alpha")
    assert tree.count()["alpha"] == 2


def test_a_forgotten_output_that_is_edited_is_kept_aside(built: Tree) -> None:
    built.output("alpha").write_text('{"mine": 1}\n')
    built.gymbuild("forget", "prepare:alpha")
    done = built.build()
    assert done.ran == {"alpha"}
    assert built.displaced() == {"benchmarks/alpha/data/alpha.jsonl": '{"mine": 1}\n'}
    (path,) = re.findall(r"kept as (\.cache/displaced/\S+)", done.text)
    assert built.read(path) == '{"mine": 1}\n'


def test_two_edits_kept_aside_in_the_same_second_do_not_meet(built: Tree) -> None:
    for number in range(3):
        built.output("alpha").write_text(f'{{"mine": {number}}}\n')
        assert built.build().restored == {"alpha"}
    kept = [path for path in built.path(".cache/displaced").rglob("*") if path.is_file()]
    assert sorted(path.read_text() for path in kept) == [f'{{"mine": {number}}}\n' for number in range(3)]


PATHS = """
import os, sys
from pathlib import Path
from gymbuild import PrepareBenchmarkConfig, datasets_to_prepare, prepare_datasets

config = {
    "server": {"resources_servers": {"s": {"entrypoint": "app.py", "domain": "other"}}},
    "agent": {"responses_api_agents": {"a": {
        "entrypoint": "app.py",
        "resources_server": {"type": "resources_servers", "name": "server"},
        "model_server": {"type": "responses_api_models", "name": "policy_model"},
        "datasets": [{"name": "beta", "type": "benchmark", "jsonl_fpath": "benchmarks/beta/data/beta.jsonl",
                      "prepare_script": "benchmarks/beta/prepare.py"}],
    }}},
    "policy_model": {"responses_api_models": {"m": {"entrypoint": "app.py"}}},
}
source = Path(sys.argv[-1])
settings = PrepareBenchmarkConfig(prepare_script_args={"source": source})
prepare_datasets(datasets_to_prepare(config), settings)
"""


def test_a_path_among_the_args_is_the_same_absolute_and_relative(tree: Tree) -> None:
    tree.script("beta", "rows = [{'task_id': '1', 'source': source}]", signature="source")
    tree.write("benchmarks/beta/source.txt", "")

    def prepare(path: str) -> None:
        command = [sys.executable, "-c", PATHS, path]
        subprocess.run(command, cwd=tree.root, env=tree.variables(), check=True)

    prepare("benchmarks/beta/source.txt")
    prepare(str(tree.path("benchmarks/beta/source.txt")))
    assert tree.count() == {"beta": 1}
    assert json.loads(tree.output("beta").read_text())["source"] == "benchmarks/beta/source.txt"
    prepare("/elsewhere/source.txt")
    assert tree.count() == {"beta": 2}


def test_an_argument_that_json_has_no_form_for_is_an_error_that_names_it(tree: Tree) -> None:
    tree.script("beta", "rows = [{'task_id': '1'}]", signature="source")
    done = subprocess.run(
        [sys.executable, "-c", PATHS.replace('"source": source', '"source": {1, 2}')],
        cwd=tree.root,
        env=tree.variables(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "prepare_script_args.source: JSON has no form for {1, 2}" in done.stderr
    assert tree.count() == {}


def test_a_run_that_takes_too_long_ends_with_76_and_leaves_the_output(built: Tree) -> None:
    good = built.output("alpha").read_text()
    built.replace(
        "benchmarks/alpha/prepare.py",
        "    rows =",
        "    OUT.write_text('half')\n    time.sleep(60)\n    rows =",
    )
    built.config("alpha", dataset="prepare_timeout: 0.7")
    started = time.monotonic()
    said = built.gymbuild("prepare:alpha", code=76)
    assert time.monotonic() - started < 50
    assert "longer than 0.7 s" in said
    assert built.output("alpha").read_text() == good


def test_a_child_in_the_background_does_not_hold_up_the_build(built: Tree) -> None:
    built.replace(
        "benchmarks/alpha/prepare.py", "    rows =", "    subprocess.Popen(['sleep', '300'])\n    rows ="
    )
    started = time.monotonic()
    built.gymbuild("prepare:alpha")
    assert time.monotonic() - started < 200
    assert "sleep\x00300" not in _command_lines(str(built.root))


def _command_lines(root: str) -> str:
    found = ""
    for entry in os.listdir("/proc") if os.path.isdir("/proc") else ():
        try:
            if os.readlink(f"/proc/{entry}/cwd") == root:
                with open(f"/proc/{entry}/cmdline") as file:
                    found += file.read()
        except OSError:
            continue
    return found


def test_the_second_builder_says_for_whom_it_waits_and_then_finds_it_current(built: Tree) -> None:
    built.write("benchmarks/alpha/hold", "")
    built.replace(
        "benchmarks/alpha/prepare.py",
        "    rows =",
        "    while (HERE / 'hold').exists():\n        time.sleep(0.01)\n    rows =",
    )
    first = built.start("prepare:alpha")
    while built.count()["alpha"] < 2:
        time.sleep(0.01)
    second = built.start("prepare:alpha")
    assert second.stdout is not None
    lines = []
    while not any("waiting for it" in line for line in lines):
        lines.append(second.stdout.readline())
        assert lines[-1], lines
    assert f"is being prepared by process {first.pid}" in lines[-1]
    built.path("benchmarks/alpha/hold").unlink()
    assert first.communicate()[0] and second.communicate()[0]
    assert (first.returncode, second.returncode) == (0, 0)
    # `hold` was there for the script and is gone: only that makes it run once more
    assert built.count()["alpha"] in (2, 3)
