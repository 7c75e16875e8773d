"""What a plan says of the checkout that it was made in: its version and, when asked for, its commit."""

from __future__ import annotations

import re

from gymbuild.system.git import commit_of
from gymbuild.system.paths import Checkout


def gym_version(checkout: Checkout) -> str:
    """The checkout's version: of its `nemo_gym/package_info.py`, else of its pyproject.toml, else `0.0.0`."""
    try:
        with open(checkout.absolute("nemo_gym/package_info.py"), encoding="utf-8") as file:
            found = _package_version(file.read())
        if found:
            return found
    except (OSError, ValueError):
        pass
    try:
        import tomllib

        with open(checkout.absolute("pyproject.toml"), "rb") as binary:
            version = tomllib.load(binary).get("project", {}).get("version")
        if isinstance(version, str):
            return version
    except (OSError, ValueError, AttributeError):
        pass
    return "0.0.0"


def _package_version(source: str) -> str | None:
    """`__version__` of a package_info module, read without running it: a literal, or made of MAJOR, MINOR, …"""
    names = dict(re.findall(r"^(\w+)\s*=\s*[\"']?([\w.+-]*)[\"']?\s*(?:#.*)?$", source, re.MULTILINE))
    if re.fullmatch(r"\d[\w.+-]*", names.get("__version__", "")):
        return str(names["__version__"])
    if {"MAJOR", "MINOR", "PATCH"} <= names.keys():
        return f"{names['MAJOR']}.{names['MINOR']}.{names['PATCH']}{names.get('PRE_RELEASE', '')}"
    return None


def gym_commit(checkout: Checkout) -> str | None:
    """The commit of the checkout where it is the top of a git work tree, `-dirty` appended when a tracked file differs.

    Raises:
        GitOwnershipError: git refuses to read the checkout for this user.
    """
    return commit_of(checkout.root)
