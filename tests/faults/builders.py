"""A checkout of many datasets for fault runs: what a good output looks like is known without building it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

from tests.trees import Tree

BODY = """
version = (HERE / "version.txt").read_text().strip()
print("preparing", version)
OUT.parent.mkdir(parents=True, exist_ok=True)
beside = OUT.parent / "beside.txt"
with OUT.open("w") as file, beside.open("w") as other:
    for number in range(20):
        file.write(json.dumps({"task_id": str(number), "question": version * 50}) + "\\n")
        other.write(version + "\\n")
        file.flush()
        other.flush()
        time.sleep(0.001)
return OUT
"""


def names(count: int) -> list[str]:
    """The names of the datasets."""
    return [f"set{number}" for number in range(count)]


def make(tree: Tree, count: int) -> None:
    """Write the checkout: each dataset is made from a version file, a line at a time, with a file beside it."""
    for name in names(count):
        tree.benchmark(
            name, BODY, signature="", dataset=f'prepare_outputs: ["benchmarks/{name}/data/beside*.txt"]'
        )
        set_version(tree, name, "0")


def set_version(tree: Tree, name: str, version: str) -> None:
    """Change what a dataset is made from."""
    tree.write(f"benchmarks/{name}/version.txt", version + "\n")


def whole_version(tree: Tree, name: str) -> str | None:
    """The version that a dataset's files are of, whole; None when there are none.

    Fails when anything about them is partial or mixed.
    """
    output, beside = tree.output(name), tree.path(f"benchmarks/{name}/data/beside.txt")
    if not output.exists() and not beside.exists():
        return None
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    assert len(rows) == 20, f"{name} has {len(rows)} rows"
    versions = {row["question"][: len(row["question"]) // 50] for row in rows}
    assert len(versions) == 1, f"{name} is mixed"
    (version,) = versions
    assert beside.read_text() == f"{version}\n" * 20, f"the file beside {name} is not of version {version}"
    return version


def processes_of(root: Path) -> list[int]:
    """The processes whose working folder or command line is in a checkout, this one left out."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            line = (entry / "cmdline").read_bytes()
            folder = os.readlink(entry / "cwd")
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state != "Z" and (folder.startswith(str(root)) or os.fsencode(str(root)) in line):
            found.append(int(entry.name))
    return sorted(found)


def wait_for_no_process(root: Path, seconds: float = 20.0) -> None:
    """Wait until nothing runs in a checkout any more; fails when something stays."""
    deadline = time.monotonic() + seconds
    while left := processes_of(root):
        assert time.monotonic() < deadline, f"still running: {[_line(pid) for pid in left]}"
        time.sleep(0.02)


def _line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return str(pid)


def kill(pid: int) -> bool:
    """SIGKILL one process; False when it is gone already."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def finish(process: subprocess.Popen[str], seconds: float = 60.0) -> tuple[int, str]:
    """Wait for a process: its exit code, and what it printed."""
    text, _ = process.communicate(timeout=seconds)
    return process.returncode, text
