"""`dumpdb`: what doit has saved of each task; doit's own command knows only its own backends."""

from __future__ import annotations

import pprint
from typing import Any

from doit.cmd_base import DoitCmdBase, opt_backend, opt_depfile

from gymbuild.cache.record_log import RecordLog
from gymbuild.commands.base import guarded


class DumpDB(DoitCmdBase):  # type: ignore[misc]
    """Print the saved state of every task."""

    name = "dumpdb"
    doc_purpose = "dump what is saved of each task"
    doc_usage = ""
    base_options = (opt_depfile, opt_backend)

    def execute(self, params: Any, args: list[str]) -> Any:
        """Print the records of the database file."""

        def body() -> int:
            log = RecordLog(params["dep_file"])
            for name in sorted(log.keys()):
                print(f"{name} -> {pprint.pformat(log.get(name))}")
            return 0

        return guarded(body)
