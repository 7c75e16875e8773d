"""The log that the cache's records are in: it loses nothing that was written, whoever writes and whoever dies."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from gymbuild.cache.record_log import RecordLog
from tests.trees import REPOSITORY


def test_a_torn_record_ends_the_reading_and_the_next_write_mends_the_log(tmp_path: Path) -> None:
    path = tmp_path / "log"
    RecordLog(str(path)).put([("a", 1), ("b", [1, 2])])
    whole = path.read_bytes()
    RecordLog(str(path)).put([("c", "three")])
    data = path.read_bytes()
    for length in range(len(whole), len(data)):
        path.write_bytes(data[:length])
        log = RecordLog(str(path))
        assert [log.get(key) for key in "abc"] == [1, [1, 2], None]
        log.put([("d", 4)])
        again = RecordLog(str(path))
        assert [again.get(key) for key in "abd"] == [1, [1, 2], 4]


def test_a_file_that_is_no_log_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"something else\n" * 10)
    log = RecordLog(str(path))
    assert log.get("a") is None
    log.put([("a", 1)])
    assert RecordLog(str(path)).get("a") == 1


APPEND = """
import sys
from gymbuild.cache.record_log import RecordLog
path, name = sys.argv[1:]
log = RecordLog(path)
for number in range(300):
    log.put([(f"{name} {number % 20}", [number, "x" * (number * 37 % 4000)])])
