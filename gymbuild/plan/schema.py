"""The shapes of a plan file and of a row, as pydantic models and JSON Schemas."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class TaskId(_Model):
    """A task's id within a taskset."""

    taskset: str = Field(description="The dataset's taskset, or the benchmark's dataset name.")
    task_id: str = Field(description="Unique within the plan.")


class Task(_Model):
    """One evaluation task."""

    task_id: TaskId
    digest: str = Field(
        pattern=r"^sha256:[0-9a-f]{64}$",
        description="SHA-256 of the task input as canonical JSON, the prompt filled.",
    )


class Gym(_Model):
    """What the plan was made with."""

    version: str = Field(description="The checkout's version.")
    commit: str | None = Field(description="The checkout's commit, or null.")


class PlannedBenchmark(_Model):
    """What was planned."""

    name: str = Field(description="The dataset's name.")
    config_paths: list[str] = Field(
        description="The files that it was selected with, relative to the checkout."
    )


class EvalPlan(_Model):
    """The plan of one benchmark: every task with its id and the digest of its exact input."""

    schema_: Literal["nemo-gym.eval-plan.v1"] = Field(alias="schema")
    gym: Gym
    benchmark: PlannedBenchmark
    selected_task_ids: list[str] | None = Field(
        description="Sorted and unique, or null when the plan covers every task."
    )
    tasks: list[Task] = Field(description="Sorted by task id, as plain strings.")


class Message(BaseModel):
    """A message in OpenAI's form."""

    model_config = ConfigDict(extra="allow")

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[dict[str, Any]]


class ResponsesCreateParams(BaseModel):
    """What a run sends to the model."""

    model_config = ConfigDict(extra="allow")

    input: str | list[Message | dict[str, Any]] | None = None


class Row(BaseModel):
    """A row of a prepared file."""

    model_config = ConfigDict(extra="allow")

    task_id: str | int | float | bool | None = Field(default=None, description="The row's id.")
    problem_id: str | int | float | bool | None = Field(
        default=None, description="Its id, where task_id is not there."
    )
    instance_id: str | int | float | bool | None = Field(
        default=None, description="Its id, where neither is there."
    )
    responses_create_params: ResponsesCreateParams | None = Field(
        default=None, description="The input as messages, unless a prompt template makes it."
    )
    verifier_metadata: dict[str, Any] | None = Field(default=None, description="What the verifier needs.")


def plan_schema() -> dict[str, Any]:
    """The JSON Schema of a plan file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **EvalPlan.model_json_schema(by_alias=True),
    }


def row_schema() -> dict[str, Any]:
    """The JSON Schema of a row of a prepared file."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Row.model_json_schema()}
