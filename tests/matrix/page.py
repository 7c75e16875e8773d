"""Makes docs/staleness.md of the table that the tests are generated from.

python -m tests.matrix.page            writes the page
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tests.matrix.slow_table import SLOW_TABLE
from tests.matrix.table import TABLE, Change

PAGE = Path(__file__).resolve().parents[2] / "docs" / "staleness.md"

HEAD = """\
# What a build does about a change

*Made by `python -m tests.matrix.page` from the table that the tests in `tests/matrix/` are generated from: each line
below is a test that makes the change in a built checkout, builds, and looks at which scripts really ran, which outputs
came from the store, and which plan files were written. What a line does not name stays as it is.*

The checkout has five datasets. `alpha` uses helper modules, data files, a folder's listing, a symlink, a variable, a
declared input and args; `gamma` reads the prepared file of `alpha`; `beta` is shared by two benchmarks, `beta` and
`beta/hard`, the second with a prompt template; `delta` has `is_prepared_data_current`; the script of `epsilon` is a
symlink. {count} kinds of change:
"""

TAIL = """
## How it is decided

- A dataset's inputs are its script, the key of its environment, its args, the digests of its `prepare_env` variables, its
  declared inputs, the sources of editable dependencies, and everything that the script was seen to use (see
  [observation.md](observation.md)). Their digests are taken before the run.
- It is **current** when every input and every output has the digest that was recorded. Time stamps decide nothing; `stat`
  only saves hashing: device, inode, size, mtime and ctime have to be the very ones that a file was hashed under, and
  that `stat` must have been old enough then that no second change could hide behind it. How old is told by the local
  clock and by the clock of the file system that `.cache/` is on, whichever is behind.
- Else it is **restored** when the store has a preparation with exactly these inputs. What a person has changed by hand is
  kept under `.cache/displaced/` first. An output that is read-only is replaced all the same: to keep what you wrote
  in one, commit it under another name.
- Else its script **runs**. If the bytes come out the same, what is made from them stays (early cut-off).
- `gymbuild why prepare:NAME` says which of these, and because of what; `gymbuild inputs prepare:NAME` lists the inputs.

## What no build can see

Time, random numbers, the network, and what is listed under *Not seen* in [observation.md](observation.md). A change to
such a thing rebuilds nothing; `doit forget prepare:NAME` makes the script run again.
"""


def page() -> str:
    """The page's text."""
    rows = [*TABLE, *SLOW_TABLE]
    parts = [HEAD.format(count=len(rows))]
    for group in dict.fromkeys(change.group for change in rows):
        parts.append(f"\n## {group[0].upper()}{group[1:]}\n" if group[0] != "`" else f"\n## {group}\n")
        parts.append(
            "\n| change | scripts that run | from the store | plans written | |\n|---|---|---|---|---|\n"
        )
        parts += [_line(change) for change in rows if change.group == group]
    parts.append(TAIL)
    return "".join(parts)


def _line(change: Change) -> str:
    notes = [change.note] if change.note else []
    if change.keeps:
        notes.append("the changed file is kept under `.cache/displaced/`")
    if change.code:
        notes.append(f"exit {change.code}")
    if change.again:
        notes.append(f"the build after it runs {_names(change.again)}")
    cells = [change.title, *map(_names, (change.runs, change.restores, change.plans)), "; ".join(notes)]
    return "| " + " | ".join(cells).rstrip() + " |\n"


def _names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "–"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
