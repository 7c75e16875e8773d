"""The mutation matrix: every kind of change, and exactly what a build does about it.

One table. The tests are generated from it (test_matrix.py), and so is the page docs/staleness.md (page.py).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.matrix.world import NAMES, PLANS
from tests.trees import Tree

EVERYTHING = frozenset(NAMES)
EVERY_PLAN = frozenset(PLANS)


@dataclass(frozen=True)
class Change:
    """One row: a change to the built world of world.py, and what the next build does."""

    group: str
    title: str
    change: Callable[[Tree], object]
    runs: frozenset[str] = frozenset()
    """Datasets whose script runs."""
    restores: frozenset[str] = frozenset()
    """Datasets that come from the store, without running anything."""
    plans: frozenset[str] = frozenset()
    """Benchmarks whose plan file is written anew."""
    says: str = ""
    """What the build says, among other things."""
    keeps: tuple[str, ...] = ()
    """Files that are kept aside under `.cache/displaced/`."""
    environment: dict[str, str] = field(default_factory=dict)
    """Variables of the build after the change."""
    words: tuple[str, ...] = ("plan",)
    """Words of the build after the change."""
    code: int = 0
    """Exit code of the build after the change."""
    again: frozenset[str] = frozenset()
    """Datasets whose script runs once more in the build after that one."""
    note: str = ""
    """For the page."""


TABLE: list[Change] = []


def row(
    group: str,
    title: str,
    *,
    runs: Iterable[str] = (),
    restores: Iterable[str] = (),
    plans: Iterable[str] = (),
    says: str = "",
    keeps: Iterable[str] = (),
    environment: dict[str, str] | None = None,
    words: tuple[str, ...] = ("plan",),
    code: int = 0,
    again: Iterable[str] = (),
    note: str = "",
) -> Callable[[Callable[[Tree], object]], Callable[[Tree], object]]:
    """Add a row; the decorated function makes the change."""

    def add(change: Callable[[Tree], object]) -> Callable[[Tree], object]:
        TABLE.append(
            Change(
                group,
                title,
                change,
                frozenset(runs),
                frozenset(restores),
                frozenset(plans),
                says,
                tuple(keeps),
                dict(environment or {}),
                words,
                code,
                frozenset(again),
                note,
            )
        )
        return change

    return add


# -- helpers -----------------------------------------------------------------------------------------------------


def _with_old_times(tree: Tree, name: str, act: Callable[[Path], object]) -> None:
    """Change a file, and set its times back to what they were (`touch -r`)."""
    path = tree.path(name)
    before = path.stat()
    act(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_mtime_ns == before.st_mtime_ns


def _by_rename(tree: Tree, name: str, text: str, mtime_ns: int) -> None:
    """Put another file in the place of one, with a time of one's choice."""
    path = tree.path(name)
    fresh = path.with_name(path.name + ".fresh")
    fresh.write_text(text)
    os.utime(fresh, ns=(mtime_ns, mtime_ns))
    fresh.rename(path)


def _git(tree: Tree, *words: str) -> None:
    import subprocess

    subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *words],
        cwd=tree.root,
        check=True,
        capture_output=True,
    )


SCRIPT = "benchmarks/alpha/prepare.py"
WORDS = "benchmarks/alpha/words.txt"
HELPER = "lib/words.py"
CONFIG = "benchmarks/alpha/config.yaml"
OUTPUT = "benchmarks/alpha/data/alpha.jsonl"

ALPHA_AND_AFTER = {"runs": ("alpha", "gamma"), "plans": ("alpha", "gamma")}
"""What a change to what `alpha` is made from comes to: `gamma` reads its prepared file."""


# -- nothing -----------------------------------------------------------------------------------------------------


@row("nothing", "nothing is changed", says="nothing to do: 11 current")
def _(tree: Tree) -> None:
    pass


@row("nothing", "every file of the checkout is touched", says="nothing to do: 11 current")
def _(tree: Tree) -> None:
    for path in tree.root.rglob("*"):
        if path.is_file() and ".cache" not in path.parts:
            os.utime(path)


