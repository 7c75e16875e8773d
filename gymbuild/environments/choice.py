"""Which environment a dataset's script has, and what proves that this has not changed."""

from __future__ import annotations

import os

from gymbuild.cache.digests import digest_json
from gymbuild.config.datasets import Dataset
from gymbuild.environments.distributions import installed
from gymbuild.environments.environment import Environment
from gymbuild.environments.interpreters import (
    Interpreter,
    NoInterpreterError,
    checkout_interpreter,
    fitting_interpreter,
    search_variables,
    witness_paths,
)
from gymbuild.environments.lock_files import PROJECT_LOCK, REQUIREMENTS_LOCK, recipe_for
from gymbuild.environments.recipe import Recipe
from gymbuild.environments.sources import PROJECT, tree_paths
from gymbuild.system.errors import ConfigError, UsageError
from gymbuild.system.paths import Checkout

_FORMAT = "gymbuild-environment-1"


def environment_for(dataset: Dataset, checkout: Checkout, *, python: str | None = None) -> Environment:
    """The environment of a dataset's script. Nothing is built.

    An interpreter is started, or searched for, only when it was not seen before as it is now.

    Args:
        dataset: one with a prepare script.
        checkout: where its files are.
        python: the setting `python`, a path or a version.

    Raises:
        ConfigError: a lock is missing or is none, or no interpreter here fits what a file asks for.
        UsageError: no interpreter here fits the setting `python`.
    """
    recipe = recipe_for(dataset, checkout)
    request = _request(recipe, python)
    interpreter = _interpreter(recipe, request, checkout)
    assert dataset.prepare_script is not None
    if recipe.kind == "interpreter":
        content: object = installed(interpreter, checkout)
        title = f"{checkout.relative(interpreter.path)} (Python {interpreter.version})"
    else:
        content, title = recipe.content, f"{recipe.title} (Python {interpreter.version})"
    return Environment(
        key=digest_json([_FORMAT, recipe.kind, interpreter.identity(), content]),
        kind=recipe.kind,
        lock=recipe.lock,
        python=interpreter.path if recipe.kind == "interpreter" else None,
        title=title,
        inputs=recipe.inputs,
        editable=recipe.editable,
        script=dataset.prepare_script,
        interpreter=interpreter.path,
        version=interpreter.version,
        words=recipe.words,
        trees=recipe.trees,
        sites=interpreter.sites if recipe.kind == "interpreter" else (),
    )


def environment_paths(env: Environment, checkout: Checkout) -> list[str]:
    """The files and folders that prove, by `stat` alone, that `environment_for` would give the same answer.

    Not among them, because no file holds it: the setting `python`, the Python that gymbuild runs on, and
    `environment_variables`.

    Returns:
        paths, relative to the checkout when inside it.
    """
    folder = os.path.dirname(env.script)
    paths = list(env.inputs)
    if env.kind != "dependencies":
        names = (PROJECT, PROJECT_LOCK, REQUIREMENTS_LOCK)
        paths += [os.path.join(folder, name) for name in names] + [env.script, env.script + ".lock"]
    for tree in env.trees:
        paths += tree_paths(checkout.absolute(tree))
    for editable in (*env.editable, *env.trees):
        paths += [os.path.join(editable, name) for name in (PROJECT, "setup.cfg", "setup.py")]
    paths += witness_paths(env.interpreter)
    if env.kind == "interpreter":
        paths += [checkout_interpreter(checkout), *env.sites]
    return list(dict.fromkeys(checkout.relative(path) for path in paths))


def environment_variables(env: Environment, checkout: Checkout) -> tuple[str, ...]:
    """The environment variables that the interpreter was found by; none where it took no search."""
    return search_variables(env.interpreter, checkout)


def _request(recipe: Recipe, python: str | None) -> str | None:
    if recipe.kind == "interpreter":
        return python
    if recipe.kind == "dependencies":
        # an editable project's own requires-python only stands in for a person's word
        return python or recipe.requires_python
    return recipe.requires_python or python or recipe.locked_python


def _interpreter(recipe: Recipe, request: str | None, checkout: Checkout) -> Interpreter:
    try:
        return fitting_interpreter(request, checkout, near=recipe.kind == "interpreter")
    except NoInterpreterError as error:
        if request in (recipe.requires_python, recipe.locked_python) and request is not None:
            raise ConfigError(
                f"it requires Python {request}, and {error}. Install such a Python, or put it on PATH.",
                file=recipe.requires_file if request == recipe.requires_python else recipe.lock,
                key="requires-python",
            ) from None
        raise UsageError(
            f"python={request}: {error}. Give the path of a Python that is there, or a version that is installed."
        ) from None
