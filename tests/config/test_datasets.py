"""What a config may say about a dataset, and how errors say what is allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml

from gymbuild.config.catalog import datasets_of_config
from gymbuild.system.errors import ConfigError
from tests.config.small_checkouts import SERVER, Configs

KEY = "add_simple_agent.responses_api_agents.simple_agent.datasets[0]"


def declare(configs: Configs, kind: str = "benchmark", top: str = "", **fields: Any) -> None:
    """Write the benchmark `add` with these dataset fields; None takes a field out."""
    configs.write("servers/math.yaml", SERVER)
    entry = {
        "name": "add",
        "type": kind,
        "jsonl_fpath": "benchmarks/add/data/add.jsonl",
        "prepare_script": "benchmarks/add/prepare.py",
        **fields,
    }
    entry = {key: value for key, value in entry.items() if value is not None}
    agent = {
        "_inherit_from": "math_simple_agent",
        "responses_api_agents": {"simple_agent": {"datasets": [entry]}},
    }
    data = {"config_paths": ["servers/math.yaml"], "add_simple_agent": agent}
    configs.write("benchmarks/add/config.yaml", top + yaml.safe_dump(data))


class TestFields:
    def test_every_field_arrives(self, configs: Configs) -> None:
        declare(
            configs,
            num_repeats=4,
            prepare_dependencies=["six", "-e", "pkg"],
            prompt_config="prompts/a.yaml",
            prepare_script_args={"n": 1, "deep": {"b": 2}},
            prepare_env=["TOKEN_FILE"],
            prepare_inputs=["data/*.csv"],
            prepare_outputs=["benchmarks/add/data/*.txt"],
            prepare_timeout=1.5,
            license="Apache 2.0",
            top="prepare_script_args: {n: 0, top: true, deep: {a: 1}}\n",
        )
        dataset = configs.dataset()
        assert dataset.args == {"n": 1, "top": True, "deep": {"a": 1, "b": 2}}
        assert dataset.num_repeats == 4
        assert dataset.prepare_dependencies == ("six", "-e", "pkg")
        assert dataset.prompt_config == "prompts/a.yaml"
        assert dataset.prepare_env == ("TOKEN_FILE",)
        assert dataset.prepare_inputs == ("data/*.csv",)
        assert dataset.prepare_outputs == ("benchmarks/add/data/*.txt",)
        assert dataset.prepare_timeout == 1.5
        assert dataset.license == "Apache 2.0"
        assert dataset.agent == "add_simple_agent"
        assert dataset.config_path == "benchmarks/add/config.yaml"

    def test_fields_that_are_not_known_are_left_alone(self, configs: Configs) -> None:
        declare(configs, somebody_s="field", another={"x": "???"}, third="${nowhere}")
        assert configs.dataset().name == "add"

    def test_a_dataset_survives_being_written_down(self, configs: Configs) -> None:
        configs.math()
        benchmark = configs.catalog().benchmarks["add"]
        assert type(benchmark).from_plain(benchmark.to_plain()) == benchmark

    @pytest.mark.parametrize(
        ("fields", "says"),
        [
            ({"name": None}, f"{KEY}.name: "),
            ({"name": 3}, "must be text, found 3"),
            ({"jsonl_fpath": None}, f"{KEY}.jsonl_fpath: "),
            ({"jsonl_fpath": ""}, "must be the path of a file"),
            ({"prepare_script": None}, f"{KEY}.prepare_script: "),
            ({"num_repeats": 0}, "must be 1 or more, found 0"),
            ({"num_repeats": "many"}, "must be a whole number, found the text 'many'"),
            ({"prepare_dependencies": "six"}, "must be a list, found the text 'six'"),
            ({"taskset": ""}, "must not be empty"),
            ({"prepare_env": ["A-B"]}, "names of environment variables, found 'A-B'"),
            ({"prepare_timeout": 0}, "a number of seconds above 0, found 0"),
            ({"prepare_timeout": "soon"}, "must be a number, found the text 'soon'"),
            ({"prepare_script_args": [1]}, "must be a mapping, found a list"),
            ({"prepare_script_args": {"x": b"1"}}, "JSON has a form for"),
            ({"prepare_script_args": {"x": float("nan")}}, "JSON has a form for"),
            ({"prepare_script_args": {"x": {1: 2}}}, "must have text as keys, found the key 1 in x"),
            ({"prepare_inputs": ["../x"]}, "is not a glob inside the checkout"),
            ({"name": "???"}, "it is unset"),
            (
                {"jsonl_fpath": "${nowhere}/x.jsonl"},
                "cannot be resolved: Interpolation key 'nowhere' not found",
            ),
        ],
    )
    def test_an_error_names_file_key_what_was_found_and_what_is_allowed(
        self, configs: Configs, fields: dict[str, Any], says: str
    ) -> None:
        declare(configs, **fields)
        text = configs.problem()
        assert text.startswith("benchmarks/add/config.yaml: add_simple_agent.")
        assert says in text

    def test_an_unknown_type_is_an_error_with_the_types_there_are(self, configs: Configs) -> None:
        declare(configs, "bench")
        with pytest.raises(ConfigError) as error:
            configs.resolve("benchmarks/add/config.yaml")
        assert str(error.value) == (
            f"benchmarks/add/config.yaml: {KEY}.type: this is almost a server: must be one of 'benchmark', 'train', "
            "'validation', 'example', found the text 'bench'."
        )

    @pytest.mark.parametrize("name", ["", "  ", "a\nb", "a\x7fb", "..", "a/../b", "/a", "a//b", "x" * 300])
    def test_names_that_make_no_task_or_file_are_refused(self, configs: Configs, name: str) -> None:
        declare(configs, name=name)
        assert f"{KEY}.name: " in configs.problem()

    @pytest.mark.parametrize("name", ["a/b", "a.b-c", "ä", "x" * 255, "a b"])
    def test_other_names_are_taken(self, configs: Configs, name: str) -> None:
        declare(configs, name=name)
        assert configs.dataset().name == name

    @pytest.mark.parametrize("kind", ["train", "validation"])
    def test_a_license_is_required_for_train_and_validation(self, configs: Configs, kind: str) -> None:
        declare(configs, kind)
        with pytest.raises(
            ConfigError, match=rf"\.license: .*a {kind} dataset must have one of 'Apache 2.0'"
        ):
            configs.resolve("benchmarks/add/config.yaml")
        declare(configs, kind, license="mine")
        with pytest.raises(ConfigError, match=r"\.license: .*must be one of .*found the text 'mine'"):
            configs.resolve("benchmarks/add/config.yaml")
        declare(configs, kind, license="MIT")
        assert configs.resolve("benchmarks/add/config.yaml").datasets[0].license == "MIT"

    def test_one_source_at_the_most_and_the_two_older_names_together(self, configs: Configs) -> None:
        gitlab = {"dataset_name": "a", "version": "1", "artifact_fpath": "a.jsonl"}
        hub = {"repo_id": "a/b"}
        declare(configs, "example", gitlab_identifier=gitlab, huggingface_identifier=hub)
        assert configs.resolve("benchmarks/add/config.yaml").datasets
        declare(configs, "example", source={"type": "huggingface", **hub}, gitlab_identifier=gitlab)
        with pytest.raises(ConfigError, match="cannot stand beside `gitlab_identifier`"):
            configs.resolve("benchmarks/add/config.yaml")
        declare(configs, "example", source={"type": "ftp"})
        with pytest.raises(ConfigError, match="must have the type 'gitlab' or 'huggingface'"):
            configs.resolve("benchmarks/add/config.yaml")


class TestArguments:
    def test_an_unset_top_level_argument_is_left_for_the_command_line(self, configs: Configs) -> None:
        declare(configs, top="prepare_script_args: {n: '???', m: 1}\n")
        assert configs.dataset().args == {"m": 1}

    def test_top_level_arguments_must_be_a_mapping(self, configs: Configs) -> None:
        declare(configs, top="prepare_script_args: [1]\n")
        assert "prepare_script_args: it must be a mapping of arguments, found a list" in configs.problem()


class TestUnsetValues:
    def test_elsewhere_they_are_fine(self, configs: Configs) -> None:
        configs.math()
        configs.write(
            "servers/math.yaml",
            configs.root.joinpath("servers/math.yaml").read_text()
            + "judge:\n  responses_api_models:\n    vllm: {entrypoint: app.py, key: '???', url: '${nowhere}', "
            "model: '${oc.env:GYMBUILD_NOT_SET}', deep: {x: '${a.b.c}'}}\n",
        )
        assert configs.dataset().name == "add"
        config = configs.resolve("benchmarks/add/config.yaml").config
        assert config["judge"]["responses_api_models"]["vllm"]["key"] == "???"


class TestInterpolation:
    def test_a_field_may_read_other_values_and_variables(
        self, configs: Configs, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("WHICH", "v2")
        monkeypatch.delenv("HOW_MANY", raising=False)
        declare(
            configs,
            name="${base}_${oc.env:WHICH}",
            num_repeats="${oc.env:HOW_MANY,3}",
            jsonl_fpath="benchmarks/${base}/out.jsonl",
            prepare_script_args={"list": "${values}", "n": "${values.0}"},
            top="base: add\nvalues: [1, 2]\n",
        )
        dataset = configs.dataset()
        assert dataset.name == "add_v2"
        assert dataset.num_repeats == 3
        assert dataset.jsonl_fpath == "benchmarks/add/out.jsonl"
        assert dataset.args == {"list": [1, 2], "n": 1}
        assert dataset.variables == ("HOW_MANY", "WHICH")
        assert {"HOW_MANY", "WHICH"} <= set(dict(configs.catalog().witness[1]))

    def test_a_variable_behind_another_value_is_seen_too(
        self, configs: Configs, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("WHICH", "v2")
        declare(configs, name="${base}", top="base: 'add_${oc.env:WHICH}'\n")
        assert configs.dataset().name == "add_v2"
        assert configs.dataset().variables == ("WHICH",)

    def test_the_value_of_a_variable_is_nowhere_in_the_witness(
        self, configs: Configs, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("WHICH", "very-special")
        declare(configs, prepare_script_args={"x": "${oc.env:WHICH}"})
        assert "very-special" not in repr(configs.catalog().witness)

    @pytest.mark.parametrize("loop", ["${name_a}", "${name_b}"])
    def test_loops_are_errors(self, configs: Configs, loop: str) -> None:
        declare(configs, name=loop, top="name_a: 'x${name_b}'\nname_b: 'y${name_a}'\n")
        assert f"{KEY}.name: found the text {loop!r}, which cannot be resolved" in configs.problem()

    def test_a_text_of_gigabytes_is_an_error(self, configs: Configs) -> None:
        top = "x0: aaaaaaaaaaaaaaaa\n" + "".join(
            f"x{n}: '${{x{n - 1}}}${{x{n - 1}}}'\n" for n in range(1, 40)
        )
        declare(configs, name="${x39}", top=top)
        assert "it comes to more than 50,000 values" in configs.problem()

    def test_omegaconf_is_left_as_it_was(self, configs: Configs, monkeypatch: pytest.MonkeyPatch) -> None:
        from omegaconf import OmegaConf
        from omegaconf.errors import OmegaConfBaseException

        monkeypatch.setenv("WHICH", "v2")
        declare(configs, name="${oc.env:WHICH}")
        configs.dataset()
        monkeypatch.setenv("WHICH", "v3")
        assert OmegaConf.create({"a": "${oc.env:WHICH}"}).a == "v3"
        with pytest.raises(OmegaConfBaseException):
            _ = OmegaConf.create({"a": "${oc.env:GYMBUILD_NOT_SET}"}).a


class TestPaths:
    @pytest.mark.parametrize("field", ["jsonl_fpath", "prepare_script", "prompt_config"])
    @pytest.mark.parametrize(
        ("path", "why"),
        [("/tmp/x.py", "is absolute"), ("../x.py", "is outside"), ("a/../../x.py", "is outside")],
    )
    def test_paths_outside_are_refused_unless_allowed(
        self, configs: Configs, field: str, path: str, why: str
    ) -> None:
        declare(configs, **{field: path})
        assert f"{KEY}.{field}: {path!r} {why}" in configs.problem()
        assert configs.dataset(allow_outside=True).name == "add"

    @pytest.mark.parametrize("field", ["jsonl_fpath", "prepare_script"])
    def test_a_symbolic_link_that_leads_outside_is_refused(
        self, configs: Configs, tmp_path: Path, field: str
    ) -> None:
        (tmp_path / "outside").mkdir()
        (tmp_path / "outside" / "file").write_text("x")
        (configs.root / "linked").symlink_to(tmp_path / "outside")
        (configs.root / "file").symlink_to(tmp_path / "outside" / "file")
        for path in ("linked/file", "linked/not/there", "file"):
            declare(configs, **{field: path})
            assert f"{KEY}.{field}: {path!r} leads outside the checkout" in configs.problem()
        assert configs.dataset(allow_outside=True).name == "add"

    def test_a_symbolic_link_within_the_checkout_is_fine(self, configs: Configs) -> None:
        (configs.root / "real").mkdir()
        (configs.root / "linked").symlink_to(configs.root / "real")
        declare(configs, jsonl_fpath="linked/x.jsonl")
        assert configs.dataset().jsonl_fpath == "linked/x.jsonl"

    def test_paths_are_written_one_way(self, configs: Configs) -> None:
        declare(configs, jsonl_fpath="./benchmarks//add/../add/x.jsonl")
        assert configs.dataset().jsonl_fpath == "benchmarks/add/x.jsonl"


class TestResolvedConfigs:
    """For callers that hold a config already."""

    CONFIG: ClassVar[dict[str, Any]] = {
        "a": {
            "responses_api_agents": {
                "simple_agent": {
                    "entrypoint": "app.py",
                    "datasets": [
                        {
                            "name": "d",
                            "type": "benchmark",
                            "jsonl_fpath": "d.jsonl",
                            "prepare_script": "d.py",
                        },
                        {"name": "e", "type": "example", "jsonl_fpath": "e.jsonl"},
                    ],
                }
            }
        },
        "prepare_script_args": {"n": 1},
    }

    def test_a_mapping_is_taken(self, configs: Configs) -> None:
        found = datasets_of_config(self.CONFIG, configs.checkout)
        assert [(dataset.name, dataset.agent, dataset.args) for dataset in found] == [
            ("d", "a", {"n": 1}),
            ("e", "a", {}),
        ]

    def test_omegaconf_s_config_is_taken(self, configs: Configs) -> None:
        from omegaconf import OmegaConf

        assert datasets_of_config(OmegaConf.create(self.CONFIG), configs.checkout) == datasets_of_config(
            self.CONFIG, configs.checkout
        )

    def test_a_dataset_that_does_not_fit_is_an_error(self, configs: Configs) -> None:
        config = {"a": {"responses_api_agents": {"s": {"datasets": [{"name": "d", "type": "benchmark"}]}}}}
        with pytest.raises(ConfigError, match=r"datasets\[0\]\.jsonl_fpath: it is required"):
            datasets_of_config(config, configs.checkout)

    def test_a_dataset_that_is_not_prepared_keeps_nothing_from_being_built(self, configs: Configs) -> None:
        declare(configs)
        configs.write(
            "more.yaml",
            "own: {resources_servers: {s: {domain: math, datasets: "
            "[{name: t, type: example, jsonl_fpath: '${oc.env:GYMBUILD_NOT_SET}'}]}}}\n",
        )
        resolved = configs.resolve("benchmarks/add/config.yaml", "more.yaml")
        assert [dataset.name for dataset in resolved.datasets] == ["add"]
        assert "a dataset that is not prepared is left out" in resolved.warnings[0]
