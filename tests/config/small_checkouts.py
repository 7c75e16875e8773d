"""Small checkouts of configs: nothing in them is ever prepared."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gymbuild.config.catalog import Catalog, Resolved, load_catalog, resolve_configs
from gymbuild.config.datasets import Dataset
from gymbuild.system.paths import Checkout

SERVER = """
math:
  resources_servers:
    math_server:
      entrypoint: app.py
      domain: math
      description: sums
math_simple_agent:
  responses_api_agents:
    simple_agent:
      entrypoint: app.py
      resources_server: {type: resources_servers, name: math}
      model_server: {type: responses_api_models, name: policy_model}
"""
"""What a benchmark inherits from: `servers/math.yaml`."""

BENCHMARK = """
config_paths: [servers/math.yaml]
add_simple_agent:
  _inherit_from: math_simple_agent
  responses_api_agents:
    simple_agent:
      datasets:
      - name: add
        type: benchmark
        jsonl_fpath: benchmarks/add/data/add.jsonl
        prepare_script: benchmarks/add/prepare.py
"""


class Configs:
    """A checkout under a temporary folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def checkout(self) -> Checkout:
        return Checkout(self.root)

    def write(self, name: str, text: str | bytes = "") -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(text, str):
            text = textwrap.dedent(text).encode()
        path.write_bytes(text)
        return path

    def math(self) -> Configs:
        """With a server to inherit from, and the benchmark `add`."""
        self.write("servers/math.yaml", SERVER)
        self.write("benchmarks/add/config.yaml", BENCHMARK)
        return self

    def catalog(self, **settings: Any) -> Catalog:
        return load_catalog(self.checkout, **{"use_index": False, **settings})

    def resolve(self, *paths: str, **settings: Any) -> Resolved:
        return resolve_configs(self.checkout, list(paths), **settings)

    def dataset(self, name: str = "add", **settings: Any) -> Dataset:
        return self.catalog(**settings).benchmarks[name].dataset

    def problem(self, name: str = "add", **settings: Any) -> str:
        catalog = self.catalog(**settings)
        assert name in catalog.problems, sorted(catalog.benchmarks)
        return str(catalog.problems[name])

    def merged(self, files: Mapping[str, str], *paths: str) -> dict[str, Any]:
        """The resolved config of files, all of which are asked for when none is named."""
        for name, text in files.items():
            self.write(name, text)
        return self.resolve(*(paths or list(files))).config
