"""One call of one function of a prepare script in its environment: started, waited for, and what came of it.

The script's side is the package `runner`. Between the two there are the folder of the run (a request, a result, the
observations), one pipe for everything that the script prints, and one pipe, the lifeline, whose only purpose is that it
breaks when this process dies.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from gymbuild.preparation.args import encode_args
from gymbuild.preparation.environment_variables import script_environment
from gymbuild.preparation.failures import failure_class
from gymbuild.preparation.log import Log, Show, secrets_to_mask
from gymbuild.preparation.observations import Observations, inputs_of, read_events
from gymbuild.preparation.run_folder import RUNNER, RunFolder, run_folder
from gymbuild.preparation.script import PREPARE
from gymbuild.system.errors import PreparationFailedError, PreparationMayPassError
from gymbuild.system.paths import Checkout
from gymbuild.system.permissions import sentence
from gymbuild.system.processes import Ended, run

_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""Signals that a script's own code does not end by."""


@dataclass(frozen=True, slots=True)
class IsolatedRun:
    """One call of one function of a prepare script, in the environment that it needs."""

    python: str
    """The environment's interpreter, absolute."""
    checkout: Checkout
    script: str
    """The prepare script, relative to the checkout when inside it, with forward slashes."""
    module: str
    """Its dotted module path, as errors show it."""
    action: str
    """`prepare` or `is_prepared_data_current`."""
    args: Mapping[str, Any]
    """Keyword arguments of `prepare`."""
    expected: str
    """The configured `jsonl_fpath`, relative to the checkout or absolute."""
    outputs: tuple[str, ...] = ()
    """More paths and globs, relative to the checkout, that are the task's own outputs."""
    log: str = ""
    """File for everything that the script prints (relative to the checkout, or absolute); empty for none. `prepare`
    begins it anew, other actions append to it."""
    label: str | None = None
    """Put before each line that is shown, where several scripts run at once."""
    timeout: float | None = None
    """Seconds that the run may take; None for no limit."""
    offline: bool = False
    """Tell the tools that the script may use to leave the network alone."""
    environment: Mapping[str, str] | None = None
    """The variables that the script's own are made from, in place of this process's."""
    script_root: str = "."
    """The root that the script is of, which its imports begin at: relative to the checkout when inside it."""
    excluded: tuple[str, ...] = ()
    """Paths, relative to the checkout or absolute, that are not inputs, with all that is below them: the folder of
    environments, where it is inside the checkout. The environment that the script runs in need not be named."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """What came of a run that went well."""

    returned: Any
    """The path that `prepare` returned, or the verdict of `is_prepared_data_current`."""
    observations: Observations = field(repr=False)
    seconds: float
    """How long it took, by the clock on the wall."""


def run_isolated(call: IsolatedRun, *, show: Show | None = None) -> RunResult:
    """Run one function of a prepare script, and wait for it to end.

    Safe to call from several threads and from forked processes at once.

    Args:
        call: what to run, and where.
        show: takes what is to be shown, whole lines as they come, secrets masked; default `sys.stdout`.

    Returns:
        what the function returned, and what it used.

    Raises:
        PreparationFailedError: the script failed in its own code or environment, or took longer than its limit.
        PreparationMayPassError: it failed for want of a network, or something outside killed it.
        UsageError: an argument that JSON has no form for.
        KeyboardInterrupt, SystemExit: as they come, after the script's process group has ended.
    """
    args = json.loads(encode_args(call.args, call.checkout))
    environment = script_environment(
        call.python, call.checkout.root, offline=call.offline, environment=call.environment
    )
    secrets = secrets_to_mask(environment)
    started = time.monotonic()
    running = False
    try:
        with run_folder(call.checkout) as folder:
            folder.fill(_request(call, args))
            log = Log(
                call.checkout,
                call.log,
                secrets,
                anew=call.action == PREPARE,
                label=call.label,
                show=show,
            )
            running = True
            with log:
                ended = _run(call, folder, environment, log)
            result, observations = _outcome(call, folder, ended, log)
    except OSError as error:
        if running:
            raise
        kind = failure_class(error)
        place = error.filename or call.checkout.cached("runs")
        reason = f"cannot write {call.checkout.relative(place)}: {sentence(error)}; nothing was run"
        raise kind(call.module, call.action, reason) from None
    return RunResult(result["returned"], observations, time.monotonic() - started)


def _request(call: IsolatedRun, args: Mapping[str, Any]) -> dict[str, Any]:
    checkout = call.checkout
    return {
        "root": checkout.root,
        "script_root": os.path.realpath(checkout.absolute(call.script_root)),
        # not resolved itself: a script that is a symlink runs under its own name
        "script": os.path.relpath(checkout.absolute(call.script), checkout.absolute(call.script_root)),
        "action": call.action,
        "args": args if call.action == PREPARE else {},
        "expected": checkout.absolute(call.expected),
        "excluded": [checkout.absolute(path) for path in call.excluded],
    }


def _run(call: IsolatedRun, folder: RunFolder, environment: Mapping[str, str], log: Log) -> Ended:
    try:
        return run(
            [call.python, RUNNER, folder.request],
            cwd=call.checkout.root,
            environment=environment,
            timeout=call.timeout,
            write=log.write,
            lifeline="argument",
        )
    except OSError as error:
        raise PreparationFailedError(
            call.module, call.action, f"cannot start {call.python}: {error.strerror}"
        ) from None


def _outcome(
    call: IsolatedRun, folder: RunFolder, ended: Ended, log: Log
) -> tuple[dict[str, Any], Observations]:
    result = folder.result()
    outputs = (call.checkout.relative(call.expected), *call.outputs)
    try:
        folder.check_complete()
        observations = inputs_of(read_events(folder.path), outputs, call.checkout.root)
    except ValueError as error:
        what = (
            f"what it uses, or its result, could not be written down in "
            f"{call.checkout.relative(os.path.dirname(folder.path))} ({error}); an input that is not recorded would "
            "never make the dataset stale"
        )
        raise PreparationMayPassError(call.module, call.action, log.describe(what)) from None
    if result is None or ended.timed_out or "error" in result or ended.status != 0:
        try:
            _fail(call, ended, result, log)
        except PreparationFailedError as error:
            # what a failed run used is what has to change before it is worth another try
            error.observations = observations
            raise
    return result, observations


def _fail(call: IsolatedRun, ended: Ended, result: dict[str, Any] | None, log: Log) -> NoReturn:
    """Raise what a run that did not go well has to say for itself."""
    kind: type[PreparationFailedError] = PreparationFailedError
    if ended.timed_out:
        what = (
            f"it took longer than {call.timeout:g} s (the dataset's prepare_timeout), and was ended; "
            f"set a higher prepare_timeout if it needs more time"
        )
    elif result is None and ended.status < 0:
        name = _signal_name(-ended.status)
        if -ended.status in _FROM_OUTSIDE:
            kind = PreparationMayPassError
            what = f"something outside of gymbuild killed it ({name})"
            if -ended.status == signal.SIGKILL:
                what += "; a machine that runs out of memory does that"
        else:
            what = f"its Python crashed ({name})"
    elif result is None:
        what = (
            f"its Python ended with exit code {ended.status} before {call.action}() came to an end "
            f"(os._exit, or a crash at the start)"
        )
    elif "error" in result:
        error = result["error"]
        what = error["message"]
        if error["kind"] == "may_pass":
            kind = PreparationMayPassError
    else:
        how = _signal_name(-ended.status) if ended.status < 0 else f"exit code {ended.status}"
        what = f"{call.action}() returned, but then its Python did not end well ({how})"
    raise kind(call.module, call.action, log.describe(what))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
