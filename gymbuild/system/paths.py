"""Where things are: the checkout, its cache, and how a path is written down."""

from __future__ import annotations

import os


class Checkout:
    """The directory that paths in configs are relative to.

    Args:
        root: the directory; made absolute, symlinks in it resolved.
    """

    __slots__ = ("cache", "root")

    def __init__(self, root: str | os.PathLike[str] = ".") -> None:
        self.root = os.path.realpath(root)
        self.cache = os.path.join(self.root, ".cache")

    def __reduce__(self) -> tuple[object, ...]:
        return (Checkout, (self.root,))

    def absolute(self, path: str | os.PathLike[str]) -> str:
        """`path` as an absolute path; a relative one is relative to the checkout."""
        return os.path.normpath(os.path.join(self.root, path))

    def relative(self, path: str | os.PathLike[str]) -> str:
        """`path` with forward slashes, relative to the checkout when it lies inside it, else absolute."""
        absolute = self.absolute(path)
        if absolute == self.root:
            return "."
        if absolute.startswith(self.root.rstrip(os.sep) + os.sep):
            return absolute[len(self.root.rstrip(os.sep)) + 1 :].replace(os.sep, "/")
        return absolute

    def contains(self, path: str | os.PathLike[str], *, follow: bool = True) -> bool:
        """Whether `path` lies inside the checkout; with `follow`, after its symlinks are resolved."""
        absolute = os.path.realpath(self.absolute(path)) if follow else self.absolute(path)
        return absolute == self.root or absolute.startswith(self.root.rstrip(os.sep) + os.sep)

    def way_out(self, path: str | os.PathLike[str]) -> str | None:
        """The folder on the way to `path` that is a symlink to outside the checkout, relative to it.

        Args:
            path: relative to the checkout, or absolute. That it is a symlink itself does not count: whoever replaces
                it writes to the folder that it is in.

        Returns:
            None when its folder lies inside; and for a path that is outside as it is written.
        """
        folder = os.path.dirname(self.absolute(path))
        if not self.contains(folder, follow=False) or self.contains(folder):
            return None
        step = self.root
        for part in self.relative(folder).split("/"):
            step = os.path.join(step, part)
            if not self.contains(step):
                break
        return self.relative(step)

    def cached(self, *parts: str) -> str:
        """A path under `.cache/`."""
        return os.path.join(self.cache, *parts)


def file_name(name: str) -> str:
    """The name of a dataset or benchmark as one relative file path without suffix.

    Slashes stay (they become folders); what no portable file name holds, and parts that begin with a dot,
    are percent-encoded, so that two names never share a file.
    """
    parts = []
    for part in name.split("/"):
        safe = "".join(
            char if char.isalnum() or char in "._-+@ " else "".join(f"%{byte:02X}" for byte in char.encode())
            for char in part
        )
        if safe[:1] == "." or not safe:
            safe = "%2E" + safe[1:] if safe else "%00"
        parts.append(safe)
    return "/".join(parts)
