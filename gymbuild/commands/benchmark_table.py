"""The list of benchmarks: a table for a terminal, lines of fields for a program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gymbuild.commands.benchmark_states import Entry, StateName
from gymbuild.system.text import size_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

STYLES: dict[StateName, str] = {
    "current": "green",
    "stale": "bold magenta",
    "never prepared": "dim",
    "failed": "bold red",
}
"""Colours that can be read on dark and on light: yellow on white cannot, and dim is for what matters least."""
_SHORTEST_DESCRIPTION = 24
"""Columns below which a description gets a line of its own instead of a column."""
_WIDEST_NAME = 48
"""Columns that names have beside descriptions; a longer one stands on a line of its own."""
_GAP = 2
"""Columns between two columns of the table."""


def fields(entry: Entry) -> list[str]:
    """What a program is given of a benchmark, in the order that the help of the command states."""
    benchmark = entry.benchmark
    return [
        benchmark.name,
        benchmark.domain or "",
        entry.state,
        "" if entry.rows is None else str(entry.rows),
        "" if entry.size is None else str(entry.size),
        str(benchmark.dataset.num_repeats),
        one_line(benchmark.description or ""),
    ]


def print_table(console: Console, listed: Sequence[Entry]) -> None:
    """Print a benchmark a line.

    Where descriptions have no room beside the other columns, each gets a line below, with the domain. A name that is
    too wide for its column stands on a line above.

    Args:
        console: of the terminal.
        listed: in the order to show.
    """
    from rich.cells import cell_len
    from rich.text import Text

    descriptions = [one_line(entry.benchmark.description or "") for entry in listed]
    widest = max((cell_len(entry.benchmark.name) for entry in listed), default=0)
    name_width = max(min(widest, _WIDEST_NAME), len("name"))
    room = console.width - console.measure(_table(listed, domains=True)).maximum - name_width - 2 * _GAP
    beside = room >= min(_SHORTEST_DESCRIPTION, max(map(cell_len, descriptions), default=0))
    if not beside:
        free = console.width - console.measure(_table(listed, domains=False)).maximum - _GAP
        name_width = max(min(widest, free), len("name"))
    table = _table(listed, domains=beside, names=name_width, descriptions=max(room, 1) if beside else 0)
    lines = [
        Text.assemble(*((part.text, part.style or "") for part in line))
        for line in console.render_lines(table, pad=False)
    ]
    texts = lines[:1]
    for entry, description, line in zip(listed, descriptions, lines[1:], strict=True):
        if cell_len(entry.benchmark.name) > name_width:
            texts.append(Text(entry.benchmark.name, "" if beside else "bold"))
        texts.append(line)
        below = "" if beside else " · ".join(filter(None, (entry.benchmark.domain, description)))
        if below:
            texts.append(Text(f"  {below}"))
    for text in texts:
        text.rstrip()
        console.print(text, no_wrap=True, overflow="ellipsis")


def _table(listed: Sequence[Entry], *, domains: bool, names: int = 0, descriptions: int = 0) -> Table:
    """The table; `names` and `descriptions` are widths, and a name that is wider is left out."""
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, header_style="bold")
    if names:
        table.add_column("name", width=names, no_wrap=True, style="" if domains else "bold")
    if domains:
        table.add_column("domain", no_wrap=True)
    table.add_column("state", no_wrap=True)
    for label in ("rows", "size", "repeats"):
        table.add_column(label, justify="right", no_wrap=True)
    if descriptions:
        table.add_column("description", no_wrap=True, overflow="ellipsis", width=descriptions)
    for entry in listed:
        benchmark = entry.benchmark
        cells = [Text("" if cell_len(benchmark.name) > names else benchmark.name)] if names else []
        cells += [Text(benchmark.domain or "")] if domains else []
        cells.append(Text(entry.state, STYLES[entry.state]))
        rows = "" if entry.rows is None else f"{entry.rows:,}"
        size = "" if entry.size is None else size_text(entry.size)
        cells += map(Text, (rows, size, f"× {benchmark.dataset.num_repeats}"))
        cells += [Text(one_line(benchmark.description or ""))] if descriptions else []
        table.add_row(*cells)
    return table


def counts(listed: Sequence[Entry]) -> str:
    """How many there are, in words: `184 benchmarks: 5 current, 179 never prepared`."""
    states = [entry.state for entry in listed]
    parts = [f"{states.count(state):,} {state}" for state in STYLES if state in states]
    total = f"{len(states):,} benchmark{'s' if len(states) != 1 else ''}"
    return f"{total}: {', '.join(parts)}" if parts else total


def one_line(text: str) -> str:
    """A description of any form, on one line."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())
