"""The fully resolved config as YAML: interpolations resolved, `???` kept, secrets masked."""

from __future__ import annotations

import base64
import difflib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any
from urllib.parse import quote

from gymbuild.config.catalog import load_catalog, resolve_configs
from gymbuild.config.declared import dotted
from gymbuild.config.dialect.interpolation import Interpolations, TooMuchError, UnresolvableError
from gymbuild.config.dialect.merging import MOST_VALUES, too_many_values
from gymbuild.config.dialect.yaml_files import FLOAT_PATTERN
from gymbuild.system.errors import ConfigError, UsageError
from gymbuild.system.masking import MASK, is_secret_name, mask, secret_values
from gymbuild.system.paths import Checkout

_LONG = 8
"""Characters of a secret that is masked also where the config has it of its own, in no interpolation."""


def eval_config(
    checkout: Checkout,
    words: Sequence[str],
    *,
    search_dirs: Sequence[str] = (),
    overrides: Mapping[str, Any] | None = None,
    allow_outside: bool = False,
) -> str:
    """What benchmarks or config files resolve to together, as YAML.

    Args:
        checkout: where they are.
        words: benchmark names, or config files; a later one overrides an earlier.
        search_dirs: roots searched before the checkout.
        overrides: settings that override every config.
        allow_outside: whether datasets may name paths outside the checkout.

    Returns:
        the text, the same for the same files and variables: keys in the config's order, interpolations that
        lead nowhere as they are written; `***` for what reads a variable that looks like a secret.

    Raises:
        UsageError: a word that is neither a benchmark nor a file, with the nearest names.
        ConfigError: configs that cannot be used.
    """
    if not words:
        raise UsageError("eval-config takes the names of benchmarks, or config files.")
    paths = [
        config_path_of(checkout, word, search_dirs=search_dirs, allow_outside=allow_outside) for word in words
    ]
    resolved = resolve_configs(
        checkout, paths, search_dirs=search_dirs, overrides=overrides, allow_outside=allow_outside
    )
    return to_yaml(render(resolved.config, file=resolved.config_files[0]))


def config_path_of(
    checkout: Checkout, word: str, *, search_dirs: Sequence[str] = (), allow_outside: bool = False
) -> str:
    """The config file that a word names: a benchmark by its name, else a file.

    Raises:
        UsageError: it is neither, with the nearest names.
    """
    catalog = load_catalog(checkout, search_dirs=search_dirs, allow_outside=allow_outside)
    benchmark = catalog.benchmarks.get(word)
    if benchmark is not None:
        return os.path.join(benchmark.root, benchmark.config_path)
    problem = catalog.problems.get(word)
    if problem is not None:
        raise problem
    if word.endswith(".yaml"):
        return word
    near = difflib.get_close_matches(word, [*catalog.benchmarks, *catalog.problems], n=3, cutoff=0.5)
    hint = (
        f"did you mean {' or '.join(near)}?"
        if near
        else "gymbuild benchmarks lists them; files end in .yaml."
    )
    raise UsageError(f"there is no benchmark {word!r}; {hint}")


def render(config: dict[Any, Any], *, file: str | None = None) -> dict[Any, Any]:
    """The config with every interpolation resolved that can be, and secrets masked; it is not changed.

    Args:
        config: as `Resolved.config`.
        file: the config that was asked for, for errors.

    Raises:
        ConfigError: resolved, it is larger than a config may be, or it holds more interpolations.
    """
    interpolations = Interpolations(config, most_nodes=MOST_VALUES)
    values = secret_values()
    # a short one may well be a word that the config has of its own
    long = sorted(
        {form for value in values if len(value) >= _LONG for form in _forms(value)}, key=_longest_first
    )
    left = MOST_VALUES

    def value_of(value: Any, path: tuple[Any, ...], inside: frozenset[int]) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise too_many_values(file, dotted(path))
        if isinstance(value, dict | list):
            if id(value) in inside:
                return f"${{{'.'.join(map(str, path))}}}"
            deeper = inside | {id(value)}
            if isinstance(value, dict):
                return {
                    _masked(key, long): value_of(item, (*path, key), deeper) for key, item in value.items()
                }
            return [value_of(item, (*path, number), deeper) for number, item in enumerate(value)]
        if not isinstance(value, str) or "${" not in value:
            return _masked(value, long)
        target = interpolations.follow(value)
        if target is not None:
            return _masked(value, long) if id(target) in inside else value_of(target, path, inside)
        interpolations.variables.clear()
        try:
            found = interpolations.resolve(path)
        except TooMuchError as error:
            raise ConfigError(f"it cannot be resolved: {error}.", file=file, key=dotted(path)) from None
        except (UnresolvableError, LookupError):
            return _masked(value, long)
        read = interpolations.variables
        # whatever way it came here, and whatever was made of it; a default is written in the config for all to read
        if any(is_secret_name(name) and os.environ.get(name) for name in read):
            return MASK
        return _masked(found, [*long, *values] if read else long)

    return {
        _masked(key, long): value_of(value, (key,), frozenset({id(config)})) for key, value in config.items()
    }


def _longest_first(text: str) -> tuple[int, str]:
    return (-len(text), text)


def _forms(secret: str) -> Iterator[str]:
    """A secret, and what it looks like elsewhere: in a URL, in base64, each of its lines by itself."""
    yield secret
    yield quote(secret, safe="")
    yield quote(secret)
    yield base64.b64encode(secret.encode("utf-8", "surrogateescape")).decode().rstrip("=")
    yield from (line for line in secret.splitlines() if len(line.strip()) >= _LONG)


def _masked(value: Any, secrets: list[str]) -> Any:
    """Plain data with the secrets in its texts, its numbers and its keys replaced by `***`."""
    if isinstance(value, str):
        return mask(value, secrets)
    if isinstance(value, bytes):
        return (
            MASK if any(secret.encode("utf-8", "surrogateescape") in value for secret in secrets) else value
        )
    if isinstance(value, dict):
        return {_masked(key, secrets): _masked(item, secrets) for key, item in value.items()}
    if isinstance(value, list):
        return [_masked(item, secrets) for item in value]
    if isinstance(value, int | float) and not isinstance(value, bool) and str(value) in secrets:
        return MASK
    return value


def to_yaml(value: Any) -> str:
    """Plain data as YAML that OmegaConf reads back as the same data, one key a line."""
    import yaml

    text: str = yaml.dump(
        value,
        Dumper=_dumper(),
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=False,
        width=1_000_000,
    )
    return text


@cache
def _dumper() -> Any:
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    # text that OmegaConf would take for a number is put in quotes
    Dumper.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(FLOAT_PATTERN), list("-+0123456789."))
    return Dumper
