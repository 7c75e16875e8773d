"""aime24: through the hub's real client, from a hub on loopback with a small dataset of our own."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.conftest import Environments
from tests.benchmarks.shipped import ISOLATED_VERSIONS, run_prepare
from tests.hub_server import HubServer

REPOSITORY = "HuggingFaceH4/aime_2024"
REVISION = "2fe88a2f1091d5048c0f36abc874fb997b3dd99a"
OTHER_REVISION = "f" * 40
SPLIT_FILE = "data/train-00000-of-00001.parquet"

RECORDS = [
    {
        "id": 60 + number,
        "problem": f"What is ${number}^2 + {number}$? Ω",
        "solution": f"It is {number * number + number}.",
        "answer": f"{number * number + number:03}",
        "url": f"https://example.org/{number}",
        "year": "2024",
    }
    for number in range(4)
]
ROWS = [
    {
        "task_id": str(60 + number),
        "question": f"What is ${number}^2 + {number}$? Ω",
        "expected_answer": ["0", "2", "6", "12"][number],
        "verifier_metadata": {
            "solution": f"It is {number * number + number}.",
            "url": f"https://example.org/{number}",
            "year": 2024,
        },
    }
    for number in range(4)
]

WRITE_PARQUET = """
import json, sys
import pyarrow, pyarrow.parquet
pyarrow.parquet.write_table(pyarrow.Table.from_pylist(json.load(sys.stdin)), sys.argv[1])
"""


def parquet(folder: Path, python: Path, records: list[dict[str, Any]]) -> Path:
    """Write records as parquet, with the benchmark's own pyarrow."""
    fpath = folder / "records.parquet"
    subprocess.run([python, "-c", WRITE_PARQUET, fpath], input=json.dumps(records), text=True, check=True)
    return fpath


@pytest.fixture(scope="module")
def contents(tmp_path_factory: pytest.TempPathFactory, environments: Environments) -> list[bytes]:
    """Our dataset and its first two rows, as parquet."""
    folder = tmp_path_factory.mktemp("records")
    return [
        parquet(folder, environments("aime24"), records).read_bytes() for records in (RECORDS, RECORDS[:2])
    ]


@pytest.fixture
def hub(contents: list[bytes]) -> Iterator[HubServer]:
    """A hub that has our dataset at the pinned revision, and its first two rows at another."""
    with HubServer() as hub:
        for revision, content in zip((REVISION, OTHER_REVISION), contents, strict=True):
            hub.add(
                REPOSITORY, {SPLIT_FILE: content, "README.md": b"ours"}, commit=revision, branch=revision[:3]
            )
        yield hub


@pytest.fixture
def reach(tmp_path: Path, hub: HubServer) -> dict[str, str]:
    """The variables that lead the client to our hub, with a cache of its own and nobody's token."""
    return {
        "HF_ENDPOINT": hub.url,
        "HF_HOME": str(tmp_path / "hf"),
        "HF_TOKEN": "",
        "HF_HUB_OFFLINE": "0",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_CACHE": str(tmp_path / "hf" / "hub"),
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
    }


