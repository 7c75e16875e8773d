"""What `prepare_dependencies` stands for: the words for `uv pip install`, and the files that they name."""

from __future__ import annotations

import os
import re
import shlex
from typing import Any

from gymbuild.config.datasets import Dataset
from gymbuild.environments.recipe import Recipe
from gymbuild.environments.sources import (
    PROJECT,
    build_files,
    file_digest,
    folder_requires,
    join,
    relevant_file,
    tree_digest,
    unique,
)
from gymbuild.system.errors import ConfigError
from gymbuild.system.masking import mask
from gymbuild.system.paths import Checkout

_ELSEWHERE = ("--target", "--prefix", "--python", "--system", "--root", "--break-system-packages", "--user")

_ELSEWHERE_SHORT = ("-t", "-p")

_FILE_OPTIONS = (
    "-r",
    "--requirement",
    "--requirements",
    "-c",
    "--constraint",
    "--constraints",
    "--override",
    "--overrides",
    "-b",
    "--build-constraint",
    "--build-constraints",
    "--excludes",
)
"""Options of `uv pip install` that a file's name follows."""


def dependencies_recipe(dataset: Dataset, checkout: Checkout) -> Recipe:
    words = dependency_words(dataset.prepare_dependencies)

    def wrong(found: str, allowed: str) -> ConfigError:
        return ConfigError(
            mask(f"found {found!r}; {allowed}"), file=dataset.config_path, key="prepare_dependencies"
        )

    inputs: list[str] = []
    editable: list[str] = []
    trees: list[str] = []
    given: str | None = None
    giver: str | None = None
    content: list[Any] = [list(words)]
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        name, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if name in _ELSEWHERE or name in _ELSEWHERE_SHORT or re.match(r"-[tp].", word):
            raise wrong(
                word,
                "the words are installed into a venv of the dataset's own, so options that install elsewhere "
                "are not allowed. The setting python= chooses the interpreter.",
            )
        if name in ("-e", "--editable", *_FILE_OPTIONS):
            if not equals:
                if position == len(words):
                    raise wrong(word, "a path must follow it.")
                value = words[position]
                position += 1
            is_editable = name in ("-e", "--editable")
        else:
            is_editable = False
            if not word.startswith("-"):
                value = word
            value = value.split(" @ ")[-1].split(" ; ")[0].strip()
            if not _is_local(value, checkout):
                continue
        if "://" in value and not value.startswith("file://"):
            continue
        path = checkout.relative(re.sub(r"\[[^\]]*\]$", "", value.removeprefix("file://")))
        absolute = checkout.absolute(path)
        if is_editable or os.path.isdir(absolute):
            if not os.path.isdir(absolute):
                raise wrong(f"{word} {value}", f"there is no folder {path} in the checkout.")
            files = build_files(path, checkout)
            inputs.extend(files)
            content.append([path, [relevant_file(file, checkout) for file in files]])
            if given is None:
                given, giver = folder_requires(path, checkout), join(path, PROJECT)
            if is_editable:
                if checkout.contains(path):
                    editable.append(path)
            else:
                trees.append(path)
                content.append([path, tree_digest(path, checkout)])
        elif not os.path.isfile(absolute):
            raise wrong(value, f"there is no file {path} in the checkout.")
        else:
            inputs.append(path)
            content.append([path, file_digest(path, checkout)])
    shown = re.sub(r"://[^@/\s]*@", "://***@", mask(" ".join(words)))
    return Recipe(
        kind="dependencies",
        content=content,
        title=shown if len(shown) <= 60 else shown[:57] + "…",
        requires_python=given,
        requires_file=giver,
        inputs=unique(*inputs),
        editable=unique(*editable),
        trees=unique(*trees),
        words=words,
    )


def dependency_words(entries: tuple[str, ...]) -> tuple[str, ...]:
    """The words for `uv pip install`; an entry such as `-e PATH` is two of them."""
    words: list[str] = []
    for entry in entries:
        entry = entry.strip()
        parts = shlex.split(entry) if entry.startswith("-") else [entry] if entry else []
        if parts and re.match(r"-[bcefr][^-\s]", parts[0]):
            parts[:1] = [parts[0][:2], parts[0][2:]]
        words.extend(parts)
    return tuple(words)


def _is_local(word: str, checkout: Checkout) -> bool:
    path = re.sub(r"\[[^\]]*\]$", "", word)
    if word.startswith("file://"):
        return True
    if "://" in word:
        return False
    return word.startswith((".", "/")) or (
        ("/" in word or word.endswith((".whl", ".zip", ".tar.gz")))
        and os.path.exists(checkout.absolute(path))
    )
