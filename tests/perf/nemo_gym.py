"""What gymbuild costs on NeMo Gym's own tree and on large ones, all sides measured in one run.

    python tests/perf/nemo_gym.py [--runs 15] [--gym-venv DIR] [--datasets 5000] [--folder DIR]

Sides: `doit` with one current task in an otherwise empty dodo (the unit of most ratios), the cold catalog against
`nemo_gym.benchmarks.discover_benchmarks()`, a warm `prepare:zz` (a small benchmark added to a copy of the tree)
in plain doit and in `gymbuild`, against `gym eval prepare --benchmark zz +use_cached_prepared_benchmarks=true`;
a warm `gymbuild plan` of a checkout where everything is current; and one stale dataset among many. Quote the
ratios: machines are noisy.

Only public tools are used: pip, uv, git and doit. NeMo Gym 0.7.0 runs in a Python 3.13 environment of its own,
which takes minutes to install and is kept between runs, as the tree and the prepared checkouts are; its sides are
left out, with a word, where there is no Python 3.13.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(HERE), str(Path(__file__).parent)]

import synthetic  # noqa: E402

from tests.config.test_oracle import cache_folder, released_tree  # noqa: E402

COLD = """
import shutil, sys, time
from gymbuild.config.catalog import load_catalog
from gymbuild.system.paths import Checkout
root = sys.argv[1]
shutil.rmtree(root + "/.cache/", ignore_errors=True)
start = time.perf_counter()
found = load_catalog(Checkout(root))
print(len(found.benchmarks), time.perf_counter() - start)
"""
DISCOVER = """
import os, sys, time
os.chdir(sys.argv[1])
from nemo_gym.benchmarks import discover_benchmarks
start = time.perf_counter()
found = discover_benchmarks()
print(len(found), time.perf_counter() - start)
"""
PLAIN = """
from pathlib import Path

CHECKOUT = Path("{checkout}")


def task_prepare():
    for script in sorted(CHECKOUT.glob("benchmarks/*/prepare.py")):
        name = script.parent.name
        yield {{
            "name": name,
            "file_dep": [str(script), str(script.with_name("config.yaml")), str(CHECKOUT / "benchmarks/prompt.yaml")],
            "targets": [str(script.parent / "data" / (name + ".jsonl"))],
            "actions": ["true"],
        }}
"""


def main() -> None:
    """Measure, and print a line for each bar."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=15, help="paired runs of each side (default 15)")
    parser.add_argument("--gym-venv", type=Path, help="a Python 3.13 environment that has nemo-gym 0.7.0")
    parser.add_argument("--datasets", type=int, default=5000, help="size of the large checkout; 0: none")
    parser.add_argument("--folder", type=Path, help="where things are kept between runs")
    arguments = parser.parse_args()
    folder = (arguments.folder or cache_folder() / "perf").resolve()
    folder.mkdir(parents=True, exist_ok=True)
    Sides(folder, arguments.runs).all(arguments.gym_venv, arguments.datasets)


