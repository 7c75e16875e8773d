"""The plan files that NeMo Gym's own code gives, byte for byte, and the ids of our own extension."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from gymbuild.plan.plan import Plan, build_plan, read_plan

DATA = Path(__file__).resolve().parents[1] / "data"
PLANS = json.loads((DATA / "eval-plan-vectors.json").read_text(encoding="utf-8"))
PROMPTS = json.loads((DATA / "prompt-vectors.json").read_text(encoding="utf-8"))
CONTENT_IDS = json.loads((DATA / "content-id-vectors.json").read_text(encoding="utf-8"))


def write_rows(folder: Path, rows: list[Any], *, ascii_only: bool = False) -> str:
    path = folder / "rows.jsonl"
    lines = (json.dumps(row, ensure_ascii=ascii_only) + "\n" for row in rows)
    path.write_text("".join(lines), encoding="utf-8")
    return str(path)


def plan(folder: Path, case: dict[str, Any], *, ascii_only: bool = False) -> Plan:
    prompt = None
    if "prompt" in case:
        prompt = str(folder / "prompt.yaml")
        Path(prompt).write_text(yaml.safe_dump(case["prompt"], allow_unicode=True), encoding="utf-8")
    return build_plan(
        write_rows(folder, case["rows"], ascii_only=ascii_only),
        benchmark=case.get("benchmark", "bench"),
        taskset=case.get("taskset"),
        config_paths=case.get("config_paths", ["benchmarks/bench/config.yaml"]),
        prompt=prompt,
        gym_version=case.get("version", "0.0.0"),
        gym_commit=case.get("commit", "abc"),
        task_ids=case.get("selected_task_ids"),
    )


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("ascii_only", [False, True])
def test_a_plan_is_what_nemo_gym_gives(tmp_path: Path, name: str, ascii_only: bool) -> None:
    made = plan(tmp_path, PLANS[name], ascii_only=ascii_only)
    assert made.to_bytes().decode() == PLANS[name]["plan"]


@pytest.mark.parametrize("name", PROMPTS)
def test_a_prompt_is_filled_as_nemo_gym_fills_it(tmp_path: Path, name: str) -> None:
    assert plan(tmp_path, PROMPTS[name]).to_bytes().decode() == PROMPTS[name]["plan"]


@pytest.mark.parametrize("name", CONTENT_IDS)
def test_content_ids(tmp_path: Path, name: str) -> None:
    assert plan(tmp_path, CONTENT_IDS[name]).to_json()["tasks"] == CONTENT_IDS[name]["tasks"]


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_file_is_read_back_as_it_was(tmp_path: Path, name: str) -> None:
    made = plan(tmp_path, PLANS[name])
    path = tmp_path / "plan.json"
    path.write_bytes(made.to_bytes())
    assert read_plan(str(path)).to_bytes() == made.to_bytes()
