"""A copy of the shipped checkout, and small checkouts of our own, driven through real processes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.trees import can_fork, run_forked

REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass
class Project:
    """A checkout that tests change and build."""

    root: Path
    environment: dict[str, str] = field(default_factory=dict)
    forked: bool = True
    """Start `gymbuild` by a fork of this process in place of a new Python: the same work in half the time."""

    def run(self, *words: str, code: int | None = 0, **environment: str) -> str:
        """Run `gymbuild --root`; returns what it printed, both streams as they came."""
        return self._run(
            [sys.executable, "-m", "gymbuild", "--root", str(self.root), *words], code, environment
        )

    def doit(self, *words: str, code: int | None = 0, **environment: str) -> str:
        """Run plain `doit` in the checkout."""
        return self._run([sys.executable, "-m", "doit", *words], code, environment)

    def _run(self, command: list[str], code: int | None, environment: dict[str, str]) -> str:
        variables = {**os.environ, **self.environment, **environment}
        if self.forked and command[1:3] == ["-m", "gymbuild"] and can_fork(variables):
            text, status = run_forked(command[3:], str(self.root), variables)
            assert code is None or status == code, f"exit {status}\n{text}"
            return text
        done = subprocess.run(
            command,
            cwd=self.root,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert code is None or done.returncode == code, f"exit {done.returncode}\n{done.stdout}"
        return done.stdout

    def path(self, name: str) -> Path:
        """A file of the checkout."""
        return self.root / name

    def write(self, name: str, text: str) -> Path:
        """Write a file of the checkout."""
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip("\n"), encoding="utf-8")
        return path

    def runs(self, name: str) -> int:
        """How often the script of a benchmark made by `add` has run."""
        counter = self.root.parent / "runs" / name
        return len(counter.read_text()) if counter.exists() else 0

    def add(
        self,
        name: str,
        body: str = "rows = [{'task_id': str(i), 'question': 'q'} for i in range(size)]",
        *,
        signature: str = "size: int = 3",
        dataset: str = "",
        extra: str = "",
        output: str | None = None,
        script: str | None = None,
        config: str = "config.yaml",
        top: str = "",
    ) -> None:
        """Add a benchmark whose script declares nothing, counts its runs, and writes `rows`."""
        folder = f"benchmarks/{name}"
        counter = self.root.parent / "runs" / name
        counter.parent.mkdir(exist_ok=True, parents=True)
        output = output or f"{folder}/data/{name}.jsonl"
        label = (name + config).replace("-", "_").replace(".", "_").replace("/", "_")
        if script is None:
            script = f"{folder}/prepare.py"
            self.write(
                script,
                f"""
import json
from pathlib import Path

OUT = Path({output!r})

def prepare({signature}) -> Path:
    with open({str(counter)!r}, "a") as counter:
        counter.write("x")
{textwrap.indent(textwrap.dedent(body), "    ")}
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text("".join(json.dumps(row) + "\\n" for row in rows))
    return OUT

{textwrap.dedent(extra)}
""",
            )
        self.write(
            f"{folder}/{config}",
            f"""{top}
{label}_server:
  resources_servers:
    mine:
      entrypoint: app.py
      domain: other
{label}_agent:
  responses_api_agents:
    simple_agent:
      entrypoint: app.py
      resources_server:
        type: resources_servers
        name: {label}_server
      model_server:
        type: responses_api_models
        name: policy_model
      datasets:
      - name: {name}
        type: benchmark
        jsonl_fpath: {output}
        prepare_script: {script}
{textwrap.indent(textwrap.dedent(dataset), " " * 8)}
policy_model:
  responses_api_models:
    m:
      entrypoint: app.py
""",
        )


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """An empty checkout without a dodo.py."""
    root = tmp_path / "checkout"
    (root / "benchmarks").mkdir(parents=True)
    return Project(root)


@pytest.fixture
def shipped(tmp_path: Path) -> Project:
    """A copy of what this repository ships: dodo.py, pyproject.toml and benchmarks."""
    root = tmp_path / "shipped"
    root.mkdir()
    for name in ("dodo.py", "pyproject.toml"):
        shutil.copy(REPOSITORY / name, root / name)
    shutil.copytree(REPOSITORY / "benchmarks", root / "benchmarks", ignore=_no_made_files)
    return Project(root)


def _no_made_files(folder: str, names: list[str]) -> list[str]:
    return [
        name
        for name in names
        if name == "__pycache__" or (name.endswith(".jsonl") and name != "example.jsonl")
    ]


@pytest.fixture
def write_prompt(project: Project) -> Callable[[str], str]:
    """Write a prompt template; returns its path."""

    def write(text: str) -> str:
        project.write("benchmarks/prompt.yaml", text)
        return "benchmarks/prompt.yaml"

    return write
