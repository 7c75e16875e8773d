"""Our side of an isolated run: starts a prepare script in its environment, relays what it prints, ends it.

The script's side is `isolated.py`. Between the two there are: a request file, a result file, the observations
(all three in a private folder under `.cache/runs/`), one pipe for everything that the script prints, and one
pipe, the lifeline, whose only purpose is that it breaks when this process dies.
"""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO, Any, NoReturn

from gymbuild.preparation.observations import Observations, inputs_of, read_events
from gymbuild.system.errors import PASSING, PreparationFailedError, PreparationMayPassError, UsageError
from gymbuild.system.masking import mask, secret_values
from gymbuild.system.paths import Checkout
from gymbuild.system.permissions import sentence

ISOLATED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "isolated.py")
"""The script's side: the one file of gymbuild that runs in a benchmark's environment."""
POLITE_SECONDS = 3.0
"""How long a process group has between SIGTERM and SIGKILL."""
DRAIN_SECONDS = 1.0
"""How long output is still awaited after the script itself has ended, while a child of it holds the pipe."""
TAIL_LINES = 20
"""How many of the last lines of output an error carries."""
LONGEST_LINE = 1 << 20
"""Characters of a line without end after which it is passed on in pieces."""

WHOLE = "whole"
"""File in a run's folder; as `WHOLE_FILE` of the script's side."""

PREPARE = "prepare"
IS_CURRENT = "is_prepared_data_current"


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
    """Paths, relative to the checkout or absolute, that are no inputs, with all that is below them: the folder of
    environments, where it is inside the checkout. The environment that the script runs in need not be named."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """What came of a run that went well."""

    returned: Any
    """The path that `prepare` returned, or the verdict of `is_prepared_data_current`."""
    observations: Observations = field(repr=False)
    seconds: float
    """How long it took, by the clock on the wall."""


# Lifelines of runs in progress. A process forked while a run is on would keep that run's lifeline from breaking.
_lifelines: set[int] = set()


def _close_lifelines() -> None:
    for descriptor in _lifelines:
        with contextlib.suppress(OSError):
            os.close(descriptor)
    _lifelines.clear()


os.register_at_fork(after_in_child=_close_lifelines)


def run_isolated(run: IsolatedRun, *, show: Callable[[str], object] | None = None) -> RunResult:
    """Run one function of a prepare script, and wait for it to end.

    Safe to call from several threads and from forked processes at once.

    Args:
        run: what to run, and where.
        show: takes what is to be shown, whole lines as they come, secrets masked; default `sys.stdout`.

    Returns:
        what the function returned, and what it was seen to use.

    Raises:
        PreparationFailedError: the script failed in its own code or environment, or took longer than its limit.
        PreparationMayPassError: it failed for want of a network, or something outside killed it.
        UsageError: an argument that JSON has no form for.
        KeyboardInterrupt, SystemExit: as they come, after the script's process group has ended.
    """
    args = json.loads(encode_args(run.args, run.checkout))
    environment = script_environment(
        run.python, run.checkout.root, offline=run.offline, environment=run.environment
    )
    secrets = _secrets_to_mask(environment)
    started = time.monotonic()
    try:
        folder = _private_folder(run, args)
        output = _Output(run, show, secrets)
    except OSError as error:
        kind = PreparationMayPassError if error.errno in PASSING else PreparationFailedError
        place = error.filename or run.checkout.cached("runs")
        reason = f"cannot write {run.checkout.relative(place)}: {sentence(error)}; nothing was run"
        raise kind(run.module, run.action, reason) from None
    own = (run.checkout.relative(run.expected), *run.outputs)
    try:
        with output:
            ended = _run_group(run, folder, environment, output)
        result = _read_result(folder)
        if not os.path.exists(os.path.join(folder, WHOLE)):
            raise PreparationMayPassError(run.module, run.action, _not_noted(run, output, secrets))
        observations = inputs_of(read_events(folder), own, run.checkout.root)
        if result is None or ended.timed_out or "error" in result or ended.status != 0:
            try:
                _fail(run, ended, result, output, secrets)
            except PreparationFailedError as error:
                # what a failed run used is what has to change before it is worth another try
                error.observations = observations
                raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return RunResult(
        returned=result["returned"],
        observations=observations,
        seconds=time.monotonic() - started,
    )


@dataclass(slots=True)
class _Ended:
    status: int
    timed_out: bool = False


def _private_folder(run: IsolatedRun, args: Any) -> str:
    """Make the run's folder with all that the script's side needs to read."""
    runs = run.checkout.cached("runs")
    os.makedirs(runs, exist_ok=True)
    folder = tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=runs)
    hook = os.path.join(folder, "hook")
    os.mkdir(hook)
    with open(os.path.join(hook, "sitecustomize.py"), "w", encoding="utf-8") as file:
        file.write(_SITECUSTOMIZE.format(isolated=ascii(ISOLATED), folder=ascii(folder)))
    excluded = [run.checkout.absolute(path) for path in run.excluded]
    script_root = os.path.realpath(run.checkout.absolute(run.script_root))
    # not resolved itself: a script that is a symlink runs under its own name
    script = os.path.relpath(run.checkout.absolute(run.script), run.checkout.absolute(run.script_root))
    with open(os.path.join(folder, "observe"), "wb") as binary:
        binary.write(os.fsencode("\0".join([run.checkout.root, folder, script_root, script, *excluded])))
    with open(os.path.join(folder, WHOLE), "wb"):
        pass  # there as long as every observation of the run could be written down
    request = {
        "root": run.checkout.root,
        "folder": folder,
        "script_root": script_root,
        "script": script,
        "action": run.action,
        "args": args if run.action == PREPARE else {},
        "expected": run.checkout.absolute(run.expected),
        "excluded": excluded,
        "result": os.path.join(folder, "result.json"),
    }
    with open(os.path.join(folder, "request.json"), "w", encoding="ascii") as file:
        json.dump(request, file)
    return folder


# Read by whatever Python a script starts, Python 2 included: only what all of them understand.
_SITECUSTOMIZE = """\
import sys

