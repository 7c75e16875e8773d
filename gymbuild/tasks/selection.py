"""What the words on the command line select, and whether a task was named or swept up in a group."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass, field

from gymbuild.cache.index import Index
from gymbuild.config.session import Session
from gymbuild.config.step import Step, group_of


@dataclass(slots=True)
class Selection:
    """The tasks that a command line selects."""

    tasks: dict[str, bool] = field(default_factory=dict)
    """Tasks to make current, and whether each (or what is made from it) was named; sources before what they make."""
    problems: dict[str, bool] = field(default_factory=dict)
    """Tasks whose config cannot be used, and whether they were named."""
    others: list[str] = field(default_factory=list)
    """Words that are left to doit: tasks of the dodo's own, options."""
    unknown: list[str] = field(default_factory=list)
    """Words that name no task of a step of ours."""

    def of(self, group: str) -> list[str]:
        """The names of the selected tasks of a step."""
        start = group + ":"
        return [task[len(start) :] for task in self.tasks if task.startswith(start)]

    index: Index | None = None
    """What is asked first for the sources of a task: of thousands that are current, none has to be read then."""

    def add(self, session: Session, task: str, named: bool) -> None:
        """Add a task after what it is made from by other steps; named wins over swept up."""
        step, name = session.step_of(task)
        proved = self.index is not None and self.index.is_current(task)
        for source in self.index.sources(task) if proved and self.index is not None else step.sources(name):
            if group_of(source) != step.group:
                self.add(session, source, named)
        self.tasks[task] = self.tasks.get(task, False) or named

    def add_problem(self, task: str, named: bool) -> None:
        """Add a task whose config cannot be used."""
        self.problems[task] = self.problems.get(task, False) or named


def select(session: Session, words: Sequence[str], index: Index | None = None) -> Selection:
    """Resolve task names, groups, globs and target paths.

    Args:
        session: of the command.
        words: positional words of the command line.
        index: one whose graph holds.

    Raises:
        GymbuildError: the graph cannot be made.
    """
    chosen = Selection(index=index)
    for word in words:
        target = next(
            (
                f"{step.group}:{name}"
                for step in session.steps.values()
                if (name := step.of_target(word)) is not None
            ),
            word,
        )
        group, colon, name = target.partition(":")
        step = session.steps.get(group)
        if "*" in word:
            _add_glob(session, chosen, word)
        elif step is None:
            chosen.others.append(word)
        elif not colon:
            _add_group(session, chosen, step)
        elif (found := step.name_of(name)) is not None:
            chosen.add(session, f"{group}:{found}", True)
        elif name in step.problems():
            chosen.add_problem(target, True)
        else:
            chosen.unknown.append(target)
    return chosen


def _add_group(session: Session, chosen: Selection, step: Step) -> None:
    for name in step.problems():
        chosen.add_problem(f"{step.group}:{name}", False)
    for name in step.names():
        chosen.add(session, f"{step.group}:{name}", False)


def _add_glob(session: Session, chosen: Selection, word: str) -> None:
    """A pattern sweeps up what it matches."""
    found = False
    for step in session.steps.values():
        if ":" in word and not fnmatch.fnmatchcase(step.group, word.partition(":")[0]):
            continue  # asking for names may take time
        for name in step.names():
            if fnmatch.fnmatchcase(f"{step.group}:{name}", word):
                chosen.add(session, f"{step.group}:{name}", False)
                found = True
        for name in step.problems():
            if fnmatch.fnmatchcase(f"{step.group}:{name}", word):
                chosen.add_problem(f"{step.group}:{name}", False)
                found = True
    if not found:
        chosen.others.append(word)


def unknown_text(session: Session, word: str) -> str:
    """That there is no such task, with the nearest that there are."""
    near = nearest(session, word)
    hint = f" The nearest are {', '.join(near)}." if near else ""
    return f"{word}: there is no such task.{hint} `gymbuild benchmarks` lists what there is."


def nearest(session: Session, word: str, count: int = 3) -> list[str]:
    """The names of tasks that are most like `word`."""
    group, _, name = word.partition(":")
    step = session.steps[group]
    table = {known.lower(): known for known in sorted({*step.names(), *step.nicknames(), *step.problems()})}
    close = difflib.get_close_matches(name.lower(), table, n=count, cutoff=0.4)
    inside = [key for key in table if name and name.lower() in key and key not in close]
    return [f"{group}:{table[key]}" for key in (close + inside)[:count]]
