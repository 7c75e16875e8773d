"""`info TASK`: doit's own, with the reasons in words."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from doit.cmd_info import Info as DoitInfo

from gymbuild.commands.base import open_session, reported
from gymbuild.commands.why import explanations
from gymbuild.system.errors import UsageError
from gymbuild.tasks.decision import decide
from gymbuild.tasks.selection import select, unknown_text


class Info(DoitInfo):  # type: ignore[misc]
    """Show what a task is made from, and why it is stale; builds nothing."""

    name = "info"

    def execute(self, params: Any, args: list[str]) -> Any:
        """doit's entry."""

        def body() -> Any:
            self.loader.setup(params)
            session = open_session()
            session.named = tuple(args)
            words = list(args)
            chosen = select(session, words[:1])
            if chosen.unknown:
                raise UsageError(unknown_text(session, words[0]))
            group, colon, name = words[0].partition(":") if words else ("", "", "")
            if colon and group in session.steps:
                words[0] = f"{group}:{session.steps[group].name_of(name) or name}"
            result = super(Info, self).execute(params, words) if not chosen.problems else 0
            if not params.get("hide_status") and (chosen.tasks or chosen.problems):
                self.outstream.write("\n")
                for text in explanations(session, decide(session, words), words):
                    self.outstream.write(text + "\n")
            return result

        return reported(body)

    @staticmethod
    def get_reasons(reasons: Any) -> str:
        """doit's reasons, without the functions that decide for us: ours follow in words."""
        others = {key: value for key, value in reasons.items() if key != "uptodate_false"}
        return str(DoitInfo.get_reasons(defaultdict(list, others)))