if sys.version_info >= (3, 9) and sys.implementation.name == "cpython":
    import _frozen_importlib_external as _external

    _loader = _external.SourceFileLoader("_gymbuild_isolated", {isolated})
    _module = type(sys)("_gymbuild_isolated")
    _module.__file__ = {isolated}
    _loader.exec_module(_module)
    _module.observe_child({folder})
"""


def _run_group(run: IsolatedRun, folder: str, environment: dict[str, str], output: _Output) -> _Ended:
    """Start the script in a process group of its own, relay its output, and leave nothing of the group behind."""
    lifeline, ours = os.pipe()
    _lifelines.add(ours)
    try:
        try:
            process = subprocess.Popen(
                [run.python, ISOLATED, os.path.join(folder, "request.json"), str(lifeline)],
                cwd=run.checkout.root,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=(lifeline,),
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            raise PreparationFailedError(
                run.module, run.action, f"cannot start {run.python}: {error.strerror}"
            ) from None
        finally:
            os.close(lifeline)
        assert process.stdout is not None
        try:
            timed_out = _relay(process, process.stdout, output, run.timeout)
            if timed_out:
                _end_group(process)
                _drain(process.stdout, output, DRAIN_SECONDS)
        except BaseException:
            _end_group(process)
            raise
        finally:
            # whatever the script left running in the background
            _signal_group(process.pid, signal.SIGKILL)
            process.stdout.close()
        return _Ended(process.wait(), timed_out)
    finally:
        _lifelines.discard(ours)
        with contextlib.suppress(OSError):
            os.write(ours, b".")  # the group has ended: nothing to watch any more
        with contextlib.suppress(OSError):
            os.close(ours)


def _relay(process: subprocess.Popen[bytes], pipe: IO[bytes], output: _Output, limit: float | None) -> bool:
    """Pass on what comes through the pipe until the script has ended; True when its time was over first."""
    deadline = None if limit is None else time.monotonic() + limit
    guardian = _parent_sentinel()
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        if guardian is not None:
            selector.register(guardian, selectors.EVENT_READ)
        open_pipe = True
        while True:
            wait = 0.1 if open_pipe else 0.02  # how soon the end is seen while nothing is said
            if deadline is not None:
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    return True
                wait = min(wait, remaining)
            ready = {key.fileobj for key, _ in selector.select(wait)}
            if guardian is not None and guardian in ready:
                raise SystemExit(1)  # the process that this one works for is gone
            if pipe in ready:
                data = pipe.read(1 << 16)
                if data:
                    output.write(data)
                    continue
                selector.unregister(pipe)
                open_pipe = False
            if process.poll() is not None:
                if open_pipe:
                    _drain(pipe, output, DRAIN_SECONDS)
                return False


def _drain(pipe: IO[bytes], output: _Output, seconds: float) -> None:
    """Pass on what is still in the pipe, until it ends or nobody writes any more in time."""
    deadline = time.monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while (remaining := deadline - time.monotonic()) > 0 and selector.select(remaining):
            data = pipe.read(1 << 16)
            if not data:
                return
            output.write(data)


def _parent_sentinel() -> int | None:
    """In a worker of multiprocessing: a descriptor that becomes readable when the main process dies."""
    if "multiprocessing.process" not in sys.modules:
        return None
    from multiprocessing import parent_process

    parent = parent_process()
    sentinel = getattr(parent, "sentinel", None)
    return sentinel if isinstance(sentinel, int) else None


def _signal_group(group: int, number: int) -> bool:
    """Signal a process group; False when nobody is in it any more."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):  # macOS refuses when only zombies are left
        return False
    return True


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End the script and all its children: politely first, then not. A second Ctrl-C ends the politeness."""
    try:
        if _signal_group(process.pid, signal.SIGTERM):
            _signal_group(process.pid, signal.SIGCONT)
            deadline = time.monotonic() + POLITE_SECONDS
            while time.monotonic() < deadline:
                process.poll()
                if not _signal_group(process.pid, 0):
                    break
                time.sleep(0.02)
    finally:
        _signal_group(process.pid, signal.SIGKILL)
        process.wait()


class _Output:
    """What the script prints: to the reader and the log, in whole lines, with secrets masked.

    A line that is overwritten in place (it ends in a carriage return, as progress bars do) is shown as it comes
    where one script runs alone; it is left out of the log and of what several scripts print side by side.
    """

    def __init__(self, run: IsolatedRun, show: Callable[[str], object] | None, secrets: list[str]) -> None:
        self._label = f"{run.label} | " if run.label else ""
        self._show = show or _show_on_stdout
        self._secrets = secrets
        self._keep = max((len(secret) for secret in secrets), default=1) - 1
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pending = ""
        self._log: IO[str] | None = None
        self._lock: int | None = None
        self.tail: deque[str] = deque(maxlen=TAIL_LINES)
        self.log_path = run.checkout.absolute(run.log) if run.log else None
        self.log_name = run.checkout.relative(run.log) if run.log else None
        if self.log_path is not None:
            os.makedirs(os.path.dirname(self.log_path), exist_ok=True)
            mode = "w" if run.action == PREPARE else "a"
            self._log = open(self.log_path, mode, encoding="utf-8", errors="replace")  # noqa: SIM115
        if self._label:
            with contextlib.suppress(OSError):
                self._lock = os.open(run.checkout.cached("runs", ".output"), os.O_RDWR | os.O_CREAT, 0o600)

    def __enter__(self) -> _Output:
        return self

    def __exit__(self, *exception: object) -> None:
        self.write(b"", final=True)
        if self._log is not None:
            with contextlib.suppress(OSError):
                self._log.close()
        if self._lock is not None:
            os.close(self._lock)

    def write(self, data: bytes, *, final: bool = False) -> None:
        """Take what was read; pass on what is complete.

        Args:
            data: bytes as they came.
            final: nothing will follow, a last line without end is passed on as well.
        """
        text = self._pending + self._decoder.decode(data, final)
        lines = []
        start = 0
        while (end := _line_end(text, start, final)) is not None:
            lines.append(text[start:end])
            start = end
        self._pending = text[start:]
        if final and self._pending:
            lines.append(self._pending + "\n")
            self._pending = ""
        elif len(self._pending) > LONGEST_LINE:
            # a secret may reach into what is yet to come: as much as it could be long is held back
            self._pending = mask(self._pending, self._secrets)
            cut = len(self._pending) - self._keep
            lines.append(self._pending[:cut])
            self._pending = self._pending[cut:]
        if lines:
            self._pass_on([mask(line, self._secrets) for line in lines])

    def _pass_on(self, lines: list[str]) -> None:
        kept = [line.replace("\r\n", "\n") for line in lines if not line.endswith("\r")]
        for line in kept:
            self.tail.append(line.rpartition("\r")[2].rstrip("\n"))
        if self._log is not None:
            try:
                self._log.write("".join(kept))
                self._log.flush()
            except OSError as error:
                self._log = None
                kept.append(f"(the log {self.log_name} cannot be written any more: {error.strerror})\n")
        shown = [self._label + line for line in kept] if self._label else lines
        if shown:
            with _one_at_a_time(self._lock):
                self._show("".join(shown))


def _line_end(text: str, start: int, final: bool) -> int | None:
    """Where the line that begins at `start` ends (behind its `\\n`, `\\r` or `\\r\\n`), or None when it does not."""
    newline = text.find("\n", start)
    limit = len(text) if newline < 0 else newline
    carriage = text.find("\r", start, limit)
    if carriage >= 0 and carriage + 1 != newline and (carriage + 1 < len(text) or final):
        return carriage + 1
    return None if newline < 0 else newline + 1


_show_lock = threading.Lock()


@contextlib.contextmanager
def _one_at_a_time(descriptor: int | None) -> Iterator[None]:
    """Keep lines whole that several threads and processes print: a pipe takes long ones in pieces."""
    with _show_lock:
        locked = False
        if descriptor is not None:
            import fcntl

            with contextlib.suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                locked = True
        try:
            yield
        finally:
            if locked and descriptor is not None:
                fcntl.flock(descriptor, fcntl.LOCK_UN)


def _show_on_stdout(text: str) -> None:
    stream = sys.stdout
    try:
        try:
            stream.write(text)
        except UnicodeEncodeError:
            encoding = getattr(stream, "encoding", None) or "ascii"
            stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except (BrokenPipeError, ValueError):
        pass  # nobody reads any more; the log has it all


def _secrets_to_mask(environment: Mapping[str, str]) -> list[str]:
    """Secret values of the script's variables and of our own, and the lines of those that have several."""
    values = {*secret_values(environment), *secret_values()}
    for value in list(values):
        if "\n" in value or "\r" in value:
            values.update(line for line in value.splitlines() if len(line) >= 8)
    return sorted(values, key=lambda value: (-len(value), value))


