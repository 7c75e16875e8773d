"""Random checkouts for the differential test: tasksets, pins, composition, aliases, directives in odd places."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import yaml

MISSING = "???"
RESOURCES = ["rs0", "rs1", "rs2"]
AGENTS = ["rs0_simple_agent", "rs1_simple_agent", "rs1_agent", "alone_agent"]
TASKSETS = ["ts0", "ts1"]


class Tree:
    """One random tree, drawn from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.files: dict[str, dict[Any, Any]] = {}
        self.counter = 0
        self.agents: list[str] = []
        """Agent instances that are there, mostly."""
        self.environments: list[str] = []
        self.resources: list[str] = []
        # most trees hold few odd things, so that what follows an odd thing is seen as well as what refuses it
        self.wild = self.random.choice([0.05, 0.05, 0.3, 1.0])

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def odd(self, share: float) -> bool:
        """A chance that something unusual happens: lower in calm trees."""
        return self.chance(share * self.wild)

    def pick(self, items: list[Any]) -> Any:
        return self.random.choice(items)

    def write(self, folder: Path) -> None:
        self.draw()
        for name, data in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(yaml.safe_dump(data, sort_keys=False))
        listed = self.random.sample(sorted(self.files), k=min(len(self.files), self.pick([1, 2, 2, 3])))
        (folder / "together.json").write_text(json.dumps(listed))

    # ---- parts --------------------------------------------------------------------------------------------

    def dataset(self, kind: str = "benchmark") -> dict[str, Any]:
        self.counter += 1
        number = self.counter
        data: dict[str, Any] = {
            "name": f"d{number}",
            "type": kind,
            "jsonl_fpath": f"benchmarks/d{number}/data/out.jsonl",
        }
        if kind == "benchmark" or self.chance(0.5):
            data["prepare_script"] = f"benchmarks/d{number}/prepare.py"
        if kind in ("train", "validation") and self.chance(0.9):
            data["license"] = "MIT"
        if self.chance(0.3):
            data["num_repeats"] = self.pick(
                [1, 4, "8", 2.0, 0, True, None] if self.chance(0.2) else [1, 4, 16]
            )
        if self.chance(0.15):
            data["taskset"] = self.pick(["ts0", "ts1"] if not self.odd(0.3) else ["ts9", ""])
        if self.chance(0.12):
            data["agent"] = (
                self.pick(self.agents or AGENTS)
                if not self.odd(0.5)
                else self.pick(["rs0_hermes_agent", "nobody"])
            )
        if self.chance(0.2):
            data["prompt_config"] = self.pick(["prompts/a.yaml", None])
        if self.chance(0.1):
            data["prepare_dependencies"] = self.pick([[], ["six"], ["-e", "pkg"], None])
        if self.odd(0.04):
            data[self.pick(["num_repeats", "jsonl_fpath", "prepare_script", "name"])] = self.pick(
                [MISSING, "${defined}", "${nowhere}", "${oc.env:GYMBUILD_T,x}", "${oc.env:GYMBUILD_UNSET}"]
            )
        return data

    def datasets(self) -> list[dict[str, Any]]:
        kinds = self.pick(
            [["benchmark"]] * 5 + [["example", "benchmark"], ["train"], ["benchmark", "benchmark"]]
        )
        return [self.dataset(kind) for kind in kinds]

    def resources_block(self, *, with_datasets: float = 0.3) -> dict[str, Any]:
        server: dict[str, Any] = {"entrypoint": "app.py", "domain": self.pick(["math", "coding", "other"])}
        if self.chance(0.2):
            server["description"] = f"about {self.counter}"
        if self.odd(0.04):
            server["domain"] = self.pick([None, "cooking", MISSING])
        if self.odd(0.03):
            del server["entrypoint"]
        if self.odd(0.05):
            server["allowed_agents"] = self.pick([["simple_agent"], ["hermes_agent"], "simple_agent", []])
        if self.odd(0.04):
            server["allowed_model_types"] = self.pick([["vllm_model"], ["openai_model"]])
        if self.chance(0.1):
            server["api_key"] = self.pick(
                [MISSING, "${nowhere}", "${policy_api_key}", "${oc.env:GYMBUILD_UNSET}"]
            )
        if self.odd(0.04):
            server["judge"] = {
                "type": "responses_api_models",
                "name": self.pick(["policy_model", "judge", MISSING]),
            }
        if self.odd(0.03):
            server["port"] = self.pick([8000, "8000", "eight", MISSING, 1.5])
        if self.chance(with_datasets):
            server["datasets"] = self.datasets()
        return {"resources_servers": {self.pick(["math_server"] * 12 + ["code_server"]): server}}

    def agent_block(self, resources: str | None, *, with_datasets: float = 0.4) -> dict[str, Any]:
        server: dict[str, Any] = {"entrypoint": "app.py"}
        if resources is not None:
            name = MISSING if self.odd(0.04) else resources
            server["resources_server"] = {"type": "resources_servers", "name": name}
        if self.chance(0.7):
            server["model_server"] = {
                "type": "responses_api_models",
                "name": self.pick(["judge", MISSING]) if self.odd(0.1) else "policy_model",
            }
        if self.chance(0.1):
            server["description"] = "an agent"
        if self.chance(with_datasets):
            server["datasets"] = self.datasets()
        kind = "hermes_agent" if self.odd(0.2) else "simple_agent"
        return {"responses_api_agents": {kind: server}}

    def environment_block(self) -> dict[str, Any]:
        server: dict[str, Any] = {"entrypoint": "app.py"}
        if self.chance(0.9):
            server["agent_server"] = {"name": self.pick(self.agents or AGENTS)}
            if self.chance(0.8):
                server["agent_server"]["type"] = "responses_api_agents"
        if self.chance(0.15):
            server["user_server"] = {"type": "responses_api_agents", "name": self.pick(self.agents or AGENTS)}
        if self.chance(0.5):
            server["resources_server"] = {
                "type": "resources_servers",
                "name": self.pick(self.resources or RESOURCES),
            }
        return {"environment_servers": {self.pick(["legacy_agent", "single"]): server}}

    def directive(self, sources: list[str]) -> Any:
        source = self.pick(sources)
        if self.odd(0.15):
            group = self.pick(["resources_servers", "responses_api_agents"])
            source += f".{group}"
        form = self.random.random()
        if form < 0.12:
            return "${inherit_from:" + source + "}"
        if form < 0.2:
            return "${copy:" + source + "}"
        block: dict[str, Any] = {"_inherit_from" if form < 0.75 else "_copy": source}
        if self.odd(0.03):
            block["_copy"] = self.pick(sources)
        if self.odd(0.15):
            block["_delete_key"] = self.pick(["resources_servers", "nothing", "a, b", "responses_api_agents"])
        return block

    # ---- files --------------------------------------------------------------------------------------------

    def draw(self) -> None:
        shared = []
        for number, resources in enumerate(RESOURCES[: self.pick([1, 2, 2, 3])]):
            name = f"servers/{resources}/config.yaml"
            data: dict[Any, Any] = {resources: self.resources_block(with_datasets=0.15)}
            for agent in AGENTS:
                if agent.startswith(resources) and self.chance(0.75):
                    data[agent] = self.agent_block(resources, with_datasets=0.1)
            if self.chance(0.5):
                data[f"{resources}_environment_server"] = self.environment_block()
                if self.chance(0.7) and isinstance(data[f"{resources}_environment_server"], dict):
                    front = next(
                        iter(data[f"{resources}_environment_server"]["environment_servers"].values())
                    )
                    owner = [agent for agent in data if agent.startswith(resources) and "agent" in agent]
                    if owner:
                        front["agent_server"] = {"type": "responses_api_agents", "name": owner[0]}
                        front.pop("user_server", None)
                        front["resources_server"] = {"type": "resources_servers", "name": resources}
            if self.chance(0.15) and (number or self.odd(0.5)):
                data["config_paths"] = [f"servers/{RESOURCES[max(number - 1, 0)]}/config.yaml"]
            self.resources.append(resources)
            self.agents += [key for key in data if "agent" in key]
            self.environments += [key for key in data if "environment_server" in key]
            self.files[name] = data
            shared.append(name)
        if self.chance(0.12):
            self.files["agents/unbound.yaml"] = {
                "unbound": {
                    "responses_api_agents": {
                        "hermes_agent": {
                            "entrypoint": "app.py",
                            "resources_server": {"type": "resources_servers", "name": MISSING},
                            "model_server": {"type": "responses_api_models", "name": "policy_model"},
                        }
                    }
                }
            }
            shared.append("agents/unbound.yaml")
        if self.chance(0.2):
            self.files["models/judge.yaml"] = {
                "judge": {
                    "responses_api_models": {"vllm_model": {"entrypoint": "app.py", "base_url": MISSING}}
                },
                "judge_key": "${policy_api_key}",
            }
            shared.append("models/judge.yaml")
        if self.chance(0.1):
            self.files["environments/claude_code_reasoning_gym/config.yaml"] = {"rs0": self.resources_block()}
        for number in range(self.pick([1, 1, 2])):
            name = self.pick([f"benchmarks/b{number}/config.yaml", f"benchmarks/b{number}/other.yaml"])
            self.files[name] = self.benchmark_file(shared)
        self.mutate()

    def benchmark_file(self, shared: list[str]) -> dict[Any, Any]:
        data: dict[Any, Any] = {}
        paths = [path for path in shared if self.chance(0.9)]
        if self.chance(0.3):
            self.random.shuffle(paths)
        if "environments/claude_code_reasoning_gym/config.yaml" in self.files and self.chance(0.7):
            paths.append("environments/reasoning_gym_claude_code/config.yaml")  # its old name
        if self.odd(0.05):
            paths.append("nowhere.yaml")
        if self.odd(0.05) and paths:
            paths.append(paths[0])
        if paths:
            data["config_paths"] = paths
        if self.chance(0.3):
            data["defined"] = self.pick(["text", 4, {"x": 1}])
        sources = [key for path in paths for key in self.files.get(path, {}) if key != "config_paths"]
        if not sources or self.odd(0.1):
            sources = ["nobody", "rs0"]
        if self.chance(0.55) and self.isolate(data, paths):
            pass
        elif self.chance(0.5):
            new = self.pick(["bench_rs", "rs0"])
            servers = [key for key in sources if key in RESOURCES]
            block = self.directive(sources if self.odd(0.3) or not servers else servers)
            if isinstance(block, dict) and self.chance(0.6):
                block["resources_servers"] = {"math_server": {"datasets": self.datasets()}}
            data[new] = block
        if "bench_simple_agent" not in data and self.chance(0.4):
            new = self.pick(["bench_simple_agent", "bench_agent", "rs0_simple_agent"])
            block = self.directive([key for key in sources if key in self.agents] or sources)
            if isinstance(block, dict):
                inner: dict[str, Any] = {"datasets": self.datasets()}
                if self.chance(0.5):
                    inner["resources_server"] = {
                        "name": self.pick(["bench_rs"] if "bench_rs" in data else self.resources)
                    }
                block.setdefault("responses_api_agents", {})["simple_agent"] = inner
            data[new] = block
        if self.chance(0.3):
            data["own_agent"] = self.agent_block(self.pick([*self.resources, None]), with_datasets=0.3)
        if self.chance(0.25):
            data["own_rs"] = self.resources_block(with_datasets=0.6)
            if self.chance(0.7):
                data["own_rs_simple_agent"] = self.agent_block("own_rs", with_datasets=0.1)
        if self.chance(0.25):
            data["own_environment_server"] = self.environment_block()
        if "environment_server_routes" not in data and self.chance(0.35):
            names = [*self.environments, "rs0_environment_server", "own_rs_environment_server"]
            data["environment_server_routes"] = {taskset: self.pick(names) for taskset in TASKSETS}
        if self.chance(0.1):
            data["policy_model"] = {"responses_api_models": {"openai_model": {"entrypoint": "app.py"}}}
        if self.chance(0.05):
            data["copied_model"] = {"_copy": "policy_model"}
        if self.odd(0.05):
            data["agent_map"] = {"x": self.pick(AGENTS)}
        if self.odd(0.05):
            data["agent_name"] = self.pick(AGENTS)
        if self.odd(0.05):
            data["error_on_almost_servers"] = False
        if self.odd(0.03):
            data["error_on_agent_without_environment_server"] = True
        return data

    def isolate(self, data: dict[Any, Any], paths: list[str]) -> bool:
        """The usual way to write a benchmark: inherit a server, its agent and their environment server."""
        for path in paths:
            here = self.files.get(path, {})
            resources = [key for key in here if key in RESOURCES]
            agents = [key for key in here if key in self.agents]
            if not resources or not agents:
                continue
            agent = self.pick(agents)
            moved = self.chance(0.6)
            how = "_inherit_from" if self.chance(0.8) else "_copy"
            server = "bench_rs" if moved else resources[0]
            if moved:
                data["bench_rs"] = {how: resources[0]}
            inner: dict[str, Any] = {"resources_server": {"name": server}}
            name = "bench_simple_agent" if self.chance(0.8) else "bench_agent"
            data[name] = {how: agent, "responses_api_agents": {"simple_agent": inner}}
            if moved and how == "_inherit_from":
                for other in agents:
                    if other != agent and not self.odd(0.5):
                        data[f"bench_{other}"] = {
                            "_inherit_from": other,
                            "responses_api_agents": {"simple_agent": {"resources_server": {"name": server}}},
                        }
            owner = inner
            if self.chance(0.35) and moved:
                data["bench_rs"]["resources_servers"] = {"math_server": {}}
                owner = data["bench_rs"]["resources_servers"]["math_server"]
            owner["datasets"] = self.datasets()
            for other in [key for key in here if "environment_server" in key]:
                block = here[other]["environment_servers"]
                override = {
                    next(iter(block)): {
                        "agent_server": {"name": name},
                        "resources_server": {"type": "resources_servers", "name": server},
                    }
                }
                data[f"bench_{other}"] = {how: other, "environment_servers": override}
                if self.chance(0.7):
                    data["environment_server_routes"] = {
                        "ts0": f"bench_{other}",
                        "ts1": self.pick([f"bench_{other}", "bench_environment_server"]),
                    }
            return True
        return False

    def mutate(self) -> None:
        """Put something odd into a random place, now and then."""
        while self.odd(0.4):
            name = self.pick(sorted(self.files))
            places = list(_places(self.files[name]))
            if not places:
                return
            owner, key = self.pick(places)
            odd = self.random.random()
            if odd < 0.15:
                del owner[key]
            elif odd < 0.35:
                owner[key] = self.pick([MISSING, None, [], {}, "text", 3])
            elif odd < 0.55 and isinstance(owner, dict):
                owner[key] = self.directive(["rs0", "rs1", "rs0_simple_agent", "defined", "policy_model"])
            elif odd < 0.75 and isinstance(owner[key], dict):
                owner[key]["_delete_key"] = self.pick(["datasets", "entrypoint", "x, domain", "simple_agent"])
            elif isinstance(owner, dict):
                extra = self.directive(["rs0", "rs1", "rs0_simple_agent", "defined"])
                if isinstance(owner[key], list):
                    owner[key].append(extra)
                elif isinstance(owner[key], dict) and isinstance(extra, dict):
                    owner[key].update(extra)


def _places(node: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    items = list(node.items()) if isinstance(node, dict) else list(enumerate(node))
    for key, item in items:
        if key == "config_paths":
            continue
        found.append((node, key))
        if isinstance(item, dict | list):
            found += _places(item)
    return found
