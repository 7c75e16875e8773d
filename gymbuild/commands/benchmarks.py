"""`benchmarks [QUERY]`: what there is to build, found by name, domain or description; one of them in full."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gymbuild.commands.base import GymbuildCommand
from gymbuild.commands.options import option
from gymbuild.config.session import Session
from gymbuild.system.errors import UsageError
from gymbuild.system.masking import mask
from gymbuild.system.text import safe

if TYPE_CHECKING:
    from gymbuild.commands.benchmark_states import Entry
    from gymbuild.config.datasets import Benchmark


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
        option("json", False, "print a JSON list of objects"),
        option("domain", "", "only benchmarks of this domain"),
    )

    def run(self, session: Session, words: list[str], options: Any) -> int:
        """Print the list, or the one that was named."""
        from gymbuild.commands.benchmark_search import find, nearest
        from gymbuild.commands.benchmark_states import entries
        from gymbuild.config.catalog import load_catalog

        settings = session.settings
        catalog = load_catalog(
            session.checkout, search_dirs=settings.search_dirs, allow_outside=settings.allow_outside
        )
        chosen, problems = dict(catalog.benchmarks), catalog.problems
        if settings.config_paths is not None:
            chosen, problems = dict(session.graph.benchmarks), {}
        query, domain = " ".join(words), options["domain"]
        if query in problems:
            raise problems[query]
        if domain:
            chosen = _of_domain(chosen, domain)
        if query:
            found = find(query, chosen)
            if not found:
                near = nearest(query, [*chosen, *catalog.problems])
                where = f" in the domain {domain}" if domain else ""
                hint = f" The nearest are {', '.join(near)}." if near else ""
                raise UsageError(
                    f"{query}: no benchmark has this name{where}, and none matches.{hint} "
                    "`gymbuild benchmarks` lists them all."
                )
            chosen = {name: chosen[name] for name in found}
        listed = entries(session, chosen)
        sys.stdout.flush()
        for error in problems.values() if not query else ():
            text = safe(mask(str(error)))
            print(f"warning: left out, since it cannot be resolved: {text}", file=sys.stderr)
        if options["json"]:
            rows = [entry.to_json() for entry in listed.values()]
            print(json.dumps(rows, indent=2, ensure_ascii=False))
            return 0
        named = listed.pop(query, None)
        if sys.stdout.isatty():
            _show(session, named, list(listed.values()), query)
        else:
            _write(session, named, list(listed.values()), query)
        return 0


def _of_domain(benchmarks: Mapping[str, Benchmark], domain: str) -> dict[str, Benchmark]:
    """Those of one domain, case not counted."""
    chosen = {
        name: benchmark
        for name, benchmark in benchmarks.items()
        if (benchmark.domain or "").lower() == domain.lower()
    }
    if not chosen:
        domains = sorted({benchmark.domain for benchmark in benchmarks.values() if benchmark.domain})
        raise UsageError(f"--domain {domain}: the domains are {', '.join(domains)}.")
    return chosen


def _write(session: Session, named: Entry | None, others: Sequence[Entry], query: str) -> None:
    """Plain text that does not vary with the terminal."""
    from gymbuild.commands.benchmark_page import page_text
    from gymbuild.commands.benchmark_table import fields

    if named:
        sys.stdout.write(page_text(session, named))
        if others:
            print(f"\nAlso found by “{query}”")
    sys.stdout.write("".join("\t".join(fields(entry)) + "\n" for entry in others))


def _show(session: Session, named: Entry | None, others: Sequence[Entry], query: str) -> None:
    """In colour, and to the width of the terminal."""
    from rich.console import Console

    from gymbuild.commands.benchmark_page import print_page
    from gymbuild.commands.benchmark_table import counts, print_table

    # not as rich finds it: it gives every dumb terminal 80 columns
    console = Console(highlight=False, markup=False, width=shutil.get_terminal_size().columns)
    if named:
        print_page(console, session, named)
        if not others:
            return
        console.print(f"\nAlso found by “{query}”", style="bold")
    print_table(console, others)
    console.print(f"\n{counts(others)}")
    names = [entry.benchmark.name for entry in others if entry.problem]
    if names:
        console.print(
            f"{len(names)} cannot be built as declared (each one's page says why): {', '.join(names)}"
        )
    if not named:
        console.print("`benchmarks NAME` shows one in full, with the commands to run.")
