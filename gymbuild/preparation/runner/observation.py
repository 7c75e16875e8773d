"""Observation of a whole process, and of the Python processes that it starts."""

from __future__ import annotations

import os
import sys

from .audit import audit_hook
from .functions import HOOK_FOLDER, add_hook, wrap_functions
from .imports import ScriptFinder, find_module, import_module_of, watch_imports
from .recorder import Recorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

SETTINGS_FILE = "observe"
"""In the run's folder: checkout, the folder, script, then path prefixes that are not inputs; NUL between them."""


def observe(root: str, folder: str, script_root: str, script: str, excluded: Iterable[str]) -> Recorder:
    """Observe this process, and the Python processes that it will start, from now on.

    Args:
        root: the checkout, real path.
        folder: the run's folder; holds the `hook` folder.
        script_root: the root that the script is of: the checkout or another one, real path.
        script: the prepare script, relative to that root.
        excluded: absolute path prefixes that are not inputs.
    """
    prefixes = [sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix]
    outside = [path for path in prefixes if not (root + "/").startswith(path.rstrip("/") + "/")]
    runner = os.path.dirname(os.path.abspath(__file__))
    recorder = Recorder(root, folder, [*excluded, folder, runner, *outside], script_root)
    watch_imports(recorder)
    ScriptFinder(script_root, script).install()
    wrap_functions(recorder)
    sys.addaudithook(audit_hook(recorder))
    add_hook(os.environb, folder)
    return recorder


def observe_child(folder: str) -> None:
    """Observe a Python process that the script started; called by `sitecustomize`, which it then replaces.

    Args:
        folder: the run's folder.
    """
    hook = folder + "/" + HOOK_FOLDER
    sys.path[:] = [path for path in sys.path if path != hook]
    sys.path_importer_cache.pop(hook, None)
    try:
        with open(folder + "/" + SETTINGS_FILE, "rb") as file:
            root, _, script_root, script, *excluded = os.fsdecode(file.read()).split("\0")
        observe(root, folder, script_root, script, excluded)
    except OSError:
        pass  # the run is over; whoever is still there is no longer observed
    # the environment's own sitecustomize, which ours hides
    spec = find_module("sitecustomize")
    if spec is not None and spec.loader is not None:
        import_module_of(spec)
