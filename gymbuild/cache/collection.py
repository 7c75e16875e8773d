"""Trimming and checking the store: least recently used first, and never what the present graph needs."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Set
from dataclasses import dataclass

from gymbuild.cache.digests import digest_file
from gymbuild.cache.store import Store

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


def collect(
    store: Store,
    needed: Set[str],
    needed_actions: Set[str],
    max_size: int | None,
    keep_days: float | None,
    *,
    dry_run: bool,
) -> Collected:
    """Trim the store.

    Args:
        store: the store.
        needed: digests of objects that stay whatever the limits.
        needed_actions: keys of actions that stay.
        max_size: bytes that may stay; None for no limit.
        keep_days: objects used in so many days stay, unless `max_size` asks for their room; None keeps all.
        dry_run: only count.

    Returns:
        what was, or would be, removed.
    """
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


def verify(store: Store) -> tuple[int, list[str]]:
    """Read every object and drop those whose bytes are not what their name says.

    Returns:
        how many were read, and the digests of the damaged ones.
    """
    checked, damaged = 0, []
    for digest, path, _ in list(store.all_objects()):
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
