"""`cache`, `cache gc`, `cache verify`: how much the store holds, trimming it, and checking it."""

from __future__ import annotations

import re
from typing import Any

from gymbuild.commands.base import GymbuildCommand, usage_error
from gymbuild.config.session import Session
from gymbuild.system.errors import UsageError

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


class Cache(GymbuildCommand):
    """Show, trim or verify the store."""

    name = "cache"
    doc_purpose = "show the store by dataset; `gc` trims it, `verify` checks every object"
    doc_usage = "[gc | verify]"
    cmd_options = (
        {
            "name": "max_size",
            "long": "max-size",
            "type": str,
            "default": "",
            "help": "gc: keep at most this, such as 20G",
        },
        {
            "name": "keep_days",
            "long": "keep-days",
            "type": str,
            "default": "",
            "help": "gc: keep what was used in the last days, such as 30",
        },
    )

    def run(self, session: Session, words: list[str], options: Any) -> int:
        """Do what the word says."""
        if words[:1] == ["gc"]:
            return self._gc(session, options)
        if words == ["verify"]:
            return self._verify(session)
        if words:
            raise usage_error(self, f"{words[0]}: there is `cache`, `cache gc` and `cache verify`.")
        return self._show(session)

    def _show(self, session: Session) -> int:
        from gymbuild.system.text import size_text

        store = session.store
        sizes = {digest: status.st_size for digest, _, status in store.all_objects()}
        by_dataset: dict[str, tuple[int, set[str]]] = {}
        for _, action in store.all_actions():
            count, digests = by_dataset.get(action.dataset, (0, set()))
            digests.update(digest for _, digest in action.outputs)
            by_dataset[action.dataset] = (count + 1, digests)
        width = max((len(name) for name in by_dataset), default=0)
        for name in sorted(by_dataset):
            count, digests = by_dataset[name]
            size = sum(sizes.get(digest, 0) for digest in digests)
            print(
                f"{name:<{width}}  {count:>4} preparation{'s' if count != 1 else ' '}  {size_text(size):>10}"
            )
        total = sum(sizes.values())
        print(f"{len(sizes)} object{'s' if len(sizes) != 1 else ''}, {size_text(total)} in .cache/objects")
        return 0

    def _gc(self, session: Session, options: Any) -> int:
        from gymbuild.cache.collection import collect
        from gymbuild.system.text import size_text

        if not options["max_size"] and not options["keep_days"]:
            raise usage_error(self, "say what to keep: --max-size 20G, --keep-days 30, or both.")
        most = parse_size(options["max_size"]) if options["max_size"] else None
        days = None
        if options["keep_days"]:
            try:
                days = float(options["keep_days"])
            except ValueError:
                raise UsageError(f"--keep-days {options['keep_days']}: must be a number of days.") from None
            if not days >= 0:
                raise UsageError(f"--keep-days {options['keep_days']}: must be 0 or more.")
        objects: set[str] = set()
        actions: set[str] = set()
        for step in session.steps.values():
            step.needed(objects, actions)
        result = collect(session.store, objects, actions, most, days, dry_run=session.settings.dry_run)
        verb = "would remove" if session.settings.dry_run else "removed"
        print(
            f"{verb} {result.objects} object{'s' if result.objects != 1 else ''} ({size_text(result.freed)}) and "
            f"{result.actions} preparation record{'s' if result.actions != 1 else ''}; "
            f"{size_text(result.kept)} kept, {size_text(result.needed)} of it needed by the present graph"
        )
        if most is not None and result.kept > most:
            print(
                f"the present graph needs more than --max-size {options['max_size']}; what it needs is never removed"
            )
        return 0

    def _verify(self, session: Session) -> int:
        from gymbuild.cache.collection import verify

        checked, damaged = verify(session.store)
        for digest in damaged:
            print(f"damaged, dropped: {digest}")
        print(f"{checked} object{'s' if checked != 1 else ''} checked, {len(damaged)} damaged")
        return 1 if damaged else 0


def parse_size(text: str) -> int:
    """A number of bytes such as `20G`, `1.5G`, `500M` or `1000`; powers of 1000.

    Raises:
        UsageError: it is none.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)B?", text.strip(), re.IGNORECASE)
    if not match:
        raise UsageError(f"--max-size {text}: must be a size such as 20G, 1.5G, 500M or 1000.")
    return int(float(match[1]) * _UNITS[match[2].upper()])
