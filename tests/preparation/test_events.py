"""Observations as they lie in a run's folder: of all processes in the order of time, and whole."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gymbuild.preparation.observations import Event, read_events
from gymbuild.preparation.runner.recorder import Recorder


def test_what_a_process_did_not_live_to_write_is_left_out(tmp_path: Path) -> None:
    recorder = Recorder("/checkout", str(tmp_path), [])
    names = [(f"file {number} \udcff é", number % 2 == 0) for number in range(300)]
    recorder.note("l", "folder \ud800", names)
    recorder.note("r", "big", (1 << 63, 2, 3, 1_900_000_000_000_000_000, -4))
    recorder.note("m", "last")
    (file,) = tmp_path.iterdir()
    assert file.name == f"observed.{os.getpid()}"

    def found() -> list[Event]:
        return [(0, *event[1:]) for event in read_events(str(tmp_path))]

    whole: list[Event] = [
        (0, "l", "folder \ud800", names),
        (0, "r", "big", (1 << 63, 2, 3, 1_900_000_000_000_000_000, -4)),
        (0, "m", "last", None),
    ]
    assert found() == whole
    data = file.read_bytes()
    for cut in range(1, 30):
        file.write_bytes(data[:-cut])
        assert found() == whole[: len(found())]
        assert len(found()) < 3


def test_the_processes_of_a_run_in_the_order_of_time(tmp_path: Path) -> None:
    recorder = Recorder("/checkout", str(tmp_path), [])
    recorder.note("m", "first")
    (tmp_path / f"observed.{os.getpid()}").rename(tmp_path / "observed.9999999")
    recorder.note("m", "second")
    assert [event[2] for event in read_events(str(tmp_path))] == ["first", "second"]


@pytest.mark.parametrize("data", [b"(1, 'r', 'a', None)\n", b"i\x01\0\0\0", b"\xff" * 20])
def test_what_is_not_an_observation_is_an_error(tmp_path: Path, data: bytes) -> None:
    # of another version of gymbuild, say, that was installed meanwhile: what it observed must not get lost
    (tmp_path / "observed.1").write_bytes(data)
    with pytest.raises(ValueError):
        read_events(str(tmp_path))