@row("nothing", "a file is replaced by one with identical bytes")
def _(tree: Tree) -> None:
    _by_rename(tree, SCRIPT, tree.read(SCRIPT), time.time_ns())
    _by_rename(tree, WORDS, tree.read(WORDS), 10**18)


@row("nothing", "permissions of a script are changed")
def _(tree: Tree) -> None:
    tree.path(SCRIPT).chmod(0o755)


@row("nothing", "a file that no script used is added, and one is edited")
def _(tree: Tree) -> None:
    tree.write("benchmarks/alpha/notes.md", "notes\n")
    tree.replace("benchmarks/alpha/target-2.txt", "second", "2nd")
    tree.write("lib/unused.py", "import nothing_at_all\n")


@row("nothing", "`__pycache__` and `.git` gain files")
def _(tree: Tree) -> None:
    tree.write("lib/__pycache__/words.cpython-311.pyc", "no bytecode")
    tree.write("benchmarks/alpha/parts/__pycache__/x.pyc", "")
    tree.write(".git/HEAD", "ref: refs/heads/main\n")


@row(
    "nothing",
    "time zone, locale, hash seed and PATH of the build are others",
    environment={
        "TZ": "Asia/Tokyo",
        "LC_ALL": "C",
        "PYTHONHASHSEED": "7",
        "PATH": "/nowhere" + os.pathsep + os.environ.get("PATH", ""),
    },
)
def _(tree: Tree) -> None:
    pass


@row("nothing", "the clock of every file is in the future")
def _(tree: Tree) -> None:
    for path in tree.root.rglob("*"):
        if path.is_file() and ".cache" not in path.parts:
            os.utime(path, (time.time() + 10**6,) * 2)


# -- the script --------------------------------------------------------------------------------------------------


@row("the script", "the script is edited", **ALPHA_AND_AFTER)
def _(tree: Tree) -> None:
    tree.replace(SCRIPT, '"marked"', '"Marked"')
    tree.replace(SCRIPT, '"plain"', '"simple"')


@row("the script", "the script is edited, and makes the same bytes", runs=("alpha",), note="early cut-off")
def _(tree: Tree) -> None:
    tree.path(SCRIPT).write_text(tree.read(SCRIPT) + "# a comment\n")


@row("the script", "the script is edited with equal size and forged mtime", **ALPHA_AND_AFTER)
def _(tree: Tree) -> None:
    _with_old_times(tree, SCRIPT, lambda path: path.write_text(path.read_text().replace("plain", "plane")))


@row("the script", "the script is replaced by a rename, with an older mtime", **ALPHA_AND_AFTER)
def _(tree: Tree) -> None:
    _by_rename(tree, SCRIPT, tree.read(SCRIPT).replace("plain", "plane"), 10**18)


@row("the script", "the script is renamed, and the config names it", runs=("alpha",), note="early cut-off")
def _(tree: Tree) -> None:
    tree.path(SCRIPT).rename(tree.path("benchmarks/alpha/make.py"))
    tree.replace(CONFIG, "alpha/prepare.py", "alpha/make.py")


@row("the script", "the script is renamed, and the config does not name it", code=0, says="skipped")
def _(tree: Tree) -> None:
    tree.path("benchmarks/beta/prepare.py").rename(tree.path("benchmarks/beta/make.py"))


@row("the script", "a symlinked script's target is edited", runs=("epsilon",), plans=("epsilon",))
def _(tree: Tree) -> None:
    tree.replace("shared/epsilon_one.py", "'epsilon'", "'EPSILON'")


@row("the script", "a symlinked script leads to another target", runs=("epsilon",), plans=("epsilon",))
def _(tree: Tree) -> None:
    path = tree.path("benchmarks/epsilon/prepare.py")
    path.unlink()
    path.symlink_to("../../shared/epsilon_two.py")


