"""Many tasks compared in one go, natively or not: the same verdicts as one task after the other, path by path."""

from __future__ import annotations

import marshal
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gymbuild.cache.snapshot import Snapshot, gather
from gymbuild.cache.witness import Signature, look_at, nothing_at, pack_signatures, signature
from tests.trees import REPOSITORY

if TYPE_CHECKING:
    from gymbuild.cache.snapshot import Entry

Task = tuple[list[str], list[tuple[str, list[str]]]]
"""Paths that count, and folders with the paths that were missing in each."""


@pytest.fixture(params=["native", "plain"])
def plain(request: pytest.FixtureRequest, tmp_path: Path) -> bool:
    if request.param == "native" and type(look_at(str(tmp_path))).__name__ == "_PlainLook":
        pytest.skip("the native module is not built here")
    return str(request.param) == "plain"


def entry_of(root: Path, task: Task) -> Entry:
    paths, folders = task

    def at(path: str) -> tuple[str, Signature | None]:
        return path, signature(str(root / path))

    return (
        "graph",
        "token",
        *pack_signatures(map(at, paths)),
        *pack_signatures(at(folder) for folder, _ in folders),
        marshal.dumps([pack_signatures((path, None) for path in absent)[0] for _, absent in folders], 2),
        (),
        (),
        (),
    )


def is_as_it_was(root: Path, task: Task, before: dict[str, Signature | None]) -> bool:
    """The rule itself, path by path."""
    paths, folders = task
    if any(signature(str(root / path)) != before[path] for path in paths):
        return False
    return all(
        signature(str(root / folder)) == before[folder] or not any((root / path).exists() for path in absent)
        for folder, absent in folders
    )


def change(root: Path, chance: random.Random) -> None:
    folder = root / f"d{chance.randrange(4)}"
    path = folder / f"f{chance.randrange(4)}"
    what = chance.randrange(5)
    if what == 0:
        path.write_text("another content")
    elif what == 1 and path.exists():
        os.utime(path, ns=(chance.randrange(1 << 40), -chance.randrange(1, 1 << 40)))
    elif what == 2:
        path.unlink(missing_ok=True)
    elif what == 3:
        (folder / f"missing{chance.randrange(4)}").write_text("")
    else:
        (folder / f"other{chance.randrange(4)}").write_text("")


@pytest.mark.parametrize("seed", range(60))
def test_the_same_verdicts_as_path_by_path(tmp_path: Path, plain: bool, seed: int) -> None:
    chance = random.Random(seed)
    for number in range(4):
        (tmp_path / f"d{number}").mkdir()
        for name in range(3):
            (tmp_path / f"d{number}" / f"f{name}").write_text("é" * name)
    files = [f"d{folder}/f{name}" for folder in range(4) for name in range(4)] + [str(tmp_path / "d0" / "f1")]
    tasks: dict[str, Task] = {}
    for number in range(30):
        folders = chance.sample(range(4), chance.randrange(3))
        absent = [f"missing{at}" for at in chance.sample(range(4), chance.randrange(1, 4))]
        tasks[f"prepare:{number}"] = (
            chance.sample(files, chance.randrange(5)),
            [(f"d{folder}", [f"d{folder}/{name}" for name in absent]) for folder in folders],
        )
    before = {path: signature(str(tmp_path / path)) for path in [*files, *(f"d{at}" for at in range(4))]}
    entries = {name: entry_of(tmp_path, task) for name, task in tasks.items()}
    record, absent_record = (marshal.loads(marshal.dumps(part)) for part in gather(entries, "graph"))
    assert Snapshot(record, lambda: absent_record).entries() == entries
    for _ in range(chance.randrange(4)):
        change(tmp_path, chance)

    expected = {name: is_as_it_was(tmp_path, task, before) for name, task in tasks.items()}
    alone = Snapshot(record, lambda: absent_record)
    look = look_at(str(tmp_path), plain=plain)
    assert {name: alone.holds(name, look) for name in tasks} == expected
    together = Snapshot(record, lambda: absent_record)
    look = look_at(str(tmp_path), plain=plain)
    together.note_changed(together.changed_files(look))
    together.note_folders(together.changed_folders(look))
    assert {name: together.holds(name, look) for name in tasks} == expected
    certain = together.certain()
    assert all(expected[name] for name in certain)
    # what is left out is what changed, or has a folder that did
    folders_changed = {path for path, then in before.items() if signature(str(tmp_path / path)) != then}
    for name, (_, stand_ins) in tasks.items():
        if expected[name] and not folders_changed & {folder for folder, _ in stand_ins}:
            assert name in certain


def test_what_a_snapshot_does_not_see_is_not_certain(tmp_path: Path) -> None:
    plain = entry_of(tmp_path, ([], []))
    entries = {
        "prepare:a": plain,
        "prepare:b": (*plain[:7], (("NAME", None),), (), ()),
        "prepare:c": (*plain[:7], (), ("prepare:a",), ()),
        "prepare:d": (*plain[:9], ("it cannot be run",)),
    }
    record, absent = gather(entries, "graph")
    snapshot = Snapshot(record, lambda: absent)
    look = look_at(str(tmp_path))
    snapshot.note_changed(snapshot.changed_files(look))
    snapshot.note_folders(snapshot.changed_folders(look))
    assert snapshot.certain() == {"prepare:a": True}
    assert snapshot.variables("prepare:b") == (("NAME", None),)
    assert snapshot.sources("prepare:c") == ("prepare:a",)
    assert snapshot.problems("prepare:d") == ("it cannot be run",)
    assert snapshot.entries() == entries


