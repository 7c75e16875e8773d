"""What the configs come to: datasets and benchmarks as plain, frozen values."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any


class _Plain:
    """A dataclass that JSON has a form for."""

    __slots__ = ()

    def to_plain(self) -> dict[str, Any]:
        """A dict of plain values."""
        fields = ((field.name, getattr(self, field.name)) for field in dataclasses.fields(self))  # type: ignore[arg-type]
        return {name: value.to_plain() if isinstance(value, _Plain) else value for name, value in fields}


def _tuples(plain: dict[str, Any]) -> dict[str, Any]:
    """Values with the tuples that JSON has made lists of; mappings stay as they are."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in plain.items()}


@dataclass(frozen=True, slots=True)
class Dataset(_Plain):
    """One dataset that a config declares, validated, with its agent resolved."""

    name: str
    """The dataset's own name (`name:` in the config)."""
    type: str
    """`benchmark`, `train`, `validation` or `example`."""
    jsonl_fpath: str
    """The output: with forward slashes, relative to the checkout when inside it, else absolute."""
    prepare_script: str | None
    """The prepare script, written the same way; None for a dataset that is not prepared."""
    config_path: str
    """The config file that was asked for, relative to its root."""
    args: dict[str, Any]
    """Arguments for `prepare()`: the config's top-level `prepare_script_args`, then the dataset's own."""
    prepare_dependencies: tuple[str, ...] = ()
    """Words for `uv pip install`."""
    prepare_env: tuple[str, ...] = ()
    """Names of environment variables whose values are inputs."""
    prepare_inputs: tuple[str, ...] = ()
    """Globs, relative to the checkout, of files that are inputs although no interpreter sees them read."""
    prepare_outputs: tuple[str, ...] = ()
    """Globs, relative to the checkout, of files that the script leaves beside its output."""
    prepare_timeout: float | None = None
    """Seconds that a preparation may take; None for no limit."""
    prompt_config: str | None = None
    """A YAML prompt template that fills each row, relative to the checkout."""
    num_repeats: int = 1
    taskset: str | None = None
    """The plan's taskset, where it is not the dataset's name."""
    agent: str | None = None
    """The agent that runs the dataset, resolved; None when an environment server fronts several."""
    license: str | None = None
    script_root: str = "."
    """The root that the prepare script is of, written as paths are; `.` for the checkout."""
    variables: tuple[str, ...] = ()
    """Environment variables that the dataset's own fields read (`${oc.env:…}`)."""


@dataclass(frozen=True, slots=True)
class Benchmark(_Plain):
    """A config file that itself declares exactly one `type: benchmark` dataset."""

    name: str
    """Its path under `benchmarks/` without suffix (`aime24`, `apex_shortlist/pi`)."""
    config_path: str
    """The config file, relative to the root that it was found in."""
    root: str
    """That root: empty for the checkout, else an absolute path."""
    dataset: Dataset
    config_files: tuple[str, ...] = ()
    """Every config file of its include chain, itself first, relative to the checkout or absolute."""
    domain: str | None = None
    description: str | None = None

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Benchmark:
        """The benchmark that `to_plain` gave, JSON between them or not."""
        return cls(**{**_tuples(plain), "dataset": Dataset(**_tuples(plain["dataset"]))})
