"""One YAML file → plain data, read as OmegaConf reads it, with bounds on what a hostile file can cost."""

from __future__ import annotations

import math
import os
import re
import stat
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from gymbuild.cache.witness import Signature
from gymbuild.system.clock import now_ns
from gymbuild.system.errors import ConfigDeniedError, ConfigError
from gymbuild.system.permissions import sentence

MAX_BYTES = 1 << 20
"""Bytes that a config file may have. Configs are written by hand; parsing more than this takes seconds."""
MAX_VALUES = 20_000
"""Values that a file may come to, its aliases and merge keys expanded."""
MAX_NUMBER = 1_000
"""Characters of a number: Python's arithmetic on longer ones takes seconds, and it refuses to print them."""
MAX_DEPTH = 100
"""Levels that mappings and lists may be nested."""
_ENTRY_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
}


@dataclass(frozen=True, slots=True)
class FileText:
    """A config file's bytes, and the signature under which they were read."""

    data: bytes
    signature: Signature
    read_at: int
    """When the reading began, in nanoseconds since the epoch."""


def read_bytes(path: str, shown: str) -> FileText:
    """The content of a regular file of bounded size.

    Args:
        path: the file.
        shown: how it is named in errors.

    Raises:
        FileNotFoundError: nothing is there.
        ConfigError: a directory, a device, an unreadable file or one that is too large.
    """
    at = now_ns()
    try:
        # O_NONBLOCK: opening a pipe that nobody writes to must not hang
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(path) from error
    except PermissionError as error:
        raise ConfigDeniedError(
            f"it cannot be read: {sentence(error, path, writing=False)}.", file=shown
        ) from None
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"it cannot be read: {getattr(error, 'strerror', None) or error}.", file=shown
        ) from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            kind = _ENTRY_KINDS.get(stat.S_IFMT(status.st_mode), "no regular file")
            raise ConfigError(f"it is {kind}; a config is a regular YAML file.", file=shown)
        if status.st_size > MAX_BYTES:
            raise ConfigError(
                f"it has {status.st_size:,} bytes; a config may have at most {MAX_BYTES:,}.", file=shown
            )
        chunks = []
        left = MAX_BYTES + 1
        while left and (chunk := os.read(descriptor, left)):
            chunks.append(chunk)
            left -= len(chunk)
        if not left:
            raise ConfigError(f"a config may have at most {MAX_BYTES:,} bytes.", file=shown)
    except OSError as error:
        raise ConfigError(f"it cannot be read: {error.strerror or error}.", file=shown) from None
    finally:
        os.close(descriptor)
    found = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return FileText(b"".join(chunks), found, at)


def parse(data: bytes, shown: str, *, count_only: bool = False) -> Any:
    """The document as dicts, lists, strings, numbers, booleans, bytes and None.

    Scalars are typed by OmegaConf's rules (YAML 1.1 without timestamps, floats such as `1e3`). No tag is
    ever executed.

    Args:
        data: the file's content.
        shown: how the file is named in errors.
        count_only: accept duplicate keys and every value that plain YAML has, to look at the shape only.

    Raises:
        ConfigError: what cannot be read, with the line where the parser knows it.
    """
    import yaml

    text = data[3:] if data.startswith(b"\xef\xbb\xbf") else data
    try:
        decoded = text.decode("utf-8", "ignore" if count_only else "strict")
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"byte 0x{text[error.start]:02x} is not UTF-8; save the file as UTF-8.", file=shown, line=line
        ) from None
    loader = _loader(count_only)
    try:
        _check_shape(text, decoded, shown)
        document = yaml.load(decoded, Loader=loader)
    except yaml.YAMLError as error:
        raise _yaml_error(error, decoded, shown) from None
    except RecursionError:
        raise ConfigError(f"it is nested deeper than {MAX_DEPTH} levels.", file=shown) from None
    except (ValueError, TypeError, OverflowError, AttributeError, KeyError) as error:
        raise ConfigError(
            f"a value cannot be read: {str(error) or type(error).__name__}.", file=shown
        ) from None
    if b"&" in text:
        _check_expansion(document, shown)
    return document


def check_values(value: Any, shown: str, key: str = "") -> None:
    """Refuse what a config cannot hold: sets, dates, keys that are null or a list.

    Raises:
        ConfigError: with the key.
    """
    kind = type(value)
    if kind is dict:
        for name, item in value.items():
            if type(name) not in _KEY_TYPES:
                raise ConfigError(
                    f"a key is {_kind_of(name)}; keys are text, numbers or booleans.",
                    file=shown,
                    key=key or None,
                )
            if type(item) not in _SCALARS:
                check_values(item, shown, f"{key}.{name}" if key else str(name))
    elif kind is list:
        for position, item in enumerate(value):
            if type(item) not in _SCALARS:
                check_values(item, shown, f"{key}[{position}]")
    elif kind not in _SCALARS:
        raise ConfigError(
            f"found {_kind_of(value)}; a config holds mappings, lists, text, numbers, booleans and null.",
            file=shown,
            key=key or None,
        )


