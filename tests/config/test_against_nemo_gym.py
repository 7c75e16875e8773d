"""Generated trees, resolved by us and by an installed NeMo Gym: the same datasets, or both refuse.

Run on demand: `GYMBUILD_GYM_PYTHON` names a Python that has `nemo-gym` 0.7.0 (importing it takes long, so many
trees go to one process), `GYMBUILD_GYM_TREES` how many trees are made (default 2,000), `GYMBUILD_GYM_SEED` the seed
of the first one (default 0; the others have the numbers after it).

Two differences are meant, and counted apart: NeMo Gym's listing fills unset values with a placeholder even in a
dataset's own fields, where we refuse them; and it refuses some interpolations that lead nowhere although they are
run-time values, where we don't. The latter is not always what its error says: what it refuses and we don't is asked again with
the variable set that the trees leave unset.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from gymbuild.config.catalog import load_catalog, resolve_configs
from gymbuild.config.datasets import Benchmark, Dataset
from gymbuild.system.errors import ConfigError
from gymbuild.system.paths import Checkout
from tests.config.generated_trees import Tree

GYM_PYTHON = os.environ.get("GYMBUILD_GYM_PYTHON", "")
TREES = int(os.environ.get("GYMBUILD_GYM_TREES", "2000"))
SEED = int(os.environ.get("GYMBUILD_GYM_SEED", "0"))
BATCH = 250
REFUSED = "differs: NeMo Gym refuses: "
PLACEHOLDER = "__unset_for_listing__"


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.skipif(not GYM_PYTHON, reason="GYMBUILD_GYM_PYTHON names no Python that has nemo-gym")
def test_generated_trees_come_to_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GYMBUILD_T", "from-env")
    monkeypatch.delenv("GYMBUILD_UNSET", raising=False)
    monkeypatch.delenv("NEMO_GYM_EXTRA_ROOTS", raising=False)
    counts: Counter[str] = Counter()
    differences: list[str] = []
    for start in range(SEED, SEED + TREES, BATCH):
        trees = []
        for seed in range(start, min(start + BATCH, SEED + TREES)):
            folder = tmp_path / str(seed)
            folder.mkdir()
            Tree(seed).write(folder)
            trees.append(str(folder))
        for answer in gym_answers(trees):
            compare_tree(answer, counts, differences)
    refused = [found for found in differences if found.startswith(REFUSED)]
    if refused:
        monkeypatch.setenv("GYMBUILD_UNSET", "set")
        again: list[str] = []
        for tree in dict.fromkeys(found.removeprefix(REFUSED).split()[0] for found in refused):
            compare_tree(gym_answers([tree])[0], Counter(), again)
        # a difference begins with its verdict, the tree and the name
        same = {found.partition("\n")[0] for found in again}
        for found in refused:
            if found.partition("\n")[0] not in same:
                differences.remove(found)
                counts["a run-time interpolation, by another error"] += 1
    print(dict(counts))
    assert not differences, "\n\n".join(differences[:5])
    assert counts["equal"] > TREES // 5


def gym_answers(trees: list[str]) -> list[dict[str, Any]]:
    """What NeMo Gym makes of these trees."""
    done = subprocess.run(
        [GYM_PYTHON, str(Path(__file__).parent / "gym_reference.py")],
        input=json.dumps(trees),
        capture_output=True,
        text=True,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def compare_tree(answer: dict[str, Any], counts: Counter[str], differences: list[str]) -> None:
    checkout = Checkout(answer["tree"])
    catalog = load_catalog(checkout, use_index=False)
    ours: dict[str, Any] = {name: fields(found.dataset, found) for name, found in catalog.benchmarks.items()}
    ours.update(catalog.problems)
    theirs: dict[str, Any] = dict(answer["benchmarks"])
    try:
        paths = json.loads(Path(answer["tree"], "together.json").read_text())
        resolved = resolve_configs(checkout, paths)
        ours["together"] = [
            fields(dataset)
            for dataset in resolved.datasets
            if dataset.type == "benchmark" or dataset.prepare_script
        ]
    except ConfigError as error:
        ours["together"] = error
    theirs["together"] = answer["together"]
    assert set(ours) == set(theirs), answer["tree"]
    for name, own in ours.items():
        verdict = compare(own, theirs[name])
        counts[verdict] += 1
        if verdict.startswith("differs"):
            differences.append(f"{verdict}: {answer['tree']} {name}\n  gym: {theirs[name]}\n  ours: {own}")


def compare(own: Any, other: Any) -> str:
    refused = isinstance(other, dict) and "error" in other
    if isinstance(own, ConfigError):
        if refused:
            return "both refuse"
        return "an unset dataset field" if PLACEHOLDER in json.dumps(other) else "differs: we refuse"
    if refused:
        interpolation = "Interpolation" in other["error"] + other["text"]
        return "a run-time interpolation" if interpolation else "differs: NeMo Gym refuses"
    return "equal" if own == other else "differs"


def fields(dataset: Dataset, benchmark: Benchmark | None = None) -> dict[str, Any]:
    """A dataset in the words of gym_reference.py."""
    found: dict[str, Any] = {
        "dataset": dataset.name,
        "type": dataset.type,
        "agent": dataset.agent,
        "num_repeats": dataset.num_repeats,
        "jsonl_fpath": dataset.jsonl_fpath,
        "prepare_script": dataset.prepare_script,
        # NeMo Gym 0.7.0 knows it on benchmarks only
        "prompt_config": dataset.prompt_config if dataset.type == "benchmark" else None,
        "prepare_dependencies": list(dataset.prepare_dependencies),
        "taskset": dataset.taskset,
    }
    if benchmark is not None:
        found.update(domain=benchmark.domain, description=benchmark.description)
    return found
