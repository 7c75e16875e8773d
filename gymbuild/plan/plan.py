"""The plan of one benchmark: every task with its id and the digest of its exact input.

Format `nemo-gym.eval-plan.v1`: one JSON document, keys sorted, two-space indent, not ASCII-escaped, a newline at
the end; tasks sorted by id as plain strings.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal

from gymbuild.errors import PlanError, SelectionError
from gymbuild.paths import Checkout
from gymbuild.plan import rows
from gymbuild.plan.prompts import FilledAlreadyError, MissingFieldError, Prompt, fill, load_prompt

SCHEMA = "nemo-gym.eval-plan.v1"
_MOST_SHOWN = 10
"""How many ids or rows an error lists."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of one benchmark."""

    benchmark: str
    """The dataset's name."""
    config_paths: tuple[str, ...]
    gym_version: str
    gym_commit: str | None
    taskset: str
    tasks: tuple[tuple[str, str], ...]
    """Task ids with digests (`sha256:…`), sorted by id; only the selected ones where some are selected."""
    selected: tuple[str, ...] | None
    """The selected task ids, sorted; None when the plan covers every task."""

    def to_json(self) -> dict[str, Any]:
        """The document, as plain values."""
        return {
            "schema": SCHEMA,
            "gym": {"version": self.gym_version, "commit": self.gym_commit},
            "benchmark": {"name": self.benchmark, "config_paths": list(self.config_paths)},
            "selected_task_ids": None if self.selected is None else list(self.selected),
            "tasks": [
                {"task_id": {"taskset": self.taskset, "task_id": task_id}, "digest": digest}
                for task_id, digest in self.tasks
            ],
        }

    def to_bytes(self) -> bytes:
        """The exact bytes of the plan file."""
        return (json.dumps(self.to_json(), indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode(
            "utf-8"
        )


def build_plan(
    jsonl: str,
    *,
    benchmark: str,
    taskset: str | None,
    config_paths: Sequence[str],
    prompt: str | None,
    gym_version: str,
    gym_commit: str | None,
    task_ids: Sequence[str] | None = None,
    ids: Literal["content", "explicit"] = "content",
    processes: int = 0,
) -> Plan:
    """Make the plan of a prepared file.

    Args:
        jsonl: the prepared file.
        benchmark: the dataset's name.
        taskset: the plan's taskset; None for the dataset's name.
        config_paths: the files that the benchmark was selected with.
        prompt: a prompt template (absolute path), or None.
        gym_version: for `gym.version`.
        gym_commit: for `gym.commit`.
        task_ids: the selected task ids, as text; None for every task.
        ids: `content` gives rows without an id one from their content; `explicit` refuses them.
        processes: how many may work at once; 0 decides by the size of the file.

    Raises:
        PlanError: a row, the template or the ids cannot be used; says which.
        SelectionError: a selected id is not there.
    """
    template = load_prompt(prompt) if prompt is not None else None
    tasks = _with_unique_ids(jsonl, list(_digests(jsonl, template, ids)))
    if not tasks:
        raise PlanError(f"{jsonl}: the prepared file has no rows")
    selected = None
    if task_ids is not None:
        selected = tuple(sorted(set(task_ids)))
        there = {task_id for task_id, _ in tasks}
        absent = [task_id for task_id in selected if task_id not in there]
        if absent:
            raise SelectionError(
                f"plan_task_ids: {benchmark} has no task {_some(absent)}; it has {len(tasks):,} tasks, "
                f"such as {_some(sorted(there)[:3])}"
            )
        wanted = set(selected)
        tasks = [task for task in tasks if task[0] in wanted]
    return Plan(
        benchmark,
        tuple(config_paths),
        gym_version,
        gym_commit,
        taskset or benchmark,
        tuple(sorted(tasks)),
        selected,
    )


def _digests(jsonl: str, template: Prompt | None, ids: str) -> Any:
    """For each row: its line, its id, whether that is a content id, and its digest."""
    lacking: list[int] = []
    filled: list[int] = []
    missing: dict[str, list[int]] = {}
    for number, line in rows.lines_of(jsonl):
        place = f"{jsonl}:{number}"
        row = rows.parse_row(line, place)
        task_id = rows.explicit_id(row, place)
        stated = task_id is not None
        content = rows.task_input(row)
        data = None
        if task_id is None:
            if ids == "explicit":
                lacking.append(number)
                continue
            data = rows.canonical_bytes(content, place)
            task_id = rows.content_id(data)
        if template is not None:
            try:
                data = rows.canonical_bytes(rows.task_input(fill(template, row, place)), place)
            except FilledAlreadyError:
                filled.append(number)
                continue
            except MissingFieldError as error:
                missing.setdefault(error.field, []).append(number)
                continue
        elif data is None:
            data = rows.canonical_bytes(content, place)
        _check_id(task_id, place)
        yield number, task_id, stated, "sha256:" + sha256(data).hexdigest()
    if lacking:
        raise PlanError(
            f"{jsonl}: {_rows(lacking)} no task_id, problem_id or instance_id, and plan_ids=explicit asks for one"
        )
    if filled:
        raise PlanError(
            f"{jsonl}: {_rows(filled)} responses_create_params.input already, and prompt_config is to make it; "
            "use one or the other"
        )
    for field, numbers in missing.items():
        raise PlanError(f"{jsonl}: {_rows(numbers)} no field {field!r}, which the prompt template takes")


def _check_id(task_id: str, place: str) -> None:
    try:
        task_id.encode("utf-8")
    except UnicodeEncodeError:
        raise PlanError(f"{place}: the task id holds a lone surrogate, which UTF-8 has no form for") from None


def _with_unique_ids(jsonl: str, found: list[tuple[int, str, bool, str]]) -> list[tuple[str, str]]:
    counts: dict[str, int] = {}
    stated = {task_id for _, task_id, is_stated, _ in found if is_stated}
    lines: dict[str, list[int]] = {}
    tasks = []
    for number, task_id, is_stated, digest in found:
        if is_stated:
            lines.setdefault(task_id, []).append(number)
        else:
            counts[task_id] = counts.get(task_id, 0) + 1
            if counts[task_id] > 1:
                task_id = f"{task_id}-{counts[task_id]}"
            if task_id in stated:
                lines.setdefault(task_id, []).append(number)
        tasks.append((task_id, digest))
    twice = {task_id: numbers for task_id, numbers in lines.items() if len(numbers) > 1}
    if twice:
        shown = ", ".join(
            f"{task_id!r} (rows {', '.join(map(str, numbers[:3]))}{' …' if len(numbers) > 3 else ''})"
            for task_id, numbers in list(twice.items())[:_MOST_SHOWN]
        )
        more = f" and {len(twice) - _MOST_SHOWN:,} more" if len(twice) > _MOST_SHOWN else ""
        raise PlanError(f"{jsonl}: task ids must be unique, and these are not: {shown}{more}")
    return tasks


def _rows(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:_MOST_SHOWN])) + (" …" if len(numbers) > _MOST_SHOWN else "")
    if len(numbers) == 1:
        return f"row {shown} has"
    return f"{len(numbers):,} rows ({shown}) have"


