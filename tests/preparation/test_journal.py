"""The journal leaves nothing behind once a run has ended, and loses nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gymbuild.cache.store import Store
from gymbuild.preparation.journal import Journal
from gymbuild.system.locks import lock
from gymbuild.system.paths import Checkout

NAMES = ["alpha", "suite/alpha", "suite", ".dots", "output"]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    (tmp_path / "data").mkdir()
    return Checkout(tmp_path)


def begin(checkout: Checkout, name: str) -> tuple[Journal, Path]:
    output = Path(checkout.root) / "data" / f"{NAMES.index(name)}.jsonl"
    output.write_text(name)
    journal = Journal(checkout, Store(checkout))
    journal.begin(name, checkout.relative(str(output)), ())
    assert not output.exists()
    return journal, output


def left_in(checkout: Checkout) -> list[str]:
    return [
        str(path)
        for folder in ("held", "journal")
        for path in Path(checkout.cached(folder)).rglob("*")
        if path.is_file()
    ]


def folders_in(checkout: Checkout) -> list[str]:
    return os.listdir(checkout.cached("held"))


def test_a_commit_leaves_nothing(checkout: Checkout) -> None:
    for name in NAMES:
        begin(checkout, name)[0].commit(name)
        assert folders_in(checkout) == []


def test_a_roll_back_leaves_nothing(checkout: Checkout) -> None:
    for name in NAMES:
        journal, output = begin(checkout, name)
        assert journal.roll_back(name)
        assert output.read_text() == name
        assert folders_in(checkout) == []


def test_what_others_have_in_the_same_folder_stays(checkout: Checkout) -> None:
    journal, output = begin(checkout, "suite/alpha")
    begin(checkout, "suite")[0].commit("suite")
    journal.recover(print)
    assert output.read_text() == "suite/alpha"


@pytest.mark.parametrize("name", NAMES)
def test_what_a_run_that_died_in_its_commit_has_left_is_removed_by_the_next(
    checkout: Checkout, name: str
) -> None:
    journal, output = begin(checkout, name)
    os.unlink(journal._entry(name))
    output.write_text("new")
    with lock(checkout, f"prepare:{name}"):
        Journal(checkout, Store(checkout)).recover(print)  # somebody is at it
        assert journal.previous_output(name) is not None
    said: list[str] = []
    journal.recover(said.append)
    assert folders_in(checkout) == []
    assert output.read_text() == "new"
    assert said == []


def test_what_belongs_to_a_journal_entry_is_put_back_not_removed(checkout: Checkout) -> None:
    outputs = [begin(checkout, name)[1] for name in NAMES]
    journal = Journal(checkout, Store(checkout))
    journal.recover(lambda _: None)
    assert [output.read_text() for output in outputs] == NAMES
    assert left_in(checkout) == []


def test_an_entry_that_nobody_can_read_loses_nothing(checkout: Checkout) -> None:
    journal, output = begin(checkout, "alpha")
    Path(journal._entry("alpha")).write_text("{")
    journal.roll_back("alpha")
    [preserved] = [path for path in Path(checkout.cached("displaced")).rglob("*") if path.is_file()]
    assert preserved.read_text() == "alpha"
    assert not output.exists()
    assert folders_in(checkout) == []