@row("the script", "the target that a symlinked script does not lead to is edited")
def _(tree: Tree) -> None:
    tree.replace("shared/epsilon_two.py", "'other'", "'another'")


@row("the script", "a broken edit is taken back before the build")
def _(tree: Tree) -> None:
    text = tree.read(SCRIPT)
    tree.path(SCRIPT).write_text("def prepare(:\n")
    tree.path(SCRIPT).write_text(text)


@row("the script", "an edit that fails is built, and taken back")
def _(tree: Tree) -> None:
    text = tree.read(SCRIPT)
    tree.replace(SCRIPT, "import tools", "raise ValueError('no')")
    assert tree.build("prepare:alpha", code=76).ran == {"alpha"}
    tree.path(SCRIPT).write_text(text)


# -- modules -----------------------------------------------------------------------------------------------------


@row("modules", "a helper module is edited", **ALPHA_AND_AFTER)
def _(tree: Tree) -> None:
    tree.replace(HELPER, "one", "two")


@row("modules", "a helper module is edited with equal size and forged mtime", **ALPHA_AND_AFTER)
def _(tree: Tree) -> None:
    _with_old_times(tree, HELPER, lambda path: path.write_text('WORD = "two"\n'))


@row("modules", "a helper module is deleted", **ALPHA_AND_AFTER)
def _(tree: Tree) -> None:
    tree.path(HELPER).unlink()


@row("modules", "a helper module is shadowed by a new one earlier on the path", **ALPHA_AND_AFTER)
def _(tree: Tree) -> None:
    tree.write("benchmarks/alpha/first/tools.py", 'TOOL = "first"\n')


@row("modules", "a helper module is shadowed by a package beside it", **ALPHA_AND_AFTER)
def _(tree: Tree) -> None:
    tree.write("lib/words/__init__.py", 'WORD = "package"\n')


@row(
    "modules",
    "a module of the standard library's name appears in the checkout",
    runs=("alpha", "gamma"),
    plans=("alpha", "gamma"),
)
def _(tree: Tree) -> None:
    tree.write("tools.py", 'TOOL = "in the checkout"\n')
    tree.write("benchmarks/alpha/first/tools.py", 'TOOL = "first"\n')


@row("modules", "an `__init__.py` is added to a package that had none", runs=("alpha",), note="early cut-off")
def _(tree: Tree) -> None:
    tree.write("lib/__init__.py", "")


@row("modules", "a module is added that nobody looked for")
def _(tree: Tree) -> None:
    tree.write("lib/other.py", "")
    tree.write("benchmarks/alpha/second/other.py", "")


# -- data --------------------------------------------------------------------------------------------------------


@row("data", "a data file is edited", **ALPHA_AND_AFTER)
def _(tree: Tree) -> None:
    tree.replace(WORDS, "some", "more")


@row("data", "a data file is edited with equal size and forged mtime", **ALPHA_AND_AFTER)
def _(tree: Tree) -> None:
    _with_old_times(tree, WORDS, lambda path: path.write_text("same words\n"))


@row("data", "a data file is replaced by a rename, with an older mtime", **ALPHA_AND_AFTER)
def _(tree: Tree) -> None:
    _by_rename(tree, WORDS, "old words!\n", 10**18)


@row("data", "a data file is edited in place, through a memory map", **ALPHA_AND_AFTER)
def _(tree: Tree) -> None:
    import mmap

    def edit(path: Path) -> None:
        with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as view:
            view[:4] = b"SOME"
            view.flush()

    _with_old_times(tree, WORDS, edit)


@row("data", "a data file is edited in the clock tick in which the build ends", **ALPHA_AND_AFTER)
def _(tree: Tree) -> None:
    tree.replace(WORDS, "some", "1st ")
    tree.build("prepare")
    tree.path(WORDS).write_text("2nd  words\n")


@row(
    "data",
    "a data file is deleted that the script needs",
    runs=("alpha",),
    code=76,
    again=("alpha",),
    says="FileNotFoundError",
    note="the run fails; the last good output stays",
)
def _(tree: Tree) -> None:
    tree.path(WORDS).unlink()


