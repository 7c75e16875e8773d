"""`info TASK`: doit's own, with the reasons in words."""

from __future__ import annotations

from typing import Any

from doit.cmd_info import Info as DoitInfo

from gymbuild.commands.base import guarded, open_session
from gymbuild.system.errors import UsageError
from gymbuild.tasks.selection import nearest, select


class Info(DoitInfo):  # type: ignore[misc]
    """Show what is known of a task, and why it is stale; builds nothing."""

    name = "info"

    def execute(self, params: Any, args: list[str]) -> Any:
        """doit's entry."""

        def body() -> Any:
            from gymbuild.commands.why import plan_text, preparation_text

            self.loader.setup(params)
            session = open_session()
            session.named = tuple(args)
            words = list(args)
            chosen = select(session.graph, words[:1])
            if chosen.unknown:
                near = nearest(session.graph, words[0])
                hint = f" The nearest are {', '.join(near)}." if near else ""
                raise UsageError(f"{words[0]}: there is no such task.{hint}")
            if words and words[0].startswith("prepare:") and chosen.preparations:
                words[0] = "prepare:" + next(iter(chosen.preparations))
            result = super(Info, self).execute(params, words)
            if not params.get("hide_status") and (chosen.preparations or chosen.problems):
                decided = session.decide(words)
                write = self.outstream.write
                write("\n")
                for task, problems in {**decided.named_problems, **decided.skipped}.items():
                    write(f"{task} cannot be built:\n" + "".join(f"  {text}\n" for text in problems))
                for name in {**decided.stale, **decided.current}:
                    write(preparation_text(session, decided, name) + "\n")
                for name in decided.selection.plans:
                    write(plan_text(session, decided, name) + "\n")
            return result

        return guarded(body)

    @staticmethod
    def get_reasons(reasons: Any) -> str:
        """doit's reasons, without the functions that decide for us: ours follow in words."""
        kept = {key: value for key, value in reasons.items() if key != "uptodate_false"}
        from collections import defaultdict

        return str(DoitInfo.get_reasons(defaultdict(list, kept)))
