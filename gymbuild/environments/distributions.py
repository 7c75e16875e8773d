"""What is installed in an interpreter's own folders, told from their files."""

from __future__ import annotations

import contextlib
import csv
import functools
import os
import re

from gymbuild.cache.digests import digest_bytes
from gymbuild.environments.interpreters import Interpreter, remembered
from gymbuild.system.paths import Checkout

_OF_THIS_PLACE = ("..", "/", "__editable__", "_editable_impl_")
"""What a RECORD says of launchers and editable installs: it holds where they are."""
_CHANGING = (".pth", ".pyc")


def installed(interpreter: Interpreter, checkout: Checkout) -> list[list[str]]:
    """What is installed in an interpreter's own folders, without starting it.

    Returns:
        name and version of each distribution with the digest of what it installed: the hashes of its RECORD,
        without what differs from place to place (launchers, `.pth` files, the installer's own notes).
    """
    found: set[tuple[str, str]] = set()
    for site in interpreter.sites:
        distributions = remembered(
            checkout, f"installed {site}", [site], functools.partial(_distributions, site)
        )
        found.update((name, digest) for name, digest in distributions)
    return [list(item) for item in sorted(found)]


def _distributions(site: str) -> list[tuple[str, str]]:
    with contextlib.suppress(OSError):
        return sorted(
            # installers differ in how they write a name
            (re.sub(r"[-_.]+", "-", name.rsplit(".", 1)[0]).lower(), _record_digest(os.path.join(site, name)))
            for name in os.listdir(site)
            if name.endswith((".dist-info", ".egg-info"))
        )
    return []


def _record_digest(folder: str) -> str:
    left_out = (*_OF_THIS_PLACE, os.path.basename(folder) + "/")
    lines = []
    with (
        contextlib.suppress(OSError, csv.Error, UnicodeDecodeError),
        open(os.path.join(folder, "RECORD"), encoding="utf-8", newline="") as file,
    ):
        for row in csv.reader(file):
            if len(row) > 1 and row[1] and not row[0].startswith(left_out) and not row[0].endswith(_CHANGING):
                lines.append(f"{row[0]} {row[1]}")
    return digest_bytes("\n".join(sorted(lines)).encode())
