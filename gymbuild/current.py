"""The shortest answer: everything that was asked for is current. It costs `stat` calls, and imports next to nothing.

After a run, the witnesses of what it found current are kept in `.cache/index`. The next start compares them;
if all hold, it says so and ends before doit, configs or scripts are looked at. If any does not hold, nothing
is concluded: the whole decision is made, by content.
"""

from __future__ import annotations

import gc
import os
import sys

from gymbuild.known import (
    CONFIGS,
    FORMAT,
    Known,
    circumstances,
    config_names,
    drop,
    hand_over,
    index_log,
    pack,
    parts_log,
    take,
)
from gymbuild.witness import pack_signatures, signature, wait_until_not_racy

# not from typing: importing that costs a third of a start that finds nothing to do
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, TextIO

    from gymbuild.session import Decided, Session
    from gymbuild.snapshot import Entry
    from gymbuild.witness import Signature, Witness

    Absent = tuple[tuple[str, Signature | None, tuple[str, ...]], ...]
    """Folders with their signatures, and the paths in each that are not there; with None for a folder's signature,
    nothing stands for the paths."""
    Seen = tuple[Witness, tuple[str, ...], Absent, str, tuple[str, ...]]
    """A task's witness, the tasks whose outputs it reads, what must not be there, the digest of what its config asks
    for, and why it cannot be built."""

_FEW = 100
"""Tasks up to which each is looked at by itself."""
_MOST_FOLDERS = 2000
"""Globs over more folders than this get no witness: their tasks are always decided by content."""


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
        from gymbuild.text import skipped_text

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
    except (GymbuildError, OSError, ValueError) as error:
        # only time is lost: the next start decides by content
        print(f"warning: .cache/index: {error}; the next start will be slower", file=sys.stderr)


def _remember(session: Session, words: Sequence[str]) -> None:
    assert session.decided is not None
    root = session.checkout.root
    before = session.decided
    drop(root)
    # what was known by `stat` alone is known still; the rest is looked at
    rest = [f"prepare:{name}" for name in before.stale]
    rest += [f"prepare:{name}" for name, assessment in before.current.items() if assessment is not None]
    rest += [f"prepare:{name}" for name in before.script_problems]
    rest += [f"plan:{name}" for name in before.selection.plans if before.plans.get(name, True) is not None]
    known = session.known
    if known is not None:
        outputs = [session.graph.preparations[name].dataset.jsonl_fpath for name in before.stale]
        if not known.configs_stay(outputs):
            # a folder is new, such as the first `data`: the graph is looked at anew
            session.forget_known()
        elif not rest:
            return
    # Signatures, a wait until no change could hide behind them, contents, signatures: only what all agree on is kept.
    once = session.renewed()
    first = _observations(once, once.decide(rest, by_stat=True))
    graph_before = _graph_record(once) if once.known is None else None
    wait_until_not_racy(_all_signatures(first, graph_before[0] if graph_before is not None else ((), ())))
    again = session.renewed()
    found = _observations(again, again.decide(rest, by_stat=True))
    index = index_log(root)
    old = index.get("graph")
    if old is None or old["format"][0] != FORMAT:
        # of another gymbuild: nothing of it is read
        index.put([(key, None) for key in list(index.keys())])
    records: list[tuple[str, Any]] = []
    if graph_before is not None and again.known is None:
        records += _graph_records(again, graph_before, old)
    graph = next((value["token"] for key, value in records if key == "graph"), old["token"] if old else "")
    for key, seen in found.items():
        entry = _entry(seen, graph)
        if first.get(key) == seen and index.get(key) != entry:
            records.append((key, entry))
    again.preparer.digests.save(wait=True)
    index.put(records)
    if (
        any(key == "graph" for key, _ in records)
        or len([key for key in list(index.keys()) if key.startswith("task:")]) > _FEW
    ):
        _gather(root)


