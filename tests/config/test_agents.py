"""Which agent runs a dataset, composition, and what is refused: fixed cases of the differential test."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from gymbuild.system.errors import ConfigError
from tests.config.small_checkouts import Configs

DATASET = {"name": "d", "type": "benchmark", "jsonl_fpath": "d/out.jsonl", "prepare_script": "d/prepare.py"}


def resources(**fields: Any) -> dict[str, Any]:
    return {"resources_servers": {"math": {"entrypoint": "app.py", "domain": "math", **fields}}}


def agent(name: str | None = "rs", kind: str = "simple_agent", **fields: Any) -> dict[str, Any]:
    inner: dict[str, Any] = {"entrypoint": "app.py", **fields}
    if name is not None:
        inner["resources_server"] = {"type": "resources_servers", "name": name}
    return {"responses_api_agents": {kind: inner}}


def environment(agent_name: str | None, server: str | None = None, **fields: Any) -> dict[str, Any]:
    inner: dict[str, Any] = {"entrypoint": "app.py", **fields}
    if agent_name is not None:
        inner["agent_server"] = {"type": "responses_api_agents", "name": agent_name}
    if server is not None:
        inner["resources_server"] = {"type": "resources_servers", "name": server}
    return {"environment_servers": {"single": inner}}


def agent_of(configs: Configs, **blocks: Any) -> str | None:
    """The agent of the benchmark that these top-level entries declare."""
    configs.write("benchmarks/b/config.yaml", yaml.safe_dump(blocks, sort_keys=False))
    catalog = configs.catalog()
    if "b" in catalog.problems:
        raise catalog.problems["b"]
    return catalog.benchmarks["b"].dataset.agent


class TestAgent:
    def test_the_declaring_agent_runs_it(self, configs: Configs) -> None:
        assert agent_of(configs, rs=resources(), a=agent(datasets=[DATASET]), b=agent()) == "a"

    def test_the_only_agent_of_the_declaring_server_runs_it(self, configs: Configs) -> None:
        assert agent_of(configs, rs=resources(datasets=[DATASET]), a=agent(), b=agent(None)) == "a"

    def test_agent_picks_among_several(self, configs: Configs) -> None:
        pinned = {**DATASET, "agent": "b"}
        assert agent_of(configs, rs=resources(datasets=[pinned]), a=agent(), b=agent()) == "b"

    def test_none_is_an_error(self, configs: Configs) -> None:
        with pytest.raises(ConfigError, match="no agent is bound to the resources server 'rs'"):
            agent_of(configs, rs=resources(datasets=[DATASET]), a=agent(None))

    def test_several_are_an_error_naming_them(self, configs: Configs) -> None:
        with pytest.raises(ConfigError, match="several agents are bound to the resources server 'rs': a, b"):
            agent_of(configs, rs=resources(datasets=[DATASET]), b=agent(), a=agent())

    def test_a_wrong_pick_is_an_error_naming_the_candidates(self, configs: Configs) -> None:
        pinned = {**DATASET, "agent": "c"}
        with pytest.raises(
            ConfigError, match=r"`agent` is 'c', which is not an agent bound to .*Bound to it: a, b"
        ):
            agent_of(configs, rs=resources(datasets=[pinned]), a=agent(), b=agent())
        with pytest.raises(ConfigError, match="but the agent 'a' declares the dataset and runs it"):
            agent_of(configs, rs=resources(), a=agent(datasets=[pinned]))

    def test_the_server_s_name_may_be_an_interpolation(self, configs: Configs) -> None:
        assert agent_of(configs, which="rs", rs=resources(datasets=[DATASET]), a=agent("${which}")) == "a"


class TestTaskset:
    ROUTED = {**DATASET, "taskset": "ts"}  # noqa: RUF012

    def test_the_declaring_agent_runs_it_when_the_server_fronts_it(self, configs: Configs) -> None:
        blocks = {"rs": resources(), "a": agent(datasets=[self.ROUTED]), "env": environment("a")}
        assert agent_of(configs, **blocks, environment_server_routes={"ts": "env"}) == "a"

    def test_the_server_s_agent_server_runs_a_resources_server_s_dataset(self, configs: Configs) -> None:
        user = {"type": "responses_api_agents", "name": "b"}
        blocks = {"rs": resources(datasets=[self.ROUTED]), "a": agent(), "b": agent()}
        blocks["env"] = environment("a", "rs", user_server=user)
        assert agent_of(configs, **blocks, environment_server_routes={"ts": "env"}) == "a"

    def test_no_agent_when_the_server_fronts_several_without_one_of_its_own(self, configs: Configs) -> None:
        refs = {name: {"type": "responses_api_agents", "name": name} for name in ("a", "b")}
        blocks = {"rs": resources(datasets=[self.ROUTED]), "a": agent(), "b": agent()}
        blocks["env"] = environment(None, "rs", one=refs["a"], two=refs["b"])
        assert agent_of(configs, **blocks, environment_server_routes={"ts": "env"}) is None

    def test_a_route_may_name_the_server_that_is_made_for_an_agent_without_one(
        self, configs: Configs
    ) -> None:
        blocks = {"rs": resources(), "x_simple_agent": agent(datasets=[self.ROUTED])}
        routes = {"ts": "x_environment_server"}
        assert agent_of(configs, **blocks, environment_server_routes=routes) == "x_simple_agent"

    @pytest.mark.parametrize(
        ("routes", "env", "says"),
        [
            (None, environment("a", "rs"), "`environment_server_routes` does not route"),
            ({"other": "env"}, environment("a", "rs"), "does not route \\(routed: other\\)"),
            ({"ts": "nowhere"}, environment("a", "rs"), "'nowhere', which is not an environment server"),
            ({"ts": "rs"}, environment("a", "rs"), "'rs', which is not an environment server"),
            ({"ts": "env"}, environment("a"), "whose `resources_server` is not the declaring server 'rs'"),
            (
                {"ts": "env"},
                environment("a", "rs2"),
                "whose `resources_server` is not the declaring server 'rs'",
            ),
            ({"ts": "env"}, environment(None, "rs"), "names no agent"),
        ],
    )
    def test_a_route_that_does_not_fit_is_an_error(
        self, configs: Configs, routes: dict[str, str] | None, env: dict[str, Any], says: str
    ) -> None:
        blocks = {"rs": resources(datasets=[self.ROUTED]), "rs2": resources(), "a": agent(), "env": env}
        with pytest.raises(ConfigError, match=says):
            agent_of(configs, **blocks, **({"environment_server_routes": routes} if routes else {}))

    def test_a_taskset_together_with_agent_is_an_error(self, configs: Configs) -> None:
        blocks = {"rs": resources(datasets=[{**self.ROUTED, "agent": "a"}]), "a": agent()}
        with pytest.raises(ConfigError, match="so `agent` \\('a'\\) cannot be set as well"):
            agent_of(configs, **blocks, env=environment("a", "rs"), environment_server_routes={"ts": "env"})

    def test_an_environment_server_follows_an_agent_that_moved(self, configs: Configs) -> None:
        blocks = {
            "rs": resources(),
            "a": agent(),
            "env": environment("a"),
            "mine": {
                "_inherit_from": "a",
                "responses_api_agents": {"simple_agent": {"datasets": [self.ROUTED]}},
            },
        }
        assert agent_of(configs, **blocks, environment_server_routes={"ts": "env"}) == "mine"

    def test_an_agent_that_moved_to_several_places_is_an_error(self, configs: Configs) -> None:
        blocks = {
            "rs": resources(),
            "a": agent(),
            "env": environment("a"),
            "mine": {"_inherit_from": "a", "responses_api_agents": {"simple_agent": {"datasets": [DATASET]}}},
            "other": {"_inherit_from": "a"},
        }
        with pytest.raises(
            ConfigError, match=r"agent_server\.name: it names the agent 'a', which moved to mine and other"
        ):
            agent_of(configs, **blocks)


class TestComposition:
    UNBOUND = agent("???", "hermes_agent")

    def test_an_unbound_agent_takes_the_place_of_the_others(self, configs: Configs) -> None:
        blocks = {"rs": resources(), "sums_simple_agent": agent(datasets=[DATASET]), "unbound": self.UNBOUND}
        assert agent_of(configs, **blocks) == "sums_hermes_agent"

    def test_so_does_it_for_a_server_s_dataset(self, configs: Configs) -> None:
        blocks = {"rs": resources(datasets=[DATASET]), "sums_agent": agent(), "unbound": self.UNBOUND}
        assert agent_of(configs, **blocks) == "sums_hermes_agent"

    def test_self_contained_agents_stay(self, configs: Configs) -> None:
        blocks = {
            "rs": resources(),
            "alone": agent(None, datasets=[DATASET]),
            "a": agent(),
            "unbound": self.UNBOUND,
        }
        assert agent_of(configs, **blocks) == "alone"

    @pytest.mark.parametrize(
        ("more", "says"),
        [
            (
                {"unbound2": agent("???")},
                "the agents unbound and unbound2 all leave their `resources_server` unset",
            ),
            ({"sums_hermes_agent": resources()}, "composing would give two instances one name"),
            ({"rs": resources(allowed_agents=["simple_agent"])}, "rs allows simple_agent"),
            ({"agent_name": "sums_simple_agent"}, "agent_name: it names the agent 'sums_simple_agent'"),
            ({"agent_map": {"x": "sums_simple_agent"}}, "agent_map.x: it names the agent"),
        ],
    )
    def test_what_composition_refuses(self, configs: Configs, more: dict[str, Any], says: str) -> None:
        blocks = {"rs": resources(), "sums_simple_agent": agent(datasets=[DATASET]), "unbound": self.UNBOUND}
        with pytest.raises(ConfigError, match=says):
            agent_of(configs, **{**blocks, **more})

    def test_nothing_to_take_the_place_of_is_an_error(self, configs: Configs) -> None:
        with pytest.raises(ConfigError, match="no other agent in the config is bound to one"):
            agent_of(configs, rs=resources(), unbound=agent("???", datasets=[DATASET]))

    def test_a_setting_for_the_composed_agent_reaches_it(self, configs: Configs) -> None:
        blocks = {"rs": resources(), "sums_simple_agent": agent(datasets=[DATASET]), "unbound": self.UNBOUND}
        configs.write("all.yaml", yaml.safe_dump(blocks))

        def overrides(**fields: Any) -> dict[str, Any]:
            return {"sums_hermes_agent": {"responses_api_agents": {"hermes_agent": fields}}}

        config = configs.resolve("all.yaml", overrides=overrides(entrypoint="other.py")).config
        assert config["sums_hermes_agent"]["responses_api_agents"]["hermes_agent"]["entrypoint"] == "other.py"
        with pytest.raises(ConfigError, match="the agent has no such field to override"):
            configs.resolve("all.yaml", overrides=overrides(nothing="x"))


class TestRefused:
    def refuse(self, configs: Configs, says: str, **blocks: Any) -> None:
        with pytest.raises(ConfigError, match=says):
            agent_of(configs, **{"rs": resources(), "a": agent(datasets=[DATASET]), **blocks})

    def test_references_to_servers_that_do_not_exist(self, configs: Configs) -> None:
        self.refuse(configs, "there is no resources_servers server 'r'; did you mean rs", a2=agent("r"))
        self.refuse(
            configs,
            "there is no responses_api_models server 'judge'; there are policy_model",
            judged=resources(judge={"type": "responses_api_models", "name": "judge"}),
        )
        self.refuse(
            configs,
            "it is unset",
            judged=resources(judge={"type": "responses_api_models", "name": "???"}),
        )

    @pytest.mark.parametrize(
        ("block", "says"),
        [
            (
                {"resources_servers": {"m": {"entrypoint": "app.py"}}},
                "domain must be one of .*, found nothing",
            ),
            (resources(domain="cooking"), "domain must be one of .*, found the text 'cooking'"),
            (resources(port="eight"), "port must be a whole number, found the text 'eight'"),
            (resources(host=1), "host must be text, found 1"),
            (resources(entrypoint=None), "entrypoint must be text, found null"),
            (resources(datasets={}), "datasets must be a list, found a mapping"),
            (
                {"resources_servers": {"m": {"entrypoint": "a", "domain": "math"}, "n": {"entrypoint": "a"}}},
                "it holds 2 servers; it must hold exactly one",
            ),
        ],
    )
    def test_blocks_that_are_almost_a_server(
        self, configs: Configs, block: dict[str, Any], says: str
    ) -> None:
        self.refuse(configs, f"this is almost a server: .*{says}", almost=block)
        # the config itself can say that it does not mind
        assert (
            agent_of(
                configs,
                rs=resources(),
                a=agent(datasets=[DATASET]),
                almost=block,
                error_on_almost_servers=False,
            )
            == "a"
        )

    def test_a_model_that_the_server_does_not_allow(self, configs: Configs) -> None:
        model = {"responses_api_models": {"vllm_model": {"entrypoint": "app.py"}}}
        bound = agent(model_server={"type": "responses_api_models", "name": "m"}, datasets=[DATASET])
        strict = resources(allowed_model_types=["openai_model"])
        self.refuse(
            configs,
            "its model server is of type 'vllm_model', but rs allows openai_model",
            rs=strict,
            a=bound,
            m=model,
        )
        assert agent_of(configs, rs=strict, a=bound, m=model, allow_unsupported_pairing=True) == "a"

    def test_agents_without_an_environment_server_where_the_config_asks_for_one(
        self, configs: Configs
    ) -> None:
        self.refuse(
            configs, "the agents a have no environment server", error_on_agent_without_environment_server=True
        )

    def test_a_block_of_several_groups_counts_as_the_one_that_says_most(self, configs: Configs) -> None:
        # it is an agent: its datasets say more than the other group's domain
        both = {**resources(), **agent("rs", datasets=[DATASET, {**DATASET, "name": "e", "type": "example"}])}
        both = {
            "responses_api_agents": both["responses_api_agents"],
            "resources_servers": both["resources_servers"],
        }
        assert agent_of(configs, rs=resources(), both=both, env=environment("both")) == "both"

    def test_fields_that_nobody_knows_say_nothing(self, configs: Configs) -> None:
        # it is a resources server: a domain says more than references that only its own code knows
        both = {**environment("a", "both"), **resources()}
        assert agent_of(configs, both=both, a=agent("both", datasets=[DATASET])) == "a"
