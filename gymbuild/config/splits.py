"""Checks of a requested split: that a config declares it, and that its prepared file is there."""

from __future__ import annotations

import os
from collections.abc import Sequence

from gymbuild.config.datasets import Dataset
from gymbuild.system.errors import UsageError


def declared_split_check(datasets: Sequence[Dataset], split: str) -> None:
    """Refuse a split that no dataset is of.

    Args:
        datasets: every dataset that the config declares.
        split: `benchmark`, `train`, `validation` or `example`.

    Raises:
        UsageError: no dataset has this type; the declared ones are listed, example files as what they are.
    """
    if any(dataset.type == split for dataset in datasets):
        return
    lines = [f"  {dataset.name} ({dataset.type}): {dataset.jsonl_fpath}" for dataset in datasets]
    text = f"split {split!r}: no dataset of this type is declared. Declared are:\n" + "\n".join(
        lines or ["  none"]
    )
    examples = [dataset.jsonl_fpath for dataset in datasets if dataset.type == "example"]
    if examples:
        text += (
            f"\n{', '.join(examples)}: a few rows that are committed to show the format, no split to run; give the "
            "file itself to the command that reads rows."
        )
    raise UsageError(text)


def prepared_split_check(path: str | os.PathLike[str], split: str, directory: str | os.PathLike[str]) -> None:
    """Refuse a prepared split file that is not there.

    Args:
        path: the file that preparing the split should have left.
        split: its name.
        directory: where prepared files are put; what is there is listed.

    Raises:
        UsageError: the file is not there, or is not a regular file.
    """
    if os.path.isfile(path):
        return
    try:
        there = sorted(name for name in os.listdir(directory) if name.endswith(".jsonl"))
    except OSError:
        there = []
    raise UsageError(
        f"split {split!r}: preparing it left no file {os.fspath(path)}. In {os.fspath(directory)} there is: "
        f"{', '.join(there) or 'no JSONL file'}."
    )
