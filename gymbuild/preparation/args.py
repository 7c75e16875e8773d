"""The keyword arguments of `prepare`, as canonical JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from gymbuild.system.errors import UsageError
from gymbuild.system.paths import Checkout, file_name


def args_path(checkout: Checkout, name: str) -> str:
    """Where the serialized args of `prepare:<name>` are."""
    return checkout.cached("args", file_name(name) + ".json")


def encode_args(args: Mapping[str, Any], checkout: Checkout) -> bytes:
    """The keyword arguments of `prepare` as canonical JSON.

    Paths become strings, relative to the checkout when inside it. Nothing else is coerced.

    Args:
        args: arguments by name.
        checkout: what paths are relative to.

    Raises:
        UsageError: an argument that JSON has no form for, by its name.
    """
    plain = {}
    for name, value in args.items():
        if not isinstance(name, str):
            raise UsageError(f"prepare_script_args: {name!r} is not the name of an argument; names are text")
        plain[name] = _plain_value(value, f"prepare_script_args.{name}", checkout)
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass")


def _plain_value(value: Any, key: str, checkout: Checkout) -> Any:
    # exact types: a subclass (an enum of text, say) would lose what makes it one
    kind = type(value)
    if value is None or kind in (str, bool, int):
        return value
    if kind is float:
        if value != value or value in (float("inf"), float("-inf")):
            raise UsageError(f"{key}: JSON has no form for the number {value!r}")
        return value
    if kind is list:
        return [_plain_value(item, f"{key}[{index}]", checkout) for index, item in enumerate(value)]
    if kind is dict:
        for inner in value:
            if type(inner) is not str:
                raise UsageError(
                    f"{key}: JSON has no form for the key {inner!r} ({type(inner).__name__}); keys are text"
                )
        return {inner: _plain_value(item, f"{key}.{inner}", checkout) for inner, item in value.items()}
    if isinstance(value, os.PathLike):
        path = os.fspath(value)
        if isinstance(path, str):
            return checkout.relative(path)
    raise UsageError(
        f"{key}: JSON has no form for {value!r} ({kind.__module__}.{kind.__qualname__}); "
        f"use text, numbers, true, false, null, lists, mappings or paths"
    )
