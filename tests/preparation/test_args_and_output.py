"""What goes into a run is said plainly, and what comes out of it is looked at line by line."""

from __future__ import annotations

import datetime
import enum
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gymbuild.preparation.args import encode_args
from gymbuild.preparation.output import OutputError, check_output, check_returned
from gymbuild.system.errors import UsageError
from gymbuild.system.paths import Checkout

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), json_values))
def test_arguments_are_canonical_json_and_nothing_is_lost(args: dict[str, Any]) -> None:
    encoded = encode_args(args, Checkout("."))
    assert json.loads(encoded.decode("utf-8", "surrogatepass")) == args
    assert encoded == encode_args(dict(reversed(args.items())), Checkout("."))
    plain = json.dumps(args, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert encoded == plain.encode("utf-8", "surrogatepass")


def test_paths_are_relative_to_the_checkout_when_inside_it(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path)
    args = {
        "in": Path(checkout.root) / "data/a.txt",
        "relative": Path("data/b.txt"),
        "out": Path("/elsewhere/c"),
    }
    assert json.loads(encode_args(args, checkout)) == {
        "in": "data/a.txt",
        "relative": "data/b.txt",
        "out": "/elsewhere/c",
    }


class Colour(enum.IntEnum):
    RED = 1


@pytest.mark.parametrize(
    ("value", "key"),
    [
        (datetime.date(2024, 1, 1), "a"),
        ({1, 2}, "a"),
        ((1, 2), "a"),
        (b"bytes", "a"),
        (float("nan"), "a"),
        (float("inf"), "a"),
        (Colour.RED, "a"),
        ([1, {"b": object()}], r"a\[1\]\.b"),
        ({1: "x"}, "a"),
        ({"b": {None: 1}}, r"a\.b"),
    ],
)
def test_what_json_has_no_form_for_is_an_error_that_names_the_argument(value: object, key: str) -> None:
    with pytest.raises(UsageError, match=rf"^prepare_script_args\.{key}: JSON has no form for"):
        encode_args({"ok": 1, "a": value}, Checkout("."))


def written(tmp_path: Path, content: bytes) -> str:
    path = tmp_path / "x.jsonl"
    path.write_bytes(content)
    return str(path)


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        (b'{"a": 1}\n', 1),
        (b'{"a": 1}\n{"a": 2}', 2),
        (b'{"a": 1}\r\n\r\n  \n{}\n', 2),
        (b'{"a": 123456789012345678901234567890, "b": "\\ud800"}\n', 1),
        ('{"a": "é\u2028x"}\n'.encode(), 1),
        (b'{"a": NaN, "b": -Infinity}\n', 1),
        (b"\xef\xbb\xbf{}\n", 1),
    ],
)
def test_rows_are_counted(tmp_path: Path, content: bytes, rows: int) -> None:
    assert check_output(written(tmp_path, content), "x.jsonl") == rows


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "x.jsonl is empty"),
        (b"\n \n", "x.jsonl is empty"),
        (b'{"a": 1}\n[1]\n', "x.jsonl, line 2: each line has to be a JSON object; this one is an array"),
        (b"null\n", "line 1: each line has to be a JSON object; this one is null"),
        (b"3\n", "line 1: each line has to be a JSON object; this one is a number"),
        (
            b"{}\n\n{'a': 1}\n",
            "x.jsonl, line 3: not JSON \\(Expecting property name.* at column 2\\): {'a': 1}",
        ),
        (b'{"a": 1', "line 1: not JSON"),
        (b'{"a": 1}{"b": 2}\n', "line 1: not JSON \\(Extra data at column 9\\)"),
        (b'{"a": "\xff"}\n', "line 1: not UTF-8"),
    ],
)
def test_an_output_that_is_no_prepared_file_is_an_error_that_shows_which_line(
    tmp_path: Path, content: bytes, message: str
) -> None:
    with pytest.raises(OutputError, match=message):
        check_output(written(tmp_path, content), "x.jsonl")


def test_an_output_that_is_not_there_or_a_folder(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"no\.jsonl is not there: prepare\(\) did not write it"):
        check_output(str(tmp_path / "no.jsonl"), "no.jsonl")
    with pytest.raises(OutputError, match="is a folder"):
        check_output(str(tmp_path), "data")


def test_the_returned_path_is_the_configured_one(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path)
    (tmp_path / "data").mkdir()
    os.symlink("data", tmp_path / "link")
    for returned in (
        "data/x.jsonl",
        "./data/../data/x.jsonl",
        f"{checkout.root}/data/x.jsonl",
        "link/x.jsonl",
    ):
        check_returned(returned, "data/x.jsonl", checkout)
    with pytest.raises(
        OutputError, match=r"returned data/y\.jsonl, but the config's jsonl_fpath is data/x\.jsonl"
    ):
        check_returned("data/y.jsonl", "data/x.jsonl", checkout)
