"""The environment variables of a prepare script."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from gymbuild.system.processes import REPOSITORY_VARIABLES

_LEAKS = frozenset(
    [
        "VIRTUAL_ENV",
        "VIRTUAL_ENV_PROMPT",
        "PYTHONHOME",
        "PYTHONPATH",
        "PYTHONEXECUTABLE",
        "PYTHONPLATLIBDIR",
        "PYTHONINSPECT",
        "PYTHONSTARTUP",
        "PYTHONSAFEPATH",
        "__PYVENV_LAUNCHER__",
        "PIPENV_ACTIVE",
        "POETRY_ACTIVE",
        "GYMBUILD_OBSERVED_RUN",
        "UV_ENV_FILE",
        "UV_ISOLATED",
        "UV_MANAGED_PYTHON",
        "UV_NO_MANAGED_PYTHON",
        "UV_NO_PROJECT",
        "UV_NO_SYNC",
        "UV_PROJECT",
        "UV_PROJECT_ENVIRONMENT",
        "UV_PYTHON",
        "UV_RUN_RECURSION_DEPTH",
        "UV_SYSTEM_PYTHON",
        "UV_TARGET",
        "UV_WORKING_DIR",
        "UV_WORKING_DIRECTORY",
    ]
)
"""Variables that say where *our* Python, virtual environment or uv project is."""

OFFLINE_VARIABLES: Mapping[str, str] = {
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_EVALUATE_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "UV_OFFLINE": "1",
    "PIP_NO_INDEX": "1",
}
"""What tells the usual clients that nothing may use the network."""


def script_environment(
    python: str,
    root: str,
    *,
    offline: bool = False,
    environment: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The variables of a script: the user's, without what would lead it into gymbuild's own environment.

    Args:
        python: the interpreter of the script's environment; its folder comes first in PATH, and where it is a
            virtual environment it is the active one.
        root: the checkout, which the script runs in.
        offline: nothing may use the network.
        environment: the user's variables; default this process's own.
    """
    source = os.environ if environment is None else environment
    variables = {
        name: value
        for name, value in source.items()
        if name not in _LEAKS and name not in REPOSITORY_VARIABLES
    }
    folder = os.path.dirname(os.path.abspath(python))
    ours = {os.path.dirname(os.path.abspath(sys.executable))} if sys.prefix != sys.base_prefix else set()
    if source.get("VIRTUAL_ENV"):
        ours.add(os.path.join(os.path.abspath(source["VIRTUAL_ENV"]), "bin"))
    if sys.prefix != sys.base_prefix:
        ours.add(os.path.join(sys.prefix, "bin"))
    search = [
        path
        for path in source.get("PATH", os.defpath).split(os.pathsep)
        if not path or os.path.abspath(path) not in ours
    ]
    variables["PATH"] = os.pathsep.join([folder, *(path for path in search if path != folder)])
    prefix = os.path.dirname(folder)
    if os.path.exists(os.path.join(prefix, "pyvenv.cfg")):
        variables["VIRTUAL_ENV"] = prefix
    variables["PWD"] = root
    variables["PYTHONUNBUFFERED"] = "1"
    variables["PYTHONUTF8"] = "1"  # what a script reads and writes must not depend on the locale
    if offline:
        variables.update(OFFLINE_VARIABLES)
    return variables