def _some(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:_MOST_SHOWN])) + (" …" if len(names) > _MOST_SHOWN else "")


def read_plan(path: str) -> Plan:
    """Read a plan file.

    Raises:
        PlanError: it cannot be read, or is no plan.
    """
    try:
        with open(path, "rb") as file:
            document = json.loads(file.read())
        if document["schema"] != SCHEMA:
            raise PlanError(f"{path}: is no plan: schema is {document['schema']!r}, and must be {SCHEMA!r}")
        selected = document["selected_task_ids"]
        tasksets = {task["task_id"]["taskset"] for task in document["tasks"]}
        if len(tasksets) > 1:
            raise PlanError(f"{path}: a plan has one taskset, and this has {_some(sorted(tasksets))}")
        return Plan(
            document["benchmark"]["name"],
            tuple(document["benchmark"]["config_paths"]),
            document["gym"]["version"],
            document["gym"]["commit"],
            tasksets.pop() if tasksets else document["benchmark"]["name"],
            tuple((task["task_id"]["task_id"], task["digest"]) for task in document["tasks"]),
            None if selected is None else tuple(selected),
        )
    except OSError as error:
        raise PlanError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise PlanError(f"{path}: is no plan ({error})") from None


def gym_version(checkout: Checkout) -> str:
    """The checkout's version: of its `nemo_gym/package_info.py`, else of its pyproject.toml, else `0.0.0`."""
    try:
        with open(checkout.absolute("nemo_gym/package_info.py"), encoding="utf-8") as file:
            found = _package_version(file.read())
        if found:
            return found
    except (OSError, ValueError):
        pass
    try:
        import tomllib

        with open(checkout.absolute("pyproject.toml"), "rb") as binary:
            version = tomllib.load(binary).get("project", {}).get("version")
        if isinstance(version, str):
            return version
    except (OSError, ValueError, AttributeError):
        pass
    return "0.0.0"


def _package_version(source: str) -> str | None:
    """`__version__` of a package_info module, read without running it: a literal, or made of MAJOR, MINOR, …"""
    names = dict(re.findall(r"^(\w+)\s*=\s*[\"']?([\w.+-]*)[\"']?\s*(?:#.*)?$", source, re.MULTILINE))
    if re.fullmatch(r"\d[\w.+-]*", names.get("__version__", "")):
        return str(names["__version__"])
    if {"MAJOR", "MINOR", "PATCH"} <= names.keys():
        return f"{names['MAJOR']}.{names['MINOR']}.{names['PATCH']}{names.get('PRE_RELEASE', '')}"
    return None


def gym_commit(checkout: Checkout) -> str | None:
    """The commit of the git work tree whose top is the checkout, `-dirty` appended when a tracked file differs.

    None when the checkout is no such top: a commit of a repository around it would say little about it.
    """
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}

    def git(*words: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", "-C", checkout.root, *words],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                stdin=subprocess.DEVNULL,
                env=environment,
                check=False,
            )
        except OSError:
            return None
        return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None

    top = git("rev-parse", "--show-toplevel")
    if top is None or os.path.realpath(top.rstrip("\n")) != checkout.root:
        return None
    commit = git("rev-parse", "HEAD")
    if commit is None:
        return None
    dirty = git("status", "--porcelain", "--untracked-files=no", "--ignore-submodules=none")
    return commit.strip() + ("-dirty" if dirty else "")
