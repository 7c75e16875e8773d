"""A step of a checkout's own: a kind of task that gymbuild has never heard of, and everything works on it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.trees import Tree

DODO = '''
import json
from gymbuild.config.file_step import FileStep
from gymbuild.tasks import *
from gymbuild.tasks import DOIT_CONFIG, add_step, task_plan, task_prepare, task_validate, task_venv, tasks_of
from gymbuild.system.errors import PlanError


@add_step
class Count(FileStep):
    """Writes the number of rows of each plan."""

    group = "count"
    doc = "numbers of rows, one file per plan"

    def names(self):
        return self.session.graph.benchmarks

    def sources(self, name):
        return (f"plan:{name}",)

    def files(self, name):
        return self.session.steps["plan"].targets(name)

    def target(self, name):
        return f".cache/counts/{name}.txt"

    def make(self, name, write):
        with open(self.session.checkout.absolute(self.files(name)[0])) as file:
            count = len(json.load(file)["tasks"])
        if not count % 5:
            raise PlanError(f"{name} has {count} rows, and a multiple of five brings bad luck")
        write(f"{count}\\n".encode())
        return {"rows": count}

    def describe(self, made):
        return f"{made['rows']} rows"


task_count = tasks_of("count")


def task_own():
    return {"actions": ["cat .cache/counts/alpha.txt > own.txt"], "task_dep": ["count:alpha"], "targets": ["own.txt"]}
'''


@pytest.fixture
def counted(tree: Tree) -> Tree:
    tree.with_dodo().write("dodo.py", DODO)
    for name in ("alpha", "beta"):
        tree.benchmark(name)
    return tree


def count(tree: Tree, name: str) -> str:
    return tree.read(f".cache/counts/{name}.txt")


def test_it_is_made_after_what_it_is_made_from_and_then_current(counted: Tree) -> None:
    said = counted.gymbuild("count")
    assert "count:alpha written: .cache/counts/alpha.txt (3 rows)" in said
    assert count(counted, "beta") == "3\n"
    assert counted.gymbuild("count") == "nothing to do: 6 current\n"
    assert "-- prepare:alpha\n-- plan:alpha\n-- count:alpha\n" in counted.gymbuild("count:alpha")
    counted.replace("benchmarks/alpha/prepare.py", "size: int = 3", "size: int = 4")
    said = counted.gymbuild("count")
    assert count(counted, "alpha") == "4\n" and "count:beta" not in said


def test_a_start_that_finds_nothing_to_do_answers_by_stat_alone(counted: Tree) -> None:
    counted.gymbuild("count")
    code = (
        "import sys\nfrom gymbuild.__main__ import run\n"
        f"assert run(['--root', {str(counted.root)!r}, 'count']) == 0\n"
        "print(sorted({'doit', 'sqlite3', 'xxhash', 'pydantic', 'dodo'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("nothing to do: 6 current\n[]\n")


def test_every_command_works_on_it(counted: Tree) -> None:
    assert "count:alpha" in counted.gymbuild("list", "--all")
    assert "count:alpha is stale" in counted.gymbuild("why", "count:alpha")
    counted.gymbuild("-n", "4", "count")
    assert "count:alpha is current" in counted.gymbuild("why", "count:alpha")
    assert "count:alpha" in counted.gymbuild("info", "count:alpha")
    rows = json.loads(counted.gymbuild("inputs", "--json", "count:alpha"))
    assert {(row["kind"], row["state"]) for row in rows} == {("file", "same"), ("fact", "same")}
    assert "there is no such task" in counted.gymbuild("count:gamma", code=3)
    assert "there is no such task" in counted.gymbuild("inputs", "count:gamma", code=3)
    counted.gymbuild("forget", "count:alpha")
    assert "count:alpha is the same" in counted.gymbuild("count:alpha")
    assert "would remove .cache/counts/alpha.txt" in counted.gymbuild("clean", "-n", "count:alpha")
    counted.gymbuild("clean", "count:alpha")
    assert not counted.path(".cache/counts/alpha.txt").exists()
    assert "count:alpha restored" in counted.gymbuild("count:alpha")
    counted.path(".cache/counts/alpha.txt").write_text("mine\n")
    counted.gymbuild("count")
    assert count(counted, "alpha") == "3\n"
    assert counted.displaced() == {".cache/counts/alpha.txt": "mine\n"}


def test_its_failure_has_an_exit_code_and_stops_nobody_else(counted: Tree) -> None:
    counted.replace("benchmarks/beta/prepare.py", "size: int = 3", "size: int = 5")
    said = counted.gymbuild("count", code=1)
    assert "FAILED count:beta" in said and "bad luck" in said
    assert count(counted, "alpha") == "3\n"


@pytest.mark.parametrize("program", ["gymbuild", "doit"])
def test_a_task_of_the_dodos_own_may_need_it(counted: Tree, program: str) -> None:
    run = counted.gymbuild if program == "gymbuild" else counted.doit
    run("own")
    assert counted.read("own.txt") == "3\n"
    counted.replace("benchmarks/alpha/prepare.py", "size: int = 3", "size: int = 4")
    run("own")
    assert counted.read("own.txt") == "4\n"


@pytest.mark.parametrize("program", ["gymbuild", "doit"])
def test_default_tasks_of_the_dodo_are_those_of_a_start_without_words(counted: Tree, program: str) -> None:
    run = counted.gymbuild if program == "gymbuild" else counted.doit
    counted.write("dodo.py", DODO + "\nDOIT_CONFIG = {**DOIT_CONFIG, 'default_tasks': ['plan', 'own']}\n")
    run()
    assert counted.read("own.txt") == "3\n"
    counted.path("own.txt").unlink()
    run("plan")
    run()
    assert counted.read("own.txt") == "3\n"
    counted.write("dodo.py", DODO + "\nDOIT_CONFIG = {**DOIT_CONFIG, 'default_tasks': ['plan:alpha']}\n")
    for _ in range(2):
        said = run()
        assert "-- plan:alpha" in said and "beta" not in said
    counted.write("dodo.py", DODO + "\nDOIT_CONFIG = {**DOIT_CONFIG}\ndel DOIT_CONFIG['default_tasks']\n")
    counted.path("own.txt").unlink()
    run(code=None)  # every task that there is: these rows are not valid
    assert counted.read("own.txt") == "3\n"
