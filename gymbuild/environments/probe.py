"""What a Python says of itself. Standard library only, Python 3.9 and newer: it runs inside any interpreter."""

from __future__ import annotations

import json
import os
import platform
import site
import sys
import sysconfig


def facts() -> dict[str, object]:
    """What decides which packages fit this interpreter, and where it has them installed."""
    sites = list(site.getsitepackages())
    if site.ENABLE_USER_SITE:
        sites.append(site.getusersitepackages())
    return {
        "path": os.path.abspath(sys.executable),
        "implementation": sys.implementation.name,
        "version": platform.python_version(),
        # tells glibc from musl and free-threaded builds from others
        "abi": sysconfig.get_config_var("SOABI") or "",
        "platform": sysconfig.get_platform(),
        "machine": platform.machine(),
        "sites": sorted(set(map(os.path.abspath, sites))),
    }


if __name__ == "__main__":
    json.dump(facts(), sys.stdout)
