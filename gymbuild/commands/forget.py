"""`forget [TASK …]`: doit's own; a forgotten preparation runs its script again, the store is not asked."""

from __future__ import annotations

from typing import Any

from doit.cmd_forget import Forget as DoitForget

from gymbuild.commands.base import guarded, open_session


class Forget(DoitForget):  # type: ignore[misc]
    """Forget that tasks were done."""

    name = "forget"

    def execute(self, params: Any, args: list[str]) -> Any:
        """doit's entry."""

        def body() -> Any:
            from gymbuild.tasks import remembering

            self.loader.setup(params)
            session = open_session()
            session.named = tuple(args)
            names = [session.graph.preparation_of(word[8:]) for word in args if word.startswith("prepare:")]
            words = [
                f"prepare:{found.name}"
                if word.startswith("prepare:") and (found := session.graph.preparation_of(word[8:]))
                else word
                for word in args
            ]
            result = super(Forget, self).execute(params, words)
            if params.get("forget_all") or "prepare" in words:
                chosen = list(session.graph.preparations.values())
            else:
                chosen = [found for found in names if found is not None]
            plans = (
                list(session.graph.benchmarks)
                if params.get("forget_all") or "plan" in words or not args
                else [word[5:] for word in words if word.startswith("plan:")]
            )
            state = session.preparer.state
            state.put(
                [("forgotten:" + item.dataset.jsonl_fpath, True) for item in chosen]
                + [
                    (
                        "plan:"
                        + session.checkout.relative(session.planner.path(session.graph.benchmarks[name])),
                        None,
                    )
                    for name in plans
                    if name in session.graph.benchmarks
                ]
            )
            remembering.forget(session)
            return result

        return guarded(body)
