"""The other outputs of a script that several datasets share: a run for one of them must leave the others as they are."""

from __future__ import annotations

import contextlib
import os

from gymbuild.config.graph import Preparation
from gymbuild.preparation.assessment import Assessor
from gymbuild.system.errors import PreparationFailedError


class Siblings:
    """The siblings of one dataset, as they are now; their content goes to the store.

    Args:
        assessor: of the checkout.
        preparation: the dataset's.

    Raises:
        OSError: the store cannot be written.
    """

    def __init__(self, assessor: Assessor, preparation: Preparation) -> None:
        self._assessor = assessor
        self._preparation = preparation
        self._before: dict[str, str | None] = {}
        for path, _ in preparation.siblings:
            digest = assessor.output_digest(path)
            if digest is not None:
                assessor.store.add(assessor.checkout.absolute(path), digest)
            self._before[path] = digest

    def put_back(self) -> None:
        """Put back what the run has changed.

        Raises:
            PreparationFailedError: something was changed; it says what, and what to do about it.
        """
        changed = []
        for path, config in self._preparation.siblings:
            digest = self._before[path]
            if self._assessor.output_digest(path) == digest:
                continue
            absolute = self._assessor.checkout.absolute(path)
            if digest is None:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(absolute)
            else:
                self._assessor.store.restore(digest, absolute)
            changed.append((path, config))
        if changed:
            path, config = changed[0]
            raise PreparationFailedError(
                self._preparation.module,
                "prepare",
                f"with the args of {self._preparation.dataset.config_path} it changed {path}, which belongs to "
                f"{config}; that file was put back. Give each config args that make the script write its own jsonl_fpath.",
            )
