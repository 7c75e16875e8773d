"""The state of each benchmark: what `benchmarks` lists."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from gymbuild.config.datasets import Benchmark
from gymbuild.preparation.failures import read_failure

if TYPE_CHECKING:
    from gymbuild.cache.store import Action
    from gymbuild.config.session import Session

StateName = Literal["current", "stale", "never prepared", "failed"]
"""Current: nothing has changed since it was prepared. Failed: not current, and its script failed the last time."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One benchmark of a listing."""

    benchmark: Benchmark
    state: StateName
    rows: int | None = None
    """Rows of the prepared file; None when it is not there, or not what a recorded preparation made."""
    size: int | None = None
    """Bytes of the prepared file; None when it is not there."""
    problem: str | None = None
    """Why it cannot be built, where that was found."""

    def to_json(self) -> dict[str, Any]:
        """The object that `gymbuild benchmarks --json` prints for it."""
        benchmark, dataset = self.benchmark, self.benchmark.dataset
        return {
            "name": benchmark.name,
            "agent": dataset.agent,
            "bytes": self.size,
            "config_path": benchmark.config_path,
            "dataset": dataset.name,
            "description": benchmark.description,
            "domain": benchmark.domain,
            "jsonl_fpath": dataset.jsonl_fpath,
            "num_repeats": dataset.num_repeats,
            "prepare_dependencies": list(dataset.prepare_dependencies),
            "prepare_script": dataset.prepare_script,
            "prompt_config": dataset.prompt_config,
            "rows": self.rows,
            "state": self.state,
        }


def entries(session: Session, benchmarks: Mapping[str, Benchmark]) -> dict[str, Entry]:
    """The state of benchmarks. Runs nothing and changes nothing.

    Args:
        session: of the command.
        benchmarks: by name; those of the session's catalog, or some of them.

    Returns:
        an entry for each, in the same order.

    Raises:
        GymbuildError: the graph cannot be made.
    """
    from gymbuild.tasks.decision import decide, proved_index

    index = proved_index(session)
    graph, preparer = session.graph, session.steps["prepare"].preparer
    wanted = dict.fromkeys(graph.aliases[name] for name in benchmarks if name in graph.aliases)
    records = {name: preparer.record(graph.preparations[name]) for name in wanted}
    recorded = [f"prepare:{name}" for name, record in records.items() if record is not None]
    current: set[str] = set()
    problems: dict[str, str] = {}
    if recorded:
        decided = decide(session, recorded, index=index)
        current = {task.partition(":")[2] for task in decided.current}
        problems = {
            task.partition(":")[2]: "; ".join(texts) for task, texts in decided.named_problems.items()
        }
    found = {}
    for name, benchmark in benchmarks.items():
        task = graph.aliases.get(name)
        if task is None:
            problem = graph.problems.get(name)
            found[name] = Entry(benchmark, "never prepared", problem=str(problem) if problem else None)
            continue
        state: StateName = "never prepared" if records[task] is None else "stale"
        if task in current:
            state = "current"
        elif read_failure(session.checkout, task) is not None:
            state = "failed"
        rows, size = _measure(session, benchmark.dataset.jsonl_fpath, records[task], task in current)
        found[name] = Entry(benchmark, state, rows, size, problems.get(task))
    return found


def _measure(
    session: Session, output: str, record: Action | None, current: bool
) -> tuple[int | None, int | None]:
    """Rows and bytes of a prepared file."""
    if current and record is not None:
        return record.rows, record.size
    try:
        size = os.stat(session.checkout.absolute(output)).st_size
    except OSError:
        return None, None
    if record is not None and record.size == size:
        made = dict(record.outputs).get(output)
        if made is not None and session.steps["prepare"].preparer.output_digest(output) == made:
            return record.rows, size
    return None, size
