"""What the words on the command line select, and whether a task was named or swept up in a group."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gymbuild.config.graph import Graph

GROUPS = ("venv", "prepare", "validate", "plan")


@dataclass(slots=True)
class Selection:
    """The tasks that a command line selects."""

    preparations: dict[str, bool] = field(default_factory=dict)
    """Names of preparations to make current, in order, and whether the task (or its plan) was named."""
    plans: dict[str, bool] = field(default_factory=dict)
    """Names of benchmarks whose plans to make current, and whether they were named."""
    problems: dict[str, bool] = field(default_factory=dict)
    """Tasks (`plan:x`) that cannot be built, and whether they were named."""
    rest: list[str] = field(default_factory=list)
    """Words that are left to doit: environments, validations, tasks of the dodo's own, options."""
    unknown: list[str] = field(default_factory=list)
    """Words of ours that name nothing."""

    def add(self, table: dict[str, bool], name: str, named: bool) -> None:
        """Add a task to one of the tables; named wins over swept up."""
        table[name] = table.get(name, False) or named


def select(graph: Graph, words: Sequence[str]) -> Selection:
    """Resolve task names, groups, globs and target paths.

    Args:
        graph: the tasks that there are.
        words: positional words of the command line.
    """
    chosen = Selection()
    for word in words:
        group, colon, name = word.partition(":")
        if word in graph.outputs:
            group, colon, name = "prepare", ":", graph.outputs[word]
        if "*" in word:
            _add_glob(graph, chosen, word)
        elif group in ("prepare", "plan") and not colon:
            _add_group(graph, chosen, group)
        elif group in ("prepare", "plan"):
            _add_name(graph, chosen, group, name)
        else:
            chosen.rest.append(word)
    return chosen


def with_sources(words: Sequence[str]) -> list[str]:
    """The words, with `prepare:x` before every `validate:x`: what is validated is made current first."""
    found = []
    for word in words:
        group, colon, name = word.partition(":")
        if group == "validate":
            found.append("prepare" + colon + name)
        found.append(word)
    return found


def _add_group(graph: Graph, chosen: Selection, group: str) -> None:
    for name in graph.problems:
        chosen.add(chosen.problems, f"{group}:{name}", False)
    if group == "prepare":
        # named wins over swept up
        chosen.preparations = {**dict.fromkeys(graph.preparations, False), **chosen.preparations}
    else:
        for name in graph.benchmarks:
            chosen.add(chosen.plans, name, False)
            chosen.add(chosen.preparations, graph.aliases[name], False)


def _add_name(graph: Graph, chosen: Selection, group: str, name: str) -> None:
    if group == "plan" and name in graph.benchmarks:
        chosen.add(chosen.plans, name, True)
        chosen.add(chosen.preparations, graph.aliases[name], True)
        return
    preparation = graph.preparation_of(name) if group == "prepare" else None
    if preparation is not None:
        chosen.add(chosen.preparations, preparation.name, True)
    elif name in graph.problems:
        chosen.add(chosen.problems, f"{group}:{name}", True)
    else:
        chosen.unknown.append(f"{group}:{name}")


def _add_glob(graph: Graph, chosen: Selection, word: str) -> None:
    """A pattern sweeps up what it matches."""
    found = False
    for name in graph.preparations:
        if fnmatch.fnmatchcase(f"prepare:{name}", word):
            chosen.add(chosen.preparations, name, False)
            found = True
    for name in graph.benchmarks:
        if fnmatch.fnmatchcase(f"plan:{name}", word):
            chosen.add(chosen.plans, name, False)
            chosen.add(chosen.preparations, graph.aliases[name], False)
            found = True
    for name in graph.problems:
        for group in ("prepare", "plan"):
            if fnmatch.fnmatchcase(f"{group}:{name}", word):
                chosen.add(chosen.problems, f"{group}:{name}", False)
                found = True
    if not found:
        chosen.rest.append(word)


def nearest(graph: Graph, word: str, count: int = 3) -> list[str]:
    """The names of tasks that are most like `word`."""
    group, _, name = word.partition(":")
    names: Iterable[str] = (
        {*graph.preparations, *graph.aliases, *graph.problems}
        if group == "prepare"
        else {*graph.benchmarks, *graph.problems}
    )
    table = {name.lower(): name for name in sorted(names)}
    close = difflib.get_close_matches(name.lower(), table, n=count, cutoff=0.4)
    inside = [key for key in table if name and name.lower() in key and key not in close]
    return [f"{group}:{table[key]}" for key in (close + inside)[:count]]
