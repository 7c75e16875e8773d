"""What a plan says of the checkout that it was made in: its version and, when asked for, its commit."""

from __future__ import annotations

import os
import re
import subprocess

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
    """The commit of the git work tree whose top is the checkout, `-dirty` appended when a tracked file differs.

    None when the checkout is not such a top: the commit of a repository around it would change with files that
    have nothing to do with the checkout. What a hook's environment says about git (`GIT_DIR`, …) is not
    listened to: it may mean another repository.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}

    def git(*words: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", "-C", checkout.root, *words],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                stdin=subprocess.DEVNULL,
                env=environment,
                check=False,
            )
        except OSError:
            return None
        return os.fsdecode(done.stdout) if done.returncode == 0 else None

    top = git("rev-parse", "--show-toplevel")
    if top is None or os.path.realpath(top.removesuffix("\n")) != checkout.root:
        return None
    commit = git("rev-parse", "--verify", "-q", "HEAD")
    if commit is None:
        return None
    changed = git("status", "--porcelain", "--untracked-files=no", "--ignore-submodules=none")
    return commit.strip() + ("-dirty" if changed else "")
