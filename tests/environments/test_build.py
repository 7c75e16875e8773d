"""Environments are built by real uv: what the lock says, whole or not at all, once per key."""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from gymbuild.config.datasets import Dataset
from gymbuild.environments.build import MARKER, is_built, venv_path, venv_python
from gymbuild.environments.environment import Environment
from gymbuild.environments.failure import may_pass
from gymbuild.system.errors import PreparationFailedError, PreparationMayPassError

from .conftest import SCRIPT, Place, metadata, versions_in, wheel

MAKERS: dict[str, Callable[[Place], Dataset]] = {
    "project": lambda place: place.project("x", "six==1.16.0"),
    "requirements": lambda place: place.requirements("x", "six==1.16.0"),
    "script": lambda place: place.inline("x", "six==1.16.0"),
    "dependencies": lambda place: place.benchmark("x", dependencies=("six==1.16.0",)),
}


@pytest.mark.parametrize("kind", MAKERS)
def test_each_kind_installs_what_was_asked_for_into_a_venv_of_its_own(place: Place, kind: str) -> None:
    env = place.environment(MAKERS[kind](place))
    assert env.kind == kind
    assert not is_built(env, place.checkout)
    said: list[str] = []
    python = place.build(env, report=said.append)
    found = versions_in(python)
    assert found["six"] == "1.16.0"
    assert found["prefix"] == str(place.root / ".cache/venvs" / env.key)
    assert python == venv_python(env, place.checkout)
    assert is_built(env, place.checkout)
    assert len(said) == 1 and env.title in said[0]
    assert place.build(env, report=said.append) == python
    assert len(said) == 1, "what is built is not built again"


@pytest.mark.parametrize("version", ["3.9", "3.11", "3.12", "3.13"])
@pytest.mark.parametrize("kind", ["requirements", "dependencies"])
def test_python_chooses_the_interpreter_of_the_venv(
    place: Place, needs_python: Callable[[str], str], kind: str, version: str
) -> None:
    needs_python(version)
    env = place.environment(MAKERS[kind](place), version)
    found = versions_in(place.build(env))
    assert found["python"].startswith(version + ".")
    assert found["six"] == "1.16.0"


@pytest.mark.parametrize("version", ["3.9", "3.11", "3.12", "3.13"])
def test_requires_python_chooses_the_interpreter_of_the_venv(
    place: Place, needs_python: Callable[[str], str], version: str
) -> None:
    python = needs_python(version)
    requires = f"=={version}.*"
    project = place.benchmark("a")
    place.write(
        "benchmarks/a/pyproject.toml",
        f'[project]\nname = "a"\nversion = "0"\nrequires-python = "{requires}"\ndependencies = ["six==1.16.0"]\n',
    )
    place.uv("lock", "--project", "benchmarks/a", python=python)
    inline = place.benchmark("b", metadata("six==1.16.0", requires=requires) + SCRIPT)
    place.uv("lock", "--script", "benchmarks/b/prepare.py", python=python)
    for dataset in (project, inline):
        found = versions_in(place.build(place.environment(dataset)))
        assert found["python"].startswith(version + ".")
        assert found["six"] == "1.16.0"


def test_a_project_without_requires_python_gets_the_one_that_it_was_locked_for(
    place: Place, needs_python: Callable[[str], str]
) -> None:
    other = "3.13" if sys.version_info[:2] != (3, 13) else "3.12"
    python = needs_python(other)
    place.write(
        "benchmarks/x/pyproject.toml", '[project]\nname = "x"\nversion = "0"\ndependencies = ["six"]\n'
    )
    place.uv("lock", "--project", "benchmarks/x", python=python)
    env = place.environment(place.benchmark("x"))
    if sys.version_info[:2] < (3, 13):
        assert env.version.startswith(other + ".")
    assert "six" in versions_in(place.build(env))


def test_a_locked_project_with_an_editable_source_sees_its_edits(place: Place) -> None:
    build = '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
    place.write("lib/pyproject.toml", f'[project]\nname = "lib"\nversion = "1"\n{build}')
    source = place.write("lib/lib/__init__.py", "VALUE = 1\n")
    dataset = place.project(
        "x", "lib", more='[tool.uv.sources]\nlib = { path = "../../lib", editable = true }\n'
    )
    env = place.environment(dataset)
    assert env.editable == ("lib",)
    python = place.build(env)

    def value() -> str:
        code = "import lib; print(lib.VALUE)"
        return subprocess.run(
            [python, "-Bc", code], capture_output=True, text=True, check=True
        ).stdout.strip()

    assert value() == "1"
    source.write_text("VALUE = 2222\n")
    assert value() == "2222"


