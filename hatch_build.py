"""Builds the optional native module of the plan, `gymbuild.plan._native`, when the machine has a C compiler.

A build hook of hatchling. Nothing needs the module: without it plans are the same and take longer, so that no
failure here fails the build. `GYMBUILD_NATIVE=0` leaves it out; `GYMBUILD_NATIVE=1` makes a failure an error.
A wheel that has it fits Python 3.11 and newer (limited API) on the machine's platform; one without it fits all.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # imported for `compile_native` alone, by tests and by hand
    BuildHookInterface = object

SOURCE = "gymbuild/plan/_native.c"
MODULE = "gymbuild/plan/_native.abi3.so"


def compile_native(source: str, target: str) -> str | None:
    """Compile the module.

    Args:
        source: the C file.
        target: the module's file.

    Returns:
        None, or why there is no module.
    """
    if sys.implementation.name != "cpython" or os.name != "posix":
        return "it is for CPython on Linux and macOS"
    headers = sysconfig.get_path("include")
    if not os.path.exists(os.path.join(headers, "Python.h")):
        return f"{headers} has no Python.h"
    candidates = [os.environ.get("CC"), sysconfig.get_config_var("CC"), "cc", "gcc", "clang"]
    compiler = next(
        (words for text in candidates if text and shutil.which((words := shlex.split(text))[0])), None
    )
    if compiler is None:
        return "there is no C compiler"
    with open(source, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    link = ["-bundle", "-undefined", "dynamic_lookup"] if sys.platform == "darwin" else ["-shared"]
    partial = f"{target}.{os.getpid()}"
    words = [*compiler, "-O2", "-fPIC", "-fvisibility=hidden", f'-DSOURCE="{digest}"', f"-I{headers}", *link]
    done = subprocess.run(
        [*words, source, "-o", partial], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        if os.path.exists(partial):
            os.unlink(partial)
        return f"{compiler[0]} failed:\n{done.stderr}"
    os.replace(partial, target)
    return None


class CustomBuildHook(BuildHookInterface):  # type: ignore[misc, unused-ignore]
    """Puts the module into the wheel, or beside its source where the install is editable."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and tell hatchling what was made."""
        wanted = os.environ.get("GYMBUILD_NATIVE", "")
        target = os.path.join(self.root, MODULE)
        reason = None if wanted == "0" else compile_native(os.path.join(self.root, SOURCE), target)
        if (wanted == "0" or reason is not None) and os.path.exists(target):
            os.unlink(target)
        if wanted == "0":
            return
        if reason is not None:
            if wanted == "1":
                raise RuntimeError(f"GYMBUILD_NATIVE=1, and the native module cannot be built: {reason}")
            self.app.display_warning(f"gymbuild is built without its native module: {reason}")
            return
        build_data["artifacts"].append(MODULE)
        build_data["pure_python"] = False
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"cp311-abi3-{platform}"
