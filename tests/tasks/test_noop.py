"""A start that finds nothing to do starts no process, writes no file, hashes no content and imports nothing heavy."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tasks.conftest import Project

HEAVY = {"pydantic", "omegaconf", "yaml", "rich", "uv", "orjson"}

WATCH = """
import atexit, json, os, sys
_events = []
_writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
def _hook(event, args):
    if event in ("subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty", "os.exec", "os.system", "os.spawn"):
        _events.append(["process", event])
    elif event == "open" and isinstance(args[2], int) and args[2] & _writing:
        _events.append(["write", str(args[0])])
    elif event in ("os.mkdir", "os.rename", "os.remove", "os.truncate", "os.utime", "os.link", "os.symlink"):
        _events.append(["write", event + " " + str(args[0])])
    elif event == "open" and isinstance(args[0], str) and args[0].startswith(os.environ["WATCHED"]):
        _events.append(["read", args[0]])
sys.addaudithook(_hook)
@atexit.register
def _write():
    _events.append(["modules", sorted({name.partition(".")[0] for name in sys.modules})])
    _events.append(["all", sorted(sys.modules)])
    text = json.dumps(_events)
    with open(os.environ["WATCH_FILE"], "w") as file:
        file.write(text)
"""


@pytest.fixture
def built(project: Project) -> Project:
    project.write("benchmarks/prompt.yaml", "user: '{question}'\n")
    project.add("alpha", dataset="prompt_config: benchmarks/prompt.yaml")
    project.add("beta")
    shutil.copy(Path(__file__).parents[2] / "dodo.py", project.path("dodo.py"))
    shutil.copy(Path(__file__).parents[2] / "pyproject.toml", project.path("pyproject.toml"))
    project.run("plan")
    assert "nothing to do" in project.run("plan")
    return project


def watched(project: Project, command: list[str]) -> tuple[str, list[list]]:
    folder = project.root.parent / "watch"
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(WATCH)
    file = folder / "events.json"
    known = os.environ.get("PYTHONPATH", "")
    done = subprocess.run(
        command,
        cwd=project.root,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, [str(folder), known])),
            "PYTHONDONTWRITEBYTECODE": "1",
            "WATCH_FILE": str(file),
            "WATCHED": os.path.realpath(project.root),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
    )
    return done.stdout, json.loads(file.read_text())


@pytest.mark.parametrize("words", [["prepare:alpha"], ["plan:alpha"], ["plan"], ["prepare", "plan"]])
@pytest.mark.parametrize("program", ["gymbuild", "doit"])
def test_nothing_is_started_written_hashed_or_imported(
    built: Project, program: str, words: list[str]
) -> None:
    command = [sys.executable, "-m", "gymbuild", "--root", str(built.root), *words]
    if program == "doit":
        command = [sys.executable, "-m", "doit", *words]
    said, events = watched(built, command)
    assert "nothing to do" in said
    assert [event for event in events if event[0] == "process"] == []
    # doit opens the null device for itself; nothing of the checkout is written
    assert [event for event in events if event[0] == "write" and event[1] != os.devnull] == []
    root = os.path.realpath(built.root)
    read = {os.path.relpath(event[1], root) for event in events if event[0] == "read"}
    assert read <= {".cache/index", "pyproject.toml", "dodo.py"}, read
    (modules,) = (set(event[1]) for event in events if event[0] == "modules")
    assert not modules & HEAVY
    if program == "gymbuild":
        assert not modules & {"doit", "xxhash"}


@pytest.mark.parametrize("group", ["prepare", "plan"])
def test_what_a_group_sweeps_up_and_cannot_be_built_is_known_as_well(built: Project, group: str) -> None:
    built.add("broken", signature="size: int")
    built.add("beta", config="other.yaml", output="benchmarks/beta/data/beta.jsonl", dataset="num_repeats: [")
    slow = [built.run(group) for _ in range(2)][-1]
    assert "prepare:broken" in slow
    command = [sys.executable, "-m", "gymbuild", "--root", str(built.root), group]
    said, events = watched(built, command)
    assert said == slow
    assert f"nothing to do: {2 if group == 'prepare' else 4} current" in said
    (modules,) = (set(event[1]) for event in events if event[0] == "modules")
    assert "doit" not in modules
    # named, it is an error, as always
    named = built.run(f"{group}:broken", code=3)
    assert "cannot be built" in named
    # the script is mended: it is not skipped any more
    script = built.path("benchmarks/broken/prepare.py")
    script.write_text(script.read_text().replace("size: int", "size: int = 3"))
    assert "broken" in built.run(group)
    assert built.runs("broken") == 1
    assert "prepare:broken" not in built.run(group)
    # and broken again
    script.write_text(script.read_text().replace("size: int = 3", "size: int"))
    for _ in range(2):
        assert "prepare:broken" in built.run(group)
    assert "cannot be built" in built.run(f"{group}:broken", code=3)


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not there")
def test_the_kernel_sees_no_process_and_no_write(built: Project) -> None:
    trace = built.root.parent / "trace"
    command = [sys.executable, "-m", "gymbuild", "--root", str(built.root), "plan"]
    done = subprocess.run(
        ["strace", "-f", "-o", str(trace), *command],
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if "ptrace" in done.stderr and done.returncode:
        pytest.skip("tracing is not allowed here")
    assert "nothing to do" in done.stdout
    lines = trace.read_text(errors="replace").splitlines()
    calls = [line.partition(" ")[2] for line in lines]
    assert not [call for call in calls if call.startswith(("fork(", "vfork(", "clone(", "clone3("))]
    writes = [
        call
        for call in calls
        if call.startswith(("open(", "openat(", "creat("))
        and any(flag in call for flag in ("O_WRONLY", "O_RDWR", "O_CREAT"))
        and "= -1" not in call
    ]
    assert writes == []