def _read_result(folder: str) -> dict[str, Any] | None:
    try:
        with open(os.path.join(folder, "result.json"), encoding="ascii") as file:
            result: dict[str, Any] = json.load(file)
    except (OSError, ValueError):
        return None
    return result


def _fail(
    run: IsolatedRun, ended: _Ended, result: dict[str, Any] | None, output: _Output, secrets: list[str]
) -> NoReturn:
    """Raise what a run that did not go well has to say for itself."""
    kind: type[PreparationFailedError] = PreparationFailedError
    if ended.timed_out:
        what = (
            f"it took longer than {run.timeout:g} s (the dataset's prepare_timeout), and was ended; "
            f"set a higher prepare_timeout if it needs more time"
        )
    elif result is None and ended.status < 0:
        name = _signal_name(-ended.status)
        if -ended.status in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            kind = PreparationMayPassError
            what = f"something outside of gymbuild killed it ({name})"
            if -ended.status == signal.SIGKILL:
                what += "; a machine that runs out of memory does that"
        else:
            what = f"its Python crashed ({name})"
    elif result is None:
        what = (
            f"its Python ended with exit code {ended.status} before {run.action}() came to an end "
            f"(os._exit, or a crash at the start)"
        )
    elif "error" in result:
        error = result["error"]
        what = error["message"]
        if error["kind"] == "may_pass":
            kind = PreparationMayPassError
    else:
        how = _signal_name(-ended.status) if ended.status < 0 else f"exit code {ended.status}"
        what = f"{run.action}() returned, but then its Python did not end well ({how})"
    raise kind(run.module, run.action, mask(_with_output(what, output), secrets))