class Sides:
    """Everything that is measured, below one folder.

    Args:
        folder: kept between runs.
        runs: of each side.
    """

    def __init__(self, folder: Path, runs: int) -> None:
        from uv import find_uv_bin

        self.folder, self.runs, self.uv = folder, runs, find_uv_bin()
        self.environment = {
            key: value
            for key, value in os.environ.items()
            if key not in ("PYTHONPATH", "VIRTUAL_ENV", "COLUMNS")
        }
        self.pyproject = (HERE / "pyproject.toml").read_text(encoding="utf-8")
        venv = folder / "venv"
        if not venv.is_dir():
            self._do(self.uv, "venv", "-q", "--python", sys.executable, venv)
        words = ("--compile-bytecode", "--reinstall-package", "gymbuild", HERE)
        self._do(self.uv, "pip", "install", "-q", "--python", venv / "bin" / "python", *words)
        self.bin = venv / "bin"
        self.empty = folder / "empty"
        self.empty.mkdir(exist_ok=True)
        (self.empty / "dodo.py").write_text(
            "def task_x():\n    return {'actions': None, 'file_dep': ['dodo.py']}\n"
        )

    def all(self, gym_venv: Path | None, datasets: int) -> None:
        """Measure every side and print the figures."""
        tree = self._tree()
        gym = gym_venv or self._gym_venv()
        self._cold(tree, gym)
        self._warm(tree, gym)
        self._plan()
        if datasets:
            self._all_current(datasets)
            self._one_stale(datasets)

    # -- sides -------------------------------------------------------------------------------------------------

    def _cold(self, tree: Path, gym: Path | None) -> None:
        ours = [self._own_seconds(self.bin / "python", COLD, tree) for _ in range(max(self.runs // 3, 3))]
        line = f"cold catalog: {statistics.median(ours):.2f} s"
        if gym is not None:
            theirs = [self._own_seconds(gym / "bin" / "python", DISCOVER, tree) for _ in range(2)]
            line += (
                f"; discover_benchmarks() {min(theirs):.2f} s: 1/{min(theirs) / statistics.median(ours):.0f}"
            )
        print(line + "   (bar: 1/15)", flush=True)

    def _warm(self, tree: Path, gym: Path | None) -> None:
        self._settle(tree, "prepare:zz")
        times = self._paired(
            {
                "empty": ([self.bin / "doit"], self.empty),
                "doit prepare:zz": ([self.bin / "doit", "prepare:zz"], tree),
                "gymbuild prepare:zz": ([self.bin / "gymbuild", "--root", tree, "prepare:zz"], self.empty),
            }
        )
        print(f"empty dodo's doit: {1000 * statistics.median(times['empty']):.0f} ms")
        self._ratio("doit prepare:zz", times, "1.0")
        self._ratio("gymbuild prepare:zz", times, "0.2")
        if gym is not None:
            command = [gym / "bin" / "gym", "eval", "prepare", "--benchmark", "zz"]
            command.append("+use_cached_prepared_benchmarks=true")
            # in a copy: it writes into the tree
            copy = self.folder / "gym-copy"
            if not copy.is_dir():
                shutil.copytree(tree, copy, ignore=shutil.ignore_patterns(".cache"))
            theirs = min(self._seconds(command, copy) for _ in range(3))
            ours = statistics.median(times["gymbuild prepare:zz"])
            print(
                f"gym eval prepare (cached): {theirs:.2f} s: {theirs / ours:.0f} x ours   (bar: 100)",
                flush=True,
            )

    def _plan(self) -> None:
        checkout = self._synthetic(184)
        self._settle(checkout, "plan")
        times = self._paired(
            {
                "empty": ([self.bin / "doit"], self.empty),
                "gymbuild plan (184 current)": (
                    [self.bin / "gymbuild", "--root", checkout, "plan"],
                    self.empty,
                ),
            }
        )
        self._ratio("gymbuild plan (184 current)", times, "0.5")

    def _all_current(self, count: int) -> None:
        """A no-op over many datasets against a dodo.py that has a plain task for each, as one would write it."""
        checkout = self._synthetic(count)
        self._settle(checkout, "prepare")
        plain = self.folder / f"plain-{count}"
        if not list(plain.glob(".doit.db*")):
            plain.mkdir(exist_ok=True)
            (plain / "dodo.py").write_text(PLAIN.format(checkout=checkout))
            self._seconds([self.bin / "doit"], plain)
        times = self._paired(
            {
                "empty": ([self.bin / "doit"], plain),
                f"gymbuild prepare ({count} current)": (
                    [self.bin / "gymbuild", "--root", checkout, "prepare"],
                    self.empty,
                ),
                f"doit prepare ({count} current)": ([self.bin / "doit", "prepare"], checkout),
            }
        )
        print(f"plain doit over {count}: {1000 * statistics.median(times['empty']):.0f} ms")
        self._ratio(f"gymbuild prepare ({count} current)", times, "0.25")
        self._ratio(f"doit prepare ({count} current)", times, "0.45")

    def _one_stale(self, count: int) -> None:
        """One stale dataset among many; its own work is that of the same edit in a checkout that has only it."""
        many, single = self._synthetic(count), self._synthetic(1)
        self._settle(many, "prepare")
        self._settle(single, "prepare")
        times: dict[str, list[float]] = {"empty": [], "many": [], "single": []}
        for number in range(self.runs):
            times["empty"].append(self._seconds([self.bin / "doit"], self.empty))
            for name, checkout in (("many", many), ("single", single)):
                with (checkout / "benchmarks/b0000/prepare.py").open("a") as script:
                    script.write(f"# {number} {time.time_ns()}\n")
                times[name].append(
                    self._seconds([self.bin / "gymbuild", "--root", checkout, "prepare"], self.empty)
                )
        rows = list(zip(times["many"], times["single"], times["empty"], strict=True))
        over_single = statistics.median((a - (b - c)) / c for a, b, c in rows)
        print(
            f"one stale in {count}: {1000 * statistics.median(times['many']):.0f} ms; alone "
            f"{1000 * statistics.median(times['single']):.0f} ms; beyond its own work (what it takes alone less an "
            f"empty dodo): {over_single:.2f} x   (bar: 2)",
            flush=True,
        )

    # -- what they need ----------------------------------------------------------------------------------------

    def _tree(self) -> Path:
        """A copy of NeMo Gym's tree with one benchmark more, a dodo.py and a pyproject.toml."""
        tree = self.folder / "tree"
        if not tree.is_dir():
            shutil.copytree(
                released_tree("0.7.0"), tree, ignore=shutil.ignore_patterns(".cache", "__pycache__")
            )
        synthetic.write_shared(tree, self.pyproject)
        config = tree / "benchmarks" / "zz" / "config.yaml"
        if not config.is_file():
            synthetic.write_benchmark(tree, "zz")
            # NeMo Gym asks for an environment server before each agent, as its own benchmarks have one
            config.write_text((tree / "benchmarks/aime24/config.yaml").read_text().replace("aime24", "zz"))
            script = tree / "benchmarks/zz/prepare.py"
            script.write_text(script.read_text().replace('"zz.jsonl"', '"zz_benchmark.jsonl"'))
        return tree

    def _synthetic(self, count: int) -> Path:
        root = self.folder / f"synthetic-{count}"
        if not (root / ".venv").is_dir():
            # of its own, so that installing gymbuild anew changes no environment of a script
            self._do(self.uv, "venv", "-q", "--python", sys.executable, root / ".venv")
            synthetic.write_checkout(root, count, self.pyproject)
        return root

    def _settle(self, checkout: Path, *words: str) -> None:
        """Build, and start once more: what later starts compare is written down then."""
        command = [self.bin / "gymbuild", "--root", checkout, *words]
        first = subprocess.run(
            [*command, "num_prepare_benchmark_processes=2"], env=self.environment, stdout=subprocess.DEVNULL
        )
        assert first.returncode == 0
        for _ in range(3):
            done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=True)
            said = done.stdout
        assert "nothing to do" in said, said

    def _gym_venv(self) -> Path | None:
        """NeMo Gym 0.7.0 in a Python 3.13 environment, installed once."""
        venv = self.folder / "gym-venv"
        if (venv / "bin" / "gym").is_file():
            return venv
        found = subprocess.run(
            [self.uv, "python", "find", "--no-python-downloads", "3.13"], capture_output=True, text=True
        )
        if found.returncode:
            print("NeMo Gym's sides are left out: there is no Python 3.13 here")
            return None
        print("installing NeMo Gym 0.7.0 (minutes, once) …", flush=True)
        shutil.rmtree(venv, ignore_errors=True)
        self._do(found.stdout.strip(), "-m", "venv", venv)
        words = ("-q", "--disable-pip-version-check", "--ignore-requires-python", "nemo-gym==0.7.0")
        self._do(venv / "bin" / "python", "-m", "pip", "install", *words)
        return venv

    # -- measuring ---------------------------------------------------------------------------------------------

    def _paired(self, commands: dict[str, tuple[list[object], Path]]) -> dict[str, list[float]]:
        times: dict[str, list[float]] = {name: [] for name in commands}
        for command, cwd in commands.values():
            self._seconds(command, cwd)
        for _ in range(self.runs):
            for name, (command, cwd) in commands.items():
                times[name].append(self._seconds(command, cwd))
        return times

    def _ratio(self, name: str, times: dict[str, list[float]], bar: str) -> None:
        ratio = statistics.median(
            value / base for value, base in zip(times[name], times["empty"], strict=True)
        )
        print(
            f"{name}: {1000 * statistics.median(times[name]):.0f} ms: {ratio:.2f} x   (bar: {bar})",
            flush=True,
        )

    def _seconds(self, command: list[object], cwd: Path) -> float:
        start = time.perf_counter()
        done = subprocess.run(list(map(str, command)), cwd=cwd, env=self.environment, capture_output=True)
        taken = time.perf_counter() - start
        assert done.returncode == 0, (command, done.stdout[-2000:], done.stderr[-2000:])
        return taken

    def _own_seconds(self, python: Path, program: str, tree: Path) -> float:
        done = subprocess.run(
            [python, "-c", program, tree],
            cwd=self.empty,
            env=self.environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        count, seconds = done.stdout.split()[-2:]
        assert int(count) >= 184, count
        return float(seconds)

    def _do(self, *command: object) -> None:
        subprocess.run(list(map(str, command)), check=True, env=self.environment)


if __name__ == "__main__":
    main()