def count_values(value: Any, most: int) -> int:
    """How many values there are in plain data, shared parts counted each time; soon after `most` it ends."""
    count = 1
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            count += count_values(item, most - count) if isinstance(item, dict | list) else 1
            if count > most:
                break
    return count


_KEY_TYPES = frozenset({str, int, float, bool, bytes})
_SCALARS = frozenset({str, int, float, bool, bytes, type(None)})


def _kind_of(value: Any) -> str:
    return {type(None): "null", dict: "a mapping", list: "a list", tuple: "a list"}.get(
        type(value), f"a {type(value).__name__}"
    )


def kind_of(value: Any) -> str:
    """What a value is, in a reader's words, shortened: `the text 'abc'`, `a list`, `null`, `3`."""
    if isinstance(value, str):
        shown = value if len(value) <= 60 else value[:57] + "..."
        return f"the text {shown!r}"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        shown = repr(value)
        return shown if len(shown) <= 60 else shown[:57] + "..."
    return _kind_of(value)


_DIGITS = "[0-9]+(?:_[0-9]+)*"
_EXPONENT = "[eE][-+]?[0-9]+"
_FLOAT = "|".join(
    (
        rf"[-+]?{_DIGITS}(?:\.[0-9_]*(?:{_EXPONENT})?|{_EXPONENT}|(?::[0-5]?[0-9])+\.[0-9_]*)",
        rf"\.{_DIGITS}(?:[eE][-+][0-9]+)?",
        r"[-+]?\.(?:inf|Inf|INF)",
        r"\.(?:nan|NaN|NAN)",
    )
)
FLOAT_PATTERN = rf"^(?:{_FLOAT})$"
"""What OmegaConf takes for a float."""


@cache
def _loader(count_only: bool) -> Any:
    """The YAML loader class: libyaml's where PyYAML has it, else pure Python."""
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    merge_tag = "tag:yaml.org,2002:merge"
    int_tag, float_tag = "tag:yaml.org,2002:int", "tag:yaml.org,2002:float"

    class Loader(base):  # type: ignore[misc]
        def __init__(self, stream: Any) -> None:
            super().__init__(stream)
            self.merged = 0
            self.merged_sizes: dict[int, int] = {}

        def construct_yaml_int(self, node: Any) -> Any:
            return self.number(node, super().construct_yaml_int)

        def construct_yaml_float(self, node: Any) -> Any:
            return self.number(node, super().construct_yaml_float)

        def number(self, node: Any, construct: Callable[[Any], Any]) -> Any:
            if isinstance(node.value, str) and len(node.value) > MAX_NUMBER:
                raise yaml.constructor.ConstructorError(
                    None, None, f"a number has more than {MAX_NUMBER:,} characters", node.start_mark
                )
            return construct(node)

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            if not count_only:
                seen: dict[Any, Any] = {}
                for key_node, _ in node.value:
                    if key_node.tag == merge_tag:
                        continue
                    name = (key_node.tag, key_node.value) if isinstance(key_node.value, str) else None
                    if name is not None and name in seen:
                        raise yaml.constructor.ConstructorError(
                            None,
                            None,
                            f"the key {key_node.value!r} is given twice, on lines {seen[name] + 1} and "
                            f"{key_node.start_mark.line + 1}; keep one",
                            key_node.start_mark,
                        )
                    if name is not None:
                        seen[name] = key_node.start_mark.line
                        if key_node.tag == int_tag and len(key_node.value) > _LONGEST_NUMBER_AS_KEY:
                            # whole numbers of equal hash would be looked for one after the other
                            raise yaml.constructor.ConstructorError(
                                None,
                                None,
                                f"the key {key_node.value[:40]} is a number of more than {_LONGEST_NUMBER_AS_KEY} "
                                "digits; put it in quotes",
                                key_node.start_mark,
                            )
            return super().construct_mapping(node, deep=deep)

        def flatten_mapping(self, node: Any) -> None:
            # the merge key `<<` expands at once: bound it before it multiplies
            for key_node, value_node in node.value:
                if key_node.tag == merge_tag:
                    self.merged += self.merged_size(value_node)
                    if self.merged > MAX_VALUES:
                        raise yaml.constructor.ConstructorError(
                            None,
                            None,
                            f"its merge keys expand to more than {MAX_VALUES:,} values",
                            key_node.start_mark,
                        )
            super().flatten_mapping(node)

        def merged_size(self, node: Any) -> int:
            """How many entries a merge key brings, its own merge keys expanded; a cycle counts as too many.

            One that brings none counts as well: it is work all the same.
            """
            known = self.merged_sizes.get(id(node))
            if known is not None:
                return known
            self.merged_sizes[id(node)] = MAX_VALUES + 1
            total = 1
            if isinstance(node, yaml.SequenceNode):
                total += sum(map(self.merged_size, node.value))
            elif isinstance(node, yaml.MappingNode):
                for key_node, value_node in node.value:
                    total += self.merged_size(value_node) if key_node.tag == merge_tag else 1
            self.merged_sizes[id(node)] = total
            return total

    Loader.add_constructor(int_tag, Loader.construct_yaml_int)
    Loader.add_constructor(float_tag, Loader.construct_yaml_float)
    if not count_only:
        Loader.add_implicit_resolver(
            "tag:yaml.org,2002:float",
            # OmegaConf reads `1e3` and `1e-3` as numbers, which YAML 1.1 leaves text
            re.compile(FLOAT_PATTERN),
            list("-+0123456789."),
        )
        Loader.yaml_implicit_resolvers = {
            first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
            for first, resolvers in Loader.yaml_implicit_resolvers.items()
        }
    return Loader


