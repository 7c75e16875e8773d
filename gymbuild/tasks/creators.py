"""doit task creators: `venv`, `prepare`, `validate` and `plan`. A checkout's dodo.py imports what is here."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from gymbuild.tasks.doit_state import DigestChecker

if TYPE_CHECKING:
    from gymbuild.config.graph import Preparation
    from gymbuild.environments import Environment
    from gymbuild.tasks.session import Session

DOIT_CONFIG: dict[str, Any] = {
    "default_tasks": ["plan"],
    "check_file_uptodate": DigestChecker,
    "continue": True,
    "verbosity": 2,
    "action_string_formatting": "both",
}

_session: Session | None = None


def current_session() -> Session:
    """The session of this command: the one that a command of ours set, or one made from doit's command line."""
    global _session
    if _session is None or _session.checkout.root != os.path.realpath(os.getcwd()):
        from gymbuild.system.errors import GymbuildError
        from gymbuild.tasks.session import Session, setting_words

        try:
            _session = Session(os.getcwd(), setting_words(sys.argv[1:]))
            _session.named = tuple(word for word in sys.argv[1:] if ":" in word and "=" not in word)
        except GymbuildError as error:
            from doit.exceptions import InvalidCommand

            raise InvalidCommand(str(error)) from None
    return _session


def use_session(session: Session | None) -> None:
    """Have the task creators make the tasks of this session.

    Args:
        session: made by the command that runs; None to make one from doit's command line.
    """
    global _session
    _session = session


def task_venv() -> Iterator[dict[str, Any]]:
    """isolated environments of prepare scripts, built when a script has to run"""
    yield _group("venv", "isolated environments of prepare scripts, built when a script has to run")
    session = current_session()
    users: dict[str, list[Preparation]] = {}
    environments: dict[str, Environment] = {}
    for name in _selected_preparations(session):
        preparation = session.graph.preparations[name]
        environment = _environment(session, preparation)
        if environment is not None:
            key = environment_name(environment)
            users.setdefault(key, []).append(preparation)
            environments[key] = environment
    for key in sorted(environments):
        yield {
            "name": key,
            "doc": environments[key].title,
            "actions": [(build_venv, [session, users[key]])],
            "uptodate": [(venv_is_built, [session, environments[key]])],
            "clean": [(clean_venv, [session, environments[key]])],
            "verbosity": 2,
            "io": {"capture": False},
        }


def task_prepare() -> Iterator[dict[str, Any]]:
    """prepared datasets, one JSONL file each"""
    yield _group("prepare", "prepared datasets, one JSONL file each")
    session = current_session()
    for name in _selected_preparations(session):
        yield prepare_task(session, name)


def task_validate() -> Iterator[dict[str, Any]]:
    """rows of prepared files checked, and of the datasets beside them"""
    yield _group("validate", "rows of prepared files checked, and of the datasets beside them")
    session = current_session()
    decided = session.decided
    if decided is not None and not any(word.startswith(("validate", "*")) for word in decided.selection.rest):
        return
    for name in session.validator.names():
        source = session.validator.source(name)
        if decided is None or source in decided.stale or source in decided.current:
            yield validate_task(session, name)


def task_plan() -> Iterator[dict[str, Any]]:
    """reproducible plans, one per benchmark"""
    yield _group("plan", "reproducible plans, one per benchmark")
    session = current_session()
    decided = session.decided
    wanted = None if decided is None else set(decided.tasks(session.graph.aliases))
    for name in session.graph.benchmarks:
        if wanted is None or f"plan:{name}" in wanted:
            yield plan_task(session, name)


def _group(name: str, doc: str) -> dict[str, Any]:
    return {"basename": name, "name": None, "doc": doc}


def _selected_preparations(session: Session) -> list[str]:
    """All preparations, or, for the command that runs tasks, those that go to doit."""
    decided = session.decided
    if decided is None:
        return list(session.graph.preparations)
    return [*decided.stale, *(decided.current if decided.hand_all else ())]


def _environment(session: Session, preparation: Preparation) -> Environment | None:
    from gymbuild.system.errors import GymbuildError

    try:
        return session.environment(preparation)
    except GymbuildError:
        return None


def environment_name(environment: Environment) -> str:
    """What follows `venv:` in the name of an environment's task."""
    return f"{environment.kind}-{environment.key[:10]}"


