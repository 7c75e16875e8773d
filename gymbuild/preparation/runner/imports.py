"""Observation of imports, and the finder of the prepare script."""

from __future__ import annotations

import posix
import sys

from .recorder import Recorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_bootstrap: Any = sys.modules["_frozen_importlib"]
_external: Any = sys.modules["_frozen_importlib_external"]


class CheckoutFinder(_external.FileFinder):  # type: ignore[misc]
    """Finds modules in one folder of the checkout as FileFinder does, and notes what it did not find there."""

    recorder: Recorder

    def find_spec(self, fullname: str, target: Any = None) -> Any:
        spec = super().find_spec(fullname, target)
        self.recorder.observe(self._note, fullname.rpartition(".")[2], spec)
        return spec

    def _note(self, name: str, spec: Any) -> None:
        recorder = self.recorder
        base = (self.path or recorder.getcwd()) + "/" + name
        if spec is None:
            # found elsewhere, or nowhere: a module or a package of this name here would have come first
            candidates = [base + ".py", base + "/__init__.py"]
        else:
            suffixes = [suffix for suffix, _ in self._loaders]
            candidates = [base + "/__init__" + suffix for suffix in suffixes]
            candidates += [base + suffix for suffix in suffixes]
            origin = spec.origin if spec.loader is not None else None
            if origin in candidates:
                candidates = candidates[: candidates.index(origin)]
        paths = [recorder.relative(candidate) for candidate in candidates]
        recorder.note_all([("m", path, None) for path in paths if path is not None])


class ScriptFinder:
    """Finds the prepare script and the folders above it in their root, by the names of its dotted path.

    Python finds most of them by itself. It cannot where a folder's name has a dot in it (it would take the
    parts for packages), and it finds another package of that name where the environment has one and the
    checkout's folder has no `__init__.py`.

    Args:
        root: the root that the script is of.
        script: the script, relative to it, with forward slashes.
    """

    def __init__(self, root: str, script: str) -> None:
        self.folders = {}
        self.placeholders: dict[str, list[str]] = {}
        parts = script.split("/")
        stem = parts[-1][:-3] if parts[-1].endswith(".py") else parts[-1]
        self.module = ".".join([*parts[:-1], stem])
        self.file = root + "/" + script
        folder, name = root, ""
        for part in parts[:-1]:
            folder += "/" + part
            self._pieces(name, part, [])
            name = name + "." + part if name else part
            self.folders[name] = folder
        self._pieces(name, stem, [folder])  # its relative imports lead to the folder that it is in

    def _pieces(self, name: str, part: str, locations: list[str]) -> None:
        """Python will ask for a package of each beginning of a name with dots in it."""
        pieces = part.split(".")
        for end in range(1, len(pieces)):
            piece = ".".join(pieces[:end])
            self.placeholders[name + "." + piece if name else piece] = locations

    def install(self) -> None:
        """Have it asked before `sys.path` is searched."""
        finders = sys.meta_path
        index = finders.index(_external.PathFinder) if _external.PathFinder in finders else len(finders)
        finders.insert(index, self)

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname == self.module:
            return _external.spec_from_file_location(
                fullname, self.file, loader=_external.SourceFileLoader(fullname, self.file)
            )
        folder = self.folders.get(fullname)
        if folder is None and fullname not in self.placeholders:
            return None
        spec = _external.PathFinder.find_spec(fullname, path, target)
        if folder is None:
            return spec or _package(fullname, self.placeholders[fullname])
        if spec is not None and folder in list(spec.submodule_search_locations or ()):
            return spec
        init = folder + "/__init__.py"
        try:
            posix.stat(init)
        except OSError:
            return _package(fullname, [folder])
        return _external.spec_from_file_location(
            fullname,
            init,
            loader=_external.SourceFileLoader(fullname, init),
            submodule_search_locations=[folder],
        )


def _package(name: str, locations: list[str]) -> Any:
    spec = _bootstrap.ModuleSpec(name, None, is_package=True)
    spec.submodule_search_locations = list(locations)
    return spec


def find_module(name: str) -> Any:
    """The spec of a module on `sys.path`, or None."""
    return _external.PathFinder.find_spec(name)


def import_module_of(spec: Any) -> None:
    """Import the module of a spec, in place of one that has its name already."""
    module = _bootstrap.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)


def watch_imports(recorder: Recorder) -> None:
    """Note every checkout file that is imported, and keep bytecode caches out of it.

    A cache is valid for an equal mtime and size, which a forged edit has; so a source inside the checkout is
    always compiled from what it says, and its bytecode is neither read nor written.
    """

    def imported(path: Any) -> str | None:
        try:
            name = recorder.relative(path)
        except Exception:
            return None
        if name is not None:
            recorder.observe(recorder.read, name, "i")
        return name

    source_loader = _external.SourceFileLoader
    cached_code = source_loader.get_code

    def get_code(self: Any, fullname: str) -> Any:
        path = self.get_filename(fullname)
        if imported(path) is None:
            return cached_code(self, fullname)
        return self.source_to_code(self.get_data(path), path)

    source_loader.get_code = get_code

    sourceless_loader = _external.SourcelessFileLoader
    sourceless_code = sourceless_loader.get_code

    def get_sourceless_code(self: Any, fullname: str) -> Any:
        imported(self.get_filename(fullname))
        return sourceless_code(self, fullname)

    sourceless_loader.get_code = get_sourceless_code

    CheckoutFinder.recorder = recorder
    loaders = _external._get_supported_file_loaders()

    def find_in_checkout(path: str) -> CheckoutFinder:
        path = path or "."
        if recorder.relative(path) is None or not _is_folder(recorder, path):
            raise ImportError("not a folder of the checkout")
        return CheckoutFinder(path, *loaders)

    sys.path_hooks.insert(0, find_in_checkout)
    for path in list(sys.path_importer_cache):
        if recorder.relative(path or ".") is not None:
            del sys.path_importer_cache[path]


def _is_folder(recorder: Recorder, path: str) -> bool:
    try:
        return (recorder.stat(path).st_mode & 0o170000) == 0o040000
    except (OSError, ValueError):
        return False
