"""`benchmarks`: the list, the search, and one benchmark in full."""

from __future__ import annotations

import json
import os
import pty
import re
import struct
import subprocess
import termios
from fcntl import ioctl
from pathlib import Path

import pytest

from tests.tasks.conftest import Project
from tests.trees import Tree


@pytest.fixture
def tree_of_four(tree: Tree) -> Tree:
    """One benchmark of each state: current, stale, failed, never prepared."""
    tree.benchmark("aime24")
    tree.benchmark("ruler")
    tree.benchmark("ruler2", "raise ValueError('broken on purpose')", signature="")
    tree.benchmark("human_eval")
    tree.replace("benchmarks/ruler2/config.yaml", "domain: other", "domain: long_context")
    tree.replace(
        "benchmarks/human_eval/config.yaml",
        "domain: other",
        "domain: coding\n      description: Python functions from docstrings, checked by unit tests",
    )
    tree.gymbuild("prepare:aime24", "prepare:ruler")
    tree.gymbuild("prepare:ruler2", code=76)
    tree.replace("benchmarks/ruler/prepare.py", "question {i}", "problem {i}")
    return tree


def _json(tree: Tree, *words: str) -> list[dict[str, object]]:
    listed: list[dict[str, object]] = json.loads(tree.gymbuild("benchmarks", "--json", *words))
    return listed


def _on_terminal(
    tree: Tree, columns: int, *words: str, command: str = "benchmarks", **environment: str
) -> str:
    """What a terminal of that width is sent."""
    leader, follower = pty.openpty()
    ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    variables = {key: value for key, value in tree.variables().items() if key not in ("COLUMNS", "NO_COLOR")}
    process = subprocess.Popen(
        tree.command(command, *words),
        stdin=follower,
        stdout=follower,
        stderr=subprocess.DEVNULL,
        env={**variables, "TERM": "xterm-256color", **environment},
    )
    os.close(follower)
    data = b""
    while True:
        try:
            piece = os.read(leader, 65536)
        except OSError:
            break
        if not piece:
            break
        data += piece
    os.close(leader)
    assert process.wait() == 0
    return data.decode()


def _plain(text: str) -> list[str]:
    return re.sub(r"\x1b\[[\d;]*m", "", text).splitlines()


def test_states_rows_and_bytes(tree_of_four: Tree) -> None:
    listed = {entry["name"]: entry for entry in _json(tree_of_four)}
    assert {name: entry["state"] for name, entry in listed.items()} == {
        "aime24": "current",
        "human_eval": "never prepared",
        "ruler": "stale",
        "ruler2": "failed",
    }
    assert listed["aime24"]["rows"] == 3
    assert listed["aime24"]["bytes"] == tree_of_four.output("aime24").stat().st_size
    assert listed["ruler"]["rows"] == 3
    assert (listed["human_eval"]["rows"], listed["human_eval"]["bytes"]) == (None, None)


def test_piped_output_is_a_line_of_fields_for_each(tree_of_four: Tree) -> None:
    said = tree_of_four.gymbuild("benchmarks")
    lines = [line.split("\t") for line in said.splitlines()]
    assert [line[0] for line in lines] == ["aime24", "human_eval", "ruler", "ruler2"]
    assert lines[1] == [
        "human_eval",
        "coding",
        "never prepared",
        "",
        "",
        "1",
        "Python functions from docstrings, checked by unit tests",
    ]
    assert tree_of_four.gymbuild("benchmarks", COLUMNS="40", FORCE_COLOR="1", TERM="xterm") == said


def test_listing_changes_nothing(tree_of_four: Tree) -> None:
    guard = tree_of_four.root.parent / "guard"
    guard.write_text("preparation_failed ruler 00000000000000000000000000000000\n")
    before = tree_of_four.count()
    tree_of_four.gymbuild("benchmarks", GYMBUILD_FAILURE_FILE=str(guard))
    assert tree_of_four.count() == before
    assert guard.read_text().startswith("preparation_failed ruler ")


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("ruler", ["ruler", "ruler2"]),
        ("AIME", ["aime24"]),
        ("aime-24", ["aime24"]),
        ("humaneval", ["human_eval"]),
        ("hmaneval", ["human_eval"]),
        ("long_context", ["ruler2"]),
        ("docstrings", ["human_eval"]),
        ("unit python", ["human_eval"]),
    ],
)
def test_a_query_finds_best_match_first(tree_of_four: Tree, query: str, found: list[str]) -> None:
    assert [entry["name"] for entry in _json(tree_of_four, *query.split())] == found


