"""A clock that is not the file server's: files are stamped by one clock, and `time` tells another."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tasks.test_disk import mounted
from tests.trees import REPOSITORY

SHIFTED = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long shift(void) { const char *text = getenv("SHIFT_SECONDS"); return text ? atol(text) : 0; }

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, now);
    if (clock == CLOCK_REALTIME) now->tv_sec += shift();
    return result;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}

int gettimeofday(struct timeval *out, void *zone) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    out->tv_sec = now.tv_sec;
    out->tv_usec = now.tv_nsec / 1000;
    return 0;
}
"""

HASH_AT_ONCE = """
import os, sys, time
from gymbuild.cache.database import Database
from gymbuild.cache.digests import DigestCache
root, cache = sys.argv[1:]
path = os.path.join(root, "words.txt")
trusted = 0
for number in range(200):
    # the kernel's own step is far longer than a write and a digest take
    with open(path, "w") as file:
        file.write(f"{number:05}")
    first = DigestCache(Database(cache), root)
    first.get("words.txt")
    first.save()
    again = DigestCache(Database(cache), root)
    again.get("words.txt")
    trusted += not again.hashed
print(trusted, round(time.time() - os.stat(path).st_ctime))
"""


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A library that shifts the clock of the process that loads it; the kernel's, which stamps files, stays."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("no C compiler, or no LD_PRELOAD")
    folder = tmp_path_factory.mktemp("shim")
    (folder / "shift.c").write_text(SHIFTED)
    target = str(folder / "shift.so")
    done = subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", target, str(folder / "shift.c"), "-ldl"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"the shim cannot be compiled: {done.stderr}")
    return target


def shifted(shim: str, program: str, folder: Path, seconds: int) -> str:
    """What a program prints whose clock is ahead by so many seconds."""
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder / "checkout"), str(folder / "digests")],
        env={
            **os.environ,
            "LD_PRELOAD": shim,
            "SHIFT_SECONDS": str(seconds),
            "PYTHONPATH": str(REPOSITORY),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def trusted(shim: str, tmp_path: Path, seconds: int) -> int:
    """How many of 200 files are trusted by `stat` although they were hashed within a clock step of their change."""
    (tmp_path / "checkout").mkdir()
    said = shifted(shim, HASH_AT_ONCE, tmp_path, seconds)
    count, ahead = map(int, said.split())
    assert ahead == pytest.approx(seconds, abs=2), "the shim does not shift the clock"
    return count


@pytest.mark.parametrize(
    "seconds",
    [0, -10, 10],
    ids=["the same clock", "a clock that is behind", "a clock that is ahead"],
)
def test_a_file_hashed_within_a_clock_step_of_its_change_is_not_trusted(
    shim: str, tmp_path: Path, seconds: int
) -> None:
    assert trusted(shim, tmp_path, seconds) <= 2


HIDE = """
import os, sys
from gymbuild.cache.database import Database
from gymbuild.cache.digests import DigestCache, digest_bytes
root, cache = sys.argv[1:]
path = os.path.join(root, "words.txt")
wrong = 0
for number in range(200):
    with open(path, "w") as file:
        file.write(f"a{number:05}")
    before = os.stat(path)
    first = DigestCache(Database(cache), root)
    first.get("words.txt")
    first.save()
    with open(path, "r+") as file:
        file.write(f"b{number:05}")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    wrong += DigestCache(Database(cache), root).get("words.txt") != digest_bytes(f"b{number:05}".encode())
print(wrong)
"""


@pytest.mark.parametrize(
    "seconds",
    [0, -10, 10],
    ids=["the same clock", "a clock that is behind", "a clock that is ahead"],
)
def test_no_second_change_within_a_clock_step_is_missed(shim: str, tmp_path: Path, seconds: int) -> None:
    # ramfs stamps as file servers do, by the tick; newer local file systems stamp a file anew that was looked at
    (tmp_path / "ram").mkdir()
    with mounted(tmp_path / "ram", "-t", "ramfs", "ramfs"):
        (tmp_path / "ram/checkout").mkdir()
        said = shifted(shim, HIDE, tmp_path / "ram", seconds)
    assert int(said) == 0
