"""Whatever dies and whenever: the next build finds the last good output or makes the new one, never half a file."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.tasks.conftest import Project

DATASETS = [f"d{number}" for number in range(10)]
ROWS = 40

BODY = """
version = Path('benchmarks/version.txt').read_text().strip()
OUT.parent.mkdir(parents=True, exist_ok=True)
with open(OUT, 'w') as file:
    for number in range(40):
        file.write(json.dumps({'task_id': str(number), 'version': version}) + chr(10))
        if number == 20:
            file.flush()
            import time
            time.sleep(0.03)
return OUT
rows = []
"""


@pytest.fixture
def ten(project: Project) -> Project:
    project.write("benchmarks/version.txt", "0\n")
    for name in DATASETS:
        project.add(name, BODY)
    project.run("plan")
    return project


def expected(version: int) -> str:
    return "".join(json.dumps({"task_id": str(n), "version": str(version)}) + "\n" for n in range(ROWS))


def processes_of(root: Path) -> list[int]:
    """The processes whose command line or working folder tells that they are of this checkout's build."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            command = Path(f"/proc/{entry}/cmdline").read_bytes()
            folder = os.readlink(f"/proc/{entry}/cwd")
        except OSError:
            continue
        if str(root).encode() in command or folder == str(root):
            found.append(int(entry))
    return found


def kill_and_build(ten: Project, rounds: int, seed: int) -> None:
    chance = random.Random(seed)
    root = Path(os.path.realpath(ten.root))
    for version in range(1, rounds + 1):
        ten.write("benchmarks/version.txt", f"{version}\n")
        command = [sys.executable, "-m", "gymbuild", "--root", str(root), *chance.choice([[], ["-n", "2"]])]
        build = subprocess.Popen(
            [*command, "plan"] if "-n" not in command else [*command[:5], "run", "-n", "2", "plan"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        time.sleep(chance.uniform(0.05, 2.0))
        victims = processes_of(root) or [build.pid]
        victim = build.pid if chance.random() < 0.5 else chance.choice(victims)
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
        build.wait(timeout=120)
        ten.run("plan")
        for name in DATASETS:
            content = ten.path(f"benchmarks/{name}/data/{name}.jsonl").read_text()
            assert content == expected(version), f"round {version} (seed {seed}): {name}"
            plan = json.loads(ten.path(f".cache/plans/{name}.json").read_text())
            assert len(plan["tasks"]) == ROWS
        assert "nothing to do: 20 current" in ten.run("plan")
        deadline = time.monotonic() + 10
        while processes_of(root):
            assert time.monotonic() < deadline, f"round {version}: {processes_of(root)} outlived the build"
            time.sleep(0.02)


@pytest.mark.skipif(sys.platform != "linux", reason="processes are told by /proc")
def test_a_few_kills_at_random_instants(ten: Project) -> None:
    kill_and_build(ten, 4, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.skipif(sys.platform != "linux", reason="processes are told by /proc")
def test_many_kills_at_random_instants(ten: Project) -> None:
    kill_and_build(ten, int(os.environ.get("GYMBUILD_TEST_KILLS", "40")), seed=2)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("parallel", [False, True])
def test_an_interruption_ends_scripts_and_leaves_outputs_as_they_were(
    project: Project, number: signal.Signals, parallel: bool
) -> None:
    started = project.root.parent / "started"
    project.add("alpha")
    project.run("plan")
    data = project.path("benchmarks/alpha/data/alpha.jsonl")
    good = data.read_text()
    script = project.path("benchmarks/alpha/prepare.py")
    script.write_text(
        script.read_text().replace(
            "    return OUT",
            f"    OUT.write_text('half')\n    open({str(started)!r}, 'w').close()\n    import time\n    time.sleep(60)\n    return OUT",
        )
    )
    words = ["run", "-n", "2", "prepare"] if parallel else ["prepare"]
    build = subprocess.Popen(
        [sys.executable, "-m", "gymbuild", "--root", str(project.root), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while not started.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    if number == signal.SIGINT:
        os.killpg(build.pid, number)
    else:
        build.send_signal(number)
    said = build.communicate()[0]
    assert build.returncode == 130, said
    assert data.read_text() == good


@pytest.mark.skipif(sys.platform != "linux", reason="processes are told by /proc")
def test_a_killed_worker_does_not_hang_the_build(project: Project) -> None:
    started = project.root.parent / "started"
    for name in ("alpha", "beta"):
        project.add(name, f"open({str(started)!r}, 'a').close()\nimport time\ntime.sleep(60)\nrows = []")
    build = subprocess.Popen(
        [sys.executable, "-m", "gymbuild", "--root", str(project.root), "run", "-n", "2", "prepare"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not started.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    children = Path(f"/proc/{build.pid}/task/{build.pid}/children").read_text().split()
    os.kill(int(children[0]), signal.SIGKILL)
    said = build.communicate(timeout=60)[0]
    assert build.returncode == 75, said
    assert "was killed from outside" in said
    assert not project.path("benchmarks/alpha/data/alpha.jsonl").exists()


def test_several_builders_at_once_prepare_each_dataset_once(project: Project) -> None:
    for name in ("alpha", "beta", "gamma"):
        project.add(name, "import time\ntime.sleep(0.3)\nrows = [{'task_id': 'x'}]")
    for round_ in range(1, 4):
        for name in ("alpha", "beta", "gamma"):
            script = project.path(f"benchmarks/{name}/prepare.py")
            script.write_text(script.read_text() + f"# round {round_}\n")
        builders = [
            subprocess.Popen(
                [sys.executable, "-m", "gymbuild", "--root", str(project.root), "plan"],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for _ in range(4)
        ]
        said = [builder.communicate()[0] for builder in builders]
        assert [builder.returncode for builder in builders] == [0] * 4, said
        assert "is being prepared by process" in "".join(said)
        for name in ("alpha", "beta", "gamma"):
            assert project.runs(name) == round_
