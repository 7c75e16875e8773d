"""Paths and globs of outputs, relative to the checkout: which paths they cover."""

from __future__ import annotations

import re
from collections.abc import Sequence, Set


def is_below(path: str, folders: Set[str]) -> bool:
    """Whether one of the folders is the path itself or above it."""
    return path in folders or any(parent in folders for parent in parents_of(path))


def parents_of(path: str) -> list[str]:
    """`a/b/c` → `a/b`, `a`."""
    parents = []
    while (end := path.rfind("/")) > 0:
        path = path[:end]
        parents.append(path)
    return parents


def literal_part(pattern: str) -> str:
    """The path up to the first part with a wildcard in it, with that part."""
    parts = pattern.split("/")
    for index, part in enumerate(parts):
        if any(char in part for char in "*?["):
            return "/".join(parts[: index + 1])
    return pattern


class PathMatcher:
    """Whether a path relative to the checkout matches one of the patterns, or lies in a folder that does.

    `*`, `?` and `[…]` stay within one part of a path; `**` as a part of its own stands for any number of folders.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self._plain = {pattern for pattern in patterns if not any(char in pattern for char in "*?[")}
        globs = [_glob_expression(pattern) for pattern in patterns if pattern not in self._plain]
        self._globs = re.compile("|".join(f"(?:{glob})" for glob in globs)) if globs else None

    def __call__(self, path: str) -> bool:
        if path in self._plain or any(path.startswith(plain + "/") for plain in self._plain):
            return True
        if self._globs is None:
            return False
        return any(self._globs.fullmatch(step) for step in (path, *parents_of(path)))


def _glob_expression(pattern: str) -> str:
    """A glob as a regular expression, by the rules of `glob.glob(recursive=True, include_hidden=True)`."""
    if pattern.endswith("/**"):
        return _glob_expression(pattern[:-3]) + "(?s:/.+)?"
    parts = pattern.split("/")
    pieces = []
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        if part == "**":
            pieces.append(".+" if last else "(?:[^/]+/)*")
            continue
        position, text = 0, ""
        while position < len(part):
            char = part[position]
            position += 1
            if char == "*":
                text += "[^/]*"
            elif char == "?":
                text += "[^/]"
            elif char == "[" and (end := part.find("]", position + 1)) > 0:
                content = part[position:end]
                negated = content[:1] == "!"
                content = re.escape(content[negated:]).replace(r"\-", "-")
                text += f"[{'^/' if negated else ''}{content}]"
                position = end + 1
            else:
                text += re.escape(char)
        pieces.append(text + ("" if last else "/"))
    return "(?s:" + "".join(pieces) + ")"
