"""The benchmarks that ship, their environments and their scripts, as the tests of this folder use them."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uv
import yaml

REPOSITORY = Path(__file__).parents[2]
BENCHMARKS = ("aime24", "arc_agi", "graph_atlas", "human_eval", "state_tracking")
ISOLATED_VERSIONS = ("3.9", "3.11", "3.12", "3.13")
"""Pythons that a prepare script may have to run on: the oldest that the isolated side supports, and ours."""


def copy_benchmarks(checkout: Path) -> Path:
    """Copy `benchmarks/` as a fresh clone has it (no prepared data) into a checkout. Returns: the checkout."""
    shutil.copytree(
        REPOSITORY / "benchmarks",
        checkout / "benchmarks",
        ignore=shutil.ignore_patterns("__pycache__", "*_benchmark.jsonl"),
    )
    return checkout


def load_yaml(fpath: Path) -> Any:
    """The content of a YAML file."""
    return yaml.safe_load(fpath.read_text(encoding="utf-8"))


def declared_datasets(config_fpath: Path) -> list[dict[str, Any]]:
    """The datasets in a config's own text."""
    return [
        dataset
        for entry in load_yaml(config_fpath).values()
        if isinstance(entry, dict)
        for server in entry.get("responses_api_agents", {}).values()
        for dataset in server.get("datasets", [])
    ]


def benchmark_configs() -> list[Path]:
    """The config files of all benchmarks that ship."""
    return sorted(
        fpath
        for fpath in (REPOSITORY / "benchmarks").rglob("*.yaml")
        if "type: benchmark" in fpath.read_text(encoding="utf-8")
    )


@functools.cache
def find_python(version: str) -> str | None:
    """An interpreter of this version (`3.12`) on this machine, or None."""
    if sys.version_info[:2] == tuple(int(part) for part in version.split(".")):
        return sys.executable
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [shutil.which(f"python{version}"), *map(str, sorted(pyenv.glob(f"{version}.*/bin/python")))]
    for candidate in candidates:
        # A pyenv shim is there for versions that are not switched on, and then fails.
        if candidate and subprocess.run([candidate, "-c", ""], capture_output=True).returncode == 0:
            return candidate
    return None


def make_environment(folder: Path, python: str, *packages: str) -> Path:
    """Build a venv with uv. Args: its folder, the interpreter, words for uv (`pip sync …`). Returns: its interpreter."""
    _uv("venv", "--quiet", "--python", python, str(folder))
    interpreter = folder / "bin" / "python"
    if packages:
        _uv(*packages, "--quiet", "--python", str(interpreter))
    return interpreter


def benchmark_environment(folder: Path, benchmark: str, python: str) -> Path:
    """The environment that a benchmark asks for: its lock, or else the packages its config names. Returns: its interpreter."""
    home = REPOSITORY / "benchmarks" / benchmark
    lock = home / "requirements.lock"
    if lock.exists():
        return make_environment(folder, python, "pip", "sync", "--require-hashes", str(lock))
    words = [
        word
        for each in declared_datasets(home / "config.yaml")
        for word in each.get("prepare_dependencies", [])
    ]
    return make_environment(folder, python, *(["pip", "install", *words] if words else []))


def _uv(*words: str) -> None:
    # compiled once here: the scripts themselves write no bytecode
    environment = {**os.environ, "UV_PYTHON_DOWNLOADS": "never", "UV_COMPILE_BYTECODE": "1"}
    done = subprocess.run([uv.find_uv_bin(), *words], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr


@dataclass(frozen=True)
class Prepared:
    """How a preparation ended."""

    fpath: Path | None
    """What `prepare` returned; None when it raised."""
    error: str
    """The type and the message of what it raised, else empty."""
    may_pass: bool
    """Whether gymbuild's runner takes what was raised for a trouble that may pass (exit code 75, not 76)."""
    printed: str

    @property
    def content(self) -> bytes:
        """The bytes of the prepared file."""
        assert self.fpath is not None, self.printed
        return self.fpath.read_bytes()

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows of the prepared file."""
        return [json.loads(line) for line in self.content.decode().splitlines()]


_CALL = """
import importlib, importlib.util, json, sys
module, args, answer, runner = sys.argv[1:]
try:
    result = {"fpath": str(importlib.import_module(module).prepare(**json.loads(args)))}
except Exception as error:
    spec = importlib.util.spec_from_file_location("runner", runner)
    isolated = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(isolated)
    result = {"error": f"{type(error).__name__}: {error}", "may_pass": isolated.may_pass(error)}
with open(answer, "w") as output:
    json.dump(result, output)
"""


def run_prepare(
    checkout: Path, python: Path | str, benchmark: str, environment: dict[str, str] | None = None, **args: Any
) -> Prepared:
    """Call a benchmark's `prepare(**args)` as gymbuild does: by its dotted path from the checkout, in its environment.

    Args:
        checkout: holds `benchmarks/`; also the working directory.
        python: the environment's interpreter.
        benchmark: the benchmark's folder.
        environment: variables to set beside the test's own.
        args: for `prepare`.
    """
    answer = checkout / "answer.json"
    runner = REPOSITORY / "gymbuild" / "preparation" / "runner" / "failure.py"
    done = subprocess.run(
        [
            str(python),
            "-c",
            _CALL,
            f"benchmarks.{benchmark}.prepare",
            json.dumps(args),
            str(answer),
            str(runner),
        ],
        cwd=checkout,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    result = json.loads(answer.read_text())
    fpath = Path(result["fpath"]) if "fpath" in result else None
    return Prepared(fpath, result.get("error", ""), result.get("may_pass", False), done.stdout)