def prepare_task(session: Session, name: str) -> dict[str, Any]:
    """The task `prepare:<name>`, as doit takes it."""
    preparation = session.graph.preparations[name]
    dataset = preparation.dataset
    environment = _environment(session, preparation)
    decided = session.decided
    names = [other for other in preparation.benchmarks if other != name]
    task: dict[str, Any] = {
        "name": name,
        "doc": f"{dataset.jsonl_fpath}" + (f" (for {', '.join(names)} too)" if names else ""),
        "actions": [(run_preparation, [session, preparation])],
        "targets": [dataset.jsonl_fpath],
        "clean": [(clean_output, [session, preparation])],
        "verbosity": 2,
        "io": {"capture": False},
    }
    task["uptodate"] = [(preparation_is_current, [session, preparation])]
    task["task_dep"] = [
        f"prepare:{other}"
        for other in session.upstream(preparation)
        if decided is None or other in decided.stale
    ]
    if environment is not None:
        from gymbuild.preparation.args import args_path, encode_args

        args = args_path(session.checkout, name)
        with contextlib.suppress(OSError):  # whoever only looks may not be able to; a run says so
            session.preparer.write_args(preparation, encode_args(dataset.args, session.checkout))
        task["file_dep"] = [
            path
            for path in (preparation.script, *environment.inputs, session.checkout.relative(args))
            if os.path.isfile(path)
        ]
        assessment = decided.stale.get(name) if decided is not None else None
        if assessment is None or assessment.decision.state in ("run", "judge"):
            task["setup"] = [f"venv:{environment_name(environment)}"]
    return task


def plan_task(session: Session, name: str) -> dict[str, Any]:
    """The task `plan:<name>`, as doit takes it."""
    benchmark = session.graph.benchmarks[name]
    source = session.graph.aliases[name]
    decided = session.decided
    target = session.checkout.relative(session.planner.path(benchmark))
    task: dict[str, Any] = {
        "name": name,
        "doc": benchmark.description or f"plan of {benchmark.config_path}",
        "actions": [(write_plan, [session, benchmark])],
        "targets": [target],
        "clean": [(clean_file, [session, target])],
        "verbosity": 2,
        "io": {"capture": False},
        "uptodate": [(plan_is_current, [session, benchmark])],
    }
    if decided is None or source in decided.stale or decided.hand_all:
        task["task_dep"] = [f"prepare:{source}"]
    deps = [benchmark.dataset.jsonl_fpath]
    if benchmark.dataset.prompt_config:
        deps.append(benchmark.dataset.prompt_config)
    task["file_dep"] = deps
    return task


def validate_task(session: Session, name: str) -> dict[str, Any]:
    """The task `validate:<name>`, as doit takes it."""
    source = session.validator.source(name)
    decided = session.decided
    return {
        "name": name,
        "doc": f"check the rows of {session.validator.dataset(name).jsonl_fpath}",
        "actions": [(validate_rows, [session, name])],
        "task_dep": [f"prepare:{source}"] if decided is None or source in decided.stale else [],
        "uptodate": [(validation_is_current, [session, name])],
        "verbosity": 2,
        "io": {"capture": False},
    }


# -- what the tasks do (module-level functions, so that doit can hand them to other processes) -------------------


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _failure(error: Exception) -> Any:
    from gymbuild.system.errors import GymbuildError, PreparationFailedError
    from gymbuild.system.masking import mask
    from gymbuild.tasks.reporter import GymbuildTaskFailed

    if isinstance(error, PreparationFailedError):
        return GymbuildTaskFailed(mask(str(error)), error.stop_exit_code)
    assert isinstance(error, GymbuildError)
    return GymbuildTaskFailed(mask(str(error)), error.exit_code)


def _guarded(function: Callable[[], Any]) -> Any:
    from gymbuild.system.errors import GymbuildError, PreparationFailedError

    try:
        return function()
    except (GymbuildError, PreparationFailedError) as error:
        return _failure(error)


def run_preparation(session: Session, preparation: Preparation) -> Any:
    """The action of `prepare:<name>`."""
    from gymbuild.system.workers import end_with_parent

    end_with_parent()

    def prepare() -> Any:
        failed = session.failed_environment(preparation)
        if failed is not None:
            return failed
        outcome = session.preparer.prepare(preparation, _say, always=session.always)
        facts = []
        if outcome.rows is not None:
            facts.append(f"{outcome.rows:,} rows")
        if outcome.size is not None:
            facts.append(size_text(outcome.size))
        if outcome.seconds is not None:
            facts.append(f"{outcome.seconds:.1f} s")
        words = {
            "prepared": "prepared",
            "restored": "restored from the store",
            "current": "is current",
            "adopted": "taken as it is",
        }
        line = f"   prepare:{preparation.name} {words[outcome.state]}"
        _say(f"{line}: {preparation.dataset.jsonl_fpath}" + (f" ({', '.join(facts)})" if facts else ""))
        return {"state": outcome.state}

    return _guarded(prepare)


def preparation_is_current(session: Session, preparation: Preparation) -> bool:
    """Whether nothing has to be done for a dataset; starts no process."""
    from gymbuild.system.errors import GymbuildError

    decided = session.decided
    if decided is not None:
        return preparation.name in decided.current
    try:
        return session.preparer.assess(preparation).decision.state == "current"
    except GymbuildError:
        return False


