"""`doit [TASK …]`: doit's own run command, with everything decided and validated before anything runs."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Any

from doit.cmd_run import Run as DoitRun

from gymbuild.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_USAGE


class Run(DoitRun):  # type: ignore[misc]
    """Run tasks: those that are stale."""

    name = "run"

    def execute(self, params: Any, args: list[str]) -> Any:
        """doit's entry."""
        from gymbuild import current

        root = params.get("cwdPath") or os.path.dirname(os.path.abspath(params.get("dodoFile") or "dodo.py"))
        if _is_plain(params) and current.answer(root, args or ["plan"], sys.argv[1:], out=sys.stdout):
            return 0

        from gymbuild.commands.base import guarded

        return guarded(lambda: self._run(params, args))

    def _run(self, params: Any, args: list[str]) -> int:
        from gymbuild import current, tasks
        from gymbuild.commands.base import open_session, words_of_command_line

        self.loader.setup(params)
        config = self.loader.load_doit_config()
        words = args or list(params.get("default_tasks") or config.get("default_tasks") or [])
        processes = _processes(params, words_of_command_line())
        if processes:
            params["num_process"] = processes
        session = open_session(parallel=(params["num_process"] or 0) > 1)
        session.always = bool(params.get("always"))
        session.preparer.journal.recover(_say)
        decided = session.decide(words)
        if (code := self._report_problems(decided)) is not None:
            return code
        if session.settings.dry_run:
            return dry_run(session, decided)
        session.decided = decided
        self._reporter: Any = None
        try:
            with _terminated_as_interrupted():
                result = super().execute(params, args)
        finally:
            tasks.use_session(None)
        reporter = self._reporter
        exit_code = reporter.exit_code(result) if reporter is not None else result
        if not (params.get("outfile") and isinstance(params["outfile"], str)) and reporter is not None:
            _say(summary(session, decided, reporter))
        current.remember(session, words)
        return int(exit_code or 0)

    def get_reporters(self) -> dict[str, Any]:
        """doit's reporters, with ours in the place of the default."""
        from gymbuild.reporter import Reporter

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
    from gymbuild.tasks import current_session

    return current_session().settings.strict


def _is_plain(params: Any) -> bool:
    """Whether no option of doit's is set that changes what a run does or prints."""
    changed = set(params._non_default_keys)
    return not (changed - {"num_process", "par_type", "continue", "verbosity", "backend", "dep_file"})


def _processes(params: Any, words: list[str]) -> int:
    from gymbuild.settings import parse_settings

    return parse_settings(words).num_prepare_benchmark_processes if not params.get("num_process") else 0


def problem_text(problems: dict[str, list[str]]) -> str:
    """Every problem, by task; one that several tasks have is told once."""
    by_text: dict[str, list[str]] = {}
    for task, texts in problems.items():
        for text in texts:
            by_text.setdefault(text, []).append(task)
    return "\n".join(f"  {', '.join(tasks)}: {text}" for text, tasks in by_text.items())


def skipped_text(skipped: dict[str, list[str]]) -> str:
    """What a group swept up and cannot be built."""
    return "skipped, since they cannot be built:\n" + problem_text(skipped)


def summary(session: Any, decided: Any, reporter: Any) -> str:
    """The closing line of a run."""
    prepared = decided.selection.preparations
    quiet = sum(1 for name in decided.current if not prepared.get(name))
    quiet += sum(
        1
        for name, plan in decided.plans.items()
        if not plan.reasons and not decided.selection.plans.get(name)
    )
    current = reporter.current + quiet
    parts = []
    if reporter.done:
        parts.append(f"{reporter.done} done")
    if reporter.failed:
        parts.append(f"{len(reporter.failed)} failed")
    if reporter.left:
        parts.append(f"{len(reporter.left)} left out")
    if current:
        parts.append(f"{current} current")
    if decided.skipped:
        parts.append(f"{len(decided.skipped)} skipped")
    if not reporter.done and not reporter.failed and not reporter.left:
        return "nothing to do: " + (", ".join(parts) if parts else "nothing was selected")
    return ", ".join(parts)


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
    total = len(decided.current) + sum(1 for plan in decided.plans.values() if not plan.reasons)
    _say(f"nothing was run (dry_run=true); {total} current")
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
