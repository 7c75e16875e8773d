"""The rows of the mutation matrix that need real environments: locks, projects, Pythons, editable dependencies."""

from __future__ import annotations

import base64
import functools
import hashlib
import os
import subprocess
import zipfile
from collections.abc import Callable, Iterable

from tests.matrix.table import Change
from tests.trees import Tree

SLOW_TABLE: list[Change] = []

LOCKED = ("locked",)
PYTHONS = ("3.11", "3.12", "3.13")


def row(
    title: str,
    *,
    runs: Iterable[str] = (),
    restores: Iterable[str] = (),
    plans: Iterable[str] = (),
    says: str = "",
    words: tuple[str, ...] = ("plan",),
    code: int = 0,
    note: str = "",
) -> Callable[[Callable[[Tree], object]], Callable[[Tree], object]]:
    """Add a row; the decorated function makes the change."""

    def add(change: Callable[[Tree], object]) -> Callable[[Tree], object]:
        SLOW_TABLE.append(
            Change(
                "environments",
                title,
                change,
                frozenset(runs),
                frozenset(restores),
                frozenset(plans),
                says,
                words=words,
                code=code,
                note=note,
            )
        )
        return change

    return add


# -- the world ---------------------------------------------------------------------------------------------------

VERSIONED = """
import sys
import wordlist
rows = [{"task_id": "1", "question": wordlist.WORDS, "python": list(sys.version_info[:2])}]
"""