def _gather(root: str) -> None:
    """Put the tasks that were written one by one into the one record of all: once they are many, or the graph is new."""
    known = Known(root)
    tasks = known.written_alone()
    snapshot = known.snapshot()
    count = len(snapshot) if snapshot is not None else 0
    if known.record is None:
        return
    graph, there = known.record["token"], known.tokens()
    if len(tasks) <= max(_FEW, count // 16) and (snapshot is None or snapshot.graph == graph):
        return
    from gymbuild.snapshot import gather

    entries = {**(snapshot.entries() if snapshot is not None else {}), **tasks}
    record, absent = gather(
        {task: entry for task, entry in entries.items() if entry[1] == there.get(task)}, graph
    )
    deleted = [(f"task:{task}", None) for task in tasks]
    index_log(root).put([("absent", absent), ("tasks", record), *deleted])


def _entry(seen: Seen, graph: str) -> Entry:
    """What is kept of a task, in the graph with this token."""
    (paths, variables), sources, absent, token, problems = seen
    paths += tuple((path, None) for _, at, names in absent if at is None for path in names)
    folders = [(folder, at, names) for folder, at, names in absent if at is not None]
    return (
        graph,
        token,
        *pack_signatures(paths),
        *pack_signatures((folder, at) for folder, at, _ in folders),
        pack([pack_signatures((path, None) for path in names)[0] for _, _, names in folders]),
        variables,
        sources,
        problems,
    )


def _all_signatures(entries: dict[str, Seen], graph: Witness | None) -> Iterable[Signature | None]:
    for witness, _, absent, _, _ in entries.values():
        for _, found in witness[0]:
            yield found
        for _, found, _ in absent:
            yield found
    for _, found in graph[0] if graph is not None else ():
        yield found


def _graph_records(
    session: Session, before: tuple[Witness, dict[str, Any], dict[str, Any]], old: Any
) -> list[tuple[str, Any]]:
    """The records of a graph that was made anew, once its parts are written; nothing when it cannot be kept."""
    from gymbuild.graph import graph_parts, packed_tasks

    now = _graph_record(session)
    parts = graph_parts(session.graph)
    if parts is None or now != before or now[1] == old:
        return []
    log = parts_log(session.checkout.root)
    tasks = packed_tasks(session.graph)
    # first and last: of a write that is cut off, nothing counts
    records: list[tuple[str, Any]] = [("graph", None)]
    records += [(task, part) for task, part in tasks.items() if log.get(task) != part]
    records += [(key, None) for key in list(log.keys()) if key not in tasks and key != "graph"]
    records.append(("graph", {**parts, "token": now[1]["token"]}))
    log.put(records)
    return [("graph-rest", now[2]), ("graph", now[1])]


def _token(part: bytes) -> str:
    from gymbuild.digests import digest_bytes

    return digest_bytes(part)


def _graph_record(session: Session) -> tuple[Witness, dict[str, Any], dict[str, Any]]:
    """What proves that the graph is the same; and what is kept of it, in two records."""
    from gymbuild.config.catalog import load_catalog
    from gymbuild.graph import packed_tasks

    graph = session.graph
    witness = load_catalog(session.checkout).witness
    tokens = {task: _token(part) for task, part in packed_tasks(graph).items()}
    names = {f"prepare:{name}": f"prepare:{name}" for name in graph.preparations}
    for benchmark, name in graph.aliases.items():
        names.setdefault(f"prepare:{benchmark}", f"prepare:{name}")
    names.update({f"plan:{name}": f"plan:{name}" for name in graph.benchmarks})
    problems = {name: str(error) for name, error in graph.problems.items()}
    paths, signatures = pack_signatures(witness[0])
    folders = _folders(session, witness)
    token = _token(pack([tokens, problems, graph.aliases, graph.outputs, list(folders.items())]))
    record = {
        "format": circumstances(),
        "paths": paths,
        "signatures": signatures,
        "variables": witness[1],
        "groups": {
            "prepare": [f"prepare:{name}" for name in graph.preparations],
            "plan": [f"plan:{name}" for name in graph.benchmarks],
        },
        "problems": problems,
        "token": token,
    }
    return witness, record, {"token": token, "names": names, "folders": folders, "tokens": tokens}


def _folders(session: Session, witness: Witness) -> dict[str, tuple[str, ...]]:
    """The folders that configs were looked for in, with the names in them that matter."""
    found = {}
    for path, at in witness[0]:
        if at is not None and (path == CONFIGS or path.startswith(CONFIGS + "/")):
            names = config_names(session.checkout.absolute(path))
            if names is not None:
                found[path] = names
    return found


def _observations(session: Session, decided: Decided) -> dict[str, Seen]:
    """The record of every task that was found current by content, by index key."""
    found: dict[str, Seen] = {}
    for name, assessment in decided.current.items():
        if assessment is None:
            continue
        witness, absent = _preparation_witness(session, name, assessment)
        if witness is not None:
            preparation = session.graph.preparations[name]
            sources = tuple(f"prepare:{source}" for source in session.upstream(preparation))
            token = _token(pack(preparation.to_plain()))
            found[f"task:prepare:{name}"] = (witness, sources, absent, token, ())
    for name, problems in decided.script_problems.items():
        preparation = session.graph.preparations[name]
        token = _token(pack(preparation.to_plain()))
        script = _signatures(session, [preparation.script])
        found[f"task:prepare:{name}"] = ((script, ()), (), (), token, tuple(problems))
    for name, plan in decided.plans.items():
        if plan is not None and not plan.reasons:
            benchmark = session.graph.benchmarks[name]
            # the prepared file too: its preparation may be current again, with another content, by another command
            paths = [
                plan.path,
                benchmark.dataset.jsonl_fpath,
                "nemo_gym/package_info.py",
                "pyproject.toml",
            ]
            if benchmark.dataset.prompt_config:
                paths.append(benchmark.dataset.prompt_config)
            source = f"prepare:{session.graph.aliases[name]}"
            found[f"task:plan:{name}"] = (
                (_signatures(session, paths), ()),
                (source,),
                (),
                _token(pack(benchmark.to_plain())),
                (),
            )
    return found


def _signatures(session: Session, paths: Iterable[str]) -> tuple[tuple[str, Signature | None], ...]:
    return tuple((path, signature(session.checkout.absolute(path))) for path in dict.fromkeys(paths))


def _preparation_witness(session: Session, name: str, assessment: Any) -> tuple[Witness | None, Absent]:
    from gymbuild.digests import variable_digest
    from gymbuild.environments import environment_witness
    from gymbuild.inputs import declared_files, source_files

    preparation = session.graph.preparations[name]
    action = assessment.decision.action
    if action is None:
        return None, ()
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
                return None, ()
        paths += below
    paths += [path for path, _ in action.outputs]
    entries = dict(_signatures(session, paths))
    entries.update(environment_witness(assessment.environment, session.checkout))
    for item in action.inputs:
        # a path that must not be there: whatever is found now, its absence is what was compared
        if item.kind == "missing" and entries[item.name] is not None:
            return None, ()
    variables = tuple((name, variable_digest(name)) for name in sorted(set(preparation.dataset.prepare_env)))
    there = tuple(item for item in entries.items() if item[1] is not None)
    return (there, variables), _absent(session, [path for path, found in entries.items() if found is None])


def _absent(session: Session, paths: Iterable[str]) -> Absent:
    """Paths that are not there, by the nearest folder that is: while that is as it was, they need no look.

    Not so behind a symlink that leads nowhere: what it leads to may appear without a trace in the symlink's folder.
    Such paths have no folder to stand for them.
    """
    by_folder: dict[str, list[str]] = {}
    unseen: list[str] = []
    for path in paths:
        folder = step = path
        while folder not in ("", "/", "."):
            step, folder = folder, os.path.dirname(folder) or "."
            if os.path.isdir(session.checkout.absolute(folder)):
                break
        if os.path.lexists(session.checkout.absolute(step)):
            unseen.append(path)
        else:
            by_folder.setdefault(folder, []).append(path)
    stood_for: Absent = tuple(
        (folder, signature(session.checkout.absolute(folder)), tuple(names))
        for folder, names in by_folder.items()
    )
    return (*stood_for, (".", None, tuple(unseen))) if unseen else stood_for


def _literal(pattern: str) -> str:
    """The folder that a glob starts from: its parts before the first wildcard."""
    parts = pattern.split("/")
    for position, part in enumerate(parts):
        if any(char in part for char in "*?["):
            return "/".join(parts[:position]) or "."
    return "/".join(parts[:-1]) or "."


def forget(session: Session) -> None:
    """Drop every witness: the next start decides by content."""
    index = index_log(session.checkout.root)
    index.put([(key, None) for key in list(index.keys())])
