"""`shard` and `merge`: a plan for a job array, and back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.commands.conftest import Make
from tests.tasks.conftest import Project

ROWS = "rows = [{'task_id': f't{i:03}', 'question': 'q' * (i % 37 + 1)} for i in range(size)]"


def build(project: Project) -> None:
    project.add("alpha", ROWS, signature="size: int = 120")
    project.run("plan:alpha", "plan_output_fpath=alpha.json")


@pytest.fixture
def planned(copy_of: Make) -> Project:
    """A checkout with alpha's plan as alpha.json."""
    return copy_of(build)


def shards(project: Project, pattern: str) -> list[list[str]]:
    """The task ids of shards, by file name."""
    files = sorted(project.root.glob(pattern))
    return [[task["task_id"]["task_id"] for task in json.loads(f.read_text())["tasks"]] for f in files]


def merged(project: Project, pattern: str, name: str = "merged.json") -> bytes:
    files = [str(path) for path in sorted(project.root.glob(pattern))]
    project.run("merge", *files, "--output", name)
    return project.path(name).read_bytes()


@pytest.mark.parametrize("by", ["count", "bytes"])
@pytest.mark.parametrize("of", [1, 3, 12])
def test_every_task_is_in_one_shard_and_merge_gives_the_bytes_back(
    planned: Project, by: str, of: int
) -> None:
    said = planned.run("shard", "alpha.json", "--of", str(of), "--by", by, "--out", "out")
    assert len(said.splitlines()) == of
    ids = [task_id for shard in shards(planned, "out/*.json") for task_id in shard]
    assert sorted(ids) == [f"t{number:03}" for number in range(120)]
    assert merged(planned, "out/*.json") == planned.path("alpha.json").read_bytes()


def test_merge_prints_the_plan_when_no_file_is_named(planned: Project) -> None:
    planned.run("shard", "alpha.json", "--of", "2")
    said = planned.run("merge", "alpha.shard-1-of-2.json", "alpha.shard-2-of-2.json")
    assert said == planned.path("alpha.json").read_text()


def test_the_plan_of_a_selection_comes_back_as_one(planned: Project) -> None:
    planned.run("plan:alpha", "plan_task_ids=[t001,t002,t077]", "plan_output_fpath=some.json")
    planned.run("shard", "some.json", "--of", "2", "--out", "out")
    assert merged(planned, "out/*.json") == planned.path("some.json").read_bytes()


def test_by_count_a_task_stays_in_its_shard_when_others_are_added(planned: Project) -> None:
    planned.run("shard", "alpha.json", "--of", "4", "--out", "before")
    planned.path("benchmarks/alpha/prepare.py").write_text(
        planned.path("benchmarks/alpha/prepare.py")
        .read_text()
        .replace(ROWS, ROWS.replace("range(size)", "range(-50, size + 50)"))
    )
    planned.run("plan:alpha", "plan_output_fpath=alpha.json")
    planned.run("shard", "alpha.json", "--of", "4", "--out", "after")
    for before, after in zip(shards(planned, "before/*"), shards(planned, "after/*"), strict=True):
        assert set(before) <= set(after)


def test_by_bytes_a_task_stays_when_rows_are_added_at_the_end(planned: Project) -> None:
    planned.run("shard", "alpha.json", "--of", "4", "--by", "bytes", "--out", "before")
    planned.run("plan:alpha", "prepare_script_args.size=200", "plan_output_fpath=alpha.json")
    planned.run("shard", "alpha.json", "--of", "4", "--by", "bytes", "--out", "after")
    assert sum(map(len, shards(planned, "after/*"))) == 200
    for before, after in zip(shards(planned, "before/*"), shards(planned, "after/*"), strict=True):
        assert set(before) <= set(after)


def test_by_bytes_shards_are_even_also_when_rows_are_not(project: Project) -> None:
    rows = (
        "rows = [{'task_id': f't{i:03}', 'question': 'q' * (20000 if i == 5 else 100)} for i in range(size)]"
    )
    project.add("alpha", rows, signature="size: int = 120")
    project.run("plan:alpha", "plan_output_fpath=alpha.json")
    project.run("shard", "alpha.json", "--of", "2", "--by", "bytes", "--out", "out")
    one, other = shards(project, "out/*")
    alone = one if "t005" in one else other
    assert len(alone) < 10


