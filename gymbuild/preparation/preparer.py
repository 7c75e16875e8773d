"""One dataset, from the decision to the record: current, restored from the store, or prepared by its script."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gymbuild.cache.digests import digest_json
from gymbuild.cache.displaced import displace
from gymbuild.cache.store import Action, DamagedObjectError, Input
from gymbuild.config.graph import Preparation
from gymbuild.config.step import Say
from gymbuild.environments import Environment, build_environment
from gymbuild.environments import venv_python as environment_python
from gymbuild.preparation.failures import forget_failure, record_failure
from gymbuild.preparation.inputs import FORMAT, OBSERVED, InputReader, args_path, declared_files, own_outputs
from gymbuild.preparation.isolated_run import (
    IsolatedRun,
    OutputError,
    RunResult,
    check_output,
    check_returned,
    encode_args,
    run_isolated,
)
from gymbuild.preparation.journal import Journal
from gymbuild.preparation.observations import Observations
from gymbuild.preparation.script import check_script
from gymbuild.preparation.staleness import Decision, decide
from gymbuild.system.errors import (
    PASSING,
    PreparationFailedError,
    PreparationMayPassError,
    UsageError,
)
from gymbuild.system.files import remove_temporaries, write_atomically
from gymbuild.system.locks import lock
from gymbuild.system.paths import file_name
from gymbuild.system.permissions import sentence

if TYPE_CHECKING:
    from gymbuild.config.session import Session


@dataclass(frozen=True, slots=True)
class Assessment:
    """A decision with what it was made from."""

    decision: Decision
    environment: Environment
    static: tuple[Input, ...]
    """The inputs that are known before a run, as they are now."""
    static_key: str
    known: tuple[Input, ...]
    """The inputs that the recorded run was seen to use, as they are now."""
    record: Action | None
    args: bytes = field(repr=False)


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


class Preparer:
    """Prepares the datasets of one checkout.

    Args:
        session: of the command. Reading an output of its graph makes it an input of kind `output`.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.checkout = session.checkout
        self.settings = session.settings
        self.digests = session.digests
        self.store = session.store
        self.journal = Journal(self.checkout, self.store)
        self.inputs = InputReader(self.checkout, self.digests)

    # -- deciding ------------------------------------------------------------------------------------------------

    def environment(self, preparation: Preparation) -> Environment:
        """The environment of a preparation's script; nothing is built."""
        found: Environment = self.session.steps["venv"].environment(preparation)
        return found

    def record(self, preparation: Preparation) -> Action | None:
        """The preparation that made the present output, as far as is known."""
        plain = self.session.database.get("action", preparation.dataset.jsonl_fpath)
        return None if plain is None else Action.from_plain(plain)

    def assess(self, preparation: Preparation, *, always: bool = False) -> Assessment:
        """Decide about one dataset; starts no process and changes nothing.

        Args:
            preparation: the dataset's.
            always: the script has to run (doit's `-a`).

        Raises:
            ConfigError: its environment cannot be told.
            UsageError: an argument that JSON has no form for.
        """
        dataset = preparation.dataset
        own = own_outputs(dataset)
        environment = self.environment(preparation)
        args = encode_args(dataset.args, self.checkout)
        static = tuple(self.inputs.static(preparation, environment, args))
        static_key = digest_json([FORMAT, [item.plain() for item in static]])
        record = self.record(preparation)
        known = tuple(self.inputs.observed(record, own)) if record is not None else ()

        candidate: Action | None = None
        then = () if record is None else tuple(item for item in record.inputs if item.kind in OBSERVED)
        if record is None or record.static_key != static_key or then != known:
            candidate = next(
                (action for action in self.store.actions(static_key) if self.inputs.holds(action, own)), None
            )
        outputs = {dataset.jsonl_fpath: self.output_digest(dataset.jsonl_fpath)}
        for action in (record, candidate):
            for path, _ in action.outputs if action is not None else ():
                if path not in outputs:
                    outputs[path] = self.output_digest(path)
        source = candidate or record
        decision = decide(
            record=record,
            now=[*static, *known],
            outputs=outputs,
            candidate=candidate,
            restorable=source is not None
            and all(outputs.get(path) == digest or self.store.has(digest) for path, digest in source.outputs),
            forced=self._forced(preparation, always),
            adopt=self.settings.use_cached_prepared_benchmarks is True,
            output=dataset.jsonl_fpath,
            has_judge=self.settings.use_cached_prepared_benchmarks is True and self._has_judge(preparation),
        )
        if decision.state == "judge" and self._verdict(preparation, environment):
            decision = Decision("current", (), decision.action)
        return Assessment(decision, environment, static, static_key, known, record, args)

    def _forced(self, preparation: Preparation, always: bool) -> str | None:
        if always:
            return "asked to prepare it in any case (-a)"
        if self.settings.use_cached_prepared_benchmarks is False:
            return "use_cached_prepared_benchmarks=false asks to prepare it again"
        if self.session.database.get("forgotten", preparation.dataset.jsonl_fpath):
            return "it was forgotten (doit forget)"
        return None

    def output_digest(self, path: str) -> str | None:
        """The digest of an output; None for what is no regular file of its own (a symlink, a folder)."""
        if os.path.islink(self.checkout.absolute(path)):
            return None
        return self.digests.get(path)

    def _has_judge(self, preparation: Preparation) -> bool:
        return check_script(self.checkout.absolute(preparation.script), {}).has_current_check

    def _verdict_key(self, preparation: Preparation, environment: Environment) -> str:
        script = self.digests.get(preparation.script)
        output = self.output_digest(preparation.dataset.jsonl_fpath)
        return digest_json([output, script, environment.key, preparation.module])

    def _verdict(self, preparation: Preparation, environment: Environment) -> bool:
        return bool(self.session.database.get("verdict", self._verdict_key(preparation, environment)))

    def check_inside(self, preparation: Preparation) -> None:
        """Check that what is written for a dataset lies inside the checkout still.

        Its config was checked when it was resolved; a folder may have become a symlink since.

        Raises:
            UsageError: a folder leads outside; names it.
        """
        if self.settings.allow_outside:
            return
        output, patterns = preparation.dataset.jsonl_fpath, preparation.dataset.prepare_outputs
        record = self.record(preparation)
        paths = {output, *patterns, *(path for path, _ in (record.outputs if record is not None else ()))}
        paths.update(path for pattern in patterns for path in declared_files(self.checkout, pattern))
        for path in sorted(paths):
            link = self.checkout.way_out(path)
            if link is not None:
                raise UsageError(
                    f"{path} leads outside the checkout: {link} is a symbolic link to "
                    f"{os.path.realpath(self.checkout.absolute(link))}; nothing is written there. Make it a folder of "
                    "the checkout, or set allow_outside=true."
                )

    # -- doing ---------------------------------------------------------------------------------------------------

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
        task = f"prepare:{preparation.name}"
        try:
            with self.locks(preparation, say):
                self.check_inside(preparation)
                remove_temporaries(self.checkout.absolute(preparation.dataset.jsonl_fpath))
                if self.journal.roll_back(preparation.name):
                    say(f"{task}: an earlier run was cut off; what was there before it is back in place")
                return self._prepare(preparation, say, always)
        except OSError as error:
            raise self._disk_error(preparation, "prepare", error) from None

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
        decision = assessment.decision
        if decision.state == "current":
            self._finish(preparation, decision.action)
            adopted = decision.action is None
            return _outcome("adopted" if adopted else "current", decision.action)
        if decision.state == "judge":
            try:
                if self._judge(preparation, assessment, say):
                    key = self._verdict_key(preparation, assessment.environment)
                    self.session.database.put([("verdict", key, True)])
                    return _outcome("adopted" if decision.action is None else "current", decision.action)
            except PreparationFailedError as error:
                self._fail(preparation, assessment, error)
                raise
            say(f"prepare:{preparation.name}: its script says that the prepared file is not current")
            decision = Decision("run", decision.reasons, decision.action)
        if decision.state == "restore" and decision.action is not None:
            try:
                self._restore(preparation, decision.action, say)
                self._finish(preparation, decision.action)
                return _outcome("restored", decision.action)
            except FileNotFoundError:
                say(f"prepare:{preparation.name}: the store has lost its output; preparing it again")
            except DamagedObjectError as damaged:
                say(
                    f"warning: prepare:{preparation.name}: object {damaged} in the store was damaged and is dropped; "
                    "preparing it again"
                )
        return self._run(preparation, assessment, say)

    def _finish(self, preparation: Preparation, action: Action | None) -> None:
        output = preparation.dataset.jsonl_fpath
        database = self.session.database
        records: list[tuple[str, str, object]] = []
        if action is not None and database.get("action", output) != action.to_plain():
            records.append(("action", output, action.to_plain()))
        if database.get("forgotten", output):
            records.append(("forgotten", output, None))
        database.put(records)
        forget_failure(self.checkout, preparation.name)
        with contextlib.suppress(OSError):
            self.digests.save()

    def _restore(self, preparation: Preparation, action: Action, say: Say) -> None:
        for path, digest in action.outputs:
            found = self.output_digest(path)
            if found == digest:
                continue
            absolute = self.checkout.absolute(path)
            if os.path.lexists(absolute) and not (found is not None and self.store.has(found)):
                how = "was changed by hand" if _is_readable(absolute) else "cannot be read"
                kept = displace(self.checkout, path)
                say(f"prepare:{preparation.name}: {path} {how}; it is kept as {kept}")
            self.store.restore(digest, absolute)

    def _python(self, preparation: Preparation, environment: Environment, say: Say) -> str:
        build_environment(
            environment,
            self.checkout,
            module=preparation.module,
            venv_dir=self.settings.uv_venv_dir,
            offline=self.settings.offline,
            report=say,
        )
        return environment_python(environment, self.checkout, self.settings.uv_venv_dir)

    def log_path(self, preparation: Preparation) -> str:
        """Where the output of a preparation's script goes, relative to the checkout."""
        return self.checkout.relative(self.checkout.cached("logs", file_name(preparation.name) + ".log"))

    def _isolated(
        self, preparation: Preparation, environment: Environment, action: str, say: Say
    ) -> IsolatedRun:
        dataset = preparation.dataset
        return IsolatedRun(
            python=self._python(preparation, environment, say),
            checkout=self.checkout,
            script=preparation.script,
            script_root=dataset.script_root,
            module=preparation.module,
            action=action,
            args=dataset.args,
            expected=dataset.jsonl_fpath,
            outputs=dataset.prepare_outputs,
            log=self.log_path(preparation),
            label=preparation.name if self.session.parallel else None,
            timeout=dataset.prepare_timeout,
            offline=self.settings.offline,
            excluded=(self.settings.uv_venv_dir,) if self.settings.uv_venv_dir else (),
        )

    def _judge(self, preparation: Preparation, assessment: Assessment, say: Say) -> bool:
        run = self._isolated(preparation, assessment.environment, "is_prepared_data_current", say)
        return bool(run_isolated(run).returned)

    def _run(self, preparation: Preparation, assessment: Assessment, say: Say) -> Outcome:
        dataset = preparation.dataset
        self.write_args(preparation, assessment.args)
        seen: Observations | None = None
        run = None
        try:
            run = self._isolated(preparation, assessment.environment, "prepare", say)
            siblings = self._sibling_digests(preparation)
            self.journal.begin(preparation.name, dataset.jsonl_fpath, dataset.prepare_outputs)
            try:
                os.makedirs(os.path.dirname(self.checkout.absolute(dataset.jsonl_fpath)), exist_ok=True)
                result, laid_out = self._run_script(preparation, assessment, run, say)
                seen = result.observations
                self._undo_siblings(preparation, siblings)
                check_returned(str(result.returned), dataset.jsonl_fpath, self.checkout)
                rows = check_output(self.checkout.absolute(dataset.jsonl_fpath), dataset.jsonl_fpath)
                action, changed = self._action_of(
                    preparation, assessment, seen, rows, result.seconds, laid_out
                )
                if self._has_judge(preparation) and not self._judge(preparation, assessment, say):
                    raise PreparationFailedError(
                        preparation.module,
                        "is_prepared_data_current",
                        "it returned False for the output that prepare() has just made",
                    )
                for path, digest in action.outputs:
                    self.store.add(self.checkout.absolute(path), digest)
                self.store.record(action)
                self._finish(preparation, action)
            except BaseException:
                with contextlib.suppress(Exception):
                    self._undo_siblings(preparation, siblings)
                try:
                    self.journal.roll_back(preparation.name)
                except (OSError, UsageError) as error:
                    say(
                        f"warning: prepare:{preparation.name}: {dataset.jsonl_fpath} cannot be put back: "
                        f"{sentence(error) if isinstance(error, OSError) else error}"
                    )
                raise
        except (OutputError, PreparationFailedError) as error:
            failure = (
                error
                if isinstance(error, PreparationFailedError)
                else PreparationFailedError(
                    preparation.module, "prepare", f"{error} (log: {self.log_path(preparation)})"
                )
            )
            noted = failure.observations or seen
            self._fail(preparation, assessment, failure, noted)
            raise failure from None
        except OSError as error:
            failure = self._disk_error(preparation, "prepare", error)
            self._fail(preparation, assessment, failure, seen)
            raise failure from None
        self._keep_edits(preparation, action, say)
        self.journal.commit(preparation.name)
        for path in changed:
            say(
                f"warning: prepare:{preparation.name}: {path} changed while the script ran; "
                "the dataset is stale again and will be prepared anew at the next start"
            )
        return Outcome("prepared", action.rows, action.size, action.seconds, tuple(changed))

    def _run_script(
        self, preparation: Preparation, assessment: Assessment, run: IsolatedRun, say: Say
    ) -> tuple[RunResult, bool]:
        """Run the script: without the output of before, except where that is what it reads.

        Some scripts make nothing. They check a file that people keep, and that file is their declared output; it
        is an input then.

        Returns:
            the result, and whether the output of before was there for the script.
        """
        output = preparation.dataset.jsonl_fpath
        if assessment.record is not None and _reads_own_output(assessment.record):
            self._lay_out(preparation)
            return run_isolated(run), True
        try:
            return run_isolated(run), False
        except PreparationFailedError as error:
            kept = self.journal.held(preparation.name)
            asked_for = error.reason.partition("\n")[0]
            if (
                kept is None
                or not asked_for.startswith("FileNotFoundError")
                or os.path.basename(output) not in asked_for
                or os.path.islink(kept)
                # what gymbuild made is no file of people's: the script has to make it anew
                or (digest := self.digests.get(kept)) is None
                or self.store.has(digest)
            ):
                raise
        say(
            f"prepare:{preparation.name}: its script reads {output} itself; running it with that file in place"
        )
        self._lay_out(preparation)
        return run_isolated(run), True

    def _lay_out(self, preparation: Preparation) -> None:
        """Put a copy of the output of before where the script finds it."""
        kept = self.journal.held(preparation.name)
        if kept is not None and os.path.isfile(kept) and not os.path.islink(kept):
            shutil.copy2(kept, self.checkout.absolute(preparation.dataset.jsonl_fpath))

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

    def _action_of(
        self,
        preparation: Preparation,
        assessment: Assessment,
        seen: Observations,
        rows: int,
        seconds: float,
        laid_out: bool,
    ) -> tuple[Action, list[str]]:
        """The record of a run: its inputs as they were when it ran, and what it made."""
        dataset = preparation.dataset
        own = own_outputs(dataset)
        before = {(item.kind, item.name): item.state for item in assessment.known}
        skip = {preparation.script, *assessment.environment.inputs}
        # what an editable dependency or a declared glob covers is compared there, as a whole
        for folder in assessment.environment.editable:
            prefix = folder.rstrip("/") + "/"
            skip |= {path for path in (*seen.files, *seen.missing, *seen.present) if path.startswith(prefix)}
        observed, changed = self.inputs.of_run(
            seen, before, self.session.graph.outputs.keys() - {dataset.jsonl_fpath}, own, skip
        )
        now = self.inputs.static(preparation, assessment.environment, assessment.args)
        for then, present in zip(assessment.static, now, strict=True):
            if then != present:
                changed.append(then.name)
        paths = [dataset.jsonl_fpath]
        for pattern in dataset.prepare_outputs:
            paths += [path for path in declared_files(self.checkout, pattern) if path not in paths]
        outputs = []
        for path in paths:
            digest = self.digests.get(path)
            if digest is None:
                raise OutputError(f"{path} vanished before it could be stored")
            outputs.append((path, digest))
        kept = self.journal.held(preparation.name)
        if laid_out and kept is not None and self.digests.get(kept) == outputs[0][1]:
            # the script left the file as it was: that file is what it is made from
            observed.append(Input("data", dataset.jsonl_fpath, outputs[0][1]))
        inputs = (*assessment.static, *sorted(observed, key=lambda item: (item.kind, item.name)))
        return (
            Action(
                static_key=assessment.static_key,
                key=digest_json([item.plain() for item in inputs]),
                dataset=preparation.name,
                inputs=inputs,
                outputs=tuple(outputs),
                rows=rows,
                size=os.stat(self.checkout.absolute(dataset.jsonl_fpath)).st_size,
                seconds=round(seconds, 3),
                made=time.time(),
                judged=True,
                written=tuple(path for path in seen.written if path not in paths),
            ),
            sorted(set(changed)),
        )

    def _keep_edits(self, preparation: Preparation, action: Action, say: Say) -> None:
        """Keep aside what was at the output's place before the run, if it is nowhere else."""
        kept = self.journal.held(preparation.name)
        if kept is None:
            return
        output = preparation.dataset.jsonl_fpath
        if not os.path.islink(kept) and os.path.isfile(kept):
            digest = self.digests.get(kept)
            if digest is not None and (digest == action.outputs[0][1] or self.store.has(digest)):
                return
        how = "was not made by a known preparation" if _is_readable(kept) else "could not be read"
        place = displace(self.checkout, kept, output)
        say(f"prepare:{preparation.name}: {output} {how}; it is kept as {place}")

    def _sibling_digests(self, preparation: Preparation) -> dict[str, str | None]:
        """Digests of the other outputs of this script; their content is in the store."""
        found = {}
        for path, _ in preparation.siblings:
            digest = self.output_digest(path)
            if digest is not None:
                self.store.add(self.checkout.absolute(path), digest)
            found[path] = digest
        return found

    def _undo_siblings(self, preparation: Preparation, before: dict[str, str | None]) -> None:
        changed = []
        for path, config in preparation.siblings:
            digest = before[path]
            if self.output_digest(path) == digest:
                continue
            absolute = self.checkout.absolute(path)
            if digest is None:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(absolute)
            else:
                self.store.restore(digest, absolute)
            changed.append((path, config))
        if changed:
            path, config = changed[0]
            raise PreparationFailedError(
                preparation.module,
                "prepare",
                f"with the args of {preparation.dataset.config_path} it changed {path}, which belongs to {config}; "
                f"that file was put back. Give each config args that make the script write its own jsonl_fpath.",
            )

    def _fail(
        self,
        preparation: Preparation,
        assessment: Assessment,
        error: PreparationFailedError,
        seen: Observations | None = None,
    ) -> None:
        inputs = list(assessment.static)
        if seen is not None:
            dataset = preparation.dataset
            skip = {preparation.script, *assessment.environment.inputs}
            observed, _ = self.inputs.of_run(
                seen,
                {},
                self.session.graph.outputs.keys() - {dataset.jsonl_fpath},
                own_outputs(dataset),
                skip,
            )
            inputs += [item for item in observed if item.kind not in ("listing",)]
        record_failure(
            self.checkout, preparation.name, error, inputs, self.log_path(preparation), self.session.run
        )

    def fail_environment(self, preparation: Preparation, error: PreparationFailedError) -> None:
        """Record that a preparation failed because its environment could not be built."""
        self._fail(preparation, self.assess(preparation), error)

    def inputs_of_failure(
        self, preparation: Preparation, record: dict[str, object]
    ) -> dict[tuple[str, str], str | None]:
        """The present states of the inputs that a record of a failure names, and of those that the config gives."""
        environment = self.environment(preparation)
        args = encode_args(preparation.dataset.args, self.checkout)
        now = {
            (item.kind, item.name): item.state for item in self.inputs.static(preparation, environment, args)
        }
        listed = record.get("inputs") or ()
        assert isinstance(listed, list | tuple)
        for kind, name, _ in listed:
            if kind in OBSERVED:
                now[kind, name] = self.inputs.state(kind, name, (), own_outputs(preparation.dataset))
        return now

    def _disk_error(self, preparation: Preparation, action: str, error: OSError) -> PreparationFailedError:
        place = self.checkout.relative(str(error.filename)) if error.filename else "a file"
        text = f"{place}: {sentence(error)}"
        if error.errno in PASSING:
            return PreparationMayPassError(preparation.module, action, f"{text}; nothing was lost, try again")
        kept = self.journal.held(preparation.name)
        ends = "the output is as it was"
        if kept is not None:
            ends = f"the output of before is kept in {self.checkout.relative(kept)} until it can be put back"
        return PreparationFailedError(preparation.module, action, f"{text}; {ends}")


def _reads_own_output(action: Action) -> bool:
    """Whether a preparation's output was a file that its script only read."""
    return any(item.kind == "data" and item.name == action.outputs[0][0] for item in action.inputs)


def _is_readable(path: str) -> bool:
    """Whether this user may read what is there; what is no file of its own is another matter."""
    return os.path.islink(path) or not os.path.isfile(path) or os.access(path, os.R_OK)


def _outcome(state: str, action: Action | None) -> Outcome:
    if action is None:
        return Outcome(state)
    return Outcome(state, action.rows, action.size)
