"""What uv said when a build failed: whether it may pass, and what a person can do about it."""

from __future__ import annotations

import os
import re
import signal

from gymbuild.environments.environment import Environment
from gymbuild.system.errors import PreparationFailedError, PreparationMayPassError
from gymbuild.system.masking import mask
from gymbuild.system.processes import Ended

_LINES = 40
"""How many of uv's last lines an error shows."""

_NETWORK = re.compile(
    r"error sending request|dns error|failed to lookup address|tcp connect error|connection (refused|reset|closed)"
    r"|operation timed out|network timeout|timed out|network is unreachable|no route to host|incomplete message"
    r"|request failed after \d+ retries|error decoding response body|HTTP status server error"
    r"|\(?\b(408|425|429|500|502|503|504)\b (request timeout|too early|too many requests|internal server error|bad gateway"
    r"|service unavailable|gateway time-?out)"
    r"|could not resolve host|failed to connect to",
    re.IGNORECASE,
)

_NOT_CACHED = re.compile(
    r"network (connectivity is|was) disabled|not found in the cache|no solution found", re.IGNORECASE
)

_NO_SPACE = re.compile(r"no space left on device|disk quota exceeded|os error (28|122)\b", re.IGNORECASE)

_HASH = re.compile(r"hash mismatch", re.IGNORECASE)

_BUILD = re.compile(r"build backend returned an error", re.IGNORECASE)
"""A package's own build failed, whatever its output says of networks."""

_NEEDS_UPDATE = re.compile(
    r"needs? to be updated|requires a (script )?lockfile|unable to find lockfile|failed to parse `?[^`]*\.lock",
    re.IGNORECASE,
)


def may_pass(output: str, offline: bool) -> bool:
    """Whether what uv said is a reason that may pass.

    Args:
        output: all that uv printed.
        offline: it was told not to use the network, so that what is missing may only be missing in its cache.
    """
    if _NO_SPACE.search(output):
        return True
    if _HASH.search(output) or _NEEDS_UPDATE.search(output) or _BUILD.search(output):
        return False
    if offline and _NOT_CACHED.search(output):
        return True
    return _NETWORK.search(output) is not None


def build_failure(env: Environment, module: str, ended: Ended, offline: bool) -> PreparationFailedError:
    """The error for a run of uv that did not end well, with what uv said and what can be done about it."""
    if ended.status < 0:
        name = _signal_name(-ended.status)
        return PreparationMayPassError(
            module, "environment", f"uv was ended by {name} while it built {env.title}; run again."
        )
    offline = offline or os.environ.get("UV_OFFLINE", "").lower() in ("1", "true", "yes", "on")
    output = ended.output.decode("utf-8", "replace")
    lines = [line for line in mask(output).strip().splitlines() if not _is_chatter(line)]
    said = "\n".join("  " + line for line in lines[-_LINES:])
    passing = may_pass(output, offline)
    error = PreparationMayPassError if passing else PreparationFailedError
    remedy = _remedy(env, output, offline, passing)
    return error(module, "environment", f"{env.title} could not be built. {remedy}\nuv said:\n{said}")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _is_chatter(line: str) -> bool:
    return line.startswith(("Using ", "Resolved ", "Prepared ", "Installed ", "Bytecode compiled", " + "))


def _remedy(env: Environment, output: str, offline: bool, passing: bool) -> str:
    folder = os.path.dirname(env.script) or "."
    if _HASH.search(output):
        return (
            f"A package is not the one that {env.lock} names by its hash. Find out why before you lock it anew: "
            "an index may serve another file under the same name."
        )
    if _NEEDS_UPDATE.search(output):
        if env.kind == "script":
            return f"{env.lock} does not fit the script's metadata. Run `uv lock --script {env.script}`."
        return f"{env.lock} does not fit its pyproject.toml. Run `uv lock --project {folder}`."
    if offline and passing and _NOT_CACHED.search(output):
        return "The network may not be used (offline), and uv's cache does not hold all of it. Run once without offline=true."
    if _NO_SPACE.search(output):
        return "The disk is full. Make room, or set uv_venv_dir to another disk, and run again."
    if passing:
        return "The package index could not be reached. Run again when it can."
    if env.kind == "dependencies":
        return "Check prepare_dependencies."
    return f"Check {env.lock}."
