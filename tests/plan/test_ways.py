"""Every way of digesting rows gives what the plain reference gives: the same ids and digests, the same errors."""

from __future__ import annotations

import json
import random
import struct
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from gymbuild.plan.digesting import Rows, Rules, digester
from gymbuild.plan.prompts import Prompt

SOME = settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NUMBERS = st.integers() | st.integers(-(2**70), 2**70) | st.floats()
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
KEYS = TEXT | st.sampled_from(
    [
        "task_id",
        "problem_id",
        "instance_id",
        "agent_ref",
        "task_source",
        "skills_ref",
        "_ng_x",
        "question",
        "n",
    ]
)
PARAMS = st.dictionaries(
    st.sampled_from(["input", "temperature", "tools", "a", "z"]),
    st.sampled_from([None, [], 0.5, "x", 1]),
    max_size=3,
)
ROW = st.dictionaries(KEYS, VALUES, max_size=8) | st.builds(
    lambda row, params: {**row, "responses_create_params": params},
    st.dictionaries(KEYS, VALUES, max_size=8),
    PARAMS,
)
TEMPLATES = [
    None,
    Prompt('Solve: {question}\n"{n}" {{}}', None, frozenset(["question", "n"])),
    Prompt("{question}{question}", "You are \\{n}é.", frozenset(["question", "n"])),
    Prompt("{n!r:>5} {question}", None, frozenset(["question", "n"])),
    Prompt("no field", "", frozenset()),
    Prompt("{responses_create_params}{_ng_x}", None, frozenset(["responses_create_params", "_ng_x"])),
]


def found(data: bytes, rules: Rules, way: str) -> Rows:
    """What one way makes of some lines."""
    rows = Rows()
    digester(rules, way)(data, rows)  # type: ignore[arg-type]
    return rows


def same(data: bytes, way: str, rules: Rules | None = None) -> Rows:
    """What the reference makes of some lines, after a check that `way` makes the same of them."""
    rules = rules or Rules()
    expected = found(data, rules, "plain")
    assert found(data, rules, way) == expected
    return expected


def encoded(rows: list[Any], ascii_only: bool, spaces: bool, end: str) -> bytes:
    separators = None if spaces else (",", ":")
    return "".join(
        json.dumps(row, ensure_ascii=ascii_only, separators=separators) + end for row in rows
    ).encode()


@SOME
@given(
    rows=st.lists(ROW, max_size=4),
    ascii_only=st.booleans(),
    spaces=st.booleans(),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    template=st.sampled_from(TEMPLATES),
    ids=st.sampled_from(["content", "explicit"]),
)
def test_the_same_for_any_json(
    way: str, rows: list[Any], ascii_only: bool, spaces: bool, end: str, template: Prompt | None, ids: str
) -> None:
    same(encoded(rows, ascii_only, spaces, end), way, Rules(template, ids))


@SOME
@given(rows=st.lists(ROW, min_size=1, max_size=4), ascii_only=st.booleans(), data=st.data())
def test_the_same_for_any_mutation_of_bytes(
    way: str, rows: list[Any], ascii_only: bool, data: st.DataObject
) -> None:
    raw = bytearray(encoded(rows, ascii_only, True, "\n"))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(raw)))
        raw[place : place + data.draw(st.integers(0, 2))] = data.draw(
            st.binary(max_size=2)
            | st.sampled_from([b'"', b"\\", b"{", b"}", b",", b"\n", b"\\ud800", b"\\u00e9", b"e5"])
        )
    same(bytes(raw), way, Rules(data.draw(st.sampled_from(TEMPLATES))))


@SOME
@given(line=st.binary(max_size=12))
@example(b"-0")
@example(b"-")
@example(b"1e400")
@example(b"-1E-400")
@example(b"0.00001")
@example(b"100000000000000.5")
@example(b"1000000000000000.0")
@example(b"0.10")
@example(b"1.")
@example(b".5")
@example(b"01")
@example(b"NaN")
@example(b"-Infinity")
@example(b'"\\/\\u005c\\u0022\\u007f\\u0008\\u001F"')
@example(b'"\\ud83e\\uddee\\uD83E\\uDDEE"')
@example(b'"\\ud83e"')
@example(b'"\\ud83e\\u0041"')
@example(b'"\xed\xa0\x80"')
@example(b'"\xc0\xaf"')
@example(b'"\xf4\x90\x80\x80"')
@example(b'{"a":1,"a":2}')
@example(b'{"b":1,"\\u0061":2}')
@example(b'{"\\"":1,"#":2}')
@example(b"[1,]")
@example(b"[1 2]")
@example(b"\x0c1")
def test_the_same_for_any_value(way: str, line: bytes) -> None:
    same(b'{"task_id":"t","x":' + line + b"}", way)


@pytest.mark.parametrize("digits", [4299, 4301, 9000])
def test_integers_of_any_size(way: str, digits: int) -> None:
    number = "7" * digits
    rows = same(f'{{"task_id":"t","x":{number}}}\n{{"task_id":{number}}}'.encode(), way)
    assert rows.ids == ["t", number]
    assert rows.digests[:32] == sha256(f'{{"task_id":"t","x":{number}}}'.encode()).digest()


