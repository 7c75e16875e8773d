"""A stat cache that cannot lie: one hash per content change, and no change that hides behind a time stamp."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gymbuild.cache.database import Database
from gymbuild.cache.digests import DigestCache, digest_bytes
from gymbuild.cache.witness import is_racy, signature


@pytest.fixture
def cache(tmp_path: Path) -> Callable[[], DigestCache]:
    """Opens the cache of one checkout anew, as the next start does."""
    (tmp_path / "checkout").mkdir()
    return lambda: DigestCache(Database(str(tmp_path / "state.db")), str(tmp_path / "checkout"))


@pytest.fixture
def file(tmp_path: Path, cache: Callable[[], DigestCache]) -> Path:
    path = tmp_path / "checkout" / "words.txt"
    path.write_bytes(b"first")
    return path


def test_one_hash_per_content_change_over_many_starts(file: Path, cache: Callable[[], DigestCache]) -> None:
    hashed = 0
    for content in (b"one", b"two", b"three"):
        file.write_bytes(content)
        first = cache()
        assert first.get("words.txt") == digest_bytes(content)
        first.save(wait=True)
        settled = first.hashed
        for _ in range(5):
            again = cache()
            assert again.get("words.txt") == digest_bytes(content)
            assert again.get(str(file)) == digest_bytes(content)
            again.save()
            hashed += again.hashed
        # a file written just now is hashed once more when its time stamp has become one to trust
        assert settled <= 2
    assert hashed == 0


def test_a_touch_costs_one_hash_and_then_none(file: Path, cache: Callable[[], DigestCache]) -> None:
    first = cache()
    first.get("words.txt")
    first.save(wait=True)
    os.utime(file)
    time.sleep(0.05)
    second = cache()
    assert second.get("words.txt") == digest_bytes(b"first")
    second.save(wait=True)
    assert second.hashed == 1
    third = cache()
    third.get("words.txt")
    assert third.hashed == 0


def test_rewrites_of_equal_size_within_a_clock_tick_are_all_seen(
    file: Path, cache: Callable[[], DigestCache]
) -> None:
    opened = cache()
    times = file.stat()
    for number in range(500):
        content = f"{number:05}".encode()
        with file.open("r+b") as writer:
            writer.write(content)
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
        if number % 50 == 0:
            opened = cache()
        assert opened.get("words.txt") == digest_bytes(content)
        opened.save()
        with file.open("r+b") as writer:
            writer.write(content[::-1])
        assert opened.get("words.txt") == digest_bytes(content[::-1])
        if number % 10 == 0:
            opened.save()
            assert cache().get("words.txt") == digest_bytes(content[::-1])


@pytest.mark.parametrize("moment", [0, 1, 10**18, 2**62], ids=["epoch", "1 ns", "2001", "2116"])
def test_times_that_a_program_sets_hide_nothing(
    file: Path, cache: Callable[[], DigestCache], moment: int
) -> None:
    os.utime(file, ns=(moment, moment))
    first = cache()
    first.get("words.txt")
    first.save(wait=True)
    file.write_bytes(b"other")
    os.utime(file, ns=(moment, moment))
    assert cache().get("words.txt") == digest_bytes(b"other")


def test_a_rename_from_an_older_file_of_equal_size_is_seen(
    file: Path, cache: Callable[[], DigestCache]
) -> None:
    older = file.with_name("older.txt")
    older.write_bytes(b"older")
    os.utime(older, ns=(file.stat().st_mtime_ns,) * 2)
    first = cache()
    first.get("words.txt")
    first.save(wait=True)
    older.rename(file)
    assert cache().get("words.txt") == digest_bytes(b"older")


def test_what_could_still_hide_a_change_is_not_remembered(
    file: Path, cache: Callable[[], DigestCache]
) -> None:
    file.write_bytes(b"fresh")
    opened = cache()
    opened.get("words.txt")
    found = signature(str(file))
    assert found is not None
    if is_racy(found, time.time_ns()):
        opened.save()
        again = cache()
        again.get("words.txt")
        assert again.hashed == 1


def test_the_step_of_a_clock_that_counts_seconds_is_waited_for() -> None:
    second = 1_000_000_000
    fine, coarse = (1, 1, 1, 5 * second + 7, 5 * second + 7), (1, 1, 1, 5 * second, 5 * second)
    assert is_racy(fine, 5 * second + 8)
    assert not is_racy(fine, 5 * second + second)
    assert is_racy(coarse, 6 * second + second // 2)
    assert not is_racy(coarse, 8 * second)


def test_only_the_change_time_counts_for_that() -> None:
    # an mtime in the past does not make a change of just now one to trust, nor one in the future a settled one racy
    now = 10**18 + 5
    assert is_racy((1, 1, 1, 3, now), now + 1)
    assert not is_racy((1, 1, 1, now + 10**15 + 1, now), now + 10**9)


def test_no_folder_and_no_missing_file_has_a_digest(file: Path, cache: Callable[[], DigestCache]) -> None:
    opened = cache()
    assert opened.get(".") is None
    assert opened.get("nothing") is None
    file.unlink()
    file.symlink_to("nowhere")
    assert opened.get("words.txt") is None
