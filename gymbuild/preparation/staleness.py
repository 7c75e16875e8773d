"""The staleness decision: inputs then and now → current, or what has to be done because of what.

`decide` is pure. Everything it is given was read elsewhere; its answer carries the reasons in words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from gymbuild.cache.store import Action, Input
from gymbuild.config.step import Reason, short

State = Literal["current", "restore", "judge", "run"]


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do about one dataset, and why."""

    state: State
    """`current`; `restore` from the store; `judge`: ask the script whether the output is current; `run`."""
    reasons: tuple[Reason, ...] = ()
    action: Action | None = None
    """The preparation that the output comes from or is restored from."""


def decide(
    *,
    record: Action | None,
    now: Sequence[Input],
    outputs: Mapping[str, str | None],
    candidate: Action | None,
    restorable: bool,
    forced: str | None = None,
    adopt: bool = False,
    output: str,
    has_judge: bool = False,
) -> Decision:
    """Decide about one dataset.

    Args:
        record: the preparation that made the present output, where one is recorded.
        now: the inputs that the record names and those that the config gives, as they are now.
        outputs: digests of the output files of record and candidate, as they are now.
        candidate: a preparation in the store whose inputs are all as they are now.
        restorable: whether the store has all the outputs of the candidate.
        forced: why the script has to run whatever else is found (`-a`, `doit forget`, …).
        adopt: take an existing output as it is (`use_cached_prepared_benchmarks=true`).
        output: the dataset's own file.
        has_judge: the script defines `is_prepared_data_current`.

    Returns:
        the decision with all reasons that were found.
    """
    if forced:
        return Decision("run", (Reason(output, None, None, forced),), record)
    exists = outputs.get(output) is not None
    if adopt and exists:
        recorded = record if record is not None and _outputs_match(record, outputs) else None
        if has_judge and not (recorded is not None and recorded.judged):
            return Decision("judge", (), recorded)
        return Decision("current", (), recorded)

    reasons = () if record is None else compare(record.inputs, now)
    if record is not None and not reasons:
        damaged = tuple(_output_reasons(record, outputs))
        if not damaged:
            if has_judge and not record.judged:
                return Decision("judge", (), record)
            return Decision("current", (), record)
        reasons = damaged
        candidate = candidate or record
    elif record is None:
        reasons = (
            Reason(
                output,
                None,
                None,
                f"{output} was never prepared here"
                + (" (a file is there, but not from a recorded preparation)" if exists else ""),
            ),
        )
    if (
        candidate is not None
        and _outputs_match(candidate, outputs)
        and candidate.key != getattr(record, "key", None)
    ):
        # the bytes are there already: only the record has to be made anew
        if has_judge and not candidate.judged:
            return Decision("judge", reasons, candidate)
        return Decision("restore", reasons, candidate)
    if candidate is not None and restorable:
        return Decision("restore", reasons, candidate)
    return Decision("run", reasons, candidate)


def compare(before: Sequence[Input], now: Sequence[Input]) -> tuple[Reason, ...]:
    """The differences between inputs then and now, as reasons; empty when there is none."""
    then = {(item.kind, item.name): item.state for item in before}
    present = {(item.kind, item.name): item.state for item in now}
    reasons = []
    for key in sorted(then.keys() | present.keys()):
        if key in then and key in present:
            if then[key] != present[key]:
                reasons.append(_reason(key, then[key], present[key]))
        elif key in then:
            reasons.append(_reason(key, then[key], None, "is no longer an input"))
        else:
            reasons.append(_reason(key, None, present[key], "is a new input"))
    return tuple(reasons)


_WORDS = {
    "script": "script",
    "lock": "lock",
    "args": "args",
    "environment": "environment",
    "variable": "environment variable",
    "declared": "declared input",
    "editable": "editable dependency",
    "import": "imported module",
    "data": "data file",
    "missing": "path",
    "listing": "folder",
    "present": "path",
    "output": "prepared dataset",
    "recipe": "the way it is declared:",
}


def _reason(key: tuple[str, str], before: str | None, after: str | None, note: str | None = None) -> Reason:
    kind, name = key
    subject = f"{_WORDS.get(kind, kind)} {name}"
    path = name if kind not in ("variable", "args", "recipe") else None
    text = f"{subject} {note}" if note else None
    if kind == "missing" and before is None and after is not None:
        text = f"{name} was not there when the script looked for it, and is now"
    elif kind == "listing" and before is not None and after is not None:
        text = f"folder {name} gained or lost entries ({short(before)} to {short(after)})"
    elif before is not None and before.startswith("changed-while-running"):
        text = f"{subject} changed while the script ran"
    elif kind == "variable" and before is not None and after is not None:
        text = f"{subject} has another value ({short(before)} to {short(after)})"
    return Reason(subject, before, after, text, path)


def _outputs_match(action: Action, outputs: Mapping[str, str | None]) -> bool:
    return all(outputs.get(path) == digest for path, digest in action.outputs)


def _output_reasons(action: Action, outputs: Mapping[str, str | None]) -> list[Reason]:
    reasons = []
    for path, digest in action.outputs:
        found = outputs.get(path)
        if found == digest:
            continue
        if found is None:
            text = f"output {path} is not there (or is not a regular file)"
        else:
            text = f"output {path} was changed by hand ({short(digest)} to {short(found)})"
        reasons.append(Reason(f"output {path}", digest, found, text, path))
    return reasons
