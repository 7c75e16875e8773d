"""What a prepare script's source tells about it, read without importing it."""

from __future__ import annotations

import ast
import difflib
import os
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from gymbuild.system.permissions import sentence

PREPARE = "prepare"
IS_CURRENT = "is_prepared_data_current"


@dataclass(frozen=True, slots=True)
class ScriptFacts:
    """What the source of a prepare script tells before it runs."""

    problems: list[str]
    """Why it cannot be run with the given arguments, a sentence each, with file and line; empty when it can."""
    has_current_check: bool = False
    """It defines `is_prepared_data_current`."""


def check_script(path: str, args: Mapping[str, Any], *, name: str | None = None) -> ScriptFacts:
    """Check a prepare script against the arguments that it will be given.

    A `prepare` that is assigned or imported is taken as it is: its signature is unknown until it runs.

    Args:
        path: the script, absolute.
        args: keyword arguments that `prepare` will be given.
        name: how problems call the script; default `path`.

    Returns:
        what was found; nothing is raised for a script that is wrong.
    """
    name = name or path
    try:
        with open(path, "rb") as file:
            source = file.read()
    except FileNotFoundError:
        return ScriptFacts([f"{name}: the prepare script is not there"])
    except IsADirectoryError:
        return ScriptFacts([f"{name}: the prepare script is a folder"])
    except OSError as error:
        return ScriptFacts(
            [f"{name}: the prepare script cannot be read: {sentence(error, path, writing=False)}"]
        )
    return check_source(source, args, name=name)


