"""Small checkouts for tests: benchmarks in NeMo Gym's dialect whose scripts need no environment of their own.

Scripts declare nothing, so they run on the Python that gymbuild runs on: no venv is built, and a run takes a
fraction of a second. Each one that runs appends a letter to a counter file outside of the checkout, which tells
which scripts have really run, whatever gymbuild says of it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import textwrap
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
"""This repository: its gymbuild is the one that is run."""

DODO = """\
from gymbuild.tasks import DOIT_CONFIG, task_plan, task_prepare, task_venv

__all__ = ["DOIT_CONFIG", "task_plan", "task_prepare", "task_venv"]
"""


@dataclass(frozen=True)
class Built:
    """What one build did."""

    text: str
    """All that it printed, both streams as they came."""
    code: int
    ran: frozenset[str]
    """Scripts that really ran, by the name of their benchmark."""
    restored: frozenset[str]
    """Datasets that came from the store."""
    plans: frozenset[str]
    """Benchmarks whose plan file was written, by the file itself."""
    outputs: frozenset[str]
    """Datasets whose own file is another one than before (or is gone, or new), by the file itself."""


@dataclass
class Tree:
    """A checkout that tests change and build."""

    root: Path
    runs: Path
    """Folder of the counter files, outside of the checkout."""
    environment: dict[str, str] = field(default_factory=dict)
    """Variables for every process that is started here."""
    forked: bool = True
    """Start `gymbuild` by a fork of this process, with all modules imported, in place of a new Python: the same
    work in half the time. Not where variables are set that a Python reads when it starts."""

    # -- files -------------------------------------------------------------------------------------------------

    def path(self, name: str) -> Path:
        """A file of the checkout."""
        return self.root / name

    def write(self, name: str, text: str) -> Path:
        """Write a file of the checkout; indentation that all lines share is left out."""
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip("\n"), encoding="utf-8")
        return path

    def read(self, name: str) -> str:
        """The text of a file of the checkout."""
        return self.path(name).read_text(encoding="utf-8")

    def replace(self, name: str, old: str, new: str) -> None:
        """Edit a file of the checkout: every `old` becomes `new`, and there has to be one."""
        text = self.read(name)
        assert old in text, f"{old!r} is not in {name}"
        self.path(name).write_text(text.replace(old, new), encoding="utf-8")

    def output(self, name: str) -> Path:
        """The prepared file of a benchmark made by `benchmark`."""
        return self.path(f"benchmarks/{name}/data/{name}.jsonl")

    def plan(self, name: str) -> Path:
        """The plan file of a benchmark."""
        return self.path(f".cache/plans/{name}.json")

    # -- benchmarks --------------------------------------------------------------------------------------------

    def counter(self, name: str) -> Path:
        """The counter file of a benchmark's script."""
        return self.runs / name.replace("/", "-")

    def script(
        self, name: str, body: str, *, signature: str = "", extra: str = "", path: str | None = None
    ) -> str:
        """Write a prepare script that counts its runs and writes `rows`, which `body` sets.

        Args:
            name: of the benchmark.
            body: the inside of `prepare`; `json`, `os`, `subprocess`, `sys`, `time`, `Path`, `OUT` and `HERE` (the
                script's folder) are there.
            signature: parameters of `prepare`.
            extra: more of the module.
            path: of the script; default `benchmarks/<name>/prepare.py`.
        """
        path = path or f"benchmarks/{name}/prepare.py"
        output = f"benchmarks/{name}/data/{name}.jsonl"
        self.write(
            path,
            f"""\
import json
import os
import subprocess
import sys
import time
from pathlib import Path

OUT = Path({output!r})
HERE = Path("benchmarks/{name}")


def prepare({signature}) -> Path:
    with open({str(self.counter(name))!r}, "a") as counter:
        counter.write("x")
{textwrap.indent(textwrap.dedent(body).strip(chr(10)), "    ")}
    OUT.parent.mkdir(parents=True, exist_ok=True)
    with OUT.open("w") as file:
        for row in rows:
            file.write(json.dumps(row) + "\\n")
    return OUT


{textwrap.dedent(extra).strip(chr(10))}
""",
        )
        return path

    def config(
        self,
        name: str,
        *,
        dataset: str = "",
        script: str | None = None,
        output: str | None = None,
        file: str = "config.yaml",
        dataset_name: str | None = None,
        top: str = "",
        port: int = 8000,
    ) -> str:
        """Write the config of a benchmark.

        Args:
            name: of the benchmark's folder.
            dataset: more lines of its dataset.
            script: the prepare script.
            output: the dataset's file.
            file: name of the config file.
            dataset_name: of the dataset; default the benchmark's.
            top: lines at the top of the file.
            port: of its resources server.
        """
        label = re.sub(r"\W", "_", f"{name}_{file}")
        path = f"benchmarks/{name}/{file}"
        self.write(
            path,
            f"""\
{textwrap.dedent(top).strip(chr(10))}
{label}_server:
  resources_servers:
    server:
      entrypoint: app.py
      domain: other
      port: {port}
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
      - name: {dataset_name or name}
        type: benchmark
        jsonl_fpath: {output or f"benchmarks/{name}/data/{name}.jsonl"}
        prepare_script: {script or f"benchmarks/{name}/prepare.py"}
{textwrap.indent(textwrap.dedent(dataset).strip(chr(10)), " " * 8)}
policy_model:
  responses_api_models:
    model:
      entrypoint: app.py
""",
        )
        return path

    def benchmark(
        self,
        name: str,
        body: str = "rows = [{'task_id': str(i), 'question': f'question {i}'} for i in range(size)]",
        *,
        signature: str = "size: int = 3",
        extra: str = "",
        dataset: str = "",
        top: str = "",
    ) -> None:
        """Add a benchmark: a script as `script` writes it, and a config as `config` does."""
        self.script(name, body, signature=signature, extra=extra)
        self.config(name, dataset=dataset, top=top)

    def with_dodo(self) -> Tree:
        """Give the checkout a dodo.py and a pyproject.toml, so that plain `doit` works in it."""
        self.write("dodo.py", DODO)
        lines = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8").partition("[tool.doit]")
        self.write("pyproject.toml", lines[1] + lines[2])
        return self

    # -- processes ---------------------------------------------------------------------------------------------

    def variables(self, environment: Mapping[str, str] = {}) -> dict[str, str]:
        """The variables of a process that is started here."""
        path = os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH")]))
        return {**os.environ, "PYTHONPATH": path, **self.environment, **environment}

    def command(self, *words: str) -> list[str]:
        """The command line of `gymbuild --root` here."""
        return [sys.executable, "-m", "gymbuild", "--root", str(self.root), *words]

    def start(self, *words: str, **environment: str) -> subprocess.Popen[str]:
        """Start `gymbuild --root` in a process group of its own, and go on."""
        return subprocess.Popen(
            self.command(*words),
            cwd=self.root,
            env=self.variables(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def gymbuild(self, *words: str, code: int | None = 0, **environment: str) -> str:
        """Run `gymbuild --root`; returns what it printed, both streams as they came.

        Args:
            words: of the command line.
            code: the exit code that it has to have; None for any.
            environment: variables.
        """
        return self.run(self.command(*words), code, environment)[0]

    def doit(self, *words: str, code: int | None = 0, **environment: str) -> str:
        """Run plain `doit` in the checkout."""
        return self.run([sys.executable, "-m", "doit", *words], code, environment)[0]

    def run(self, command: list[str], code: int | None, environment: Mapping[str, str]) -> tuple[str, int]:
        """Run a command line; returns what it printed, both streams as they came, and its exit code.

        Args:
            command: with its program.
            code: the exit code that it has to have; None for any.
            environment: variables.
        """
        variables = self.variables(environment)
        if self.forked and command[1:3] == ["-m", "gymbuild"] and can_fork(variables):
            text, status = run_forked(command[3:], str(self.root), variables)
        else:
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
            text, status = done.stdout, done.returncode
        assert code is None or status == code, f"exit {status}\n{text}"
        return text, status

    # -- what really happened ----------------------------------------------------------------------------------

    def count(self) -> dict[str, int]:
        """How often each script has run."""
        if not self.runs.is_dir():
            return {}
        return {path.name: path.stat().st_size for path in sorted(self.runs.iterdir())}

    def build(self, *words: str, code: int | None = 0, **environment: str) -> Built:
        """Run `gymbuild --root` (default: `plan`), and tell what it did."""
        before, plans, outputs = self.count(), self._files(".cache/plans"), self._outputs()
        text, status = self.run(self.command(*(words or ("plan",))), code, environment)
        after = self.count()
        return Built(
            text,
            status,
            frozenset(name for name in after if after[name] > before.get(name, 0)),
            frozenset(re.findall(r"^   prepare:(\S+) restored from the store", text, re.MULTILINE)),
            _changed(plans, self._files(".cache/plans")),
            _changed(outputs, self._outputs()),
        )

    def _files(self, folder: str) -> dict[str, tuple[int, ...]]:
        top = self.path(folder)
        return {
            str(path.relative_to(top).with_suffix("")): _identity(path)
            for path in top.rglob("*.json")
            if path.is_file()
        }

    def _outputs(self) -> dict[str, tuple[int, ...]]:
        return {path.stem: _identity(path) for path in self.root.glob("benchmarks/*/data/*.jsonl")}

    def displaced(self) -> dict[str, str]:
        """What was kept aside under `.cache/displaced/`: text by path without the date."""
        top = self.path(".cache/displaced")
        return {
            re.sub(r"\.\d{8}-\d{6}(-\d+)?(?=/|$)", "", str(path.relative_to(top))): path.read_text("utf-8")
            for path in sorted(top.rglob("*"))
            if path.is_file()
        }


def _identity(path: Path) -> tuple[int, ...]:
    status = path.lstat()
    return (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)


def _changed(before: Mapping[str, object], after: Mapping[str, object]) -> frozenset[str]:
    names: Iterable[str] = {*before, *after}
    return frozenset(name for name in names if before.get(name) != after.get(name))


def can_fork(variables: Mapping[str, str]) -> bool:
    """Whether a fork of this process is what a new one would be: no variable differs that counts at the start only."""

    def counting(environment: Mapping[str, str]) -> dict[str, str]:
        names = ("PYTHON", "LC_", "LANG", "LD_", "DYLD_", "TZ")
        return {name: environment[name] for name in environment if name.startswith(names)}

    own = counting(os.environ)
    ours = os.pathsep.join(filter(None, [str(REPOSITORY), own.get("PYTHONPATH")]))
    return counting(variables) in (own, {**own, "PYTHONPATH": ours})


def run_forked(words: list[str], folder: str, variables: Mapping[str, str]) -> tuple[str, int]:
    """Run `gymbuild` in a fork of this process: what it printed, both streams as they came, and its exit code."""
    import doit.cmd_run

    import gymbuild.__main__ as program
    import gymbuild.commands.command_line
    import gymbuild.commands.run
    import gymbuild.config.dialect.reader
    import gymbuild.preparation.preparer  # noqa: F401

    with tempfile.TemporaryFile() as output:
        child = os.fork()
        if not child:
            status = 99
            try:
                null = os.open(os.devnull, os.O_RDONLY)
                for number, descriptor in enumerate((null, output.fileno(), output.fileno())):
                    os.dup2(descriptor, number)
                os.chdir(folder)
                os.environ.clear()
                os.environ.update(variables)
                sys.argv = ["gymbuild", *words]
                sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
                sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False, buffering=1)
                doit.cmd_run.opt_outfile["default"] = sys.stdout  # which it took when it was imported
                status = program.run(words)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)
        _, ended = os.waitpid(child, 0)
        output.seek(0)
        return output.read().decode("utf-8", "replace"), os.waitstatus_to_exitcode(ended)


def new_tree(folder: Path) -> Tree:
    """An empty checkout `folder/checkout`, without a dodo.py."""
    root = folder / "checkout"
    (root / "benchmarks").mkdir(parents=True)
    (folder / "runs").mkdir(exist_ok=True)
    return Tree(root.resolve(), (folder / "runs").resolve())
