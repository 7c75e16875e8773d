"""Calls of the functions of prepare scripts, each in the environment that its dataset needs."""

from __future__ import annotations

from collections.abc import Callable

from gymbuild.config.graph import Preparation
from gymbuild.config.settings import Settings
from gymbuild.environments.build import build_environment, venv_python
from gymbuild.environments.environment import Environment
from gymbuild.preparation.isolated_run import IsolatedRun, run_isolated
from gymbuild.preparation.script import IS_CURRENT, PREPARE
from gymbuild.system.paths import Checkout, file_name

Say = Callable[[str], None]


class Scripts:
    """The prepare scripts of one checkout.

    Args:
        checkout: the checkout.
        settings: of the command line.
        label_lines: put the dataset's name before each line that a script prints (several run at once).
    """

    def __init__(self, checkout: Checkout, settings: Settings, *, label_lines: bool = False) -> None:
        self._checkout = checkout
        self._settings = settings
        self._label_lines = label_lines

    def log_path(self, preparation: Preparation) -> str:
        """Where the output of a preparation's script goes, relative to the checkout."""
        return self._checkout.relative(self._checkout.cached("logs", file_name(preparation.name) + ".log"))

    def call(
        self, preparation: Preparation, environment: Environment, say: Say, action: str = PREPARE
    ) -> IsolatedRun:
        """The call of a script's function, with its environment built.

        Args:
            preparation: whose script.
            environment: that it runs in.
            say: told what a person should know.
            action: the function's name.

        Raises:
            PreparationFailedError: the environment cannot be built.
        """
        dataset, venv_dir = preparation.dataset, self._settings.uv_venv_dir
        build_environment(
            environment,
            self._checkout,
            module=preparation.module,
            venv_dir=venv_dir,
            offline=self._settings.offline,
            report=say,
        )
        return IsolatedRun(
            python=venv_python(environment, self._checkout, venv_dir),
            checkout=self._checkout,
            script=preparation.script,
            script_root=dataset.script_root,
            module=preparation.module,
            action=action,
            args=dataset.args,
            expected=dataset.jsonl_fpath,
            outputs=dataset.prepare_outputs,
            log=self.log_path(preparation),
            label=preparation.name if self._label_lines else None,
            timeout=dataset.prepare_timeout,
            offline=self._settings.offline,
            excluded=(venv_dir,) if venv_dir else (),
        )

    def is_current(self, preparation: Preparation, environment: Environment, say: Say) -> bool:
        """What the script's `is_prepared_data_current` says of the present output."""
        return bool(run_isolated(self.call(preparation, environment, say, IS_CURRENT)).returned)