@row("data", "a file appears that the script looked for", **ALPHA_AND_AFTER)
def _(tree: Tree) -> None:
    tree.write("benchmarks/alpha/extra.txt", "extra\n")


@row("data", "a path appears of which only the existence counts", **ALPHA_AND_AFTER)
def _(tree: Tree) -> None:
    tree.write("benchmarks/alpha/mark", "")


@row("data", "a folder that the script listed gains a file", **ALPHA_AND_AFTER)
def _(tree: Tree) -> None:
    tree.write("benchmarks/alpha/parts/part-2", "")


@row("data", "a folder that the script listed loses a file", **ALPHA_AND_AFTER)
def _(tree: Tree) -> None:
    tree.path("benchmarks/alpha/parts/part-1").unlink()


@row("data", "a file in a listed folder is edited, and its names stay")
def _(tree: Tree) -> None:
    tree.write("benchmarks/alpha/parts/part-1", "edited\n")


@row("data", "a file is made and deleted again in a listed folder")
def _(tree: Tree) -> None:
    tree.write("benchmarks/alpha/parts/part-2", "").unlink()


@row("data", "a symlink that the script read through leads elsewhere", **ALPHA_AND_AFTER)
def _(tree: Tree) -> None:
    path = tree.path("benchmarks/alpha/link.txt")
    path.unlink()
    path.symlink_to("target-2.txt")


@row("data", "a file appears that a symlink leads to, which led nowhere", **ALPHA_AND_AFTER)
def _(tree: Tree) -> None:
    tree.write("lib/late.txt", "late\n")


@row("data", "a folder appears that a symlink leads to, which led nowhere", **ALPHA_AND_AFTER)
def _(tree: Tree) -> None:
    tree.write("lib/late/one.txt", "late\n")


@row("data", "a symlink is replaced by a copy of what it led to", runs=())
def _(tree: Tree) -> None:
    path = tree.path("benchmarks/alpha/link.txt")
    text = path.read_text()
    path.unlink()
    path.write_text(text)


@row("data", "a declared input, read by a program that is not Python, is edited", **ALPHA_AND_AFTER)
def _(tree: Tree) -> None:
    tree.write("benchmarks/alpha/native.bin", "NATIVE\n")


@row("data", "the glob of a declared input gains a file", runs=("alpha",), note="early cut-off")
def _(tree: Tree) -> None:
    tree.write("benchmarks/alpha/native-2.bin", "more\n")


@row(
    "data",
    "a data file is edited while the script runs",
    environment={"EDIT_WHILE_RUNNING": f"printf 'late words\\n' > {WORDS}"},
    runs=("alpha",),
    says=f"warning: prepare:alpha: {WORDS} changed while the script ran",
    again=("alpha", "gamma"),
    note="said at once, and built again at the next start",
)
def _(tree: Tree) -> None:
    tree.path(SCRIPT).write_text(tree.read(SCRIPT) + "# again\n")


@row(
    "data",
    "the script is edited while it runs",
    environment={"EDIT_WHILE_RUNNING": f"printf '# late\\n' >> {SCRIPT}"},
    runs=("alpha", "gamma"),
    plans=("alpha", "gamma"),
    says=f"{SCRIPT} changed while the script ran",
    again=("alpha",),
)
def _(tree: Tree) -> None:
    tree.replace(WORDS, "some", "more")


@row(
    "data",
    "a file that was looked for appears while the script runs",
    environment={"EDIT_WHILE_RUNNING": "printf 'late\\n' > benchmarks/alpha/mark"},
    runs=("alpha", "gamma"),
    plans=("alpha", "gamma"),
    says="benchmarks/alpha/mark changed while the script ran",
    again=("alpha", "gamma"),
)
def _(tree: Tree) -> None:
    tree.replace(WORDS, "some", "more")


