"""Makes checkouts of many small benchmarks, for measuring."""

from __future__ import annotations

from pathlib import Path

SHARED = """\
shared_server:
  resources_servers:
    shared:
      entrypoint: app.py
      domain: math
      description: Checks a number
shared_agent:
  responses_api_agents:
    simple_agent:
      entrypoint: app.py
      resources_server:
        type: resources_servers
        name: shared_server
      model_server:
        type: responses_api_models
        name: policy_model
policy_model:
  responses_api_models:
    model:
      entrypoint: app.py
"""

CONFIG = """\
config_paths:
- resources_servers/shared.yaml
{name}_server:
  _inherit_from: shared_server
{name}_agent:
  _inherit_from: shared_agent
  responses_api_agents:
    simple_agent:
      resources_server:
        name: {name}_server
      datasets:
      - name: {name}
        type: benchmark
        jsonl_fpath: benchmarks/{name}/data/{name}.jsonl
        prepare_script: benchmarks/{name}/prepare.py
        prompt_config: benchmarks/prompt.yaml
"""

SCRIPT = '''\
"""Rows from nothing but this file."""

import json
from pathlib import Path

OUTPUT = Path(__file__).parent / "data" / "{name}.jsonl"


def prepare() -> Path:
    OUTPUT.parent.mkdir(exist_ok=True)
    rows = [{{"question": f"{{n}} + {{n}}?", "expected_answer": str(2 * n)}} for n in range(3)]
    OUTPUT.write_text("".join(json.dumps(row) + "\\n" for row in rows))
    return OUTPUT
'''

DODO = "from gymbuild.tasks import DOIT_CONFIG, task_plan, task_prepare, task_venv\n"


def write_benchmark(root: Path, name: str) -> None:
    """Add a benchmark whose script needs nothing."""
    folder = root / "benchmarks" / name
    (folder / "data").mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text(CONFIG.format(name=name))
    (folder / "prepare.py").write_text(SCRIPT.format(name=name))


def write_shared(root: Path, pyproject: str) -> None:
    """Write what every checkout has: its dodo.py and pyproject.toml, the shared config and prompt.

    Args:
        root: the checkout.
        pyproject: a pyproject.toml whose `[tool.doit]` tables register gymbuild's commands.
    """
    for folder in ("benchmarks", "resources_servers"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "resources_servers" / "shared.yaml").write_text(SHARED)
    (root / "benchmarks" / "prompt.yaml").write_text("user: '{question}'\n")
    (root / "dodo.py").write_text(DODO)
    (root / "pyproject.toml").write_text(pyproject[pyproject.index("[tool.doit]") :])


def write_checkout(root: Path, count: int, pyproject: str) -> None:
    """A checkout of `count` benchmarks, `b0000` and on."""
    write_shared(root, pyproject)
    for number in range(count):
        write_benchmark(root, f"b{number:04}")
