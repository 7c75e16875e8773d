"""What holds for every benchmark that ships."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import string
import subprocess
from pathlib import Path
from typing import Any

import pytest
import uv

from tests.benchmarks.conftest import Environments
from tests.benchmarks.shipped import (
    BENCHMARKS,
    ISOLATED_VERSIONS,
    REPOSITORY,
    benchmark_configs,
    declared_datasets,
    load_yaml,
    run_prepare,
)

LOCKED = ("aime24", "arc_agi", "human_eval")
WITHOUT_HUB = ("arc_agi", "graph_atlas", "human_eval", "state_tracking")

BYTES = {
    "arc_agi": "dca05c8b7640c7fde341728796b5c52658358fb90cc1fd0c6620ae81f048436d",
    "graph_atlas": "42c3d451b7d9400b4e8ea8c1af2cbcb92525e789e3c76f6fa8ff1ba7c6313fe7",
    "human_eval": "67c03dae84c1ffd22aaa8cdd8bf2714ec7866f480e812403a0ae67ce2e3b36ee",
    "state_tracking": "e62df09ad591175a93b16476bde728a00d03ec4189213e4350dfaa44de4ae47d",
}
"""SHA-256 of what each script writes without arguments, on every machine. Their content has tests of its own."""


@pytest.mark.parametrize(
    "version",
    [
        version if version in ("3.9", "3.13") else pytest.param(version, marks=pytest.mark.slow)
        for version in ISOLATED_VERSIONS
    ],
)
@pytest.mark.parametrize("benchmark", WITHOUT_HUB)
def test_the_same_bytes_on_every_python(
    benchmark: str, version: str, checkout: Path, environments: Environments
) -> None:
    prepared = run_prepare(checkout, environments(benchmark, version), benchmark)
    assert not prepared.error
    assert hashlib.sha256(prepared.content).hexdigest() == BYTES[benchmark]


@pytest.mark.parametrize("benchmark", WITHOUT_HUB)
def test_the_same_bytes_under_another_locale_and_hash_seed(
    benchmark: str, checkout: Path, environments: Environments
) -> None:
    unusual = {
        "LC_ALL": "C",
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
        "PYTHONHASHSEED": "7",
        "TZ": "Asia/Tokyo",
    }
    prepared = run_prepare(checkout, environments(benchmark), benchmark, unusual)
    assert not prepared.error
    assert hashlib.sha256(prepared.content).hexdigest() == BYTES[benchmark]


@pytest.mark.parametrize("benchmark", WITHOUT_HUB)
def test_a_script_writes_its_output_and_nothing_else(
    benchmark: str, checkout: Path, environments: Environments
) -> None:
    before = {fpath for fpath in checkout.rglob("*") if fpath.is_file()}
    prepared = run_prepare(checkout, environments(benchmark), benchmark)
    written = (
        {fpath for fpath in checkout.rglob("*") if fpath.is_file()} - before - {checkout / "answer.json"}
    )
    assert written == {checkout / "benchmarks" / benchmark / "data" / f"{benchmark}_benchmark.jsonl"}
    assert prepared.fpath in written
    assert prepared.content.endswith(b"\n") and b"\r" not in prepared.content


@pytest.mark.parametrize("benchmark", WITHOUT_HUB)
def test_every_row_can_be_planned(benchmark: str, checkout: Path, environments: Environments) -> None:
    rows = run_prepare(checkout, environments(benchmark), benchmark).rows
    assert len({row["task_id"] for row in rows}) == len(rows)
    for row in rows:
        assert isinstance(row["task_id"], str) and row["task_id"]
        assert not {"task_input", "agent_ref", "task_source", "skills_ref"} & set(row)
    for config in (each for each in benchmark_configs() if each.parent.name == benchmark):
        (dataset,) = (each for each in declared_datasets(config) if each["type"] == "benchmark")
        if "prompt_config" not in dataset:
            for row in rows:
                (message,) = row["responses_create_params"]["input"]
                assert message["role"] == "user" and message["content"]
            continue
        for row in rows:
            assert "input" not in row.get("responses_create_params", {})
            for template in load_yaml(REPOSITORY / dataset["prompt_config"]).values():
                fields = {name for _, name, _, _ in string.Formatter().parse(template) if name is not None}
                assert fields <= set(row)
                assert all(str(row[name]) in template.format_map(row) for name in fields)


def test_each_benchmark_declares_one_dataset_with_an_agent_of_its_own() -> None:
    agents: list[str] = []
    for config in benchmark_configs():
        text = load_yaml(config)
        (dataset,) = (each for each in declared_datasets(config) if each["type"] == "benchmark")
        folder = config.parent.name
        assert dataset["name"] == folder
        assert dataset["jsonl_fpath"] == f"benchmarks/{folder}/data/{folder}_benchmark.jsonl"
        assert dataset["prepare_script"] == f"benchmarks/{folder}/prepare.py"
        assert (REPOSITORY / dataset["prepare_script"]).is_file()
        # What a block inherits from is declared by the fragment that the config pulls in.
        (fragment,) = text["config_paths"]
        assert fragment.startswith("benchmarks/shared/")
        inherited = {entry["_inherit_from"] for entry in text.values() if isinstance(entry, dict)}
        assert inherited == set(load_yaml(REPOSITORY / fragment)) - {"config_paths"}
        agents += [name for name, entry in text.items() if "responses_api_agents" in entry]
    assert sorted({config.parent.name for config in benchmark_configs()}) == sorted(BENCHMARKS)
    assert len(set(agents)) == len(benchmark_configs())


def test_shared_fragments_declare_no_dataset() -> None:
    fragments = sorted((REPOSITORY / "benchmarks" / "shared").glob("*.yaml"))
    assert fragments
    for fragment in fragments:
        assert not declared_datasets(fragment)
        assert "datasets" not in fragment.read_text(encoding="utf-8")


def test_two_benchmarks_share_one_dataset_under_different_prompts() -> None:
    home = REPOSITORY / "benchmarks" / "human_eval"
    (one,) = declared_datasets(home / "config.yaml")
    (other,) = declared_datasets(home / "config_instruct.yaml")
    assert one.pop("prompt_config") != other.pop("prompt_config")
    assert one == other


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_the_readme_says_source_licence_and_size(benchmark: str) -> None:
    readme = (REPOSITORY / "benchmarks" / benchmark / "README.md").read_text(encoding="utf-8")
    for line in ("Source", "Licence", "Size", "Arguments"):
        assert re.search(rf"^\| {line} \| .+ \|$", readme, re.MULTILINE), line


@pytest.mark.parametrize("benchmark", LOCKED)
def test_a_lock_pins_every_package_by_hash_and_names_no_place(benchmark: str) -> None:
    lock = (REPOSITORY / "benchmarks" / benchmark / "requirements.lock").read_text(encoding="utf-8")
    assert "://" not in lock and "index" not in lock and "/root" not in lock and "/home" not in lock
    requirements = re.split(r"\n(?=[a-z])", lock)[1:]
    assert requirements
    for requirement in requirements:
        assert re.match(r"[a-z0-9.-]+==\S+( ; .+)? \\\n +--hash=sha256:[0-9a-f]{64}", requirement), (
            requirement
        )


@pytest.mark.slow
@pytest.mark.parametrize("benchmark", LOCKED)
def test_a_lock_is_what_its_requirements_ask_for(benchmark: str, tmp_path: Path) -> None:
    home = REPOSITORY / "benchmarks" / benchmark
    for name in ("requirements.in", "requirements.lock"):
        shutil.copy(home / name, tmp_path)
    # The command that made it is in its second line; versions that are already locked are kept where they fit.
    command = (home / "requirements.lock").read_text(encoding="utf-8").splitlines()[1].lstrip("# ")
    assert command.startswith("uv pip compile --universal --generate-hashes ")
    environment: dict[str, Any] = {
        **os.environ,
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_CUSTOM_COMPILE_COMMAND": command,
    }
    done = subprocess.run(
        [uv.find_uv_bin(), *command.split()[1:]],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "requirements.lock").read_bytes() == (home / "requirements.lock").read_bytes()