# -- arguments and variables -------------------------------------------------------------------------------------


@row("args and variables", "an argument in the config is another", **ALPHA_AND_AFTER)
def _(tree: Tree) -> None:
    tree.replace(CONFIG, "size: 2", "size: 3")


@row("args and variables", "arguments in the config are in another order")
def _(tree: Tree) -> None:
    tree.replace(CONFIG, "{size: 2, options: {b: 1, a: two}}", "{options: {a: two, b: 1}, size: 2}")


@row("args and variables", "a number among the arguments becomes text", **ALPHA_AND_AFTER)
def _(tree: Tree) -> None:
    tree.replace(CONFIG, "b: 1", 'b: "1"')


@row(
    "args and variables",
    "an argument is given on the command line",
    words=("plan:alpha", "prepare_script_args.size=4"),
    runs=("alpha",),
    plans=("alpha",),
    note="only for this build: the next one restores what the config says",
)
def _(tree: Tree) -> None:
    pass


@row(
    "args and variables",
    "an argument goes from A to B and back to A",
    restores=("alpha",),
    plans=("alpha",),
    words=("plan:alpha",),
)
def _(tree: Tree) -> None:
    assert tree.build("plan:alpha", "prepare_script_args.size=4").ran == {"alpha"}


@row(
    "args and variables",
    "an argument goes to B a second time",
    restores=("alpha",),
    words=("prepare:alpha", "prepare_script_args.size=4"),
)
def _(tree: Tree) -> None:
    assert tree.build("prepare:alpha", "prepare_script_args.size=4").ran == {"alpha"}
    assert tree.build("prepare:alpha").restored == {"alpha"}


@row(
    "args and variables",
    "a variable of `prepare_env` is set",
    environment={"ALPHA_MODE": "fast"},
    **ALPHA_AND_AFTER,
)
def _(tree: Tree) -> None:
    pass


@row(
    "args and variables", "a variable that is not in `prepare_env` is set", environment={"OTHER_MODE": "fast"}
)
def _(tree: Tree) -> None:
    pass


@row("args and variables", "a name is added to `prepare_env`", runs=("alpha",), note="early cut-off")
def _(tree: Tree) -> None:
    tree.replace(CONFIG, "[ALPHA_MODE]", "[ALPHA_MODE, ANOTHER]")


# -- configs -----------------------------------------------------------------------------------------------------


@row("configs", "a comment in a config is edited")
def _(tree: Tree) -> None:
    tree.replace(CONFIG, "# alpha, for the matrix", "# alpha\n\n# for the matrix of changes")


@row("configs", "the port of a server is edited")
def _(tree: Tree) -> None:
    tree.replace(CONFIG, "port: 8000", "port: 9000")


@row("configs", "`num_repeats`, `prepare_timeout` or `license` is edited")
def _(tree: Tree) -> None:
    tree.replace(
        CONFIG,
        "type: benchmark",
        "type: benchmark\n        num_repeats: 4\n        prepare_timeout: 900\n        license: MIT",
    )


@row("configs", "the path of the script is edited to a copy of it", runs=("alpha",), note="early cut-off")
def _(tree: Tree) -> None:
    shutil.copy(tree.path(SCRIPT), tree.path("benchmarks/alpha/copy.py"))
    tree.replace(CONFIG, "alpha/prepare.py", "alpha/copy.py")


@row("configs", "a prompt template is edited", plans=("beta/hard",))
def _(tree: Tree) -> None:
    tree.replace("benchmarks/prompts/hard.yaml", "Think hard.", "Think harder.")


@row("configs", "a prompt template is touched")
def _(tree: Tree) -> None:
    os.utime(tree.path("benchmarks/prompts/hard.yaml"))


@row("configs", "another prompt template is named", plans=("beta/hard",))
def _(tree: Tree) -> None:
    tree.write("benchmarks/prompts/easy.yaml", "user: '{question}'\n")
    tree.replace("benchmarks/beta/hard.yaml", "prompts/hard", "prompts/easy")


