"""The shortest answer: everything that was asked for is current. It costs `stat` calls, and imports next to nothing.

After a run, the witnesses of what it found current are kept in `.cache/index`. The next start compares them;
if all hold, it says so and ends before doit, configs or scripts are looked at. If any does not hold, nothing
is concluded: the whole decision is made, by content.
"""

from __future__ import annotations

import os
import sys

from gymbuild.record_log import RecordLog
from gymbuild.witness import all_hold, holds, signature, wait_until_not_racy

# not from typing: importing that costs a third of a start that finds nothing to do
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, TextIO

    from gymbuild.session import Decided, Session
    from gymbuild.witness import Signature, Witness

FORMAT = 2
"""Raised when what is kept here changes."""

_MOST_FOLDERS = 2000
"""Globs over more folders than this get no witness: their tasks are always decided by content."""


def _index(root: str) -> RecordLog:
    return RecordLog(os.path.join(root, ".cache", "index"))


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
    cache = os.path.join(root, ".cache")
    index = _index(root)
    graph = index.get("graph")
    if graph is None or graph["format"] != _format():
        return False
    if os.path.exists(os.path.join(cache, "ignored")) or _has_entries(os.path.join(cache, "journal")):
        return False
    tasks: dict[str, bool] = {}
    skipped = 0
    texts = []
    for word in words:
        group, colon, _ = word.partition(":")
        if colon:
            task = graph["names"].get(word)
            if task is None:
                return False
            tasks[task] = True
        else:
            for task in graph["groups"][group]:
                tasks.setdefault(task, False)
            if graph["skipped"][group]:
                texts.append(graph["skipped"][group][0])
                skipped += graph["skipped"][group][1]
    witnesses: list[Witness] = [graph["witness"]]
    pending = list(tasks)
    looked_at: set[str] = set()
    while pending:
        task = pending.pop()
        entry = None if task in looked_at else index.get("task:" + task)
        if entry is None:
            if task in looked_at:
                continue
            return False
        looked_at.add(task)
        witnesses.append(entry[0])
        for source in entry[1]:
            # a plan's dataset counts as asked for, what that was made from does not
            if task.startswith("plan:"):
                tasks[source] = tasks.get(source, False) or tasks[task]
            pending.append(source)
    if not all_hold(witnesses, root):
        return False
    lines = [f"-- {task}\n" for task in sorted(tasks, key=_order) if tasks[task]]
    closing = f"nothing to do: {len(tasks)} current" + (f", {skipped} skipped" if skipped else "")
    out.write("".join([*(text + "\n" for text in texts), *lines, closing + "\n"]))
    out.flush()
    return True


def known_current(session: Session, names: Iterable[str]) -> set[str]:
    """The preparations that are known by `stat` alone to be current.

    Args:
        session: one with settings knows nothing here.
        names: of preparations of its graph.
    """
    root = session.checkout.root
    index = _index(root)
    graph = index.get("graph")
    if session.words or graph is None or graph["format"] != _format() or not holds(graph["witness"], root):
        return set()
    found: dict[str, bool] = {}

    def is_current(name: str) -> bool:
        if name not in found:
            found[name] = False
            entry = index.get("task:prepare:" + name)
            found[name] = entry is not None and holds(entry[0], root) and all(map(is_current, entry[1]))
        return found[name]

    return {name for name in names if is_current(name)}


def _order(task: str) -> tuple[bool, str]:
    return (task.startswith("plan:"), task)


def _has_entries(folder: str) -> bool:
    """Whether a folder, or one below it, has any file."""
    try:
        with os.scandir(folder) as entries:
            return any(not entry.is_dir() or _has_entries(entry.path) for entry in entries)
    except OSError:
        return False


def _format() -> tuple[int, str, str, str, str]:
    """What decides besides files: this gymbuild, the Python that it runs on, and where Pythons are looked for."""
    from gymbuild import __version__

    return (FORMAT, __version__, sys.executable, sys.version, os.environ.get("PATH", ""))


def remember(session: Session, words: Sequence[str]) -> None:
    """Keep witnesses of what a run has found or made current. Writes nothing when all that is known already.

    Args:
        session: of the run; one with settings is not remembered.
        words: what it was asked for.
    """
    if session.words or session.always:
        return
    from gymbuild.errors import GymbuildError

    try:
        _remember(session, words)
    except (GymbuildError, OSError) as error:
        # only time is lost: the next start decides by content
        print(f"warning: .cache/index: {error}; the next start will be slower", file=sys.stderr)


