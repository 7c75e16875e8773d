"""`doit [TASK …]`: doit's own run command, with everything decided and validated before anything runs."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Any

from doit import doit_cmd
from doit.cmd_run import Run as DoitRun

from gymbuild.commands.checkout import checkout_of
from gymbuild.system.errors import EXIT_FAILED, EXIT_MAY_PASS, EXIT_USAGE
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
        from gymbuild.tasks.answer import answer

        if params.get("strict") or "--strict" in args:
            # also behind the names of tasks, where doit's own options may not be
            args = [word for word in args if word != "--strict"]
            doit_cmd.set_var("strict", "true")
        if _is_plain(params) and answer(checkout_of(params), args, sys.argv[1:], out=sys.stdout):
            return 0
        # not before it is needed: what follows is imported by starts that have something to do
        from gymbuild.commands.base import reported

        return reported(lambda: self._run(params, args))

    def _run(self, params: Any, args: list[str]) -> int:
        from gymbuild.commands.base import open_session, words_of_command_line
        from gymbuild.tasks.decision import decide, proved_index
        from gymbuild.tasks.index_writer import write_index

        self.loader.setup(params)
        default = params.get("default_tasks") or self.loader.load_doit_config().get("default_tasks")
        words = list(args or default or [])
        processes = _processes(params, words_of_command_line())
        if processes:
            params["num_process"] = processes
        session = open_session(parallel=(params["num_process"] or 0) > 1)
        session.always = bool(params.get("always"))
        for step in session.steps.values():
            step.recover(_say)
        index = proved_index(session)
        decided = decide(session, words or list(session.steps), index=index)
        if (code := _report_problems(session, decided)) is not None:
            return code
        if session.settings.dry_run:
            return dry_run(session, decided)
        for step in session.steps.values():
            step.begin(decided.states_of(step.group))
        session.decided = decided
        decided.everything = params["reporter"] != "console"
        decided.complete = decided.everything or bool(decided.selection.others) or not words
        exit_code = self._run_stale(decided, params, decided.tasks() if words else None)
        write_index(session, decided, index, default, _dodo_modules(session.checkout.root))
        return exit_code

    def _run_stale(self, decided: Any, params: Any, tasks: list[str] | None) -> int:
        """Have doit run what is stale, and say what is current.

        Args:
            decided: what is to be done.
            params: doit's.
            tasks: of ours; None for all that doit has.
        """
        from gymbuild.tasks.steps import use_session

        chosen = [*(tasks or ()), *decided.selection.others]
        quiet = decided.everything or isinstance(params["outfile"], str)
        if not quiet:
            for task in decided.named_current():
                _say(f"-- {task}")
        self._reporter: Any = None
        result = 0
        if chosen or tasks is None:
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
                use_session(None)
        reporter = self._reporter
        if not quiet:
            _say(summary(decided, reporter))
        return int(reporter.exit_code(result) if reporter is not None else result or 0)

    def get_reporters(self) -> dict[str, Any]:
        """doit's reporters, with ours in the place of the default."""
        from gymbuild.tasks.reporter import Reporter

        reporters: dict[str, Any] = super().get_reporters()
        command = self

        class AskedReporter(Reporter):
            """Our reporter; the command asks it afterwards for the exit code."""

            def __init__(self, outstream: Any, options: dict[str, Any]) -> None:
                super().__init__(outstream, options)
                command._reporter = self

        reporters["console"] = AskedReporter
        return reporters


def _report_problems(session: Any, decided: Any) -> int | None:
    """Say what cannot be built; the exit code where nothing may run because of it."""
    if decided.skipped:
        _say(skipped_text(decided.skipped))
    strict = bool(decided.skipped) and session.settings.strict
    if decided.named_problems or strict:
        problems = {**decided.named_problems, **(decided.skipped if strict else {})}
        sys.stdout.flush()
        count = len(problems)
        print(
            f"error: {count} task{'s' if count != 1 else ''} cannot be built; nothing was run\n"
            + problem_text(problems),
            file=sys.stderr,
        )
        return EXIT_USAGE
    for text in decided.refusals:
        print(f"error: {text}", file=sys.stderr)
    return EXIT_FAILED if decided.refusals else None


def _dodo_modules(root: str) -> list[str]:
    """The files of the checkout that its dodo.py was loaded from: it and the modules beside it."""
    prefix = os.path.realpath(root) + os.sep
    paths = {
        os.path.realpath(path)
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] != "gymbuild" and isinstance(path := getattr(module, "__file__", None), str)
    }
    return sorted(
        path[len(prefix) :]
        for path in paths
        if path.startswith(prefix) and not {"site-packages", ".venv"} & set(path.split(os.sep))
    )


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
    current = len(decided.current) + (reporter.current if reporter is not None else 0)
    counts = [(current, "current"), (len(decided.skipped), "skipped")]
    if reporter is None or not (reporter.done or reporter.failed or reporter.left):
        parts = [f"{count} {word}" for count, word in counts if count]
        return "nothing to do: " + (", ".join(parts) or "nothing was selected")
    done = [(reporter.done, "done"), (len(reporter.failed), "failed"), (len(reporter.left), "left out")]
    return ", ".join(f"{count} {word}" for count, word in [*done, *counts] if count)


def dry_run(session: Any, decided: Any) -> int:
    """Say what a run would do, and why; run nothing."""
    from gymbuild.commands.why import reasons_text

    for task, state in decided.stale.items():
        if state.detail is None and state.after:
            _say(f"would look at {task} again, after {state.after[0]}")
        else:
            _say(f"would {state.verb} {task}\n{reasons_text(state.reasons)}".rstrip())
    _say(f"nothing was run (dry_run=true); {len(decided.current)} current")
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
