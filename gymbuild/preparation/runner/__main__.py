"""The start of the runner: loads its modules under names that hide none of the script's."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FOLDER = os.path.dirname(os.path.abspath(__file__))
PACKAGE = "_gymbuild_runner"
LIFELINE = os.path.join(os.path.dirname(os.path.dirname(FOLDER)), "system", "lifeline.py")


def load(name: str) -> Any:
    """A module of the runner, as a module of the package `_gymbuild_runner`."""
    if PACKAGE not in sys.modules:
        package: Any = type(sys)(PACKAGE)
        package.__path__ = [FOLDER]
        sys.modules[PACKAGE] = package
    name = PACKAGE + "." + name
    __import__(name)
    return sys.modules[name]


def load_lifeline() -> Any:
    """The module that watches the lifeline."""
    external: Any = sys.modules["_frozen_importlib_external"]
    module = type(sys)(PACKAGE + ".lifeline")
    external.SourceFileLoader(module.__name__, LIFELINE).exec_module(module)
    return module


if __name__ == "__main__":
    if sys.path and os.path.abspath(sys.path[0] or ".") == FOLDER:
        del sys.path[0]
    sys.exit(load("call").main(sys.argv[1], int(sys.argv[2]), load_lifeline().watch))
