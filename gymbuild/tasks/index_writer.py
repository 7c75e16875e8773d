"""What a run leaves for the next start: what proves by `stat` that its tasks are current. See `cache/index.py`."""

from __future__ import annotations

import contextlib
import marshal
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gymbuild.cache.index import CONFIGS, Index, config_names, index_bytes, index_path, maker, read_index
from gymbuild.cache.witness import (
    Signature,
    Variables,
    Witness,
    pack,
    signature,
    variable_digest,
    wait_until_not_racy,
)
from gymbuild.config.graph import graph_record
from gymbuild.config.session import Session
from gymbuild.config.step import Observed, group_of
from gymbuild.system.errors import GymbuildError
from gymbuild.system.files import temporary_beside
from gymbuild.system.locks import lock
from gymbuild.tasks.decision import Decided, decide
from gymbuild.tasks.doit_state import some_are_ignored

if TYPE_CHECKING:
    from gymbuild.cache.index import Entry


@dataclass(frozen=True)
class _Proof:
    """A task as it was found: compared, so equal when nothing has changed."""

    token: str
    signatures: tuple[tuple[str, Signature | None], ...]
    folders: tuple[tuple[str, Signature | None, tuple[str, ...]], ...]
    """Folders that stand for paths that are not there."""
    variables: Variables
    sources: tuple[str, ...]
    problems: tuple[str, ...]

    def entry(self) -> bytes:
        """What the index has of it."""
        entry: Entry = (
            self.token,
            *pack(self.signatures),
            *pack((folder, at) for folder, at, _ in self.folders),
            tuple("\0".join(names) for _, _, names in self.folders),
            self.variables,
            self.sources,
            self.problems,
        )
        return marshal.dumps(entry, 2)

    def all_signatures(self) -> Iterable[Signature | None]:
        """Every signature in it."""
        yield from (found for _, found in self.signatures)
        yield from (found for _, found, _ in self.folders)


def write_index(
    session: Session,
    decided: Decided,
    index: Index | None,
    default: Sequence[str] | None,
    modules: Iterable[str],
) -> None:
    """Write down what a run has found or made current. Writes nothing when all that is written already.

    Args:
        session: of the run; one with settings leaves nothing.
        decided: what was to be done.
        index: what was compared before the run, if the graph was proved to be as it was.
        default: the tasks of a start without words; None where doit is to tell.
        modules: files of the checkout that its dodo.py was made from, itself included.
    """
    if session.words or session.always:
        return
    try:
        if some_are_ignored(session.database):
            drop_index(session.checkout.root)
        else:
            _write(session, decided, index, default, modules)
    except (GymbuildError, OSError, ValueError) as error:
        # only time is lost: the next start decides by content
        print(f"warning: .cache/index: {error}; the next start will be slower", file=sys.stderr)


def drop_index(root: str) -> None:
    """Have the next start decide by content."""
    with contextlib.suppress(OSError):
        os.unlink(index_path(root))


def _write(
    session: Session,
    before: Decided,
    index: Index | None,
    default: Sequence[str] | None,
    modules: Iterable[str],
) -> None:
    # what was proved by `stat` alone is so still; everything else is looked at
    looked_at = [*before.stale, *(task for task, state in before.current.items() if state is not None)]
    looked_at += [task for task in before.broken if task not in before.selection.problems]
    if index is not None:
        if not index.has_folders_of(_targets(session, before)):
            # a folder is new, such as the first `data`: the graph is looked at anew
            index = None
        elif not looked_at:
            return
    # Signatures, a wait until no change could hide behind them, contents, signatures: only what all agree on is kept.
    once = _again(session, index)
    first = _proofs(once, decide(once, looked_at, index=index))
    graph_before = _graph_witness(once, modules) if index is None else ((), ())
    signatures = [found for proof in first.values() for found in proof.all_signatures()]
    wait_until_not_racy([*signatures, *(found for _, found in graph_before[0])])
    again = _again(session, index)
    found = _proofs(again, decide(again, looked_at, index=index))
    entries = {task: proof for task, proof in found.items() if first.get(task) == proof}
    again.digests.save(wait=True)
    graph = None
    if index is None:
        graph = _graph(again, default, modules)
        if graph is None or (graph["witness"]) != graph_before:
            return
    _put(session, index, graph, entries)


def _again(session: Session, index: Index | None) -> Session:
    """A session that sees the files as they are now; its graph too, unless that is proved to be the one of before."""
    again = session.renewed()
    if index is not None:
        again.graph = session.graph
    return again


def _targets(session: Session, decided: Decided) -> list[str]:
    targets: list[str] = []
    for task in decided.stale:
        step, name = session.step_of(task)
        targets += step.targets(name)
    return targets


def _put(
    session: Session, index: Index | None, graph: dict[str, Any] | None, entries: dict[str, _Proof]
) -> None:
    """Write the index: what other builders have put there since stays, where it is of this graph."""
    root = session.checkout.root
    with lock(session.checkout, "index"):
        is_read = index is not None and index.at == signature(index_path(root))
        old = index.content if index is not None and is_read else read_index(root)
        content: dict[str, Any] = graph or old or {}
        if not content:
            return
        tokens = content["tokens"]
        tasks: dict[str, bytes] = {}
        if old is not None:
            same = old["tokens"]
            tasks = (
                dict(old["tasks"])
                if same is tokens
                else {
                    task: entry for task, entry in old["tasks"].items() if same.get(task) == tokens.get(task)
                }
            )
        new = {task: proof.entry() for task, proof in entries.items() if proof.token == tokens.get(task)}
        if graph is None and all(tasks.get(task) == entry for task, entry in new.items()):
            return
        content = {key: value for key, value in content.items() if key != "witness"}
        content["tasks"] = {**tasks, **new}
        path = index_path(root)
        with temporary_beside(path) as temporary:
            with open(temporary, "wb") as file:
                file.write(index_bytes(content))
            os.replace(temporary, path)


