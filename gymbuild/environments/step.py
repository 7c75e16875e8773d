"""The step `venv`: isolated environments of prepare scripts, built when a script has to run."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable
from functools import cached_property
from typing import Any

from gymbuild.config.graph import Preparation
from gymbuild.config.step import Say, State, Step
from gymbuild.environments.build import build_environment, is_built, venv_path
from gymbuild.environments.choice import environment_for
from gymbuild.environments.environment import Environment
from gymbuild.system.errors import GymbuildError, PreparationFailedError
from gymbuild.system.locks import lock


class VenvStep(Step):
    """Builds the environments of one checkout: `venv:<kind>-<key>`."""

    group = "venv"
    doc = "isolated environments of prepare scripts, built when a script has to run"
    listed = False

    @cached_property
    def _environments(self) -> dict[str, Environment | GymbuildError]:
        return {}

    def environment(self, preparation: Preparation) -> Environment:
        """The environment of a preparation's script.

        Raises:
            GymbuildError: it cannot be told, such as inline metadata without its lock.
        """
        session, name = self.session, preparation.name
        if name not in self._environments:
            try:
                self._environments[name] = environment_for(
                    preparation.dataset,
                    session.checkout,
                    python=session.settings.python,
                )
            except GymbuildError as error:
                self._environments[name] = error
        found = self._environments[name]
        if isinstance(found, GymbuildError):
            raise found
        return found

    def _of(self, name: str) -> tuple[Environment, list[Preparation]]:
        """An environment with those that use it: of the preparations that were looked up, else of all."""
        users = [
            self.session.graph.preparations[user]
            for user, environment in self._environments.items()
            if isinstance(environment, Environment) and environment.name == name
        ]
        users = users or self._users[name]
        return self.environment(users[0]), users

    @cached_property
    def _users(self) -> dict[str, list[Preparation]]:
        """The preparations by the names of their environments."""
        users: dict[str, list[Preparation]] = {}
        for preparation in self.session.graph.preparations.values():
            with contextlib.suppress(GymbuildError):
                users.setdefault(self.environment(preparation).name, []).append(preparation)
        return dict(sorted(users.items()))

    def names(self) -> Iterable[str]:
        """Every environment that scripts of the graph run in."""
        return self._users

    def title(self, name: str) -> str:
        """What it is made of."""
        return self._of(name)[0].title

    def assess(self, name: str) -> State:
        """Whether it is there and whole."""
        built = is_built(self._of(name)[0], self.session.checkout, venv_dir=self.session.settings.uv_venv_dir)
        return State(built, (), "build")

    def run(self, name: str, say: Say) -> str:
        """Build it, for all the scripts that share it.

        Raises:
            PreparationFailedError: it cannot be built; every preparation that needs it has failed.
        """
        session = self.session
        environment, users = self._of(name)
        try:
            build_environment(
                environment,
                session.checkout,
                module=users[0].module,
                venv_dir=session.settings.uv_venv_dir,
                offline=session.settings.offline,
                report=say,
            )
        except PreparationFailedError as error:
            preparer: Any = session.steps["prepare"].preparer
            for preparation in users:
                preparer.fail_environment(preparation, error)
            raise
        return "built"

    def clean(self, name: str, say: Say, dry_run: bool) -> None:
        """Remove it, once no script runs in it."""
        environment, session = self._of(name)[0], self.session
        if environment.python is not None:
            return
        path = venv_path(environment, session.checkout, session.settings.uv_venv_dir)
        if not os.path.isdir(path):
            return
        with contextlib.ExitStack() as stack:
            for task in sorted(f"prepare:{item.name}" for item in self._users[name]):
                stack.enter_context(
                    lock(
                        session.checkout,
                        task,
                        waiting=lambda who: say(f"venv:{name} is in use by {who}; waiting for it"),
                    )
                )
            if not dry_run:
                shutil.rmtree(path, ignore_errors=True)
        say(f"{'would remove' if dry_run else 'removed'} {session.checkout.relative(path)}")
