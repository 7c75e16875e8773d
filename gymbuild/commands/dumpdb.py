"""`dumpdb`: what doit has saved of each task; doit's own command has only its own backends."""

from __future__ import annotations

import os
import pprint
from typing import Any

from doit.cmd_base import DoitCmdBase, opt_backend, opt_depfile

from gymbuild.cache.database import Database
from gymbuild.commands.base import reported
from gymbuild.tasks.doit_state import KIND


class DumpDB(DoitCmdBase):  # type: ignore[misc]
    """Print the saved state of every task."""

    name = "dumpdb"
    doc_purpose = "dump what is saved of each task"
    doc_usage = ""
    base_options = (opt_depfile, opt_backend)

    def execute(self, params: Any, args: list[str]) -> Any:
        """Print the records of the database file."""

        def body() -> int:
            for name, value in sorted(Database(os.path.abspath(params["dep_file"])).all(KIND).items()):
                print(f"{name} -> {pprint.pformat(value)}")
            return 0

        return reported(body)