def test_an_editable_dependency_is_relative_to_the_checkout_and_says_which_python(
    place: Place, needs_python: Callable[[str], str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = "3.12" if sys.version_info[:2] != (3, 12) else "3.13"
    needs_python(other)
    build = '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
    place.write(
        "lib/pyproject.toml",
        f'[project]\nname = "lib"\nversion = "1"\nrequires-python = "=={other}.*"\ndependencies = ["six"]\n{build}',
    )
    place.write("lib/lib/__init__.py", "")
    monkeypatch.chdir(tmp_path)
    env = place.environment(place.benchmark("x", dependencies=("-e", "lib")))
    found = versions_in(place.build(env))
    assert found["lib"] == "1" and "six" in found
    assert found["python"].startswith(other + ".")


def test_dependencies_never_reach_gymbuilds_own_environment(
    place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own = tmp_path / "own"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", own], check=True)
    monkeypatch.setenv("VIRTUAL_ENV", str(own))
    monkeypatch.setenv("UV_SYSTEM_PYTHON", "1")
    file = wheel(tmp_path / "wheels", "tinypackage")
    place.build(place.environment(place.benchmark("x", dependencies=(str(file),))))
    assert set(versions_in(str(own / "bin/python"))) == {"python", "prefix"}


def test_the_interpreter_kind_builds_nothing(place: Place) -> None:
    env = place.environment(place.benchmark("x"))
    assert is_built(env, place.checkout)
    assert place.build(env) == os.path.abspath(sys.executable)
    assert not (place.root / ".cache/venvs").exists()


def test_environments_lie_where_uv_venv_dir_says(place: Place, tmp_path: Path) -> None:
    env = place.environment(offline_dataset(place))
    for venv_dir, folder in (("venvs", place.root / "venvs"), (str(tmp_path / "far"), tmp_path / "far")):
        assert place.build(env, venv_dir=venv_dir) == str(folder / env.key / "bin/python")
        assert is_built(env, place.checkout, venv_dir=venv_dir)


def test_a_requirements_lock_without_packages_is_a_venv_without_packages(place: Place) -> None:
    place.write("benchmarks/x/requirements.lock", "# nothing\n")
    found = versions_in(place.build(place.environment(place.benchmark("x"))))
    assert set(found) == {"python", "prefix"}


# -- what cannot be built --------------------------------------------------------------------------------------


def test_a_hash_that_does_not_fit_is_a_failure(place: Place) -> None:
    dataset = place.requirements("x", "six==1.16.0")
    lock = place.root / "benchmarks/x/requirements.lock"
    text = lock.read_text()
    lock.write_text("".join(_other_hash(line) for line in text.splitlines(keepends=True)))
    env = place.environment(dataset)
    with pytest.raises(PreparationFailedError, match="by its hash") as error:
        place.build(env)
    assert not isinstance(error.value, PreparationMayPassError)
    assert error.value.module == "benchmarks.x.prepare"
    assert error.value.action == "environment"
    assert "Hash mismatch" in error.value.reason
    assert not is_built(env, place.checkout)


def _other_hash(line: str) -> str:
    head, mark, digits = line.partition("--hash=sha256:")
    return head + mark + ("0" if digits[0] != "0" else "1") + digits[1:] if mark else line


def test_a_lock_that_does_not_fit_its_pyproject_is_a_failure_that_says_uv_lock(place: Place) -> None:
    dataset = place.project("x", "six==1.16.0")
    project = place.root / "benchmarks/x/pyproject.toml"
    project.write_text(project.read_text().replace("1.16.0", "1.17.0"))
    with pytest.raises(PreparationFailedError, match="Run `uv lock --project benchmarks/x`") as error:
        place.build(place.environment(dataset))
    assert error.value.stop_exit_code == 76


def test_a_script_lock_that_does_not_fit_is_a_failure_that_says_uv_lock_script(place: Place) -> None:
    dataset = place.inline("x", "six==1.16.0")
    place.benchmark("x", metadata("six==1.17.0") + SCRIPT)
    with pytest.raises(
        PreparationFailedError, match=r"Run `uv lock --script benchmarks/x/prepare\.py`"
    ) as error:
        place.build(place.environment(dataset))
    assert error.value.stop_exit_code == 76


def test_a_damaged_lock_is_a_failure_that_says_uv_lock(place: Place) -> None:
    dataset = place.project("x", "six==1.16.0")
    place.write("benchmarks/x/uv.lock", "<<<<<<< ours\n")
    with pytest.raises(PreparationFailedError, match="Run `uv lock --project benchmarks/x`") as error:
        place.build(place.environment(dataset))
    assert error.value.stop_exit_code == 76


def test_what_cannot_be_resolved_is_a_failure(place: Place) -> None:
    dataset = place.benchmark("x", dependencies=("six<1.16", "six>1.16"))
    with pytest.raises(PreparationFailedError, match="prepare_dependencies") as error:
        place.build(place.environment(dataset))
    assert error.value.stop_exit_code == 76


def test_a_package_that_does_not_build_is_a_failure(place: Place) -> None:
    place.write(
        "lib/pyproject.toml",
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n',
    )
    place.write("lib/backend.py", "raise SystemExit('connection refused, says this package')\n")
    with pytest.raises(PreparationFailedError) as error:
        place.build(place.environment(place.benchmark("x", dependencies=("./lib",))))
    assert error.value.stop_exit_code == 76


@pytest.mark.parametrize("kind", MAKERS)
def test_offline_without_a_filled_cache_may_pass(
    place: Place, kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    dataset = MAKERS[kind](place)
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "empty"))
    with pytest.raises(PreparationMayPassError, match="offline") as error:
        place.build(place.environment(dataset), offline=True)
    assert error.value.stop_exit_code == 75


@pytest.mark.parametrize("kind", MAKERS)
def test_offline_with_a_filled_cache_builds(place: Place, kind: str) -> None:
    env = place.environment(MAKERS[kind](place))
    place.build(env)
    shutil.rmtree(place.root / ".cache")
    assert "six" in versions_in(place.build(env, offline=True))


class Answers(BaseHTTPRequestHandler):
    """An index that answers every request with one status."""

    status = 503

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def index() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/simple"
    server.shutdown()
    server.server_close()


def test_an_index_that_cannot_be_reached_or_is_down_may_pass(
    place: Place, monkeypatch: pytest.MonkeyPatch, index: str, tmp_path: Path
) -> None:
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    env = place.environment(place.benchmark("x", dependencies=("six",)))
    for url in (index, "http://127.0.0.1:9/simple"):
        monkeypatch.setenv("UV_DEFAULT_INDEX", url)
        with pytest.raises(PreparationMayPassError, match="could not be reached"):
            place.build(env)


@pytest.mark.parametrize(
    ("output", "offline", "expected"),
    [
        (
            "error: Request failed\n  cause: dns error\n  cause: failed to lookup address information",
            False,
            True,
        ),
        ("  cause: error sending request for url (https://h/)\n  cause: operation timed out", False, True),
        ("  cause: HTTP status client error (404 Not Found) for url (https://h/six/)", False, False),
        ("  cause: HTTP status client error (429 Too Many Requests) for url (https://h/six/)", False, True),
        ("  cause: HTTP status server error (502 Bad Gateway) for url (https://h/six/)", False, True),
        ("fatal: unable to access 'https://h/': Could not resolve host: h", False, True),
        ("error: No solution found when resolving dependencies", False, False),
        ("error: No solution found when resolving dependencies", True, True),
        (
            "Failed to build `x`\nThe build backend returned an error\n[stderr]\nConnection refused",
            False,
            False,
        ),
        ("The build backend returned an error\n[stderr]\nNo space left on device (os error 28)", False, True),
        ("Hash mismatch for `six==1.16.0`", True, False),
    ],
)
def test_what_may_pass(output: str, offline: bool, expected: bool) -> None:
    assert may_pass(output, offline) is expected


def test_a_secret_in_uvs_words_is_masked(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INDEX_TOKEN", "no-such-package-hunter2")
    place.write("no-such-package-hunter2.whl", "no wheel at all")
    env = place.environment(place.benchmark("x", dependencies=("./no-such-package-hunter2.whl",)))
    with pytest.raises(PreparationFailedError, match=r"uv said:(.|\n)*\*\*\*") as error:
        place.build(env)
    assert "hunter2" not in str(error.value)


# -- whole or not at all ---------------------------------------------------------------------------------------


def offline_dataset(place: Place, name: str = "x") -> Dataset:
    """A dataset whose environment needs no index."""
    file = wheel(place.root / "wheels", "tinypackage")
    return place.benchmark(name, dependencies=(os.path.relpath(file, place.root),))


def slow_dataset(place: Place) -> Dataset:
    """A dataset whose environment takes a package that never ends to build, until `lib/go` is there.

    Each try leaves a line with the process that builds it in `lib/tries`.
    """
    place.write(
        "lib/pyproject.toml",
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n',
    )
    place.write("lib/backend.py", _BACKEND)
    place.write("lib/slow.py", "")
    return place.benchmark("x", dependencies=("-e", "lib"))


_BACKEND = """
import base64, hashlib, os, time, zipfile

def build_editable(folder, config_settings=None, metadata_directory=None):
    with open("tries", "a") as file:
        file.write(f"{os.getpid()}\\n")
    deadline = time.monotonic() + 60
    while not os.path.exists("go") and time.monotonic() < deadline:
        time.sleep(0.01)
    files = {
        "slow.pth": os.getcwd() + "\\n",
        "slow-1.dist-info/METADATA": "Metadata-Version: 2.1\\nName: slow\\nVersion: 1\\n",
        "slow-1.dist-info/WHEEL": "Wheel-Version: 1.0\\nGenerator: t\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    }
    digest = lambda text: base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
    files["slow-1.dist-info/RECORD"] = "".join(f"{n},sha256={digest(t)},{len(t)}\\n" for n, t in files.items())
    with zipfile.ZipFile(os.path.join(folder, "slow-1-py3-none-any.whl"), "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return "slow-1-py3-none-any.whl"
"""

BUILDER = """
import pickle, sys
from gymbuild.environments.build import build_environment
from gymbuild.system.paths import Checkout
env = pickle.loads(bytes.fromhex(sys.argv[2]))
say = lambda line: print(line, flush=True)
say(build_environment(env, Checkout(sys.argv[1]), module="m", report=say))
"""


def builder(place: Place, env: Environment) -> subprocess.Popen[str]:
    """gymbuild building an environment, as a process of its own."""
    import gymbuild

    return subprocess.Popen(
        [sys.executable, "-c", BUILDER, str(place.root), pickle.dumps(env).hex()],
        env={**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(gymbuild.__file__))},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def tries(place: Place) -> list[int]:
    path = place.root / "lib/tries"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    # a zombie has ended; whoever adopts it has just not collected it yet
    return not (stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_builder_that_dies_takes_uv_along_and_the_next_one_builds(
    place: Place, number: signal.Signals
) -> None:
    env = place.environment(slow_dataset(place))
    process = builder(place, env)
    wait_for(lambda: tries(place))
    process.send_signal(number)
    process.wait()
    assert process.stdout and process.stderr
    process.stdout.close()
    process.stderr.close()
    wait_for(lambda: not is_alive(tries(place)[0]))
    assert not is_built(env, place.checkout)
    place.write("lib/go", "")
    assert "slow" in versions_in(place.build(env))
    assert len(tries(place)) == 2


def test_the_lock_of_a_killed_builder_is_held_until_its_last_process_is_gone(place: Place) -> None:
    env = place.environment(slow_dataset(place))
    first = builder(place, env)
    wait_for(lambda: tries(place))
    guard = os.getpgid(tries(place)[0])
    os.kill(guard, signal.SIGSTOP)  # so that what is left of the first build does not end yet
    try:
        first.kill()
        first.communicate()
        second = builder(place, env)
        assert second.stdout and "waiting for" in second.stdout.readline()
        # The kernel wakes a stopped group whose parent is gone, so the first build may end at any time from here;
        # what must never be is a second one beside it.
        assert len(tries(place)) == 1 or not is_alive(tries(place)[0])
        place.write("lib/go", "")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(guard, signal.SIGCONT)
    second.communicate()
    assert second.returncode == 0
    assert "slow" in versions_in(venv_python(env, place.checkout))


def test_an_unfinished_venv_is_thrown_away(place: Place) -> None:
    env = place.environment(offline_dataset(place))
    python = place.build(env)
    venv = Path(venv_path(env, place.checkout))
    os.unlink(venv / MARKER)
    (venv / "half").write_text("")
    assert not is_built(env, place.checkout)
    assert place.build(env) == python
    assert not (venv / "half").exists()


def test_of_several_builders_one_builds_and_the_others_wait(place: Place) -> None:
    env = place.environment(slow_dataset(place))
    first = builder(place, env)
    wait_for(lambda: tries(place))
    others = [builder(place, env) for _ in range(2)]
    lines = [other.stdout.readline() for other in others if other.stdout]
    assert all(f"waiting for process {first.pid}" in line for line in lines)
    place.write("lib/go", "")
    answers = [process.communicate()[0].splitlines()[-1] for process in (first, *others)]
    assert answers == [venv_python(env, place.checkout)] * 3
    assert len(tries(place)) == 1


def test_uv_killed_from_outside_may_pass(place: Place) -> None:
    env = place.environment(slow_dataset(place))
    failed: list[Exception] = []

    def build() -> None:
        try:
            place.build(env)
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=build)
    thread.start()
    wait_for(lambda: tries(place))
    backend = tries(place)[0]
    # the whole group, as the system's out-of-memory killer or an administrator would
    os.killpg(os.getpgid(backend), signal.SIGKILL)
    thread.join()
    assert [type(error) for error in failed] == [PreparationMayPassError]
    assert "SIGKILL" in str(failed[0])


def test_a_venv_whose_python_does_not_run_is_built_anew(place: Place) -> None:
    env = place.environment(offline_dataset(place))
    python = Path(place.build(env))
    for damage in ("gone", "broken"):
        python.unlink()
        if damage == "broken":
            python.write_text("#!/bin/sh\nexit 1\n")
            python.chmod(0o755)
        assert "tinypackage" in versions_in(place.build(env))


def test_a_venv_that_was_changed_by_hand_is_built_anew(place: Place) -> None:
    env = place.environment(offline_dataset(place))
    python = place.build(env)
    other = wheel(place.root / "wheels", "otherpackage")
    place.uv("pip", "install", "--offline", str(other), python=python)
    assert not is_built(env, place.checkout)
    assert "otherpackage" not in versions_in(place.build(env))


def test_a_checkout_that_was_moved_builds_its_venvs_anew(place: Place, tmp_path: Path) -> None:
    dataset = offline_dataset(place)
    place.build(place.environment(dataset))
    place.root.rename(tmp_path / "moved")
    moved = Place(tmp_path / "moved")
    env = moved.environment(dataset)
    assert not is_built(env, moved.checkout)
    assert versions_in(moved.build(env))["prefix"].startswith(str(moved.root))


def test_two_checkouts_that_share_a_folder_do_not_share_an_editable_venv(
    place: Place, tmp_path: Path
) -> None:
    place.write("lib/go", "")
    dataset = slow_dataset(place)
    other = Place(tmp_path / "other")
    shutil.copytree(place.root, other.root)
    pythons = []
    for each in (place, other):
        python = each.build(each.environment(dataset), venv_dir=str(tmp_path / "venvs"))
        code = "import slow; print(slow.__file__)"
        found = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout
        assert found.strip() == str(each.root / "lib/slow.py")
        pythons.append(python)
    assert pythons[0] != pythons[1]


def test_venvs_may_be_deleted_at_any_time(place: Place) -> None:
    env = place.environment(offline_dataset(place))
    place.build(env)
    shutil.rmtree(place.root / ".cache/venvs")
    assert not is_built(env, place.checkout)
    assert "tinypackage" in versions_in(place.build(env))


def test_a_folder_that_cannot_be_written_is_a_clear_error(place: Place) -> None:
    place.write("venvs", "a file in the way")
    env = place.environment(offline_dataset(place))
    with pytest.raises(PreparationMayPassError, match="cannot be built in"):
        place.build(env, venv_dir="venvs")
