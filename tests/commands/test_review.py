"""docs/review.md: its edits are made, its commands run, and they print what it says."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys

import pytest

from tests.tasks.conftest import REPOSITORY, Project

BLOCKS = re.findall(
    r"^```(console|diff)\n(.*?)^```$",
    (REPOSITORY / "docs/review.md").read_text(encoding="utf-8"),
    re.MULTILINE | re.DOTALL,
)


def matches(expected: str, printed: str) -> bool:
    """Whether a text is the expected one, in which a line `…` stands for any lines, and `…` at a line's end
    where nothing else could follow (a digest) for the rest of the line."""
    pattern = ""
    for line in expected.splitlines():
        if line == "…":
            pattern += r"(?:.*\n)*?"
        elif line.endswith("sha256:…"):
            pattern += re.escape(line[:-1]) + r".*\n"
        else:
            pattern += re.escape(line) + r"\n"
    return re.fullmatch(pattern, printed) is not None


@pytest.mark.slow
def test_the_walk_through_prints_what_it_says(shipped: Project) -> None:
    folder = shipped.root.parent / "bin"
    folder.mkdir()
    (folder / "gymbuild").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m gymbuild "$@"\n')
    (folder / "gymbuild").chmod(0o755)
    (shipped.root / ".gitignore").write_text(".cache/\nbenchmarks/**/data/*_benchmark.jsonl\n")
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    names = {
        f"GIT_{who}_{what}": "t@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    environment = {**clean, **names, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}

    def run(command: str, text: str | None = None) -> str:
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=shipped.root,
            env=environment,
            input=text,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            check=False,
        )
        assert done.returncode in (0, 1), done.stdout
        return done.stdout

    run("git init -q && git add --all && git -c commit.gpgsign=false commit -q -m all")
    commands = 0
    for kind, text in BLOCKS:
        if kind == "diff":
            assert run("git apply -", text) == ""
            continue
        for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, _, expected = part.partition("\n")
            printed = run(command)
            assert matches(expected, printed), f"$ {command}\n{printed}"
            commands += 1
    assert commands == 9


def test_what_the_walk_through_is_compared_with_is_not_anything() -> None:
    assert matches("a\n…\nb\n", "a\nx\ny\nb\n") and matches("…\nb\n", "b\n")
    assert not matches("a\n…\nb\n", "a\nx\n") and not matches("", "x\n") and not matches("a\n", "ab\n")