# -- the graph ---------------------------------------------------------------------------------------------------


def _graph_witness(session: Session, modules: Iterable[str]) -> Witness:
    """What proves that the graph is the same."""
    from gymbuild.config.catalog import load_catalog

    paths, variables = load_catalog(session.checkout).witness
    others = sorted({*session.graph.scripts, "dodo.py", "pyproject.toml", "doit.cfg", *modules})
    return (*paths, *_signatures(session, others)), variables


def _graph(session: Session, default: Sequence[str] | None, modules: Iterable[str]) -> dict[str, Any] | None:
    """What the index has beside its tasks; None when the graph is not one to write down."""
    from gymbuild.config.catalog_records import CatalogRecords

    record = graph_record(session.graph, CatalogRecords(session.checkout).benchmark_kind)
    if record is None:
        return None
    witness = _graph_witness(session, modules)
    tokens, groups, nicknames, problems = {}, {}, {}, {}
    for step in session.steps.values():
        if not step.listed:
            continue
        names = list(step.names())
        groups[step.group] = [f"{step.group}:{name}" for name in names]
        tokens.update({f"{step.group}:{name}": step.token(name) for name in names})
        nicknames.update(
            {f"{step.group}:{nick}": f"{step.group}:{name}" for nick, name in step.nicknames().items()}
        )
        problems[step.group] = {name: str(error) for name, error in step.problems().items()}
    paths, signatures = pack(witness[0])
    folders = _folders(session, witness)
    return {
        "maker": maker(),
        "witness": witness,
        "default": None if default is None else tuple(default),
        "paths": paths,
        "signatures": signatures,
        "variables": witness[1],
        "folders": folders,
        "groups": groups,
        "nicknames": nicknames,
        "problems": problems,
        "tokens": tokens,
        "graph": marshal.dumps(record, 2),
    }


def _folders(session: Session, witness: Witness) -> dict[str, tuple[str, ...]]:
    """The folders that configs were looked for in, with the names in them that matter."""
    found = {}
    for path, at in witness[0]:
        if at is not None and (path == CONFIGS or path.startswith(CONFIGS + "/")):
            names = config_names(session.checkout.absolute(path))
            if names is not None:
                found[path] = names
    return found


# -- tasks -------------------------------------------------------------------------------------------------------


def _proofs(session: Session, decided: Decided) -> dict[str, _Proof]:
    """Every task that was found current by content, or that cannot be built, as its own files tell."""
    found: dict[str, _Proof] = {}
    for task, state in decided.current.items():
        step, name = session.step_of(task)
        observed = step.observed(name, state) if state is not None else None
        proof = _task(session, task, observed, ()) if observed is not None else None
        if proof is not None:
            found[task] = proof
    for task, problems in decided.obstacles.items():
        step, name = session.step_of(task)
        observed = step.observed_obstacle(name)
        proof = _task(session, task, observed, tuple(problems)) if observed is not None else None
        if proof is not None:
            found[task] = proof
    for task in decided.broken:
        # what another step makes cannot be built: this one has nothing of its own that matters
        step, name = session.step_of(task)
        sources = step.sources(name)
        if sources and task not in found and all(group_of(source) != step.group for source in sources):
            found[task] = _Proof(step.token(name), (), (), (), tuple(sources), ())
    return found


def _task(session: Session, task: str, observed: Observed, problems: tuple[str, ...]) -> _Proof | None:
    step, name = session.step_of(task)
    entries = dict(_signatures(session, observed.paths))
    # a path that must not be there: whatever is found now, its absence is what was compared
    if any(entries.get(path) is not None for path in observed.absent):
        return None
    by_folder, alone = _absent(session, [path for path, found in entries.items() if found is None])
    there = [item for item in entries.items() if item[1] is not None]
    return _Proof(
        step.token(name),
        (*there, *((path, None) for path in alone)),
        by_folder,
        tuple((variable, variable_digest(variable)) for variable in observed.variables),
        () if problems else tuple(step.sources(name)),
        problems,
    )


def _signatures(session: Session, paths: Iterable[str]) -> tuple[tuple[str, Signature | None], ...]:
    return tuple((path, signature(session.checkout.absolute(path))) for path in dict.fromkeys(paths))


def _absent(
    session: Session, paths: Iterable[str]
) -> tuple[tuple[tuple[str, Signature | None, tuple[str, ...]], ...], list[str]]:
    """Paths that are not there, by the nearest folder that is: while that is as it was, they need no look.

    Not so behind a symlink that leads nowhere: what it leads to may appear without a trace in the symlink's folder.

    Returns:
        folders with their signatures and paths; and the paths that no folder stands for.
    """
    by_folder: dict[str, list[str]] = {}
    alone: list[str] = []
    for path in paths:
        folder = step = path
        while folder not in ("", "/", "."):
            step, folder = folder, os.path.dirname(folder) or "."
            if os.path.isdir(session.checkout.absolute(folder)):
                break
        if os.path.lexists(session.checkout.absolute(step)):
            alone.append(path)
        else:
            by_folder.setdefault(folder, []).append(path)
    folders = tuple(
        (folder, signature(session.checkout.absolute(folder)), tuple(names))
        for folder, names in by_folder.items()
    )
    return folders, alone
