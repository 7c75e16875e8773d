"""Which files are benchmarks, what they are called, and the index that remembers them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gymbuild.cache.witness import holds
from gymbuild.config.catalog import Catalog, load_catalog
from gymbuild.config.catalog_records import CatalogRecords
from gymbuild.config.dialect.yaml_files import MAX_BYTES
from gymbuild.config.discovery import discover
from tests.config.small_checkouts import BENCHMARK, SERVER, Configs


def benchmark(name: str) -> str:
    return BENCHMARK.replace("benchmarks/add", f"benchmarks/{name}").replace("name: add", f"name: {name}")


class TestCandidates:
    def test_names_are_paths_under_benchmarks(self, configs: Configs) -> None:
        configs.math()
        for path in (
            "sub/config.yaml",
            "sub/other.yaml",
            "sub/deep/config.yaml",
            "flat.yaml",
            "a-b.c/config.yaml",
        ):
            configs.write(f"benchmarks/{path}", BENCHMARK)
        assert list(configs.catalog().benchmarks) == [
            "a-b.c",
            "add",
            "flat",
            "sub",
            "sub/deep/config",
            "sub/other",
        ]

    def test_manifests_hidden_files_and_other_files_are_none(self, configs: Configs) -> None:
        configs.math()
        for path in (
            "x/manifest.yaml",
            "x/.hidden.yaml",
            ".hidden/config.yaml",
            "x/config.yml",
            "x/config.yaml.bak",
        ):
            configs.write(f"benchmarks/{path}", BENCHMARK)
        configs.write("elsewhere/config.yaml", BENCHMARK)
        assert list(configs.catalog().benchmarks) == ["add"]

    def test_a_file_that_declares_none_or_several_itself_is_none(self, configs: Configs) -> None:
        configs.math()
        configs.write("benchmarks/none.yaml", "config_paths: [benchmarks/add/config.yaml]\n")
        configs.write("benchmarks/two.yaml", "a: [{type: benchmark}, {x: {type: benchmark}}]\n")
        catalog = configs.catalog()
        assert (list(catalog.benchmarks), dict(catalog.problems)) == (["add"], {})

    def test_one_that_resolves_to_several_is_a_problem_that_says_how_to_build_it(
        self, configs: Configs
    ) -> None:
        configs.math()
        configs.write(
            "benchmarks/more/config.yaml",
            benchmark("more")
            .replace("servers/math", "benchmarks/add/config")
            .replace("add_simple", "more_simple"),
        )
        text = configs.problem("more")
        assert "it resolves to 2 benchmark datasets" in text
        assert "config_paths=[benchmarks/more/config.yaml]" in text

    def test_a_problem_takes_no_other_down(self, configs: Configs) -> None:
        configs.math()
        configs.write("benchmarks/broken/config.yaml", "a: [1\n")
        configs.write(
            "benchmarks/lost/config.yaml", benchmark("lost").replace("servers/math", "servers/nowhere")
        )
        catalog = configs.catalog()
        assert list(catalog.benchmarks) == ["add"]
        assert list(catalog.problems) == ["broken", "lost"]
        assert str(catalog.problems["broken"]).startswith("benchmarks/broken/config.yaml:2: ")

    def test_other_yaml_with_what_only_plain_yaml_takes_is_no_problem(self, configs: Configs) -> None:
        configs.math()
        configs.write("benchmarks/data.yaml", "a: 1\na: 2\nwhen: 2024-01-01\n")
        assert not configs.catalog().problems

    def test_folders_that_lead_in_a_circle_end(self, configs: Configs) -> None:
        configs.math()
        (configs.root / "benchmarks" / "add" / "again").symlink_to(configs.root / "benchmarks")
        (configs.root / "benchmarks" / "linked").symlink_to(configs.root / "benchmarks" / "add")
        assert {"add", "linked"} <= set(configs.catalog().benchmarks)

    def test_domain_and_description_come_from_the_file_and_else_from_what_it_resolves_to(
        self, configs: Configs
    ) -> None:
        configs.math()
        found = configs.catalog().benchmarks["add"]
        assert (found.domain, found.description) == ("math", "sums")
        configs.write(
            "benchmarks/add/config.yaml",
            BENCHMARK.replace("      datasets:", "      description: mine\n      datasets:"),
        )
        found = configs.catalog().benchmarks["add"]
        assert (found.domain, found.description) == ("math", "mine")


class TestRoots:
    def root(self, path: Path, text: str = BENCHMARK) -> Path:
        (path / "benchmarks" / "add").mkdir(parents=True)
        (path / "benchmarks" / "add" / "config.yaml").write_text(text)
        (path / "benchmarks" / "add" / "prepare.py").write_text("")
        (path / "servers").mkdir()
        (path / "servers" / "math.yaml").write_text(SERVER)
        return path

    def test_the_first_root_that_has_a_name_wins(
        self, configs: Configs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        configs.math()
        configs.write("benchmarks/only/config.yaml", BENCHMARK)
        one = self.root(tmp_path / "one", BENCHMARK.replace("name: add", "name: one"))
        two = self.root(tmp_path / "two", BENCHMARK.replace("name: add", "name: two"))
        assert configs.dataset().name == "add"
        monkeypatch.setenv("NEMO_GYM_EXTRA_ROOTS", f"{two}{os.pathsep}{one}")
        assert configs.dataset().name == "two"
        catalog = configs.catalog(search_dirs=[str(one)])
        assert catalog.benchmarks["add"].dataset.name == "one"
        assert catalog.benchmarks["add"].root == str(one)
        assert catalog.benchmarks["add"].config_path == "benchmarks/add/config.yaml"
        assert catalog.benchmarks["only"].root == ""

    def test_a_script_is_looked_for_where_its_config_is_and_its_output_goes_to_the_checkout(
        self, configs: Configs, tmp_path: Path
    ) -> None:
        configs.math()
        one = self.root(tmp_path / "one")
        dataset = configs.catalog(search_dirs=[str(one)]).benchmarks["add"].dataset
        assert dataset.prepare_script == str(one / "benchmarks/add/prepare.py")
        assert dataset.jsonl_fpath == "benchmarks/add/data/add.jsonl"


class TestIndex:
    """What the index answers is what a start without it finds, whatever was changed."""

    def settle(self, configs: Configs, **settings: Any) -> Catalog:
        """The catalog, remembered: what was written just now is old enough to be trusted."""
        for _ in range(3):
            found = load_catalog(configs.checkout, **settings)
            if CatalogRecords(configs.checkout, **settings).read() is not None:
                return found
            time.sleep(0.1)
        raise AssertionError("the index was not written")

    def test_it_answers_a_tree_that_did_not_change(self, configs: Configs) -> None:
        configs.math()
        configs.write("benchmarks/broken.yaml", "a: [1\n")
        first = self.settle(configs)
        again = load_catalog(configs.checkout)
        assert again.benchmarks == first.benchmarks
        assert {name: str(error) for name, error in again.problems.items()} == {
            name: str(error) for name, error in first.problems.items()
        }
        assert again.witness == first.witness
        assert holds(again.witness, str(configs.root))

    CHANGES: dict[str, Callable[[Configs], Any]] = {  # noqa: RUF012
        "a new config": lambda c: c.write("benchmarks/new/config.yaml", benchmark("new")),
        "a new config in a folder that was there": lambda c: c.write(
            "benchmarks/add/new.yaml", benchmark("new")
        ),
        "a deleted config": lambda c: (c.root / "benchmarks/two/config.yaml").unlink(),
        "a renamed config": lambda c: (c.root / "benchmarks/two").rename(c.root / "benchmarks/three"),
        "an edited config": lambda c: c.write("benchmarks/two/config.yaml", benchmark("edited")),
        "a config that became no benchmark": lambda c: c.write("benchmarks/two/config.yaml", "a: 1\n"),
        "a file that became a benchmark": lambda c: c.write("benchmarks/other.yaml", benchmark("other")),
        "an edited include": lambda c: c.write(
            "servers/math.yaml", (c.root / "servers/math.yaml").read_text().replace("sums", "more sums")
        ),
        "a deleted include": lambda c: (c.root / "servers/math.yaml").unlink(),
        "an include that broke": lambda c: c.write("servers/math.yaml", "a: [1\n"),
        "a new env.yaml": lambda c: c.write("env.yaml", "number: 8\n"),
        "another variable": lambda c: os.environ.__setitem__("GYMBUILD_NUMBER", "9"),
        "a variable that is gone": lambda c: os.environ.__delitem__("GYMBUILD_NUMBER"),
        "a changed config whose size and mtime are the same": lambda c: forge(
            c.root / "benchmarks/two/config.yaml", b"name: two", b"name: owt"
        ),
        "a swapped folder": lambda c: swap(c.root / "benchmarks/add", c.root / "benchmarks/two"),
    }

    @pytest.mark.parametrize("change", list(CHANGES))
    def test_every_change_takes_effect_at_once(
        self, configs: Configs, change: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("GYMBUILD_NUMBER", "4")
        configs.math()
        configs.write("benchmarks/two/config.yaml", benchmark("two"))
        configs.write("benchmarks/other.yaml", "a: 1\n")
        configs.write(
            "benchmarks/add/config.yaml", BENCHMARK + "        num_repeats: ${oc.env:GYMBUILD_NUMBER,2}\n"
        )
        before = self.settle(configs)
        self.CHANGES[change](configs)
        found = load_catalog(configs.checkout)
        fresh = load_catalog(configs.checkout, use_index=False)
        assert found.benchmarks == fresh.benchmarks
        assert {name: str(error) for name, error in found.problems.items()} == {
            name: str(error) for name, error in fresh.problems.items()
        }
        assert found.witness == fresh.witness
        assert found.witness != before.witness

    def test_a_missing_include_that_appears_takes_effect(self, configs: Configs) -> None:
        configs.write("benchmarks/add/config.yaml", BENCHMARK)
        assert list(self.settle(configs).problems) == ["add"]
        configs.math()
        assert list(load_catalog(configs.checkout).benchmarks) == ["add"]

    def test_an_include_that_appears_in_an_earlier_root_takes_effect(
        self, configs: Configs, tmp_path: Path
    ) -> None:
        configs.math()
        more = str(tmp_path / "more")
        assert self.settle(configs, search_dirs=[more]).benchmarks["add"].description == "sums"
        (tmp_path / "more/servers").mkdir(parents=True)
        text = (configs.root / "servers/math.yaml").read_text().replace("sums", "other sums")
        (tmp_path / "more/servers/math.yaml").write_text(text)
        found = load_catalog(configs.checkout, search_dirs=[more])
        assert found.benchmarks["add"].description == "other sums"

    def test_other_settings_have_other_answers(self, configs: Configs, tmp_path: Path) -> None:
        configs.math()
        self.settle(configs)
        for settings in (
            {"search_dirs": [str(tmp_path)]},
            {"overrides": {"prepare_script_args": {"n": 1}}},
            {"allow_outside": True},
        ):
            assert CatalogRecords(configs.checkout, **settings).read() is None  # type: ignore[arg-type]
        found = load_catalog(configs.checkout, overrides={"prepare_script_args": {"n": 1}})
        assert found.benchmarks["add"].dataset.args == {"n": 1}
        assert load_catalog(configs.checkout).benchmarks["add"].dataset.args == {}

    def test_other_extra_roots_have_other_answers(
        self, configs: Configs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        configs.math()
        self.settle(configs)
        monkeypatch.setenv("NEMO_GYM_EXTRA_ROOTS", str(tmp_path))
        assert CatalogRecords(configs.checkout).read() is None

    def test_an_edit_resolves_only_what_includes_it(self, configs: Configs) -> None:
        configs.math()
        configs.write("servers/other.yaml", (configs.root / "servers/math.yaml").read_text())
        configs.write("benchmarks/two/config.yaml", benchmark("two").replace("servers/math", "servers/other"))
        self.settle(configs)
        configs.write("servers/other.yaml", (configs.root / "servers/math.yaml").read_text() + "# edited\n")
        from gymbuild.config.dialect.reader import ConfigReader

        reader = ConfigReader(configs.checkout)
        found = discover(reader, previous=CatalogRecords(configs.checkout).previous())
        assert found.resolved == ["two"]

    def test_nothing_is_written_when_nothing_changed(self, configs: Configs) -> None:
        configs.math()
        self.settle(configs)
        before = {path: path.stat() for path in (configs.root / ".cache").iterdir()}
        load_catalog(configs.checkout)
        assert {path: path.stat() for path in (configs.root / ".cache").iterdir()} == before

    def test_a_cache_that_cannot_be_written_is_no_error(self, configs: Configs) -> None:
        configs.math()
        configs.write(".cache", "a file where the folder should be")
        assert list(load_catalog(configs.checkout).benchmarks) == ["add"]

    def test_a_damaged_index_is_no_error(self, configs: Configs) -> None:
        configs.math()
        self.settle(configs)
        for path in (configs.root / ".cache").iterdir():
            data = bytearray(path.read_bytes())
            if not data:
                continue
            data[len(data) // 2] ^= 0xFF
            path.write_bytes(bytes(data))
        assert list(load_catalog(configs.checkout).benchmarks) == ["add"]

    def test_a_quick_answer_imports_nothing_heavy(self, configs: Configs) -> None:
        configs.math()
        self.settle(configs)
        code = (
            "import sys; from gymbuild.config.catalog_records import CatalogRecords;"
            "from gymbuild.system.paths import Checkout;"
            f"assert CatalogRecords(Checkout({str(configs.root)!r})).read()['benchmarks'];"
            "print(sorted({'pydantic', 'omegaconf', 'yaml', 'rich', 'orjson'} & set(sys.modules)))"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], env=child_environment(), capture_output=True, text=True
        )
        assert done.stdout.strip() == "[]", done.stderr

    def test_twenty_rewrites_in_a_row_are_all_seen(self, configs: Configs) -> None:
        configs.math()
        for number in range(20):
            configs.write(
                "benchmarks/add/config.yaml", BENCHMARK.replace("name: add", f"name: add{number:02}")
            )
            assert load_catalog(configs.checkout).benchmarks["add"].dataset.name == f"add{number:02}"


def child_environment() -> dict[str, str]:
    """This process's environment, without site-packages of its own, but with gymbuild."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def forge(path: Path, old: bytes, new: bytes) -> None:
    before = path.stat()
    path.write_bytes(path.read_bytes().replace(old, new))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def swap(one: Path, other: Path) -> None:
    aside = one.with_name("aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)


def test_the_size_limit_is_named(configs: Configs) -> None:
    configs.write("benchmarks/big.yaml", "# " + "x" * MAX_BYTES)
    assert f"at most {MAX_BYTES:,}" in configs.problem("big")
