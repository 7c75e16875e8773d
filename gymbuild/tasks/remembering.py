"""What a start leaves for the next one: witnesses of the graph and of what was found or made current.

current.py answers from them, and known.py compares them; see there. They are only ever written by whoever compared
the contents.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from gymbuild.cache.digests import digest_bytes, variable_digest
from gymbuild.cache.snapshot import gather
from gymbuild.cache.witness import pack_signatures, signature, wait_until_not_racy
from gymbuild.config.catalog import load_catalog
from gymbuild.config.graph import graph_parts, packed_tasks
from gymbuild.environments import environment_witness
from gymbuild.preparation.inputs import declared_files, source_files
from gymbuild.system.errors import GymbuildError
from gymbuild.tasks.known import (
    CONFIGS,
    FORMAT,
    Known,
    circumstances,
    config_names,
    drop,
    index_log,
    own_tasks,
    pack,
    parts_log,
)

if TYPE_CHECKING:
    from gymbuild.cache.snapshot import Entry
    from gymbuild.cache.witness import Signature, Witness
    from gymbuild.tasks.session import Decided, Session

    Absent = tuple[tuple[str, Signature | None, tuple[str, ...]], ...]
    """Folders with their signatures, and the paths in each that are not there; with None for a folder's signature,
    nothing stands for the paths."""
    Seen = tuple[Witness, tuple[str, ...], Absent, str, tuple[str, ...]]
    """A task's witness, the tasks whose outputs it reads, what must not be there, the digest of what its config asks
    for, and why it cannot be built."""

_FEW = 100
"""Tasks that are kept one by one; more are kept in one record."""
_MOST_FOLDERS = 2000
"""Globs over more folders than this get no witness: their tasks are always decided by content."""


def remember(session: Session, words: Sequence[str]) -> None:
    """Keep witnesses of what a run has found or made current. Writes nothing when all that is known already.

    Args:
        session: of the run; one with settings is not remembered.
        words: what it was asked for.
    """
    if session.words or session.always:
        return
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
    if any(key == "graph" for key, _ in records) or len(own_tasks(index)) > _FEW:
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
    return digest_bytes(part)


def _graph_record(session: Session) -> tuple[Witness, dict[str, Any], dict[str, Any]]:
    """What proves that the graph is the same; and what is kept of it, in two records."""
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
