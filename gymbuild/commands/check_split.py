"""`check-split SPLIT NAME | FILE …`: whether a split can be run: it is declared, and its files are prepared."""

from __future__ import annotations

import os
from typing import Any

from gymbuild.commands.base import GymbuildCommand, usage_error
from gymbuild.config.session import Session


class CheckSplit(GymbuildCommand):
    """Check a split before something is run on it."""

    name = "check-split"
    doc_purpose = "check that configs declare a split and that its files are prepared"
    doc_usage = "SPLIT NAME | FILE ..."
    doc_description = (
        "SPLIT is benchmark, train, validation or example; the rest are names of benchmarks or config files, which "
        "are resolved together. Exits with 3 when no dataset is of that split, or a file of it is not there."
    )

    def run(self, session: Session, words: list[str], options: Any) -> int:
        """Check, and name the files that there are."""
        from gymbuild.config.catalog import resolve_configs
        from gymbuild.config.eval_config import config_path_of
        from gymbuild.config.splits import declared_split_check, prepared_split_check

        settings, checkout = session.settings, session.checkout
        if not words:
            raise usage_error(self, "name a split, and benchmarks or config files.")
        split, *names = words
        roots, outside = settings.search_dirs, settings.allow_outside
        paths = list(settings.config_paths or ())
        paths += [config_path_of(checkout, name, search_dirs=roots, allow_outside=outside) for name in names]
        if not paths:
            raise usage_error(self, f"name the benchmarks or config files that should declare {split}.")
        datasets = resolve_configs(checkout, paths, search_dirs=roots, allow_outside=outside).datasets
        declared_split_check(datasets, split)
        chosen = [dataset for dataset in datasets if dataset.type == split]
        for dataset in chosen:
            # relative to the checkout, where this runs: messages are the same on every machine
            prepared_split_check(dataset.jsonl_fpath, split, os.path.dirname(dataset.jsonl_fpath) or ".")
        for dataset in chosen:
            print(f"{dataset.name}\t{dataset.jsonl_fpath}")
        return 0
