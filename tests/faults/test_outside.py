"""A folder that a config names becomes a symlink to outside the checkout: nothing is written, moved or removed there."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.faults.builders import finish, kill, wait_for_no_process
from tests.trees import Tree

BODY = """
images = HERE / "images"
images.mkdir(exist_ok=True)
(images / "one.txt").write_text("one")
rows = [{"task_id": str(number)} for number in range(3)]
"""


@pytest.fixture
def built(tree: Tree) -> Tree:
    tree.benchmark("alpha", BODY, signature="", dataset='prepare_outputs: ["benchmarks/alpha/images/*.txt"]')
    tree.gymbuild("plan")
    return tree


def swap(tree: Tree, name: str) -> Path:
    """Put a symlink to outside in the place of a folder; returns where it leads, with files of other people."""
    outside = tree.root.parent / "outside"
    outside.mkdir()
    for file in ("alpha.jsonl", "one.txt", "other.txt"):
        (outside / file).write_text("somebody else's\n")
    folder = tree.path(f"benchmarks/alpha/{name}")
    if folder.exists():
        shutil.rmtree(folder)
    folder.symlink_to(outside)
    return outside


def contents(folder: Path) -> dict[str, tuple[str, int]]:
    return {path.name: (path.read_text(), path.stat().st_mtime_ns) for path in sorted(folder.iterdir())}


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("data", "warm"),
        ("images", "edited"),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (("data", "edited"), ("data", "cold"), ("images", "warm"), ("images", "cold"))
        ),
    ],
)
def test_a_folder_of_outputs_that_leads_outside_is_an_error_that_names_it(
    built: Tree, name: str, start: str
) -> None:
    if start == "cold":
        shutil.rmtree(built.path(".cache"))
    elif start == "edited":  # a run, where the others restore
        built.replace("benchmarks/alpha/prepare.py", "range(3)", "range(4)")
    outside = swap(built, name)
    before = contents(outside)
    for words in (("prepare:alpha",), ("plan:alpha",), ("-a", "prepare:alpha")):
        said = built.gymbuild(*words, code=3)
        assert f"benchmarks/alpha/{name}" in said
        assert "outside the checkout" in said and "symbolic link" in said and "allow_outside=true" in said
        assert 'File "' not in said
    assert "skipped" in built.gymbuild("plan")
    built.gymbuild("clean", "prepare:alpha", code=None)  # cold, there is no such task
    assert contents(outside) == before
    assert built.count()["alpha"] == 1
    built.path(f"benchmarks/alpha/{name}").unlink()
    built.gymbuild("plan")
    assert built.output("alpha").read_text().count("\n") == (4 if start == "edited" else 3)
    assert contents(outside) == before


def test_a_folder_that_is_moved_outside_with_all_its_files_is_seen_by_a_start_that_knows_it(
    built: Tree,
) -> None:
    assert "nothing to do" in built.gymbuild("plan")
    data, outside = built.path("benchmarks/alpha/data"), built.root.parent / "outside"
    data.rename(outside)
    data.symlink_to(outside)
    before = contents(outside)
    assert "benchmarks/alpha/data" in built.gymbuild("prepare:alpha", code=3)
    assert "skipped" in built.gymbuild("plan")
    assert contents(outside) == before
    data.unlink()
    outside.rename(data)
    assert "nothing to do" in built.gymbuild("plan")


def test_a_folder_that_is_swapped_by_an_earlier_task_of_the_same_build(built: Tree) -> None:
    built.benchmark("beta")
    outside = built.root.parent / "outside"
    outside.mkdir()
    built.gymbuild("prepare")
    built.replace("benchmarks/beta/prepare.py", "question {i}", "another {i}")
    built.output("beta").write_text("by hand\n")
    data = built.path("benchmarks/beta/data")
    built.replace(
        "benchmarks/alpha/prepare.py",
        "    images =",
        f"    os.rename({str(data)!r}, {str(data)!r} + '.old')\n"
        f"    os.symlink({str(outside)!r}, {str(data)!r})\n    images =",
    )
    said = built.gymbuild("prepare", code=3)
    assert "FAILED prepare:beta" in said
    assert "benchmarks/beta/data is a symbolic link to" in said
    assert "prepare:alpha prepared" in said
    assert list(outside.iterdir()) == []
    assert built.path("benchmarks/beta/data.old/beta.jsonl").read_text() == "by hand\n"


def test_what_a_killed_run_has_left_is_not_put_back_outside(built: Tree) -> None:
    good = built.output("alpha").read_text()
    hold = built.write("benchmarks/alpha/hold", "")
    built.replace(
        "benchmarks/alpha/prepare.py",
        "    images =",
        "    print('waiting', flush=True)\n"
        "    while os.path.exists('benchmarks/alpha/hold'): time.sleep(0.01)\n    images =",
    )
    process = built.start("prepare:alpha")
    assert process.stdout is not None
    while "waiting" not in process.stdout.readline():
        assert process.poll() is None
    kill(process.pid)
    finish(process)
    wait_for_no_process(built.root)
    hold.unlink()
    outside = swap(built, "data")
    before = contents(outside)
    said = built.gymbuild("prepare:alpha", code=3)
    assert "cannot be put back yet" in said and ".cache/held/alpha/output" in said
    assert contents(outside) == before
    built.path("benchmarks/alpha/data").unlink()
    assert "is back in place" in built.gymbuild("prepare:alpha", "dry_run=true")
    assert built.output("alpha").read_text() == good


def test_a_link_that_stays_inside_or_is_allowed_is_followed(built: Tree) -> None:
    data = built.path("benchmarks/alpha/data")
    data.rename(built.path("kept"))
    data.symlink_to("../../kept")
    built.gymbuild("-a", "plan")
    assert built.path("kept/alpha.jsonl").exists()
    assert built.count()["alpha"] == 2
    built.path("kept").rename(built.root.parent / "outside")
    data.unlink()
    data.symlink_to(built.root.parent / "outside")
    built.gymbuild("-a", "prepare:alpha", "allow_outside=true")
    assert built.count()["alpha"] == 3
    assert data.is_symlink()
