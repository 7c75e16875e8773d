"""Whether a Python version fits a request: a requires-python, or a version word such as `3.12`."""

from __future__ import annotations

import re

_CLAUSE = re.compile(r"(~=|==|!=|<=|>=|<|>)\s*(\d+(?:\.\d+)*)(\.\*)?\Z")
_WORD = re.compile(r"(?:c?python)?@?(\d+(?:\.\d+){0,2})\Z", re.IGNORECASE)
_RELEASE = re.compile(r"\d+\.\d+\.\d+\Z")


def fits(version: str, request: str) -> bool | None:
    """Whether `version` fits `request`.

    Args:
        version: a full release, such as `3.11.7`.
        request: version specifiers as in requires-python (PEP 440), or a version word (`3.12`, `cpython3.12`).

    Returns:
        None when that cannot be told here (pre-releases, other implementations, `===`).
    """
    if not _RELEASE.match(version):
        return None
    found = _numbers(version)
    word = _WORD.match(request.strip())
    if word:
        wanted = _numbers(word.group(1))
        return found[: len(wanted)] == wanted
    clauses = [clause.strip() for clause in request.split(",") if clause.strip()]
    matches = [_CLAUSE.match(clause) for clause in clauses]
    if not clauses or not all(matches):
        return None
    return all(
        _clause_fits(found, match.group(1), _numbers(match.group(2)), bool(match.group(3)))
        for match in matches
        if match
    )


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def _clause_fits(found: tuple[int, ...], operator: str, wanted: tuple[int, ...], wildcard: bool) -> bool:
    length = max(len(found), len(wanted))
    left = found + (0,) * (length - len(found))
    right = wanted + (0,) * (length - len(wanted))
    if wildcard:
        same = left[: len(wanted)] == wanted
        return same if operator == "==" else not same
    if operator == "~=":
        return left >= right and left[: len(wanted) - 1] == wanted[:-1]
    return {
        "==": left == right,
        "!=": left != right,
        "<=": left <= right,
        ">=": left >= right,
        "<": left < right,
        ">": left > right,
    }[operator]