def test_floats_are_written_as_python_writes_them(way: str) -> None:
    chance = random.Random(5)
    floats = [struct.unpack("<d", chance.randbytes(8))[0] for _ in range(3000)]
    floats += [chance.uniform(-1, 1) * 10.0 ** chance.randrange(-8, 19) for _ in range(5000)]
    floats += [round(chance.uniform(0, 10**6), digits) for digits in range(12) for _ in range(200)]
    literals = [repr(number) for number in floats]
    literals += [f"{chance.uniform(0, 1000):.{digits}f}" for digits in range(1, 20) for _ in range(50)]
    literals += [f"{chance.randrange(10**17)}.{chance.randrange(100)}" for _ in range(500)]
    lines = [
        f'{{"task_id":{n},"x":{text}}}'
        for n, text in enumerate(literals)
        if text not in ("nan", "inf", "-inf")
    ]
    same("\n".join(lines).encode(), way)


def test_texts_of_any_length_and_alignment(way: str) -> None:
    lines = []
    for size in range(140):
        for odd in ("é", "\x7f", "\\n", "🧮", "\\u001f", ""):
            for place in (0, size // 2, size):
                lines.append(f'{{"task_id":"{len(lines)}","q":"{"a" * place}{odd}{"b" * (size - place)}"}}')
    rows = same("\n".join(lines).encode(), way)
    assert len(rows.ids) == len(lines)


def test_keys_are_sorted_by_code_point_however_many(way: str) -> None:
    keys = ["", "a", "B", "é", "￿", "😀", "aa", "a b", "\x7f", "ä", *map(str, range(300))]
    random.Random(1).shuffle(keys)
    row = {"task_id": "t", "x": {key: {"b": 1, "a": 2} for key in keys}}
    same(encoded([row], True, True, "\n") + encoded([row], False, False, "\n"), way)


@pytest.mark.parametrize("depth", [10, 190, 210, 260, 500, 501, 600, 2000, 100_000])
def test_nesting_has_one_limit_on_every_python(way: str, depth: int) -> None:
    rows = same(b'{"task_id":"t","x":' + b"[" * depth + b"]" * depth + b"}\n", way)
    assert bool(rows.error) == (depth > 500)


def test_a_row_with_bookkeeping_in_any_place_and_spelling(way: str) -> None:
    plain = b'{"a":1,"task_id":"t"}\n'
    lines = (
        plain
        + b'{"_ng_x":{"z":1,"a":2},"a":1,"task_id":"t"}\n'
        + b'{"a":1,"agent_ref":1,"task_id":"t","skills_ref":null,"task_source":"x"}\n'
        + b'{"a":1,"task_id":"t","_ng_":[1]}\n'
        + b'{"a":1,"task_id":"t","\\u005fng_y":2}\n'
        + b'{"_ng_x":1,"_ng_x":2,"a":1,"task_id":"t"}\n'
    )
    rows = same(lines, way)
    assert len({bytes(rows.digests[at : at + 32]) for at in range(0, 32 * 6, 32)}) == 1


def test_a_prompt_is_filled_into_params_of_any_shape(way: str) -> None:
    params = [
        "",
        ',"_ng_x":["y"],"responses_create_params":{"b":[1e3],"a":1}',
        ',"responses_create_params":{}',
        ',"responses_create_params":null',
        ',"responses_create_params":{"a":1,"z":{"q":[]}}',
        ',"responses_create_params":{"input":[],"temperature":1.0}',
        ',"responses_create_params":{"z":1}',
        ',"zz":1,"responses_create_params":{"a":1}',
    ]
    values = [
        '"x\\n\\u00e9\\"{n}"',
        "3",
        "-0",
        "1e3",
        "true",
        "null",
        "[1]",
        "0.25",
        '["\\u00e9\\n",{"b":[1e5],"a":-0}]',
        '{"b":1,"a":"x"}',
    ]
    lines = [
        f'{{"question":{value},"n":"é"{more}{stated}}}'
        for value in values
        for more in params
        for stated in ("", ',"task_id":"t"')
    ]
    for template in TEMPLATES[1:]:
        rows = same("\n".join(lines).encode(), way, Rules(template))
        assert rows.error is None or "cannot be filled" in rows.error[1]
        assert rows.ids or rows.error


def test_an_error_ends_the_reading_and_soft_ones_do_not(way: str) -> None:
    template = TEMPLATES[1]
    lines = b'{"question":1}\n\n{"question":"a","n":1,"responses_create_params":{"input":"x"}}\n{"n":1,"question":2}\n'
    rows = same(lines + b"[]\n{}\n", way, Rules(template))
    assert rows.missing["n"].first == [1]
    assert rows.filled.first == [3]
    assert len(rows.ids) == 1
    assert rows.error is not None
    assert rows.error[0] == 5
