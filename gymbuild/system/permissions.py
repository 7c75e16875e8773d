"""What keeps this user from a file or a folder, in words that say what to change."""

from __future__ import annotations

import errno
import os
import stat

DENIED = frozenset((errno.EACCES, errno.EPERM))
"""Errors of the operating system that say that this user may not."""


def sentence(error: OSError, path: str | None = None, *, writing: bool = True) -> str:
    """An error of the operating system with its remedy, where there is one that the file system tells.

    Args:
        error: as it was raised.
        path: what it is about, absolute; default the file that it names.
        writing: whether a file was to be made, changed or removed; else it was to be read.

    Returns:
        such as `Permission denied; /data belongs to anna and has mode 0755: give bert the right to write there
        (chmod, chown)`.
    """
    text = error.strerror or str(error)
    names = [path] if path else [error.filename, error.filename2]
    paths = [os.path.abspath(os.fsdecode(name)) for name in names if isinstance(name, str | bytes)]
    paths += [os.path.realpath(path) for path in paths]
    if error.errno == errno.EROFS:
        return f"{text}; mount it for writing, or work in a copy"
    if error.errno not in DENIED:
        return text
    found = next((found for path in paths if (found := _blocking(path, writing)) is not None), None)
    if found is None:
        return text
    place, lacking = found
    status = os.stat(place)
    owner, mode = _user(status.st_uid), stat.S_IMODE(status.st_mode)
    return (
        f"{text}; {place} belongs to {owner} and has mode {mode:04o}: give {_user(os.geteuid())} the right to "
        f"{lacking} (chmod, chown)"
    )


def _blocking(path: str, writing: bool) -> tuple[str, str] | None:
    """The first folder or file on the way to `path` that this user lacks a right for, and which right."""
    parts = path.strip("/").split("/")
    folder = "/"
    for part in parts:
        if not os.access(folder, os.X_OK):
            return folder, "enter it"
        step = os.path.join(folder, part)
        if not os.path.isdir(step):
            break
        folder = step
    if os.path.isdir(path):
        if not os.access(path, os.R_OK | os.X_OK):
            return path, "list and enter it"
    elif os.path.exists(path):
        if not os.access(path, os.R_OK):
            return path, "read it"
        if writing and not os.access(path, os.W_OK) and os.access(folder, os.W_OK):
            return path, "write it"
    if writing and not os.access(folder, os.W_OK | os.X_OK):
        return folder, "write there"
    if writing and os.path.isdir(path):
        above = os.path.dirname(path)
        if not os.access(above, os.W_OK | os.X_OK):
            return above, "write there"
    return None


def _user(number: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"
