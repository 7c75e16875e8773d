"""A small checkout, and shorthands that make, build and look into its environments."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gymbuild.config.datasets import Dataset
from gymbuild.environments.build import build_environment
from gymbuild.environments.choice import environment_for
from gymbuild.environments.environment import Environment
from gymbuild.environments.interpreters import search_path
from gymbuild.environments.uv import uv_binary
from gymbuild.system.paths import Checkout

SCRIPT = "def prepare():\n    pass\n"


class Place:
    """A checkout with one benchmark per folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.checkout = Checkout(root)

    def write(self, path: str, text: str) -> Path:
        """Write a file of the checkout."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    def benchmark(self, name: str, script: str = SCRIPT, *, dependencies: tuple[str, ...] = ()) -> Dataset:
        """A dataset whose script lies in `benchmarks/<name>`."""
        path = f"benchmarks/{name}/prepare.py"
        if not (self.root / path).exists() or script != SCRIPT:
            self.write(path, script)
        return Dataset(
            name=name,
            type="benchmark",
            jsonl_fpath=f"benchmarks/{name}/data/{name}.jsonl",
            prepare_script=path,
            config_path=f"benchmarks/{name}/config.yaml",
            args={},
            prepare_dependencies=dependencies,
        )

    def environment(self, dataset: Dataset, python: str | None = None) -> Environment:
        """Its environment."""
        return environment_for(dataset, self.checkout, python=python)

    def build(self, env: Environment, **more: Any) -> str:
        """Build it; the path of its Python."""
        return build_environment(env, self.checkout, module="benchmarks.x.prepare", **more)

    def uv(self, *arguments: str, python: str = sys.executable) -> None:
        """Run uv in the checkout, as a person would: to lock something."""
        subprocess.run(
            [uv_binary(), *arguments, "--python", python],
            cwd=self.root,
            env={**os.environ, "UV_PYTHON_DOWNLOADS": "never"},
            check=True,
            capture_output=True,
        )

    def project(
        self, name: str, *dependencies: str, more: str = "", requires: str | None = ">=3.9"
    ) -> Dataset:
        """A benchmark with a locked project beside its script."""
        given = f'requires-python = "{requires}"\n' if requires else ""
        wanted = ", ".join(f'"{word}"' for word in dependencies)
        self.write(
            f"benchmarks/{name}/pyproject.toml",
            f'[project]\nname = "{name}"\nversion = "0"\n{given}dependencies = [{wanted}]\n{more}',
        )
        self.uv("lock", "--project", f"benchmarks/{name}")
        return self.benchmark(name)

    def requirements(self, name: str, *dependencies: str) -> Dataset:
        """A benchmark with a requirements.lock beside its script."""
        self.write("requirements.in", "\n".join(dependencies) + "\n")
        self.write(f"benchmarks/{name}/requirements.lock", "")
        self.uv(
            *("pip", "compile", "--universal", "--generate-hashes", "--python-version", "3.9"),
            *("requirements.in", "-o", f"benchmarks/{name}/requirements.lock"),
        )
        return self.benchmark(name)

    def inline(self, name: str, *dependencies: str, requires: str = ">=3.9") -> Dataset:
        """A benchmark whose script has inline metadata, and its lock."""
        dataset = self.benchmark(name, metadata(*dependencies, requires=requires) + SCRIPT)
        self.uv("lock", "--script", f"benchmarks/{name}/prepare.py")
        return dataset


def metadata(*dependencies: str, requires: str = ">=3.9") -> str:
    """A block of inline script metadata."""
    wanted = ", ".join(f'"{word}"' for word in dependencies)
    return f'# /// script\n# requires-python = "{requires}"\n# dependencies = [{wanted}]\n# ///\n'


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    # bytecode is of no interest here, and takes most of the time
    monkeypatch.setenv("UV_COMPILE_BYTECODE", "0")
    root = tmp_path / "checkout"
    root.mkdir()
    return Place(root)


def versions_in(python: str) -> dict[str, str]:
    """What a Python has installed, asked of itself."""
    code = (
        "import importlib.metadata as m, json, sys, platform\n"
        "found = {d.metadata['Name'].lower(): d.version for d in m.distributions()}\n"
        "json.dump({**found, 'python': platform.python_version(), 'prefix': sys.prefix}, sys.stdout)"
    )
    answer = subprocess.run([python, "-I", "-c", code], check=True, capture_output=True, text=True)
    found: dict[str, str] = json.loads(answer.stdout)
    return found


@functools.cache
def interpreter(version: str) -> str | None:
    """An interpreter of that version on this machine, asked of uv."""
    answer = subprocess.run(
        [uv_binary(), "python", "find", "--no-project", "--system", "--no-python-downloads", version],
        env={**os.environ, "PATH": search_path(os.environ.get("PATH", ""))},
        capture_output=True,
        text=True,
        check=False,
    )
    return answer.stdout.strip() if answer.returncode == 0 else None


@pytest.fixture(scope="session")
def needs_python() -> Callable[[str], str]:
    """Gives an interpreter of a version, or skips the test where the machine has none."""

    def given(version: str) -> str:
        found = interpreter(version)
        if found is None:
            pytest.skip(f"no Python {version} on this machine")
        return found

    return given


def wheel(folder: Path, name: str, version: str = "1.0", source: str = "") -> Path:
    """A wheel of one module, built by hand: no index and no build backend is needed."""
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": source,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = [f"{file},sha256={_sha256(text)},{len(text)}\n" for file, text in files.items()]
    files[f"{info}/RECORD"] = "".join(record) + f"{info}/RECORD,,\n"
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in files.items():
            archive.writestr(zipfile.ZipInfo(file, (2024, 1, 1, 0, 0, 0)), text)
    return path


def _sha256(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
