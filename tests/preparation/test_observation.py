"""docs/observation.md, line by line, on each Python: what is seen of a run, and what is not."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gymbuild.preparation.observations import Observations, presence

from .places import SCRIPT, VERSIONS, ScriptCheckout, find_python

DOCUMENT = Path(__file__).parents[2] / "docs" / "observation.md"


@dataclass
class Case:
    line: str
    """How its line in the document begins."""
    body: str
    """What `prepare` does."""
    files: dict[str, str] = field(default_factory=dict)
    """Path → text, besides those that each checkout here has."""
    imported: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    present: dict[str, str] = field(default_factory=dict)
    listed: dict[str, tuple[str, ...]] = field(default_factory=dict)
    absent: tuple[str, ...] = ()
    """Paths that are not input of any kind."""
    outputs: tuple[str, ...] = ()
    venv: bool = False
    """Runs in a virtual environment at `.venv` in the checkout."""


CASES = [
    Case(
        "A module of the checkout that is imported",
        "import pack.part",
        {"pack/__init__.py": "", "pack/part.py": "import shared.helper"},
        imported=(SCRIPT, "pack/__init__.py", "pack/part.py", "shared/helper.py"),
    ),
    Case(
        "A module of the checkout whose `.pyc`",
        """
        import py_compile
        py_compile.compile("shared/helper.py", doraise=True)
        import shared.helper
        """,
        imported=("shared/helper.py",),
    ),
    Case(
        "A module of the checkout that exists only as a compiled",
        """
        subprocess.run([sys.executable, "-I", "-c", "import py_compile; "
                        "py_compile.compile('shared/helper.py', 'shared/only.pyc')"], check=True)
        import shared.only
        """,
        imported=("shared/only.pyc",),
    ),
    Case(
        "A prepare script that another one imports",
        "from benchmarks.other.prepare import prepare as other; other()",
        {
            "benchmarks/other/prepare.py": "from .words import WORDS\ndef prepare(): return WORDS\n",
            "benchmarks/other/words.py": "WORDS = []\n",
        },
        imported=("benchmarks/other/prepare.py", "benchmarks/other/words.py"),
    ),
    Case(
        "A module that is loaded by its path",
        """
        import importlib.util, runpy
        spec = importlib.util.spec_from_file_location("anything", "shared/helper.py")
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
        runpy.run_path("shared/main.py")
        """,
        imported=("shared/helper.py",),
        data=("shared/main.py",),
    ),
    Case(
        "A module found elsewhere, or nowhere",
        """
        import colorsys
        try:
            import surely_not_there
        except ImportError:
            pass
        """,
        missing=(
            "colorsys.py",
            "colorsys/__init__.py",
            "surely_not_there.py",
            "surely_not_there/__init__.py",
        ),
    ),
    Case(
        "A module of the checkout that another kind",
        "import shared.helper",
        imported=("shared/helper.py",),
        missing=("shared/helper/__init__.py", "shared/helper.so", "shared/__init__.py", "shared.py"),
    ),
    Case(
        "A file that is opened for reading",
        """
        import gzip, io
        open("shared/a.txt").close()
        io.open(os.path.abspath("shared/b.txt"), "rb").close()
        os.close(os.open("shared/c.txt", os.O_RDONLY))
        Path("benchmarks/../shared/d.txt").read_text()
        try:
            gzip.open(b"shared/main.py").read()
        except OSError:
            pass
        """,
        data=("shared/a.txt", "shared/b.txt", "shared/c.txt", "shared/d.txt", "shared/main.py"),
        absent=("benchmarks/../shared/d.txt",),
    ),
    Case(
        "A file that is opened relative to an open folder",
        """
        folder = os.open("shared", os.O_RDONLY)
        os.close(os.open("a.txt", os.O_RDONLY, dir_fd=folder))
        os.stat("b.txt", dir_fd=folder)
        """,
        data=("shared/a.txt", "shared/b.txt"),
        absent=("a.txt", "b.txt"),
    ),
    Case(
        "A file that is opened by way of a symlink",
        "open('shared/link.txt').close(); open('linked/a.txt').close()",
        data=("shared/link.txt", "linked/a.txt"),
        absent=("shared/a.txt",),
    ),
    Case(
        "A symlink that is read or resolved",
        """
        os.readlink("shared/link.txt")
        (Path("linked") / "a.txt").resolve().read_text()
        """,
        data=("shared/a.txt",),
        present={"shared/link.txt": "link:a.txt:file", "linked": "link:shared:folder"},
    ),
    Case(
        "A path that is opened and is not there",
        """
        for path in ("shared/nothing.txt", "no/where.txt"):
            try:
                open(path)
            except OSError:
                pass
        """,
        missing=("shared/nothing.txt", "no/where.txt"),
    ),
    Case(
        "A path that is looked for and is not there",
        """
        os.path.exists("n1"), os.path.isfile("n2"), os.path.isdir(b"n3"), os.path.lexists("n4"), os.path.islink("n5")
        Path("n6").exists(), Path("n7").is_file(), Path("n8").is_dir(), os.access("n9", os.R_OK)
        try:
            os.stat(path="n10")
        except OSError:
            pass
        list(Path("n11").glob("*.txt")), os.path.exists("shared/a.txt/n12")
        """,
        missing=(*(f"n{number}" for number in range(1, 11)), "shared/a.txt/n12"),
    ),
    Case(
        "A path that is looked for and is there",
        """
        os.path.exists("shared/a.txt"), os.path.isdir("shared"), Path("shared/b.txt").is_file()
        Path("pack").exists(), os.access("shared/c.txt", os.R_OK)
        """,
        {"pack/part.py": ""},
        present={
            "shared/a.txt": "file",
            "shared/b.txt": "file",
            "shared/c.txt": "file",
            "shared": "folder",
            "pack": "folder",
        },
    ),
    Case(
        "A file that `os.stat`",
        "os.stat('shared/a.txt'); os.path.getsize('shared/b.txt'); Path('shared/c.txt').stat().st_size",
        data=("shared/a.txt", "shared/b.txt", "shared/c.txt"),
    ),
    Case(
        "A folder that is listed",
        """
        import glob
        os.listdir("l1")
        list(os.scandir("l2"))
        list(os.walk("l3"))
        glob.glob("l4/*.txt")
        list(Path("l5").iterdir())
        list(Path("l6").glob("*.txt"))
        os.listdir(os.open("l7", os.O_RDONLY))
        """,
        {f"l{number}/{name}": "" for number in range(1, 8) for name in ("one.txt", "sub/two.txt")},
        listed={
            **{f"l{number}": ("one.txt", "sub") for number in range(1, 8)},
            "l3/sub": ("two.txt",),
        },
    ),
    Case(
        "An SQLite database that is opened",
        "import sqlite3; sqlite3.connect('shared/base.db').close(); sqlite3.connect('shared/new.db').close()",
        {"shared/base.db": ""},
        data=("shared/base.db",),
        absent=("shared/new.db",),
    ),
    Case(
        "A shared library that is loaded",
        """
        import ctypes
        try:
            ctypes.CDLL("shared/lib.so")
        except OSError:
            pass
        """,
        {"shared/lib.so": "not really"},
        data=("shared/lib.so",),
    ),
    Case(
        "Python children of `subprocess`",
        """
        subprocess.run([sys.executable, "-c", "open('shared/a.txt')"], check=True)
        subprocess.check_call([sys.executable, "-m", "shared.main"])
        subprocess.check_call([sys.executable, "child.py"], cwd="shared")
        """,
        {"shared/child.py": "import helper\nopen('b.txt')\n"},
        imported=("shared/main.py", "shared/helper.py", "shared/child.py"),
        data=("shared/a.txt", "shared/b.txt"),
    ),
    Case(
        "Python children that are given an environment",
        """
        subprocess.run([sys.executable, "-c", "open('shared/a.txt')"], check=True, env={})
        own = {**os.environ, "PYTHONPATH": "shared"}
        subprocess.run([sys.executable, "-c", "import helper; open('shared/b.txt')"], check=True, env=own)
        os.environ.clear()
        subprocess.run([sys.executable, "-c", "open('shared/c.txt')"], check=True)
        """,
        imported=("shared/helper.py",),
        data=("shared/a.txt", "shared/b.txt", "shared/c.txt"),
    ),
    Case(
        "Python children by way of a shell",
        """
        assert os.system(sys.executable + " -c 'open(\\"shared/a.txt\\")'") == 0
        subprocess.run(["sh", "-c", sys.executable + " -c 'open(\\"shared/b.txt\\")'"], check=True)
        pid = os.fork()
        if not pid:
            os.execve(sys.executable, [sys.executable, "-c", "open('shared/c.txt')"], {"A": "b"})
        os.waitpid(pid, 0)
        pid = os.posix_spawn(sys.executable, [sys.executable, "-c", "open('shared/d.txt')"], {"A": "b"})
        os.waitpid(pid, 0)
        """,
        data=("shared/a.txt", "shared/b.txt", "shared/c.txt", "shared/d.txt"),
    ),
    Case(
        "Workers of `multiprocessing`",
        """
        import multiprocessing, concurrent.futures
        from shared import work
        for method, name in (("fork", "a"), ("spawn", "b"), ("forkserver", "c")):
            with multiprocessing.get_context(method).Pool(1) as pool:
                assert pool.map(work.read, ["shared/%s.txt" % name]) == [1]
        with concurrent.futures.ProcessPoolExecutor(1) as pool:
            assert list(pool.map(work.read, ["shared/d.txt"])) == [1]
        """,
        {"shared/work.py": "def read(path):\n    return len(open(path).read())\n"},
        imported=("shared/work.py",),
        data=("shared/a.txt", "shared/b.txt", "shared/c.txt", "shared/d.txt"),
    ),
    Case(
        "Threads, and children by `os.fork`",
        """
        import threading
        thread = threading.Thread(target=lambda: open("shared/a.txt"))
        thread.start(); thread.join()
        if not os.fork():
            open("shared/b.txt"); os._exit(0)
        os.wait()
        """,
        data=("shared/a.txt", "shared/b.txt"),
    ),
    Case(
        "What a process used before it was killed",
        """
        import signal
        for ending in ("os.kill(os.getpid(), 9)", "os._exit(0)"):
            name = "a" if "kill" in ending else "b"
            subprocess.run([sys.executable, "-c", "import os; open('shared/%s.txt'); %s" % (name, ending)])
        """,
        data=("shared/a.txt", "shared/b.txt"),
    ),
    Case(
        "A program in the checkout that is started",
        """
        os.chmod("shared/tool", 0o755)
        subprocess.run(["shared/tool"], check=True)
        subprocess.run(["./tool2"], cwd="shared", check=True)
        """,
        {"shared/tool": "#!/bin/sh\nexit 0\n", "shared/tool2": "#!/bin/sh\nexit 0\n"},
        data=("shared/tool", "shared/tool2"),
    ),
    Case(
        "Files outside the checkout",
        "open('/etc/passwd').close(); open('../outside.txt').close(); os.path.exists('../nothing')",
        absent=("/etc/passwd", "../outside.txt", "../nothing"),
    ),
    Case(
        "`.cache/`, and every `.git`",
        """
        for path in (".cache/a", ".git/HEAD", "shared/.git/HEAD", "shared/__pycache__/x", ".cacheless", ".gitignore"):
            open(path).close()
        """,
        dict.fromkeys(
            (".cache/a", ".git/HEAD", "shared/.git/HEAD", "shared/__pycache__/x", ".cacheless", ".gitignore"),
            "",
        ),
        data=(".cacheless", ".gitignore"),
        absent=(".cache/a", ".git/HEAD", "shared/.git/HEAD", "shared/__pycache__/x"),
    ),
    Case(
        "The environment's own files",
        "open('.venv/pyvenv.cfg').close(); os.listdir('.venv'); os.path.exists('.venv/nothing')",
        absent=(".venv/pyvenv.cfg", ".venv", ".venv/nothing"),
        venv=True,
    ),
    Case(
        "The task's own outputs",
        """
        os.path.exists("benchmarks/x/data/x.jsonl"), os.path.isdir("benchmarks/x/data")
        os.path.exists("benchmarks/x/data/images/1.png"), os.listdir("benchmarks/x/data/images")
        open("benchmarks/x/data/images/0.png").close(); os.listdir("benchmarks/x")
        open("benchmarks/x/data/other.txt").close()
        """,
        {"benchmarks/x/data/images/0.png": "", "benchmarks/x/data/other.txt": ""},
        data=("benchmarks/x/data/other.txt",),
        listed={"benchmarks/x": ("prepare.py",)},
        absent=(
            "benchmarks/x/data/x.jsonl",
            "benchmarks/x/data",
            "benchmarks/x/data/images",
            "benchmarks/x/data/images/0.png",
            "benchmarks/x/data/images/1.png",
        ),
        outputs=("benchmarks/x/data/images/**",),
    ),
    Case(
        "A file that the script itself opened for writing first",
        """
        for path in ("shared/new.txt", "shared/a.txt"):
            os.path.exists(path)
            Path(path).write_text("mine")
            Path(path).read_text()
        os.listdir("shared")
        """,
        absent=("shared/new.txt",),
        present={"shared/a.txt": "file"},
    ),
    Case(
        "A file that came to its place by renaming",
        """
        Path("shared/part").write_text("x")
        os.replace("shared/part", "shared/whole")
        open("shared/whole").close()
        os.path.exists("made/b"), Path("made").is_dir()
        os.mkdir("made")
        subprocess.run(["touch", "made/b"], check=True)
        open("made/b").close(); os.listdir("made"); os.path.exists("made/c")
        """,
        absent=("shared/part", "shared/whole", "made", "made/b", "made/c"),
    ),
    Case(
        "A file that the script looked for",
        """
        if not os.path.exists("fetched"):
            subprocess.run(["sh", "-c", "mkdir fetched; echo 1 > fetched/raw.txt"], check=True)
        open("fetched/raw.txt").close()
        """,
        absent=("fetched", "fetched/raw.txt"),
    ),
    Case(
        "A folder that the script lists in order to remove",
        """
        import shutil
        if os.path.exists("scratch"):
            shutil.rmtree("scratch")
        os.mkdir("scratch")
        """,
        {"scratch/old.txt": "", "scratch/deep/old.txt": ""},
        absent=("scratch", "scratch/old.txt", "scratch/deep", "scratch/deep/old.txt"),
    ),
    Case(
        "The checkout, as a place where",
        """
        import importlib.metadata
        try:
            importlib.metadata.version("surely-not-installed")
        except importlib.metadata.PackageNotFoundError:
            pass
        """,
        absent=(".",),
    ),
    Case(
        "A file that a program other than Python reads",
        "subprocess.run(['cat', 'shared/a.txt'], check=True)",
        absent=("shared/a.txt",),
    ),
    Case(
        "A file that a native library opens by itself",
        """
        import ctypes
        descriptor = ctypes.CDLL(None).open(b"shared/a.txt", 0)
        assert os.read(descriptor, 1) == b"a"
        """,
        absent=("shared/a.txt",),
    ),
    Case(
        "What Python children use that leave out",
        """
        for option in ("-S", "-E", "-I"):
            subprocess.run([sys.executable, option, "-c", "open('shared/a.txt')"], check=True)
        """,
        absent=("shared/a.txt",),
    ),
    Case(
        "What children use that run on Python older",
        """
        for python in OLD_PYTHONS:
            subprocess.run([python, "-c", "open('shared/a.txt')"], check=True)
        """,
        absent=("shared/a.txt",),
    ),
    Case(
        "Which program put a name into a folder",
        """
        os.listdir("before"), subprocess.run(["cp", "shared/a.txt", "before/made.txt"], check=True)
        subprocess.run(["touch", "after/made.txt"], check=True), os.listdir("after")
        os.listdir("own"), subprocess.run(["touch", "own/made.txt"], check=True), os.listdir("own")
        """,
        {f"{folder}/one.txt": "" for folder in ("before", "after", "own")},
        listed={"before": ("one.txt",), "after": ("made.txt", "one.txt"), "own": ("one.txt",)},
        outputs=("own/made*",),
    ),
    Case(
        "The size and times that a folder's listing gave",
        "[entry.stat().st_size for entry in os.scandir('shared')]",
        listed={
            "shared": ("a.txt", "b.txt", "c.txt", "d.txt", "helper.py", "link.txt", "main.py"),
        },
        absent=("shared/a.txt",),
    ),
    Case(
        "A compiled module (`NAME.so`",
        "import colorsys",
        absent=("colorsys.so", "colorsys.pyc"),
    ),
    Case("Environment variables", "os.environ.get('HOME')", absent=("HOME",)),
]


def documented_lines() -> list[str]:
    return re.findall(r"^- (.*)$", DOCUMENT.read_text(), re.MULTILINE)


def test_each_line_of_the_document_has_exactly_one_case() -> None:
    lines = documented_lines()
    for line in lines:
        assert len([case for case in CASES if line.startswith(case.line)]) == 1, line
    assert len(CASES) == len(lines)


def observe(case: Case, python: str) -> Observations:
    with tempfile.TemporaryDirectory() as above:
        Path(above, "outside.txt").write_text("")
        place = ScriptCheckout(Path(above, "checkout"))
        for name in "abcd":
            place.write(f"shared/{name}.txt", name)
        place.write("shared/helper.py", "HELP = 1\n")
        place.write("shared/main.py", "if __name__ == '__main__':\n    import shared.helper\n")
        (place.root / "shared/link.txt").symlink_to("a.txt")
        (place.root / "linked").symlink_to("shared")
        for path, text in case.files.items():
            place.write(path, text)
        if (place.root / "shared/tool2").exists():
            (place.root / "shared/tool2").chmod(0o755)
        old = [found for found in map(find_python, ("2.7", "3.8")) if found]
        place.script(case.body.replace("OLD_PYTHONS", repr(old)))
        if case.venv:
            subprocess.run([python, "-m", "venv", "--without-pip", str(place.root / ".venv")], check=True)
            python = str(place.root / ".venv/bin/python")
        result = place.run(python=python, outputs=case.outputs)
        assert place.leftovers == []
        return result.observations


@functools.cache
def observed(version: str) -> dict[str, Observations | Exception]:
    """All cases on one Python, several at once."""
    python = find_python(version)
    assert python is not None
    results: dict[str, Observations | Exception] = {}

    def one(case: Case) -> None:
        try:
            results[case.line] = observe(case, python)
        except Exception as error:
            results[case.line] = error

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(one, CASES))
    return results


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("case", CASES, ids=[case.line for case in CASES])
def test_observation(case: Case, version: str) -> None:
    if find_python(version) is None:
        pytest.skip(f"no Python {version} on this machine")
    found = observed(version)[case.line]
    if isinstance(found, Exception):
        raise found
    kinds = {path: kind for path, (kind, _) in found.files.items()}
    for path in case.imported:
        assert kinds.get(path) == "import", (path, kinds)
    for path in case.data:
        assert kinds.get(path) == "data", (path, kinds)
    for path in case.missing:
        assert path in found.missing
    for path, kind in case.present.items():
        assert found.present.get(path) == kind, found.present
    for folder, names in case.listed.items():
        assert tuple(name for name, _ in found.listings.get(folder, ())) == names
    for path in case.absent:
        assert path not in kinds
        assert path not in found.missing
        assert path not in found.present
        assert path not in found.listings
    assert kinds[SCRIPT] == "import"


def test_the_signature_is_the_one_of_the_first_use(place: ScriptCheckout) -> None:
    file = place.write("shared/a.txt", "before")
    status = file.stat()
    place.script(
        "open('shared/a.txt').close(); Path('shared/a.txt').write_text('after!'); open('shared/a.txt').read()"
    )
    seen = place.run().observations
    assert seen.files["shared/a.txt"] == (
        "data",
        (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns),
    )
    assert "shared/a.txt" in seen.written


def test_presence_is_told_the_same_way_afterwards(place: ScriptCheckout) -> None:
    place.write("shared/a.txt", "")
    (place.root / "link").symlink_to("shared/a.txt")
    (place.root / "dangling").symlink_to("nowhere")
    place.script(
        """
        for name in ("shared", "shared/a.txt", "link", "dangling", "nothing"):
            os.path.exists(name), os.path.realpath(name), os.path.islink(name)
        """
    )
    seen = place.run().observations
    assert set(seen.present) == {"shared", "shared/a.txt", "link"}
    assert {"dangling", "nothing"} <= set(seen.missing)
    for path, kind in seen.present.items():
        assert presence(str(place.root / path)) == kind
    for path in seen.missing:
        assert presence(str(place.root / path)) is None
    (place.root / "link").unlink()
    (place.root / "link").symlink_to("shared")
    assert presence(str(place.root / "link")) != seen.present["link"]


def test_what_was_seen_survives_its_plain_form(place: ScriptCheckout) -> None:
    place.write("shared/a.txt", "")
    place.script("os.listdir('shared'); open('shared/a.txt'); os.path.exists('no'); os.path.isdir('shared')")
    seen = place.run().observations
    assert seen.listings == {"shared": (("a.txt", False),)}


def test_a_listing_is_digested_the_same_way_afterwards(place: ScriptCheckout) -> None:
    from gymbuild.cache.digests import digest_json, listing_digest
    from gymbuild.preparation.observations import ignored_names

    place.write("benchmarks/x/words.txt", "")
    place.script("os.listdir('benchmarks/x'); Path('benchmarks/x/mine.txt').write_text('')")
    seen = place.run().observations
    folder = place.root / "benchmarks/x"
    ignored = ignored_names("benchmarks/x", os.listdir(folder), seen.written, ["benchmarks/x/data/x.jsonl"])
    assert listing_digest(str(folder), ignored) == digest_json(seen.listings["benchmarks/x"])
    (folder / "more.txt").write_text("")
    assert listing_digest(str(folder), ignored) != digest_json(seen.listings["benchmarks/x"])


def test_the_environments_own_sitecustomize_still_runs_in_children(tmp_path: Path) -> None:
    place = ScriptCheckout(tmp_path / "checkout")
    subprocess.run(
        [find_python("3.11") or "python3", "-m", "venv", "--without-pip", tmp_path / "env"], check=True
    )
    [packages] = (tmp_path / "env/lib").glob("python*/site-packages")
    (packages / "sitecustomize.py").write_text("import builtins\nbuiltins.customized = 'yes'\n")
    place.script(
        """
        import builtins
        assert builtins.customized == "yes"
        code = "import builtins, sys; assert builtins.customized == 'yes'; assert not [p for p in sys.path if 'hook' in p]"
        subprocess.run([sys.executable, "-c", code], check=True)
        """
    )
    place.run(python=str(tmp_path / "env/bin/python"))


def test_an_old_python_is_not_disturbed_by_the_hook(place: ScriptCheckout) -> None:
    old = find_python("2.7")
    if old is None:
        pytest.skip("no Python 2.7 on this machine")
    place.script(f"subprocess.run([{old!r}, '-c', 'print(1)'], check=True)")
    place.run()
    assert place.log == "1\n"