@pytest.fixture
def impatient(reach: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """The same for a client that does not wait between its six tries, which would be 23 seconds."""
    folder = tmp_path / "impatient"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text("import time\ntime.sleep = lambda seconds: None\n")
    return {**reach, "PYTHONPATH": str(folder)}


@pytest.mark.parametrize(
    "version",
    [
        version if version in ("3.9", "3.13") else pytest.param(version, marks=pytest.mark.slow)
        for version in ISOLATED_VERSIONS
    ],
)
def test_the_dataset_comes_from_the_hub_that_hf_endpoint_names(
    version: str, checkout: Path, environments: Environments, hub: HubServer, reach: dict[str, str]
) -> None:
    prepared = run_prepare(checkout, environments("aime24", version), "aime24", reach)
    assert prepared.error == ""
    assert prepared.rows == ROWS
    assert prepared.fpath == checkout / "benchmarks/aime24/data/aime24_benchmark.jsonl"
    asked = f"/datasets/{REPOSITORY}/resolve/{REVISION}/{SPLIT_FILE}"
    assert {request.path for request in hub.requests if request.path.startswith("/datasets")} == {asked}


def test_a_dataset_of_another_size_at_the_pinned_revision_is_remarked_upon(
    checkout: Path, environments: Environments, reach: dict[str, str]
) -> None:
    prepared = run_prepare(checkout, environments("aime24"), "aime24", reach)
    assert f"Warning: {REPOSITORY} has 30 rows at this revision, not 4." in prepared.printed


@pytest.mark.parametrize("revision", [OTHER_REVISION, "fff"])
def test_another_revision_can_be_asked_for(
    revision: str, checkout: Path, environments: Environments, reach: dict[str, str]
) -> None:
    prepared = run_prepare(checkout, environments("aime24"), "aime24", reach, revision=revision)
    assert prepared.rows == ROWS[:2]
    assert "Warning" not in prepared.printed


def test_the_token_is_sent_to_the_hub_and_printed_nowhere(
    checkout: Path, environments: Environments, hub: HubServer, reach: dict[str, str]
) -> None:
    hub.token = "hf_aSecretOfOurs"
    prepared = run_prepare(checkout, environments("aime24"), "aime24", {**reach, "HF_TOKEN": hub.token})
    assert prepared.rows == ROWS
    assert {request.authorization for request in hub.requests if "/resolve/" in request.path} == {
        f"Bearer {hub.token}"
    }
    assert [request.authorization for request in hub.downloads] == [None]
    assert hub.token not in prepared.printed and hub.token.encode() not in prepared.content


def test_a_hub_that_refuses_is_an_error_that_no_repetition_mends(
    checkout: Path, environments: Environments, hub: HubServer, reach: dict[str, str]
) -> None:
    hub.token = "hf_aSecretOfOurs"
    prepared = run_prepare(checkout, environments("aime24"), "aime24", {**reach, "HF_TOKEN": "hf_another"})
    assert prepared.error.startswith(f"RuntimeError: {hub.url} does not give {SPLIT_FILE} of {REPOSITORY}")
    assert not prepared.may_pass
    assert "HF_TOKEN" in prepared.error and "hf_another" not in prepared.error


def test_a_revision_that_does_not_exist_is_an_error_that_no_repetition_mends(
    checkout: Path, environments: Environments, reach: dict[str, str]
) -> None:
    prepared = run_prepare(checkout, environments("aime24"), "aime24", reach, revision="e" * 40)
    assert prepared.error.startswith("RuntimeError: ")
    assert not prepared.may_pass
    assert f"at revision {'e' * 40} (404 Client Error" in prepared.error
    assert "Revision Not Found" in prepared.error and "Check `revision`" in prepared.error


def test_something_else_than_a_hub_is_an_error_that_no_repetition_mends(
    checkout: Path, environments: Environments, hub: HubServer, reach: dict[str, str]
) -> None:
    hub.failing = 200
    prepared = run_prepare(checkout, environments("aime24"), "aime24", reach)
    assert prepared.error.startswith(f"RuntimeError: {hub.url} does not give")
    assert not prepared.may_pass


@pytest.mark.parametrize("status", [429, 503])
def test_a_hub_in_trouble_is_a_connection_error(
    status: int, checkout: Path, environments: Environments, hub: HubServer, impatient: dict[str, str]
) -> None:
    hub.failing = status
    prepared = run_prepare(checkout, environments("aime24"), "aime24", impatient)
    assert prepared.error.startswith(
        f"ConnectionError: {hub.url} answers with status {status}, and the cache"
    )
    assert "or a local file with `source`" in prepared.error
    assert prepared.may_pass


def test_no_hub_is_a_connection_error_that_names_the_ways_out(
    checkout: Path, environments: Environments, impatient: dict[str, str]
) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound, not listening: connections are refused
        nowhere = f"http://127.0.0.1:{unused.getsockname()[1]}"
        prepared = run_prepare(
            checkout, environments("aime24"), "aime24", {**impatient, "HF_ENDPOINT": nowhere}
        )
    assert prepared.error == (
        f"ConnectionError: {nowhere} cannot be reached, and the cache of the hub's client does not hold {REPOSITORY} at "
        f"revision {REVISION}. Try again with the network, name another hub with HF_ENDPOINT, or a local file with "
        "`source`."
    )
    assert prepared.may_pass
    assert not (checkout / "benchmarks/aime24/data").exists()


@pytest.mark.parametrize("version", ["3.9", "3.11"])
def test_a_download_that_breaks_off_may_pass(
    version: str, checkout: Path, environments: Environments, hub: HubServer, impatient: dict[str, str]
) -> None:
    hub.breaking_off = True
    prepared = run_prepare(checkout, environments("aime24", version), "aime24", impatient)
    assert prepared.error
    assert prepared.may_pass
    assert hub.downloads
    assert not (checkout / "benchmarks/aime24/data").exists()


def test_offline_the_clients_cache_is_enough(
    checkout: Path, environments: Environments, hub: HubServer, reach: dict[str, str]
) -> None:
    online = run_prepare(checkout, environments("aime24"), "aime24", reach).content
    hub.requests.clear()
    prepared = run_prepare(checkout, environments("aime24"), "aime24", {**reach, "HF_HUB_OFFLINE": "1"})
    assert prepared.content == online
    assert hub.requests == []


def test_offline_without_a_cache_is_a_connection_error_that_says_so(
    checkout: Path, environments: Environments, hub: HubServer, reach: dict[str, str]
) -> None:
    prepared = run_prepare(checkout, environments("aime24"), "aime24", {**reach, "HF_HUB_OFFLINE": "1"})
    assert prepared.error.startswith("ConnectionError: HF_HUB_OFFLINE is set, and the cache")
    assert prepared.may_pass
    assert hub.requests == []


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_a_local_file_stands_in_for_the_hub(
    kind: str, checkout: Path, environments: Environments, hub: HubServer, reach: dict[str, str]
) -> None:
    python = environments("aime24")
    from_hub = run_prepare(checkout, python, "aime24", reach).content
    hub.requests.clear()
    if kind == "parquet":
        parquet(checkout, python, RECORDS)
    else:
        (checkout / "records.jsonl").write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    prepared = run_prepare(checkout, python, "aime24", reach, source=f"records.{kind}")
    assert prepared.content == from_hub
    assert "Warning" not in prepared.printed
    assert hub.requests == []


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            [{**RECORDS[0], "answer": "1000"}],
            "row 1: `answer` is '1000'; answers of AIME are integers from 0 to 999.",
        ),
        (
            [RECORDS[0], {**RECORDS[1], "answer": "two"}],
            "row 2: `answer` is 'two'; answers of AIME are integers",
        ),
        ([{**RECORDS[0], "problem": None}], "row 1: no `problem`."),
        ([{"id": 1, "answer": "5"}], "row 1: no `problem`, `solution`, `url`, `year`."),
        ([RECORDS[0], RECORDS[0]], "has several rows with one `id`."),
        ([], "has no rows."),
        ([RECORDS[0], [1]], "line 2: this is no JSON object."),
    ],
)
def test_a_source_that_is_no_such_dataset_is_an_error_that_says_where(
    lines: list[Any], message: str, checkout: Path, environments: Environments
) -> None:
    (checkout / "records.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    prepared = run_prepare(checkout, environments("aime24"), "aime24", source="records.jsonl")
    assert prepared.error.startswith("ValueError: records.jsonl")
    assert message in prepared.error
    assert not (checkout / "benchmarks/aime24/data").exists()


def test_a_source_that_is_not_there_is_an_error_that_names_it(
    checkout: Path, environments: Environments
) -> None:
    prepared = run_prepare(checkout, environments("aime24"), "aime24", source="none.parquet")
    assert prepared.error == "FileNotFoundError: `source` names none.parquet, and there is no such file."


def test_a_source_of_another_kind_is_an_error_that_names_the_kinds(
    checkout: Path, environments: Environments
) -> None:
    (checkout / "records.csv").write_text("id,problem\n")
    prepared = run_prepare(checkout, environments("aime24"), "aime24", source="records.csv")
    assert prepared.error == "ValueError: `source` names records.csv; a .parquet or a .jsonl file is needed."
