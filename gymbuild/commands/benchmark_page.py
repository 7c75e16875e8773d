"""The page of one benchmark: its declaration, its environment, what was made of it, and the commands to run."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from gymbuild.commands.benchmark_states import Entry
from gymbuild.commands.benchmark_table import STYLES, one_line
from gymbuild.config.session import Session
from gymbuild.system.masking import mask
from gymbuild.system.text import size_text, visible

if TYPE_CHECKING:
    from rich.console import Console

Fact = tuple[str, list[str], str]
"""A label, the lines that stand beside it, and their style on a terminal."""
_MOST_FILES = 12
"""Input files that a page names; the others are counted."""


class _Wrapper(textwrap.TextWrapper):
    """Breaks lines between words and after the `/` of a path."""

    wordsep_simple_re = re.compile(r"( +|(?<=/))")


def page_text(session: Session, entry: Entry) -> str:
    """The page of one benchmark as plain text that does not vary with the terminal.

    Args:
        session: of the command.
        entry: the benchmark.
    """
    facts = _facts(session, entry)
    name, description = entry.benchmark.name, entry.benchmark.description
    text = [f"{name}: {one_line(description)}" if description else name]
    width = max(len(label) for label, _, _ in facts)
    for label, lines, _ in facts:
        text += [f"  {label if not number else '':<{width}}  {line}" for number, line in enumerate(lines)]
    return "".join(line.rstrip() + "\n" for line in text)


def print_page(console: Console, session: Session, entry: Entry) -> None:
    """Print the page of one benchmark to a terminal, to its width.

    Args:
        console: of the terminal.
        session: of the command.
        entry: the benchmark.
    """
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    facts = _facts(session, entry)
    console.print(Text(entry.benchmark.name, style="bold"))
    if entry.benchmark.description:
        console.print(Text(one_line(entry.benchmark.description), style="italic"))
    widest = max(len(label) for label, _, _ in facts)
    wrapper = _Wrapper(width=max(console.width - widest - 4, 1), break_on_hyphens=False)
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for label, lines, style in facts:
        text = "\n".join(part for line in lines for part in wrapper.wrap(line))
        grid.add_row(label, Text(text, style=style))
    console.print(Padding(grid, (1, 0, 0, 2)))


def _facts(session: Session, entry: Entry) -> list[Fact]:
    return [
        (label, [visible(line) for line in lines], style)
        for label, lines, style in _found_facts(session, entry)
    ]


def _found_facts(session: Session, entry: Entry) -> Iterable[Fact]:
    benchmark, dataset = entry.benchmark, entry.benchmark.dataset
    task = session.graph.aliases.get(benchmark.name)
    yield "state", [entry.state], STYLES[entry.state]
    problem = entry.problem or _script_problem(session, entry, task)
    if problem:
        yield "problem", [f"it cannot be built: {mask(problem)}"], "red"
    yield "domain", [benchmark.domain or "none"], ""
    config = os.path.join(benchmark.root, benchmark.config_path) if benchmark.root else benchmark.config_path
    yield "config", [config], ""
    included = [path for path in benchmark.config_files if path not in (config, benchmark.config_path)]
    if included:
        yield "includes", included, ""
    users = session.graph.preparations[task].benchmarks if task else ()
    shared = ", ".join(name for name in users if name != benchmark.name)
    yield "dataset", [f"{dataset.name} (shared with {shared})" if shared else dataset.name], ""
    yield "agent", [dataset.agent or "chosen by its environment server"], ""
    yield "repeats", [str(dataset.num_repeats)], ""
    if dataset.prompt_config:
        yield "prompt", [dataset.prompt_config], ""
    yield "script", [str(dataset.prepare_script)], ""
    yield from _environment(session, task)
    yield "args", [mask(json.dumps(dataset.args, ensure_ascii=False, sort_keys=True, default=str))], ""
    if task:
        record = session.steps["prepare"].preparer.record(session.graph.preparations[task])
        yield "inputs", _inputs(record, task), ""
        yield "output", _output(session, entry, record), ""
        yield "last run", _last_run(session, task, record), ""
    else:
        yield "output", [f"{dataset.jsonl_fpath}"], ""
    if benchmark.name in session.graph.benchmarks:
        yield "plan", _plan(session, benchmark), ""
    if not problem:
        program = _program(session)
        prepare, plan = shlex.quote(f"prepare:{task}"), shlex.quote(f"plan:{benchmark.name}")
        words = (prepare, plan, f"why {prepare}", f"inputs {prepare}")
        yield "commands", [f"{program} {word}" for word in words], "bold"


def _script_problem(session: Session, entry: Entry, task: str | None) -> str:
    """Why the script of a benchmark cannot be run as it is declared; empty when it can."""
    from gymbuild.preparation.script import check_script

    if task is None or entry.state == "current":
        return ""
    preparation = session.graph.preparations[task]
    path = session.checkout.absolute(preparation.script)
    return "; ".join(check_script(path, preparation.dataset.args, name=preparation.script).problems)


def _environment(session: Session, task: str | None) -> Iterable[Fact]:
    from gymbuild.environments.build import is_built
    from gymbuild.system.errors import GymbuildError

    if task is None:
        return
    try:
        found = session.steps["venv"].environment(session.graph.preparations[task])
    except GymbuildError as error:
        yield "environment", [mask(str(error))], "red"
        return
    title = mask(found.title)
    if found.kind != "interpreter":
        built = is_built(found, session.checkout, venv_dir=session.settings.uv_venv_dir)
        title += ", built" if built else ", built when the script has to run"
    yield "environment", [title], ""
    yield "lock", [found.lock or "none"], ""


def _inputs(record: Any, task: str) -> list[str]:
    if record is None:
        return ["found when its script runs"]
    kinds = Counter(item.kind for item in record.inputs)
    lines = [", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))]
    files = [item.name for item in record.inputs if item.kind in ("import", "data", "output", "declared")]
    lines += files[:_MOST_FILES]
    if len(files) > _MOST_FILES:
        lines.append(f"and {len(files) - _MOST_FILES} more: `inputs prepare:{task}`")
    return lines


def _output(session: Session, entry: Entry, record: Any) -> list[str]:
    output = entry.benchmark.dataset.jsonl_fpath
    digest = session.steps["prepare"].preparer.output_digest(output)
    if digest is None:
        return [f"{output} (not there)"]
    facts = [f"{entry.rows:,} rows"] if entry.rows is not None else []
    facts += [size_text(entry.size)] if entry.size is not None else []
    lines = [f"{output} ({', '.join(facts)})" if facts else output, f"digest {digest}"]
    if record is None:
        lines.append("not from a recorded preparation")
    elif dict(record.outputs).get(output) != digest:
        lines.append("changed since it was prepared")
    return lines


def _last_run(session: Session, task: str, record: Any) -> list[str]:
    from gymbuild.preparation.failures import failure_path, read_failure

    lines = []
    failure = read_failure(session.checkout, task)
    if failure is not None:
        when = _when(os.stat(failure_path(session.checkout, task)).st_mtime)
        reason = str(failure.get("reason", "")).strip().partition("\n")[0]
        lines.append(f"failed {when}: {mask(reason)}")
        if failure.get("log"):
            lines.append(f"log {failure['log']}")
    if record is not None:
        word = "prepared" if failure is None else "last good one"
        lines.append(f"{word} {_when(record.made)}, in {record.seconds:.1f} s")
    return lines or ["never"]


def _plan(session: Session, benchmark: Any) -> list[str]:
    step = session.steps["plan"]
    path, record = step.target(benchmark.name), step.record(benchmark.name)
    if record is None and not os.path.exists(session.checkout.absolute(path)):
        return [f"{path} (not written yet)"]
    state = step.assess(benchmark.name)
    if not state.current:
        return [f"{path} (stale: {'; '.join(map(str, state.reasons))})"]
    return [f"{path} ({step.describe(record)})", f"digest {record['digest']}"]


def _program(session: Session) -> str:
    """How a person runs our commands in this checkout: as they have just done."""
    program = sys.argv[0].split(os.sep)
    if program[-1].startswith("doit") or program[-2:] == ["doit", "__main__.py"]:
        return "doit"
    words = sys.argv[1:3]
    if words[:1] == ["--root"]:
        return f"gymbuild --root {shlex.quote(words[1])}"
    return f"gymbuild {shlex.quote(words[0])}" if words and words[0].startswith("--root=") else "gymbuild"


def _when(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