@row("configs", "a benchmark is added", runs=("zeta",), plans=("zeta",))
def _(tree: Tree) -> None:
    tree.benchmark("zeta")


@row("configs", "a benchmark is removed")
def _(tree: Tree) -> None:
    shutil.rmtree(tree.path("benchmarks/delta"))


@row("configs", "one config of two that share a dataset is removed", runs=())
def _(tree: Tree) -> None:
    tree.path("benchmarks/beta/hard.yaml").unlink()


@row("configs", "a config is broken, and the others go on", says="skipped", runs=("delta",), plans=())
def _(tree: Tree) -> None:
    tree.write("benchmarks/beta/config.yaml", "a: [\n")
    tree.path("benchmarks/delta/prepare.py").write_text(tree.read("benchmarks/delta/prepare.py") + "#\n")


@row(
    "configs",
    "the output is declared elsewhere",
    runs=("beta",),
    code=76,
    again=("beta",),
    note="the script writes where it did: an error that names both paths",
)
def _(tree: Tree) -> None:
    for file in ("config.yaml", "hard.yaml"):
        tree.replace(f"benchmarks/beta/{file}", "data/beta.jsonl", "data/other.jsonl")


# -- outputs -----------------------------------------------------------------------------------------------------


@row("outputs", "an output is deleted", restores=("alpha",))
def _(tree: Tree) -> None:
    tree.output("alpha").unlink()


@row("outputs", "an output and its folder are deleted", restores=("alpha",))
def _(tree: Tree) -> None:
    shutil.rmtree(tree.path("benchmarks/alpha/data"))


@row("outputs", "an output is truncated", restores=("alpha",), keeps=(OUTPUT,))
def _(tree: Tree) -> None:
    text = tree.output("alpha").read_text()
    tree.output("alpha").write_text(text[:20])


@row("outputs", "an output is emptied", restores=("alpha",), keeps=(OUTPUT,))
def _(tree: Tree) -> None:
    tree.output("alpha").write_text("")


@row(
    "outputs",
    "an output is edited by hand",
    restores=("alpha",),
    keeps=(OUTPUT,),
    says="was changed by hand; it is kept as .cache/displaced/",
)
def _(tree: Tree) -> None:
    tree.replace(OUTPUT, "some words", "my words")


@row("outputs", "an output is edited with equal size and forged mtime", restores=("alpha",), keeps=(OUTPUT,))
def _(tree: Tree) -> None:
    _with_old_times(tree, OUTPUT, lambda path: path.write_text(path.read_text().replace("words", "WORDS")))


@row("outputs", "an output is replaced by identical bytes")
def _(tree: Tree) -> None:
    _by_rename(tree, OUTPUT, tree.read(OUTPUT), 10**18)


@row("outputs", "an output is touched")
def _(tree: Tree) -> None:
    os.utime(tree.output("alpha"))


@row("outputs", "an output is made a directory", restores=("alpha",), keeps=(f"{OUTPUT}/mine",))
def _(tree: Tree) -> None:
    tree.output("alpha").unlink()
    tree.write(f"{OUTPUT}/mine", "precious\n")


@row("outputs", "an output is made a symlink to the same bytes", restores=("alpha",))
def _(tree: Tree) -> None:
    path = tree.output("alpha")
    path.rename(tree.path("benchmarks/alpha/elsewhere.jsonl"))
    path.symlink_to("../elsewhere.jsonl")


@row("outputs", "an output is edited by hand, and an input changes", keeps=(OUTPUT,), **ALPHA_AND_AFTER)
def _(tree: Tree) -> None:
    tree.replace(OUTPUT, "some words", "my words")
    tree.replace(WORDS, "some", "more")


@row("outputs", "a file that the script leaves beside its output is deleted", restores=("alpha",))
def _(tree: Tree) -> None:
    tree.path("benchmarks/alpha/data/index.txt").unlink()


