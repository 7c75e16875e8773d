"""The listing holds: packages import downwards only, no module is in a circle, none grows too long."""

from __future__ import annotations

import ast
import graphlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "gymbuild").rglob("*.py"))
LINE = (
    {"system"},
    {"cache"},
    {"config"},
    {"environments"},
    {"preparation"},
    {"plan"},
    {"evaluation", "authoring"},
    {"tasks"},
    {"commands"},
)
"""Packages from the lowest up; those of one place do not import each other."""
MOST_LINES = 500
MOST_LINES_IN_ALL = 18_000


def _module(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {_module(path): path for path in FILES}


def _package(module: str) -> str:
    """The package directly below `gymbuild`; empty for the top level itself."""
    path, parts = MODULES[module], module.split(".")
    return parts[1] if len(parts) > 2 or (len(parts) == 2 and path.name == "__init__.py") else ""


def _imports(module: str, tree: ast.AST | None = None) -> set[str]:
    """The modules of ours that one imports anywhere in its text: at its top, in a function, for its types."""
    found = set()
    for node in ast.walk(tree or ast.parse(MODULES[module].read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            # relative only where a package also runs without gymbuild around it
            base = [*MODULES[module].relative_to(ROOT).parts[: -node.level]] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            names = {f"{source}.{alias.name}" for alias in node.names}
            found |= {name if name in MODULES else source for name in names}
    return {name for name in found if name.partition(".")[0] == "gymbuild"}


IMPORTS = {module: _imports(module) for module in MODULES}


def test_what_is_imported_is_there() -> None:
    absent = [f"{by} → {name}" for by, names in IMPORTS.items() for name in names - MODULES.keys()]
    assert not absent, "\n".join(["", *absent])


def test_every_package_has_its_place_in_the_line() -> None:
    packages = {path.parent.name for path in ROOT.glob("gymbuild/*/__init__.py")}
    assert packages <= set().union(*LINE)


def test_packages_import_only_from_those_below() -> None:
    level = {package: number for number, packages in enumerate(LINE) for package in packages}
    level[""] = len(LINE)
    wrong = [
        f"{module} → {imported}"
        for module, names in IMPORTS.items()
        for imported in sorted(names & MODULES.keys())
        if _package(module) != _package(imported) and level[_package(module)] <= level[_package(imported)]
    ]
    assert not wrong, "\n".join(["", *wrong])


def _at_run_time(module: str) -> set[str]:
    """What a module imports when it runs: names for types alone close no circle."""
    tree = ast.parse(MODULES[module].read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            node.body = [ast.Pass()]
    return _imports(module, tree)


def test_no_module_is_in_a_circle() -> None:
    try:
        graphlib.TopologicalSorter({module: _at_run_time(module) for module in MODULES}).prepare()
    except graphlib.CycleError as error:
        pytest.fail(" ← ".join(error.args[1]))


@pytest.mark.parametrize("path", [*ROOT.glob("gymbuild/**/__init__.py")], ids=_module)
def test_every_package_says_its_job_in_one_line(path: Path) -> None:
    text = ast.get_docstring(ast.parse(path.read_text()))
    assert text and "\n" not in text


@pytest.mark.xfail(strict=True, reason="the whole has more than 18,000 lines")
def test_no_module_is_too_long() -> None:
    lengths = {_module(path): len(path.read_text().splitlines()) for path in FILES}
    long = [f"{module}: {length} lines" for module, length in lengths.items() if length > MOST_LINES]
    assert not long, "\n".join(["", *long])
    assert sum(lengths.values()) <= MOST_LINES_IN_ALL
