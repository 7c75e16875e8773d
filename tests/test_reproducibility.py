"""The proof that plans are the same everywhere: every shipped benchmark, in checkouts that differ in all that must not matter.

Environments are shared between the checkouts, to keep it short: they are keyed by their content. Each checkout
has a store of its own.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import pytest
import uv

from gymbuild.config.catalog import load_catalog
from gymbuild.system.paths import Checkout
from tests.benchmarks.shipped import copy_benchmarks, find_python
from tests.benchmarks.test_aime24 import RECORDS

REPOSITORY = Path(__file__).resolve().parents[1]
OWN = f"{sys.version_info.major}.{sys.version_info.minor}"

TASKS = {
    "aime24": "2dd82de1ccc26b6e037962ec2f496ed336a37ac556c451288acd1fc2864c5a82",
    "arc_agi": "1f6baf590a03841b29235dea037170fac7eefcdd4058d58de940ec302b885ee7",
    "graph_atlas": "db0d146f2f3b213dce4cabd76b4158b17856e8a7e7373d112a504e3c6c45a4e1",
    "human_eval": "4dd2158fa1a174a9e3ff8bfba356471f18192b3ada4d5b345a4161bafdcca54d",
    "human_eval/config_instruct": "e819d92e2f8d1172caa3518edb7d3e284d6cc9732746f4981f0e9b6a27851351",
    "state_tracking": "df797cc11493528f6e297863f778258c6a17f4be6ed84ebb12e59a5d8aa9d08a",
}
"""SHA-256 of each plan without `gym`: the same on every machine. A change of a benchmark that changes it is meant to."""


@dataclass(frozen=True)
class Setting:
    """What one checkout is built with."""

    folder: str
    python: str
    processes: int
    umask: int
    variables: dict[str, str]


SETTINGS = (
    Setting("one", OWN, 1, 0o022, {"LC_ALL": "C.UTF-8", "TZ": "UTC", "PYTHONHASHSEED": "0"}),
    Setting(
        "zwei und Ü/tief/unten",
        OWN,
        8,
        0o077,
        {"LC_ALL": "POSIX", "TZ": "Asia/Kolkata", "PYTHONHASHSEED": "4711", "USER": "somebody"},
    ),
    Setting("three", "3.11", 8, 0o002, {"LC_ALL": "C", "TZ": "Pacific/Apia", "PYTHONHASHSEED": "1"}),
    Setting("four", "3.12", 1, 0o027, {"LC_ALL": "de_DE.UTF-8", "TZ": "America/St_Johns"}),
    Setting("five", "3.13", 8, 0o022, {"LC_ALL": "tr_TR.UTF-8", "PYTHONHASHSEED": "99", "PYTHONUTF8": "0"}),
)


@dataclass
class Built:
    """A checkout, and how its plans are made."""

    setting: Setting
    root: Path
    gymbuild: list[str]
    source: Path
    environments: Path

    def plan(self) -> str:
        """Make every plan; returns what was printed."""
        others = [f"plan:{name}" for name in NAMES if name != "aime24"]
        source = f"prepare_script_args.source={self.source}"
        return self._run("plan:aime24", source) + self._run(*others)

    def _run(self, *words: str) -> str:
        done = subprocess.run(
            [
                *self.gymbuild,
                "--root",
                str(self.root),
                "-n",
                str(self.setting.processes),
                *words,
                f"uv_venv_dir={self.environments}",
            ],
            cwd=self.root,
            env={**os.environ, **self.setting.variables},
            umask=self.setting.umask,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
        assert done.returncode == 0, f"{self.setting}\n{done.stdout}"
        return done.stdout

    def plans(self) -> dict[str, bytes]:
        """The bytes of every plan, by benchmark."""
        return {name: (self.root / f".cache/plans/{name}.json").read_bytes() for name in NAMES}


NAMES = tuple(sorted(load_catalog(Checkout(REPOSITORY), use_index=False).benchmarks))


def gymbuild_on(version: str, folder: Path) -> list[str] | None:
    """The command of a gymbuild that is installed on some Python; None where there is no such Python."""
    if version == OWN:
        return [sys.executable, "-m", "gymbuild"]
    python = find_python(version)
    if python is None:
        return None
    venv = folder / version
    environment = {**os.environ, "UV_PYTHON_DOWNLOADS": "never"}
    environment.pop("PYTHONPATH", None)
    for words in (
        ["venv", "-q", "--python", str(python), str(venv)],
        ["pip", "install", "-q", "--python", str(venv / "bin/python"), str(REPOSITORY)],
    ):
        done = subprocess.run(
            [uv.find_uv_bin(), *words], capture_output=True, text=True, env=environment, check=False
        )
        assert done.returncode == 0, done.stderr
    return [str(venv / "bin/python"), "-I", "-m", "gymbuild"]


@pytest.fixture(scope="module")
def checkouts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Built]]:
    """A checkout for every setting that this machine has a Python for, its plans made cold."""
    folder = tmp_path_factory.mktemp("reproducibility")
    source = folder / "aime.jsonl"
    source.write_text("".join(json.dumps(record) + "\n" for record in RECORDS), encoding="utf-8")
    made = []
    for setting in SETTINGS:
        command = gymbuild_on(setting.python, folder)
        if command is None:
            continue
        root = copy_benchmarks(folder / setting.folder)
        for name in ("dodo.py", "pyproject.toml"):
            shutil.copy(REPOSITORY / name, root / name)
        built = Built(setting, root, command, source, folder / "environments")
        built.plan()
        made.append(built)
    yield made
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_plans_are_the_same_bytes_whatever_the_checkout_is_built_with(checkouts: list[Built]) -> None:
    assert len({built.setting.python for built in checkouts}) > 1, "only one Python is on this machine"
    first = checkouts[0].plans()
    for built in checkouts[1:]:
        assert built.plans() == first, built.setting


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_plans_from_the_store_are_the_same_bytes(checkouts: list[Built]) -> None:
    built = checkouts[0]
    before = built.plans()
    shutil.rmtree(built.root / ".cache/plans")
    for data in (built.root / "benchmarks").glob("*/data/*_benchmark.jsonl"):
        data.unlink()
    said = built.plan()
    assert said.count("restored from the store") == len({name.partition("/")[0] for name in NAMES})
    assert built.plans() == before
    # and made anew, from the prepared files alone
    for name in ("plans", "state", "index", "digests"):
        path = built.root / ".cache" / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    built.plan()
    assert built.plans() == before


@pytest.mark.slow
def test_plans_are_those_of_every_other_machine(checkouts: list[Built]) -> None:
    found = {}
    for name, data in checkouts[0].plans().items():
        plan = json.loads(data)
        del plan["gym"]
        found[name] = sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()
    assert found == TASKS