_LONGEST_NUMBER_AS_KEY = 18
"""Digits of a whole number that is a key: below what Python's hashes of numbers wrap around at."""


def _check_shape(text: bytes, decoded: str, shown: str) -> None:
    """Refuse deep nesting and too many values before the parser builds them.

    A quick look decides whether to count at all: each value but the first comes after one of a few signs.
    """
    marks = text.count(b",") + text.count(b"\n") + text.count(b"\r") + text.count(b":") + text.count(b"- ")
    suspicious = (
        marks + text.count(b"? ") + text.count(b"[") + text.count(b"{") > MAX_VALUES
        or text.count(b"[") + text.count(b"{") >= MAX_DEPTH
        or text.count(b"- - ") + text.count(b"? ") >= MAX_DEPTH
        or b"\n" + b" " * MAX_DEPTH in text
        or text.startswith(b" " * MAX_DEPTH)
    )
    if not suspicious:
        return
    import yaml

    depth = values = 0
    for event in yaml.parse(decoded, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        if isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
            continue
        if not isinstance(event, yaml.NodeEvent):
            continue
        line = getattr(event.start_mark, "line", 0) + 1
        values += 1
        if values > MAX_VALUES:
            raise ConfigError(
                f"it holds more values than a config may have ({MAX_VALUES:,}).", file=shown, line=line
            )
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise ConfigError(f"it is nested deeper than {MAX_DEPTH} levels.", file=shown, line=line)


def _check_expansion(document: Any, shown: str) -> None:
    """Refuse aliases that refer to themselves or expand to more than a config may hold."""
    sizes: dict[int, float] = {}

    def size(value: Any) -> float:
        if not isinstance(value, dict | list | tuple):
            return 1
        known = sizes.get(id(value))
        if known is not None:
            if known == 0:
                raise ConfigError("an alias (`*name`) refers to what it is part of.", file=shown)
            return known
        sizes[id(value)] = 0
        items = value.values() if isinstance(value, dict) else value
        total = 1 + sum(size(item) for item in items)
        sizes[id(value)] = total
        return total

    try:
        total = size(document)
    except RecursionError:
        total = math.inf
    if total > MAX_VALUES:
        raise ConfigError(
            f"its aliases (`*name`) expand to more than {MAX_VALUES:,} values.", file=shown
        ) from None


def _yaml_error(error: Exception, decoded: str, shown: str) -> ConfigError:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    line = mark.line + 1 if mark is not None else None
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    if hasattr(error, "position") and hasattr(error, "character"):
        line = decoded.count("\n", 0, error.position) + 1
        problem = "a control character is not allowed in YAML"
    if "cannot start any token" in str(problem) and mark is not None:
        lines = decoded.splitlines()
        text = lines[mark.line] if mark.line < len(lines) else ""
        if "\t" in text[: mark.column + 1]:
            problem = "a tab is not allowed as indentation; use spaces"
    lines = decoded.splitlines()
    # the end of a file is a line further than its last one
    if (
        "node content" in str(problem)
        and line is not None
        and line <= len(lines)
        and "???" in lines[line - 1]
    ):
        problem = "??? needs quotes inside braces and brackets: write '???'"
    if "another document" in str(problem):
        problem = "it holds several documents; a config is one"
    if "nesting depth" in str(problem):
        problem = f"it is nested deeper than {MAX_DEPTH} levels"
    if "could not determine a constructor for the tag" in str(problem):
        tag = re.search(r"'([^']*)'", str(problem))
        problem = f"the tag {tag.group(1) if tag else ''!r} is not allowed: tags are never executed"
    problem = str(problem)
    return ConfigError(problem.rstrip(".") + ".", file=shown, line=line)
