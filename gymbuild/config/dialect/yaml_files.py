"""One YAML file → plain data, read as OmegaConf reads it, within the limits."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from gymbuild.cache.witness import Signature
from gymbuild.config.dialect.limits import MAX_BYTES, MAX_VALUES, Budget, count, nested, weight
from gymbuild.system.clock import now_ns
from gymbuild.system.errors import ConfigDeniedError, ConfigError
from gymbuild.system.permissions import sentence

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
            kind = _ENTRY_KINDS.get(stat.S_IFMT(status.st_mode), "not a regular file")
            raise ConfigError(f"it is {kind}; a config is a regular YAML file.", file=shown)
        if status.st_size > MAX_BYTES:
            raise ConfigError(
                f"it has {status.st_size:,} bytes; a config may have at most {MAX_BYTES:,}.", file=shown
            )
        with os.fdopen(os.dup(descriptor), "rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise ConfigError(f"a config may have at most {MAX_BYTES:,} bytes.", file=shown)
    except OSError as error:
        raise ConfigError(f"it cannot be read: {error.strerror or error}.", file=shown) from None
    finally:
        os.close(descriptor)
    found = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return FileText(data, found, at)


def parse(data: bytes, budget: Budget, *, lenient: bool = False) -> Any:
    """The document as dicts, lists, strings, numbers, booleans, bytes and None.

    Scalars are typed by OmegaConf's rules (YAML 1.1 without timestamps, floats such as `1e3`). No tag is
    ever executed.

    Args:
        data: the file's content.
        budget: is spent; its file is named in errors.
        lenient: accept duplicate keys and every value that plain YAML has, to find out about the shape only.

    Raises:
        ConfigError: what cannot be read, with the line where the parser has it.
    """
    import yaml

    shown = budget.file
    text = data[3:] if data.startswith(b"\xef\xbb\xbf") else data
    try:
        decoded = text.decode("utf-8", "ignore" if lenient else "strict")
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"byte 0x{text[error.start]:02x} is not UTF-8; save the file as UTF-8.", file=shown, line=line
        ) from None
    loader = _loader(lenient)
    with nested(shown):
        try:
            # a small file cannot come to too much without aliases: counting what it holds is cheaper
            small = "&" not in decoded and 10 * len(decoded) < MAX_VALUES
            if not small:
                _spend(decoded, loader, budget)
            document = yaml.load(decoded, Loader=loader)
            if small:
                budget.spend(count(document))
            return document
        except yaml.YAMLError as error:
            raise _yaml_error(error, decoded, shown) from None
        except (ValueError, TypeError, OverflowError, AttributeError, KeyError) as error:
            raise ConfigError(
                f"a value cannot be read: {str(error) or type(error).__name__}.", file=shown
            ) from None


def _spend(decoded: str, loader: Any, budget: Budget) -> None:
    """Count the values of a document, its aliases expanded, before anything of it is built."""
    import yaml

    sizes: dict[str, int | None] = {}
    open_nodes: list[tuple[str | None, int]] = []
    events: Iterable[Any] = yaml.parse(decoded, Loader=loader)
    for event in events:
        line = event.start_mark.line + 1
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_nodes.pop()
            if anchor is not None:
                sizes[anchor] = budget.spent - before
            continue
        if not isinstance(event, yaml.NodeEvent):
            continue
        anchor = event.anchor
        if isinstance(event, yaml.AliasEvent):
            size = sizes.get(anchor or "", 0)
            if size is None:
                raise ConfigError(
                    f"the alias *{anchor} refers to what it is part of.", file=budget.file, line=line
                )
        else:
            scalar = isinstance(event, yaml.ScalarEvent)
            size = weight(event.value) if isinstance(event, yaml.ScalarEvent) else 1
            if not scalar:
                open_nodes.append((anchor, budget.spent))
            if anchor is not None:
                sizes[anchor] = size if scalar else None
        budget.spend(size, line=line)


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
def _loader(lenient: bool) -> Any:
    """The YAML loader class: libyaml's where PyYAML has it, else pure Python."""
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    merge, integer, floating = (f"tag:yaml.org,2002:{name}" for name in ("merge", "int", "float"))

    def fault(node: Any, text: str) -> Exception:
        return yaml.constructor.ConstructorError(None, None, text, node.start_mark)

    class Loader(base):  # type: ignore[misc]
        def construct_yaml_int(self, node: Any) -> Any:
            try:
                number = super().construct_yaml_int(node)
                str(number)  # Python prints no longer ones than it reads
            except ValueError as error:
                raise fault(node, f"a number cannot be read: {str(error).split(';')[0]}") from None
            return number

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            lines: dict[Any, int] = {}
            for key, _ in () if lenient else node.value:
                if key.tag == merge or not isinstance(key.value, str):
                    continue
                name, line = (key.tag, key.value), key.start_mark.line + 1
                if name in lines:
                    text = (
                        f"the key {key.value!r} is given twice, on lines {lines[name]} and {line}; keep one"
                    )
                    raise fault(key, text)
                lines[name] = line
            return super().construct_mapping(node, deep=deep)

    Loader.add_constructor(integer, Loader.construct_yaml_int)
    if not lenient:
        # OmegaConf reads `1e3` and `1e-3` as numbers, which YAML 1.1 leaves text
        Loader.add_implicit_resolver(floating, re.compile(FLOAT_PATTERN), list("-+0123456789."))
        Loader.yaml_implicit_resolvers = {
            first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
            for first, resolvers in Loader.yaml_implicit_resolvers.items()
        }
    return Loader


def _yaml_error(error: Exception, decoded: str, shown: str | None) -> ConfigError:
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
        problem = "it is nested too deeply"
    if "could not determine a constructor for the tag" in str(problem):
        tag = re.search(r"'([^']*)'", str(problem))
        problem = f"the tag {tag.group(1) if tag else ''!r} is not allowed: tags are never executed"
    problem = str(problem)
    return ConfigError(problem.rstrip(".") + ".", file=shown, line=line)
