"""Which folder a command line is about. Imported by every start, so it imports next to nothing."""

from __future__ import annotations

import os
from typing import Any


def checkout_of(params: Any) -> str:
    """doit's `--dir`, or the folder of its dodo.py."""
    return str(params.get("cwdPath") or os.path.dirname(os.path.abspath(params.get("dodoFile") or "dodo.py")))
