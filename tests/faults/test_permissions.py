"""What this user may not read or write: an error that names it and its remedy, and the last good output in place."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults.permissions import build, mode
from tests.trees import Tree

BODY = """
word = (HERE / "word.txt").read_text()
rows = [{"task_id": f"{word} {number}", "question": word} for number in range(3)]
"""


@pytest.fixture
def built(tree: Tree) -> Tree:
    """A checkout with one benchmark that is current."""
    tree.benchmark("alpha", BODY, signature="")
    tree.write("benchmarks/alpha/word.txt", "first")
    build(tree, "plan")
    return tree


def word(tree: Tree) -> str:
    """What the prepared file was made from; fails where it is not whole."""
    rows = [json.loads(line) for line in tree.output("alpha").read_text().splitlines()]
    assert len(rows) == 3
    return str(rows[0]["question"])


def edit(tree: Tree, text: str) -> None:
    """Another word, and another script: every part of the cache will be written to."""
    tree.write("benchmarks/alpha/word.txt", text)
    script = tree.path("benchmarks/alpha/prepare.py")
    script.write_text(script.read_text() + f"# {text}\n")


def check_said(said: str, path: str) -> None:
    assert "Permission denied" in said, said
    assert path in said, said
    assert f"{path} belongs to " in said and "give " in said and "the right to" in said, said
    assert 'File "' not in said, said


@contextmanager
def denied(path: Path, bits: int) -> Iterator[None]:
    """No right to `path`; where it is a folder of locks, none of them is there yet."""
    if path.name == "locks":
        shutil.rmtree(path)
        path.mkdir()
    with mode(path, bits):
        yield


def slow(*values: object) -> object:
    return pytest.param(*values, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    "name",
    [
        "objects",
        "journal",
        slow("actions"),
        slow("locks"),
        slow("runs"),
        slow("state.db"),
        slow("held"),
        slow("locks/prepare%3Aalpha.lock"),
    ],
)
def test_a_part_of_the_cache_that_may_not_be_written(built: Tree, name: str) -> None:
    path = built.path(f".cache/{name}")
    edit(built, "second")
    with denied(path, 0o500 if path.is_dir() else 0o400):
        check_said(build(built, "plan", code=3), str(path))
        assert word(built) == "first"
        assert "is stale" in build(built, "why", "prepare:alpha")
    build(built, "plan")
    assert word(built) == "second"
    assert not built.displaced()


def test_a_cache_that_may_not_be_written_at_all(built: Tree) -> None:
    cache = built.path(".cache")
    shutil.rmtree(cache)
    cache.mkdir()
    edit(built, "second")
    with mode(cache, 0o500):
        check_said(build(built, "plan", code=3), str(cache))
        assert word(built) == "first"
        assert "alpha" in build(built, "list", "--all")
        build(built, "benchmarks")
    with mode(cache, 0):
        check_said(build(built, "plan", code=3), str(cache))
    build(built, "plan")
    assert word(built) == "second"


def test_what_only_saves_time_may_be_unwritable(built: Tree) -> None:
    edit(built, "second")
    with mode(built.path(".cache/index"), 0o400), mode(built.path(".cache/clock"), 0o400):
        build(built, "plan")
    assert word(built) == "second"
    assert "second 0" in built.plan("alpha").read_text()
    assert "nothing to do: 2 current" in build(built, "plan")


def test_where_nothing_can_be_recorded_nothing_is_made(built: Tree) -> None:
    edit(built, "second")
    with mode(built.path(".cache/state.db"), 0o400):
        said = build(built, "plan", code=3)
    assert ".cache/state.db" in said and "mode 0400" in said, said
    assert word(built) == "first"
    build(built, "plan")
    assert word(built) == "second"


def test_a_cache_of_somebody_else_is_enough_for_what_is_current(built: Tree) -> None:
    cache = built.path(".cache")
    paths = [cache, *cache.rglob("*")]
    for path in paths:
        if os.geteuid() == 0:
            os.chown(path, 65534, 65534, follow_symlinks=False)
        else:
            path.chmod(path.stat().st_mode & ~0o222)
    assert "nothing to do: 2 current" in build(built, "plan")
    edit(built, "second")
    said = build(built, "plan", code=3)
    assert "belongs to" in said and ".cache/" in said, said
    assert word(built) == "first"
    for path in paths:
        if path.exists():
            if os.geteuid() == 0:
                os.chown(path, 0, 0, follow_symlinks=False)
            path.chmod(path.stat().st_mode | 0o200)
    build(built, "plan")
    assert word(built) == "second"


@pytest.mark.parametrize("bits", [0o500, slow(0)])
def test_a_folder_of_the_output_that_may_not_be_written(built: Tree, bits: int) -> None:
    folder = built.output("alpha").parent
    built.benchmark("beta")
    edit(built, "second")
    with mode(folder, bits):
        said = build(built, "plan", code=3)
        assert "belongs to" in said and str(folder) in said, said
        # nothing is left of the attempt that would keep others, or the next start, from working
        assert "nothing to do" in build(built, "plan:beta")
        assert "cut off" not in build(built, "plan", code=3)
    assert built.output("beta").exists()
    assert word(built) == "first"
    build(built, "plan")
    assert word(built) == "second"
    assert not built.displaced()


def test_a_script_that_locks_the_folder_of_its_output_loses_nothing(built: Tree) -> None:
    folder = built.output("alpha").parent
    edit(built, "second")
    script = built.read("benchmarks/alpha/prepare.py")
    lock = "        os.chmod(OUT.parent, 0o500)\n        raise ValueError('half way')\n"
    built.replace(
        "benchmarks/alpha/prepare.py", "    with OUT.open", f"    if True:\n{lock}    with OUT.open"
    )
    built.benchmark("beta")
    try:
        said = build(built, "plan", code=76)
        assert "half way" in said
        assert "cannot be put back" in said and f"{folder} belongs to" in said
        said = build(built, "plan", code=3)
        assert "cannot be put back yet" in said and ".cache/held/alpha/output" in said
        assert built.plan("beta").exists()
    finally:
        folder.chmod(0o700)
    said = build(built, "prepare:alpha", "dry_run=true")
    assert "is back in place" in said
    assert word(built) == "first"
    built.path("benchmarks/alpha/prepare.py").write_text(script)
    build(built, "plan")
    assert word(built) == "second"


def test_an_output_that_is_read_only_is_made_anew_and_what_a_person_wrote_in_it_is_kept(built: Tree) -> None:
    built.output("alpha").chmod(0o400)
    assert "nothing to do" in build(built, "plan")
    edit(built, "second")
    build(built, "plan")
    assert word(built) == "second"
    assert not built.displaced()
    built.output("alpha").write_text('{"task_id": "by hand"}\n')
    built.output("alpha").chmod(0o400)
    assert "changed by hand" in build(built, "plan")
    assert word(built) == "second"
    assert list(built.displaced().values()) == ['{"task_id": "by hand"}\n']


def test_an_output_that_may_not_be_read_is_put_back_and_kept(built: Tree) -> None:
    built.output("alpha").chmod(0)
    said = build(built, "plan")
    assert "cannot be read; it is kept as" in said
    assert word(built) == "first"
    kept = built.path(said.partition("it is kept as ")[2].split()[0])
    kept.chmod(0o600)
    assert kept.read_text() == built.output("alpha").read_text()


def test_a_script_that_may_not_be_read(built: Tree) -> None:
    script = built.path("benchmarks/alpha/prepare.py")
    with mode(script, 0):
        for words, code in (("prepare:alpha", 3), ("plan:alpha", 3), ("plan", 0)):
            said = build(built, words, code=code)
            check_said(said, str(script))
            assert "prepare:alpha: benchmarks/alpha/prepare.py: the prepare script cannot be read" in said
        assert word(built) == "first"
    assert "nothing to do: 2 current" in build(built, "plan")


def test_an_input_that_may_not_be_read_fails_the_script_in_its_own_way(built: Tree) -> None:
    guard = built.root.parent / "guard"
    with mode(built.path("benchmarks/alpha/word.txt"), 0):
        said = build(built, "plan", code=76, GYMBUILD_FAILURE_FILE=str(guard))
        assert "PermissionError: [Errno 13] Permission denied: 'benchmarks/alpha/word.txt'" in said
        assert "gymbuild/" not in said.replace(str(built.root), ""), said
        assert word(built) == "first"
    # that it may be read again is a change: the guard does not keep it from being tried
    assert "current" in build(built, "plan", GYMBUILD_FAILURE_FILE=str(guard))
    assert word(built) == "first"


@pytest.mark.parametrize(
    ("path", "bits"),
    [
        ("benchmarks/alpha/config.yaml", 0),
        ("benchmarks/alpha", 0),
        slow("benchmarks/alpha", 0o600),
        slow("benchmarks", 0o600),
    ],
)
def test_a_config_that_may_not_be_read_is_never_passed_over(built: Tree, path: str, bits: int) -> None:
    denied_path = built.path(path)
    with mode(denied_path, bits):
        said = build(built, "plan")
        check_said(said, str(denied_path))
        assert "plan:alpha: benchmarks/alpha" in said, said
        assert " skipped\n" in said
        for words in (("plan:alpha",), ("prepare:alpha",), ("plan", "--strict")):
            check_said(build(built, *words, code=3), str(denied_path))
        # another user may read it, and is not told what was found by this one
        if os.geteuid() == 0:
            assert "nothing to do: 2 current" in built.gymbuild("plan")
    assert "nothing to do: 2 current" in build(built, "plan")


def test_benchmarks_that_may_not_be_listed_are_an_error(built: Tree) -> None:
    with mode(built.path("benchmarks"), 0):
        for words in (("plan",), ("benchmarks",)):
            check_said(build(built, *words, code=3), str(built.path("benchmarks")))
    assert "nothing to do: 2 current" in build(built, "plan")


def test_a_symlink_to_where_this_user_may_not_look_hides_no_other_benchmark(built: Tree) -> None:
    secret = built.root.parent / "secret"
    (secret / "inner").mkdir(parents=True)
    built.path("benchmarks/aaa").symlink_to(secret / "inner")
    with mode(secret, 0):
        said = build(built, "plan")
        assert "aaa" in said and f"{secret} belongs to" in said
        assert "2 current, 1 skipped" in said


def test_a_plan_that_may_not_be_written(built: Tree) -> None:
    before = built.plan("alpha").read_bytes()
    edit(built, "second")
    with mode(built.path(".cache/plans"), 0o500):
        said = build(built, "plan", code=1)
        check_said(said, str(built.path(".cache/plans")))
        assert "the plan cannot be written: .cache/plans: " in said
        assert built.plan("alpha").read_bytes() == before
        assert word(built) == "second"
    build(built, "plan")
    assert built.plan("alpha").read_bytes() != before
    folder = built.path("plans")
    folder.mkdir()
    with mode(folder, 0o500):
        said = build(built, "plan:alpha", "plan_output_fpath=plans/a.json", code=1)
        check_said(said, str(folder))
    build(built, "plan:alpha", "plan_output_fpath=plans/a.json")
    assert (folder / "a.json").read_bytes() == built.plan("alpha").read_bytes()


def test_a_folder_of_environments_that_may_not_be_written(built: Tree) -> None:
    built.write("benchmarks/alpha/requirements.lock", "")
    venvs = built.path(".cache/venvs")
    venvs.mkdir(exist_ok=True)
    with mode(venvs, 0o500):
        check_said(build(built, "plan", code=76), str(venvs))
        assert word(built) == "first"


def test_kept_plans_that_may_not_be_written_or_read(built: Tree) -> None:
    build(built, "check", "--update", "plans_dir=plans")
    folder = built.path("plans")
    edit(built, "second")
    with mode(folder, 0o500):
        check_said(build(built, "check", "--update", "plans_dir=plans", code=1), str(folder))
        assert "first 0" in (folder / "alpha.json").read_text()
    with mode(folder / "alpha.json", 0):
        said = build(built, "check", "plans_dir=plans", code=1)
        check_said(said, str(folder / "alpha.json"))
        assert "plans/alpha.json: cannot be read" in said
    build(built, "check", "--update", "plans_dir=plans")
    assert "second 0" in (folder / "alpha.json").read_text()


def test_a_prompt_template_that_may_not_be_read(tree: Tree) -> None:
    tree.write("benchmarks/prompt.yaml", "user: 'say {question}'\n")
    tree.benchmark("alpha", dataset="prompt_config: benchmarks/prompt.yaml")
    with mode(tree.path("benchmarks/prompt.yaml"), 0):
        check_said(build(tree, "plan", code=1), str(tree.path("benchmarks/prompt.yaml")))
    build(tree, "plan")
    assert tree.count()["alpha"] == 1
