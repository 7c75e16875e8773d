"""The resolved config as YAML, and the checks of a requested split."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest
import yaml

from gymbuild.config.datasets import Dataset
from gymbuild.config.eval_config import eval_config, render, to_yaml
from gymbuild.config.splits import declared_split_check, prepared_split_check
from gymbuild.system.errors import ConfigError, UsageError
from tests.config.small_checkouts import BENCHMARK, Configs

MODEL = """
judge:
  responses_api_models:
    vllm:
      entrypoint: app.py
      model: ???
      base_url: ${base}/v1
      api_key: ${oc.env:JUDGE_KEY}
      other_key: ${oc.env:OTHER_KEY,none}
      unset: ${oc.env:GYMBUILD_NOT_SET}
      nowhere: ${nowhere.at.all}
      quoted: "1e3"
base: http://127.0.0.1
hidden: ${oc.env:NOT_NAMED_LIKE_ONE}
indirect: ${judge.responses_api_models.vllm.api_key}
"""


class TestEvalConfig:
    def build(self, configs: Configs) -> None:
        configs.math()
        configs.write("models/judge.yaml", MODEL)

    def test_it_is_the_resolved_config(self, configs: Configs, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("JUDGE_KEY", "hush-hush-1")
        monkeypatch.setenv("NOT_NAMED_LIKE_ONE", "prefix hush-hush-1")
        monkeypatch.delenv("OTHER_KEY", raising=False)
        self.build(configs)
        text = eval_config(configs.checkout, ["add", "models/judge.yaml"])
        found = yaml.safe_load(text)
        assert found["judge"]["responses_api_models"]["vllm"] == {
            "entrypoint": "app.py",
            "model": "???",
            "base_url": "http://127.0.0.1/v1",
            "api_key": "***",
            "other_key": "none",
            "unset": "${oc.env:GYMBUILD_NOT_SET}",
            "nowhere": "${nowhere.at.all}",
            "quoted": "1e3",
        }
        assert (found["hidden"], found["indirect"]) == ("prefix ***", "***")
        assert "hush-hush-1" not in text
        datasets = found["add_simple_agent"]["responses_api_agents"]["simple_agent"]["datasets"]
        assert [dataset["name"] for dataset in datasets] == ["add"]
        assert not {"policy_model", "config_paths", "math_simple_agent"} & set(found)

    def test_omegaconf_reads_back_what_it_says(
        self, configs: Configs, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import io

        from omegaconf import OmegaConf

        monkeypatch.delenv("JUDGE_KEY", raising=False)
        monkeypatch.delenv("NOT_NAMED_LIKE_ONE", raising=False)
        self.build(configs)
        config = render(configs.resolve("benchmarks/add/config.yaml", "models/judge.yaml").config)
        read = OmegaConf.to_container(OmegaConf.load(io.StringIO(to_yaml(config))), resolve=False)
        assert read == config

    def test_it_is_the_same_every_time(self, configs: Configs) -> None:
        self.build(configs)
        assert eval_config(configs.checkout, ["add"]) == eval_config(configs.checkout, ["add"])
        assert eval_config(configs.checkout, ["add"]) == eval_config(
            configs.checkout, ["benchmarks/add/config.yaml"]
        )

    def test_a_name_that_does_not_exist_is_an_error_with_the_nearest(self, configs: Configs) -> None:
        self.build(configs)
        with pytest.raises(UsageError, match="there is no benchmark 'addd'; did you mean add"):
            eval_config(configs.checkout, ["addd"])

    def test_a_benchmark_that_cannot_be_resolved_is_its_error(self, configs: Configs) -> None:
        self.build(configs)
        configs.write("benchmarks/lost.yaml", BENCHMARK.replace("servers/math", "servers/nowhere"))
        with pytest.raises(ConfigError, match=r"there is no config 'servers/nowhere.yaml'"):
            eval_config(configs.checkout, ["lost"])

    @pytest.mark.parametrize(
        "value",
        [
            "${oc.env:THE_KEY}",
            "${ oc.env : 'THE_KEY' }",
            "https://user:${oc.env:THE_KEY}@host/x",
            "${direct}",
            "before ${direct} after",
            "${.direct}",
            "${[direct]}",
            "${oc.select:direct}",
            "${oc.select:holder.list}",
            "${oc.dict.values:holder.map}",
            "${oc.env:${name}}",
            "${oc.decode:${oc.env:THE_KEY}}",
            "${oc.create:{k: ${oc.env:THE_KEY}}}",
            "${oc.env:GYMBUILD_NOT_SET,${oc.env:THE_KEY}}",
            "${oc.env:NOT_SET_EITHER_KEY,${direct}}",
        ],
    )
    @pytest.mark.parametrize("secret", ["7", "true", "math", "a: {long} one", "line one 1\nline two 2"])
    def test_what_reads_a_secret_is_masked_whatever_way(
        self, value: str, secret: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("THE_KEY", secret)
        monkeypatch.delenv("GYMBUILD_NOT_SET", raising=False)
        monkeypatch.delenv("NOT_SET_EITHER_KEY", raising=False)
        holder = {"map": {"a": "${oc.env:THE_KEY}"}, "list": ["x", "${oc.env:THE_KEY}"]}
        own = {"number": 7, "flag": True, "domain": "math", "text": "7 true math"}
        config = {
            "value": value,
            "direct": "${oc.env:THE_KEY}",
            "name": "THE_KEY",
            "holder": holder,
            "own": own,
        }
        found = render(config)
        assert secret not in json.dumps(found["value"], ensure_ascii=False)
        assert found["direct"] == "***"
        assert found["holder"] == {"map": {"a": "***"}, "list": ["x", "***"]}
        # a short or common value hides nothing that the config has of its own
        assert (found["own"], found["name"]) == (own, "THE_KEY")

    def test_a_default_is_no_secret(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("THE_KEY", raising=False)
        assert render({"a": "${oc.env:THE_KEY,none}"}) == {"a": "none"}
        monkeypatch.setenv("THE_KEY", "x")
        assert render({"a": "${oc.env:THE_KEY,none}"}) == {"a": "***"}

    def test_a_long_secret_is_masked_where_it_stands_in_any_form(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        secret = "s3cr&t/of some\nsecond line of it"
        monkeypatch.setenv("THE_TOKEN", secret)
        forms = {
            "text": f"a {secret} b",
            "list": [secret],
            secret: "key",
            "url": f"https://u:{quote(secret, safe='')}@host",
            "path": f"https://host/{quote(secret)}",
            "base64": base64.b64encode(secret.encode()).decode(),
            "line": "of it: second line of it",
            "bytes": secret.encode(),
        }
        assert render(forms) == {
            "text": "a *** b",
            "list": ["***"],
            "***": "key",
            "url": "https://u:***@host",
            "path": "https://host/***",
            "base64": "***" + "=" * base64.b64encode(secret.encode()).decode().count("="),
            "line": "of it: ***",
            "bytes": "***",
        }

    def test_interpolations_in_a_circle_are_left_as_they_are(self) -> None:
        config = {"a": "${b}", "b": "${a}", "c": {"d": "${c}"}, "l": ["${l}"]}
        assert render(config) == config


def dataset(name: str, kind: str) -> Dataset:
    return Dataset(name, kind, f"data/{name}.jsonl", None, "a.yaml", {})


class TestSplits:
    def test_a_declared_split_passes(self) -> None:
        declared_split_check([dataset("a", "train"), dataset("b", "benchmark")], "train")

    def test_another_one_lists_what_is_declared_and_examples_as_what_they_are(self) -> None:
        with pytest.raises(UsageError) as error:
            declared_split_check([dataset("a", "train"), dataset("e", "example")], "validation")
        assert str(error.value) == (
            "split 'validation': no dataset of this type is declared. Declared are:\n"
            "  a (train): data/a.jsonl\n"
            "  e (example): data/e.jsonl\n"
            "data/e.jsonl: a few rows that are committed to show the format, no split to run; give the file itself "
            "to the command that reads rows."
        )
        with pytest.raises(UsageError, match="Declared are:\n  none"):
            declared_split_check([], "train")

    def test_a_prepared_file_that_is_there_passes(self, tmp_path: Path) -> None:
        (tmp_path / "train.jsonl").write_text("{}\n")
        prepared_split_check(tmp_path / "train.jsonl", "train", tmp_path)

    def test_one_that_is_not_there_is_an_error_also_under_O(self, tmp_path: Path) -> None:
        (tmp_path / "validation.jsonl").write_text("{}\n")
        code = (
            "from gymbuild.config.splits import prepared_split_check\n"
            "from gymbuild.system.errors import UsageError\n"
            f"try: prepared_split_check({str(tmp_path / 'train.jsonl')!r}, 'train', {str(tmp_path)!r})\n"
            "except UsageError as error: print(error)"
        )
        done = subprocess.run([sys.executable, "-O", "-c", code], capture_output=True, text=True)
        assert done.stdout == (
            f"split 'train': preparing it left no file {tmp_path / 'train.jsonl'}. In {tmp_path} there is: "
            "validation.jsonl.\n"
        ), done.stderr
