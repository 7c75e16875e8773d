"""One dataset, from the decision to the record: current, restored from the store, or prepared by its script."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gymbuild.cache.displaced import displace
from gymbuild.cache.store import Action, DamagedObjectError
from gymbuild.config.graph import Preparation
from gymbuild.preparation.args import args_path
from gymbuild.preparation.assessment import Assessment, Assessor
from gymbuild.preparation.failures import failure_class, record_failure
from gymbuild.preparation.inputs import output_patterns
from gymbuild.preparation.journal import is_readable
from gymbuild.preparation.observations import Observations
from gymbuild.preparation.output import OutputError
from gymbuild.preparation.recorded_run import RecordedRun
from gymbuild.preparation.scripts import Say, Scripts
from gymbuild.system.errors import PreparationFailedError, PreparationMayPassError
from gymbuild.system.files import remove_temporaries, write_atomically
from gymbuild.system.locks import lock
from gymbuild.system.permissions import sentence

if TYPE_CHECKING:
    from gymbuild.config.session import Session


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was done for one dataset."""

    state: str
    """`current`, `restored`, `prepared`, or `adopted`."""
    rows: int | None = None
    size: int | None = None
    seconds: float | None = None
    changed: tuple[str, ...] = ()
    """Inputs that changed while the script ran: the result is stale already."""


class Preparer(Assessor):
    """Prepares the datasets of one checkout.

    Args:
        session: of the command.
    """

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._scripts = Scripts(self.checkout, self.settings, label_lines=session.parallel)

    def prepare(self, preparation: Preparation, say: Say, *, always: bool = False) -> Outcome:
        """Make one dataset current.

        Only one process at a time does so for one dataset, and for one script that several datasets share.

        Args:
            preparation: the dataset's.
            say: told what a person should know, a line at a time.
            always: run the script whatever is found.

        Raises:
            PreparationFailedError: it cannot be made; the output is as it was.
            GymbuildError: its environment, its args or its output's folder cannot be used.
        """
        try:
            with self.locks(preparation, say):
                self.check_inside(preparation)
                remove_temporaries(self.checkout.absolute(preparation.dataset.jsonl_fpath))
                if self.journal.roll_back(preparation.name):
                    say(
                        f"prepare:{preparation.name}: an earlier run was cut off; what was there before it is back in place"
                    )
                return self._prepare(preparation, say, always)
        except OSError as error:
            raise self._disk_error(preparation, error) from None

    @contextlib.contextmanager
    def locks(self, preparation: Preparation, say: Say) -> Iterator[None]:
        """What nobody else may hold while a dataset is made or removed."""
        task = f"prepare:{preparation.name}"
        with contextlib.ExitStack() as stack:
            if preparation.siblings:
                stack.enter_context(lock(self.checkout, f"script:{preparation.module}"))
            stack.enter_context(
                lock(
                    self.checkout,
                    task,
                    waiting=lambda who: say(f"{task} is being prepared by {who}; waiting for it"),
                )
            )
            yield

    def _prepare(self, preparation: Preparation, say: Say, always: bool) -> Outcome:
        assessment = self.assess(preparation, always=always)
        state, action = assessment.decision.state, assessment.decision.action
        if state == "current":
            self.finish(preparation, action)
            return _outcome("adopted" if action is None else "current", action)
        if state == "judge":
            try:
                if self._scripts.is_current(preparation, assessment.environment, say):
                    self.accept(preparation, assessment.environment)
                    return _outcome("adopted" if action is None else "current", action)
            except PreparationFailedError as error:
                self._record_failure(preparation, assessment, error)
                raise
            say(f"prepare:{preparation.name}: its script says that the prepared file is not current")
        elif state == "restore" and action is not None:
            try:
                self._restore(preparation, action, say)
                self.finish(preparation, action)
                return _outcome("restored", action)
            except FileNotFoundError:
                say(f"prepare:{preparation.name}: the store has lost its output; preparing it again")
            except DamagedObjectError as damaged:
                say(
                    f"warning: prepare:{preparation.name}: object {damaged} in the store was damaged and is dropped; "
                    "preparing it again"
                )
        return self._run_script(preparation, assessment, say)

    def _restore(self, preparation: Preparation, action: Action, say: Say) -> None:
        for path, digest in action.outputs:
            found = self.output_digest(path)
            if found == digest:
                continue
            absolute = self.checkout.absolute(path)
            if os.path.lexists(absolute) and not (found is not None and self.store.has(found)):
                why = "was changed by hand" if is_readable(absolute) else "cannot be read"
                say(
                    f"prepare:{preparation.name}: {path} {why}; it is kept as {displace(self.checkout, path)}"
                )
            self.store.restore(digest, absolute)

    def _run_script(self, preparation: Preparation, assessment: Assessment, say: Say) -> Outcome:
        self.write_args(preparation, assessment.args)
        run = RecordedRun(self, self._scripts, preparation, assessment, say)
        try:
            action = run.run()
        except PreparationFailedError as error:
            failure = error
        except OutputError as error:
            log = self._scripts.log_path(preparation)
            failure = PreparationFailedError(preparation.module, "prepare", f"{error} (log: {log})")
        except OSError as error:
            failure = self._disk_error(preparation, error)
        else:
            run.conclude(action)
            return Outcome("prepared", action.rows, action.size, action.seconds, tuple(run.changed))
        self._record_failure(preparation, assessment, failure, failure.observations or run.observations)
        raise failure from None

    def write_args(self, preparation: Preparation, args: bytes) -> str:
        """Write the serialized args of a preparation, unless they are there already.

        Returns:
            the file's path.

        Raises:
            OSError: it cannot be written.
        """
        path = args_path(self.checkout, preparation.name)
        try:
            with open(path, "rb") as file:
                if file.read() == args + b"\n":
                    return path
        except OSError:
            pass
        write_atomically(path, args + b"\n")
        return path

    # -- failures ------------------------------------------------------------------------------------------------

    def fail_environment(self, preparation: Preparation, error: PreparationFailedError) -> None:
        """Record that a preparation failed because its environment could not be built."""
        self._record_failure(preparation, self.assess(preparation), error)

    def _record_failure(
        self,
        preparation: Preparation,
        assessment: Assessment,
        error: PreparationFailedError,
        observations: Observations | None = None,
    ) -> None:
        inputs = list(assessment.static)
        if observations is not None:
            dataset = preparation.dataset
            counted = {preparation.script, *assessment.environment.inputs}
            observed, _ = self.inputs.of_run(
                observations, {}, self.others - {dataset.jsonl_fpath}, output_patterns(dataset), counted
            )
            inputs += [item for item in observed if item.kind != "listing"]
        log = self._scripts.log_path(preparation)
        record_failure(self.checkout, preparation.name, error, inputs, log, self.session.run)

    def _disk_error(self, preparation: Preparation, error: OSError) -> PreparationFailedError:
        place = self.checkout.relative(str(error.filename)) if error.filename else "a file"
        kind = failure_class(error)
        previous = self.journal.previous_output(preparation.name)
        if kind is PreparationMayPassError:
            ends = "nothing was lost, try again"
        elif previous is None:
            ends = "the output is as it was"
        else:
            ends = (
                f"the output of before is kept in {self.checkout.relative(previous)} until it can be put back"
            )
        return kind(preparation.module, "prepare", f"{place}: {sentence(error)}; {ends}")


def _outcome(state: str, action: Action | None) -> Outcome:
    return Outcome(state) if action is None else Outcome(state, action.rows, action.size)
