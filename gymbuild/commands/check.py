"""`check`: the plans that the repository keeps against what the checkout gives now; `--update` writes them."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import Any

from gymbuild.commands.base import GymbuildCommand
from gymbuild.commands.options import option
from gymbuild.commands.plan_files import write_plan
from gymbuild.config.session import Session
from gymbuild.system.errors import EXIT_FAILED, EXIT_MAY_PASS, EXIT_USAGE, PlanError, UsageError
from gymbuild.system.paths import file_name
from gymbuild.system.permissions import sentence
from gymbuild.system.text import safe
from gymbuild.tasks.decision import decide


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong with one plan of the repository."""

    path: str
    """The plan's file, relative to the checkout."""
    text: str
    """For a reviewer."""
    new: bytes | None
    """What the plan should be; None where it should not be there, or cannot be told."""


class Check(GymbuildCommand):
    """Compare the plans in the repository with what the checkout gives."""

    name = "check"
    doc_purpose = "compare the plans kept in the repository with what the checkout gives now"
    doc_usage = "[BENCHMARK ...] [plans_dir=DIR] [--update] [-n N]"
    doc_description = (
        "Makes the plans current as `doit plan` would, preparing what is stale, and compares them with those under "
        "plans_dir (default: plans), without regard to `gym`. Without a name every benchmark is checked, and plans "
        "that no benchmark has are reported; a benchmark without a plan there is a difference.\n\nExits with 0 when "
        "all are the same, 1 when any differs or cannot be told, 75 or 76 when a preparation failed, 3 for a usage "
        "error. --update writes what differs and exits with 0."
    )
    cmd_options = (
        option("update", False, "write what differs"),
        option("processes", 0, "preparations that run at once", short="n", long="process"),
    )

    def run(self, session: Session, words: list[str], options: Any) -> int:
        """Say what differs; the exit codes are those of the description."""
        from gymbuild.plan.sets import PLANS_DIR

        settings = session.settings
        for name in ("plan_task_ids", "plan_output_fpath", "dry_run"):
            if getattr(settings, name):
                raise UsageError(f"{name}: `check` is about whole plans in their usual place; leave it out.")
        plans_dir = settings.plans_dir or PLANS_DIR
        folder = session.checkout.absolute(plans_dir)
        if not options["update"] and not os.path.isdir(folder):
            raise UsageError(
                f"plans_dir={plans_dir}: there is no such folder. `gymbuild check --update plans_dir={plans_dir}` "
                "writes the plans of every benchmark into it, for you to commit."
            )
        tasks = [_task(word) for word in words] or ["plan"]
        code = self._build(tasks, options)
        if code == EXIT_USAGE:
            return code
        sys.stdout.flush()
        now = session.renewed()
        findings, same = self._findings(now, tasks, plans_dir)
        if not words:
            findings += _extra(now, folder)
        return _report(findings, same, code, update=bool(options["update"]))

    def _findings(self, session: Session, tasks: list[str], plans_dir: str) -> tuple[list[Finding], int]:
        """What is wrong with the plans of the selected benchmarks, and how many are as they should be."""
        decided = decide(session, tasks)
        findings, same = [], 0
        for name in decided.selection.of("plan"):
            path = committed_path(session, plans_dir, name)
            if f"plan:{name}" not in decided.current:
                text = f"{path}: cannot be told, since plan:{name} was not made"
                findings.append(Finding(path, text, None))
            elif (finding := _compare(session, name, path)) is not None:
                findings.append(finding)
            else:
                same += 1
        for task, texts in decided.skipped.items():
            path = committed_path(session, plans_dir, task.partition(":")[2])
            if task.startswith("plan:") and os.path.isfile(session.checkout.absolute(path)):
                text = f"{path}: cannot be told, since {task} cannot be built: {texts[0]}"
                findings.append(Finding(path, text, None))
        return findings, same

    def _build(self, tasks: list[str], options: Any) -> int:
        """Have the plans made, by the command that `doit plan` is."""
        from gymbuild.commands.run import Run

        run = Run(
            task_loader=self.loader, config=self.config, bin_name=self.bin_name, opt_vals=dict(self.opt_vals)
        )
        processes = ["-n", str(options["processes"])] if options["processes"] else []
        return int(run.parse_execute([*processes, *tasks]) or 0)


def committed_path(session: Session, plans_dir: str, name: str) -> str:
    """Where the repository keeps a benchmark's plan, relative to the checkout."""
    return session.checkout.relative(os.path.join(plans_dir, file_name(name) + ".json"))


def _task(word: str) -> str:
    """The task that makes a benchmark's plan, from `NAME` or `plan:NAME`; a pattern sweeps up what it matches."""
    return word if word.startswith("plan:") or word == "plan" else f"plan:{word}"


def _compare(session: Session, name: str, path: str) -> Finding | None:
    """What is wrong with the plan of one benchmark, the plan that it should be having been made."""
    from gymbuild.plan.diff import compare, diff_text, tasks_text
    from gymbuild.plan.kept import KeptRows
    from gymbuild.plan.plan import parse_plan
    from gymbuild.plan.row_changes import with_rows

    made = session.steps["plan"].path(name)
    with open(made, "rb") as file:
        data = file.read()
    try:
        with open(session.checkout.absolute(path), "rb") as file:
            committed = file.read()
    except FileNotFoundError:
        count = tasks_text(len(parse_plan(data, made).tasks))
        return Finding(path, f"{path}: is not there, and plan:{name} has {count}", data)
    except OSError as error:
        return Finding(path, f"{path}: cannot be read: {sentence(error, writing=False)}", data)
    if committed == data:
        return None
    new = parse_plan(data, made)
    try:
        old = parse_plan(committed, path)
    except PlanError as error:
        return Finding(path, str(error), data)
    diff = compare(old, new)
    if diff:
        return Finding(path, diff_text(path, with_rows(KeptRows(session), diff, old, new)), data)
    if old.to_bytes() != committed:
        text = "has the same tasks, but is not written as gymbuild writes it (keys, order, indent, line ends)"
        return Finding(path, f"{path}: {text}", data)
    return None


def _extra(session: Session, folder: str) -> list[Finding]:
    """The plans of the repository that no benchmark has."""
    from gymbuild.plan.plan import read_plan
    from gymbuild.plan.sets import plan_files

    names = {file_name(name) for name in (*session.graph.benchmarks, *session.graph.problems)}
    found = []
    for name, file in plan_files(folder):
        if name in names:
            continue
        try:
            read_plan(file)
        except PlanError:
            continue
        path = session.checkout.relative(file)
        found.append(Finding(path, f"{path}: there is no benchmark of that name; remove the file", None))
    return found


def _report(findings: list[Finding], same: int, code: int, *, update: bool) -> int:
    """Print what was found, write what is to be written, and give the exit code."""
    if findings:
        print()
    for finding in findings:
        print(safe(finding.text))
    different = [finding for finding in findings if finding.new is not None]
    if update:
        for finding in different:
            assert finding.new is not None
            write_plan(finding.path, finding.new)
    untold = len(findings) - len(different)
    counts = {
        "the same": same,
        "written" if update else "different": len(different),
        "to be looked at": untold,
    }
    print(f"check: {', '.join(f'{count:,} {word}' for word, count in counts.items() if count) or 'no plans'}")
    if different and not update:
        print("If this is what the change is meant to do, `gymbuild check --update` writes the plans.")
    if code in (EXIT_FAILED, EXIT_MAY_PASS):
        return code
    return 1 if code or untold or (different and not update) else 0