def test_a_domain_narrows_the_list(tree_of_four: Tree) -> None:
    assert [entry["name"] for entry in _json(tree_of_four, "--domain", "coding")] == ["human_eval"]
    said = tree_of_four.gymbuild("benchmarks", "--domain", "cooking", code=3)
    assert "coding, long_context, other" in said


def test_a_name_that_does_not_exist_gives_the_nearest(tree_of_four: Tree) -> None:
    said = tree_of_four.gymbuild("benchmarks", "amie24", code=3)
    assert "The nearest are aime24" in said
    assert "human_eval" in tree_of_four.gymbuild("benchmarks", "humen_eval", "--json", code=3)


def test_one_in_full(tree_of_four: Tree) -> None:
    tree_of_four.gymbuild("plan:aime24")
    said = tree_of_four.gymbuild("benchmarks", "aime24")
    for label in (
        "state",
        "config",
        "dataset",
        "agent",
        "script",
        "environment",
        "lock",
        "args",
        "inputs",
        "plan",
    ):
        assert re.search(rf"^  {label} +\S", said, re.MULTILINE), label
    assert "benchmarks/aime24/data/aime24.jsonl (3 rows, " in said
    assert re.search(r"digest [0-9a-f]{32}", said)
    assert f"gymbuild --root {tree_of_four.root} prepare:aime24" in said
    failed = tree_of_four.gymbuild("benchmarks", "ruler2")
    assert "ValueError: broken on purpose" in failed and "log .cache/logs/ruler2.log" in failed
    # `ruler` is a name, and a query as well
    both = tree_of_four.gymbuild("benchmarks", "ruler")
    assert both.startswith("ruler\n") and "\nAlso found by “ruler”\nruler2\t" in both


@pytest.mark.parametrize("columns", [60, 80, 160])
def test_the_table_fits_the_terminal(tree_of_four: Tree, columns: int) -> None:
    text = _on_terminal(tree_of_four, columns)
    lines = _plain(text)
    assert "\x1b[" in text
    assert all(len(line) <= columns for line in lines)
    assert lines[0].split()[:1] == ["name"]
    for name in ("aime24", "human_eval", "ruler", "ruler2"):
        assert any(line.split()[:1] == [name] for line in lines)
    assert any("Python functions" in line for line in lines)
    assert "4 benchmarks: 1 current, 1 stale, 1 never prepared, 1 failed" in lines
    assert "`benchmarks NAME` shows one in full" in lines[-1 if columns > 62 else -2]


@pytest.mark.parametrize("columns", [50, 80])
def test_one_in_full_fits_the_terminal_and_breaks_paths_at_their_folders(tree: Tree, columns: int) -> None:
    tree.benchmark("alpha")
    folder = "benchmarks/a_folder_with_a_long_name/and_another_one_in_it"
    tree.write(f"{folder}/shared_between_all_of_them.yaml", "shared: 1\n")
    text = tree.read("benchmarks/alpha/config.yaml")
    included = f"{folder}/shared_between_all_of_them.yaml"
    tree.write("benchmarks/alpha/config.yaml", f"config_paths: [{included}]\n{text}")
    lines = _plain(_on_terminal(tree, columns, "alpha"))
    assert all(len(line) <= columns for line in lines)
    start = next(number for number, line in enumerate(lines) if line.strip().startswith("includes"))
    shown = [lines[start].split()[1], *(line.strip() for line in lines[start + 1 : start + 4])]
    assert "".join(shown).startswith(included)
    assert shown[0].endswith("/")


def test_a_terminal_without_colours_gets_none(tree_of_four: Tree) -> None:
    colour = re.compile(r"\x1b\[(?:\d+;)*[349]\d[;m]")
    assert colour.search(_on_terminal(tree_of_four, 80))
    assert not colour.search(_on_terminal(tree_of_four, 80, NO_COLOR="1"))
    plain = _on_terminal(tree_of_four, 60, TERM="dumb")
    assert "\x1b" not in plain
    assert all(len(line) <= 60 for line in plain.splitlines())
    assert all(len(line) <= 70 for line in _plain(_on_terminal(tree_of_four, 160, COLUMNS="70")))


