"""A step whose product is one file, made from files and facts: compared by content, kept in the store, restored from it."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from gymbuild.cache.digests import FileHasher, digest_json
from gymbuild.cache.displaced import displace
from gymbuild.cache.store import DamagedObjectError
from gymbuild.config.step import InputState, Observed, Reason, Say, State, Step, short
from gymbuild.system.errors import EXIT_MAY_PASS, PASSING, PlanError
from gymbuild.system.files import temporary_beside
from gymbuild.system.locks import lock
from gymbuild.system.permissions import sentence

Write = Callable[[bytes], object]
"""Takes the next bytes of a product."""


class FileStep(Step):
    """A step that makes one file per task.

    A subclass says what its tasks are (`names`, `sources`), what each is made from (`files`, and `facts` where that is
    not all), where its product goes (`target`) and how it is made (`make`).
    """

    format: int = 1
    """Part of what a task is made from: raised when the same inputs would give another product."""

    def target(self, name: str) -> str:
        """The product, relative to the checkout when inside it."""
        raise NotImplementedError

    def make(self, name: str, write: Write) -> dict[str, Any]:
        """Make the product.

        Args:
            name: the task's.
            write: takes its bytes, in pieces.

        Returns:
            JSON values to remember with it, for `describe`.

        Raises:
            GymbuildError: it cannot be made.
        """
        raise NotImplementedError

    def facts(self, name: str) -> dict[str, Any]:
        """All that a product depends on, as it is now: JSON values by what they are called in reasons."""
        return {"format": self.format, **{path: self.session.digests.get(path) for path in self.files(name)}}

    def fact_files(self, name: str) -> Sequence[str]:
        """The files that decide `facts`, for the next start to compare by `stat`."""
        return self.files(name)

    def describe(self, made: Mapping[str, Any]) -> str:
        """What `make` remembered, for people: `164 tasks`."""
        return ""

    def remembered(self, name: str, record: Mapping[str, Any]) -> list[tuple[str, str, Any]]:
        """More records to write with that of a product: kind, name, value."""
        return []

    # -- Step ----------------------------------------------------------------------------------------------------

    def targets(self, name: str) -> Sequence[str]:
        """Its product."""
        return (self.target(name),)

    def title(self, name: str) -> str:
        """Its product."""
        return self.target(name)

    def record(self, name: str) -> Any:
        """What is remembered of a product that was made: `facts`, `digest`, `made` (seconds since the epoch)."""
        return self.session.database.get(self.group, self.target(name))

    def assess(self, name: str) -> State:
        """Whether the product is what its facts give."""
        target, facts, record = self.target(name), self.facts(name), self.record(name)
        if record is None:
            text = f"{target} was never written here"
            return State(False, (Reason(target, None, None, text),), detail=facts)
        then = record["facts"]
        changed = [fact for fact in facts if then.get(fact) != facts[fact]]
        reasons = [_reason(fact, then.get(fact), facts[fact]) for fact in changed]
        if not reasons:
            found = self._digest(target)
            if found == record["digest"]:
                return State(True, detail=facts)
            text = f"{target} is not there" if found is None else f"{target} was changed by hand"
            reasons.append(Reason(target, record["digest"], found, text))
        return State(False, tuple(reasons), detail=facts)

    def observed(self, name: str, state: State) -> Observed | None:
        """Its product, and what decides its facts."""
        return Observed((self.target(name), *self.fact_files(name)))

    def token(self, name: str) -> str:
        """The digest of what its tasks are made from, by name."""
        return digest_json([self.format, list(self.fact_files(name)), self.target(name)])

    def run(self, name: str, say: Say) -> str:
        """Make the product current: nothing to do, restored from the store, or made."""
        target = self.target(name)
        task = f"{self.group}:{name}"
        try:
            with self._locks(name, lambda who: say(f"{task}: its files are in use by {who}; waiting for it")):
                return self._run(name, target, say)
        except OSError as error:
            place = f"{self.session.checkout.relative(error.filename)}: " if error.filename else ""
            failure = PlanError(f"the {self.group} cannot be written: {place}{sentence(error)}")
            if error.errno in PASSING:
                failure.exit_code = EXIT_MAY_PASS
            raise failure from None

    def _locks(self, name: str, waiting: Callable[[str], None]) -> contextlib.ExitStack:
        """No other builder makes what this is made from anew meanwhile, or writes the same file."""
        stack = contextlib.ExitStack()
        try:
            for task in sorted({*self.sources(name), f"{self.group}:{name}"}):
                stack.enter_context(lock(self.session.checkout, task, waiting=waiting))
        except BaseException:
            stack.close()
            raise
        return stack

    def _run(self, name: str, target: str, say: Say) -> str:
        session, path = self.session, self.session.checkout.absolute(target)
        state, record = self.assess(name), self.record(name)
        if state.current and not session.always:
            return self._said(name, "current", record, say)
        self._keep_edit(target, record, say)
        if not session.always and record is not None and record["facts"] == state.detail:
            try:
                session.store.restore(record["digest"], path)
                return self._said(name, "restored", record, say)
            except FileNotFoundError:
                pass
            except DamagedObjectError:
                say(f"warning: {self.group}:{name}: its object in the store was damaged; writing it anew")
        old = self._digest(target)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with temporary_beside(path) as temporary:
            with open(temporary, "wb") as file:
                hasher = FileHasher(file.write)
                made = self.make(name, hasher.write)
                file.flush()
                if hasher.digest() != old:
                    os.fsync(file.fileno())
            # in the store before it is in its place: whatever dies before the record is there, the next start
            # recognises the file as ours, and not as one that a person wrote
            session.store.add(temporary, hasher.digest())
            if hasher.digest() != old:
                os.replace(temporary, path)
        record = {"facts": state.detail, "digest": hasher.digest(), "made": time.time(), **made}
        session.database.put([(self.group, target, record), *self.remembered(name, record)])
        with contextlib.suppress(OSError):
            session.digests.save()  # only time is lost
        return self._said(name, "same" if hasher.digest() == old else "written", record, say)

    def _said(self, name: str, done: str, record: Mapping[str, Any], say: Say) -> str:
        words = {"written": "written", "same": "is the same", "restored": "restored", "current": "is current"}
        described = self.describe(record)
        say(
            f"   {self.group}:{name} {words[done]}: {self.target(name)}"
            + (f" ({described})" if described else "")
        )
        return done

    def _digest(self, path: str) -> str | None:
        """The digest of a file of its own; None for a symlink too."""
        if os.path.islink(self.session.checkout.absolute(path)):
            return None
        return self.session.digests.get(path)

    def _is_ours(self, path: str, record: Mapping[str, Any] | None) -> bool:
        found = self._digest(path)
        return found is not None and (
            self.session.store.has(found) or (record is not None and record["digest"] == found)
        )

    def _keep_edit(self, target: str, record: Mapping[str, Any] | None, say: Say) -> None:
        checkout = self.session.checkout
        if os.path.lexists(checkout.absolute(target)) and not self._is_ours(target, record):
            place = displace(checkout, target)
            say(f"{target} was not written by gymbuild, or was changed by hand; it is kept as {place}")

    def clean(self, name: str, say: Say, dry_run: bool) -> None:
        """Remove the product; what is not gymbuild's is kept."""
        with self._locks(name, lambda who: say(f"{self.group}:{name} is in use by {who}; waiting for it")):
            remove_product(
                self,
                self.target(name),
                say,
                dry_run,
                ours=self._is_ours(self.target(name), self.record(name)),
            )

    def forget(self, names: Iterable[str]) -> None:
        """Drop the records of products."""
        self.session.database.put([(self.group, self.target(name), None) for name in names])

    def needed(self, objects: set[str], actions: set[str]) -> None:
        """The products."""
        objects.update(record["digest"] for name in self.names() if (record := self.record(name)) is not None)

    def explain(self, name: str, state: State) -> str:
        """What was compared."""
        if state.current:
            return f"{self.group}:{name} is current\n  compared {', '.join(state.detail)} and {self.target(name)}"
        return super().explain(name, state)

    def inputs(self, name: str, state: State) -> list[InputState]:
        """The facts that it is made from."""
        record = self.record(name)
        then = {} if record is None else record["facts"]
        return [
            InputState(
                "file" if fact in self.files(name) else "fact",
                fact,
                value if fact in self.files(name) else short(digest_json(value)),
                "new" if fact not in then else "same" if then[fact] == value else "changed",
            )
            for fact, value in self.facts(name).items()
        ]


def remove_product(step: Step, path: str, say: Say, dry_run: bool, *, ours: bool) -> None:
    """Remove a file that a step can make again; what is not gymbuild's is moved to `.cache/displaced/`.

    Args:
        step: whose product it is.
        path: relative to the checkout.
        say: told what was, or would be, done.
        dry_run: do nothing.
        ours: whether the file is as gymbuild made it.
    """
    checkout = step.session.checkout
    absolute = checkout.absolute(path)
    if not os.path.lexists(absolute):
        return
    if dry_run:
        say(f"would remove {path}")
    elif ours:
        os.unlink(absolute)
        say(f"removed {path}")
    else:
        say(f"{path} is not what gymbuild made; it is kept as {displace(checkout, path)}")


def _reason(fact: str, before: Any, after: Any) -> Reason:
    if fact == "format":
        text = "this version of gymbuild makes it another way"
    elif _is_digest(before) and _is_digest(after):
        text = f"{'the ' if ' ' in fact else ''}{fact} changed ({short(before)} to {short(after)})"
    else:
        text = f"{fact} changed from {before!r} to {after!r}"
    return Reason(fact, _text(before), _text(after), text)


def _is_digest(value: Any) -> bool:
    return isinstance(value, str) and len(value) == 32


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
