"""What is to be done about a selection: everything is decided and validated before anything runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field

from gymbuild.cache.index import Index, compared_index
from gymbuild.config.graph import RecordedGraph
from gymbuild.config.session import Session
from gymbuild.config.step import State, group_of, name_of
from gymbuild.system.errors import GymbuildError, UsageError
from gymbuild.tasks.selection import Selection, select, unknown_text


@dataclass(slots=True)
class Decided:
    """What is to be done about a selection."""

    selection: Selection
    stale: dict[str, State] = field(default_factory=dict)
    """Tasks to make current, in an order in which none comes before what it reads."""
    current: dict[str, State | None] = field(default_factory=dict)
    """Tasks that are current; None for what is proved by `stat` alone."""
    named_problems: dict[str, list[str]] = field(default_factory=dict)
    """Tasks that were named and cannot be built: nothing may run."""
    skipped: dict[str, list[str]] = field(default_factory=dict)
    """Tasks that were swept up in a group and cannot be built."""
    broken: dict[str, str] = field(default_factory=dict)
    """Tasks that cannot be built, each with the one that is to blame: itself, or what it is made from."""
    obstacles: dict[str, list[str]] = field(default_factory=dict)
    """Tasks that cannot be built, as their own files tell, and why."""
    refusals: list[str] = field(default_factory=list)
    """Why some stale tasks are not to be tried: they failed before, in a way that they would fail again."""
    everything: bool = False
    """Also what is current goes to doit: for a reporter that tells of every task."""
    complete: bool = False
    """doit gets every task of ours, to choose from: for tasks of the dodo's own, which may need any of them."""

    def tasks(self) -> list[str]:
        """The tasks that go to doit."""
        return [*self.stale, *(self.current if self.everything else ())]

    def named_current(self) -> list[str]:
        """The tasks that were named, or are needed by one that was, and are current."""
        return [task for task in self.current if self.selection.tasks.get(task)]

    def report(self, task: str, problems: list[str], *, named: bool) -> None:
        """Write down why a task cannot be built."""
        (self.named_problems if named else self.skipped).setdefault(task, []).extend(problems)

    def states_of(self, group: str) -> dict[str, State]:
        """The stale tasks of a step, by name."""
        return {name_of(task): state for task, state in self.stale.items() if group_of(task) == group}


def proved_index(session: Session) -> Index | None:
    """The index of the session's checkout, where it proves that the graph is as it was; the session then reads that.

    With settings, which may change the graph, and with `-a`, it proves nothing.
    """
    if session.words or session.always:
        return None
    index = compared_index(session.checkout.root)
    if not index.graph_holds() or index.content is None:
        return None
    session.recorded_graph = RecordedGraph(session.database, index.content["graph"])
    return index


def decide(session: Session, words: Sequence[str], *, index: Index | None = None) -> Decided:
    """Decide what to do about the selected tasks.

    Args:
        session: of the command.
        words: the positional words of the command line.
        index: one whose graph holds: what it proves to be current is taken as such, without the details.

    Raises:
        UsageError: a word of ours that names nothing, or a setting that does not fit the selection.
        GymbuildError: the graph cannot be made.
    """
    session.named = tuple(words)
    selection = select(session, words, index)
    if selection.unknown:
        raise UsageError("\n".join(unknown_text(session, word) for word in selection.unknown))
    for step in session.steps.values():
        step.check_selection(selection.of(step.group))
    decided = Decided(selection)
    for task, named in selection.problems.items():
        step, name = session.step_of(task)
        decided.report(task, [str(step.problems()[name])], named=named)
    entered: set[str] = set()
    for task in list(selection.tasks):
        _decide(session, decided, task, index, entered)
    for task in decided.broken:
        selection.tasks.pop(task, None)
    for step in session.steps.values():
        decided.refusals += step.refusals(decided.states_of(step.group))
    return decided


def _decide(session: Session, decided: Decided, task: str, index: Index | None, entered: set[str]) -> None:
    """Decide about a task, after everything that it is made from."""
    if task in entered:
        return
    entered.add(task)
    if index is not None and index.is_current(task):
        decided.current[task] = None
        return
    step, name = session.step_of(task)
    named = decided.selection.tasks.get(task, False)
    proved = index.problems(task) if index is not None else ()
    if proved:
        decided.broken[task] = task
        decided.report(task, list(proved), named=named)
        return
    sources = list(step.sources(name))
    for source in sources:
        _decide(session, decided, source, index, entered)
    try:
        problems = step.obstacles(name)
        if problems:
            decided.obstacles[task] = problems
    except GymbuildError as error:
        problems = [str(error)]
    bad = next((source for source in sources if source in decided.broken), None)
    if not problems and bad is not None:
        decided.broken[task] = decided.broken[bad]
        if group_of(bad) == step.group:
            # what another step makes was selected, and is reported, itself
            decided.report(task, [f"it reads what {bad} makes, which cannot be built"], named=named)
        return
    after = tuple(source for source in sources if source in decided.stale)
    state = State(False, after=after)
    if not problems and all(group_of(source) == step.group for source in after):
        # else what it is made from is not there yet
        try:
            state = dataclasses.replace(step.assess(name), after=after)
        except GymbuildError as error:
            problems = [str(error)]
    if problems:
        decided.broken[task] = task
        decided.report(task, problems, named=named)
    elif state.current and not after:
        decided.current[task] = state
    else:
        decided.stale[task] = dataclasses.replace(state, current=False)
