"""`eval-config NAME | FILE …`: the fully resolved config of benchmarks, suites or files."""

from __future__ import annotations

import sys
from typing import Any

from gymbuild.commands.base import GymbuildCommand
from gymbuild.config.session import Session


class EvalConfig(GymbuildCommand):
    """Print the resolved config."""

    name = "eval-config"
    doc_purpose = "print what configs resolve to together, as YAML"
    doc_usage = "NAME | FILE ..."
    doc_description = (
        "Takes names of benchmarks and config files; a later one overrides an earlier. Missing values stay `???`; "
        "values of environment variables that look like secrets are shown as ***."
    )

    def run(self, session: Session, words: list[str], options: Any) -> int:
        """Print what the words resolve to together."""
        from gymbuild.config.eval_config import eval_config

        settings = session.settings
        sys.stdout.write(
            eval_config(
                session.checkout,
                [*(settings.config_paths or ()), *words],
                search_dirs=settings.search_dirs,
                allow_outside=settings.allow_outside,
            )
        )
        return 0
