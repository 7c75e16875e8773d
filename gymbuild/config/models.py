"""Pydantic models of what a config may say about a dataset, and errors that say what is allowed."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from gymbuild.config.dialect.values import MISSING, kind_of
from gymbuild.system.errors import ConfigError

LICENSES = (
    "Apache 2.0",
    "MIT",
    "Creative Commons Attribution 4.0 International",
    "Creative Commons Attribution-ShareAlike 4.0 International",
    "CC BY-SA 4.0",
    "CC BY-NC 3.0",
    "NVIDIA Internal Use Only, Do Not Distribute",
    "NVIDIA Evaluation Dataset License Agreement",
    "TBD",
    "GNU General Public License v3.0",
)
"""What NeMo Gym 0.7.0 accepts as `license`."""
TYPES = ("benchmark", "train", "validation", "example")
MAX_NAME = 255
"""Bytes that a name may have: what file systems allow for one entry."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def name_fault(name: str) -> str | None:
    """Why a dataset or benchmark cannot be called so, as the end of a sentence; None when it can."""
    if not name.strip():
        return "it is empty"
    if any(ord(char) < 32 or 0x7F <= ord(char) < 0xA0 or 0xD800 <= ord(char) < 0xE000 for char in name):
        return "it holds a control character"
    if len(name.encode("utf-8", "replace")) > MAX_NAME:
        return f"it has more than {MAX_NAME} bytes"
    parts = name.split("/")
    if ".." in parts or "." in parts:
        return f"it holds a part {'..' if '..' in parts else '.'!r}"
    if "" in parts:
        return "a part between slashes is empty"
    return None


class GitlabIdentifier(BaseModel):
    """`gitlab_identifier:`, the older form of a source in GitLab's model registry."""

    dataset_name: str
    version: str
    artifact_fpath: str


class HuggingfaceIdentifier(BaseModel):
    """`huggingface_identifier:`, the older form of a source on the Hugging Face Hub."""

    repo_id: str
    artifact_fpath: str | None = None


class GitlabSource(GitlabIdentifier):
    """`source:` of a dataset in GitLab's model registry."""

    type: Literal["gitlab"]


class HuggingfaceSource(HuggingfaceIdentifier):
    """`source:` of a dataset on the Hugging Face Hub."""

    type: Literal["huggingface"]


class UpstreamFields(BaseModel):
    """The fields that NeMo Gym knows on every dataset."""

    model_config = ConfigDict(frozen=True)

    name: str
    jsonl_fpath: str
    prepare_dependencies: list[str] = Field(default_factory=list)
    num_repeats: int = Field(default=1, ge=1)
    taskset: str | None = Field(default=None, min_length=1)


class UpstreamBenchmark(UpstreamFields):
    """A `type: benchmark` dataset as NeMo Gym takes it."""

    type: Literal["benchmark"]
    prepare_script: str
    prompt_config: str | None = None
    agent: str | None = None


class UpstreamOther(UpstreamFields):
    """A dataset of another type as NeMo Gym takes it."""

    type: Literal["train", "validation", "example"]
    prepare_script: str | None = None
    license: str | None = None
    source: Annotated[GitlabSource | HuggingfaceSource, Field(discriminator="type")] | None = None
    gitlab_identifier: GitlabIdentifier | None = None
    huggingface_identifier: HuggingfaceIdentifier | None = None

    @field_validator("license")
    @classmethod
    def _listed_license(cls, license: str | None) -> str | None:
        if license is not None and license not in LICENSES:
            raise ValueError(f"must be one of {_quoted(LICENSES)}")
        return license

    @model_validator(mode="after")
    def _together(self) -> UpstreamOther:
        if self.type != "example" and self.license is None:
            raise ValueError(f"license: a {self.type} dataset must have one of {_quoted(LICENSES)}")
        if self.source is not None and (self.gitlab_identifier or self.huggingface_identifier):
            raise ValueError(
                "source: it cannot stand beside `gitlab_identifier` or `huggingface_identifier`; keep `source`"
            )
        return self


