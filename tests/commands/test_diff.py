"""`diff`: plan files, folders and git revisions, and the fields that changed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands.conftest import Make
from tests.tasks.conftest import Project

ROWS = "rows = [{'task_id': str(i), 'question': f'q{i}', 'verifier_metadata': {'answer': i}} for i in range(size)]"


def git(project: Project, *words: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, *words], cwd=project.root, check=True, capture_output=True)


def built(project: Project, name: str) -> str:
    """Build the plan of alpha and keep a copy of it."""
    project.run("plan:alpha")
    shutil.copy(project.path(".cache/plans/alpha.json"), project.path(name))
    return name


def edit(project: Project, name: str, before: str, after: str) -> None:
    path = project.path(name)
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))


def build(project: Project) -> None:
    project.add("alpha", ROWS)
    built(project, "old.json")
    edit(
        project,
        "benchmarks/alpha/prepare.py",
        ROWS,
        ROWS
        + "; rows[1]['verifier_metadata']['answer'] = 'one'; rows[2] = {'task_id': '3', 'question': 'new'}",
    )
    built(project, "new.json")


@pytest.fixture
def changed(copy_of: Make) -> Project:
    """`old.json`, and `new.json` after an edit of the script: task 1 has another answer, task 2 is gone, 3 is new."""
    return copy_of(build)


def test_two_files_with_the_fields_that_changed(changed: Project) -> None:
    said = changed.run("diff", "old.json", "new.json")
    assert "3 tasks; 1 added, 1 removed, 1 changed" in said
    assert "+ 1 added: 3" in said and "- 1 removed: 2" in said and "~ 1 changed: 1" in said
    assert "in verifier_metadata.answer (1)" in said
    assert "- 1\n" in said and '+ "one"\n' in said


def test_json_has_all_of_it(changed: Project) -> None:
    found = json.loads(changed.run("diff", "old.json", "new.json", "--json"))
    (plan,) = found["plans"]
    assert plan["counts"] == {"added": 1, "removed": 1, "renamed": 0, "renamed_in_row": 0, "changed": 1}
    assert plan["added"] == ["3"]
    (change,) = plan["changed"]
    assert change["fields"] == [{"path": "verifier_metadata.answer", "old": 1, "new": "one"}]


def test_the_exit_code_tells_only_when_it_is_asked_for(changed: Project) -> None:
    changed.run("diff", "old.json", "new.json", code=0)
    changed.run("diff", "old.json", "new.json", "--exit-code", code=1)
    changed.run("diff", "--exit-code", "old.json", "old.json", code=0)


def test_without_the_rows_in_the_store_the_ids_are_still_told(changed: Project) -> None:
    shutil.rmtree(changed.path(".cache"))
    said = changed.run("diff", "old.json", "new.json")
    assert "~ 1 changed: 1" in said
    assert "not known for 1 of them" in said


def test_a_prompt_template_that_changed_is_a_field_of_every_task(project: Project) -> None:
    project.write("benchmarks/prompt.yaml", "user: 'Say: {question}'\n")
    project.add("alpha", ROWS, dataset="prompt_config: benchmarks/prompt.yaml")
    built(project, "old.json")
    edit(project, "benchmarks/prompt.yaml", "Say", "Tell")
    built(project, "new.json")
    said = project.run("diff", "old.json", "new.json")
    assert "3 tasks; 3 changed" in said
    assert "in responses_create_params.input[0].content (3)" in said
    assert '- "Say: q0"' in said and '+ "Tell: q0"' in said


def test_a_repeated_row_that_gets_another_number_is_a_rename(project: Project) -> None:
    project.add("alpha", "rows = [{'question': 'same'}] * 3")
    built(project, "old.json")
    plan = json.loads(project.path("old.json").read_text())
    for number, task in enumerate(plan["tasks"]):
        task["task_id"]["task_id"] = f"mine-{number}"
    project.path("new.json").write_text(json.dumps(plan))
    said = project.run("diff", "old.json", "new.json")
    assert "= 3 renamed: row-" in said
    assert "added" not in said and "removed" not in said


def test_a_row_that_states_another_id_is_told_as_such(changed: Project) -> None:
    edit(changed, "benchmarks/alpha/prepare.py", "[{'task_id': str(i)", "[{'task_id': f'n{i}'")
    built(changed, "newest.json")
    said = changed.run("diff", "old.json", "newest.json")
    assert "= 1 renamed in their rows, which are the same otherwise: 0 → n0\n" in said
    assert "- 2 removed: 1, 2\n" in said
    (plan,) = json.loads(changed.run("diff", "old.json", "newest.json", "--json"))["plans"]
    assert plan["renamed_in_row"] == [{"old": "0", "new": "n0"}]
    shutil.rmtree(changed.path(".cache"))
    changed.path("benchmarks/alpha/data/alpha.jsonl").unlink()
    assert "- 3 removed: 0, 1, 2\n" in changed.run("diff", "old.json", "newest.json")


def test_a_plan_may_come_from_standard_input(changed: Project) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gymbuild", "--root", str(changed.root), "diff", "-", "new.json"],
        input=changed.path("old.json").read_bytes(),
        capture_output=True,
        check=True,
    )
    assert b"alpha (standard input \xe2\x86\x92 new): 3 tasks; 1 added, 1 removed, 1 changed" in done.stdout


def test_a_hostile_plan_cannot_drive_a_terminal(changed: Project) -> None:
    plan = json.loads(changed.path("old.json").read_text())
    plan["benchmark"] = {"name": "\x1b[2J", "config_paths": ["\x1b]0;x\x07"]}
    for task in plan["tasks"]:
        task["task_id"] = {"taskset": "\u202e", "task_id": "\x1b[31m\n" + task["task_id"]["task_id"]}
    changed.path("evil.json").write_text(json.dumps(plan))
    changed.path("evil").mkdir()
    changed.path("evil/\x1b[1m.json").write_text(json.dumps(plan))
    changed.path("empty").mkdir()
    for words, code in (
        (("diff", "old.json", "evil.json"), 0),
        (("diff", "evil.json", "old.json"), 0),
        (("diff", "evil", "empty"), 0),
        (("diff", "evil.json", "empty"), 3),
        (("rows", "evil.json"), 1),
        (("rows", "evil.json", "\x1b[31m"), 3),
        (("merge", "evil.json", "old.json"), 3),
        (("diff", "\x1b[5m"), 3),
        (("check", "plans_dir=evil"), 1),
    ):
        said = changed.run(*words, code=code)
        assert not set(said) & {"\x1b", "\x07", "\u202e"}, words
        assert "Traceback" not in said


def test_a_revision_cannot_be_an_option_of_git(changed: Project) -> None:
    git(changed, "init", "-q")
    git(changed, "commit", "-q", "--allow-empty", "-m", "nothing")
    for word in (f"--output={changed.root}/pwned", "-n1", "HEAD^{tree}", "HEAD..HEAD", "HEAD\n--all"):
        assert "or a git revision" in changed.run("diff", "--", word, "new.json", code=3)
    assert not changed.path("pwned").exists()


def test_why_a_revision_is_not_known(changed: Project, tmp_path: Path) -> None:
    assert "not a git repository" in changed.run("diff", "HEAD", "new.json", code=3)
    nowhere = tmp_path / "nowhere"
    nowhere.mkdir()
    assert "git cannot be started" in changed.run("diff", "HEAD", "new.json", code=3, PATH=str(nowhere))
    changed.path("plans").mkdir()
    for name in ("old.json", "new.json"):
        shutil.copy(changed.path(name), changed.path("plans/alpha.json"))
        git(changed, *(["init", "-q", "-b", "main"] if name == "old.json" else ["status"]))
        git(changed, "add", "plans")
        git(changed, "commit", "-q", "-m", name)
    shallow = Project(tmp_path / "shallow")
    git(changed, "clone", "-q", "--depth", "1", f"file://{changed.root}", str(shallow.root))
    assert "the same 1 plan" in shallow.run("diff", "HEAD")
    assert "git fetch --unshallow" in shallow.run("diff", "HEAD~1", code=3)
    tree = Project(tmp_path / "tree")
    git(changed, "worktree", "add", "-q", "--detach", str(tree.root), "HEAD~1")
    assert "1 added, 1 removed, 1 changed" in tree.run("diff", "HEAD", "main")


def test_revisions_have_the_plans_that_they_keep(changed: Project) -> None:
    changed.path("plans").mkdir()
    shutil.copy(changed.path("old.json"), changed.path("plans/alpha.json"))
    git(changed, "init", "-q", "-b", "main")
    git(changed, "add", "plans")
    git(changed, "commit", "-q", "-m", "old")
    shutil.copy(changed.path("new.json"), changed.path("plans/alpha.json"))
    shutil.copy(changed.path("new.json"), changed.path("plans/beta.json"))
    said = changed.run("diff", "main")
    assert "alpha: 3 tasks; 1 added, 1 removed, 1 changed" in said
    assert "beta: only in plans (3 tasks)" in said
    assert "in verifier_metadata.answer (1)" in said
    git(changed, "add", "plans")
    git(changed, "commit", "-q", "-m", "new")
    assert changed.run("diff", "HEAD") == "the same 2 plans\n"
    changed.run("diff", "HEAD~1", "HEAD", "--exit-code", code=1)
    assert "1 changed" in changed.run("diff", "HEAD~1", "new.json")


def test_a_checkout_below_the_repositorys_top(changed: Project) -> None:
    changed.path("kept/b").mkdir(parents=True)
    shutil.copy(changed.path("old.json"), changed.path("kept/b/alpha.json"))
    above = Project(changed.root.parent)
    git(above, "init", "-q")
    git(above, "add", "checkout/kept")
    git(above, "commit", "-q", "-m", "old")
    shutil.copy(changed.path("new.json"), changed.path("kept/b/alpha.json"))
    assert "b/alpha: 3 tasks; 1 added" in changed.run("diff", "HEAD", "plans_dir=kept")


def test_configs_that_cannot_be_read_do_not_matter(changed: Project) -> None:
    changed.write("benchmarks/alpha/config.yaml", "{")
    assert "1 changed" in changed.run("diff", "old.json", "new.json")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("nothing-there", "old.json"), "is not a plan file, a folder of plans or a git revision"),
        (("--output=x", "old.json"), "option --output not recognized"),
        (("old.json", "broken.json"), "broken.json: is not a plan"),
        (("old.json", "empty"), "has none of that benchmark"),
        ((), "name what to compare"),
        (("",), "an empty word"),
    ],
)
def test_what_cannot_be_compared_is_a_usage_error(
    changed: Project, words: tuple[str, ...], text: str
) -> None:
    changed.write("broken.json", "{}")
    changed.path("empty").mkdir()
    said = changed.run("diff", *words, code=3)
    assert text in said
    assert "Traceback" not in said


def test_a_revision_that_keeps_no_plans_says_how_to_keep_some(changed: Project) -> None:
    git(changed, "init", "-q")
    git(changed, "commit", "-q", "--allow-empty", "-m", "nothing")
    assert "gymbuild check --update" in changed.run("diff", "HEAD", "new.json", code=3)
