"""Generated configs: each resolves or is a config error with file and key; never a traceback, never a hang.

`GYMBUILD_CONFIG_RUNS` sets how many are made (default 300).
"""

from __future__ import annotations

import os
import random
import resource
import sys
import time
from pathlib import Path
from typing import Any

import yaml

from gymbuild.config.catalog import load_catalog, resolve_configs
from gymbuild.config.eval_config import render, to_yaml
from gymbuild.system.errors import ConfigError
from gymbuild.system.paths import Checkout
from tests.config.generated_trees import Tree

RUNS = int(os.environ.get("GYMBUILD_CONFIG_RUNS", "300"))
MEASURED = "GYMBUILD_CONFIG_RUNS" in os.environ
"""A run on demand also holds each tree to a second of processor time, and the process to 500 MB."""
ODD: list[Any] = [
    None,
    "",
    "???",
    "${",
    "${}",
    "${a",
    "${oc.env:}",
    "${oc.env:HOME,${oc.env:X}}",
    "${..x}",
    "${a.b.c[0]}",
    "${oc.decode:'{'}",
    "${unknown_resolver:x}",
    "${inherit_from:}",
    "${copy:a..b}",
    "a\x85b",
    "\u2028",
    "x" * 3000,
    -1,
    0,
    10**30,
    float("inf"),
    float("nan"),
    True,
    b"bytes",
    [],
    {},
    [[]],
    [None],
    {"": {}},
    {1: 2},
    {True: "x"},
    {"_inherit_from": None},
    {"_inherit_from": ["a"]},
    {"_copy": 3},
    {"_copy": ""},
    {"_delete_key": []},
    {"_delete_key": ",,"},
    {"name": "???", "type": "resources_servers"},
    {"type": "benchmark"},
    {"type": {"type": "benchmark"}},
    ["config_paths"],
]
KEYS = [
    "config_paths",
    "prepare_script_args",
    "datasets",
    "_inherit_from",
    "_copy",
    "_delete_key",
    "type",
    "name",
    1,
]


def spoil(draw: random.Random, node: Any, share: float, depth: int = 0) -> Any:
    """Replace parts of plain data by odd values, and add odd keys."""
    if depth and draw.random() < share:
        return draw.choice(ODD)
    if isinstance(node, dict):
        spoiled = {key: spoil(draw, value, share, depth + 1) for key, value in node.items()}
        if draw.random() < share:
            spoiled[draw.choice(KEYS)] = draw.choice(ODD)
        return spoiled
    if isinstance(node, list):
        return [spoil(draw, value, share, depth + 1) for value in node]
    return node


def test_every_generated_config_resolves_or_is_a_config_error(tmp_path: Path) -> None:
    seen = {"resolved": 0, "refused": 0}
    for seed in range(RUNS):
        draw = random.Random(seed)
        tree = Tree(seed)
        tree.draw()
        share = draw.choice([0.001, 0.003, 0.03])
        root = tmp_path / str(seed)
        for name, data in tree.files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            text = yaml.safe_dump(spoil(draw, data, share), sort_keys=False)
            if draw.random() < 0.05:
                place = draw.randrange(len(text))
                text = (
                    text[:place]
                    + draw.choice(["\t", "\x00", "*", "&a", "[", "{", ": ", "- ", "\n"])
                    + text[place:]
                )
            path.write_text(text, encoding="utf-8")
        began = time.process_time()
        catalog = load_catalog(Checkout(root), use_index=False)
        for name, error in catalog.problems.items():
            assert type(error) is ConfigError, (seed, name)
            assert error.file, (seed, name, str(error))
        try:
            resolved = resolve_configs(Checkout(root), sorted(tree.files)[:3])
            yaml.safe_load(to_yaml(render(resolved.config)))
            seen["resolved"] += 1
        except ConfigError as error:
            assert error.file, (seed, str(error))
            seen["refused"] += 1
        assert not MEASURED or time.process_time() - began < 1.0, seed
    if MEASURED:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert peak * (1 if sys.platform == "darwin" else 1024) < 500 << 20
    assert seen["resolved"] > RUNS // 20
    assert seen["refused"] > RUNS // 20
