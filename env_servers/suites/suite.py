"""What a task suite gives, and nothing more: tasks, instances of them, and the kind of screen that one is played on.

A suite is a module (or any object) with `tasks()` and `instantiate(task, seed)`; see `Suite`. The server knows of an
instance only what `TaskInstance` says. Most are played on pages; a page, whatever made it, offers `window.app`:

    load(state)      begin an episode from the instance's `initial` JSON (may be a promise)
    state()          the state as JSON: what checkpoints and verdicts are functions of
    elements()       visible interactive elements, [{name, box: [x0, y0, x1, y1]}] in css px
    settled()        optional: a promise that resolves when a step's consequences have happened
    wait(seconds), answer(text), button(name), goto(url), open(name), tool(name, arguments)      optional

A task may have several devices, each with a page of its own (`TaskInstance.pages`); one is in front at a time, and the
tool `SWITCH` brings another one there. Its state is then {"device": the one in front, "devices": {device: state}}.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from .virtual.gestures import Element, Move

State = dict[str, Any]

SWITCH = "devices.switch"
"""The tool that brings another device of the task to the front; the server's own, offered where there are several."""

SEEDS: dict[str, range] = {
    "train": range(0, 100_000),
    "pretrain": range(100_000, 1_000_000),
    "evaluation": range(1_000_000, 1_100_000),
}


def split_of(seed: int) -> str:
    """The split that owns `seed`; raises ValueError for a seed of none."""
    for split, seeds in SEEDS.items():
        if seed in seeds:
            return split
    raise ValueError(f"seed {seed} belongs to no split; seeds run from 0 to {SEEDS['evaluation'].stop - 1}")


class ScreenKind(Protocol):
    """What all screens of one kind share. width, height: in css px."""

    @property
    def name(self) -> str:
        """Of the kind."""

    @property
    def width(self) -> int:
        """In css px."""

    @property
    def height(self) -> int:
        """In css px."""


@dataclass(frozen=True)
class PageKind:
    """What all pages of one kind share.

    html: the whole document, or url: that of a file. width, height: viewport in css px. touch: fingers, no mouse.
    before: script that runs ahead of the document's own (with `url` only). after: script that runs once the document is
    loaded. reload: the document keeps something of an episode, so that every episode needs a fresh one.
    """

    name: str
    html: str = field(repr=False)
    width: int
    height: int
    touch: bool = False
    url: str = ""
    before: str = field(default="", repr=False)
    after: str = field(default="", repr=False)
    reload: bool = False


@dataclass(frozen=True)
class DesktopKind:
    """A display of its own with LibreOffice on it. width, height: of the display in px.

    beside: px at the right that are kept for other programs (see `desktop.programs`); 0: LibreOffice has it all.
    """

    name: str
    width: int
    height: int
    beside: int = 0


@dataclass(frozen=True)
class WorldKind:
    """A screen of a world that another program runs. world: the suite that it belongs to. width, height: in px.

    Such a world gives the verdict itself: its screen is told of `terminate`, and its state then has the score.
    """

    name: str
    width: int
    height: int
    world: str


@dataclass(frozen=True)
class ToolSpec:
    """An MCP-style tool of an app, called as `window.app.tool(name, arguments)`; `parameters` is a JSON schema."""

    name: str
    description: str
    parameters: dict[str, Any]

    @classmethod
    def of(
        cls, name: str, description: str, required: dict[str, Any], optional: dict[str, Any] | None = None
    ) -> ToolSpec:
        """A tool with `required` and `optional` arguments, each a name and its JSON schema."""
        properties = {**required, **(optional or {})}
        return cls(name, description, {"type": "object", "properties": properties, "required": list(required)})

    def schema(self) -> dict[str, Any]:
        """The tool as a prompt offers it."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": function}


def switch_tool(devices: Sequence[str]) -> ToolSpec:
    """`SWITCH` for a task with these devices."""
    return ToolSpec.of(SWITCH, "Go to another device.", {"to": {"type": "string", "enum": list(devices)}})


@dataclass(frozen=True)
class Task:
    """One task, which has as many instances as there are seeds. scripted: the suite can play it by itself.

    device: the one that is in front at first.
    """

    id: str
    device: str
    instruction_template: str
    tags: tuple[str, ...]
    tool_beneficial: int
    feasible: bool
    max_steps: int
    scripted: bool = field(default=True, kw_only=True)

    @property
    def devices(self) -> tuple[str, ...]:
        """All its devices, that of the beginning first; no two are of one family."""
        return (self.device,)


@dataclass(frozen=True)
class TaskInstance(ABC):
    """A task with its seed filled in.

    page: the kind of screen it is played on. instruction: "" where only the page knows it, as `instruction` of its
    state. initial: what the screen loads.
    checkpoints: K pure predicates of a state, to be met in this order.
    """

    task: Task
    seed: int
    page: ScreenKind
    instruction: str
    initial: State
    checkpoints: tuple[Callable[[State], bool], ...]
    tools: tuple[ToolSpec, ...]

    @property
    def pages(self) -> Mapping[str, PageKind]:
        """The page of each device of the task."""
        return {self.task.device: self.page}

    def ended(self, state: State) -> bool:
        """Whether the page itself has ended the episode in this state."""
        return False

    @abstractmethod
    def succeeded(self, state: State, declared: str | None, complete: bool) -> bool:
        """The verdict on an episode that has ended in `state`.

        declared: the status of `terminate`, None where the page ended it. complete: every checkpoint was met in order.
        """

    def move(self, state: State, elements: Sequence[Element], met: Sequence[bool], tools: Sequence[str]) -> Move:
        """The script's next move from `state`; ValueError where there is none.

        met: for every checkpoint whether it was met so far. tools: names of those that it may call.
        """
        raise ValueError(f"the task {self.task.id} has no script")

    def known(self, state: State) -> dict[str, Any] | None:
        """What is true of a state (`facts`, `outcome`, `subtasks`, `strayed`, `notes` of `protocol.messages.Known`);
        None where the suite does not say it."""
        return None


class Suite(Protocol):
    """The two functions of a suite."""

    def tasks(self) -> Mapping[str, Task]:
        """All tasks by their id ("app/name")."""
        ...

    def instantiate(self, task: Any, seed: int) -> TaskInstance:
        """The instance that belongs to `seed`; the same pair gives the same instance everywhere.

        Raises ValueError for a seed of no split.
        """
        ...
