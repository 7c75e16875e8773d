"""What is recorded of a run's inputs is what the run used, whatever changes while it is recorded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gymbuild.cache.database import database
from gymbuild.cache.digests import DigestCache, digest_bytes
from gymbuild.cache.store import Input
from gymbuild.cache.witness import signature
from gymbuild.preparation.inputs import CHANGED, InputReader
from gymbuild.preparation.observations import Observations
from gymbuild.system.paths import Checkout


class SlowDigests(DigestCache):
    """A digest takes long enough for something to happen before or after the file was read."""

    before: Callable[[], object] = staticmethod(lambda: None)
    after: Callable[[], object] = staticmethod(lambda: None)

    def get(self, path: str) -> str | None:
        self.before()
        digest = super().get(path)
        self.after()
        return digest


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    (tmp_path / "data.txt").write_text("old")
    return Checkout(tmp_path)


def recorded(checkout: Checkout, digests: DigestCache) -> tuple[list[Input], list[str]]:
    found = signature(checkout.absolute("data.txt"))
    assert found is not None
    used = Observations(files={"data.txt": ("data", found)})
    return InputReader(checkout, digests).of_run(used, {}, (), (), ())


def test_a_file_that_nothing_changes_has_the_digest_of_its_content(checkout: Checkout) -> None:
    found, changed = recorded(checkout, DigestCache(database(checkout.cache), checkout.root))
    assert (found, changed) == ([Input("data", "data.txt", digest_bytes(b"old"))], [])


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_file_that_changes_while_it_is_recorded_is_stale_again(checkout: Checkout, when: str) -> None:
    digests = SlowDigests(database(checkout.cache), checkout.root)
    setattr(digests, when, lambda: Path(checkout.absolute("data.txt")).write_text("new"))
    found, changed = recorded(checkout, digests)
    assert (found, changed) == ([Input("data", "data.txt", f"{CHANGED}:data.txt")], ["data.txt"])
