"""The run: calls one function of the script, and writes what came of it."""

from __future__ import annotations

import json
import os
import posix
import sys

from .failure import describe
from .imports import ScriptFinder
from .observation import observe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .recorder import Recorder


class _BadReturnError(Exception):
    pass


def main(request_path: str, lifeline: int, watch: Callable[..., None]) -> int:
    """Run what the request says, and write the result.

    Args:
        request_path: the request file, JSON: `root`, `folder`, `script_root`, `script`, `action`, `args`, `expected`,
            `excluded`, `result` (the file to write).
        lifeline: descriptor of the pipe that breaks when gymbuild dies.
        watch: ends this process group then.

    Returns:
        the exit code: 0 when the function returned as it should.
    """
    with open(request_path, encoding="utf-8") as file:
        request = json.load(file)
    watch(lifeline, folder=request["folder"])
    process = os.getpid()
    recorder = _begin(request)
    try:
        result = {"returned": _call(request)}
    except _BadReturnError as error:
        if os.getpid() != process:
            os._exit(1)
        result = {"error": {"kind": "failed", "type": "", "message": str(error), "traceback": ""}}
    except BaseException as error:
        if os.getpid() != process:
            raise
        recorder.enabled = False
        result = {"error": describe(error, request["root"])}
        recorder.enabled = True
        if not isinstance(error, SystemExit):
            _say(result["error"]["traceback"])
        elif isinstance(error.code, str):
            _say(error.code + "\n")  # as Python itself does at exit
    if os.getpid() != process:
        os._exit(0)  # a fork of the script that came back here: not its place to tell the result
    _say("")
    return 0 if _write_result(recorder, request["result"], result) and "returned" in result else 1


def _begin(request: dict[str, Any]) -> Recorder:
    """Make this process look as the script expects it, and observe it."""
    root, script_root = request["root"], request["script_root"]
    os.chdir(root)
    # a script finds the modules of its own root before those of the checkout
    sys.path[:0] = [script_root, root] if script_root != root else [root]
    sys.argv[:] = [script_root + "/" + request["script"]]
    main_module = sys.modules["__main__"]
    for name in ("__file__", "__cached__"):
        # or multiprocessing's children would run the runner as their main module
        if hasattr(main_module, name):
            delattr(main_module, name)
    import faulthandler

    faulthandler.enable()
    return observe(root, request["folder"], script_root, request["script"], request["excluded"])


def _call(request: dict[str, Any]) -> Any:
    """Import the script and call the function that is asked for."""
    import importlib

    module = importlib.import_module(ScriptFinder(request["script_root"], request["script"]).module)
    action = request["action"]
    function = getattr(module, action, None)
    if not callable(function):
        raise _BadReturnError("the script defines no function " + action)
    if action == "prepare":
        returned = function(**request["args"])
        if isinstance(returned, (str, os.PathLike)):
            returned = os.fspath(returned)
            if isinstance(returned, str):
                return returned
        raise _BadReturnError(
            "prepare() has to return the path of the file that it wrote; it returned " + _shown(returned)
        )
    from pathlib import Path

    returned = function(Path(request["expected"]))
    if returned is not True and returned is not False:
        raise _BadReturnError(action + "() has to return True or False; it returned " + _shown(returned))
    return returned


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except Exception:
        text = "something"
    return (text if len(text) <= 200 else text[:200] + "…") + " (" + type(value).__qualname__ + ")"


def _write_result(recorder: Recorder, path: str, result: dict[str, Any]) -> bool:
    """Write the result, and what could not be written down of observations before; False when it cannot be."""
    if recorder.unwritten:
        recorder.write(b"")
        if recorder.unwritten:
            recorder.give_up()
    try:
        with open(path + ".tmp", "w", encoding="utf-8", errors="surrogateescape") as file:
            json.dump(result, file, ensure_ascii=True)
            file.flush()
            os.fsync(file.fileno())
        posix.rename(path + ".tmp", path)
    except OSError:
        recorder.give_up()
        return False
    return True


def _say(text: str) -> None:
    """Write to stderr, and have stdout written out; the script may have closed either."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
        sys.stdout.flush()
    except Exception:
        pass
