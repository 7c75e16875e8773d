"""Texts of others (task ids, fields, names of files) made fit for a terminal and a line."""

from __future__ import annotations

import re

LONGEST_ID = 80
"""Characters of a task id that a person is shown."""
_UNSAFE = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
"""What a terminal would act on: control characters but tab and line feed, and those that turn the direction."""


def safe(text: str) -> str:
    """`text`, its lines as they are, with what a terminal would act on as `\\u…`."""
    return re.sub(_UNSAFE, lambda match: f"\\u{ord(match[0]):04x}", text)


def visible(text: str) -> str:
    """`text` on one line, with characters that a terminal would act on, or not show, as `\\u…`."""
    if text.isprintable():
        return text
    return "".join(
        char
        if char.isprintable()
        else f"\\u{ord(char):04x}"
        if ord(char) < 0x10000
        else f"\\U{ord(char):08x}"
        for char in text
    )


def clipped(text: str, longest: int = LONGEST_ID) -> str:
    """`text`, or its beginning and how long it is."""
    return text if len(text) <= longest else f"{text[:longest]}… ({len(text):,} characters)"


def id_text(task_id: str) -> str:
    """A task id among others on a line: as it is, or in quotes where its bounds would not be seen."""
    import json

    plain = task_id.strip() == task_id and not re.search('[",→]', task_id)
    shown = clipped(task_id)
    return visible(shown) if plain and task_id else visible(json.dumps(shown, ensure_ascii=False))


def quoted(text: str) -> str:
    """A task id or a name within a sentence: in Python's quotes, cut where it is long."""
    return repr(clipped(text))


def problem_text(problems: dict[str, list[str]]) -> str:
    """Every problem, by task; one that several tasks have is told once."""
    by_text: dict[str, list[str]] = {}
    for task, texts in problems.items():
        for text in texts:
            by_text.setdefault(text, []).append(task)
    return safe("\n".join(f"  {', '.join(tasks)}: {text}" for text, tasks in by_text.items()))


def skipped_text(skipped: dict[str, list[str]]) -> str:
    """What a group swept up and cannot be built."""
    return "skipped, since they cannot be built:\n" + problem_text(skipped)


def size_text(size: int) -> str:
    """A number of bytes for people."""
    value = float(size)
    for unit in ("bytes", "kB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            return f"{int(value)} {unit}" if unit == "bytes" else f"{value:.1f} {unit}"
        value /= 1000
    raise AssertionError