@row(
    "outputs",
    "a file that the script leaves beside its output is edited",
    restores=("alpha",),
    keeps=("benchmarks/alpha/data/index.txt",),
)
def _(tree: Tree) -> None:
    tree.write("benchmarks/alpha/data/index.txt", "my own index\n")


@row("outputs", "a plan is deleted", plans=("beta",))
def _(tree: Tree) -> None:
    tree.plan("beta").unlink()


@row("outputs", "a plan is edited by hand", plans=("beta",), keeps=(".cache/plans/beta.json",))
def _(tree: Tree) -> None:
    tree.replace(".cache/plans/beta.json", "beta", "BETA")


# -- the store and the cache -------------------------------------------------------------------------------------


def _damage_objects(tree: Tree) -> None:
    for path in (tree.path(".cache/objects")).rglob("*"):
        if path.is_file():
            path.chmod(0o644)
            data = path.read_bytes()
            path.write_bytes(data[:-2] + b"?\n")


@row("store and cache", "every object of the store is damaged, and the outputs are there")
def _(tree: Tree) -> None:
    _damage_objects(tree)


@row(
    "store and cache",
    "an output is deleted, and its object is damaged",
    runs=("alpha",),
    says="was damaged and is dropped",
)
def _(tree: Tree) -> None:
    tree.output("alpha").unlink()
    _damage_objects(tree)


@row("store and cache", "an output is deleted, and its object too", runs=("alpha",))
def _(tree: Tree) -> None:
    tree.output("alpha").unlink()
    shutil.rmtree(tree.path(".cache/objects"))


@row("store and cache", "`.cache` is deleted", runs=EVERYTHING, plans=EVERY_PLAN)
def _(tree: Tree) -> None:
    shutil.rmtree(tree.path(".cache"))


@row("store and cache", "`index` is deleted")
def _(tree: Tree) -> None:
    tree.path(".cache/index").unlink()


@row("store and cache", "`index` and what doit has saved are deleted")
def _(tree: Tree) -> None:
    tree.path(".cache/index").unlink()
    with contextlib.closing(sqlite3.connect(tree.path(".cache/state.db"))) as database, database:
        database.execute("DELETE FROM record WHERE kind = 'doit'")


@row("store and cache", "`index` and the digests of files are deleted")
def _(tree: Tree) -> None:
    tree.path(".cache/index").unlink()
    with contextlib.closing(sqlite3.connect(tree.path(".cache/state.db"))) as database, database:
        database.execute("DELETE FROM digest")


@row("store and cache", "`state.db` is deleted")
def _(tree: Tree) -> None:
    tree.path(".cache/state.db").unlink()


@row(
    "store and cache",
    "`state.db` and `index` are deleted",
    restores=EVERYTHING,
    plans=(),
    note="the same bytes are there already: nothing is written but the records",
)
def _(tree: Tree) -> None:
    for name in ("index", "state.db"):
        tree.path(f".cache/{name}").unlink()


@row("store and cache", "`state.db` and `index` are cut in half", restores=EVERYTHING)
def _(tree: Tree) -> None:
    for name in ("index", "state.db"):
        path = tree.path(f".cache/{name}")
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@row("store and cache", "every record of `state.db` is damaged, and `index` too", restores=EVERYTHING)
def _(tree: Tree) -> None:
    path = tree.path(".cache/index")
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with contextlib.closing(sqlite3.connect(tree.path(".cache/state.db"))) as database, database:
        database.execute("UPDATE record SET value = replace(value, 'a', 'b')")


@row("store and cache", "`doit forget` of a preparation", runs=("alpha",))
def _(tree: Tree) -> None:
    tree.gymbuild("forget", "prepare:alpha")


# -- places ------------------------------------------------------------------------------------------------------


@row("places", "the checkout is moved to another folder")
def _(tree: Tree) -> None:
    moved = tree.root.with_name("moved")
    tree.root.rename(moved)
    tree.root = moved