"""


def test_several_processes_append_at_once_and_nothing_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "log"
    variables = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    processes = [
        subprocess.Popen([sys.executable, "-c", APPEND, str(path), name], env=variables) for name in "abcd"
    ]
    assert [process.wait(timeout=120) for process in processes] == [0] * 4
    log = RecordLog(str(path))
    for name in "abcd":
        for number in range(280, 300):
            assert log.get(f"{name} {number % 20}") == [number, "x" * (number * 37 % 4000)]
    # 4 × 300 records of 2 kB on average were written; what is overwritten is given back
    assert path.stat().st_size < 2_400_000


def test_a_log_is_compacted_and_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = RecordLog(str(path))
    for number in range(400):
        log.put([("big", "x" * 10_000), (f"k{number % 7}", number)])
    assert path.stat().st_size < 2_000_000
    again = RecordLog(str(path))
    assert again.get("big") == "x" * 10_000
    assert {again.get(f"k{number}") for number in range(7)} == set(range(393, 400))


def numbered(path: Path, count: int, start: int = 0) -> RecordLog:
    log = RecordLog(str(path))
    log.put([(f"key {number}", [number, "x" * 200]) for number in range(start, start + count)])
    return log


def table(path: Path) -> Path:
    return path.with_name(path.name + ".toc")


def test_a_large_log_gets_a_table_of_contents_and_reads_the_same_with_it(tmp_path: Path) -> None:
    path = tmp_path / "log"
    numbered(path, 1000)
    assert table(path).is_file()
    # some behind the table: new ones, one replaced, one deleted, one deleted and written again
    RecordLog(str(path)).put(
        [("key 7", "new"), ("key 8", None), ("key 9", None), ("more", 1), ("key 9", "again")]
    )
    expected = {f"key {number}": [number, "x" * 200] for number in range(1000) if number != 8}
    expected |= {"key 7": "new", "key 9": "again", "more": 1}
    with_table = RecordLog(str(path))
    assert {key: with_table.get(key) for key in with_table.keys()} == expected  # noqa: SIM118
    assert with_table.get("key 8") is None
    assert "key 8" not in with_table
    assert list(with_table.keys())[-3:] == ["key 7", "more", "key 9"]
    table(path).unlink()
    without = RecordLog(str(path))
    assert {key: without.get(key) for key in without.keys()} == expected  # noqa: SIM118
    assert list(without.keys()) == list(with_table.keys())


def test_one_process_that_writes_much_writes_few_tables(tmp_path: Path) -> None:
    log = RecordLog(str(tmp_path / "log"))
    tables: set[int] = set()
    for number in range(3000):
        log.put([(f"key {number}", [number, "x" * 200])])
        if table(tmp_path / "log").exists():
            tables.add(table(tmp_path / "log").stat().st_mtime_ns)
    assert 10 < len(tables) < 60
    assert [log.get(f"key {number}")[0] for number in range(3000)] == list(range(3000))


def test_reading_one_of_many_reads_little(tmp_path: Path) -> None:
    path = tmp_path / "log"
    numbered(path, 5000)
    program = (
        "import os, sys; from gymbuild.cache.record_log import RecordLog; read = 0; plain, at = os.read, os.pread\n"
        "def counted(function):\n"
        "    def call(*arguments):\n"
        "        global read; data = function(*arguments); read += len(data); return data\n"
        "    return call\n"
        "os.read, os.pread = counted(plain), counted(at)\n"
        "assert RecordLog(sys.argv[1]).get('key 4321')[0] == 4321; print(read)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < path.stat().st_size / 8


def damaged(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data))
    return chance.choice(
        [
            data[:at],
            data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :],
            data + data[-20:],
            b"",
        ]
    )


@pytest.mark.parametrize("seed", range(40))
def test_a_damaged_table_is_not_used(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "log"
    numbered(path, 300)
    table(path).write_bytes(damaged(table(path).read_bytes(), random.Random(seed)))
    log = RecordLog(str(path))
    assert [log.get(f"key {number}") for number in range(300)] == [
        [number, "x" * 200] for number in range(300)
    ]


def test_a_table_of_another_log_is_not_used(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    numbered(one, 300)
    numbered(other, 300, 1)
    table(one).write_bytes(table(other).read_bytes())
    log = RecordLog(str(one))
    assert [log.get(f"key {number}") for number in (0, 299, 300)] == [[0, "x" * 200], [299, "x" * 200], None]
    # nor is that of an earlier log of the same name
    one.unlink()
    numbered(one, 10, 500)
    again = RecordLog(str(one))
    assert list(again.keys()) == [f"key {number}" for number in range(500, 510)]


@pytest.mark.parametrize("seed", range(60))
def test_a_damaged_log_gives_what_was_written_or_nothing(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    path = tmp_path / "log"
    numbered(path, 200)
    written: dict[str, list[object]] = {f"key {number}": [[number, "x" * 200]] for number in range(200)}
    for number in range(20):
        key = f"key {chance.randrange(200)}"
        RecordLog(str(path)).put([(key, number)])
        written[key].append(number)
    path.write_bytes(damaged(path.read_bytes(), chance))
    log = RecordLog(str(path))
    for key, values in written.items():
        found = log.get(key)
        assert found is None or found in values
    log.put([("after", 1)])
    assert RecordLog(str(path)).get("after") == 1


def test_a_log_that_stays_open_sees_what_others_do_when_it_is_asked_to(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = numbered(path, 100)
    other = RecordLog(str(path))
    other.put([("key 1", "new"), ("key 2", None)])
    assert log.get("key 1") == [1, "x" * 200]
    log.refresh()
    assert (log.get("key 1"), log.get("key 2")) == ("new", None)
    # compacted by another: what stays open is the old file until then
    for number in range(8000):
        other.put([("big", [number, "y" * 1000])])
    assert path.stat().st_size < 2_000_000
    assert log.get("key 3") == [3, "x" * 200]
    log.refresh()
    assert log.get("big") == [7999, "y" * 1000]
    log.put([("key 4", "four")])
    assert RecordLog(str(path)).get("key 4") == "four"
    path.unlink()
    log.refresh()
    assert log.get("key 4") is None


def test_a_table_that_cannot_be_written_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "log"
    (tmp_path / f"log.toc.{os.getpid()}.new").mkdir()
    numbered(path, 300)
    assert not table(path).exists()
    assert RecordLog(str(path)).get("key 299") == [299, "x" * 200]
