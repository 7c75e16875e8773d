"""What a diff of two plans says."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gymbuild.plan.diff import (
    PlanDiff,
    compare,
    diff_text,
    excerpts,
    field_changes,
    with_fields,
    with_rows_of_another_id,
    without_id,
)
from gymbuild.plan.plan import Plan, Tasks
from gymbuild.system.text import visible


def digest(content: str) -> str:
    return "sha256:" + sha256(content.encode()).hexdigest()


def plan(tasks: dict[str, str], **changes: Any) -> Plan:
    """A plan of tasks whose inputs are the given texts."""
    fields: dict[str, Any] = {
        "benchmark": "b",
        "config_paths": ("benchmarks/b/config.yaml",),
        "gym_version": "1.0.0",
        "gym_commit": None,
        "taskset": "b",
        "tasks": Tasks.of((task_id, digest(text)) for task_id, text in tasks.items()),
        "selected": None,
    }
    return Plan(**{**fields, **changes})


def test_tasks_are_added_removed_and_changed() -> None:
    diff = compare(
        plan({"same": "1", "edited": "2", "gone": "3"}), plan({"same": "1", "edited": "x", "new": "4"})
    )
    assert (diff.added, diff.removed, diff.renamed) == (("new",), ("gone",), ())
    assert [(change.task_id, change.old, change.new) for change in diff.changed] == [
        ("edited", digest("2"), digest("x"))
    ]
    assert (diff.old_tasks, diff.new_tasks) == (3, 3)


def test_the_same_digest_under_another_id_is_a_rename_and_neither_added_nor_removed() -> None:
    diff = compare(plan({"old": "1", "stays": "2"}), plan({"new": "1", "stays": "2"}))
    assert diff.renamed == (("old", "new"),)
    assert not diff.added and not diff.removed and not diff.changed


def test_each_task_is_renamed_once() -> None:
    diff = compare(plan({"a": "1", "b": "1"}), plan({"c": "1", "d": "1", "e": "1"}))
    assert diff.renamed == (("a", "c"), ("b", "d"))
    assert diff.added == ("e",)


def test_an_id_that_stays_is_changed_even_when_its_old_input_turns_up_elsewhere() -> None:
    diff = compare(plan({"a": "1"}), plan({"a": "2", "b": "1"}))
    assert [change.task_id for change in diff.changed] == ["a"]
    assert diff.added == ("b",)


def test_what_a_plan_says_of_gym_does_not_count() -> None:
    one = plan({"a": "1"})
    assert not compare(one, plan({"a": "1"}, gym_version="2.0.0", gym_commit="f" * 40))


def test_what_a_plan_says_of_itself_counts() -> None:
    one = plan({"a": "1"})
    other = plan({"a": "1"}, taskset="t", config_paths=("x.yaml",), selected=("a",))
    diff = compare(one, other)
    assert diff
    assert [name for name, *_ in diff.facts] == ["benchmark.config_paths", "taskset", "selected_task_ids"]
    assert "selected_task_ids: every task → [a]" in diff_text("b", diff)


def test_fields_are_told_by_their_path() -> None:
    before = {"q": "x", "meta": {"answer": 1, "odd key": [1, 2]}, "gone": True, "input": [{"content": "a"}]}
    after = {"q": "x", "meta": {"answer": 2, "odd key": [1, 3]}, "input": [{"content": "b"}], "new": None}
    changes = {change.path: (change.before, change.after) for change in field_changes(before, after)}
    assert changes == {
        "meta.answer": ("1", "2"),
        'meta."odd key"[1]': ("2", "3"),
        "gone": ("true", None),
        "input[0].content": ('"a"', '"b"'),
        "new": (None, "null"),
    }


def test_arrays_of_another_length_change_as_a_whole() -> None:
    assert [change.path for change in field_changes({"a": [1, 2]}, {"a": [1]})] == ["a"]


def test_one_and_one_point_zero_and_true_are_different_fields() -> None:
    assert len(field_changes({"a": 1, "b": 1, "c": 0.0}, {"a": 1.0, "b": True, "c": -0.0})) == 3


def test_tasks_whose_rows_are_not_found_have_no_fields_and_that_is_said() -> None:
    diff = compare(plan({"a": "1", "b": "1"}), plan({"a": "2", "b": "2"}))
    told = with_fields(diff, [("a", {"q": 1}, {"q": 2})])
    fields = {change.task_id: change.fields for change in told.changed}
    assert fields["b"] is None
    assert fields["a"] is not None and fields["a"][0].path == "q"
    assert "not known for 1 of them" in diff_text("b", told)
    assert told.to_json()["changed"] == [
        {
            "task_id": "a",
            "old": digest("1"),
            "new": digest("2"),
            "fields": [{"path": "q", "old": 1, "new": 2}],
        },
        {"task_id": "b", "old": digest("1"), "new": digest("2"), "fields": None},
    ]


def test_a_field_that_was_not_there_has_no_old_value() -> None:
    diff = with_fields(compare(plan({"a": "1"}), plan({"a": "2"})), [("a", {}, {"q": None})])
    assert diff.to_json()["changed"][0]["fields"] == [{"path": "q", "new": None}]


def test_of_many_tasks_only_the_first_keep_their_values() -> None:
    ids = [f"t{number}" for number in range(9)]
    diff = compare(plan(dict.fromkeys(ids, "1")), plan(dict.fromkeys(ids, "2")))
    told = with_fields(diff, ((task_id, {"q": 1}, {"q": 2}) for task_id in ids), values=2)
    values = [change.fields and change.fields[0].after for change in told.changed]
    assert values == ["2", "2"] + [None] * 7
    assert told.field_counts() == {"q": 9}


def test_of_many_tasks_the_odd_one_is_shown_beside_what_was_done_to_all() -> None:
    ids = [f"t{number:03}" for number in range(500)]
    diff = compare(plan(dict.fromkeys(ids, "1")), plan(dict.fromkeys(ids, "2")))
    rows = {task_id: ({"q": "solve this", "a": 1}, {"q": "solve that", "a": 1}) for task_id in ids}
    rows["t444"] = ({"q": "solve this", "a": 1}, {"q": "solve that", "a": 2})
    texts = [
        diff_text("b", with_fields(diff, ((name, *rows[name]) for name in order), values=100))
        for order in (ids, ids[::-1])
    ]
    assert texts[0] == texts[1]
    assert texts[0].splitlines()[2:] == [
        "      in q (500), a (1)",
        "      t000",
        "        q",
        '          - "solve this"',
        '          + "solve that"',
        "      and the same field in 498 more",
        "      t444",
        "        q",
        '          - "solve this"',
        '          + "solve that"',
        "        a",
        "          - 1",
        "          + 2",
    ]


def test_other_edits_of_the_same_field_are_shown_while_there_is_room() -> None:
    ids = [f"t{number}" for number in range(9)]
    diff = compare(plan(dict.fromkeys(ids, "1")), plan(dict.fromkeys(ids, "2")))
    same = diff_text("b", with_fields(diff, ((name, {"q": name}, {"q": f"{name}!"}) for name in ids)))
    assert "      t0\n" in same and "      t1\n" not in same
    assert same.endswith("      and the same field in 8 more")
    other = diff_text("b", with_fields(diff, ((name, {"q": 0}, {"q": int(name[1]) + 1}) for name in ids)))
    assert all(f"      t{number}\n" in other for number in range(3))
    assert "      t3\n" not in other
    assert other.endswith("      and the same field in 6 more")


def test_rows_that_state_another_id_and_are_the_same_otherwise_are_renamed_in_their_rows() -> None:
    old = {"a": {"task_id": "a", "q": 1}, "b": {"task_id": "b", "q": 2}, "x": {"task_id": "x", "q": 3}}
    new = {"c": {"task_id": "c", "q": 1}, "d": {"problem_id": "d", "q": 2}, "y": {"task_id": "y", "q": 4}}
    diff = compare(
        plan({name: json.dumps(row) for name, row in old.items()}),
        plan({name: json.dumps(row) for name, row in new.items()}),
    )
    assert diff.removed == ("a", "b", "x") and diff.added == ("c", "d", "y")
    told = with_rows_of_another_id(
        diff,
        {without_id(row): [name] for name, row in old.items()},
        {without_id(row): [name] for name, row in new.items()},
    )
    assert told.renamed_in_row == (("a", "c"), ("b", "d"))
    assert told.removed == ("x",) and told.added == ("y",)
    assert "= 2 renamed in their rows, which are the same otherwise: a → c, b → d" in diff_text("b", told)
    assert without_id({"task_id": None, "problem_id": 1, "q": 1}) == without_id({"task_id": None, "q": 1})


def test_ids_are_told_apart_from_what_stands_around_them() -> None:
    text = diff_text(
        "b", compare(plan({}), plan({"": "1", " a": "2", "b, c": "3", "d": "4", "e" * 10**6: "5"}))
    )
    line = text.splitlines()[1]
    assert line == f'  + 5 added: "", " a", "b, c", d, {"e" * 80}… (1,000,000 characters)'


def test_the_text_counts_everything_and_lists_the_first() -> None:
    many = {f"t{number:03}": "1" for number in range(25)}
    text = diff_text("b", compare(plan({"x": "0"}), plan({"x": "0", **many})))
    assert text.splitlines()[0] == "b: 1 → 26 tasks; 25 added"
    assert "+ 25 added: t000, t001" in text
    assert "t009 and 15 more" in text and "t010" not in text


def test_long_values_are_cut_to_where_they_differ() -> None:
    before, after = excerpts(json.dumps("x" * 500 + "one"), json.dumps("x" * 500 + "two"))
    assert before == "…" + "x" * 24 + 'one"'
    assert after == "…" + "x" * 24 + 'two"'


def test_ids_cannot_drive_a_terminal() -> None:
    text = diff_text("b", compare(plan({}), plan({"\x1b[31mred\n": "1"})))
    assert "\x1b" not in text
    assert visible("\x1b[0m\u202e\U000e0001é") == "\\u001b[0m\\u202e\\U000e0001é"


plans = st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from("1234")).map(plan)


@given(plans, plans)
def test_a_diff_leads_from_the_old_plan_to_the_new(old: Plan, new: Plan) -> None:
    diff = compare(old, new)
    tasks = dict(old.tasks)
    after = dict(new.tasks)
    for task_id in diff.removed:
        del tasks[task_id]
    for old_id, new_id in diff.renamed:
        assert tasks[old_id] == after[new_id]
        tasks[new_id] = tasks.pop(old_id)
    for change in diff.changed:
        assert tasks[change.task_id] == change.old
        tasks[change.task_id] = change.new
    for task_id in diff.added:
        tasks[task_id] = after[task_id]
    assert tasks == after
    assert bool(diff) == (old.tasks != new.tasks)


values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


@given(values, values)
def test_no_field_changed_exactly_when_the_canonical_forms_agree(before: Any, after: Any) -> None:
    same = json.dumps(before, sort_keys=True) == json.dumps(after, sort_keys=True)
    assert (field_changes(before, after) == ()) == same


def test_an_empty_diff_is_false() -> None:
    assert not PlanDiff(0, 0, (), (), (), (), ())
    assert diff_text("b", compare(plan({"a": "1"}), plan({"a": "1"}))) == "b: the same 1 task"
