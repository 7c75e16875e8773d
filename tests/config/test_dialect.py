"""Includes, merge, `env.yaml`, settings and directives."""

from __future__ import annotations

from pathlib import Path

import pytest

from gymbuild.system.errors import ConfigError
from tests.config.small_checkouts import Configs


class TestIncludes:
    def test_a_config_overrides_what_it_includes_however_deep(self, configs: Configs) -> None:
        config = configs.merged(
            {
                "top.yaml": "config_paths: [mid.yaml]\na: top\n",
                "mid.yaml": "config_paths: [low.yaml]\na: mid\nb: mid\n",
                "low.yaml": "a: low\nb: low\nc: low\n",
            },
            "top.yaml",
        )
        assert (config["a"], config["b"], config["c"]) == ("top", "mid", "low")

    def test_a_later_sibling_with_all_it_includes_overrides_an_earlier_one(self, configs: Configs) -> None:
        config = configs.merged(
            {
                "top.yaml": "config_paths: [one.yaml, two.yaml]\n",
                "one.yaml": "a: one\nb: one\n",
                "two.yaml": "config_paths: [under_two.yaml]\na: two\n",
                "under_two.yaml": "b: under two\n",
            },
            "top.yaml",
        )
        assert (config["a"], config["b"]) == ("two", "under two")

    def test_a_file_included_twice_counts_where_a_breadth_first_reading_meets_it_first(
        self, configs: Configs
    ) -> None:
        # `shared` is met at the top before `one` asks for it, so it merges last, after `one`
        config = configs.merged(
            {
                "top.yaml": "config_paths: [one.yaml, shared.yaml]\n",
                "one.yaml": "config_paths: [shared.yaml]\na: one\n",
                "shared.yaml": "a: shared\n",
            },
            "top.yaml",
        )
        assert config["a"] == "shared"

    def test_cycles_end(self, configs: Configs) -> None:
        files = {
            "a.yaml": "config_paths: [b.yaml]\nx: a\n",
            "b.yaml": "config_paths: [a.yaml, b.yaml]\nx: b\n",
        }
        assert configs.merged(files, "a.yaml")["x"] == "a"

    def test_a_missing_file_is_an_error_naming_the_entry_and_every_place(
        self, configs: Configs, tmp_path: Path
    ) -> None:
        configs.write("a.yaml", "config_paths: [nowhere.yaml]\n")
        with pytest.raises(ConfigError) as error:
            configs.resolve("a.yaml", search_dirs=[str(tmp_path / "more")])
        text = str(error.value)
        assert text.startswith("a.yaml: config_paths: there is no config 'nowhere.yaml'")
        assert str(tmp_path / "more" / "nowhere.yaml") in text
        assert str(configs.root / "nowhere.yaml") in text

    def test_config_paths_must_be_a_list_of_paths(self, configs: Configs) -> None:
        for found in ("text", "{a: 1}", "[1]", "3"):
            configs.write("a.yaml", f"config_paths: {found}\n")
            with pytest.raises(ConfigError, match="must be a list of config paths, found"):
                configs.resolve("a.yaml")

    def test_an_entry_may_be_an_interpolation(
        self, configs: Configs, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("WHICH", "b")
        configs.write("b.yaml", "x: 1\n")
        configs.write("a.yaml", "config_paths: ['${oc.env:WHICH}.yaml']\n")
        resolved = configs.resolve("a.yaml")
        assert resolved.config["x"] == 1
        assert "WHICH" in dict(resolved.witness[1])

    def test_old_names_of_configs_are_taken_where_only_the_new_one_is_there(self, configs: Configs) -> None:
        old, new = (
            "environments/reasoning_gym_hermes/config.yaml",
            "environments/hermes_reasoning_gym/config.yaml",
        )
        configs.write("a.yaml", f"config_paths: [{old}]\n")
        configs.write(new, "x: new\n")
        resolved = configs.resolve("a.yaml")
        assert resolved.config["x"] == "new"
        assert new in resolved.config_files
        configs.write(old, "x: old\n")
        assert configs.resolve("a.yaml").config["x"] == "old"

    def test_the_first_root_that_has_a_file_wins(self, configs: Configs, tmp_path: Path) -> None:
        configs.write("a.yaml", "config_paths: [b.yaml, c.yaml]\n")
        configs.write("b.yaml", "b: checkout\n")
        configs.write("c.yaml", "c: checkout\n")
        (tmp_path / "more").mkdir()
        (tmp_path / "more" / "b.yaml").write_text("b: more\n")
        config = configs.resolve("a.yaml", search_dirs=[str(tmp_path / "more")]).config
        assert (config["b"], config["c"]) == ("more", "checkout")

    def test_config_files_names_the_chain_itself_first(self, configs: Configs) -> None:
        configs.math()
        assert configs.catalog().benchmarks["add"].config_files == (
            "benchmarks/add/config.yaml",
            "servers/math.yaml",
        )


class TestMerge:
    def test_mappings_merge_lists_replace_and_unset_leaves_a_value(self, configs: Configs) -> None:
        config = configs.merged(
            {
                "a.yaml": "m: {x: 1, y: 2}\nl: [1, 2]\nkept: 5\nnull_wins: 5\n",
                "b.yaml": "m: {y: 3, z: 4}\nl: [9]\nkept: ???\nnull_wins: null\nnew: ???\n",
            }
        )
        assert config == {
            "m": {"x": 1, "y": 3, "z": 4},
            "l": [9],
            "kept": 5,
            "null_wins": None,
            "new": "???",
        }

    def test_a_mapping_and_a_list_do_not_merge(self, configs: Configs) -> None:
        configs.write("a.yaml", "k: {m: {x: 1}}\n")
        configs.write("b.yaml", "k: {m: [1]}\n")
        for order in (("a.yaml", "b.yaml"), ("b.yaml", "a.yaml")):
            with pytest.raises(ConfigError, match=rf"^{order[1]}: k\.m: it is a .* here and a .* overridden"):
                configs.resolve(*order)

    def test_an_interpolation_to_a_mapping_is_looked_behind(self, configs: Configs) -> None:
        config = configs.merged({"a.yaml": "base: {x: 1}\nk: '${base}'\n", "b.yaml": "k: {y: 2}\n"})
        assert config["k"] == {"x": 1, "y": 2}

    def test_an_interpolation_to_what_it_lies_in_is_not(self, configs: Configs) -> None:
        config = configs.merged({"a.yaml": "a: {a: '${a}', b: 1}\n", "b.yaml": "a: {a: '???', b: 2}\n"})
        assert config == {"a": {"a": "${a}", "b": 2}}

    def test_interpolations_that_lead_through_themselves_end(self, configs: Configs) -> None:
        config = configs.merged(
            {"a.yaml": "b: '${b.c}'\nd: '${e.x}'\ne: '${d.x}'\n", "b.yaml": "b: {c: 1}\nd: ???\n"}
        )
        assert config == {"b": {"c": 1}, "d": "${e.x}", "e": "${d.x}"}

    def test_env_yaml_overrides_the_configs_and_settings_override_all(self, configs: Configs) -> None:
        configs.write("a.yaml", "one: config\ntwo: config\nthree: config\n")
        configs.write("env.yaml", "two: env\nthree: env\nconfig_paths: [not_read.yaml]\n")
        config = configs.resolve("a.yaml", overrides={"three": "command line"}).config
        assert (config["one"], config["two"], config["three"]) == ("config", "env", "command line")

    def test_settings_reach_into_a_dataset_s_server(self, configs: Configs) -> None:
        configs.math()
        kind = {
            "simple_agent": {
                "datasets": [
                    {"name": "other", "type": "benchmark", "jsonl_fpath": "o.jsonl", "prepare_script": "o.py"}
                ]
            }
        }
        assert configs.dataset(overrides={"add_simple_agent": {"responses_api_agents": kind}}).name == "other"


class TestDirectives:
    def test_inherit_from_moves_and_merges_on_top(self, configs: Configs) -> None:
        config = configs.merged({"a.yaml": "s: {x: 1, y: 2}\nt: {_inherit_from: s, y: 3}\n"})
        assert config == {"t": {"x": 1, "y": 3}}

    def test_copy_leaves_the_source(self, configs: Configs) -> None:
        config = configs.merged({"a.yaml": "s: {x: 1}\nt: {_copy: s, y: 3}\nu: '${copy:s.x}'\n"})
        assert config == {"s": {"x": 1}, "t": {"x": 1, "y": 3}, "u": 1}

    def test_the_text_form_moves_a_value_of_any_kind(self, configs: Configs) -> None:
        config = configs.merged({"a.yaml": "s: {x: [1, 2], y: 1}\nt: '${inherit_from:s.x}'\n"})
        assert config == {"s": {"y": 1}, "t": [1, 2]}

    def test_several_may_inherit_one_source(self, configs: Configs) -> None:
        config = configs.merged({"a.yaml": "s: {x: 1}\nt: {_inherit_from: s}\nu: {_inherit_from: s, y: 2}\n"})
        assert config == {"t": {"x": 1}, "u": {"x": 1, "y": 2}}

    def test_delete_key_removes_from_the_mapping_before_and_else_from_what_is_inherited(
        self, configs: Configs
    ) -> None:
        config = configs.merged(
            {
                "a.yaml": """
                s: {x: 1, y: 2}
                t: {_inherit_from: s, _delete_key: "y, z", z: 3, w: 4}
                plain: {_delete_key: "a, nowhere", a: 1, b: 2}
                """
            }
        )
        assert config == {"t": {"x": 1, "w": 4}, "plain": {"b": 2}}

    def test_a_key_to_delete_that_is_nowhere_is_an_error_where_something_was_inherited(
        self, configs: Configs
    ) -> None:
        configs.write("a.yaml", "s: {x: 1}\nt: {_inherit_from: s, _delete_key: nowhere}\n")
        with pytest.raises(ConfigError, match=r"^a\.yaml: t: `_delete_key` names 'nowhere'"):
            configs.resolve("a.yaml")

    def test_a_deleted_key_of_an_overridden_config_lets_another_kind_in(self, configs: Configs) -> None:
        config = configs.merged(
            {"a.yaml": "m: {one: {x: 1}}\n", "b.yaml": "m: {_delete_key: one, two: {x: 2}}\n"}
        )
        assert config == {"m": {"two": {"x": 2}}}

    @pytest.mark.parametrize(
        "form", ["{_inherit_from: nobody.x}", "'${inherit_from:nobody}'", "{_copy: nobody}"]
    )
    def test_a_source_that_does_not_exist_is_an_error_naming_it(self, configs: Configs, form: str) -> None:
        configs.write("a.yaml", f"deep: {{t: {form}}}\n")
        with pytest.raises(ConfigError, match=r"^a\.yaml: deep\.t: .*'nobody"):
            configs.resolve("a.yaml")

    def test_a_source_that_is_unset_makes_the_target_unset(self, configs: Configs) -> None:
        config = configs.merged({"a.yaml": "s: ???\nt: {_copy: s, y: 1}\nu: {_copy: s.x}\n"})
        assert (config["t"], config["u"]) == ("???", "???")

    def test_mappings_in_lists_are_looked_into_but_are_no_targets(self, configs: Configs) -> None:
        config = configs.merged({"a.yaml": "s: {x: 1}\nl:\n- _copy: s\n  k: {_copy: s}\n"})
        assert config["l"] == [{"_copy": "s", "k": {"x": 1}}]

    def test_a_chain_is_not_followed_twice_and_leaves_a_warning(self, configs: Configs) -> None:
        configs.write("a.yaml", "c: {x: 1}\nb: {_inherit_from: c, y: 2}\na: {_inherit_from: b, z: 3}\n")
        resolved = configs.resolve("a.yaml")
        assert resolved.config == {"a": {"_inherit_from": "c", "y": 2, "z": 3}}
        assert resolved.warnings == (
            "a.yaml: a._inherit_from: a directive is left over: what it stands in was itself inherited or copied "
            "from, and a chain is not followed twice.",
        )

    def test_the_model_that_is_named_at_run_time_can_be_copied(self, configs: Configs) -> None:
        configs.write("a.yaml", "judge: {_copy: policy_model}\n")
        assert "judge" in configs.resolve("a.yaml").config
        assert "policy_model" not in configs.resolve("a.yaml").config

    def test_a_real_model_has_the_place_of_the_one_that_is_named_at_run_time(self, configs: Configs) -> None:
        kinds = "responses_api_models: {openai_model: {url: x}}"
        configs.write("a.yaml", f"policy_model: {{{kinds}}}\njudge: {{_copy: policy_model}}\n")
        config = configs.resolve("a.yaml").config
        model = {"responses_api_models": {"openai_model": {"entrypoint": "app.py", "url": "x"}}}
        assert config == {"policy_model": model, "judge": model}

    def test_the_model_that_is_named_at_run_time_stands_beside_nothing_else(self, configs: Configs) -> None:
        configs.write("a.yaml", "rs: {_inherit_from: policy_model, resources_servers: {s: {x: 1}}}\n")
        with pytest.raises(ConfigError, match=r"^a\.yaml: rs\.responses_api_models: it inherits the model"):
            configs.resolve("a.yaml")


def test_a_run_time_value_that_is_not_set_moves_with_its_server(
    configs: Configs, monkeypatch: pytest.MonkeyPatch
) -> None:
    # NeMo Gym moves it only while the variable is set, and else does not find the server that refers to it
    monkeypatch.delenv("GYMBUILD_NOT_SET", raising=False)
    server = "  resources_servers: {math: {entrypoint: app.py, domain: math%s}}\n"
    agent = (
        "first_agent:\n  responses_api_agents:\n    simple_agent:\n      entrypoint: app.py\n"
        "      resources_server: {type: resources_servers, name: first}\n"
    )
    config = configs.merged(
        {
            "first.yaml": "first:\n" + server % "" + agent,
            "second.yaml": "second:\n" + server % ", api_key: '${oc.env:GYMBUILD_NOT_SET}'",
            "top.yaml": "config_paths: [first.yaml, second.yaml]\nfirst: ${inherit_from:second}\n",
        },
        "top.yaml",
    )
    assert config["first"]["resources_servers"]["math"]["api_key"] == "${oc.env:GYMBUILD_NOT_SET}"
    assert "second" not in config
