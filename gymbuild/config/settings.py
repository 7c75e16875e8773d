"""Settings: doit's `name=value` words, typed as OmegaConf types them."""

from __future__ import annotations

import csv
import dataclasses
import difflib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from gymbuild.system.errors import UsageError
from gymbuild.system.text import in_words


@dataclass(frozen=True, slots=True)
class Settings:
    """What the command line set. The defaults are what a plain `doit plan` uses."""

    prepare_script_args: dict[str, Any] = field(default_factory=dict)
    """Arguments for `prepare()` of the tasks that are named on the command line."""
    use_cached_prepared_benchmarks: bool | None = None
    """None: rebuild what is stale. True: adopt an existing prepared file. False: always prepare again."""
    num_prepare_benchmark_processes: int = 0
    """Parallel preparations; 0 leaves it to doit's `-n`."""
    uv_venv_dir: str | None = None
    """Where environments are built; None for `.cache/venvs`."""
    plan_task_ids: tuple[str, ...] | None = None
    """The selected task ids, as text."""
    plan_output_fpath: str | None = None
    """Where the plan is written; None for `.cache/plans/<benchmark>.json`."""
    plan_ids: Literal["content", "explicit"] = "content"
    plan_commit: bool = False
    python: str | None = None
    """The interpreter (a path or a version) for scripts whose environment does not choose one."""
    offline: bool = False
    dry_run: bool = False
    strict: bool = False
    allow_outside: bool = False
    plans_dir: str | None = None
    """Where `gymbuild check` finds the plans that the repository keeps."""
    config_paths: tuple[str, ...] | None = None
    """Build from exactly these configs."""
    search_dirs: tuple[str, ...] = ()
    """More roots to look for configs in, first one first."""


_TEXT = {"uv_venv_dir", "plan_output_fpath", "python", "plans_dir"}
_LISTS = {"plan_task_ids", "config_paths", "search_dirs"}
_BOOLEANS = {"plan_commit", "offline", "dry_run", "strict", "allow_outside"}
NAMES = tuple(item.name for item in dataclasses.fields(Settings))


def parse_settings(words: Sequence[str]) -> Settings:
    """The settings that `name=value` words give; a later word overrides an earlier one.

    Args:
        words: as on the command line. A leading `+` or `++` (Hydra's way to write an override) is ignored.

    Raises:
        UsageError: a setting that does not exist (with the nearest names), or a value of the wrong type.
    """
    values: dict[str, Any] = {}
    arguments: dict[str, Any] = {}
    for word in words:
        name, _, text = word.partition("=")
        name = name.lstrip("+")
        if name == "prepare_script_args" or name.startswith("prepare_script_args."):
            _set_argument(arguments, name, text)
            continue
        if name not in NAMES:
            near = difflib.get_close_matches(name, NAMES, n=3, cutoff=0.5)
            hint = (
                f"did you mean {in_words(near, 'or')}?" if near else f"the settings are {', '.join(NAMES)}."
            )
            raise UsageError(f"{word}: there is no setting {name!r}; {hint}")
        values[name] = _typed(name, text)
    if arguments:
        values["prepare_script_args"] = arguments
    return Settings(**values)


def _typed(name: str, text: str) -> Any:
    if name in _TEXT:
        if not text:
            raise UsageError(f"{name}=: a value is missing.")
        return text
    if name in _LISTS:
        return split_list(name, text)
    if name in _BOOLEANS:
        return _boolean(name, text)
    if name == "use_cached_prepared_benchmarks":
        return _boolean(name, text)
    if name == "num_prepare_benchmark_processes":
        if not text.isdecimal() or int(text) < 1:
            raise UsageError(f"{name}={text}: must be a whole number of processes, 1 or more.")
        return int(text)
    if name == "plan_ids":
        if text not in ("content", "explicit"):
            raise UsageError(f"plan_ids={text}: must be 'content' or 'explicit'.")
        return text
    raise AssertionError(name)


def split_list(name: str, text: str) -> tuple[str, ...]:
    """The entries of `[a,b]` (or `a,b`) as text, never typed; an entry with a comma goes in double quotes.

    Raises:
        UsageError: brackets that do not match, or no entry.
    """
    inner = text.strip()
    if inner.startswith("[") != inner.endswith("]"):
        raise UsageError(f"{name}={text}: the brackets do not match; write {name}=[a,b].")
    if inner.startswith("["):
        inner = inner[1:-1]
    try:
        entries = next(csv.reader([inner], skipinitialspace=True, strict=True), [])
    except csv.Error as error:
        raise UsageError(f"{name}={text}: {error}; write {name}=[a,b].") from None
    entries = [entry.strip() for entry in entries]
    entries = [entry[1:-1] if len(entry) > 1 and entry[0] == entry[-1] == "'" else entry for entry in entries]
    if not entries or not all(entries):
        raise UsageError(f"{name}={text}: an entry is empty; write {name}=[a,b].")
    return tuple(entries)


def _boolean(name: str, text: str) -> bool:
    lowered = text.strip().lower()
    if lowered in ("true", "yes", "on"):
        return True
    if lowered in ("false", "no", "off"):
        return False
    raise UsageError(f"{name}={text}: must be true or false.")


def _set_argument(arguments: dict[str, Any], name: str, text: str) -> None:
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    try:
        parsed = OmegaConf.to_container(OmegaConf.from_dotlist([f"{name}={text}"]), resolve=False)
    except (OmegaConfBaseException, YAMLError, ValueError) as error:
        first = str(error).splitlines()[0]
        raise UsageError(f"{name}={text}: not a value that can be read ({first}).") from None
    assert isinstance(parsed, dict)
    found = parsed.get("prepare_script_args")
    if not isinstance(found, dict):
        raise UsageError(f"{name}={text}: must be a mapping; write prepare_script_args.NAME=VALUE.")
    merge_arguments(arguments, found)


def merge_arguments(onto: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Merge `other` onto `onto` key by key (mappings merge, anything else replaces); returns `onto`."""
    for key, value in other.items():
        if isinstance(value, dict) and isinstance(onto.get(key), dict):
            onto[key] = merge_arguments(dict(onto[key]), value)
        else:
            onto[key] = value
    return onto
