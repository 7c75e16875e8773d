"""Records of failed preparations, and the guard file that keeps a job chain from failing the same way twice."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from gymbuild.cache.digests import digest_json
from gymbuild.cache.store import Input
from gymbuild.system.errors import (
    PASSING,
    PreparationFailedError,
    PreparationMayPassError,
    PreparationRefusedError,
)
from gymbuild.system.files import write_atomically
from gymbuild.system.locks import lock_descriptor
from gymbuild.system.masking import mask
from gymbuild.system.paths import Checkout, file_name

GUARD_VARIABLE = "GYMBUILD_FAILURE_FILE"
"""Names the file that failures of the 76 kind are written to, a line each."""

KIND = PreparationFailedError.kind


def failure_class(error: OSError) -> type[PreparationFailedError]:
    """What an error of the operating system outside of a script is: nothing that the script did wrong."""
    return PreparationMayPassError if error.errno in PASSING else PreparationRefusedError


def failure_path(checkout: Checkout, name: str) -> str:
    """Where the record of a failure of `prepare:<name>` is."""
    return checkout.cached("failures", file_name(name) + ".json")


def record_failure(
    checkout: Checkout,
    name: str,
    error: PreparationFailedError,
    inputs: Iterable[Input],
    log: str | None,
    run: str,
) -> str:
    """Write down a failed preparation; one that would fail the same way also goes to the guard file.

    Args:
        checkout: whose.
        name: the preparation's.
        error: what happened.
        inputs: of the preparation, as they were when it failed.
        log: the script's output, relative to the checkout.
        run: of the command that it failed in.

    Returns:
        the action key of the failed preparation.
    """
    listed = [item.plain() for item in inputs]
    key = digest_json(listed)
    record = {
        "dataset": name,
        "module": error.module,
        "action": error.action,
        "reason": mask(error.reason),
        "kind": error.kind,
        "action_key": key,
        "inputs": listed,
        "log": log,
        "run": run,
    }
    with contextlib.suppress(OSError):
        text = json.dumps(record, indent=2, sort_keys=True, ensure_ascii=False)
        write_atomically(failure_path(checkout, name), text.encode("utf-8", "replace") + b"\n")
    if error.kind == KIND:
        _add_line(f"{KIND} {name} {key}")
    return key


def forget_failure(checkout: Checkout, name: str) -> None:
    """Remove the record of a failure: the preparation went well since."""
    with contextlib.suppress(OSError):
        os.unlink(failure_path(checkout, name))


def read_failure(checkout: Checkout, name: str) -> dict[str, Any] | None:
    """The record of a failure of `prepare:<name>`, or None."""
    try:
        with open(failure_path(checkout, name), encoding="utf-8") as file:
            record = json.load(file)
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) else None


def guarded() -> dict[str, str]:
    """The failures in the guard file: action key by name; empty when there is no such file."""
    path = os.environ.get(GUARD_VARIABLE)
    if not path:
        return {}
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        return {}
    found = {}
    for line in lines:
        kind, _, text = line.partition(" ")
        name, _, key = text.rpartition(" ")
        if kind == KIND and name:
            found[name] = key
    return found


def release_guards(names: Iterable[str]) -> None:
    """Remove lines from the guard file: their inputs have changed since.

    Args:
        names: of the preparations.
    """
    removed = set(names)
    path = os.environ.get(GUARD_VARIABLE)
    if not removed or not path:
        return

    def stays(line: str) -> bool:
        kind, _, text = line.partition(" ")
        return kind != KIND or text.rpartition(" ")[0] not in removed

    _rewrite(path, lambda lines: [line for line in lines if stays(line)])


def still_fails(
    record: Mapping[str, Any] | None, key: str, now: Mapping[tuple[str, str], str | None]
) -> bool:
    """Whether a preparation that failed would fail the same way: none of its inputs has changed since.

    Args:
        record: of the failure, as `read_failure` gives it.
        key: the action key in the guard file.
        now: the present states of the inputs that the record names, and of those that the config gives.
    """
    if record is None or record.get("action_key") != key:
        return False
    then = {(str(kind), str(name)): state for kind, name, state in record.get("inputs", ())}
    return bool(then) and then == dict(now)


def _add_line(line: str) -> None:
    path = os.environ.get(GUARD_VARIABLE)
    if path:
        prefix = line.rpartition(" ")[0] + " "
        _rewrite(path, lambda lines: [*(old for old in lines if not old.startswith(prefix)), line])


def _rewrite(path: str, change: Any) -> None:
    """Change the guard file's lines under a lock, in place: the next segment may watch it."""
    try:
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        with open(path, "a+", encoding="utf-8") as file:
            lock_descriptor(file.fileno())
            file.seek(0)
            lines = file.read().splitlines()
            changed = change(lines)
            if changed != lines:
                file.seek(0)
                file.truncate()
                file.write("".join(line + "\n" for line in changed))
    except OSError as error:
        print(f"warning: {GUARD_VARIABLE}={path} cannot be written: {error.strerror}", file=sys.stderr)
