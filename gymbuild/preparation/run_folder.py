"""The folder of one run under `.cache/runs/`: all that passes between gymbuild and the runner, except what is printed."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

from gymbuild.system.files import remove
from gymbuild.system.locks import lock, lock_descriptor
from gymbuild.system.paths import Checkout

RUNNER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "runner", "__main__.py")
"""What a script's interpreter is started with; the only code of gymbuild that runs in a benchmark's environment."""
COMPLETE_FILE = "complete"
"""There as long as every observation of the run could be written down; as `runner.recorder` has it."""

# Read by whatever Python a script starts, Python 2 included: only what all of them understand.
_SITECUSTOMIZE = """\
import sys

if sys.version_info >= (3, 9) and sys.implementation.name == "cpython":
    import _frozen_importlib_external as _external

    _module = type(sys)("_gymbuild_runner_start")
    _module.__file__ = {runner}
    _external.SourceFileLoader("_gymbuild_runner_start", {runner}).exec_module(_module)
    _module.load("observation").observe_child({folder})
"""


class RunFolder:
    """The folder of one run.

    Args:
        path: the folder, absolute.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.request = os.path.join(path, "request.json")

    def fill(self, request: Mapping[str, Any]) -> None:
        """Write all that the runner reads.

        Args:
            request: as `runner.call.main` says, without what this folder adds.

        Raises:
            OSError: it cannot be written.
        """
        os.mkdir(os.path.join(self.path, "hook"))
        with open(os.path.join(self.path, "hook", "sitecustomize.py"), "w", encoding="utf-8") as file:
            file.write(_SITECUSTOMIZE.format(runner=ascii(RUNNER), folder=ascii(self.path)))
        settings = [
            request["root"],
            self.path,
            request["script_root"],
            request["script"],
            *request["excluded"],
        ]
        with open(os.path.join(self.path, "observe"), "wb") as binary:
            binary.write(os.fsencode("\0".join(settings)))
        with open(os.path.join(self.path, COMPLETE_FILE), "wb"):
            pass
        with open(self.request, "w", encoding="ascii") as file:
            json.dump(
                {**request, "folder": self.path, "result": os.path.join(self.path, "result.json")}, file
            )

    def result(self) -> dict[str, Any] | None:
        """What the runner wrote about the call, or None when it did not come to that."""
        try:
            with open(os.path.join(self.path, "result.json"), encoding="ascii") as file:
                result: dict[str, Any] = json.load(file)
        except (OSError, ValueError):
            return None
        return result

    def check_complete(self) -> None:
        """Check that every observation could be written down.

        Raises:
            ValueError: it could not.
        """
        if not os.path.exists(os.path.join(self.path, COMPLETE_FILE)):
            raise ValueError("is the disk full?")


@contextlib.contextmanager
def run_folder(checkout: Checkout) -> Iterator[RunFolder]:
    """A new folder for one run, which is gone afterwards; what runs of dead processes have left goes as well.

    Args:
        checkout: whose `.cache/runs/` it lies in.

    Raises:
        OSError: it cannot be made.
    """
    runs = checkout.cached("runs")
    os.makedirs(runs, exist_ok=True)
    # one at a time makes a folder or removes others: one that is not locked yet must not count as abandoned
    with lock(checkout, "runs"):
        _remove_abandoned(runs)
        path = tempfile.mkdtemp(dir=runs)
        # whose folder is locked is alive, on whatever host it is
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        lock_descriptor(descriptor, blocking=False)
    try:
        yield RunFolder(path)
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(descriptor)


def _remove_abandoned(runs: str) -> None:
    for name in os.listdir(runs):
        with contextlib.suppress(OSError):
            path = os.path.join(runs, name)
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                if lock_descriptor(descriptor, blocking=False):  # not where it is in use, or nobody can tell
                    remove(path)
            finally:
                os.close(descriptor)
