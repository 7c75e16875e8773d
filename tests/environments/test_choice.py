"""Which environment a script has, what its key holds, and which mistakes are said before anything runs."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import sys
import venv as standard_venv
from collections.abc import Callable
from pathlib import Path

import pytest

from gymbuild.cache.witness import Witness, holds, signature, wait_until_not_racy
from gymbuild.environments.choice import environment_paths
from gymbuild.environments.environment import Environment
from gymbuild.environments.interpreters import search_path
from gymbuild.environments.lock_files import requirement_lines
from gymbuild.system.errors import ConfigError, UsageError
from gymbuild.system.paths import Checkout

from .conftest import SCRIPT, Place, metadata, wheel

HASH = "--hash=sha256:" + "0" * 64
LOCK = f"six==1.17.0 \\\n    {HASH}\n"
UV_LOCK = 'version = 1\nrequires-python = ">=3.9"\n\n[[package]]\nname = "x"\nversion = "0"\nsource = { virtual = "." }\n'
PROJECT = '[project]\nname = "x"\nversion = "0"\nrequires-python = ">=3.9"\n'


def everything(place: Place, name: str = "x") -> None:
    place.write(f"benchmarks/{name}/prepare.py", metadata("six") + SCRIPT)
    place.write(f"benchmarks/{name}/prepare.py.lock", 'version = 1\nrequires-python = ">=3.9"\n')
    place.write(f"benchmarks/{name}/requirements.lock", LOCK)
    place.write(f"benchmarks/{name}/pyproject.toml", PROJECT)
    place.write(f"benchmarks/{name}/uv.lock", UV_LOCK)


def test_dependencies_win_then_the_first_lock_that_is_there(place: Place) -> None:
    everything(place)
    dataset = place.benchmark("x")
    found = [place.environment(place.benchmark("x", dependencies=("six",)))]
    found.append(place.environment(dataset))
    os.unlink(place.root / "benchmarks/x/uv.lock")
    found.append(place.environment(dataset))
    os.unlink(place.root / "benchmarks/x/requirements.lock")
    found.append(place.environment(dataset))
    place.write("benchmarks/x/prepare.py", SCRIPT)
    found.append(place.environment(dataset))
    assert [(env.kind, env.lock) for env in found] == [
        ("dependencies", None),
        ("project", "benchmarks/x/uv.lock"),
        ("requirements", "benchmarks/x/requirements.lock"),
        ("script", "benchmarks/x/prepare.py.lock"),
        ("interpreter", None),
    ]
    assert len({env.key for env in found}) == 5


def test_a_pyproject_without_its_lock_is_passed_over(place: Place) -> None:
    place.write("benchmarks/x/pyproject.toml", PROJECT)
    assert place.environment(place.benchmark("x")).kind == "interpreter"


def test_metadata_without_its_lock_is_an_error_that_names_the_command(place: Place) -> None:
    dataset = place.benchmark("x", metadata("six") + SCRIPT)
    with pytest.raises(ConfigError, match=r"prepare\.py: .*`uv lock --script benchmarks/x/prepare\.py`"):
        place.environment(dataset)


def test_metadata_that_is_no_toml_is_an_error_that_names_the_script(place: Place) -> None:
    dataset = place.benchmark("x", "# /// script\n# dependencies = [\n# ///\n")
    with pytest.raises(ConfigError, match=r"benchmarks/x/prepare\.py: .*not valid TOML"):
        place.environment(dataset)


def test_two_metadata_blocks_are_an_error(place: Place) -> None:
    dataset = place.benchmark("x", metadata("six") + "\n" + metadata("iniconfig") + SCRIPT)
    with pytest.raises(ConfigError, match="two"):
        place.environment(dataset)


def test_a_lock_without_a_hash_is_an_error_with_line_and_command(place: Place) -> None:
    place.write("benchmarks/x/requirements.lock", f"# made by hand\n{LOCK}iniconfig==2.0.0  # no hash\n")
    with pytest.raises(ConfigError) as error:
        place.environment(place.benchmark("x"))
    assert "benchmarks/x/requirements.lock:4: found 'iniconfig==2.0.0' without a hash" in str(error.value)
    assert "uv pip compile --universal --generate-hashes" in str(error.value)


def test_a_lock_that_leads_to_other_files_is_an_error(place: Place) -> None:
    place.write("benchmarks/x/requirements.lock", "-r ../other.txt\n")
    with pytest.raises(ConfigError, match=r"requirements\.lock:1"):
        place.environment(place.benchmark("x"))


def test_requirement_lines_join_what_is_continued_and_drop_comments() -> None:
    text = "# head\nsix==1 \\\n    --hash=sha256:a \\\n    --hash=sha256:b\n    # via x\n\nb @ https://h/b#sha256=c\n"
    assert requirement_lines(text) == [
        (2, "six==1 --hash=sha256:a --hash=sha256:b"),
        (7, "b @ https://h/b#sha256=c"),
    ]


def test_scripts_with_equal_locks_share_a_key(place: Place) -> None:
    for name in ("x", "y"):
        place.write(f"benchmarks/{name}/requirements.lock", f"# made for {name}\n{LOCK}    # via {name}\n")
    x, y = (place.environment(place.benchmark(name)) for name in ("x", "y"))
    assert x.key == y.key


def test_a_key_does_not_depend_on_folder_or_timestamps(place: Place, tmp_path: Path) -> None:
    everything(place)
    place.write("lib/pyproject.toml", PROJECT)
    datasets = [place.benchmark("x"), place.benchmark("x", dependencies=("-e", "lib", "./lib"))]
    before = [place.environment(dataset).key for dataset in datasets]
    other = Place(tmp_path / "elsewhere")
    shutil.copytree(place.root, other.root, copy_function=shutil.copyfile)
    assert [other.environment(dataset).key for dataset in datasets] == before


@pytest.mark.parametrize("name", ["pyproject.toml", "uv.lock"])
def test_what_a_project_installs_is_in_its_key(place: Place, name: str) -> None:
    everything(place)
    before = place.environment(place.benchmark("x"))
    path = place.root / "benchmarks/x" / name
    path.write_text(path.read_text().replace('name = "x"', 'name = "z"'))
    assert place.environment(place.benchmark("x")).key != before.key


def test_prose_in_a_pyproject_is_not_in_the_key(place: Place) -> None:
    everything(place)
    before = place.environment(place.benchmark("x"))
    place.write(
        "benchmarks/x/pyproject.toml",
        f'# a comment\n{PROJECT}description = "d"\n[tool.ruff]\nline-length = 1\n',
    )
    assert place.environment(place.benchmark("x")).key == before.key


def test_a_copied_path_dependency_counts_by_its_sources_an_editable_one_by_its_build_files(
    place: Place,
) -> None:
    place.write("lib/pyproject.toml", PROJECT)
    source = place.write("lib/lib.py", "VALUE = 1\n")
    copied, editable = (place.benchmark("x", dependencies=words) for words in (("./lib",), ("-e", "lib")))
    before = [place.environment(dataset) for dataset in (copied, editable)]
    assert [env.editable for env in before] == [(), ("lib",)]
    source.write_text("VALUE = 2\n")
    after = [place.environment(dataset) for dataset in (copied, editable)]
    assert before[0].key != after[0].key
    assert before[1].key == after[1].key
    place.write("lib/pyproject.toml", PROJECT + 'dependencies = ["six"]\n')
    assert place.environment(editable).key != after[1].key


def test_editable_sources_of_a_locked_project_are_listed(place: Place) -> None:
    everything(place)
    lock = place.root / "benchmarks/x/uv.lock"
    lock.write_text(
        UV_LOCK + '\n[[package]]\nname = "lib"\nversion = "0"\nsource = { editable = "../../lib" }\n'
    )
    assert place.environment(place.benchmark("x")).editable == ("lib",)


def test_files_that_dependencies_name_are_in_the_key(place: Place) -> None:
    file = place.write("requirements.txt", "six\n")
    dataset = place.benchmark("x", dependencies=("-r", "requirements.txt"))
    before = place.environment(dataset)
    assert before.inputs == ("requirements.txt",)
    file.write_text("iniconfig\n")
    assert place.environment(dataset).key != before.key


@pytest.mark.parametrize("words", [("-e",), ("-e", "nowhere"), ("-r", "nowhere.txt"), ("./nowhere.whl",)])
def test_a_path_that_is_not_there_is_an_error_naming_config_and_key(
    place: Place, words: tuple[str, ...]
) -> None:
    with pytest.raises(ConfigError, match=r"benchmarks/x/config\.yaml: prepare_dependencies: "):
        place.environment(place.benchmark("x", dependencies=words))


@pytest.mark.parametrize("word", ["--system", "--target=here", "-t", "--python=3.12", "-p3.12", "--prefix"])
def test_words_that_install_elsewhere_are_refused(place: Place, word: str) -> None:
    with pytest.raises(ConfigError, match="install elsewhere"):
        place.environment(place.benchmark("x", dependencies=("six", word)))


def test_a_password_in_an_index_url_is_not_in_the_title(place: Place) -> None:
    words = ("--index-url", "https://user:hunter2@example.invalid/simple", "six")
    assert "hunter2" not in place.environment(place.benchmark("x", dependencies=words)).title


def test_requires_python_decides_where_given_and_python_where_not(
    place: Place, needs_python: Callable[[str], str]
) -> None:
    older, newer = ("3.9", "3.12") if sys.version_info[:2] != (3, 12) else ("3.9", "3.13")
    needs_python(older)
    needs_python(newer)
    everything(place)
    place.write("benchmarks/x/pyproject.toml", PROJECT.replace(">=3.9", f"=={older}.*"))
    dataset = place.benchmark("x")
    assert place.environment(dataset, newer).version.startswith(older + ".")
    place.write("benchmarks/y/requirements.lock", LOCK)
    assert place.environment(place.benchmark("y"), newer).version.startswith(newer + ".")
    place.write("benchmarks/z/requirements.lock", LOCK)
    z = place.benchmark("z", metadata(requires=f"=={older}.*") + SCRIPT)
    assert place.environment(z, newer).version.startswith(older + ".")


def test_python_may_be_a_path_a_venv_or_a_version(place: Place) -> None:
    standard_venv.create(place.root / "other", with_pip=False)
    dataset = place.benchmark("x")
    own = str(place.root / "other/bin/python")
    assert place.environment(dataset, own).python == own
    assert place.environment(dataset, "other").python == own
    major, minor = sys.version_info[:2]
    assert place.environment(dataset, f"{major}.{minor}").version == sys.version.split()[0]


def test_a_python_that_is_not_there_is_a_usage_error(place: Place) -> None:
    for python in ("no/such/python", "3.99"):
        with pytest.raises(UsageError, match=f"python={python}"):
            place.environment(place.benchmark("x"), python)


def test_a_requires_python_that_nothing_here_fits_is_an_error_that_names_the_file(place: Place) -> None:
    dataset = place.benchmark("x", metadata(requires=">=3.99") + SCRIPT)
    place.write("benchmarks/x/prepare.py.lock", "version = 1\n")
    with pytest.raises(ConfigError, match=r"benchmarks/x/prepare\.py: requires-python: .*>=3\.99"):
        place.environment(dataset)


def test_without_any_lock_the_checkouts_own_venv_is_taken_else_the_running_python(place: Place) -> None:
    dataset = place.benchmark("x")
    assert place.environment(dataset).python == os.path.abspath(sys.executable)
    standard_venv.create(place.root / ".venv", with_pip=False)
    assert place.environment(dataset).python == str(place.root / ".venv/bin/python")


def test_what_an_interpreter_has_installed_is_in_its_key(place: Place) -> None:
    standard_venv.create(place.root / ".venv", with_pip=False)
    dataset = place.benchmark("x")
    python = str(place.root / ".venv/bin/python")

    def install(version: str, source: str) -> str:
        file = wheel(place.root / "wheels", "tinypackage", version, source)
        place.uv("pip", "install", "--offline", "--no-cache", "--reinstall", str(file), python=python)
        return place.environment(dataset).key

    keys = [place.environment(dataset).key]
    keys += [install("1.0", "VALUE = 1\n"), install("1.1", "VALUE = 1\n"), install("1.1", "VALUE = 22\n")]
    assert len(set(keys)) == 4
    assert install("1.0", "VALUE = 1\n") == keys[1]


def test_interpreters_are_started_once(
    place: Place, needs_python: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = "3.12" if sys.version_info[:2] != (3, 12) else "3.13"
    needs_python(other)
    place.write("benchmarks/x/requirements.lock", LOCK)
    datasets = [place.benchmark("x"), place.benchmark("y")]
    before = [place.environment(dataset, other) for dataset in datasets]

    def started(*arguments: object, **more: object) -> None:
        raise AssertionError(f"a process was started: {arguments}")

    monkeypatch.setattr(subprocess, "Popen", started)
    monkeypatch.setattr(os, "fork", started)
    monkeypatch.setattr("gymbuild.cache.database._databases", {})
    assert [place.environment(dataset, other) for dataset in datasets] == before


def test_an_interpreter_that_was_replaced_is_looked_at_again(place: Place) -> None:
    python = place.root / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    wait_until_not_racy([signature(str(python))])  # a younger one would not be remembered at all
    dataset = place.benchmark("x")
    place.environment(dataset, "./python")
    python.write_text("#!/bin/sh\necho changed >&2; exit 1\n")
    with pytest.raises(UsageError, match="does not run"):
        place.environment(dataset, "./python")


def test_pyenv_shims_stand_for_all_the_versions_behind_them(tmp_path: Path) -> None:
    for version in ("3.9.1", "3.12.1", "3.10.2"):
        (tmp_path / "versions" / version / "bin").mkdir(parents=True)
    (tmp_path / "shims").mkdir()
    folders = search_path(f"/first:{tmp_path}/shims:/last").split(":")
    expected = [f"{tmp_path}/versions/{version}/bin" for version in ("3.12.1", "3.10.2", "3.9.1")]
    assert folders == ["/first", *expected, "/last"]


def appears(path: str, text: str) -> Callable[[Place], object]:
    return lambda place: place.write(path, text)


def witness_of(env: Environment, checkout: Checkout) -> Witness:
    paths = environment_paths(env, checkout)
    return tuple((path, signature(checkout.absolute(path))) for path in paths), ()


CHANGES: dict[str, Callable[[Place], object]] = {
    "a project's lock appears": appears("benchmarks/x/uv.lock", UV_LOCK),
    "a requirements.lock appears": appears("benchmarks/x/requirements.lock", LOCK),
    "inline metadata appear": appears("benchmarks/x/prepare.py", metadata() + SCRIPT),
    "the checkout gets a venv": lambda place: standard_venv.create(place.root / ".venv", with_pip=False),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_witness_stops_holding_when_the_answer_could_change(place: Place, change: str) -> None:
    dataset = place.benchmark("x")
    env = place.environment(dataset)
    witness = witness_of(env, place.checkout)
    assert holds(witness, place.checkout.root)
    CHANGES[change](place)
    assert not holds(witness, place.checkout.root)


def test_a_witness_of_an_interpreter_sees_what_is_installed(place: Place) -> None:
    standard_venv.create(place.root / ".venv", with_pip=False)
    env = place.environment(place.benchmark("x"))
    witness = witness_of(env, place.checkout)
    file = wheel(place.root / "wheels", "tinypackage")
    place.uv("pip", "install", "--offline", str(file), python=str(place.root / ".venv/bin/python"))
    assert not holds(witness, place.checkout.root)


def test_a_witness_of_dependencies_sees_the_sources_that_are_copied(place: Place) -> None:
    place.write("lib/pyproject.toml", PROJECT)
    source = place.write("lib/package/lib.py", "VALUE = 1\n")
    env = place.environment(place.benchmark("x", dependencies=("./lib",)))
    witness = witness_of(env, place.checkout)
    assert holds(witness, place.checkout.root)
    source.write_text("VALUE = 2\n")
    assert not holds(witness, place.checkout.root)


def test_choosing_imports_nothing_that_is_heavy(place: Place) -> None:
    everything(place)
    code = (
        "import sys\n"
        "from gymbuild.environments.choice import environment_for, environment_paths\n"
        "from gymbuild.config.datasets import Dataset\n"
        "from gymbuild.system.paths import Checkout\n"
        f"d = Dataset(**{dataclasses.asdict(place.benchmark('x'))!r})\n"
        "c = Checkout('.')\n"
        "env = environment_for(d, c)\n"
        "environment_paths(env, c)\n"
        "print(sorted({'pydantic', 'omegaconf', 'yaml', 'rich', 'uv', 'subprocess', 'filelock'} & set(sys.modules)))"
    )
    import gymbuild

    answer = subprocess.run(
        [sys.executable, "-c", code],
        cwd=place.root,
        env={**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(gymbuild.__file__))},
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout.strip() == "[]"