@row("places", "the checkout is copied with its timestamps")
def _(tree: Tree) -> None:
    copy = tree.root.with_name("copied")
    shutil.copytree(tree.root, copy, symlinks=True)
    tree.root = copy


@row("places", "a copy with its timestamps has one edited file of equal size", **ALPHA_AND_AFTER)
def _(tree: Tree) -> None:
    copy = tree.root.with_name("copied")
    shutil.copytree(tree.root, copy, symlinks=True)
    tree.root = copy
    _with_old_times(tree, WORDS, lambda path: path.write_text("same words\n"))


@row(
    "places",
    "another branch is checked out, built, and the first one again",
    restores=("alpha", "gamma"),
    plans=("alpha", "gamma"),
)
def _(tree: Tree) -> None:
    tree.write(".gitignore", ".cache\nbenchmarks/*/data\n")
    _git(tree, "init", "-q", "-b", "main")
    _git(tree, "add", "-A")
    _git(tree, "commit", "-q", "-m", "one")
    _git(tree, "checkout", "-q", "-b", "other")
    tree.replace(WORDS, "some", "other")
    tree.replace(HELPER, "one", "eins")
    _git(tree, "commit", "-q", "-a", "-m", "two")
    assert tree.build().ran == {"alpha", "gamma"}
    _git(tree, "checkout", "-q", "main")


@row("places", "an edit is built, and taken back", restores=("alpha", "gamma"), plans=("alpha", "gamma"))
def _(tree: Tree) -> None:
    text = tree.read(WORDS)
    tree.replace(WORDS, "some", "more")
    assert tree.build().ran == {"alpha", "gamma"}
    tree.path(WORDS).write_text(text)


# -- is_prepared_data_current ------------------------------------------------------------------------------------

JUDGED = "benchmarks/delta/prepare.py"


@row("is_prepared_data_current", "it is edited and says True", runs=("delta",), note="early cut-off")
def _(tree: Tree) -> None:
    tree.replace(JUDGED, "return True", "return fpath.exists()")


@row(
    "is_prepared_data_current",
    "it is edited and says False",
    runs=("delta",),
    code=76,
    again=("delta",),
    says="it returned False for the output that prepare() has just made",
    note="the last good output stays",
)
def _(tree: Tree) -> None:
    tree.replace(JUDGED, "return True", "return False")


@row(
    "is_prepared_data_current",
    "it is edited and raises",
    runs=("delta",),
    code=76,
    again=("delta",),
    says="is_prepared_data_current failed",
    note="the last good output stays",
)
def _(tree: Tree) -> None:
    tree.replace(JUDGED, "return True", "raise ValueError(fpath)")


@row("is_prepared_data_current", "it is removed", runs=("delta",), note="early cut-off")
def _(tree: Tree) -> None:
    text = tree.read(JUDGED)
    tree.path(JUDGED).write_text(text.partition("def is_prepared_data_current")[0])


@row("is_prepared_data_current", "it is added", runs=("beta",), note="early cut-off")
def _(tree: Tree) -> None:
    path = tree.path("benchmarks/beta/prepare.py")
    path.write_text(path.read_text() + "\ndef is_prepared_data_current(fpath):\n    return True\n")


# -- settings ----------------------------------------------------------------------------------------------------


@row(
    "settings",
    "`use_cached_prepared_benchmarks=false`",
    words=("prepare:beta", "use_cached_prepared_benchmarks=false"),
    runs=("beta",),
)
def _(tree: Tree) -> None:
    pass


@row(
    "settings",
    "`use_cached_prepared_benchmarks=true`, and the script was edited",
    words=("prepare:beta", "use_cached_prepared_benchmarks=true"),
    again=("beta",),
    note="adopted for this build",
)
def _(tree: Tree) -> None:
    path = tree.path("benchmarks/beta/prepare.py")
    path.write_text(path.read_text() + "# edited\n")


@row("settings", "doit's `-a`", words=("-a", "prepare:beta"), runs=("beta",))
def _(tree: Tree) -> None:
    pass