def _remember(session: Session, words: Sequence[str]) -> None:
    from gymbuild.session import Session as NewSession

    assert session.decided is not None
    root = session.checkout.root
    first = _observations(session, session.decided)
    wait_until_not_racy(found for witness in first.values() for _, found in witness[0][0])
    # Everything is decided once more, by content, now that no change could hide behind a signature.
    again = NewSession(root)
    decided = again.decide(words)
    found = _observations(again, decided)
    index = _index(root)
    graph = _graph_record(again)
    records: list[tuple[str, Any]] = [
        (key, value) for key, value in found.items() if index.get(key) != value and holds(value[0], root)
    ]
    if index.get("graph") != graph and holds(graph["witness"], root):
        records.append(("graph", graph))
    again.preparer.digests.save(wait=True)
    index.put(records)


def _graph_record(session: Session) -> dict[str, Any]:
    from gymbuild.commands.run import skipped_text
    from gymbuild.config.catalog import load_catalog

    graph = session.graph
    catalog = load_catalog(session.checkout)
    names = {f"prepare:{name}": f"prepare:{name}" for name in graph.preparations}
    for benchmark, name in graph.aliases.items():
        names.setdefault(f"prepare:{benchmark}", f"prepare:{name}")
    names.update({f"plan:{name}": f"plan:{name}" for name in graph.benchmarks})
    skipped: dict[str, Any] = {}
    for group in ("prepare", "plan"):
        decided = {f"{group}:{name}": [str(error)] for name, error in graph.problems.items()}
        skipped[group] = [skipped_text(decided), len(decided)] if decided else None
    return {
        "format": _format(),
        "witness": catalog.witness,
        "names": names,
        "groups": {
            "prepare": [f"prepare:{name}" for name in graph.preparations],
            "plan": [f"plan:{name}" for name in graph.benchmarks],
        },
        "skipped": skipped,
    }


def _observations(session: Session, decided: Decided) -> dict[str, tuple[Witness, tuple[str, ...]]]:
    """The witness of every task that is current, by index key, with the preparations whose outputs it reads."""
    found: dict[str, tuple[Witness, tuple[str, ...]]] = {}
    for name, assessment in decided.current.items():
        witness = _preparation_witness(session, name, assessment)
        if witness is not None:
            sources = session.upstream(session.graph.preparations[name])
            found[f"task:prepare:{name}"] = (witness, tuple(f"prepare:{source}" for source in sources))
    for name, plan in decided.plans.items():
        if not plan.reasons:
            benchmark = session.graph.benchmarks[name]
            paths = [plan.path, "nemo_gym/package_info.py", "pyproject.toml"]
            if benchmark.dataset.prompt_config:
                paths.append(benchmark.dataset.prompt_config)
            source = f"prepare:{session.graph.aliases[name]}"
            found[f"task:plan:{name}"] = ((_signatures(session, paths), ()), (source,))
    return found


def _signatures(session: Session, paths: Iterable[str]) -> tuple[tuple[str, Signature | None], ...]:
    return tuple((path, signature(session.checkout.absolute(path))) for path in dict.fromkeys(paths))


def _preparation_witness(session: Session, name: str, assessment: Any) -> Witness | None:
    from gymbuild.digests import variable_digest
    from gymbuild.environments import environment_witness
    from gymbuild.inputs import declared_files, source_files

    preparation = session.graph.preparations[name]
    action = assessment.decision.action
    if action is None:
        return None
    paths = [preparation.script, *assessment.environment.inputs]
    folders: list[str] = []
    for item in action.inputs:
        if item.kind in ("import", "data", "output", "missing", "present", "listing"):
            paths.append(item.name)
        elif item.kind == "declared":
            paths += declared_files(session.checkout, item.name)
            folders.append(_literal(item.name))
        elif item.kind == "editable":
            paths += source_files(session.checkout, item.name)
            folders.append(item.name)
    for folder in folders:
        below = [folder]
        for parent, names, _ in os.walk(session.checkout.absolute(folder)):
            below += [session.checkout.relative(os.path.join(parent, name)) for name in names]
            if len(below) > _MOST_FOLDERS:
                return None
        paths += below
    paths += [path for path, _ in action.outputs]
    entries = dict(_signatures(session, paths))
    entries.update(environment_witness(assessment.environment, session.checkout))
    for item in action.inputs:
        # a path that must not be there: whatever is found now, its absence is what was compared
        if item.kind == "missing" and entries[item.name] is not None:
            return None
    variables = tuple((name, variable_digest(name)) for name in sorted(set(preparation.dataset.prepare_env)))
    return (tuple(entries.items()), variables)


def _literal(pattern: str) -> str:
    """The folder that a glob starts from: its parts before the first wildcard."""
    parts = pattern.split("/")
    for position, part in enumerate(parts):
        if any(char in part for char in "*?["):
            return "/".join(parts[:position]) or "."
    return "/".join(parts[:-1]) or "."


def forget(session: Session) -> None:
    """Drop every witness: the next start decides by content."""
    index = _index(session.checkout.root)
    index.put([(key, None) for key in list(index.keys())])