class AddedFields(BaseModel):
    """The fields that gymbuild adds to a dataset, all optional."""

    model_config = ConfigDict(frozen=True)

    prepare_script_args: dict[str, Any] | None = None
    prepare_env: list[str] | None = None
    prepare_inputs: list[str] | None = None
    prepare_outputs: list[str] | None = None
    prepare_timeout: float | None = None
    prompt_config: str | None = None

    @field_validator("prepare_script_args")
    @classmethod
    def _json(cls, args: dict[str, Any] | None) -> dict[str, Any] | None:
        fault = json_fault(args)
        if fault:
            raise ValueError(fault)
        return args

    @field_validator("prepare_env")
    @classmethod
    def _variables(cls, names: list[str] | None) -> list[str] | None:
        for name in names or ():
            if not _VARIABLE.fullmatch(name):
                raise ValueError(f"must be names of environment variables, found {name!r}")
        return names

    @field_validator("prepare_inputs", "prepare_outputs")
    @classmethod
    def _globs(cls, globs: list[str] | None) -> list[str] | None:
        for glob in globs or ():
            if not glob.strip() or "\0" in glob:
                raise ValueError(f"must be globs relative to the checkout, found {glob!r}")
        return globs

    @field_validator("prepare_timeout", mode="before")
    @classmethod
    def _seconds(cls, seconds: Any) -> Any:
        if isinstance(seconds, bool) or (
            isinstance(seconds, int | float) and not (0 < seconds < 1e9 and math.isfinite(seconds))
        ):
            raise ValueError("must be a number of seconds above 0")
        return seconds


class BenchmarkDataset(UpstreamBenchmark, AddedFields):
    """A `type: benchmark` dataset, with gymbuild's fields."""


class OtherDataset(UpstreamOther, AddedFields):
    """A train, validation or example dataset, with gymbuild's fields."""


FIELDS = frozenset(BenchmarkDataset.model_fields) | frozenset(OtherDataset.model_fields)
"""Every field of a dataset that anything is done with; others are left alone."""


def json_fault(value: Any, key: str = "") -> str | None:
    """What in an argument JSON has no form for, as a sentence; None when there is nothing."""
    if isinstance(value, dict):
        for name, item in value.items():
            if not isinstance(name, str):
                return f"must have text as keys, found the key {name!r} in {key or 'it'}"
            fault = json_fault(item, f"{key}.{name}" if key else name)
            if fault:
                return fault
    elif isinstance(value, list):
        for position, item in enumerate(value):
            fault = json_fault(item, f"{key}[{position}]")
            if fault:
                return fault
    elif isinstance(value, bytes) or (isinstance(value, float) and not math.isfinite(value)):
        return f"must be values that JSON has a form for, found {kind_of(value)} in {key or 'it'}"
    return None


def validate_dataset(plain: Any, key: str, file: str | None) -> BenchmarkDataset | OtherDataset:
    """A dataset entry as a model.

    Args:
        plain: the entry, interpolations resolved.
        key: its dotted key, for errors.
        file: the config that was asked for.

    Raises:
        ConfigError: every field that does not fit, with what was found and what is allowed.
    """
    if not isinstance(plain, Mapping):
        raise ConfigError(f"a dataset is a mapping, found {kind_of(plain)}.", file=file, key=key)
    for name, value in plain.items():
        if name in FIELDS and _has_missing(value):
            raise ConfigError(
                f"it is unset ({MISSING}); a dataset's own fields must have values.",
                file=file,
                key=f"{key}.{name}",
            )
    kind = plain.get("type")
    if kind not in TYPES:
        found = kind_of(kind) if "type" in plain else "nothing"
        raise ConfigError(f"must be one of {_quoted(TYPES)}, found {found}.", file=file, key=f"{key}.type")
    model = BenchmarkDataset if kind == "benchmark" else OtherDataset
    try:
        dataset = model.model_validate(dict(plain))
    except ValidationError as error:
        raise _config_error(error, plain, key, file) from None
    fault = name_fault(dataset.name)
    if fault:
        raise ConfigError(f"{fault}: {_shortened(dataset.name)}.", file=file, key=f"{key}.name")
    if not dataset.jsonl_fpath.strip():
        raise ConfigError(
            "must be the path of a file, found an empty text.", file=file, key=f"{key}.jsonl_fpath"
        )
    return dataset


