"""Builds the optional native modules, when the machine has a C compiler.

A build hook of hatchling. Nothing needs the modules: without them all is the same and takes longer, so that no
failure here fails the build. `GYMBUILD_NATIVE=0` leaves them out; `GYMBUILD_NATIVE=1` makes a failure an error.
A wheel that has them fits Python 3.11 and newer (limited API) on the machine's platform; one without it fits all.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import zlib
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # imported for `compile_native` alone, by tests and by hand
    BuildHookInterface = object

MODULES = {
    "gymbuild/cache/_signatures.c": "gymbuild/cache/_signatures.abi3.so",
    "gymbuild/plan/_native.c": "gymbuild/plan/_native.abi3.so",
}
"""Sources and what is made of them."""


def compile_native(source: str, target: str) -> str | None:
    """Compile a module.

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
        digest = f"{zlib.crc32(file.read()):08x}"
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
    """Puts the modules into the wheel, or beside their sources where the install is editable."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and tell hatchling what was made."""
        wanted = os.environ.get("GYMBUILD_NATIVE", "")
        made = [module for source, module in MODULES.items() if self._make(source, module, wanted)]
        if made:
            build_data["artifacts"] += made
            build_data["pure_python"] = False
            platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["tag"] = f"cp311-abi3-{platform}"

    def _make(self, source: str, module: str, wanted: str) -> bool:
        """Compile one, and whether it is there then."""
        target = os.path.join(self.root, module)
        if wanted != "0":
            reason = compile_native(os.path.join(self.root, source), target)
            if reason is None:
                return True
            if wanted == "1":
                raise RuntimeError(f"GYMBUILD_NATIVE=1, and {source} cannot be compiled: {reason}")
            self.app.display_warning(f"gymbuild is built without {module}: {reason}")
        if os.path.exists(target):
            os.unlink(target)
        return False
