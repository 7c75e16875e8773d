"""The database of a `.cache/`: records that are whole or not there, and what an older `.cache/` holds."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sqlite3
from pathlib import Path

import pytest

from gymbuild.cache.database import Database
from tests.trees import Tree


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / ".cache" / "state.db")


def change(path: str, sql: str) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(sql)


def test_asking_makes_no_file(path: str) -> None:
    assert Database(path).get("plan", "x") is None
    assert Database(path).all("plan") == {}
    assert not os.path.exists(os.path.dirname(path))


def test_names_of_any_kind_come_back(path: str) -> None:
    names = ["plain", "ü/é", "line\nfeed", os.fsdecode(b"bad-\xff"), "\ud800"]
    Database(path).put([("kind", name, {"name": name}) for name in names])
    assert Database(path).all("kind") == {name: {"name": name} for name in names}
    assert Database(path).get("kind", names[3]) == {"name": names[3]}


def test_a_record_whose_bytes_have_changed_is_not_there(path: str) -> None:
    Database(path).put([("kind", "one", {"a": 1}), ("kind", "two", {"a": 2})])
    change(path, "UPDATE record SET value = '{\"a\":3}' WHERE name = 'one'")
    assert Database(path).get("kind", "one") is None
    assert Database(path).all("kind") == {"two": {"a": 2}}


def test_a_file_that_is_not_a_database_is_made_anew(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    os.makedirs(os.path.dirname(path))
    Path(path).write_bytes(b"not a database at all" * 500)
    database = Database(path)
    assert database.get("kind", "one") is None
    database.put([("kind", "one", 1)])
    assert Database(path).get("kind", "one") == 1
    assert "was damaged" in capsys.readouterr().err


def test_a_database_of_another_format_is_emptied_and_that_is_said(
    path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Database(path).put([("kind", "one", 1)])
    change(path, "PRAGMA user_version = 99")
    assert Database(path).get("kind", "one") is None
    assert "is of another gymbuild; what it holds is dropped" in capsys.readouterr().err


def test_a_database_that_is_deleted_meanwhile_is_made_anew(path: str) -> None:
    database = Database(path)
    database.put([("kind", "one", 1)])
    os.unlink(path)
    assert database.get("kind", "one") is None
    database.put([("kind", "two", 2)])
    assert Database(path).all("kind") == {"two": 2}


def test_several_processes_write_at_once_also_after_a_fork(path: str) -> None:
    database = Database(path)
    database.put([("kind", "parent", 0)])

    def write(number: int) -> None:
        for count in range(50):
            database.put([("kind", f"{number}-{count}", count)])

    processes = [multiprocessing.get_context("fork").Process(target=write, args=(i,)) for i in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert len(database.all("kind")) == 201


def test_a_folder_in_its_place_is_an_error_that_names_it(tree: Tree) -> None:
    tree.benchmark("alpha")
    tree.path(".cache/state.db").mkdir(parents=True)
    said = tree.gymbuild("plan", code=3)
    assert ".cache/state.db: Is a directory" in said and "Traceback" not in said
    tree.path(".cache/state.db").rmdir()
    tree.gymbuild("plan")


def test_what_an_older_cache_holds_is_dropped_with_one_line(tree: Tree) -> None:
    tree.benchmark("alpha")
    for name in ("state", "state.table", "digests", "doit.db", "graph", "configs"):
        tree.write(f".cache/{name}", "gymbuild-log-1\nold records")
    said = tree.gymbuild("plan")
    assert said.count("held records of an older gymbuild") == 1
    assert not [
        name
        for name in ("state", "state.table", "digests", "doit.db")
        if tree.path(f".cache/{name}").exists()
    ]
    assert "older" not in tree.gymbuild("plan")
