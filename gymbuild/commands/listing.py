"""What there is to build, and in what state it is: the data behind `gymbuild benchmarks`."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from gymbuild.config.datasets import Benchmark
from gymbuild.preparation.failures import read_failure

if TYPE_CHECKING:
    from gymbuild.cache.store import Action
    from gymbuild.config.session import Session

State = Literal["current", "stale", "never prepared", "failed"]
STATES: tuple[State, ...] = ("current", "stale", "never prepared", "failed")


@dataclass(frozen=True, slots=True)
class Entry:
    """One benchmark of a listing."""

    benchmark: Benchmark
    state: State
    rows: int | None = None
    """Rows of the prepared file; None when it is not there, or not what a known preparation made."""
    size: int | None = None
    """Bytes of the prepared file; None when it is not there."""
    problem: str | None = None
    """Why it cannot be built, where that is known."""

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


# -- states ------------------------------------------------------------------------------------------------------


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
        preparation = graph.aliases.get(name)
        if preparation is None:
            problem = graph.problems.get(name)
            found[name] = Entry(
                benchmark, "never prepared", problem=None if problem is None else str(problem)
            )
            continue
        record = records[preparation]
        failed = preparation not in current and read_failure(session.checkout, preparation) is not None
        rows, size = _measure(session, benchmark.dataset.jsonl_fpath, record, preparation in current)
        state = state_of(known=record is not None, current=preparation in current, failed=failed)
        found[name] = Entry(benchmark, state, rows, size, problems.get(preparation))
    return found


def state_of(*, known: bool, current: bool, failed: bool) -> State:
    """The one word for a dataset.

    Args:
        known: a preparation of it is on record.
        current: nothing that it was made from has changed since, and the output is there.
        failed: the last time that its script ran, it failed.
    """
    if current:
        return "current"
    if failed:
        return "failed"
    return "stale" if known else "never prepared"


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


# -- finding -----------------------------------------------------------------------------------------------------

_WORD = re.compile(r"[a-z0-9]+")
_SHORTEST_ABBREVIATION = 4
"""Letters that a word must have before it may match with letters left out."""


def find(query: str, benchmarks: Mapping[str, Benchmark]) -> list[str]:
    """The benchmarks that a query matches, best match first.

    Every word of the query must match something: the name, the dataset's name, the domain or the description.
    Case and the signs between words do not count. A word matches where it stands, begins a word, or is inside
    one; in names also with letters left out (`livcodebench`).

    Args:
        query: one word or several.
        benchmarks: by name.
    """
    words = [word for word in query.lower().split() if _plain(word)]
    if not words:
        return []
    scores = {}
    for name, benchmark in benchmarks.items():
        each = [_score(word, benchmark) for word in words]
        if all(each):
            whole = _plain(query.lower()) == _plain(name.lower())
            scores[name] = sum(each) + (1000 if name == query.strip() else 500 if whole else 0)
    return sorted(scores, key=lambda name: (-scores[name], len(name), name))


def nearest(query: str, names: Iterable[str], count: int = 5) -> list[str]:
    """The names that are most like a query that matches nothing."""
    plain = _plain(query.lower())
    rated = []
    for name in names:
        parts = {name.lower(), name.lower().partition("/")[0], name.lower().rpartition("/")[2]}
        score = max(difflib.SequenceMatcher(None, plain, _plain(part)).ratio() for part in parts)
        rated.append((-score, len(name), name))
    rated.sort()
    near = [name for score, _, name in rated[:count] if -score >= 0.5]
    return near or [name for _, _, name in rated[:3]]


def _score(word: str, benchmark: Benchmark) -> int:
    """How well one word fits a benchmark; 0 for not at all."""
    best = max(
        _name_score(word, benchmark.name.lower()),
        _name_score(word, benchmark.dataset.name.lower()) - 3,
    )
    if best < 40 and benchmark.domain:
        domain = benchmark.domain.lower()
        best = max(best, 36 if domain == word else 32 if domain.startswith(word) else 0)
    if best < 30 and benchmark.description:
        best = max(best, _text_score(word, benchmark.description.lower()))
    return max(best, 0)


def _name_score(word: str, name: str) -> int:
    plain, short = _plain(word), _plain(name)
    if name == word:
        return 100
    if short == plain:
        return 95
    if plain in map(_plain, name.split("/")):
        return 88
    if short.startswith(plain):
        return 80
    if any(part.startswith(plain) for part in _WORD.findall(name)):
        return 70
    if plain in short:
        return 60
    if len(plain) >= _SHORTEST_ABBREVIATION and _left_out(plain, short):
        return 40
    return 0


def _text_score(word: str, text: str) -> int:
    words = _WORD.findall(text)
    plain = _plain(word)
    if plain in words:
        return 28
    if any(other.startswith(plain) for other in words):
        return 22
    return 12 if len(plain) >= 3 and (word in text or plain in _plain(text)) else 0


def _left_out(word: str, text: str) -> bool:
    """Whether `text` has the letters of `word` in order, few others between them."""
    for start, letter in enumerate(text):
        if letter != word[0]:
            continue
        position = start
        for wanted in word:
            position = text.find(wanted, position) + 1
            if not position:
                return False
        if position - start <= len(word) + max(2, len(word) // 3):
            return True
    return False


def _plain(text: str) -> str:
    return "".join(_WORD.findall(text))


def counts(listed: Iterable[Entry]) -> str:
    """How many there are, in words: `184 benchmarks: 5 current, 179 never prepared`."""
    states = [entry.state for entry in listed]
    parts = [f"{states.count(state):,} {state}" for state in STATES if state in states]
    total = f"{len(states):,} benchmark{'s' if len(states) != 1 else ''}"
    return f"{total}: {', '.join(parts)}" if parts else total


def of_domain(benchmarks: Mapping[str, Benchmark], domain: str) -> dict[str, Benchmark]:
    """Those of one domain, case not counted."""
    return {
        name: benchmark
        for name, benchmark in benchmarks.items()
        if (benchmark.domain or "").lower() == domain.lower()
    }


def domains(benchmarks: Mapping[str, Benchmark]) -> Sequence[str]:
    """Every domain that there is."""
    return sorted({benchmark.domain for benchmark in benchmarks.values() if benchmark.domain})