@pytest.mark.parametrize("lost", ["gone", "another"])
def test_without_its_second_record_nothing_is_concluded(tmp_path: Path, lost: str) -> None:
    (tmp_path / "d").mkdir()
    record, _ = gather({"prepare:a": entry_of(tmp_path, ([], [("d", ["d/missing"])]))}, "graph")
    other = None if lost == "gone" else gather({}, "graph")[1]
    look = look_at(str(tmp_path))
    assert Snapshot(record, lambda: other).holds("prepare:a", look)
    (tmp_path / "d" / "new").write_text("")
    snapshot = Snapshot(record, lambda: other)
    assert not snapshot.holds("prepare:a", look_at(str(tmp_path)))
    assert snapshot.entries() == {}


def test_both_looks_see_the_same(tmp_path: Path, plain: bool) -> None:
    names = ["plain", "é", "\udce9 not utf-8", "a b", "line\nend", "x" * 200]
    for name in names:
        (tmp_path / name).write_text("x")
    os.utime(tmp_path / "plain", ns=(0, -(10**18)))
    (tmp_path / "link").symlink_to("plain")
    (tmp_path / "dangling").symlink_to("nowhere")
    paths = [*names, "link", "dangling", "missing", "plain/below", ".", str(tmp_path / "é"), "\0"]
    paths += ["y" * 300, "z/" * 3000]
    entries = [(path, None if "\0" in path else signature(str(tmp_path / path))) for path in paths]
    packed = pack_signatures(entries)
    look = look_at(str(tmp_path), plain=plain)
    assert look.differences(*packed) == []
    # what was seen once stays as it was seen
    (tmp_path / "plain").write_text("changed")
    assert look.differences(*packed) == []
    again = look_at(str(tmp_path), plain=plain)
    assert again.differences(*packed) == [0, 6]
    assert again.differences(*packed, 1) == [0]
    assert again.differences(b"", b"") == []
    absent = pack_signatures([("missing", None), ("dangling", None)])[0]
    assert again.differences(absent, nothing_at(absent)) == []


def test_very_many_paths(tmp_path: Path, plain: bool) -> None:
    entries: list[tuple[str, Signature | None]] = [
        (f"missing {number % 7000}", None) for number in range(20_000)
    ]
    entries[12_345] = (entries[12_345][0], (1, 2, 3, 4, 5))
    assert look_at(str(tmp_path), plain=plain).differences(*pack_signatures(entries)) == [12_345]


def test_a_native_module_of_another_source_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signatures = pytest.importorskip("gymbuild._signatures")
    monkeypatch.setattr(signatures, "source", "00000000")
    assert type(look_at(str(tmp_path))).__name__ == "_PlainLook"


def test_wrong_lengths_are_an_error_and_no_crash(tmp_path: Path) -> None:
    pytest.importorskip("gymbuild._signatures")
    look = look_at(str(tmp_path))
    for paths, signatures in ((b"a\0b", bytes(40)), (b"a", bytes(80)), (b"a", bytes(41)), (b"a", b"")):
        with pytest.raises(ValueError, match="as many paths"):
            look.differences(paths, signatures)


MAKE = """
import os, sys
from gymbuild.cache.witness import look_at, pack_signatures
root = sys.argv[1]
entries = [(f"m{number}", None) for number in range(3000)]
import resource
for _ in range(200):
    look_at(root).differences(*pack_signatures(entries))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, len(os.listdir("/dev/fd"))
for _ in range(400):
    look_at(root).differences(*pack_signatures(entries))
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, len(os.listdir("/dev/fd"))
print(before, after)
assert after[1] == before[1]
assert after[0] < before[0] * 1.3
"""


def test_a_look_gives_back_what_it_took(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", MAKE, str(tmp_path)], cwd=REPOSITORY, check=True)


@pytest.mark.slow
def test_a_checkout_of_many(tmp_path: Path) -> None:
    """More tasks than are kept one by one: all the same answers as for few."""
    sys.path.insert(0, str(REPOSITORY / "tests" / "perf"))
    try:
        import synthetic
    finally:
        sys.path.pop(0)
    root = tmp_path / "checkout"
    synthetic.write_checkout(root, 120, (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))

    def run(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "gymbuild", "--root", str(root), *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("prepare", "num_prepare_benchmark_processes=2")
    for _ in range(2):
        assert "nothing to do: 120 current" in run("prepare")
    from gymbuild.tasks.known import Known

    snapshot = Known(str(root)).snapshot()
    assert snapshot is not None
    assert len(snapshot) == 120
    by_stat = Known(str(root))
    assert by_stat.graph_holds()
    assert all(by_stat.is_current(f"prepare:b{number:04}") for number in range(120))

    with (root / "benchmarks/b0077/prepare.py").open("a") as script:
        script.write("# edited\n")
    (root / "benchmarks/b0078/data/b0078.jsonl").write_text("edited\n")
    (root / "benchmarks/b0079/data/unrelated").write_text("")
    (root / "benchmarks/b0080/__init__.py").write_text("")
    said = run("prepare")
    assert "3 done, 117 current" in said
    for number in (77, 78, 80):
        assert f".  prepare:b{number:04}" in said
    assert "b0078.jsonl" in said
    for _ in range(2):
        assert "nothing to do: 120 current" in run("prepare")
    again = Known(str(root))
    assert again.graph_holds()
    assert sorted(again.written_alone()) == ["prepare:b0077", "prepare:b0078", "prepare:b0080"]
    assert all(again.is_current(f"prepare:b{number:04}") for number in range(120))

    # a config more and one less
    synthetic.write_benchmark(root, "b9999")
    assert "1 done, 120 current" in run("prepare")
    (root / "benchmarks/b0000/config.yaml").unlink()
    assert "nothing to do: 120 current" in run("prepare")
