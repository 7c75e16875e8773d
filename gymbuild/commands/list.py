"""`list`: doit's own, over every task of the checkout."""

from __future__ import annotations

from typing import Any

from doit.cmd_list import List as DoitList

from gymbuild.commands.base import open_session, reported


class List(DoitList):  # type: ignore[misc]
    """List tasks; asking for their status builds nothing."""

    name = "list"

    def execute(self, params: Any, args: list[str]) -> Any:
        """doit's entry."""

        def body() -> Any:
            self.loader.setup(params)
            session = open_session()
            session.named = tuple(args)
            result = super(List, self).execute(params, args)
            for name, error in session.graph.problems.items():
                if not args and params.get("subtasks"):
                    self.outstream.write(f"{name} cannot be built: {error}\n")
            return result

        return reported(body)
