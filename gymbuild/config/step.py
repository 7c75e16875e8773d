"""A step: a kind of task. What its tasks are, what they are made from, whether one is current, how it is made.

Everything that works on tasks (selection, deciding, the index of what is current, `why`, `info`, `inputs`, `forget`,
`list`, `clean`, doit's task creators) loops over the steps of the session and names none. A package that has a new kind
of task subclasses `Step`, or `FileStep` where the product is a file that is made from files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from gymbuild.system.errors import GymbuildError

if TYPE_CHECKING:
    from gymbuild.config.session import Session

Say = Callable[[str], None]
"""Is told what a person should hear, a line at a time."""


@dataclass(frozen=True, slots=True)
class Reason:
    """One thing that makes a task stale."""

    subject: str
    """What changed, such as `script benchmarks/aime24/prepare.py`."""
    before: str | None
    """Its digest when the task was made; None for "was not there"."""
    after: str | None
    """Its digest now; None for "is not there"."""
    text: str | None = None
    """A whole sentence, where before and after do not tell it."""
    path: str | None = None
    """The file it is about, relative to the checkout."""

    def __str__(self) -> str:
        if self.text:
            return self.text
        if self.before is None:
            return f"{self.subject} is new ({short(self.after)})"
        if self.after is None:
            return f"{self.subject} is gone (it was {short(self.before)})"
        return f"{self.subject} changed from {short(self.before)} to {short(self.after)}"


def short(digest: str | None) -> str:
    """The beginning of a digest, for people."""
    return "nothing" if digest is None else digest[:12]


@dataclass(frozen=True, slots=True)
class State:
    """Whether one task is current, as its step found without starting a process."""

    current: bool
    reasons: tuple[Reason, ...] = ()
    """Why it is stale."""
    verb: str = "write"
    """What a run would do with it: "would write plan:aime24"."""
    after: tuple[str, ...] = ()
    """Stale tasks that it is made from."""
    detail: Any = field(default=None, compare=False)
    """What the step knows beyond this."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What proves by `stat` alone that a current task is current still."""

    paths: tuple[str, ...]
    """Files and folders, relative to the checkout or absolute. One that is not there must not appear."""
    variables: tuple[str, ...] = ()
    """Names of environment variables."""
    absent: tuple[str, ...] = ()
    """Those of the paths whose absence was compared: if one is there by now, nothing is proved."""


@dataclass(frozen=True, slots=True)
class InputState:
    """One input of a task, for `inputs`."""

    kind: str
    name: str
    digest: str | None
    state: str
    """`same`, `changed` or `new`."""


class Step:
    """A kind of task.

    Args:
        session: of the command: its checkout, settings, graph, database, digests and store.
    """

    group: ClassVar[str]
    """What stands before the colon in the names of its tasks; also the name of doit's group."""
    doc: ClassVar[str]
    """What its tasks are, for `doit list`."""
    listed: ClassVar[bool] = True
    """Whether a start answers for its tasks by `stat` alone. Not where telling their names takes long."""

    def __init__(self, session: Session) -> None:
        self.session = session

    # -- what there is -------------------------------------------------------------------------------------------

    def names(self) -> Iterable[str]:
        """What follows the colon, of every task."""
        raise NotImplementedError

    def name_of(self, word: str) -> str | None:
        """The task that a person means by a name; None for none."""
        return word if word in self.names() else None

    def nicknames(self) -> Mapping[str, str]:
        """Other names of tasks, each with the name that it stands for."""
        return {}

    def of_target(self, path: str) -> str | None:
        """The task that makes a file, where the file's path on the command line is to mean it."""
        return None

    def problems(self) -> Mapping[str, GymbuildError]:
        """Tasks that cannot be built because of their config, and why."""
        return {}

    def sources(self, name: str) -> Sequence[str]:
        """The tasks whose products this one is made from, such as `prepare:aime24`."""
        return ()

    def title(self, name: str) -> str:
        """What a task makes, for `doit list`."""
        return self.doc

    def files(self, name: str) -> Sequence[str]:
        """Files that a task is made from, for doit; relative to the checkout."""
        return ()

    def targets(self, name: str) -> Sequence[str]:
        """Files that a task makes, for doit; relative to the checkout."""
        return ()

    # -- what of it is stale -------------------------------------------------------------------------------------

    def check_selection(self, names: Sequence[str]) -> None:
        """Check the settings against the tasks of this step that were selected.

        Raises:
            UsageError: a setting does not fit them.
        """

    def obstacles(self, name: str) -> list[str]:
        """Why a task cannot be built, as its files tell without a start of any process.

        Raises:
            GymbuildError: the same.
        """
        return []

    def assess(self, name: str) -> State:
        """Whether a task is current, or why not. Starts no process and changes nothing.

        Raises:
            GymbuildError: it cannot be told.
        """
        raise NotImplementedError

    def setup(self, name: str, state: State | None) -> Sequence[str]:
        """Tasks that have to be made before this one runs, and whose making does not make it stale."""
        return ()

    def observed(self, name: str, state: State) -> Observed | None:
        """What proves by `stat` that a task that was found current is so still; None for nothing."""
        return None

    def observed_obstacle(self, name: str) -> Observed | None:
        """What proves by `stat` that the obstacles of a task are as they were; None for nothing."""
        return None

    def token(self, name: str) -> str:
        """The digest of what the configs ask of a task: what was observed of it counts while this is the same."""
        return ""

    def refusals(self, states: Mapping[str, State]) -> list[str]:
        """Why stale tasks are not to be tried at all; nothing runs then."""
        return []

    # -- doing ---------------------------------------------------------------------------------------------------

    def recover(self, say: Say) -> None:
        """Put back what a run that was cut off has left; called before anything is decided."""

    def begin(self, states: Mapping[str, State]) -> None:
        """Called before the first task runs, with the stale tasks of this step."""

    def run(self, name: str, say: Say) -> str:
        """Make a task current.

        Args:
            name: the task's.
            say: told what a person should hear.

        Returns:
            what was done, in a word (`written`, `restored`, `same`, `current`, …).

        Raises:
            GymbuildError: it cannot be made; what was there is as it was.
        """
        raise NotImplementedError

    def clean(self, name: str, say: Say, dry_run: bool) -> None:
        """Remove what a task has made, under the lock of whoever makes it.

        Args:
            name: the task's.
            say: told what was, or would be, removed.
            dry_run: remove nothing.
        """

    def forget(self, names: Iterable[str]) -> None:
        """Have tasks made anew by the next run."""

    def needed(self, objects: set[str], actions: set[str]) -> None:
        """Add what the present graph needs of the store, and is never to be collected.

        Args:
            objects: digests.
            actions: action keys.
        """

    # -- telling -------------------------------------------------------------------------------------------------

    def explain(self, name: str, state: State) -> str:
        """What was compared to find a task current, or what will be done about a stale one; without the reasons."""
        return f"{self.group}:{name} is {'current' if state.current else 'stale'}"

    def inputs(self, name: str, state: State) -> list[InputState]:
        """What a task is made from, as it is now."""
        return []


def group_of(task: str) -> str:
    """The step's group of a task: `prepare` of `prepare:aime24`."""
    return task.partition(":")[0]


def name_of(task: str) -> str:
    """A task's name without its group: `aime24` of `prepare:aime24`."""
    return task.partition(":")[2]