@pytest.mark.parametrize("by", ["count", "bytes"])
def test_kept_shards_keep_their_tasks_wherever_rows_are_added(planned: Project, by: str) -> None:
    planned.run("shard", "alpha.json", "--of", "3", "--by", by, "--out", "before")
    script = planned.path("benchmarks/alpha/prepare.py")
    script.write_text(script.read_text().replace("range(size)", "reversed(range(size + 40))"))
    planned.run("plan:alpha", "plan_output_fpath=alpha.json")
    planned.run("shard", "alpha.json", "--of", "3", "--by", by, "--keep", "before", "--out", "after")
    for before, after in zip(shards(planned, "before/*"), shards(planned, "after/*"), strict=True):
        assert set(before) <= set(after)
    assert merged(planned, "after/*") == planned.path("alpha.json").read_bytes()


def test_the_same_shards_every_time(planned: Project) -> None:
    for out, seed in (("one", "1"), ("two", "2")):
        planned.run("shard", "alpha.json", "--of", "5", "--by", "bytes", "--out", out, PYTHONHASHSEED=seed)
    assert shards(planned, "one/*") == shards(planned, "two/*")


def test_a_missing_shard_or_one_of_another_split_is_told(planned: Project) -> None:
    planned.run("shard", "alpha.json", "--of", "3")
    planned.run("shard", "alpha.json", "--of", "2")
    one, two = "alpha.shard-1-of-3.json", "alpha.shard-2-of-3.json"
    assert "1 of 3 shards missing: 3" in planned.run("merge", one, two, code=3)
    assert "several splits" in planned.run("merge", one, "alpha.shard-1-of-2.json", code=3)
    assert "more than once" in planned.run("merge", one, two, "alpha.shard-3-of-3.json", one, code=3)


def test_shards_that_are_not_of_one_plan_are_refused_whatever_their_names(planned: Project) -> None:
    planned.run("shard", "alpha.json", "--of", "2")
    planned.path("alpha.shard-1-of-2.json").rename(planned.path("one.json"))
    for words in (("one.json", "alpha.json"), ("one.json", "one.json")):
        assert "more than one has" in planned.run("merge", *words, code=3)
    planned.run("merge", "one.json", "alpha.shard-2-of-2.json", "-o", "merged.json")
    assert planned.path("merged.json").read_bytes() == planned.path("alpha.json").read_bytes()


def test_more_shards_than_tasks_and_back(planned: Project) -> None:
    planned.run("shard", "alpha.json", "--of", "300", "--out", "out")
    assert [] in shards(planned, "out/*.json")
    assert merged(planned, "out/*.json") == planned.path("alpha.json").read_bytes()


def test_rows_that_are_gone_cannot_be_weighed(planned: Project) -> None:
    import shutil

    shutil.rmtree(planned.path(".cache"))
    shutil.rmtree(planned.path("benchmarks/alpha/data"))
    said = planned.run("shard", "alpha.json", "--of", "2", "--by", "bytes", code=1)
    assert "its bytes are not known" in said
    assert not list(Path(planned.root).glob("*.shard-*"))
    planned.run("shard", "alpha.json", "--of", "2")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "name one plan file"),
        (("alpha.json",), "how many shards"),
        (("alpha.json", "--of", "-1"), "1 shard or more"),
        (("alpha.json", "--of", "0"), "how many shards"),
        (("alpha.json", "--of", "99999999"), "100,000 shards at the most"),
        (("alpha.json", "--of", "x"), "invalid literal"),
        (("alpha.json", "--of", "2", "--by", "size"), "'count', 'bytes'"),
        (("nothing.json", "--of", "2"), "nothing.json"),
        (("alpha.json", "--of", "2", "--keep", "nowhere"), "nowhere"),
    ],
)
def test_what_cannot_be_split_is_a_usage_error(planned: Project, words: tuple[str, ...], text: str) -> None:
    said = planned.run("shard", *words, code=3)
    assert text in said
    assert "Traceback" not in said
