"""A cache on another file system than the checkout: what is kept safe has to be copied, and a copy may be cut off."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.tasks.test_disk import mounted
from tests.trees import Tree

HALF_A_COPY = """
import os, shutil, signal

def copyfile(source, target, **options):
    with open(source, "rb") as read, open(target, "wb") as write:
        write.write(read.read(40))
    os.kill(os.getpid(), signal.SIGKILL)

if "KILL_IN_COPY" in os.environ:
    shutil.copyfile = copyfile
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="mounts as Linux has them")


@pytest.fixture
def apart(tree: Tree) -> Iterator[Tree]:
    """A checkout that is current, with what is held during a run on a file system of its own."""
    hook = tree.root.parent / "hook"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(HALF_A_COPY)
    tree.environment["PYTHONPATH"] = os.pathsep.join([str(hook), tree.variables()["PYTHONPATH"]])
    tree.benchmark("alpha")
    tree.gymbuild("plan")
    for name in ("held", "displaced"):
        tree.path(f".cache/{name}").mkdir(exist_ok=True)
    with (
        mounted(tree.path(".cache/held"), "-t", "tmpfs", "tmpfs"),
        mounted(tree.path(".cache/displaced"), "-t", "tmpfs", "tmpfs"),
    ):
        yield tree


def test_a_failed_run_leaves_the_very_file(apart: Tree) -> None:
    output = apart.output("alpha")
    output.chmod(0o640)
    before = (output.read_bytes(), output.stat().st_mtime_ns, output.stat().st_mode)
    apart.replace("benchmarks/alpha/prepare.py", "rows =", "raise ValueError('no'); rows =")
    apart.gymbuild("plan", code=76)
    assert (output.read_bytes(), output.stat().st_mtime_ns, output.stat().st_mode) == before
    assert not list(apart.path(".cache/held").rglob("output*"))


def test_a_copy_that_is_cut_off_is_never_taken_for_the_output(apart: Tree) -> None:
    by_hand = '{"task_id": "a row that a person wrote, and that is nowhere else"}\n'
    apart.output("alpha").write_text(by_hand)
    apart.replace("benchmarks/alpha/prepare.py", "size: int = 3", "size: int = 4")
    done = subprocess.run(
        apart.command("plan"), cwd=apart.root, env=apart.variables({"KILL_IN_COPY": "1"}), check=False
    )
    assert done.returncode == -9
    apart.gymbuild("prepare:alpha", "dry_run=true")
    assert apart.output("alpha").read_text() == by_hand
    said = apart.gymbuild("plan")
    assert "was not made by a recorded preparation; it is kept as .cache/displaced/" in said
    assert apart.displaced() == {"benchmarks/alpha/data/alpha.jsonl": by_hand}
    assert apart.output("alpha").read_text().count("\n") == 4
