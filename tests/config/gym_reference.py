"""What NeMo Gym itself resolves generated trees to. Runs in a Python that has `nemo-gym`; imports nothing of ours.

Reads a JSON list of folders on standard input; writes one JSON line per folder: for each benchmark candidate its
fields, or the error, and the same for the configs of `together.json`, resolved as one.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import sys
import warnings
from pathlib import Path

warnings.simplefilter("ignore")

from nemo_gym.benchmarks import BenchmarkConfig, _benchmark_config_name, _benchmark_config_paths  # noqa: E402
from nemo_gym.config_types import BenchmarkDatasetConfig, DatasetConfig  # noqa: E402
from nemo_gym.discovery import (  # noqa: E402
    _parse_no_environment_tolerating_unset_values,
    read_config_metadata,
)
from nemo_gym.global_config import (  # noqa: E402
    GlobalConfigDictParserConfig,
    get_first_server_config_dict,
    resolve_dataset_agent,
)
from omegaconf import DictConfig, OmegaConf  # noqa: E402

logging.disable(logging.CRITICAL)


def fields(dataset, agent) -> dict:
    return {
        "dataset": dataset.name,
        "type": dataset.type,
        "agent": agent,
        "num_repeats": dataset.num_repeats,
        "jsonl_fpath": str(dataset.jsonl_fpath),
        "prepare_script": None if dataset.prepare_script is None else str(dataset.prepare_script),
        "prompt_config": str(getattr(dataset, "prompt_config", None) or "") or None,
        "prepare_dependencies": list(dataset.prepare_dependencies),
        "taskset": dataset.taskset,
    }


def failure(error: BaseException) -> dict:
    return {"error": type(error).__name__, "text": str(error)[:600]}


def discovered(tree: Path) -> dict:
    found = {}
    folder = tree / "benchmarks"
    for path in _benchmark_config_paths(folder):
        name = _benchmark_config_name(path.relative_to(folder))
        try:
            benchmark = BenchmarkConfig.from_config_path(path, strict=False)
            if benchmark is None:
                found[name] = {"error": "NoSingleBenchmark", "text": ""}
                continue
            domain, description = read_config_metadata(path)
            found[name] = {
                **fields(benchmark.dataset, benchmark.agent_name),
                "domain": domain,
                "description": description,
            }
        except Exception as error:
            found[name] = failure(error)
    return found


def together(paths: list) -> object:
    initial = OmegaConf.merge(
        GlobalConfigDictParserConfig.NO_MODEL_GLOBAL_CONFIG_DICT, OmegaConf.create({"config_paths": paths})
    )
    try:
        config = _parse_no_environment_tolerating_unset_values(initial)
        found = []
        for name in config:
            block = config[name]
            if not isinstance(block, (dict, DictConfig)):
                continue
            if "responses_api_agents" not in block and "resources_servers" not in block:
                continue
            for entry in get_first_server_config_dict(config, name).get("datasets") or []:
                if entry["type"] == "benchmark":
                    dataset = BenchmarkDatasetConfig.model_validate(entry)
                elif entry.get("prepare_script"):
                    dataset = DatasetConfig.model_validate(entry)
                else:
                    continue
                agent = resolve_dataset_agent(
                    config, str(name), pin=getattr(dataset, "agent", None), taskset=dataset.taskset
                )
                found.append(fields(dataset, agent))
        return found
    except Exception as error:
        return failure(error)


def main() -> None:
    out = sys.stdout
    for tree in json.load(sys.stdin):
        os.chdir(tree)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            answer = {"tree": tree, "benchmarks": discovered(Path(tree))}
            listed = Path(tree, "together.json")
            if listed.exists():
                answer["together"] = together(json.loads(listed.read_text()))
        out.write(json.dumps(answer) + "\n")
        out.flush()


main()
