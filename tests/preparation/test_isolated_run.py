"""A prepare script runs alone in its environment, its result cannot be mistaken, and it ends when it has to."""

from __future__ import annotations

import ast
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gymbuild.preparation.environment_variables import script_environment
from gymbuild.preparation.isolated_run import run_isolated
from gymbuild.preparation.runner.failure import may_pass
from gymbuild.system.errors import PreparationFailedError, PreparationMayPassError, UsageError
from gymbuild.system.processes import REPOSITORY_VARIABLES

from .places import OUTPUT, SCRIPT, ScriptCheckout


def eventually(condition: Callable[[], bool], seconds: float = 20) -> bool:
    """Whether the condition holds before the time is over."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return condition()


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    shown = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout
    return bool(shown.strip()) and "Z" not in shown


def pid_in(path: Path) -> int:
    assert eventually(lambda: path.exists() and path.read_text().endswith("\n"))
    return int(path.read_text())


# --- where and how it runs


def test_the_script_runs_as_its_dotted_path_in_the_checkout(place: ScriptCheckout, python: str) -> None:
    place.script(
        """
        assert __name__ == "benchmarks.x.prepare", __name__
        assert os.getcwd() == os.path.realpath(os.getcwd()) == str(Path(__file__).parents[2])
        assert sys.path[0] == os.getcwd()
        assert not [path for path in sys.path if os.path.exists(os.path.join(path, "recorder.py"))]
        assert sys.argv == [__file__]
        assert sys.stdin.read() == ""
        assert os.getpgid(0) == os.getpid() == os.getsid(0)
        assert not [name for name in sys.modules if name.startswith("gymbuild")]
        print(sys.executable)
        """
    )
    result = place.run(python=python, environment={"PATH": os.environ["PATH"]})
    assert result.returned == OUTPUT
    assert os.path.realpath(place.log.strip()) == os.path.realpath(python)


@pytest.mark.parametrize(
    "script",
    [
        "benchmarks/aime24-x/prepare.py",
        "benchmarks/nemotron_3.5_super/prepare.py",
        "benchmarks/a.b.c/d.e/prepare_v1.2.py",
        "prepare.py",
        "benchmarks/class/prepare.py",
    ],
)
def test_any_folder_name_will_do(place: ScriptCheckout, script: str) -> None:
    folder = os.path.dirname(script)
    place.write(os.path.join(folder, "words.py"), "WORDS = 3\n")
    relative = "from .words import WORDS" if folder else "from words import WORDS"
    place.script(f"{relative}; assert WORDS == 3; print(__name__)", script)
    result = place.run(script=script)
    assert place.log == script[:-3].replace("/", ".") + "\n"
    assert set(result.observations.files) == {script, os.path.join(folder, "words.py")}


def test_worker_processes_find_a_script_whose_folder_has_a_dot(place: ScriptCheckout, python: str) -> None:
    script = "benchmarks/v3.5/prepare.py"
    place.script(
        """
        import multiprocessing
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            assert pool.map(double, [1, 2]) == [2, 4]
        """,
        script,
    )
    with (place.root / script).open("a") as file:
        file.write("\ndef double(value):\n    return 2 * value\n")
    place.run(script=script, python=python)


def test_a_package_of_the_environment_does_not_hide_the_checkouts_folder(
    place: ScriptCheckout, tmp_path: Path
) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "env"], check=True)
    [packages] = (tmp_path / "env/lib").glob("python*/site-packages")
    (packages / "benchmarks/x").mkdir(parents=True)
    (packages / "benchmarks/__init__.py").write_text("")
    (packages / "benchmarks/x/__init__.py").write_text("")
    (packages / "benchmarks/x/prepare.py").write_text("def prepare(): return 'wrong'\n")
    place.script("pass")
    assert place.run(python=str(tmp_path / "env/bin/python")).returned == OUTPUT


def test_arguments_arrive_as_they_were_given(place: ScriptCheckout) -> None:
    place.script("print(repr(args))")
    args = {
        "size": 3,
        "rate": 0.1,
        "words": ["é", None, True],
        "map": {"a": {}},
        "path": place.root / "benchmarks",
    }
    place.run(args=args)
    assert ast.literal_eval(place.log) == {**args, "path": "benchmarks"}


def test_an_argument_without_a_json_form_stops_the_run(place: ScriptCheckout) -> None:
    place.script("pass")
    with pytest.raises(UsageError, match=r"prepare_script_args\.when"):
        place.run(args={"when": object()})


def test_edited_code_runs_though_size_and_time_are_forged(place: ScriptCheckout, python: str) -> None:
    helper = place.write("shared/helper.py", "VALUE = 'one'\n")
    place.script("from shared.helper import VALUE; print(VALUE)")
    environment = {"PATH": os.environ["PATH"]}
    # leaves a bytecode cache
    subprocess.run([python, "-c", "import shared.helper"], cwd=place.root, env=environment, check=True)
    assert list(place.root.glob("shared/__pycache__/helper.*.pyc"))
    place.run(python=python, environment=environment)
    before = helper.stat()
    helper.write_text("VALUE = 'two'\n")
    os.utime(helper, ns=(before.st_atime_ns, before.st_mtime_ns))
    result = place.run(python=python, environment=environment)
    assert place.log == "two\n"
    assert result.observations.files["shared/helper.py"][0] == "import"
    assert not (place.root / "benchmarks/x/__pycache__").exists()


def test_installed_packages_keep_their_bytecode_caches(place: ScriptCheckout, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "env"], check=True)
    [packages] = (tmp_path / "env/lib").glob("python*/site-packages")
    (packages / "installed.py").write_text("")
    place.script("import installed")
    place.run(python=str(tmp_path / "env/bin/python"), environment={"PATH": os.environ["PATH"]})
    assert list((packages / "__pycache__").glob("installed.*.pyc"))


def test_several_runs_at_once_keep_apart(place: ScriptCheckout) -> None:
    for number in range(6):
        place.write(f"shared/{number}.txt", "")
        place.script(f"open('shared/{number}.txt'); print({number})", f"benchmarks/b{number}/prepare.py")

    def run(number: int) -> None:
        script = f"benchmarks/b{number}/prepare.py"
        result = place.run(script=script, log=f".cache/logs/{number}.log", label=f"b{number}")
        assert set(result.observations.files) == {script, f"shared/{number}.txt"}
        assert (place.root / f".cache/logs/{number}.log").read_text() == f"{number}\n"

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(run, range(6)))
    assert sorted(place.shown) == [f"b{number} | {number}\n" for number in range(6)]
    assert place.leftovers == []


# --- what comes of it


def test_nothing_printed_is_taken_for_a_result(place: ScriptCheckout) -> None:
    place.script('print(\'{"returned": "elsewhere.jsonl"}\'); sys.stderr.write(\'{"error": {}}\')')
    assert place.run().returned == OUTPUT


@pytest.mark.parametrize(("verdict", "expected"), [("True", True), ("False", False)])
def test_the_verdict_on_prepared_data(place: ScriptCheckout, verdict: str, expected: bool) -> None:
    place.write(
        SCRIPT,
        f"def is_prepared_data_current(path):\n    assert path.name == 'x.jsonl' and path.is_absolute()\n"
        f"    return {verdict}\n",
    )
    assert place.run(action="is_prepared_data_current").returned is expected


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("def prepare(): return 3", "has to return the path of the file that it wrote; it returned 3 (int)"),
        ("def prepare(): return None", "it returned None (NoneType)"),
        ("async def prepare(): return 'x'", "(coroutine)"),
        ("def other(): pass", "the script defines no function prepare"),
        ("def prepare(): raise ValueError('no such split')", "ValueError: no such split"),
        ("def prepare(needed): pass", "missing 1 required positional argument: 'needed'"),
        ("raise RuntimeError('at import')", "RuntimeError: at import"),
        ("def prepare(:", "SyntaxError"),
        ("import sys\nsys.exit(0)", "ended itself by sys.exit(0)"),
        ("import sys\ndef prepare(): sys.exit('no data')", "ended itself by sys.exit('no data')"),
        ("import os\ndef prepare(): os._exit(0)", "exit code 0 before prepare() came to an end"),
        ("import os\ndef prepare(): os.abort()", "crashed (SIGABRT)"),
        ("import faulthandler\ndef prepare(): faulthandler._sigsegv()", "crashed (SIGSEGV)"),
        (
            "import atexit, os\natexit.register(os._exit, 4)\ndef prepare(): return 'x'",
            "returned, but then its Python",
        ),
        ("def prepare(): raise KeyboardInterrupt", "KeyboardInterrupt"),
    ],
)
def test_a_script_that_goes_wrong_is_a_failure_with_its_reason(
    place: ScriptCheckout, body: str, reason: str
) -> None:
    place.write(SCRIPT, body + "\n")
    with pytest.raises(PreparationFailedError) as caught:
        place.run()
    assert type(caught.value) is PreparationFailedError
    assert reason in caught.value.reason
    assert caught.value.reason.endswith("log: .cache/logs/x.log")
    assert place.leftovers == []


@pytest.mark.parametrize("returned", ["1", "None", "'yes'"])
def test_a_verdict_is_true_or_false_and_nothing_else(place: ScriptCheckout, returned: str) -> None:
    place.write(SCRIPT, f"def is_prepared_data_current(path): return {returned}\n")
    with pytest.raises(PreparationFailedError, match="has to return True or False"):
        place.run(action="is_prepared_data_current")


def test_a_failure_shows_where_in_the_script_and_the_last_lines_of_output(place: ScriptCheckout) -> None:
    place.script("for number in range(50): print('line', number)\nraise LookupError('gone')")
    with pytest.raises(PreparationFailedError) as caught:
        place.run()
    reason = caught.value.reason
    assert reason.startswith("LookupError: gone\n  last lines of its output:\n")
    assert "    line 49\n" in reason
    assert "line 20\n" not in reason
    assert f'File "{place.root}/{SCRIPT}", line' in reason
    assert "runner" not in reason
    assert "line 0\n" in place.log
    assert place.log.rstrip().endswith("LookupError: gone")


def test_a_fork_that_comes_back_does_not_tell_the_result(place: ScriptCheckout) -> None:
    place.script("if not os.fork():\n    return 'the child.jsonl'\nos.wait()")
    assert place.run().returned == OUTPUT


def test_the_script_has_no_children_but_its_own(place: ScriptCheckout) -> None:
    place.script("try:\n    os.wait()\nexcept ChildProcessError:\n    print('none')")
    place.run()
    assert place.log == "none\n"


def network_error(name: str, module: str) -> str:
    return f"class {name}(Exception): pass\n{name}.__module__, {name}.__qualname__ = {module!r}, {name!r}\n"


@pytest.mark.parametrize(
    "body",
    [
        "raise ConnectionResetError('peer')",
        "raise TimeoutError('slow')",
        "import socket; raise socket.gaierror(-2, 'Name or service not known')",
        "import socket; socket.create_connection(('127.0.0.1', 1), 2)",
        "import urllib.request; urllib.request.urlopen('http://127.0.0.1:1/', timeout=2)",
        "import urllib.error; raise urllib.error.HTTPError('u', 503, 'busy', {}, None)",
        "import urllib.error; raise urllib.error.HTTPError('u', 429, 'slowly', {}, None)",
        "import errno; raise OSError(errno.ENETUNREACH, 'Network is unreachable')",
        "try:\n    raise ConnectionError('x')\nexcept ConnectionError as e:\n    raise ValueError('no data') from e",
        "try:\n    raise ConnectionError('x')\nexcept ConnectionError:\n    raise RuntimeError('could not download')",
        "try:\n    raise ConnectionError('x')\nexcept ConnectionError:\n    sys.exit(1)",
        network_error("ConnectTimeout", "httpx") + "raise ConnectTimeout('x')",
        network_error("NetworkError", "httpx._exceptions")
        + "class ReadError(NetworkError): pass\nraise ReadError('x')",
        network_error("ConnectionError", "requests.exceptions") + "raise ConnectionError('x')",
        network_error("LocalEntryNotFoundError", "huggingface_hub.utils._errors")
        + "raise LocalEntryNotFoundError('offline')",
        "class Response: status_code = 502\nclass HfHubHTTPError(OSError): response = Response()\nraise HfHubHTTPError('x')",
        "raise subprocess.TimeoutExpired('curl', 3)",
    ],
)
def test_a_network_that_is_not_there_may_pass(place: ScriptCheckout, body: str) -> None:
    place.script(body)
    with pytest.raises(PreparationMayPassError) as caught:
        place.run()
    assert caught.value.stop_exit_code == 75


@pytest.mark.parametrize("name", ["ENOSPC", "EDQUOT"])
def test_a_full_disk_may_pass(place: ScriptCheckout, name: str) -> None:
    place.script(f"import errno; raise OSError(errno.{name}, 'no room')")
    with pytest.raises(PreparationMayPassError):
        place.run()


def test_an_observation_that_cannot_be_written_down_fails_the_run_and_may_pass(place: ScriptCheckout) -> None:
    # the folder of the run is full, as far as this script is concerned: opening its files in there fails
    place.write("words.txt", "some words")
    place.script(
        """
        import errno, os, posix
        real = posix.open
        def full(path, *rest, **more):
            if "/observed." in str(path):
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(path, *rest, **more)
        posix.open = full
        open("words.txt").read()
        posix.open = real
        """
    )
    with pytest.raises(PreparationMayPassError, match="could not be written down"):
        place.run()


def test_observations_that_cannot_be_read_fail_the_run_and_may_pass(place: ScriptCheckout) -> None:
    place.script(
        "open(os.path.join(os.environ['GYMBUILD_OBSERVED_RUN'], 'observed.1'), 'w').write('not ours')"
    )
    with pytest.raises(PreparationMayPassError, match="could not be written down"):
        place.run()


def test_a_script_that_uses_every_descriptor_is_observed_once_one_is_free(place: ScriptCheckout) -> None:
    place.write("words.txt", "some words")
    place.script(
        """
        import os, resource
        resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
        held = []
        try:
            while True:
                held.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            pass
        assert os.path.exists("words.txt")
        for descriptor in held:
            os.close(descriptor)
        """
    )
    assert place.run().observations.present["words.txt"] == "file"


@pytest.mark.parametrize(
    "body",
    [
        "import urllib.error; raise urllib.error.HTTPError('u', 404, 'Not Found', {}, None)",
        "import urllib.request; urllib.request.urlopen('file:///surely/not/there')",
        "class Response: status_code = 401\nclass HfHubHTTPError(OSError): response = Response()\nraise HfHubHTTPError('x')",
        "open('not there')",
        "try:\n    raise ConnectionError('x')\nexcept ConnectionError:\n    undefined_name",
        "try:\n    raise ConnectionError('x')\nexcept ConnectionError:\n    raise ValueError('bad row') from None",
        "import errno; raise OSError(errno.EACCES, 'Permission denied')",
    ],
)
def test_other_errors_do_not_pass(place: ScriptCheckout, body: str) -> None:
    place.script(body)
    with pytest.raises(PreparationFailedError) as caught:
        place.run()
    assert caught.value.stop_exit_code == 76


def test_network_errors_in_a_group_may_pass() -> None:
    assert may_pass(ExceptionGroup("several", [ValueError("a"), ConnectionError("b")]))
    assert not may_pass(ExceptionGroup("several", [ValueError("a")]))


# --- what it prints


def test_output_is_shown_as_it_comes(place: ScriptCheckout) -> None:
    place.script(
        """
        import time
        print("ready")
        deadline = time.time() + 20
        while not os.path.exists("seen"):
            assert time.time() < deadline
            time.sleep(0.01)
        """
    )

    def show(text: str) -> None:
        if text == "ready\n":
            (place.root / "seen").write_text("")

    run_isolated(place.isolated(), show=show)


def test_whole_lines_with_their_label_and_nothing_lost(place: ScriptCheckout) -> None:
    place.script(
        """
        for part in ("one ", "line", "\\n", "two\\nthree\\n", "last"):
            sys.stdout.write(part); sys.stdout.flush()
        """
    )
    place.run(label="x")
    assert "".join(place.shown) == "x | one line\nx | two\nx | three\nx | last\n"
    assert place.log == "one line\ntwo\nthree\nlast\n"


def test_a_progress_bar_is_shown_alone_and_left_out_of_log_and_labelled_lines(place: ScriptCheckout) -> None:
    place.script("sys.stderr.write('10%\\r'); sys.stderr.write('100%\\n'); sys.stdout.write('dos\\r\\n')")
    place.run()
    assert "".join(place.shown) == "10%\r100%\ndos\r\n"
    assert place.log == "100%\ndos\n"
    place.shown.clear()
    place.run(label="x")
    assert "".join(place.shown) == "x | 100%\nx | dos\n"


def test_output_that_is_no_utf8_and_a_line_without_end(place: ScriptCheckout) -> None:
    place.script("os.write(1, b'\\xff\\xfe' + b'a' * 3000000)")
    place.run()
    assert place.log == "\ufffd\ufffd" + "a" * 3000000 + "\n"


def test_secrets_appear_nowhere(place: ScriptCheckout) -> None:
    secret = "hf_abcdefghijklmnop"
    key = "-----BEGIN KEY-----\nAAAABBBBCCCC\n-----END KEY-----"
    place.script(
        """
        token = os.environ["HF_TOKEN"]
        print("whole", token)
        sys.stdout.write("split " + token[:5]); sys.stdout.flush()
        sys.stdout.write(token[5:] + "\\n")
        print(os.environ["DEPLOY_KEY"])
        sys.stdout.write("x" * 1100000 + token + "y" * 1100000 + "\\n")
        sys.stdout.write("partial " + token); sys.stdout.flush()
        raise ValueError("bad token " + token)
        """
    )
    with pytest.raises(PreparationFailedError) as caught:
        place.run(environment={**os.environ, "HF_TOKEN": secret, "DEPLOY_KEY": key})
    for text in ("".join(place.shown), place.log, caught.value.reason, str(caught.value)):
        assert secret not in text
        assert "AAAABBBBCCCC" not in text
        assert "***" in text
    assert "split ***\n" in place.log
    assert "ValueError: bad token ***" in caught.value.reason


def test_the_log_begins_anew_with_each_preparation_and_takes_the_verdict_too(place: ScriptCheckout) -> None:
    place.script("print('prepared')")
    with (place.root / SCRIPT).open("a") as file:
        file.write("\ndef is_prepared_data_current(path):\n    print('judged')\n    return True\n")
    place.run()
    place.run()
    place.run(action="is_prepared_data_current")
    assert place.log == "prepared\njudged\n"


# --- how it ends


def test_a_child_in_the_background_does_not_hang_the_run_and_ends(place: ScriptCheckout) -> None:
    place.script(
        """
        child = subprocess.Popen(["sh", "-c", "echo $$ > pid; exec sleep 600"])
        while not os.path.exists("pid"):
            pass
        """
    )
    place.run()
    pid = pid_in(place.root / "pid")
    assert eventually(lambda: not is_running(pid))


STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, lambda *_: open("asked", "w").write("yes"))
child = subprocess.Popen(["sh", "-c", "echo $$ > pid; exec sleep 600"])
open("started", "w").write(str(os.getpid()) + "\\n")
print("started")
while True:
    time.sleep(0.05)
"""