def _not_noted(run: IsolatedRun, output: _Output, secrets: list[str]) -> str:
    what = (
        f"what it uses, or its result, could not be written down in "
        f"{run.checkout.relative(run.checkout.cached('runs'))} (is the disk full?); an input that is not known of would "
        "never make the dataset stale"
    )
    return mask(_with_output(what, output), secrets)


def _with_output(what: str, output: _Output) -> str:
    text = what
    if output.tail:
        text += "\n  last lines of its output:\n" + "\n".join(f"    {line}" for line in output.tail)
    if output.log_name:
        text += f"\n  log: {output.log_name}"
    return text


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


# --- the environment -----------------------------------------------------------------------------------------

_LEAKS = frozenset(
    (
        "VIRTUAL_ENV",
        "VIRTUAL_ENV_PROMPT",
        "PYTHONHOME",
        "PYTHONPATH",
        "PYTHONEXECUTABLE",
        "PYTHONPLATLIBDIR",
        "PYTHONINSPECT",
        "PYTHONSTARTUP",
        "PYTHONSAFEPATH",
        "__PYVENV_LAUNCHER__",
        "PIPENV_ACTIVE",
        "POETRY_ACTIVE",
        "GYMBUILD_OBSERVED_RUN",
        "UV_ENV_FILE",
        "UV_ISOLATED",
        "UV_MANAGED_PYTHON",
        "UV_NO_MANAGED_PYTHON",
        "UV_NO_PROJECT",
        "UV_NO_SYNC",
        "UV_PROJECT",
        "UV_PROJECT_ENVIRONMENT",
        "UV_PYTHON",
        "UV_RUN_RECURSION_DEPTH",
        "UV_SYSTEM_PYTHON",
        "UV_TARGET",
        "UV_WORKING_DIR",
        "UV_WORKING_DIRECTORY",
    )
)
"""Variables that say where *our* Python, virtual environment or uv project is."""

