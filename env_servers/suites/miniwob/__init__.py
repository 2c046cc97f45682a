"""MiniWoB++: the pages of the package `miniwob` (Liu et al. 2018, arXiv 1802.08802), each a task of the browser family.

In: the package's HTML files, read where they are installed; nothing is fetched. Out: the two functions of a suite, and
`SMALL`, a suite of 25 of the same tasks for small policies.

The instruction is the page's utterance; the page ends the episode itself, and success is its own raw reward of 1 (R33).
Its clock stands still except for half a second a step (`clock.js`), and an episode has no time limit. Where the page
tells training from test instances, evaluation seeds get test instances. pages.json, written by `survey`, says which
pages there are and which of them keep something of an episode and so are loaded afresh for every one.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace

from env_servers.errors import UserError

from ..suite import PageKind, State, Suite, Task, TaskInstance, split_of
from ..virtual.gestures import Element, Move
from .scripts import SCRIPTS

WIDTH, HEIGHT = 160, 210  # css px, the pages' own area
MAX_STEPS = 30
SMALL_STEPS = 10  # of the tasks for small policies: their shortest solutions take at most half of it
DESKTOP = frozenset(
    "chase-circle copy-paste copy-paste-2 daily-calendar drag-box drag-circle drag-cube drag-items drag-items-grid"
    " drag-shapes drag-shapes-2 drag-single-shape drag-sort-numbers draw-circle draw-line form-sequence"
    " highlight-text highlight-text-2 hot-cold hover-shape resize-textarea text-editor use-slider use-slider-2".split()
)
"""Pages that ask for a drag, a hovering mouse or key combinations: the actions of a desktop."""
SMALL_TASKS = (
    "choose-list click-button click-button-sequence click-checkboxes click-collapsible click-color click-dialog"
    " click-dialog-2 click-link click-option click-shades click-shape click-tab click-test click-test-2 click-widget"
    " count-shape enter-password enter-text focus-text focus-text-2 grid-coordinate identify-shape login-user"
    " navigate-tree"
).split()

_HERE = Path(__file__).parent
_MODES = {"train": "train", "pretrain": "train", "evaluation": "test"}


@cache
def pages() -> dict[str, dict]:
    """pages.json: {"pages": {name: {"reload": whether it needs a fresh document}}, "left_out": {name: why}}."""
    return json.loads((_HERE / "pages.json").read_text())


@cache
def folder() -> Path:
    """Where the package keeps its pages; UserError where it is not installed."""
    found = importlib.util.find_spec("miniwob")  # found, not imported: that would want Selenium
    if found is None or not found.submodule_search_locations:
        raise UserError("the suite 'miniwob' needs the package of that name: `pip install miniwob==1.1.0`")
    return Path(found.submodule_search_locations[0]) / "html" / "miniwob"


@cache
def page_kind(name: str, reload: bool) -> PageKind:
    """The page called `name`; reload: it needs a fresh document for every episode."""
    before, after = ((_HERE / script).read_text(encoding="utf-8") for script in ("clock.js", "page.js"))
    url = (folder() / f"{name}.html").as_uri()
    return PageKind(f"miniwob/{name}", "", WIDTH, HEIGHT, url=url, before=before, after=after, reload=reload)


@dataclass(frozen=True)
class PageInstance(TaskInstance):
    """A page with its seed."""

    def ended(self, state: State) -> bool:
        """The page has ended the episode."""
        return bool(state["done"])

    def succeeded(self, state: State, declared: str | None, complete: bool) -> bool:
        """By the page's own reward alone."""
        return complete

    def move(self, state: State, elements: Sequence[Element], met: Sequence[bool], tools: Sequence[str]) -> Move:
        """The page's script, where there is one."""
        script = SCRIPTS.get(self.task.id.removeprefix("miniwob/"))
        return script(state, elements) if script else super().move(state, elements, met, tools)


def _task(name: str) -> Task:
    small = name in SMALL_TASKS
    return Task(
        id=f"miniwob/{name}",
        device="desktop" if name in DESKTOP else "web",
        instruction_template=f"({name.replace('-', ' ')}: the page says what to do)",
        tags=("miniwob", *(("small",) if small else ())),
        tool_beneficial=-1,
        feasible=True,
        max_steps=SMALL_STEPS if small else MAX_STEPS,
        scripted=name in SCRIPTS,
    )


@cache
def tasks() -> Mapping[str, Task]:
    """All tasks by their id ("miniwob/click-test")."""
    return {task.id: task for task in map(_task, pages()["pages"])}


def instantiate(task: Task, seed: int) -> TaskInstance:
    """The episode that belongs to `seed`; ValueError for a seed of no split, UserError without the package."""
    name = task.id.removeprefix("miniwob/")
    return PageInstance(
        task=task,
        seed=seed,
        page=page_kind(name, pages()["pages"][name]["reload"]),
        instruction="",
        initial={"seed": seed, "mode": _MODES[split_of(seed)]},
        checkpoints=(_rewarded,),
        tools=(),
    )


def _rewarded(state: State) -> bool:
    """The page's own verdict, without its discount for time."""
    return state["reward"] == 1


def _small() -> Mapping[str, Task]:
    return {task_id: task for task_id, task in tasks().items() if "small" in task.tags}


SMALL: Suite = SimpleNamespace(tasks=_small, instantiate=instantiate)