def test_a_run_over_its_time_is_asked_to_end_and_then_made_to(
    place: ScriptCheckout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gymbuild.system.processes.GRACE", 0.5)
    place.script(STUBBORN)
    with pytest.raises(PreparationFailedError, match=r"longer than 1.5 s .*prepare_timeout") as caught:
        place.run(timeout=1.5)
    assert caught.value.stop_exit_code == 76
    assert (place.root / "asked").read_text() == "yes"
    assert not is_running(pid_in(place.root / "started"))
    assert not is_running(pid_in(place.root / "pid"))
    assert place.leftovers == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_kill_from_outside_may_pass(place: ScriptCheckout, number: int) -> None:
    place.script(f"os.kill(os.getpid(), {int(number)}); import time; time.sleep(60)")
    with pytest.raises(
        PreparationMayPassError, match=r"something outside of gymbuild killed it \(SIG(KILL|TERM)\)"
    ):
        place.run()


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit])
def test_an_interruption_ends_the_group_before_it_goes_on(
    place: ScriptCheckout, interruption: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gymbuild.system.processes.GRACE", 0.3)
    place.script(STUBBORN)

    def show(text: str) -> None:
        if "started" in text:
            pid_in(place.root / "pid")
            raise interruption

    with pytest.raises(interruption):
        run_isolated(place.isolated(), show=show)
    assert not is_running(pid_in(place.root / "started"))
    assert not is_running(pid_in(place.root / "pid"))
    assert place.leftovers == []


RUN_IN_A_PROCESS = """
import sys
from gymbuild.system.paths import Checkout
from gymbuild.preparation.isolated_run import IsolatedRun, run_isolated
run_isolated(IsolatedRun(
    python=sys.argv[2], checkout=Checkout(sys.argv[1]), script="benchmarks/x/prepare.py",
    module="benchmarks.x.prepare", action="prepare", args={}, expected="benchmarks/x/data/x.jsonl"))
"""


def test_the_script_and_its_children_end_when_gymbuild_is_killed(place: ScriptCheckout, python: str) -> None:
    place.script(STUBBORN)
    root = Path(__file__).parents[2]
    gymbuild = subprocess.Popen(
        [sys.executable, "-c", RUN_IN_A_PROCESS, str(place.root), python],
        stdout=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    script, child = pid_in(place.root / "started"), pid_in(place.root / "pid")
    assert is_running(script)
    assert is_running(child)
    gymbuild.kill()
    gymbuild.wait()
    assert eventually(lambda: not is_running(script) and not is_running(child))
    assert eventually(lambda: place.leftovers == [])


def _work_for_main(place: ScriptCheckout) -> None:
    place.run()


def _main_that_is_killed(place: ScriptCheckout) -> None:
    worker = multiprocessing.get_context("fork").Process(target=_work_for_main, args=(place,))
    worker.start()
    (place.root / "worker").write_text(f"{worker.pid}\n")
    worker.join()


def test_a_workers_script_ends_when_the_main_process_is_killed(place: ScriptCheckout) -> None:
    place.script(STUBBORN.replace("signal.signal(", "("))
    main = multiprocessing.get_context("fork").Process(target=_main_that_is_killed, args=(place,))
    main.start()
    worker, script = pid_in(place.root / "worker"), pid_in(place.root / "started")
    os.kill(main.pid or 0, signal.SIGKILL)
    main.join()
    assert eventually(lambda: not is_running(script) and not is_running(worker))


def test_a_process_forked_meanwhile_does_not_keep_the_script_alive(place: ScriptCheckout) -> None:
    """The lifeline breaks with its owner, though a fork of the owner lives on."""
    place.script(STUBBORN.replace("signal.signal(", "("))
    code = RUN_IN_A_PROCESS.replace("run_isolated(IsolatedRun", "run = (IsolatedRun") + (
        "import os, threading, time\n"
        "thread = threading.Thread(target=run_isolated, args=(run,))\n"
        "thread.start()\n"
        "while not os.path.exists(sys.argv[1] + '/pid'): time.sleep(0.01)\n"
        "pid = os.fork()\n"
        "if pid: open(sys.argv[1] + '/fork', 'w').write(str(pid) + '\\n')\n"
        "time.sleep(60)\n"
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", code, str(place.root), sys.executable],
        stdout=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    script, fork = pid_in(place.root / "started"), pid_in(place.root / "fork")
    owner.kill()
    owner.wait()
    try:
        assert eventually(lambda: not is_running(script))
        assert is_running(fork)
    finally:
        os.kill(fork, signal.SIGKILL)


def test_a_python_that_cannot_be_started_is_a_failure(place: ScriptCheckout) -> None:
    place.script("pass")
    with pytest.raises(PreparationFailedError, match="cannot start /not/there/python: No such file"):
        place.run(python="/not/there/python")
    assert place.leftovers == []


def test_a_cache_that_cannot_be_written_is_a_failure(place: ScriptCheckout) -> None:
    place.script("Path('ran').write_text('')")
    (place.root / ".cache").write_text("a file where the folder should be")
    with pytest.raises(PreparationFailedError, match=r"cannot write .*\.cache.*nothing was run"):
        place.run()
    assert not (place.root / "ran").exists()


def test_descriptors_are_given_back(place: ScriptCheckout) -> None:
    folder = "/dev/fd" if sys.platform == "darwin" else "/proc/self/fd"
    place.script("pass")
    place.run(label="x")
    before = len(os.listdir(folder))
    for _ in range(3):
        place.run(label="x")
    assert len(os.listdir(folder)) == before
    assert threading.active_count() == 1


# --- its environment


def test_gymbuilds_own_environment_does_not_leak_into_the_script(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "env"], check=True)
    python = str(tmp_path / "env/bin/python")
    ours = os.path.dirname(sys.executable)
    user = {
        "PATH": os.pathsep.join([ours, "/venv/of/user/bin", "/usr/bin", "/bin"]),
        "VIRTUAL_ENV": "/venv/of/user",
        "PYTHONHOME": "/somewhere",
        "PYTHONPATH": "/somewhere",
        "__PYVENV_LAUNCHER__": "/somewhere",
        "UV_PROJECT_ENVIRONMENT": "/somewhere",
        "UV_PYTHON": "3.9",
        "UV_DEFAULT_INDEX": "kept",
        "HF_TOKEN": "kept",
        "LANG": "C",
    }
    made = script_environment(python, "/checkout", environment=user)
    search = made.pop("PATH").split(os.pathsep)
    assert search[0] == str(tmp_path / "env/bin")
    assert "/venv/of/user/bin" not in search
    assert search[-2:] == ["/usr/bin", "/bin"]
    if sys.prefix != sys.base_prefix:
        assert ours not in search
    assert made == {
        "VIRTUAL_ENV": str(tmp_path / "env"),
        "UV_DEFAULT_INDEX": "kept",
        "HF_TOKEN": "kept",
        "LANG": "C",
        "PWD": "/checkout",
        "PYTHONUNBUFFERED": "1",
        "PYTHONUTF8": "1",
    }


def test_offline_is_told_to_the_tools_that_a_script_may_use(place: ScriptCheckout) -> None:
    place.script(
        "print([os.environ.get(n) for n in ('HF_HUB_OFFLINE', 'HF_DATASETS_OFFLINE', 'UV_OFFLINE', 'PIP_NO_INDEX')])"
    )
    place.run(offline=True)
    assert place.log == "['1', '1', '1', '1']\n"


def test_what_a_script_reads_does_not_depend_on_the_locale(place: ScriptCheckout, python: str) -> None:
    place.write("shared/a.txt", "é")
    place.script("print(open('shared/a.txt').read())")
    place.run(python=python, environment={**os.environ, "LC_ALL": "C", "LANG": "C"})
    assert (place.root / ".cache/logs/x.log").read_text(encoding="utf-8") == "é\n"


def test_the_repository_of_a_git_hook_reaches_no_script(place: ScriptCheckout, tmp_path: Path) -> None:
    place.script("print(sorted(name for name in os.environ if name.startswith('GIT_')))")
    names = [
        "GIT_DIR",
        "GIT_INDEX_FILE",
        "GIT_WORK_TREE",
        "GIT_PREFIX",
        "GIT_OBJECT_DIRECTORY",
        "GIT_COMMON_DIR",
    ]
    names += ["GIT_NAMESPACE", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_QUARANTINE_PATH"]
    settings = {"GIT_SSH_COMMAND": "ssh", "GIT_CONFIG_COUNT": "0"}
    place.run(environment={**os.environ, **dict.fromkeys(names, str(tmp_path)), **settings})
    found = set(ast.literal_eval(place.log))
    assert found >= set(settings)
    assert not found & set(names)


def test_every_variable_that_git_itself_calls_local_is_left_out() -> None:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    done = subprocess.run(
        ["git", "rev-parse", "--local-env-vars"], capture_output=True, text=True, check=True
    )
    assert set(done.stdout.split()) - REPOSITORY_VARIABLES <= {"GIT_CONFIG_COUNT", "GIT_CONFIG_PARAMETERS"}


# --- what it leaves


def runs(place: ScriptCheckout) -> list[str]:
    return os.listdir(place.root / ".cache/runs")


def test_a_run_leaves_nothing(place: ScriptCheckout) -> None:
    place.script("pass")
    place.run(label="x")
    assert runs(place) == []
    place.script("raise ValueError")
    with pytest.raises(PreparationFailedError):
        place.run(label="x")
    assert runs(place) == []


def test_what_runs_of_dead_processes_have_left_goes_with_the_next(place: ScriptCheckout) -> None:
    left = place.root / ".cache/runs/123-abandoned"
    (left / "hook").mkdir(parents=True)
    (left / "hook/sitecustomize.py").write_text("")
    (left.parent / ".output").write_text("")
    place.script("pass")
    place.run()
    assert runs(place) == []


def test_the_folder_of_a_run_that_is_on_stays(place: ScriptCheckout) -> None:
    place.script("while not os.path.exists('go'): pass")
    place.script("open('go', 'w').close()", "benchmarks/y/prepare.py")
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(place.run)
        assert eventually(lambda: bool(place.leftovers))
        place.run(script="benchmarks/y/prepare.py", log="")
        assert slow.result().returned == OUTPUT
    assert runs(place) == []
