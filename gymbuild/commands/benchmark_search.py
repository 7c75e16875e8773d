"""Benchmarks found by name, dataset, domain and description."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping

from gymbuild.config.datasets import Benchmark

_WORD = re.compile(r"[a-z0-9]+")
_ALIKE = 0.9
"""How alike (0 to 1, by difflib) a word and a name must be for a letter that is left out, and for little more."""


def find(query: str, benchmarks: Mapping[str, Benchmark]) -> list[str]:
    """The benchmarks that a query matches, best match first.

    Every word of the query must match something: the name, the dataset's name, the domain or the description.
    Case and the signs between words do not count.

    Args:
        query: one word or several.
        benchmarks: by name.
    """
    words = [plain for word in query.split() if (plain := _plain(word))]
    ranks = {}
    for name, benchmark in benchmarks.items():
        tiers = [tier for word in words if (tier := _tier(word, benchmark)) is not None]
        if words and len(tiers) == len(words):
            exact = (name != query.strip(), _plain(name) != _plain(query))
            ranks[name] = (*exact, sum(tiers), len(name), name)
    return sorted(ranks, key=ranks.__getitem__)


def nearest(query: str, names: Iterable[str], count: int = 5) -> list[str]:
    """The names that are most like a query that matches nothing."""
    by_part: dict[str, list[str]] = {}
    for name in names:
        for part in {name, *name.split("/")}:
            by_part.setdefault(_plain(part), []).append(name)
    near = difflib.get_close_matches(_plain(query), by_part, n=count, cutoff=0.5)
    return list(dict.fromkeys(name for part in near for name in by_part[part]))[:count]


def _tier(word: str, benchmark: Benchmark) -> int | None:
    """How well one word fits a benchmark: 0 is best, None is not at all."""
    names = [benchmark.name, benchmark.dataset.name]
    whole = [_plain(name) for name in (*names, *benchmark.name.split("/"))]
    parts = [*whole, *(part for name in names for part in _WORD.findall(name.lower()))]
    text = (benchmark.description or "").lower()
    text_words = _WORD.findall(text)
    fits = (
        word in whole,
        any(part.startswith(word) for part in parts),
        any(word in part for part in whole),
        bool(difflib.get_close_matches(word, parts, cutoff=_ALIKE)),
        _plain(benchmark.domain or "").startswith(word),
        word in text_words,
        any(other.startswith(word) for other in text_words),
        len(word) >= 3 and word in _plain(text),
    )
    return fits.index(True) if True in fits else None


def _plain(text: str) -> str:
    return "".join(_WORD.findall(text.lower()))
