"""Which paths a dataset may name, and which root's file is meant."""

from __future__ import annotations

import os
from collections.abc import Sequence

from gymbuild.config.dialect.values import kind_of
from gymbuild.system.errors import ConfigError
from gymbuild.system.paths import Checkout


class PathRules:
    """Which paths a dataset may name.

    Args:
        checkout: what paths are relative to.
        roots: where prepare scripts and prompts are looked for, first one first; the checkout is among them.
        allow_outside: whether paths may be absolute or lead outside the checkout.
    """

    def __init__(self, checkout: Checkout, roots: Sequence[str] = (), *, allow_outside: bool = False) -> None:
        self.checkout = checkout
        self.roots = tuple(roots) or (checkout.root,)
        self.allow_outside = allow_outside
        self.consulted: dict[str, None] = {}
        """Absolute paths that decided: those whose presence in a root told which root's file is meant, and those
        that led outside."""
        self._contained: dict[str, bool] = {}

    def output(self, path: str, key: str, file: str) -> str:
        """A path that is written: always relative to the checkout."""
        self._check(path, key, file, self.checkout.root)
        return self.checkout.relative(path)

    def script(self, path: str, key: str, file: str) -> str:
        """A path that is read: of the first root that has it, else of the checkout."""
        root = self._root_of(path)
        self._check(path, key, file, root)
        return self.checkout.relative(os.path.join(root, path))

    def script_root(self, path: str) -> str:
        """The root that a script is of: where it was found; the folder of one that is outside of every root."""
        root = self._root_of(path)
        absolute = os.path.normpath(os.path.join(root, path))
        if not absolute.startswith(root.rstrip(os.sep) + os.sep):
            root = os.path.dirname(absolute)
        return self.checkout.relative(root)

    def _root_of(self, path: str) -> str:
        root = self.checkout.root
        if len(self.roots) > 1 and not os.path.isabs(path):
            for candidate in self.roots:
                absolute = os.path.normpath(os.path.join(candidate, path))
                self.consulted[absolute] = None
                if os.path.exists(absolute):
                    return candidate
        return root

    def glob(self, path: str, key: str, file: str) -> str:
        """A glob relative to the checkout."""
        if not self.allow_outside and (os.path.isabs(path) or ".." in path.replace("\\", "/").split("/")):
            raise self._refused(path, key, file, "is not a glob inside the checkout")
        return path

    def _check(self, path: str, key: str, file: str, root: str) -> None:
        if "\0" in path or any(ord(char) < 32 for char in path):
            raise ConfigError(f"{kind_of(path)} holds a control character.", file=file, key=key)
        if self.allow_outside:
            return
        if os.path.isabs(path):
            raise self._refused(path, key, file, "is absolute")
        absolute = os.path.normpath(os.path.join(root, path))
        if not absolute.startswith(root.rstrip(os.sep) + os.sep):
            raise self._refused(path, key, file, "is outside the checkout")
        if not self._leads_inside(absolute, root):
            # once that is mended, the config is read again though its text is the same
            self.consulted[os.path.dirname(absolute)] = None
            if os.path.islink(absolute):
                self.consulted[absolute] = None
            raise self._refused(path, key, file, "leads outside the checkout through a symbolic link")

    def _leads_inside(self, absolute: str, root: str) -> bool:
        if os.path.islink(absolute):
            real = os.path.realpath(absolute)
            return real.startswith(os.path.realpath(root).rstrip(os.sep) + os.sep)
        folder = os.path.dirname(absolute)
        if folder not in self._contained:
            real, top = os.path.realpath(folder), os.path.realpath(root)
            self._contained[folder] = real == top or real.startswith(top.rstrip(os.sep) + os.sep)
        return self._contained[folder]

    def _refused(self, path: str, key: str, file: str, why: str) -> ConfigError:
        return ConfigError(
            f"{path!r} {why}. Use a path relative to the checkout and inside it, or allow_outside=true.",
            file=file,
            key=key,
        )
