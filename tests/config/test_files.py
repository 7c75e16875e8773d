"""Malformed files: each is a config error that says where, at once and cheaply; scalars are OmegaConf's."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from gymbuild.config.dialect.limits import MAX_BYTES, MAX_VALUES, Budget
from gymbuild.config.dialect.merging import merge
from gymbuild.config.dialect.yaml_files import parse
from gymbuild.config.eval_config import eval_config
from gymbuild.system.errors import ConfigError
from tests.config.small_checkouts import BENCHMARK, SERVER, Configs

TOO_MUCH = "it comes to more than 50,000 values"
CORPUS: dict[str, tuple[str | bytes, str]] = {
    "tabs as indentation": ("a:\n\tb: 1\n", r":2: a tab is not allowed as indentation"),
    "duplicate keys": ("a: 1\nb: 2\na: 3\n", r":3: the key 'a' is given twice, on lines 1 and 3"),
    "duplicate keys deep inside": (
        "a:\n  b:\n    c: 1\n    c: 2\n",
        r":4: the key 'c' is given twice, on lines 3 and 4",
    ),
    "duplicate numbers as keys": ("a: {1: x, 1: y}\n", r":1: the key '1' is given twice"),
    "not UTF-8": (b"a: 1\nb: \xff\xfe\n", r":2: byte 0xff is not UTF-8"),
    "a control character": (b"a: 1\nb: x\x00y\n", r":2: a control character is not allowed"),
    "a list at the top": ("- a\n- b\n", r"a config is a mapping at its top, found a list"),
    "text at the top": ("just text\n", r"a config is a mapping at its top, found the text"),
    "two documents": ("a: 1\n---\nb: 2\n", r":2: it holds several documents"),
    "an unclosed bracket": ("a: [1, 2\nb: 3\n", r":\d: "),
    "an unknown alias": ("a: *nobody\n", r":1: found undefined alias"),
    "an alias to itself": ("a: &a [*a]\n", r"refers to what it is part of"),
    "a merge key to itself": ("a: &a\n  <<: *a\n", r":\d: "),
    "a key that is a list": ("? [1, 2]\n: x\n", r":1: "),
    "a key that is null": ("~: 1\n", r"a key is null; keys are text, numbers or booleans"),
    "a set": ("a: !!set {x, y}\n", r"a: found a set; a config holds"),
    "a date by its tag": ("a: !!timestamp 2024-01-01\n", r"a: found a date"),
    "a number of too many digits": (
        "a: " + "1" * 4_500 + "\n",
        r":1: a number cannot be read: Exceeds the limit",
    ),
    "a number of base sixty that takes seconds": (
        "a: 1" + ":59" * 100_000 + "\n",
        rf":1: {TOO_MUCH}",
    ),
    "a number that nothing could print": ("a: 0x" + "f" * 100_000 + "\n", rf":1: {TOO_MUCH}"),
    "numbers of equal hash as keys": (
        "".join(f"{number * (2**61 - 1)}: x\n" for number in range(9_000)),
        rf":\d+: {TOO_MUCH}",
    ),
    "a code-running tag": (
        "a: !!python/object/apply:os.system ['touch {mark}']\n",
        r":1: the tag .* never executed",
    ),
    "a tag of its own": ("a: !danger 1\n", r":1: the tag '!danger' is not allowed"),
    "a path tag": ("a: !!python/object/apply:pathlib.Path [x]\n", r":1: the tag .* never executed"),
    "deep flow nesting": (
        "a: " + "[" * 50_000 + "]" * 50_000 + "\n",
        r":1: it is nested too deeply",
    ),
    "deep block nesting": (
        "".join(" " * n + f"k{n}:\n" for n in range(1_200)),
        r"it is nested too deeply",
    ),
    "deep dashes": ("- " * 5_000 + "x\n", r"it is nested too deeply"),
    "many values": ("a: [" + "1," * 400_000 + "]\n", rf":1: {TOO_MUCH}"),
    "ten megabytes": ("# " + "x" * (10 << 20), r"a config may have at most"),
    "unset values in braces": ("a: {b: ???}\n", r":1: \?\?\? needs quotes inside braces"),
    "aliases that expand to gigabytes": (
        "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
        + "".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)),
        rf":\d+: {TOO_MUCH}",
    ),
    "merge keys that repeat a large mapping": (
        "base: &b {"
        + ",".join(f"k{n}: 1" for n in range(5_000))
        + "}\n"
        + "".join(f"m{n}: {{<<: *b}}\n" for n in range(1_500)),
        rf":\d+: {TOO_MUCH}",
    ),
    "merge keys of nothing within one another": (
        "a: "
        + "".join(f"{{<<: [&a{n} " for n in range(45))
        + "{}"
        + "".join(f", *a{n}]}}" for n in reversed(range(45)))
        + "\n",
        rf":1: {TOO_MUCH}",
    ),
}


class TestMalformedFiles:
    @pytest.mark.parametrize("name", list(CORPUS))
    def test_each_is_an_error_that_says_where_and_why(
        self, configs: Configs, name: str, tmp_path: Path
    ) -> None:
        text, says = CORPUS[name]
        mark = tmp_path / "mark"
        if isinstance(text, str):
            text = text.replace("{mark}", str(mark)).encode()
        configs.write("benchmarks/broken.yaml", text)
        configs.write("a.yaml", "config_paths: [benchmarks/broken.yaml]\n")
        # whatever it is, it is told of by the config that includes it, with its own file and line
        with pytest.raises(ConfigError, match=rf"(?s)^benchmarks/broken\.yaml.*{says}"):
            configs.resolve("a.yaml")
        assert not mark.exists()

    def test_all_together_take_little_memory(self, configs: Configs) -> None:
        for number, (text, _) in enumerate(CORPUS.values()):
            configs.write(f"broken/b{number}.yaml", text if isinstance(text, bytes) else text.encode())
            configs.write(
                f"benchmarks/c{number}.yaml",
                f"x: {{type: benchmark}}\nconfig_paths: [broken/b{number}.yaml]\n",
            )
        code = f"""
            import resource
            from gymbuild.config.catalog import load_catalog
            from gymbuild.system.paths import Checkout
            print(len(load_catalog(Checkout({str(configs.root)!r}), use_index=False).problems))
            print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        """
        # 20 s of processor time end the process
        limits = lambda: resource.setrlimit(resource.RLIMIT_CPU, (20, 20))  # noqa: E731
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)],
            capture_output=True,
            text=True,
            preexec_fn=limits,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )
        assert done.returncode == 0, done.stderr
        problems, peak = map(int, done.stdout.split())
        assert problems == len(CORPUS)
        assert peak / (1 if sys.platform == "darwin" else 1 / 1024) / (1 << 20) < 500

    def test_merge_keys_that_multiply_are_refused_or_cost_nothing(self) -> None:
        # releases of PyYAML differ: older ones would make gigabytes of this, newer ones drop what is there already
        text = "a0: &a0 {" + ", ".join(f"k{n}: 1" for n in range(10)) + "}\n"
        text += "".join(f"a{n}: &a{n} {{<<: [{','.join([f'*a{n - 1}'] * 10)}]}}\n" for n in range(1, 12))
        try:
            assert parse(text.encode(), Budget("x"))["a11"] == {f"k{n}": 1 for n in range(10)}
        except ConfigError as error:
            assert TOO_MUCH in str(error)

    @pytest.mark.parametrize("levels", [100, 300, 440])
    def test_lists_in_lists_by_aliases_are_resolved_or_an_error(self, configs: Configs, levels: int) -> None:
        deep = "".join(f"  a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, levels))
        configs.write("servers/math.yaml", SERVER)
        configs.write("benchmarks/add/config.yaml", f"{BENCHMARK}prepare_script_args:\n  a0: &a0 [x]\n{deep}")
        try:
            assert len(configs.resolve("benchmarks/add/config.yaml").datasets[0].args) == levels
            assert yaml.safe_load(eval_config(configs.checkout, ["add"]))["prepare_script_args"]
        except ConfigError as error:
            assert re.match(f"benchmarks/add/config.yaml:.* (it is nested too deeply|{TOO_MUCH})", str(error))
            assert levels > 100

    def test_a_long_text_is_not_many_values(self, configs: Configs) -> None:
        text = "".join(f"  line {n}, with commas, and: colons\n" for n in range(20_000))
        configs.write("a.yaml", "text: |\n" + text + f"like_a_number: {'x' * 10_000}\n")
        assert configs.resolve("a.yaml").config["text"].count("\n") == 20_000

    @pytest.mark.parametrize("directive", ["{_copy: big}", '"${copy:big}"'])
    def test_copies_of_a_large_mapping_are_refused_with_the_key(
        self, configs: Configs, directive: str
    ) -> None:
        big = "big: {" + ", ".join(f"k{n}: 1" for n in range(4_000)) + "}\n"
        configs.write("a.yaml", big + "".join(f"c{n}: {directive}\n" for n in range(2_000)))
        with pytest.raises(ConfigError, match=rf"^a\.yaml: c\d+: {TOO_MUCH}"):
            configs.resolve("a.yaml")

    def test_an_agent_that_takes_the_place_of_many_is_refused(self, configs: Configs) -> None:
        bound, unset = (f"{{type: resources_servers, name: {name}}}" for name in ("math", "'???'"))
        text = SERVER + "".join(
            f"a{n}_simple_agent: {{responses_api_agents: {{simple_agent: {{resources_server: {bound}}}}}}}\n"
            for n in range(1_000)
        )
        unbound = f"entrypoint: a, resources_server: {unset}, big: [{'1,' * 5_000}]"
        configs.write("a.yaml", f"{text}x: {{responses_api_agents: {{other_agent: {{{unbound}}}}}}}\n")
        with pytest.raises(ConfigError, match=rf"^a\.yaml: a\d+_simple_agent: {TOO_MUCH}"):
            configs.resolve("a.yaml")

    def test_includes_that_add_up_are_refused(self, configs: Configs) -> None:
        names = [f"i{n}.yaml" for n in range(6)]
        for name in names:
            configs.write(name, "".join(f"{name}{n}: 1\n" for n in range(9_000)))
        configs.write("a.yaml", f"config_paths: [{', '.join(names)}]\n")
        with pytest.raises(ConfigError, match=rf"^a\.yaml: config_paths: {TOO_MUCH}"):
            configs.resolve("a.yaml")

    def test_a_mapping_that_interpolations_multiply_in_a_merge_is_refused(self, configs: Configs) -> None:
        big = "big: {" + ", ".join(f"k{n}: 1" for n in range(4_000)) + "}\n"
        configs.write("b.yaml", big + "".join(f'c{n}: "${{big}}"\n' for n in range(3_000)))
        configs.write(
            "a.yaml", "config_paths: [b.yaml]\n" + "".join(f"c{n}: {{x: 1}}\n" for n in range(3_000))
        )
        with pytest.raises(ConfigError, match=rf"^a\.yaml: c\d+: {TOO_MUCH}"):
            configs.resolve("a.yaml")

    @pytest.mark.parametrize(
        ("entry", "says"),
        [("folder", "it is a directory"), ("/dev/zero", "it is a device"), ("pipe", "it is a pipe")],
    )
    def test_includes_of_what_is_no_file(self, configs: Configs, entry: str, says: str) -> None:
        (configs.root / "folder").mkdir()
        os.mkfifo(configs.root / "pipe")
        configs.write("a.yaml", f"config_paths: [{entry}]\n")
        with pytest.raises(ConfigError, match=rf"^{entry}: {says}"):
            configs.resolve("a.yaml")

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
    def test_a_file_that_may_not_be_read(self, configs: Configs) -> None:
        configs.write("a.yaml", "x: 1\n").chmod(0)
        with pytest.raises(ConfigError, match=r"^a\.yaml: it cannot be read: Permission denied"):
            configs.resolve("a.yaml")

    def test_an_empty_file_and_a_null_document_are_an_empty_config(self, configs: Configs) -> None:
        assert configs.merged({"a.yaml": "", "b.yaml": "~\n", "c.yaml": "# nothing\n"}) == {}

    def test_a_byte_order_mark_is_no_part_of_a_key(self, configs: Configs) -> None:
        configs.write("a.yaml", b"\xef\xbb\xbfa: 1\n")
        assert configs.resolve("a.yaml").config == {"a": 1}

    def test_the_limit_is_above_what_people_write(self) -> None:
        assert MAX_BYTES >= 1 << 20
        assert MAX_VALUES >= 50_000


KEYS = st.sampled_from(["a", "b", "c"])
SCALARS = st.sampled_from([1, "x", None, "???", True, 2.5, "${a}", "${b.c}", "${nowhere}", ""])
PLAIN = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
DOCUMENTS = st.dictionaries(KEYS, PLAIN, max_size=3)


class TestOmegaConfIsTheReference:
    @settings(max_examples=400, deadline=None, derandomize=True)
    @given(st.lists(DOCUMENTS, min_size=1, max_size=4))
    def test_a_merge_is_what_omegaconf_makes_of_it(self, documents: list[dict[str, Any]]) -> None:
        from omegaconf import OmegaConf
        from omegaconf.errors import OmegaConfBaseException

        try:
            made = OmegaConf.merge(*map(OmegaConf.create, documents))
            expected: Any = OmegaConf.to_container(made, resolve=False)
        except (OmegaConfBaseException, TypeError):
            expected = None
        merged: Any = {}
        try:
            for document in documents:
                merged = merge(merged, document, Budget("x"))
        except ConfigError:
            merged = None
        assert merged == expected

    @settings(max_examples=300, deadline=None, derandomize=True)
    @given(
        st.sampled_from(["", "+", "-", "0", "0x", "0o", "0b", ".", "1_0", "12:3"]),
        st.text(alphabet="0123456789eE+-._:~yYnNoOtTrRuUfFaAlLsSiInN", max_size=6),
    )
    def test_scalars_have_the_types_that_omegaconf_gives_them(self, start: str, rest: str) -> None:
        import io

        from omegaconf import OmegaConf
        from yaml import YAMLError

        text = f"k: {start}{rest}\n"
        try:
            expected: Any = OmegaConf.to_container(OmegaConf.load(io.StringIO(text)))
        except (YAMLError, ValueError):
            expected = None
        try:
            found = parse(text.encode(), Budget("x"))
        except ConfigError:
            found = None
        assert repr(found) == repr(expected)

    @pytest.mark.parametrize(
        "text",
        [
            "1e3",
            "1e-3",
            "2024-01-01",
            "1_000",
            "0x10",
            "010",
            "12:30",
            "yes",
            "~",
            ".inf",
            "1.",
            "'1'",
            "0b1",
        ],
    )
    def test_the_odd_ones_one_by_one(self, text: str) -> None:
        import io

        from omegaconf import OmegaConf

        expected = OmegaConf.to_container(OmegaConf.load(io.StringIO(f"k: {text}\n")))
        assert repr(parse(f"k: {text}\n".encode(), Budget("x"))) == repr(expected)