def shape_fault(datasets: Any, key: str) -> tuple[str, str] | None:
    """What in a server's `datasets` NeMo Gym would not take: (key, a sentence), or None.

    Interpolations are passed over here: they are resolved and looked at where a dataset is used.
    """
    if not isinstance(datasets, list):
        return key, f"its datasets must be a list, found {kind_of(datasets)}."
    for position, entry in enumerate(datasets):
        here = f"{key}[{position}]"
        if not isinstance(entry, dict):
            if isinstance(entry, str) and "${" in entry:
                continue
            return here, f"a dataset must be a mapping, found {kind_of(entry)}."
        kind = entry.get("type")
        if kind not in TYPES and not (isinstance(kind, str) and "${" in kind):
            found = kind_of(kind) if "type" in entry else "nothing"
            return f"{here}.type", f"must be one of {_quoted(TYPES)}, found {found}."
        if not any(isinstance(value, str) and "${" in value for value in entry.values()):
            model = UpstreamBenchmark if entry.get("type") == "benchmark" else UpstreamOther
            try:
                model.model_validate(entry)
            except ValidationError as error:
                problem = _config_error(error, entry, here, None)
                return problem.key or here, problem.message
    return None


def _config_error(
    error: ValidationError, plain: Mapping[Any, Any], key: str, file: str | None
) -> ConfigError:
    """One error that names each field that does not fit; its `key` is the first one."""
    problems: list[tuple[str, str]] = []
    for item in error.errors(include_url=False, include_context=True):
        place = [part for part in item["loc"] if part not in ("gitlab", "huggingface")]
        text, found = _sentence(item), item.get("input")
        if item["type"] == "value_error" and not place:
            field, _, text = text.partition(": ")
            problems.append((f"{key}.{field}", f"{text}."))
            continue
        path = key
        for part in place:
            path += f"[{part}]" if isinstance(part, int) else f".{part}"
        if item["type"] == "missing":
            problems.append((path, "it is required, found nothing."))
        elif "found" in text:
            problems.append((path, f"{text}."))
        else:
            problems.append((path, f"{text}, found {kind_of(found)}."))
    first_key, first = problems[0]
    more = "".join(f"\n  {other}: {text}" for other, text in problems[1:])
    return ConfigError(first + more, file=file, key=first_key)


def _sentence(item: Any) -> str:
    kind, context = item["type"], item.get("ctx") or {}
    if kind == "value_error":
        return str(context["error"])
    if kind.startswith("string_type"):
        return "must be text"
    if kind.startswith("int_"):
        return "must be a whole number"
    if kind.startswith("float_"):
        return "must be a number"
    if kind == "greater_than_equal":
        return f"must be {context['ge']} or more"
    if kind == "string_too_short":
        return "must not be empty"
    if kind == "list_type":
        return "must be a list"
    if kind in ("dict_type", "model_type", "model_attributes_type"):
        return "must be a mapping"
    if kind == "literal_error":
        return f"must be one of {str(context['expected']).replace(' or ', ', ')}"
    if kind.startswith("union_tag"):
        return "must have the type 'gitlab' or 'huggingface'"
    return str(item["msg"][:1].lower() + item["msg"][1:])


def _has_missing(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_has_missing(item) for item in value.values())
    if isinstance(value, list):
        return any(_has_missing(item) for item in value)
    return bool(value == MISSING)


def _quoted(names: tuple[str, ...]) -> str:
    return ", ".join(map(repr, names))


def _shortened(text: str) -> str:
    shown = json.dumps(text)
    return shown if len(shown) <= 60 else shown[:57] + "..."
