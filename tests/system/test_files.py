"""Files are written whole or not at all, under names and with rights that a person expects."""

from __future__ import annotations

import errno
import os
import stat
import sys
from pathlib import Path

import pytest

from gymbuild.system.files import (
    TEMPORARY,
    copy_content,
    move,
    remove,
    remove_temporaries,
    temporary_beside,
    write_atomically,
)

NAMES = {
    "plain": "plain.json",
    "spaces": "with space.jsonl",
    "long": "x" * 255,
    "long in bytes": "長" * 85,
    "long in bytes, cut within a letter": "é" * 127,
}
if sys.platform == "linux":
    NAMES["not UTF-8"] = os.fsdecode(b"\xff" * 200)


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_file_of_any_name_is_written_whole_and_leaves_nothing_beside_it(tmp_path: Path, name: str) -> None:
    path = tmp_path / "new folder" / name
    for data in (b"one", b"two"):
        write_atomically(str(path), data)
        assert path.read_bytes() == data
    assert os.listdir(path.parent) == [name]


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_a_file_gets_the_rights_that_the_umask_gives(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        write_atomically(str(tmp_path / "x"), b"")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o666 & ~umask


def test_the_old_file_stays_when_writing_fails(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), temporary_beside(str(path)) as temporary:
        Path(temporary).write_text("half")
        raise ZeroDivisionError
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["x"]


def test_an_error_names_the_folder_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as error, temporary_beside(str(tmp_path / "no/x")):
        pass
    assert error.value.filename == str(tmp_path / "no")


def test_only_what_was_left_for_this_very_file_is_removed(tmp_path: Path) -> None:
    for name in (f".x.1{TEMPORARY}", f".x.2{TEMPORARY}", f".xy.1{TEMPORARY}", ".x.1", "x"):
        (tmp_path / name).write_text("")
    remove_temporaries(str(tmp_path / "x"))
    assert sorted(os.listdir(tmp_path)) == [".x.1", f".xy.1{TEMPORARY}", "x"]
    remove_temporaries(str(tmp_path / "no" / "x"))


def test_a_copy_has_the_bytes_and_an_error_names_a_path(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(os.urandom(3 << 20))
    copy_content(str(tmp_path / "x"), str(tmp_path / "y"))
    assert (tmp_path / "x").read_bytes() == (tmp_path / "y").read_bytes()
    with pytest.raises(FileNotFoundError) as error:
        copy_content(str(tmp_path / "no"), str(tmp_path / "y"))
    assert error.value.filename == str(tmp_path / "no")


def test_files_symlinks_and_folders_are_removed_and_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def another_file_system(source: str, target: str) -> None:
        if not source.endswith(TEMPORARY):
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        real(source, target)

    real = os.rename
    for rename in (real, another_file_system):
        monkeypatch.setattr(os, "rename", rename)
        (tmp_path / "file").write_text("text")
        (tmp_path / "link").symlink_to("nowhere")
        (tmp_path / "folder").mkdir()
        (tmp_path / "folder" / "inner").write_text("text")
        for name in ("file", "link", "folder"):
            move(str(tmp_path / name), str(tmp_path / f"{name}2"))
        assert sorted(os.listdir(tmp_path)) == ["file2", "folder2", "link2"]
        assert (tmp_path / "file2").read_text() == (tmp_path / "folder2/inner").read_text() == "text"
        assert os.readlink(tmp_path / "link2") == "nowhere"
        for name in ("file2", "link2", "folder2", "not there"):
            remove(str(tmp_path / name))
        assert not os.listdir(tmp_path)
