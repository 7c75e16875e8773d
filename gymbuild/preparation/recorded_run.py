"""One run of `prepare`: journaled, checked and recorded; or everything is put back as it was before."""

from __future__ import annotations

import contextlib
import os
import shutil
import time

from gymbuild.cache.digests import digest_json
from gymbuild.cache.displaced import displace
from gymbuild.cache.store import Action, Input
from gymbuild.config.graph import Preparation
from gymbuild.preparation.assessment import Assessment, Assessor
from gymbuild.preparation.inputs import declared_files, output_patterns
from gymbuild.preparation.isolated_run import IsolatedRun, RunResult, run_isolated
from gymbuild.preparation.journal import is_readable
from gymbuild.preparation.observations import Observations
from gymbuild.preparation.output import OutputError, check_output, check_returned
from gymbuild.preparation.script import IS_CURRENT
from gymbuild.preparation.scripts import Say, Scripts
from gymbuild.preparation.siblings import Siblings
from gymbuild.system.errors import PreparationFailedError, UsageError
from gymbuild.system.permissions import sentence
from gymbuild.system.processes import interrupts_wait


class RecordedRun:
    """One run of a dataset's `prepare`; for who holds its lock.

    Args:
        assessor: of the checkout.
        scripts: of the checkout.
        preparation: the dataset's.
        assessment: what it was found to need, by what inputs.
        say: told what a person should know, a line at a time.
    """

    def __init__(
        self,
        assessor: Assessor,
        scripts: Scripts,
        preparation: Preparation,
        assessment: Assessment,
        say: Say,
    ) -> None:
        self._assessor = assessor
        self._scripts = scripts
        self._preparation = preparation
        self._assessment = assessment
        self._say = say
        self._journal = assessor.journal
        self._output = preparation.dataset.jsonl_fpath
        self.observations: Observations | None = None
        """What the script used, once that is told."""
        self.changed: list[str] = []
        """Inputs that changed while the script ran: the result is stale already."""

    def run(self) -> Action:
        """Run it.

        Returns:
            the record of what went in and what came out.

        Raises:
            PreparationFailedError, OutputError, OSError: it cannot be made; everything is as it was.
        """
        preparation = self._preparation
        call = self._scripts.call(preparation, self._assessment.environment, self._say)
        siblings = Siblings(self._assessor, preparation)
        self._journal.begin(preparation.name, self._output, preparation.dataset.prepare_outputs)
        try:
            action = self._make(call, siblings)
            self._assessor.finish(preparation, action)
        except BaseException:
            with interrupts_wait():
                with contextlib.suppress(Exception):
                    siblings.put_back()
                self._roll_back()
            raise
        return action

    def conclude(self, action: Action) -> None:
        """After a run that went well: forget what was there before, except what a person wrote.

        Raises:
            OSError: that cannot be moved; the next start puts it back.
        """
        preparation = self._preparation
        self._preserve_edits(action)
        self._journal.commit(preparation.name)
        for path in self.changed:
            self._say(
                f"warning: prepare:{preparation.name}: {path} changed while the script ran; "
                "the dataset is stale again and will be prepared anew at the next start"
            )

    def _make(self, call: IsolatedRun, siblings: Siblings) -> Action:
        assessor, preparation = self._assessor, self._preparation
        absolute = assessor.checkout.absolute(self._output)
        os.makedirs(os.path.dirname(absolute), exist_ok=True)
        result, reads_output = self._run_script(call)
        self.observations = result.observations
        siblings.put_back()
        check_returned(str(result.returned), self._output, assessor.checkout)
        rows = check_output(absolute, self._output)
        action = self._action(result, rows, reads_output)
        if assessor.has_judge(preparation) and not self._scripts.is_current(
            preparation, self._assessment.environment, self._say
        ):
            raise PreparationFailedError(
                preparation.module,
                IS_CURRENT,
                "it returned False for the output that prepare() has just made",
            )
        for path, digest in action.outputs:
            assessor.store.add(assessor.checkout.absolute(path), digest)
        assessor.store.record(action)
        return action

    def _roll_back(self) -> None:
        try:
            self._journal.roll_back(self._preparation.name)
        except (OSError, UsageError) as error:
            self._say(
                f"warning: prepare:{self._preparation.name}: {self._output} cannot be put back: "
                f"{sentence(error) if isinstance(error, OSError) else error}"
            )

    # -- the script ----------------------------------------------------------------------------------------------

    def _run_script(self, call: IsolatedRun) -> tuple[RunResult, bool]:
        """Run the script: without the previous output, except where that is what it reads.

        Some scripts make nothing. They check a file that people maintain, and that file is their declared output; it
        is an input then.

        Returns:
            the result, and whether the previous output was there for the script.
        """
        record = self._assessment.record
        if record is not None and _reads_own_output(record):
            self._copy_previous()
            return run_isolated(call), True
        try:
            return run_isolated(call), False
        except PreparationFailedError as error:
            if not self._asks_for_previous(error):
                raise
        self._say(
            f"prepare:{self._preparation.name}: its script reads {self._output} itself; running it with that file in place"
        )
        self._copy_previous()
        return run_isolated(call), True

    def _asks_for_previous(self, error: PreparationFailedError) -> bool:
        """Whether the script failed for want of the previous output, which no script has made."""
        previous = self._journal.previous_output(self._preparation.name)
        reason = error.reason.partition("\n")[0]
        if (
            previous is None
            or not reason.startswith("FileNotFoundError")
            or os.path.basename(self._output) not in reason
            or os.path.islink(previous)
        ):
            return False
        # what gymbuild made is not a file of people's: the script has to make it anew
        digest = self._assessor.digests.get(previous)
        return digest is not None and not self._assessor.store.has(digest)

    def _copy_previous(self) -> None:
        """Put a copy of the previous output where the script finds it."""
        previous = self._journal.previous_output(self._preparation.name)
        if previous is not None and os.path.isfile(previous) and not os.path.islink(previous):
            shutil.copy2(previous, self._assessor.checkout.absolute(self._output))

    # -- the record ----------------------------------------------------------------------------------------------

    def _action(self, result: RunResult, rows: int, reads_output: bool) -> Action:
        """The record of a run: its inputs as they were when it ran, and what it made."""
        assessment, preparation = self._assessment, self._preparation
        outputs = self._outputs()
        observed = self._observed(result.observations)
        now = self._assessor.inputs.static(preparation, assessment.environment, assessment.args)
        changed = [then.name for then, later in zip(assessment.static, now, strict=True) if then != later]
        self.changed = sorted({*self.changed, *changed})
        previous = self._journal.previous_output(preparation.name)
        if (
            reads_output
            and previous is not None
            and self._assessor.digests.get(previous) == outputs[self._output]
        ):
            # the script left the file as it was: that file is what it is made from
            observed.append(Input("data", self._output, outputs[self._output]))
        inputs = (*assessment.static, *sorted(observed, key=lambda item: (item.kind, item.name)))
        return Action(
            static_key=assessment.static_key,
            key=digest_json([item.plain() for item in inputs]),
            dataset=preparation.name,
            inputs=inputs,
            outputs=tuple(outputs.items()),
            rows=rows,
            size=os.stat(self._assessor.checkout.absolute(self._output)).st_size,
            seconds=round(result.seconds, 3),
            made=time.time(),
            judged=True,
            written=tuple(path for path in result.observations.written if path not in outputs),
        )

    def _observed(self, used: Observations) -> list[Input]:
        assessment, dataset = self._assessment, self._preparation.dataset
        before = {(item.kind, item.name): item.state for item in assessment.observed}
        counted = {self._preparation.script, *assessment.environment.inputs}
        # what an editable dependency covers is compared there, as a whole
        for folder in assessment.environment.editable:
            prefix = folder.rstrip("/") + "/"
            counted |= {
                path for path in (*used.files, *used.missing, *used.present) if path.startswith(prefix)
            }
        observed, self.changed = self._assessor.inputs.of_run(
            used, before, self._assessor.others - {self._output}, output_patterns(dataset), counted
        )
        return observed

    def _outputs(self) -> dict[str, str]:
        """The files that the run made, with their digests; the dataset's own file first."""
        checkout = self._assessor.checkout
        paths = [self._output]
        for pattern in self._preparation.dataset.prepare_outputs:
            paths += [path for path in declared_files(checkout, pattern) if path not in paths]
        outputs = {}
        for path in paths:
            digest = self._assessor.digests.get(path)
            if digest is None:
                raise OutputError(f"{path} vanished before it could be stored")
            outputs[path] = digest
        return outputs

    def _preserve_edits(self, action: Action) -> None:
        """Preserve what was at the output's place before the run, if it is nowhere else."""
        previous = self._journal.previous_output(self._preparation.name)
        if previous is None:
            return
        if not os.path.islink(previous) and os.path.isfile(previous):
            digest = self._assessor.digests.get(previous)
            if digest is not None and (digest == action.outputs[0][1] or self._assessor.store.has(digest)):
                return
        why = "was not made by a recorded preparation" if is_readable(previous) else "could not be read"
        place = displace(self._assessor.checkout, previous, self._output)
        self._say(f"prepare:{self._preparation.name}: {self._output} {why}; it is kept as {place}")


def _reads_own_output(action: Action) -> bool:
    """Whether a preparation's output was a file that its script only read."""
    return any(item.kind == "data" and item.name == action.outputs[0][0] for item in action.inputs)
