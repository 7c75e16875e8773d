"""`doit [TASK …]`: doit's own run command, with everything decided and validated before anything runs."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Any

from doit import doit_cmd
from doit.cmd_run import Run as DoitRun

from gymbuild.system.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_MAY_PASS, EXIT_USAGE
from gymbuild.system.text import problem_text, skipped_text


class Run(DoitRun):  # type: ignore[misc]
    """Run tasks: those that are stale."""

    name = "run"
    cmd_options = (
        *DoitRun.cmd_options,
        {
            "name": "strict",
            "long": "strict",
            "type": bool,
            "default": False,
            "help": "the same as the setting strict=true",
        },
    )

    def execute(self, params: Any, args: list[str]) -> Any:
        """doit's entry."""
        from gymbuild.tasks import current

        if params.get("strict") or "--strict" in args:
            # also behind the names of tasks, where doit's own options may not be
            args = [word for word in args if word != "--strict"]
            doit_cmd.set_var("strict", "true")
        root = params.get("cwdPath") or os.path.dirname(os.path.abspath(params.get("dodoFile") or "dodo.py"))
        if _is_plain(params) and current.answer(root, args or ["plan"], sys.argv[1:], out=sys.stdout):
            return 0

        from gymbuild.commands.base import guarded

        return guarded(lambda: self._run(params, args))

    def _run(self, params: Any, args: list[str]) -> int:
        from gymbuild.commands.base import open_session, words_of_command_line
        from gymbuild.tasks.remembering import remember

        self.loader.setup(params)
        config = self.loader.load_doit_config()
        from gymbuild.preparation.failures import drop_guards
        from gymbuild.tasks.selection import with_sources

        words = with_sources(args or list(params.get("default_tasks") or config.get("default_tasks") or []))
        processes = _processes(params, words_of_command_line())
        if processes:
            params["num_process"] = processes
        session = open_session(parallel=(params["num_process"] or 0) > 1)
        session.always = bool(params.get("always"))
        session.named = tuple(words)
        session.preparer.journal.recover(_say)
        decided = session.decide(words, by_stat=True)
        if (code := self._report_problems(decided)) is not None:
            return code
        if session.settings.dry_run:
            return dry_run(session, decided)
        drop_guards(decided.released)
        session.decided = decided
        decided.hand_all = params["reporter"] != "console"
        exit_code = self._hand_over(session, decided, params)
        remember(session, words)
        return exit_code

    def _hand_over(self, session: Any, decided: Any, params: Any) -> int:
        """Give doit what is stale, and say what is current."""
        from gymbuild.tasks import creators as tasks

        chosen = [*decided.tasks(session.graph.aliases), *decided.selection.rest]
        quiet = decided.hand_all or isinstance(params["outfile"], str)
        if not quiet:
            for name in decided.named_current():
                _say(f"-- {name}")
        self._reporter: Any = None
        result = 0
        if chosen:
            from gymbuild.system.workers import Watch

            watch = Watch()
            try:
                with _terminated_as_interrupted(), watch:
                    result = super().execute(params, chosen)
            except KeyboardInterrupt:
                watch.end_all()
                if watch.killed is None:
                    raise
                sys.stdout.flush()
                print(
                    f"error: a worker process was killed from outside (exit {watch.killed}); what it had not finished is "
                    "as it was. Run the same command again.",
                    file=sys.stderr,
                )
                return EXIT_MAY_PASS
            finally:
                tasks.use_session(None)
        reporter = self._reporter
        if not quiet:
            _say(summary(decided, reporter))
        return int(reporter.exit_code(result) if reporter is not None else result or 0)

    def get_reporters(self) -> dict[str, Any]:
        """doit's reporters, with ours in the place of the default."""
        from gymbuild.tasks.reporter import Reporter

        reporters: dict[str, Any] = super().get_reporters()
        command = self

        class Remembered(Reporter):
            """Our reporter; the command asks it afterwards for the exit code."""

            def __init__(self, outstream: Any, options: dict[str, Any]) -> None:
                super().__init__(outstream, options)
                command._reporter = self

        reporters["console"] = Remembered
        return reporters

    def _report_problems(self, decided: Any) -> int | None:
        if decided.skipped:
            _say(skipped_text(decided.skipped))
        strict = decided.skipped and decided_is_strict()
        if decided.named_problems or strict:
            problems = dict(decided.named_problems)
            if strict:
                problems.update(decided.skipped)
            sys.stdout.flush()
            count = len(problems)
            print(
                f"error: {count} task{'s' if count != 1 else ''} cannot be built; nothing was run\n"
                + problem_text(problems),
                file=sys.stderr,
            )
            return EXIT_USAGE
        if decided.guarded:
            for name in decided.guarded:
                print(
                    f"error: prepare:{name} failed before with the very inputs that it has now, and would fail the same "
                    f"way (.cache/failures/{name}.json says how); nothing was run. Change what it is made from, or "
                    "take its line out of the file that GYMBUILD_FAILURE_FILE names.",
                    file=sys.stderr,
                )
            return EXIT_FAILED
        return None


