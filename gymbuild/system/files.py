"""Files: written whole or not at all, copied, moved. The one place that does so."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sys
from collections.abc import Iterator

TEMPORARY = ".gymbuild"
"""How the names of files end that are being written, and then take another's place."""
_CHUNK = 1 << 20
_FICLONE = 0x40049409
"""Linux's ioctl that makes one file share another's blocks until either is written (ioctl_ficlone(2))."""


def copy_content(source: str, target: str) -> None:
    """Copy a file's bytes; where the file system can, the copy shares them until one is written.

    Raises:
        OSError: one cannot be read or the other not written.
    """
    try:
        with open(source, "rb", buffering=0) as read, open(target, "wb") as write:
            if not _share_blocks(read.fileno(), write.fileno()):
                # buffered, so that a full disk is an error, not a short write
                shutil.copyfileobj(read, write, _CHUNK)
    except OSError as error:
        if error.filename is None:
            error.filename = target
        raise


def _share_blocks(source: int, target: int) -> bool:
    """Have one open file share the blocks of another; False where the file system cannot."""
    if sys.platform != "linux":
        return False
    import fcntl

    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError:
        return False
    return True


@contextlib.contextmanager
def temporary_beside(path: str) -> Iterator[str]:
    """A new file in the folder of `path`, for writing what then replaces it; removed if it is left over.

    Outputs lie among a person's files, so the name says whose it is.
    """
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, _start(name) + os.urandom(6).hex() + TEMPORARY)
    try:
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
    except OSError as error:
        error.filename = folder  # nobody knows the file that was to be made there
        raise
    try:
        yield temporary
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)


def _start(name: str) -> str:
    """How the names of temporary files begin that are to replace a file of this name; file systems count bytes."""
    return f".{name.encode(errors='ignore')[:100].decode(errors='ignore')}."


def remove_temporaries(path: str) -> None:
    """Remove what killed processes have left beside `path`; for who holds the lock of that file only."""
    folder, name = os.path.split(path)
    with contextlib.suppress(OSError):
        for entry in os.listdir(folder):
            if entry.startswith(_start(name)) and entry.endswith(TEMPORARY):
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(folder, entry))


def write_atomically(path: str, data: bytes) -> None:
    """Write a whole file: another reader sees the old one or the new one.

    Raises:
        OSError: it cannot be written; the old one stays.
    """
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with temporary_beside(path) as temporary:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)


def fsync_file(path: str) -> None:
    """Have the file's bytes on the disk before its name is trusted."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove(path: str) -> None:
    """Remove a file, a symlink or a folder; nothing there is fine."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def move(source: str, target: str) -> None:
    """Move a file, a symlink or a folder: whatever dies, the one or the other is there, and whole.

    Raises:
        OSError: it cannot be moved; the source is as it was, and there is no target.
    """
    try:
        os.rename(source, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        _move_to_another_file_system(source, target)


def _move_to_another_file_system(source: str, target: str) -> None:
    temporary = target + TEMPORARY
    try:
        remove(temporary)
        if os.path.isdir(source) and not os.path.islink(source):
            shutil.copytree(source, temporary, symlinks=True)
        else:
            shutil.copy2(source, temporary, follow_symlinks=False)
            if not os.path.islink(temporary):
                fsync_file(temporary)
        os.rename(temporary, target)
    finally:
        remove(temporary)
    try:
        remove(source)
    except OSError:
        if not os.path.isdir(source):  # of a folder a part may be gone
            remove(target)
        raise
