"""The shortest answer: everything that was asked for is current. It costs `stat` calls, and imports next to nothing.

After a run, what proves that its tasks are current is in the index (`index_writer.py`). The next start compares that; if
all holds, it says so and ends before doit, configs or scripts are looked at. If not, the whole decision is made.
"""

from __future__ import annotations

import gc

from gymbuild.cache.index import compared_index, leave_for_session

# not from typing: importing that costs a third of a start that finds nothing to do
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TextIO

_MANY = 500
"""Tasks from which on comparing them takes longer than starting a process for it."""


def answer(root: str, words: Sequence[str], argv: Sequence[str], *, out: TextIO) -> bool:
    """Say that everything asked for is current, if that is proved by `stat` alone.

    Args:
        root: the checkout.
        words: names of tasks and groups; none for the default ones of the checkout.
        argv: the whole command line; a setting or an option on it means that more has to be looked at.
        out: where to say it.

    Returns:
        whether it was said; when not, nothing was printed and nothing is proved.
    """
    if any("=" in word or word.startswith("-") for word in argv):
        return False
    # what is read here is many small things that stay: looking for garbage among them costs more than reading them
    gc.disable()
    try:
        return _answer(root, words, out)
    finally:
        gc.freeze()
        gc.enable()


def _answer(root: str, words: Sequence[str], out: TextIO) -> bool:
    index = compared_index(root)
    content = index.content
    if content is None:
        return False
    leave_for_session(index)
    if index.refused:
        # gymbuild has asked already, before doit was called
        return False
    index.refused = True
    tasks: dict[str, bool] = {}
    skipped: dict[str, list[str]] = {}
    for word in words or content["default"] or ("",):
        if word in content["groups"]:
            for task in content["groups"][word]:
                tasks.setdefault(task, False)
            for name, text in content["problems"].get(word, {}).items():
                skipped[f"{word}:{name}"] = [text]
        else:
            task_named = index.task_named(word)
            if task_named is None:
                return False
            tasks[task_named] = True
    left = list(tasks)
    while left:
        # what a task is made from by another step counts as asked for; what that was made from does not
        task = left.pop()
        for source in index.sources(task):
            asked = tasks.get(source) or tasks[task]
            if _group(source) != _group(task) and tasks.get(source) != asked:
                tasks[source] = asked
                left.append(source)
    for task in list(tasks):
        if index.is_current(task):
            continue
        # of those that a group swept up, some cannot be built, which is proved as well
        obstacle = next((other for other in (task, *index.sources(task)) if index.problems(other)), None)
        if tasks[task] or obstacle is None or tasks.get(obstacle):
            if len(tasks) > _MANY:
                index.compare_meanwhile(tasks)
            return False
        skipped[obstacle] = list(index.problems(obstacle))
        del tasks[task]
    if not index.graph_holds():
        return False
    order = list(content["groups"])
    named = sorted(
        (task for task in tasks if tasks[task]), key=lambda task: (order.index(_group(task)), task)
    )
    counts = [f"{len(tasks)} current"] if tasks else []
    lines = [f"-- {task}\n" for task in named]
    if skipped:
        from gymbuild.system.text import skipped_text

        lines.insert(0, skipped_text(skipped) + "\n")
        counts.append(f"{len(skipped)} skipped")
    out.write("".join(lines) + f"nothing to do: {', '.join(counts) or 'nothing was selected'}\n")
    out.flush()
    return True


def _group(task: str) -> str:
    return task.partition(":")[0]