def check_source(source: bytes, args: Mapping[str, Any], *, name: str) -> ScriptFacts:
    """The same for a script's content.

    Args:
        source: what the file holds; its encoding is as Python reads it.
        args: keyword arguments that `prepare` will be given.
        name: how problems call the script.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about escapes and the like, which are the script's own affair
            module = ast.parse(source, filename=os.path.basename(name))
    except SyntaxError as error:
        place = f"{name}:{error.lineno}" if error.lineno else name
        text = f": {error.text.strip()}" if error.text and error.text.strip() else ""
        return ScriptFacts([f"{place}: the prepare script does not parse ({error.msg}){text}"])
    except (ValueError, RecursionError, MemoryError) as error:
        return ScriptFacts([f"{name}: the prepare script does not parse ({error})"])

    found = list(_definitions(module.body))
    definitions = dict(found)
    has_current_check = IS_CURRENT in definitions
    problems = []
    prepare = definitions.get(PREPARE)
    if prepare is None:
        near = difflib.get_close_matches(PREPARE, [key for key in definitions if key != IS_CURRENT], 1, 0.7)
        hint = f"; it defines {near[0]}()" if near else ""
        if "*" in definitions:
            return ScriptFacts([], has_current_check)  # `from … import *`: it may come from there
        problems.append(f"{name}: the prepare script defines no function prepare(){hint}")
        return ScriptFacts(problems, has_current_check)
    problems += _kind_problems(prepare, PREPARE, name)
    if isinstance(prepare, ast.FunctionDef):
        # which of several definitions holds only the run can tell: one that takes the arguments is enough
        choices = [statement for defined, statement in found if defined == PREPARE]
        if all(
            isinstance(choice, ast.FunctionDef) and _argument_problems(choice, args, name)
            for choice in choices
        ):
            problems += _argument_problems(prepare, args, name)
    current = definitions.get(IS_CURRENT)
    if current is not None:
        problems += _kind_problems(current, IS_CURRENT, name)
        if isinstance(current, ast.FunctionDef) and not _takes_one(current):
            problems.append(
                f"{name}:{current.lineno}: {IS_CURRENT}() has to take one argument, the path of the file"
            )
    return ScriptFacts(problems, has_current_check)


def _definitions(body: list[ast.stmt]) -> Iterator[tuple[str, ast.stmt]]:
    """Names that a module defines at its top level, the last definition of each last; `*` for a star import.

    Blocks at the top level (`if`, `try`, `with`, loops, `match`) are looked into, functions and classes are not.
    """
    for statement in body:
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield statement.name, statement
            case ast.Import() | ast.ImportFrom():
                for alias in statement.names:
                    yield alias.asname or alias.name.partition(".")[0], statement
            case ast.Assign():
                for target in statement.targets:
                    for node in ast.walk(target):
                        if isinstance(node, ast.Name):
                            yield node.id, statement
            case ast.AnnAssign(target=ast.Name(id=name), value=value) if value is not None:
                yield name, statement
        yield from _definitions_below(statement)


def _definitions_below(statement: ast.stmt) -> Iterator[tuple[str, ast.stmt]]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return
    for field in ("body", "orelse", "finalbody"):
        block = getattr(statement, field, None)
        if isinstance(block, list):
            yield from _definitions(block)
    for handler in getattr(statement, "handlers", ()):
        yield from _definitions(handler.body)
    for case in getattr(statement, "cases", ()):
        yield from _definitions(case.body)


def _kind_problems(statement: ast.stmt, function: str, name: str) -> list[str]:
    if isinstance(statement, ast.AsyncFunctionDef):
        return [f"{name}:{statement.lineno}: {function} is async; it has to be a plain function"]
    if isinstance(statement, ast.ClassDef):
        return [f"{name}:{statement.lineno}: {function} is a class; it has to be a function"]
    if isinstance(statement, ast.Assign | ast.AnnAssign) and isinstance(statement.value, ast.Constant):
        return [
            f"{name}:{statement.lineno}: {function} is {statement.value.value!r}; it has to be a function"
        ]
    return []


_Passing = Literal["position", "any", "keyword"]


def _parameters(function: ast.FunctionDef) -> Iterator[tuple[str, _Passing, bool]]:
    """The parameters: name, how a value gets there, whether one is needed."""
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    first_default = len(positional) - len(arguments.defaults)
    for index, argument in enumerate(positional):
        only = index < len(arguments.posonlyargs)
        yield argument.arg, "position" if only else "any", index < first_default
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield argument.arg, "keyword", default is None


def _argument_problems(function: ast.FunctionDef, args: Mapping[str, Any], name: str) -> list[str]:
    if function.decorator_list:
        return []  # what a decorator makes of the signature only the run can tell
    place = f"{name}:{function.lineno}"
    parameters = list(_parameters(function))
    accepted = [parameter for parameter, passing, _ in parameters if passing != "position"]
    problems = []
    if function.args.kwarg is None:
        for given in args:
            if given in accepted:
                continue
            if any(parameter == given for parameter, _, _ in parameters):
                problems.append(
                    f"{place}: prepare() takes {given!r} by position only; arguments are given by name"
                )
                continue
            near = difflib.get_close_matches(given, accepted, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            takes = f"it takes {', '.join(accepted)}" if accepted else "it takes none"
            problems.append(f"{place}: prepare() has no argument {given!r} ({takes}){hint}")
    for parameter, passing, needed in parameters:
        if not needed:
            continue
        if passing == "position":
            if parameter not in args or function.args.kwarg is not None:
                problems.append(
                    f"{place}: prepare() needs {parameter!r} by position only; arguments are given by name, "
                    f"so remove the / from its signature"
                )
        elif parameter not in args:
            problems.append(
                f"{place}: prepare() needs the argument {parameter!r}, which nothing gives; "
                f"set prepare_script_args.{parameter}"
            )
    return problems


def _takes_one(function: ast.FunctionDef) -> bool:
    """Whether the function can be called with one value by position."""
    if function.decorator_list:
        return True
    positional = [item for item in _parameters(function) if item[1] != "keyword"]
    needed = sum(1 for _, passing, need in _parameters(function) if need and passing != "keyword")
    needed_by_name = any(need for _, passing, need in _parameters(function) if passing == "keyword")
    return needed <= 1 and not needed_by_name and (bool(positional) or function.args.vararg is not None)
