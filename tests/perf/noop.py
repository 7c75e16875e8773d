"""What a start costs that finds nothing to do, against an empty dodo's `doit`: median of paired runs.

    python tests/perf/noop.py [--runs 20] [--benchmark human_eval]

Makes a checkout of this repository's HEAD and an environment with compiled bytecode in a temporary folder,
prepares the benchmark once, then runs in turn: `doit` with one current task, `doit prepare:NAME`,
`gymbuild prepare:NAME` and `gymbuild plan:NAME`. Quote the ratios: machines are noisy.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parents[2]


def main() -> None:
    """Measure, and print a line for each command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--benchmark", default="human_eval")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), arguments.runs, arguments.benchmark)


def measure(folder: Path, runs: int, benchmark: str) -> None:
    """Set up below `folder` and measure."""
    from uv import find_uv_bin

    uv = find_uv_bin()
    venv, checkout, empty = folder / "venv", folder / "checkout", folder / "empty"
    subprocess.run([uv, "venv", "-q", "--python", sys.executable, venv], check=True)
    python = venv / "bin" / "python"
    subprocess.run([uv, "pip", "install", "-q", "--python", python, "--compile-bytecode", HERE], check=True)
    subprocess.run(["git", "clone", "-q", HERE, checkout], check=True)
    shutil.rmtree(checkout / "gymbuild")  # the installed package is measured, not a source without bytecode
    empty.mkdir()
    (empty / "dodo.py").write_text("def task_x():\n    return {'actions': None, 'file_dep': ['dodo.py']}\n")

    doit, gymbuild = str(venv / "bin" / "doit"), str(venv / "bin" / "gymbuild")
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    commands = {
        "empty dodo: doit": ([doit], empty),
        f"doit prepare:{benchmark}": ([doit, f"prepare:{benchmark}"], checkout),
        f"gymbuild prepare:{benchmark}": ([gymbuild, f"prepare:{benchmark}"], checkout),
        f"gymbuild plan:{benchmark}": ([gymbuild, f"plan:{benchmark}"], checkout),
    }
    for command, cwd in commands.values():  # prepares, and settles what later starts compare
        subprocess.run(command, cwd=cwd, env=environment, check=True, stdout=subprocess.DEVNULL)
        said = subprocess.run(
            command, cwd=cwd, env=environment, check=True, capture_output=True, text=True
        ).stdout
        assert cwd == empty or "nothing to do" in said, said

    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(runs):
        for name, (command, cwd) in commands.items():
            start = time.perf_counter()
            subprocess.run(command, cwd=cwd, env=environment, check=True, stdout=subprocess.DEVNULL)
            times[name].append(time.perf_counter() - start)
    reference = times["empty dodo: doit"]
    for name, values in times.items():
        ratio = statistics.median(value / base for value, base in zip(values, reference, strict=True))
        print(f"{name:<34} {1000 * statistics.median(values):7.1f} ms   {ratio:5.2f} x")


if __name__ == "__main__":
    main()
