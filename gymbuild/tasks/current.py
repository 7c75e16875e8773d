"""The shortest answer: everything that was asked for is current. It costs `stat` calls, and imports next to nothing.

After a run, the witnesses of what it found current are kept in `.cache/index` (remembering.py). The next start
compares them; if all hold, it says so and ends before doit, configs or scripts are looked at. If any does not hold,
nothing is concluded: the whole decision is made, by content.
"""

from __future__ import annotations

import gc

from gymbuild.tasks.known import hand_over, take

# not from typing: importing that costs a third of a start that finds nothing to do
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import TextIO

    from gymbuild.tasks.session import Session

_FEW = 100
"""Tasks up to which each is looked at by itself."""


def answer(root: str, words: Sequence[str], argv: Sequence[str], *, out: TextIO) -> bool:
    """Say that everything asked for is current, if that is known by `stat` alone.

    Args:
        root: the checkout.
        words: names of tasks and groups.
        argv: the whole command line; a setting or an option on it means that more has to be looked at.
        out: where to say it.

    Returns:
        whether it was said; when not, nothing was printed and nothing is known.
    """
    for word in words:
        group, colon, name = word.partition(":")
        if group not in ("prepare", "plan") or (colon and not name) or "*" in name:
            return False
    if any("=" in word or word.startswith("-") for word in argv):
        return False
    # what is read here is many small things that stay: looking for garbage among them costs more than reading them
    gc.disable()
    try:
        return _answer(root, words, out)
    finally:
        gc.freeze()
        gc.enable()


def _answer(root: str, words: Sequence[str], out: TextIO) -> bool:
    known = take(root)
    graph = known.record
    if graph is None:
        return False
    hand_over(known)
    if known.refused:
        # gymbuild has asked already, before it handed over to doit
        return False
    known.refused = True
    tasks: dict[str, bool] = {}
    skipped: dict[str, list[str]] = {}
    for word in words:
        group, colon, _ = word.partition(":")
        if colon:
            task = known.task_named(word)
            if task is None:
                return False
            tasks[task] = True
        else:
            for task in graph["groups"][group]:
                tasks.setdefault(task, False)
            skipped.update({f"{group}:{name}": [text] for name, text in graph["problems"].items()})
    for task, named in list(tasks.items()):
        if task.startswith("plan:"):
            # a plan's dataset counts as asked for, what that was made from does not
            for source in known.sources(task) or ():
                tasks[source] = tasks.get(source, False) or named
    if len(tasks) > _FEW and not known.look_at_all(tasks):
        return False
    if not known.graph_holds():
        return False
    for task in [task for task in tasks if not known.is_current(task)]:
        # of those that a group swept up, some cannot be built, which is known for certain too
        source = known.task_named("prepare:" + task.partition(":")[2]) or task
        problems = known.problems(source)
        if tasks.pop(task) or tasks.get(source) or not problems:
            return False
        skipped[source] = list(problems)
    lines = [f"-- {task}\n" for task in sorted(tasks, key=_order) if tasks[task]]
    counts = [f"{len(tasks)} current"] if tasks else []
    if skipped:
        from gymbuild.system.text import skipped_text

        lines.insert(0, skipped_text(skipped) + "\n")
        counts.append(f"{len(skipped)} skipped")
    out.write("".join(lines) + f"nothing to do: {', '.join(counts) or 'nothing was selected'}\n")
    out.flush()
    return True


def known_current(session: Session, names: Iterable[str]) -> set[str]:
    """The preparations that are known by `stat` alone to be current.

    Args:
        session: one with settings knows nothing here.
        names: of preparations of its graph.
    """
    known = session.known
    if known is None:
        return set()
    return {name for name in names if known.is_current(f"prepare:{name}")}


def _order(task: str) -> tuple[bool, str]:
    return (task.startswith("plan:"), task)
