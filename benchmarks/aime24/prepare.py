"""AIME 2024: the 30 problems of the American Invitational Mathematics Examination I and II of that year.

They come from the dataset `HuggingFaceH4/aime_2024`, at a pinned commit, through the hub's own client: `HF_ENDPOINT`,
`HF_TOKEN`, `HF_HUB_OFFLINE` and the client's cache work as they do everywhere. A local file can stand in for the hub.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

OUTPUT_FPATH = Path(__file__).parent / "data" / "aime24_benchmark.jsonl"

REPOSITORY = "HuggingFaceH4/aime_2024"
REVISION = "2fe88a2f1091d5048c0f36abc874fb997b3dd99a"
SPLIT_FILE = "data/train-00000-of-00001.parquet"
ROW_COUNT = 30
"""Rows of the split at REVISION."""

COLUMNS = ("id", "problem", "solution", "answer", "url", "year")


def prepare(revision: str = REVISION, source: str | None = None) -> Path:
    """Write one row per problem, in the order of the split.

    Args:
        revision: commit, branch or tag of the dataset on the hub; not looked at where there is a source.
        source: a `.parquet` or `.jsonl` file with the split's columns, to read instead of asking the hub.
    Returns: the prepared file.
    Raises:
        ConnectionError: the hub cannot be reached now, and its client's cache does not hold the file.
        RuntimeError: the hub answers, but does not give the file.
        FileNotFoundError: there is no such source.
        ValueError: what was read is no such dataset.
    """
    fpath = Path(source) if source else download(revision)
    rows = [row_of(record, f"{fpath}, row {number}") for number, record in enumerate(read(fpath), 1)]
    if not rows:
        raise ValueError(f"{fpath} has no rows.")
    if len({row["task_id"] for row in rows}) != len(rows):
        raise ValueError(f"{fpath} has several rows with one `id`.")
    if not source and revision == REVISION and len(rows) != ROW_COUNT:
        print(
            f"Warning: {REPOSITORY} has {ROW_COUNT} rows at this revision, not {len(rows)}.", file=sys.stderr
        )

    OUTPUT_FPATH.parent.mkdir(parents=True, exist_ok=True)
    with open(OUTPUT_FPATH, "w", encoding="utf-8", newline="\n") as output:
        for row in rows:
            output.write(json.dumps(row, ensure_ascii=False, sort_keys=True) + "\n")
    print(f"{len(rows)} problems written to {OUTPUT_FPATH.name}")
    return OUTPUT_FPATH


def download(revision: str) -> Path:
    """The split's file at a revision, from the hub or from its client's cache.

    Raises: ConnectionError when trying again may help, RuntimeError when it will not.
    """
    # Here, not above: a local source needs no client, and the client reads its environment when it is imported.
    from huggingface_hub import constants, hf_hub_download
    from huggingface_hub.errors import FileMetadataError, HfHubHTTPError, LocalEntryNotFoundError

    print(f"Reading {REPOSITORY} at {revision} from {constants.ENDPOINT}")
    try:
        return Path(hf_hub_download(REPOSITORY, SPLIT_FILE, revision=revision, repo_type="dataset"))
    except (HfHubHTTPError, LocalEntryNotFoundError) as error:
        # "Not in the cache" is how the client ends whatever went wrong at the hub; what did is its cause.
        cause = error
        if isinstance(error, LocalEntryNotFoundError) and isinstance(error.__cause__, Exception):
            cause = error.__cause__
        status = cause.response.status_code if isinstance(cause, HfHubHTTPError) else None
        if isinstance(cause, FileMetadataError) or (status and status < 500 and status not in (408, 429)):
            said = " ".join(str(cause).split()).rstrip(".")
            raise RuntimeError(
                f"{constants.ENDPOINT} does not give {SPLIT_FILE} of {REPOSITORY} at revision {revision} ({said}). Check "
                "`revision`, HF_TOKEN and HF_ENDPOINT, or name a local file with `source`."
            ) from cause
        why = f"{constants.ENDPOINT} cannot be reached"
        if status:
            why = f"{constants.ENDPOINT} answers with status {status}"
        if constants.HF_HUB_OFFLINE:
            why = "HF_HUB_OFFLINE is set"
        raise ConnectionError(
            f"{why}, and the cache of the hub's client does not hold {REPOSITORY} at revision {revision}. Try again "
            "with the network, name another hub with HF_ENDPOINT, or a local file with `source`."
        ) from error


def read(fpath: Path) -> list[dict[str, Any]]:
    """The records of a `.parquet` or `.jsonl` file.

    Raises: FileNotFoundError when it is not there, ValueError when it is neither.
    """
    if not fpath.is_file():
        raise FileNotFoundError(f"`source` names {fpath}, and there is no such file.")
    if fpath.suffix == ".parquet":
        from pyarrow.parquet import ParquetFile

        with ParquetFile(fpath) as table:
            records: list[dict[str, Any]] = table.read().to_pylist()
        return records
    if fpath.suffix == ".jsonl":
        with open(fpath, encoding="utf-8") as lines:
            return [
                _record(line, f"{fpath}, line {number}")
                for number, line in enumerate(lines, 1)
                if line.strip()
            ]
    raise ValueError(f"`source` names {fpath}; a .parquet or a .jsonl file is needed.")


def _record(line: str, where: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise ValueError(f"{where}: this is no JSON ({error}).") from error
    if not isinstance(record, dict):
        raise ValueError(f"{where}: this is no JSON object.")
    return record


def row_of(record: dict[str, Any], where: str) -> dict[str, Any]:
    """The row of one problem.

    Args:
        record: the dataset's columns.
        where: file and row, for the error.
    Raises: ValueError when a column is missing, or the answer is none that AIME could have.
    """
    missing = [column for column in COLUMNS if record.get(column) is None]
    if missing:
        raise ValueError(f"{where}: no {', '.join(f'`{column}`' for column in missing)}.")
    answer = str(record["answer"]).strip()
    if not (answer.isascii() and answer.isdigit() and int(answer) <= 999):
        raise ValueError(f"{where}: `answer` is {answer!r}; answers of AIME are integers from 0 to 999.")
    return {
        "task_id": str(record["id"]),
        "question": record["problem"],
        # Without leading zeros ("073"), so that a verifier may compare text.
        "expected_answer": str(int(answer)),
        "verifier_metadata": {
            "solution": record["solution"],
            "url": record["url"],
            "year": int(record["year"]),
        },
    }


if __name__ == "__main__":
    prepare()