OFFLINE_VARIABLES: Mapping[str, str] = {
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_EVALUATE_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "UV_OFFLINE": "1",
    "PIP_NO_INDEX": "1",
}
"""What tells the usual clients that nothing may use the network."""


def script_environment(
    python: str,
    root: str,
    *,
    offline: bool = False,
    environment: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The variables of a script: the user's, without what would lead it into gymbuild's own environment.

    Args:
        python: the interpreter of the script's environment; its folder comes first in PATH, and where it is a
            virtual environment it is the active one.
        root: the checkout, which the script runs in.
        offline: nothing may use the network.
        environment: the user's variables; default this process's own.
    """
    source = os.environ if environment is None else environment
    variables = {name: value for name, value in source.items() if name not in _LEAKS}
    folder = os.path.dirname(os.path.abspath(python))
    ours = {os.path.dirname(os.path.abspath(sys.executable))} if sys.prefix != sys.base_prefix else set()
    if source.get("VIRTUAL_ENV"):
        ours.add(os.path.join(os.path.abspath(source["VIRTUAL_ENV"]), "bin"))
    if sys.prefix != sys.base_prefix:
        ours.add(os.path.join(sys.prefix, "bin"))
    search = [
        path
        for path in source.get("PATH", os.defpath).split(os.pathsep)
        if not path or os.path.abspath(path) not in ours
    ]
    variables["PATH"] = os.pathsep.join([folder, *(path for path in search if path != folder)])
    prefix = os.path.dirname(folder)
    if os.path.exists(os.path.join(prefix, "pyvenv.cfg")):
        variables["VIRTUAL_ENV"] = prefix
    variables["PWD"] = root
    variables["PYTHONUNBUFFERED"] = "1"
    variables["PYTHONUTF8"] = "1"  # what a script reads and writes must not depend on the locale
    if offline:
        variables.update(OFFLINE_VARIABLES)
    return variables


# --- what goes in, and what comes out ------------------------------------------------------------------------


def encode_args(args: Mapping[str, Any], checkout: Checkout) -> bytes:
    """The keyword arguments of `prepare` as canonical JSON.

    Paths become strings, relative to the checkout when inside it. Nothing else is coerced.

    Args:
        args: arguments by name.
        checkout: what paths are relative to.

    Raises:
        UsageError: an argument that JSON has no form for, by its name.
    """
    plain = {}
    for name, value in args.items():
        if not isinstance(name, str):
            raise UsageError(f"prepare_script_args: {name!r} is no name of an argument; names are text")
        plain[name] = _plain_value(value, f"prepare_script_args.{name}", checkout)
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass")


def _plain_value(value: Any, key: str, checkout: Checkout) -> Any:
    # exact types: a subclass (an enum of text, say) would lose what makes it one
    kind = type(value)
    if value is None or kind in (str, bool, int):
        return value
    if kind is float:
        if value != value or value in (float("inf"), float("-inf")):
            raise UsageError(f"{key}: JSON has no form for the number {value!r}")
        return value
    if kind is list:
        return [_plain_value(item, f"{key}[{index}]", checkout) for index, item in enumerate(value)]
    if kind is dict:
        for inner in value:
            if type(inner) is not str:
                raise UsageError(
                    f"{key}: JSON has no form for the key {inner!r} ({type(inner).__name__}); keys are text"
                )
        return {inner: _plain_value(item, f"{key}.{inner}", checkout) for inner, item in value.items()}
    if isinstance(value, os.PathLike):
        path = os.fspath(value)
        if isinstance(path, str):
            return checkout.relative(path)
    raise UsageError(
        f"{key}: JSON has no form for {value!r} ({kind.__module__}.{kind.__qualname__}); "
        f"use text, numbers, true, false, null, lists, mappings or paths"
    )


class OutputError(ValueError):
    """A prepared file that is not what a prepared file has to be; its text says which line and why."""


def check_returned(returned: str, expected: str, checkout: Checkout) -> None:
    """Check that the path that `prepare` returned is the one in the config.

    Args:
        returned: absolute, or relative to the checkout.
        expected: the configured `jsonl_fpath`, the same way.
        checkout: what relative paths are relative to.

    Raises:
        OutputError: it is another path.
    """
    found, wanted = checkout.absolute(returned), checkout.absolute(expected)
    if found != wanted and os.path.realpath(found) != os.path.realpath(wanted):
        raise OutputError(
            f"prepare() returned {checkout.relative(returned)}, but the config's jsonl_fpath is "
            f"{checkout.relative(expected)}; they have to be the same file"
        )


_MARK = b"\xef\xbb\xbf"
"""UTF-8's byte order mark."""


def check_output(path: str, name: str) -> int:
    """Check a prepared file: there, not empty, and a JSON object in each line that is not blank.

    What plans read is taken here as well: a byte order mark, and NaN and Infinity, which Python reads and writes.
    Those are findings of the validation.

    Args:
        path: the file, absolute.
        name: how errors call it.

    Returns:
        the number of rows.

    Raises:
        OutputError: it is none of that; says which line.
    """
    import orjson

    loads = orjson.loads
    rows = 0
    try:
        with open(path, "rb") as file:
            for number, line in enumerate(file, 1):
                if number == 1:
                    line = line.removeprefix(_MARK)
                try:
                    value = loads(line)
                except ValueError:
                    if not line.strip():
                        continue
                    value = _read_line(line, number, name)
                if type(value) is not dict:
                    raise OutputError(
                        f"{name}, line {number}: each line has to be a JSON object; this one is {_json_kind(value)}"
                    )
                rows += 1
    except FileNotFoundError:
        raise OutputError(f"{name} is not there: prepare() did not write it") from None
    except IsADirectoryError:
        raise OutputError(f"{name} is a folder, not a file") from None
    except OSError as error:
        raise OutputError(f"{name} cannot be read: {error.strerror}") from None
    if not rows:
        raise OutputError(f"{name} is empty: it has no row")
    return rows


def _read_line(line: bytes, number: int, name: str) -> Any:
    """The same with Python's own reader, which takes a little more (numbers beyond 64 bits, NaN, lone surrogates)."""
    try:
        return json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise OutputError(
            f"{name}, line {number}: not UTF-8 ({error.reason} at byte {error.start + 1})"
        ) from None
    except RecursionError:
        raise OutputError(f"{name}, line {number}: nested too deeply") from None
    except ValueError as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        column = f" at column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        start = mask(line[:80].decode("utf-8", "replace").rstrip())
        raise OutputError(f"{name}, line {number}: no JSON ({reason}{column}): {start}") from None


def _json_kind(value: Any) -> str:
    if value is None:
        return "null"
    return {list: "an array", str: "a string", bool: "true or false", int: "a number", float: "a number"}[
        type(value)
    ]


__all__ = [
    "IS_CURRENT",
    "PREPARE",
    "IsolatedRun",
    "OutputError",
    "RunResult",
    "check_output",
    "check_returned",
    "encode_args",
    "run_isolated",
    "script_environment",
]