def write_wheel(tree: Tree, version: str) -> tuple[str, str]:
    """Write a wheel of the package `wordlist`: its path relative to the checkout, and its hash."""
    name = f"wheels/wordlist-{version}-py3-none-any.whl"
    files = {
        "wordlist.py": f'WORDS = "words of {version}"\n',
        f"wordlist-{version}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: wordlist\nVersion: {version}\n",
        f"wordlist-{version}.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        record += f"{path},sha256={digest},{len(text)}\n"
    files[f"wordlist-{version}.dist-info/RECORD"] = record + f"wordlist-{version}.dist-info/RECORD,,\n"
    target = tree.path(name)
    target.parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(target, "w") as archive:
        for path, text in files.items():
            archive.writestr(zipfile.ZipInfo(path, (2020, 1, 1, 0, 0, 0)), text)
    return name, hashlib.sha256(target.read_bytes()).hexdigest()


def lock(tree: Tree, version: str, comment: str = "") -> None:
    """Lock the environment of `locked` to a version of the package."""
    path, digest = write_wheel(tree, version)
    tree.write(
        "benchmarks/locked/requirements.lock",
        f"{comment}wordlist @ file://{tree.path(path)} --hash=sha256:{digest}\n",
    )


def uv(tree: Tree, *words: str) -> None:
    """Run uv in the checkout, as a person would."""
    from gymbuild.environments.interpreters import search_path
    from gymbuild.environments.uv import uv_binary

    subprocess.run(
        [uv_binary(), *words],
        cwd=tree.root,
        env={**os.environ, "UV_PYTHON_DOWNLOADS": "never", "PATH": search_path(os.environ.get("PATH", ""))},
        check=True,
        capture_output=True,
    )


def make_slow_world(tree: Tree) -> None:
    """Three datasets with environments of their own: a requirements.lock, a locked project, an editable dependency."""
    tree.benchmark("locked", VERSIONED, signature="")
    lock(tree, "1.0")

    tree.benchmark("project", "rows = [{'task_id': '1', 'question': 'q'}]", signature="")
    tree.write(
        "benchmarks/project/pyproject.toml",
        """
        [project]
        name = "project"
        version = "0"
        requires-python = ">=3.9"
        dependencies = []
        """,
    )
    uv(tree, "lock", "--project", "benchmarks/project", "--offline")

    tree.write("shelf/pyproject.toml", SHELF)
    tree.write("shelf/backend.py", BACKEND)
    tree.write("shelf/src/shelf.py", 'BOOKS = "one book"\n')
    tree.benchmark(
        "editable",
        "import shelf\nrows = [{'task_id': '1', 'question': shelf.BOOKS}]",
        signature="",
        dataset='prepare_dependencies: ["-e ./shelf"]',
    )
    tree.benchmark("plain")


SHELF = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "shelf"
version = "1"
requires-python = ">=3.9"
"""

BACKEND = '''
"""A build backend that makes an editable wheel out of a path file, so that no download is needed."""
import os
import zipfile


def _wheel(folder, content, name):
    path = "shelf-1-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(folder, path), "w") as archive:
        archive.writestr(name, content)
        archive.writestr("shelf-1.dist-info/METADATA", "Metadata-Version: 2.1\\nName: shelf\\nVersion: 1\\n")
        archive.writestr("shelf-1.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        archive.writestr("shelf-1.dist-info/RECORD", "")
    return path


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    return _wheel(wheel_directory, os.path.abspath("src") + "\\n", "shelf.pth")


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    with open("src/shelf.py") as file:
        return _wheel(wheel_directory, file.read(), "shelf.py")
'''


# -- the rows ----------------------------------------------------------------------------------------------------


@row("nothing is changed", says="nothing to do: 8 current")
def _(tree: Tree) -> None:
    pass


@row("every file is touched", says="nothing to do: 8 current")
def _(tree: Tree) -> None:
    for path in tree.root.rglob("*"):
        if path.is_file() and ".cache" not in path.parts:
            os.utime(path)


@row("a lock is edited: another version of a package", runs=LOCKED, plans=LOCKED)
def _(tree: Tree) -> None:
    lock(tree, "2.0")


@row("a comment in a lock is edited")
def _(tree: Tree) -> None:
    lock(tree, "1.0", "# locked by hand\n")


@row(
    "a lock is edited, built, and taken back",
    restores=LOCKED,
    plans=LOCKED,
    note="neither script nor environment",
)
def _(tree: Tree) -> None:
    lock(tree, "3.0")
    assert tree.build().ran == {"locked"}
    lock(tree, "1.0")


@row("the venvs are deleted", note="nothing has to run, so none is built")
def _(tree: Tree) -> None:
    import shutil

    shutil.rmtree(tree.path(".cache/venvs"))


@row(
    "a project's pyproject.toml is edited without its lock",
    words=("plan:project",),
    runs=(),
    code=76,
    says="uv lock",
    note="an error that says `uv lock`; nothing runs",
)
def _(tree: Tree) -> None:
    tree.replace("benchmarks/project/pyproject.toml", "dependencies = []", 'dependencies = ["wordlist"]')


@row("a comment in a project's pyproject.toml is edited")
def _(tree: Tree) -> None:
    tree.path("benchmarks/project/pyproject.toml").write_text(
        "# a comment\n" + tree.read("benchmarks/project/pyproject.toml")
    )


@row("a source of an editable dependency is edited", runs=("editable",), plans=("editable",))
def _(tree: Tree) -> None:
    tree.replace("shelf/src/shelf.py", "one book", "two books")


@row("an editable dependency gains a source", runs=("editable",), note="early cut-off")
def _(tree: Tree) -> None:
    tree.write("shelf/src/more.py", "")


@row("bytecode appears in an editable dependency")
def _(tree: Tree) -> None:
    tree.write("shelf/src/__pycache__/shelf.cpython-311.pyc", "")


@functools.cache
def other_python() -> str | None:
    """Another Python than this one that is installed here, or None."""
    import sys

    from gymbuild.environments.interpreters import search_path
    from gymbuild.environments.uv import uv_binary

    mine = f"{sys.version_info[0]}.{sys.version_info[1]}"
    for version in PYTHONS:
        if version == mine:
            continue
        found = subprocess.run(
            [uv_binary(), "python", "find", "--no-project", "--system", version],
            env={
                **os.environ,
                "UV_PYTHON_DOWNLOADS": "never",
                "PATH": search_path(os.environ.get("PATH", "")),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        if not found.returncode:
            return version
    return None


@row(
    "the Python version that an environment asks for is another",
    runs=("project",),
    note="early cut-off; skipped where the machine has one Python only",
)
def _(tree: Tree) -> None:
    import sys

    import pytest

    version = other_python()
    if version is None:
        pytest.skip("needs a second Python")
    mine = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert version != mine
    tree.replace("benchmarks/project/pyproject.toml", ">=3.9", f"=={version}.*")
    uv(tree, "lock", "--project", "benchmarks/project", "--offline", "--python", version)


__all__ = ["SLOW_TABLE", "make_slow_world"]
