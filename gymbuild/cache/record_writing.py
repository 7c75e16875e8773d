"""Appending to a log: one write under a lock, a torn tail cut off first; and compaction, and the table of contents."""

from __future__ import annotations

import errno
import fcntl
import marshal
import os
import zlib
from collections.abc import Iterable
from typing import Any

from gymbuild.cache.record_log import CHUNK, HEADER, MAGIC, START, RecordLog, encoded, value_in
from gymbuild.cache.record_table import remove, write_all, write_table

_COMPACT_MINIMUM = 1 << 20
"""Bytes below which a log is never compacted."""
_TABLE_MINIMUM = 64
"""Records behind the table that are read frame by frame before a new one is written; and the 16th part of all."""


def append(log: RecordLog, records: Iterable[tuple[str, Any]]) -> None:
    """What `RecordLog.put` says."""
    frames = b"".join(_frame(key, value) for key, value in records)
    if not frames:
        return
    os.makedirs(os.path.dirname(log.path), exist_ok=True)
    descriptor = _locked(log)
    try:
        status = os.fstat(descriptor)
        start = os.pread(descriptor, START, 0)
        if (
            not log.end
            or log.seen != (status.st_dev, status.st_ino)
            or start != MAGIC + log.identity
            or status.st_size < log.end
        ):
            log.forget()
            log.open()
        elif status.st_size > log.end:
            log.scan(status.st_size)
        if log.end < status.st_size:
            # a torn tail, or not ours: cut it off before anything is appended behind it
            os.ftruncate(descriptor, log.end)
        if not log.end:
            log.identity = os.urandom(16)
            frames = MAGIC + log.identity + frames
        write_all(descriptor, frames)
        log.end = log.end or START
        log.scan(os.fstat(descriptor).st_size)
        if log.end > _COMPACT_MINIMUM and log.end > 3 * log.live:
            _compact(log)
        elif log.end > CHUNK and len(log.tail) > max(
            _TABLE_MINIMUM, log.table.count // 16 if log.table is not None else 0
        ):
            write_table(log.path, log.identity, log.end, log.live, log.places())
            # from now on it is read by that table
            log.forget()
    finally:
        os.close(descriptor)


def _locked(log: RecordLog) -> int:
    """The file, open for appending, locked, and still the one under its name."""
    while True:
        descriptor = os.open(log.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            lock(descriptor)
            status = os.fstat(descriptor)
            try:
                now = os.stat(log.path)
            except FileNotFoundError:
                now = None
            if now is not None and (now.st_dev, now.st_ino) == (status.st_dev, status.st_ino):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _compact(log: RecordLog) -> None:
    """Write the live records into a new file and put it in the place of this one (lock held)."""
    identity = os.urandom(16)
    frames, places, position = [MAGIC, identity], [], START
    for name, place in log.places():
        frame = log.frame_at(place)
        if value_in(frame, name) is not None:
            frames.append(frame)
            places.append((name, (position, len(frame))))
            position += len(frame)
    temporary = f"{log.path}.{os.getpid()}.new"
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        try:
            write_all(descriptor, b"".join(frames))
        finally:
            os.close(descriptor)
        os.replace(temporary, log.path)
    except OSError:
        # what was put is in the old file
        remove(temporary)
        return
    log.forget()
    if len(places) > _TABLE_MINIMUM:
        write_table(log.path, identity, position, position - START, places)


def lock(descriptor: int) -> None:
    """An exclusive lock on an open file; none where the file system has no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP):
            raise


def _frame(key: str, value: Any) -> bytes:
    name, data = encoded(key), b"" if value is None else marshal.dumps(value, 4)
    return HEADER.pack(len(name), len(data), zlib.crc32(name + data)) + name + data
