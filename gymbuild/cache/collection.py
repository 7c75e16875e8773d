"""Trimming and checking the store: least recently used first, and never what the present graph needs."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gymbuild.cache.digests import digest_file

if TYPE_CHECKING:
    from gymbuild.tasks.session import Session

_GRACE = 60.0
"""Seconds for which an object is kept after its last use whatever the limits: a builder may be about to record it."""

_ABANDONED = 3600.0
"""Seconds after which a file that was being written is taken for one that a killed process has left."""


@dataclass(frozen=True, slots=True)
class Collected:
    """What a collection did; sizes in bytes."""

    objects: int
    actions: int
    freed: int
    kept: int
    needed: int


def collect(session: Session, max_size: int | None, keep_days: float | None, *, dry_run: bool) -> Collected:
    """Trim the store.

    Args:
        session: whose checkout.
        max_size: bytes that may stay; None for no limit.
        keep_days: objects used in so many days stay, unless `max_size` asks for their room; None keeps all.
        dry_run: only count.

    Returns:
        what was, or would be, removed.
    """
    store = session.preparer.store
    needed, needed_actions = _needed(session)
    now = time.time()
    objects = sorted(store.all_objects(), key=lambda item: item[2].st_mtime)
    total = sum(status.st_size for _, _, status in objects)
    total += sum(status.st_size for _, status in store.temporaries())
    removed: set[str] = set()
    freed = 0
    for digest, path, status in objects:
        if digest in needed or now - status.st_mtime < _GRACE:
            continue
        too_old = keep_days is not None and now - status.st_mtime > keep_days * 86400
        too_much = max_size is not None and total - freed > max_size
        if too_old or too_much:
            removed.add(digest)
            freed += status.st_size
            if not dry_run:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
    for path, status in list(store.temporaries()):
        if now - status.st_mtime > _ABANDONED:
            freed += status.st_size
            if not dry_run:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
    actions = 0
    for path, action in list(store.all_actions()):
        if action.key not in needed_actions and any(digest in removed for _, digest in action.outputs):
            actions += 1
            if not dry_run:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
    return Collected(
        objects=len(removed),
        actions=actions,
        freed=freed,
        kept=total - freed,
        needed=sum(status.st_size for digest, _, status in objects if digest in needed),
    )


def _needed(session: Session) -> tuple[set[str], set[str]]:
    """Digests of objects, and action keys, that the present graph refers to."""
    objects: set[str] = set()
    actions: set[str] = set()
    for preparation in session.graph.preparations.values():
        record = session.preparer.record(preparation)
        if record is not None:
            actions.add(record.key)
            objects.update(digest for _, digest in record.outputs)
    state = session.preparer.state
    for benchmark in session.graph.benchmarks.values():
        plan = state.get("plan:" + session.checkout.relative(session.planner.path(benchmark)))
        if plan is not None:
            objects.add(plan["digest"])
    for name in session.preparer.journal.unfinished():
        objects.update(session.preparer.journal.beside(name))
    return objects, actions


def verify(session: Session) -> tuple[int, list[str]]:
    """Read every object and drop those whose bytes are not what their name says.

    Returns:
        how many were read, and the digests of the damaged ones.
    """
    checked, damaged = 0, []
    for digest, path, _ in list(session.preparer.store.all_objects()):
        checked += 1
        try:
            good = digest_file(path) == digest
        except OSError:
            good = False
        if not good:
            damaged.append(digest)
            with contextlib.suppress(OSError):
                os.unlink(path)
    return checked, damaged
