"""`benchmarks [QUERY]`: what there is to build, found by name, domain or description; one of them in full."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gymbuild.commands.base import GymbuildCommand
from gymbuild.commands.listing import Entry, counts, domains, entries, find, nearest, of_domain
from gymbuild.config.session import Session
from gymbuild.system.errors import UsageError
from gymbuild.system.masking import mask
from gymbuild.system.text import safe, visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_STYLES = {"current": "green", "stale": "bold magenta", "never prepared": "dim", "failed": "bold red"}
"""Colours that can be read on dark and on light: yellow on white cannot, and dim is for what matters least."""
_SHORTEST_DESCRIPTION = 24
"""Columns below which a description gets a line of its own instead of a column."""
_LONGEST_DESCRIPTION = 80
"""Columns that a description is given, where long names can make room for it."""
_WIDEST_NAME = 48
"""Columns that names keep then; a longer one stands on a line of its own."""
_GAP = 2
"""Columns between two columns of the table."""
_HINT = "`benchmarks NAME` shows one in full, with the commands to run."
_MOST_FILES = 12
"""Input files that one benchmark's page names; the rest is counted."""


class Benchmarks(GymbuildCommand):
    """List the benchmarks, find some, or show one in full."""

    name = "benchmarks"
    doc_purpose = "list benchmarks and their state, find some, or show one in full"
    doc_usage = "[NAME | QUERY]"
    doc_description = (
        "Without a word: every benchmark. With the name of one: all that is known of it. With other words: those "
        "whose name, dataset, domain or description match, best match first.\n\nPiped, each benchmark is one line "
        "of fields with a tab between them: name, domain, state, rows, bytes, repeats, description."
    )
    cmd_options = (
        {
            "name": "json",
            "long": "json",
            "type": bool,
            "default": False,
            "help": "print a JSON list of objects",
        },
        {
            "name": "domain",
            "long": "domain",
            "type": str,
            "default": "",
            "help": "only benchmarks of this domain",
        },
    )

    def run(self, session: Session, words: list[str], options: Any) -> int:
        """Print the list, or the one that was named."""
        from gymbuild.config.catalog import load_catalog

        settings = session.settings
        catalog = load_catalog(
            session.checkout, search_dirs=settings.search_dirs, allow_outside=settings.allow_outside
        )
        known = dict(catalog.benchmarks)
        if settings.config_paths is not None:
            known = dict(session.graph.benchmarks)
        query = " ".join(words)
        if query in catalog.problems and settings.config_paths is None:
            raise catalog.problems[query]
        chosen = of_domain(known, options["domain"]) if options["domain"] else known
        if options["domain"] and not chosen:
            raise UsageError(f"--domain {options['domain']}: the domains are {', '.join(domains(known))}.")
        if query:
            found = find(query, chosen)
            if not found:
                raise UsageError(_nothing(query, [*chosen, *catalog.problems], options["domain"]))
            chosen = {name: chosen[name] for name in found}
        listed = entries(session, chosen)
        sys.stdout.flush()
        if not query and settings.config_paths is None:
            for error in catalog.problems.values():
                text = safe(mask(str(error)))
                print(f"warning: left out, since it cannot be resolved: {text}", file=sys.stderr)
        if options["json"]:
            rows = [entry.to_json() for entry in listed.values()]
            print(json.dumps(rows, indent=2, ensure_ascii=False))
            return 0
        page = _Page(session)
        if query in listed:
            page.full(listed.pop(query))
            if listed:
                page.heading(f"Also found by “{query}”")
        if listed or query not in chosen:
            page.table(list(listed.values()), closing="" if query in chosen else _HINT)
        return 0


def _nothing(query: str, names: Sequence[str], domain: str) -> str:
    near = nearest(query, names)
    where = f" in the domain {domain}" if domain else ""
    hint = f" The nearest are {', '.join(near)}." if near else ""
    return f"{query}: no benchmark has this name{where}, and none matches.{hint} `gymbuild benchmarks` lists them all."


