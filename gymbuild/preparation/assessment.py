"""What is recorded of the datasets of a checkout, and the decision what has to be done about one."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gymbuild.cache.digests import digest_json
from gymbuild.cache.store import Action, Input
from gymbuild.config.graph import Preparation
from gymbuild.environments.environment import Environment
from gymbuild.preparation.args import encode_args
from gymbuild.preparation.failures import forget_failure
from gymbuild.preparation.inputs import FORMAT, OBSERVED, InputReader, declared_files, output_patterns
from gymbuild.preparation.journal import Journal
from gymbuild.preparation.script import check_script
from gymbuild.preparation.staleness import Decision, decide
from gymbuild.system.errors import UsageError

if TYPE_CHECKING:
    from gymbuild.config.session import Session


@dataclass(frozen=True, slots=True)
class Assessment:
    """A decision with what it was made from."""

    decision: Decision
    environment: Environment
    static: tuple[Input, ...]
    """The inputs that the config gives, as they are now."""
    static_key: str
    observed: tuple[Input, ...]
    """The inputs that the recorded run used, as they are now."""
    record: Action | None
    args: bytes = field(repr=False)


class Assessor:
    """Decides about the datasets of one checkout, and records what was done about them.

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

    @property
    def others(self) -> Set[str]:
        """Every output of the graph, relative to the checkout."""
        return self.session.graph.outputs.keys()

    # -- what is recorded ----------------------------------------------------------------------------------------

    def record(self, preparation: Preparation) -> Action | None:
        """The preparation that made the present output, where one is recorded."""
        plain = self.session.database.get("action", preparation.dataset.jsonl_fpath)
        return None if plain is None else Action.from_plain(plain)

    def finish(self, preparation: Preparation, action: Action | None) -> None:
        """Record that the output is current, and by which preparation."""
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

    def accept(self, preparation: Preparation, environment: Environment) -> None:
        """Record that the script calls the present output current."""
        self.session.database.put([("verdict", self._verdict_key(preparation, environment), True)])

    def _is_accepted(self, preparation: Preparation, environment: Environment) -> bool:
        return bool(self.session.database.get("verdict", self._verdict_key(preparation, environment)))

    def _verdict_key(self, preparation: Preparation, environment: Environment) -> str:
        script = self.digests.get(preparation.script)
        output = self.output_digest(preparation.dataset.jsonl_fpath)
        return digest_json([output, script, environment.key, preparation.module])

    # -- deciding ------------------------------------------------------------------------------------------------

    def environment(self, preparation: Preparation) -> Environment:
        """The environment of a preparation's script; nothing is built."""
        found: Environment = self.session.steps["venv"].environment(preparation)
        return found

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
        patterns = output_patterns(dataset)
        environment = self.environment(preparation)
        args = encode_args(dataset.args, self.checkout)
        static = tuple(self.inputs.static(preparation, environment, args))
        static_key = digest_json([FORMAT, [item.plain() for item in static]])
        record = self.record(preparation)
        observed = tuple(self.inputs.observed(record, patterns)) if record is not None else ()

        candidate: Action | None = None
        then = () if record is None else tuple(item for item in record.inputs if item.kind in OBSERVED)
        if record is None or record.static_key != static_key or then != observed:
            candidate = next(
                (action for action in self.store.actions(static_key) if self.inputs.holds(action, patterns)),
                None,
            )
        outputs = {dataset.jsonl_fpath: self.output_digest(dataset.jsonl_fpath)}
        for action in (record, candidate):
            for path, _ in action.outputs if action is not None else ():
                if path not in outputs:
                    outputs[path] = self.output_digest(path)
        source = candidate or record
        adopt = self.settings.use_cached_prepared_benchmarks is True
        decision = decide(
            record=record,
            now=[*static, *observed],
            outputs=outputs,
            candidate=candidate,
            restorable=source is not None
            and all(outputs.get(path) == digest or self.store.has(digest) for path, digest in source.outputs),
            forced=self._forced(preparation, always),
            adopt=adopt,
            output=dataset.jsonl_fpath,
            has_judge=adopt and self.has_judge(preparation),
        )
        if decision.state == "judge" and self._is_accepted(preparation, environment):
            decision = Decision("current", (), decision.action)
        return Assessment(decision, environment, static, static_key, observed, record, args)

    def _forced(self, preparation: Preparation, always: bool) -> str | None:
        if always:
            return "asked to prepare it in any case (-a)"
        if self.settings.use_cached_prepared_benchmarks is False:
            return "use_cached_prepared_benchmarks=false asks to prepare it again"
        if self.session.database.get("forgotten", preparation.dataset.jsonl_fpath):
            return "it was forgotten (doit forget)"
        return None

    def output_digest(self, path: str) -> str | None:
        """The digest of an output; None for a symlink or a folder, which is not a file that a script has written."""
        if os.path.islink(self.checkout.absolute(path)):
            return None
        return self.digests.get(path)

    def has_judge(self, preparation: Preparation) -> bool:
        """Whether the script defines `is_prepared_data_current`."""
        return check_script(self.checkout.absolute(preparation.script), {}).has_current_check

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
                now[kind, name] = self.inputs.state(kind, name, (), output_patterns(preparation.dataset))
        return now