def write_plan(session: Session, benchmark: Any) -> Any:
    """The action of `plan:<name>`."""

    def write() -> Any:
        from gymbuild.system.errors import EXIT_MAY_PASS, PASSING, PlanError
        from gymbuild.system.locks import held
        from gymbuild.system.permissions import sentence

        def waiting(who: str) -> None:
            _say(f"plan:{benchmark.name}: prepare:{source} is in use by {who}; waiting for it")

        source = session.graph.aliases[benchmark.name]
        try:
            # no other builder makes the dataset anew meanwhile, or writes the same plan
            with held(session.checkout, f"prepare:{source}", waiting=waiting):
                session.preparer.state.refresh()
                outcome = session.planner.write(benchmark, _say)
        except OSError as error:
            place = f"{session.checkout.relative(error.filename)}: " if error.filename else ""
            failure = PlanError(f"the plan cannot be written: {place}{sentence(error)}")
            if error.errno in PASSING:
                failure.exit_code = EXIT_MAY_PASS
            raise failure from None
        words = {"written": "written", "same": "is the same", "restored": "restored", "current": "is current"}
        selected = "" if outcome.selected is None else f", {outcome.selected:,} selected"
        _say(
            f"   plan:{benchmark.name} {words[outcome.state]}: {outcome.path} "
            f"({outcome.tasks:,} task{'s' if outcome.tasks != 1 else ''}{selected})"
        )
        return {"state": outcome.state}

    return _guarded(write)


def plan_is_current(session: Session, benchmark: Any) -> bool:
    """Whether a plan is current, once its dataset is."""
    session.preparer.state.refresh()
    return not session.planner.assess(benchmark).reasons


def validate_rows(session: Session, name: str) -> Any:
    """The action of `validate:<name>`."""

    def validate() -> Any:
        from gymbuild.plan.validation import render_report
        from gymbuild.system.errors import PlanError

        session.preparer.state.refresh()
        reports = session.validator.validate(name)
        for report in reports:
            if report.ok:
                _say("   " + render_report(report).replace("\n", "\n   "))
        failed = [render_report(report) for report in reports if not report.ok]
        if failed:
            raise PlanError("\n".join(failed))
        return {"rows": sum(report.rows for report in reports)}

    return _guarded(validate)


def validation_is_current(session: Session, name: str) -> bool:
    """Whether the rows of a dataset have been validated as they are."""
    session.preparer.state.refresh()
    return bool(session.validator.is_current(name))


def build_venv(session: Session, users: list[Preparation]) -> Any:
    """The action of `venv:<env>`: build it, for all the scripts that share it."""
    from gymbuild.environments import build_environment
    from gymbuild.system.errors import PreparationFailedError
    from gymbuild.system.workers import end_with_parent

    end_with_parent()

    def build() -> Any:
        environment = session.environment(users[0])
        try:
            build_environment(
                environment,
                session.checkout,
                module=users[0].module,
                venv_dir=session.settings.uv_venv_dir,
                offline=session.settings.offline,
                report=_say,
            )
        except PreparationFailedError as error:
            for preparation in users:
                session.preparer.fail_environment(preparation, error)
            raise
        return True

    # doit runs a task also when its setup task has failed: run_preparation finds the records that are made here

    return _guarded(build)


def venv_is_built(session: Session, environment: Environment) -> bool:
    """Whether an environment is there and whole; starts no process."""
    from gymbuild.environments import is_built

    return is_built(environment, session.checkout, venv_dir=session.settings.uv_venv_dir)


def clean_output(session: Session, preparation: Preparation, dryrun: bool) -> None:
    """The clean action of `prepare:<name>`: its files go, the store keeps their content."""
    from gymbuild.system.errors import UsageError

    try:
        session.preparer.check_inside(preparation)
    except UsageError as error:
        _say(f"error: {error}")
        return
    record = session.preparer.record(preparation)
    paths = [path for path, _ in record.outputs] if record is not None else []
    for path in dict.fromkeys([preparation.dataset.jsonl_fpath, *paths]):
        clean_file(session, path, dryrun)


def clean_file(session: Session, path: str, dryrun: bool) -> None:
    """Remove a file that gymbuild can make again; what is not its own is kept aside."""
    absolute = session.checkout.absolute(path)
    if not os.path.lexists(absolute):
        return
    digest = session.preparer.output_digest(path)
    ours = digest is not None and session.preparer.store.has(digest)
    if dryrun:
        _say(f"would remove {path}")
    elif ours:
        os.unlink(absolute)
        _say(f"removed {path}")
    else:
        from gymbuild.preparation.journal import preserve

        _say(f"{path} is not what gymbuild made; it is kept as {preserve(session.checkout, path)}")


def clean_venv(session: Session, environment: Environment, dryrun: bool) -> None:
    """The clean action of `venv:<env>`."""
    from gymbuild.environments.build import venv_path

    if environment.python is not None:
        return
    path = venv_path(environment, session.checkout, session.settings.uv_venv_dir)
    if os.path.isdir(path):
        if not dryrun:
            import shutil

            shutil.rmtree(path, ignore_errors=True)
        _say(f"{'would remove' if dryrun else 'removed'} {session.checkout.relative(path)}")


def size_text(size: int) -> str:
    """A number of bytes for people."""
    value = float(size)
    for unit in ("bytes", "kB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            return f"{int(value)} {unit}" if unit == "bytes" else f"{value:.1f} {unit}"
        value /= 1000
    raise AssertionError
