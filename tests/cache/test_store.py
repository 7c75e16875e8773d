"""The store: immutable objects by content, verified on the way out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gymbuild.cache.digests import digest_bytes
from gymbuild.cache.store import Action, DamagedObjectError, Input, Store
from gymbuild.system.paths import Checkout


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(Checkout(tmp_path))


def kept(store: Store, folder: Path, data: bytes) -> str:
    path = folder / "file"
    path.write_bytes(data)
    digest = digest_bytes(data)
    store.add(str(path), digest)
    return digest


def test_what_is_kept_comes_out_as_it_went_in(store: Store, tmp_path: Path) -> None:
    digest = kept(store, tmp_path, b"rows\n")
    target = tmp_path / "a" / "b" / "out.jsonl"
    store.restore(digest, str(target))
    assert target.read_bytes() == b"rows\n"
    assert os.stat(target).st_mode & 0o777 == 0o666 & ~_umask()
    # a person may edit it in place: the object is another file
    target.write_bytes(b"edited\n")
    store.restore(digest, str(target))
    assert target.read_bytes() == b"rows\n"
    assert [path.name for path in target.parent.iterdir()] == ["out.jsonl"]


def test_objects_are_read_only_and_never_linked(store: Store, tmp_path: Path) -> None:
    digest = kept(store, tmp_path, b"rows\n")
    status = os.stat(store.object_path(digest))
    assert status.st_mode & 0o222 == 0
    assert status.st_nlink == 1


def test_a_damaged_object_is_dropped_and_nothing_is_written(store: Store, tmp_path: Path) -> None:
    digest = kept(store, tmp_path, b"rows\n")
    path = Path(store.object_path(digest))
    path.chmod(0o644)
    path.write_bytes(b"rowz\n")
    target = tmp_path / "out.jsonl"
    target.write_bytes(b"what was there\n")
    with pytest.raises(DamagedObjectError):
        store.restore(digest, str(target))
    assert not store.has(digest)
    assert target.read_bytes() == b"what was there\n"
    with pytest.raises(FileNotFoundError):
        store.restore(digest, str(target))


def test_a_file_that_changes_while_it_is_stored_is_not_kept_under_a_wrong_name(
    store: Store, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"after")
    with pytest.raises(OSError, match="changed while it was being stored"):
        store.add(str(path), digest_bytes(b"before"))
    assert list(store.all_objects()) == []


def test_a_damaged_record_of_a_preparation_is_passed_over(store: Store, tmp_path: Path) -> None:
    def action(made: float) -> Action:
        inputs = (Input("data", "x", "1"), Input("missing", "y", None))
        key = digest_bytes(str(made).encode())
        return Action("static", key, "alpha", inputs, (("out", "d"),), 1, 2, 0.5, made, True, ("z",))

    store.record(action(1.0))
    store.record(action(2.0))
    assert store.actions("static") == [action(2.0), action(1.0)]
    (tmp_path / ".cache" / "actions" / "static" / "torn.json").write_text('{"static_key": "sta')
    assert store.actions("static") == [action(2.0), action(1.0)]
    assert store.actions("another") == []


def _umask() -> int:
    value = os.umask(0)
    os.umask(value)
    return value