def decided_is_strict() -> bool:
    """Whether `strict=true` is set."""
    from gymbuild.tasks.creators import current_session

    return current_session().settings.strict


def _is_plain(params: Any) -> bool:
    """Whether no option of doit's is set that changes what a run does or prints."""
    changed = set(params._non_default_keys)
    return not (changed - {"num_process", "par_type", "continue", "verbosity", "backend", "dep_file"})


def _processes(params: Any, words: list[str]) -> int:
    from gymbuild.config.settings import parse_settings

    return parse_settings(words).num_prepare_benchmark_processes if not params.get("num_process") else 0


def summary(decided: Any, reporter: Any) -> str:
    """The closing line of a run.

    Args:
        decided: what was to be done.
        reporter: what was done; None when nothing had to be.
    """
    current = decided.count_current() + (reporter.current if reporter is not None else 0)
    counts = [(current, "current"), (len(decided.skipped), "skipped")]
    if reporter is None or not (reporter.done or reporter.failed or reporter.left):
        parts = [f"{count} {word}" for count, word in counts if count]
        return "nothing to do: " + (", ".join(parts) or "nothing was selected")
    done = [(reporter.done, "done"), (len(reporter.failed), "failed"), (len(reporter.left), "left out")]
    return ", ".join(f"{count} {word}" for count, word in [*done, *counts] if count)


def dry_run(session: Any, decided: Any) -> int:
    """Say what a run would do, and why; run nothing."""
    from gymbuild.commands.why import reasons_text

    verbs = {
        "run": "would run",
        "restore": "would restore from the store",
        "judge": "would ask the script of",
    }
    for name, assessment in decided.stale.items():
        state = assessment.decision.state
        verb = verbs.get(state, "would check again, after what it reads,")
        _say(f"{verb} prepare:{name}\n{reasons_text(assessment.decision.reasons)}".rstrip())
    for name in decided.selection.plans:
        source = session.graph.aliases[name]
        if source in decided.stale:
            _say(f"would look at plan:{name} again, after prepare:{source}")
        elif decided.plans[name].reasons:
            _say(f"would write plan:{name}\n{reasons_text(decided.plans[name].reasons)}".rstrip())
    _say(f"nothing was run (dry_run=true); {decided.count_current()} current")
    return 0


class _terminated_as_interrupted:
    """While a run is on, SIGTERM ends it as Ctrl-C does: scripts end, outputs are as before."""

    def __enter__(self) -> None:
        self._old: Any = None
        if threading.current_thread() is threading.main_thread():
            self._old = signal.signal(signal.SIGTERM, _interrupt)

    def __exit__(self, *_: object) -> None:
        if self._old is not None:
            signal.signal(signal.SIGTERM, self._old)


def _interrupt(number: int, frame: Any) -> None:
    raise KeyboardInterrupt


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


__all__ = ["EXIT_INTERRUPTED", "Run"]
