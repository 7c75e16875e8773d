"""A small checkout to run real prepare scripts in, and the Pythons that this machine has."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

from gymbuild.preparation.isolated_run import IsolatedRun, RunResult, run_isolated
from gymbuild.system.paths import Checkout

SCRIPT = "benchmarks/x/prepare.py"
OUTPUT = "benchmarks/x/data/x.jsonl"
VERSIONS = ("3.9", "3.11", "3.12", "3.13")


@functools.cache
def find_python(version: str) -> str | None:
    """An interpreter of this version on this machine; nothing is downloaded."""
    candidates = [shutil.which(f"python{version}")]
    if version == ".".join(map(str, sys.version_info[:2])):
        candidates.insert(0, sys.executable)
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates += [str(path) for path in sorted(pyenv.glob(f"{version}.*/bin/python"))]
    uv = shutil.which("uv") or os.path.join(os.path.dirname(sys.executable), "uv")
    if os.path.exists(uv):
        found = subprocess.run(
            [uv, "python", "find", "--no-python-downloads", "--system", version],
            capture_output=True,
            text=True,
            cwd="/",
            check=False,
        )
        candidates.append(found.stdout.strip() or None)
    for candidate in candidates:
        # a version manager's shim is there for versions that it does not have
        if candidate and _version_of(candidate) == version:
            return candidate
    return None


def _version_of(python: str) -> str | None:
    try:
        shown = subprocess.run([python, "-c", _SHOW], capture_output=True, text=True, timeout=20, check=False)
    except OSError:
        return None
    return shown.stdout.strip() or None


_SHOW = "import sys; sys.stdout.write('%d.%d' % sys.version_info[:2])"


class ScriptCheckout:
    """A checkout in a folder of its own, with one prepare script."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.checkout = Checkout(root)
        self.shown: list[str] = []

    def write(self, path: str, text: str) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text))
        return file

    def script(self, body: str, path: str = SCRIPT) -> None:
        """A prepare script whose `prepare` does `body` and then writes one row."""
        output = os.path.join(os.path.dirname(path), "data", "x.jsonl")
        body = textwrap.indent(textwrap.dedent(body).strip("\n") or "pass", "    ")
        self.write(
            path,
            "import os, sys, subprocess\nfrom pathlib import Path\n\n"
            f"def prepare(**args):\n{body}\n    return row()\n\n"
            "def row():\n"
            f"    out = Path({output!r})\n    out.parent.mkdir(exist_ok=True)\n"
            "    out.write_text('{\"a\": 1}\\n')\n    return out\n",
        )

    def isolated(self, **changes: Any) -> IsolatedRun:
        script = changes.get("script", SCRIPT)
        values: dict[str, Any] = {
            "python": sys.executable,
            "checkout": self.checkout,
            "script": script,
            "module": script[:-3].replace("/", "."),
            "action": "prepare",
            "args": {},
            "expected": os.path.join(os.path.dirname(script), "data", "x.jsonl"),
            "log": ".cache/logs/x.log",
        }
        values.update(changes)
        return IsolatedRun(**values)

    def run(self, **changes: Any) -> RunResult:
        return run_isolated(self.isolated(**changes), show=self.shown.append)

    @property
    def log(self) -> str:
        return (self.root / ".cache/logs/x.log").read_text()

    @property
    def leftovers(self) -> list[str]:
        """Private folders of runs that are still there."""
        runs = self.root / ".cache/runs"
        return [path.name for path in runs.iterdir() if path.is_dir()] if runs.exists() else []