def test_why_fits_the_terminal(tree_of_four: Tree) -> None:
    lines = _plain(_on_terminal(tree_of_four, 50, "prepare:aime24", command="why"))
    assert lines[0] == "prepare:aime24 is current"
    assert all(len(line) <= 50 for line in lines)
    assert " ".join(line.strip() for line in lines) == " ".join(
        line.strip() for line in tree_of_four.gymbuild("why", "prepare:aime24").splitlines()
    )


def test_a_script_that_cannot_be_run_is_told_of_on_its_page(tree: Tree) -> None:
    tree.benchmark("alpha", signature="size: int")
    said = tree.gymbuild("benchmarks", "alpha")
    assert re.search(r"^  problem +it cannot be built: .*needs the argument 'size'", said, re.MULTILINE)
    assert "prepare:alpha" not in said


@pytest.mark.parametrize("name", ["a.b", "a-b", "a_b/config.v1", "3.5_x/y-z"])
def test_names_with_signs_are_found_and_shown(tree: Tree, name: str) -> None:
    tree.benchmark("other")
    folder, _, file = name.partition("/")
    tree.script(name, "rows = [{'task_id': '1'}]", path=f"benchmarks/{folder}/prepare.py")
    tree.config(
        folder,
        file=f"{file or 'config'}.yaml",
        dataset_name=name,
        script=f"benchmarks/{folder}/prepare.py",
        output=f"benchmarks/{name}/data/{name}.jsonl",
    )
    assert [entry["name"] for entry in _json(tree, name)] == [name]
    assert [entry["name"] for entry in _json(tree)] == sorted([name, "other"])
    tree.gymbuild(f"plan:{name}")
    said = tree.gymbuild("benchmarks", name)
    assert said.startswith(f"{name}\n") and f"plan:{name}" in said
    assert [entry["state"] for entry in _json(tree, name)] == ["current"]


def test_a_name_that_is_wider_than_the_terminal_is_whole(tree: Tree) -> None:
    name = "a_benchmark_with_a_name_that_goes_on_for_more_than_half_of_the_line"
    tree.benchmark(name)
    assert any(line.split()[:1] == [name] for line in _plain(_on_terminal(tree, 80)))


def test_a_config_that_cannot_be_resolved_is_one_warning(tree_of_four: Tree) -> None:
    tree_of_four.write("benchmarks/broken/config.yaml", "a: [1\n")
    said = tree_of_four.gymbuild("benchmarks")
    warnings = [line for line in said.splitlines() if line.startswith("warning:")]
    assert len(warnings) == 1 and "benchmarks/broken/config.yaml" in warnings[0]
    assert said.count("\t") == 4 * 6
    assert "benchmarks/broken/config.yaml" in tree_of_four.gymbuild("benchmarks", "broken", code=3)


def test_the_first_root_that_has_a_name_wins(tree_of_four: Tree, tmp_path: Path) -> None:
    other = Tree(tmp_path / "other", tree_of_four.runs)
    other.benchmark("aime24")
    other.replace("benchmarks/aime24/config.yaml", "domain: other", "domain: math")
    other.benchmark("extra")
    for words, variables in (
        ([f"search_dirs=[{other.root}]"], {}),
        ([], {"NEMO_GYM_EXTRA_ROOTS": str(other.root)}),
    ):
        said = tree_of_four.gymbuild("benchmarks", "--json", *words, "allow_outside=true", **variables)
        listed = {entry["name"]: entry["domain"] for entry in json.loads(said)}
        assert set(listed) == {"aime24", "extra", "human_eval", "ruler", "ruler2"}
        assert listed["aime24"] == "math"


def test_plain_doit_has_the_command(tree: Tree) -> None:
    tree.benchmark("aime24")
    tree.with_dodo()
    assert tree.doit("benchmarks").startswith("aime24\tother\t")
    assert "doit prepare:aime24" in tree.doit("benchmarks", "aime24")


def test_configs_of_others_cannot_drive_a_terminal(project: Project) -> None:
    project.add("beta", dataset='prepare_script_args: {size: 3, "x": "\\u202e\\x9b"}')
    project.add("al\x1b[2Jpha")
    for words, code in (
        (("benchmarks",), 0),
        (("benchmarks", "beta"), 0),
        (("plan",), None),
        (("plan:beta",), 3),
    ):
        said = project.run(*words, code=code)
        assert not set(said) & {"\x1b", "\u202e", "\x9b"}, words
        assert "beta" in said and "Traceback" not in said