class _Page:
    """Writes to a terminal in colour and to its width; to anything else as plain text that does not vary."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._console: Console | None = None
        if sys.stdout.isatty():
            from rich.console import Console

            # not as rich finds it: it takes every dumb terminal for one of 80 columns
            self._console = Console(highlight=False, width=shutil.get_terminal_size().columns)

    def heading(self, text: str) -> None:
        """A line that begins a part."""
        if self._console is None:
            print(f"\n{text}")
        else:
            self._console.print(f"\n[bold]{_escape(text)}[/bold]")

    # -- many ------------------------------------------------------------------------------------------------

    def table(self, listed: list[Entry], *, closing: str = "") -> None:
        """A benchmark a line, and on a terminal how many there are."""
        if self._console is None:
            sys.stdout.write("".join("\t".join(_fields(entry)) + "\n" for entry in listed))
            return
        console = self._console
        console.print(listing_table(listed, console.width))
        console.print(f"\n{_escape(counts(listed))}")
        unbuildable = [entry for entry in listed if entry.problem]
        if unbuildable:
            names = ", ".join(entry.benchmark.name for entry in unbuildable)
            console.print(
                f"{len(unbuildable)} cannot be built as declared (each one's page says why): {_escape(names)}"
            )
        if closing:
            console.print(_escape(closing))

    # -- one -------------------------------------------------------------------------------------------------

    def full(self, entry: Entry) -> None:
        """All that is known of one benchmark."""
        facts = [
            (label, [visible(line) for line in lines], style)
            for label, lines, style in _facts(self._session, entry)
        ]
        name, description = entry.benchmark.name, entry.benchmark.description
        if self._console is None:
            print(f"{name}: {_one_line(description)}" if description else name)
            width = max(len(label) for label, _, _ in facts)
            for label, lines, _ in facts:
                for number, line in enumerate(lines):
                    print(f"  {label if not number else '':<{width}}  {line}".rstrip())
            return
        from rich.padding import Padding
        from rich.table import Table
        from rich.text import Text

        console = self._console
        console.print(Text(name, style="bold"))
        if description:
            console.print(Text(_one_line(description), style="italic"))
        widest = max(_width(label) for label, _, _ in facts)
        grid = Table.grid(padding=(0, 2))
        grid.add_column(no_wrap=True)
        grid.add_column(overflow="fold")
        for label, lines, style in facts:
            text = "\n".join(part for line in lines for part in fold(line, console.width - widest - 4))
            grid.add_row(label, Text(text, style=style))
        console.print(Padding(grid, (1, 0, 0, 2)))


def fold(line: str, width: int) -> list[str]:
    """A line in parts that fit, broken between words; in a path that does not fit by itself, after a `/`.

    Args:
        line: the text.
        width: columns that there are.
    """
    parts, rest = [], line
    while _width(rest) > width > 0:
        taken = len(rest)
        while _width(rest[:taken]) > width:
            taken -= 1
        # a space may be the first sign that has no room
        at = rest.rfind(" ", 0, taken + 1)
        if at <= 0:
            at = rest.rfind("/", 0, taken - 1) + 1 or max(taken, 1)
        parts.append(rest[:at].rstrip())
        rest = rest[at:].lstrip()
    return [*parts, rest]


def listing_table(listed: Sequence[Entry], width: int) -> Text:
    """The table of benchmarks for a terminal.

    Where descriptions have no room beside the other columns, each gets a line of its own below, with the domain;
    a name with no room beside the numbers stands on a line above them.

    Args:
        listed: in the order to show.
        width: columns of the terminal.
    """
    from rich.text import Text

    columns: dict[str, list[str]] = {
        "name": [entry.benchmark.name for entry in listed],
        "domain": [entry.benchmark.domain or "" for entry in listed],
        "state": [entry.state for entry in listed],
        "rows": ["" if entry.rows is None else f"{entry.rows:,}" for entry in listed],
        "size": [_size(entry.size) for entry in listed],
        "repeats": [f"× {entry.benchmark.dataset.num_repeats}" for entry in listed],
        "description": [_one_line(entry.benchmark.description or "") for entry in listed],
    }
    widths = {label: max(map(_width, (label, *texts))) for label, texts in columns.items()}
    left = width - sum(taken + _GAP for label, taken in widths.items() if label != "description")
    spare = widths["name"] - _WIDEST_NAME
    if spare > 0:
        wanted = min(widths["description"], _LONGEST_DESCRIPTION) - left
        moved = min(max(wanted, 0), spare)
        widths["name"], left = widths["name"] - moved, left + moved
    beside = left >= min(_SHORTEST_DESCRIPTION, widths["description"])
    shown = [label for label in columns if beside or label not in ("domain", "description")]
    if beside:
        widths["description"] = left
    else:
        widths["name"] = max(map(_width, ("name", *columns["name"])))
        numbers = sum(widths[label] + _GAP for label in shown if label != "name")
        widths["name"] = max(min(widths["name"], width - numbers), len("name"))
    lines: list[Text] = [_line({label: label for label in shown}, widths, "bold")]
    for number, entry in enumerate(listed):
        cells = {label: columns[label][number] for label in shown}
        if _width(cells["name"]) > widths["name"]:
            lines.append(Text(cells["name"], style="" if beside else "bold"))
            cells["name"] = ""
        lines.append(_line(cells, widths, _STYLES[entry.state], name="" if beside else "bold"))
        if not beside:
            below = filter(None, (columns["domain"][number], columns["description"][number]))
            lines.append(Text("  " + " · ".join(below)))
    for line in lines:
        line.truncate(width, overflow="ellipsis")
    table = Text("\n", no_wrap=True).join(lines)
    table.no_wrap = True
    return table


def _line(cells: Mapping[str, str], widths: Mapping[str, int], style: str, *, name: str = "") -> Text:
    """One line of the table; `style` is that of its state, or of the whole head, `name` that of its name."""
    from rich.text import Text

    line = Text()
    for label, text in cells.items():
        space = " " * (widths[label] - _width(text))
        at_right = label in ("rows", "size", "repeats")
        head = text == label
        own = style if head or label == "state" else name if label == "name" else ""
        line.append(space + text if at_right else text + space, own)
        line.append(" " * _GAP)
    line.rstrip()
    return line


def _width(text: str) -> int:
    from rich.cells import cell_len

    return cell_len(text)


# -- what is said of one benchmark -------------------------------------------------------------------------------

Fact = tuple[str, list[str], str]
"""A label, the lines that stand beside it, and their style on a terminal."""


def _facts(session: Session, entry: Entry) -> Iterable[Fact]:
    benchmark, dataset = entry.benchmark, entry.benchmark.dataset
    task = session.graph.aliases.get(benchmark.name)
    yield "state", [entry.state], _STYLES[entry.state]
    problem = entry.problem or _script_problem(session, entry, task)
    if problem:
        yield "problem", [f"it cannot be built: {mask(problem)}"], "red"
    yield "domain", [benchmark.domain or "none"], ""
    config = os.path.join(benchmark.root, benchmark.config_path) if benchmark.root else benchmark.config_path
    yield "config", [config], ""
    included = [path for path in benchmark.config_files if path not in (config, benchmark.config_path)]
    if included:
        yield "includes", included, ""
    shared = (
        [name for name in session.graph.preparations[task].benchmarks if name != benchmark.name]
        if task
        else []
    )
    yield "dataset", [dataset.name + (f" (shared with {', '.join(shared)})" if shared else "")], ""
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
        yield (
            "commands",
            [
                f"{program} {prepare}",
                f"{program} {plan}",
                f"{program} why {prepare}",
                f"{program} inputs {prepare}",
            ],
            "bold",
        )


def _script_problem(session: Session, entry: Entry, task: str | None) -> str:
    """Why the script of a benchmark cannot be run as it is declared; empty when it can."""
    from gymbuild.preparation.script import check_script

    if task is None or entry.state == "current":
        return ""
    preparation = session.graph.preparations[task]
    path = session.checkout.absolute(preparation.script)
    return "; ".join(check_script(path, preparation.dataset.args, name=preparation.script).problems)


def _environment(session: Session, task: str | None) -> Iterable[Fact]:
    from gymbuild.environments import is_built
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
        return ["known once its script has run"]
    kinds: dict[str, int] = {}
    for item in record.inputs:
        kinds[item.kind] = kinds.get(item.kind, 0) + 1
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
    facts += [_size(entry.size)] if entry.size is not None else []
    lines = [f"{output} ({', '.join(facts)})" if facts else output, f"digest {digest}"]
    if record is None:
        lines.append("not from a known preparation")
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


# -- words and numbers -------------------------------------------------------------------------------------------


def _fields(entry: Entry) -> list[str]:
    benchmark = entry.benchmark
    return [
        benchmark.name,
        benchmark.domain or "",
        entry.state,
        "" if entry.rows is None else str(entry.rows),
        "" if entry.size is None else str(entry.size),
        str(benchmark.dataset.num_repeats),
        _one_line(benchmark.description or ""),
    ]


def _one_line(text: str) -> str:
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def _size(size: int | None) -> str:
    from gymbuild.system.text import size_text

    return "" if size is None else size_text(size)


def _when(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def _escape(text: str) -> str:
    from rich.markup import escape

    return escape(text)
