"""A prepare script is checked against its arguments before anything runs, and without importing it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gymbuild.preparation.script import ScriptFacts, check_script


def check(tmp_path: Path, source: str, **args: Any) -> ScriptFacts:
    path = tmp_path / "prepare.py"
    path.write_text(source)
    return check_script(str(path), args, name="b/x/prepare.py")


@pytest.mark.parametrize(
    ("source", "args"),
    [
        ("def prepare(): pass", {}),
        ("def prepare(a, b=1, *, c, d=2): pass", {"a": 1, "c": 2}),
        ("def prepare(**anything): pass", {"a": 1}),
        ("def prepare(*rest, a=1): pass", {"a": 1}),
        ("def prepare(a=1, /, **anything): pass", {"a": 1}),
        ("from elsewhere import prepare", {"unknown": 1}),
        ("from elsewhere import other as prepare", {}),
        ("from elsewhere import *", {}),
        ("import functools\nprepare = functools.partial(print, 1)", {"end": ""}),
        ("prepare: object = make()", {}),
        ("one, prepare = make()", {}),
        ("if True:\n    def prepare(a): pass\nelse:\n    def prepare(): pass", {"a": 1}),
        ("try:\n    import x\nexcept ImportError:\n    pass\nelse:\n    def prepare(): pass", {}),
        ("try:\n    pass\nexcept ImportError:\n    def prepare(): pass", {}),
        ("with open('x') as file:\n    def prepare(): pass", {}),
        ("@decorated\ndef prepare(): pass", {"a": 1}),
        ("raise SystemExit('importing this would end the test')\ndef prepare(): pass", {}),
        ("# -*- coding: latin-1 -*-\ndef prepare(): pass", {}),
    ],
)
def test_a_script_that_can_be_run_has_no_problems(tmp_path: Path, source: str, args: dict[str, Any]) -> None:
    assert check(tmp_path, source, **args).problems == []


@pytest.mark.parametrize(
    ("source", "args", "problem"),
    [
        ("x = 1", {}, "b/x/prepare.py: the prepare script defines no function prepare()"),
        ("def prepair(): pass", {}, "defines no function prepare(); it defines prepair()"),
        ("def outer():\n    def prepare(): pass", {}, "defines no function prepare()"),
        ("class Outer:\n    def prepare(self): pass", {}, "defines no function prepare()"),
        ("prepare: object", {}, "defines no function prepare()"),
        (
            "\nasync def prepare(): pass",
            {},
            "b/x/prepare.py:2: prepare is async; it has to be a plain function",
        ),
        ("class prepare: pass", {}, "b/x/prepare.py:1: prepare is a class; it has to be a function"),
        ("prepare = None", {}, "prepare is None; it has to be a function"),
        (
            "def prepare(split): pass",
            {},
            "b/x/prepare.py:1: prepare() needs the argument 'split', which nothing gives; set prepare_script_args.split",
        ),
        ("def prepare(*, split): pass", {}, "needs the argument 'split'"),
        (
            "def prepare(split='test', size=1): pass",
            {"spilt": "x"},
            "prepare() has no argument 'spilt' (it takes split, size); did you mean 'split'?",
        ),
        ("def prepare(): pass", {"a": 1}, "prepare() has no argument 'a' (it takes none)"),
        ("def prepare(a, /): pass", {}, "prepare() needs 'a' by position only"),
        ("def prepare(a, /): pass", {"a": 1}, "takes 'a' by position only"),
        ("def prepare(a, /, **more): pass", {"a": 1}, "prepare() needs 'a' by position only"),
        ("if x:\n    def prepare(a): pass\nelse:\n    def prepare(b): pass", {}, "needs the argument 'b'"),
        (
            "\n\ndef prepare(:\n    pass",
            {},
            "b/x/prepare.py:3: the prepare script does not parse (invalid syntax)",
        ),
        ("def prepare(): pass\n\0", {}, "the prepare script does not parse"),
        (
            "def prepare(): pass\ndef is_prepared_data_current(): pass",
            {},
            "b/x/prepare.py:2: is_prepared_data_current() has to take one argument",
        ),
        (
            "def prepare(): pass\nasync def is_prepared_data_current(p): pass",
            {},
            "is_prepared_data_current is async",
        ),
    ],
)
def test_what_keeps_a_script_from_running_is_said(
    tmp_path: Path, source: str, args: dict[str, Any], problem: str
) -> None:
    [found] = check(tmp_path, source, **args).problems
    assert problem in found


def test_all_problems_are_said_at_once(tmp_path: Path) -> None:
    assert len(check(tmp_path, "def prepare(a, b): pass", c=1, d=2).problems) == 4


def test_a_script_that_is_not_there_or_a_folder(tmp_path: Path) -> None:
    assert check_script(str(tmp_path / "no.py"), {}, name="no.py").problems == [
        "no.py: the prepare script is not there"
    ]
    assert check_script(str(tmp_path), {}, name="b").problems == ["b: the prepare script is a folder"]


def test_the_facts_of_a_script(tmp_path: Path) -> None:
    facts = check(tmp_path, "\n\ndef prepare(): pass\n\ndef is_prepared_data_current(fpath): return True\n")
    assert facts == ScriptFacts([], has_current_check=True)
    assert not check(tmp_path, "def prepare(): pass").has_current_check
