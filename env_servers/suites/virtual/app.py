"""What a virtual app is: a page, a DAG of subtasks with predicates and scripts, tools, and the tasks made of them.

In: an `App` (one of orders, files, shop) and seeds. Out: `Task`s (paths through the DAG, GUI-Owl-1.5 section 2.2.2:
instruction = Compose(d(v_1) ... d(v_K))) and `TaskInstance`s whose slots are filled from the seed's content.

The app's state is a JSON document. A checkpoint is a pure function of it and of the slots (R34); success is all
checkpoints met in order plus `TaskInstance.final` at the end: the last checkpoint and every lasting one hold, and
nothing that the task does not speak of has changed.
"""

from __future__ import annotations

import graphlib
import hashlib
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from .. import suite
from ..suite import SEEDS, PageKind, State, ToolSpec, split_of
from .gestures import CallDict, Element, Hand, Move

__all__ = ["SEEDS", "App", "State", "Subtask", "Task", "TaskInstance", "ToolSpec", "split_of"]

Slots = dict[str, Any]

START = "start"
LONGEST_PATH = 4
MOST_ACTIONS = 8  # of a script, without terminate, unless the app says otherwise
MOST_TASKS = 40  # of an app


def state_hash(state: State) -> str:
    """Hash of a state's canonical JSON; equal states have equal hashes whatever the order of their keys."""
    return hashlib.sha256(json.dumps(state, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:16]


def generator(*parts: object) -> random.Random:
    """A random generator that depends on the parts' text alone (not on Python's hash seed)."""
    return random.Random(":".join(map(str, parts)))


@dataclass(frozen=True)
class Subtask:
    """A vertex of the DAG.

    text: sentence with slots, e.g. "Star the {star}." · checkpoint(state, slots): whether it is achieved in this state
    move(state, slots, elements): the script's next move towards it from any state where it is unmet
    after: its predecessors ("start": a path may begin here)
    at: the place (screen) of the app where it is done · ends: the place where it leaves the app, "" = where it was done
    actions: GUI actions it takes at its place, getting there not counted
    touches(slots): the facts of `App.outcome` that it may change · lasting: must still hold at the end
    tool(slots): the one tool call that does it, where there is one
    feasible: false where only terminate(failure) is right
    needs: slots without whose thing or folder it cannot be done
    notes(state, slots): what the screen shows now that a later step of it needs, though it will not be typed as it is
    """

    id: str
    text: str
    checkpoint: Callable[[State, Slots], bool]
    move: Callable[[State, Slots, Sequence[Element]], Move]
    after: tuple[str, ...]
    at: str
    actions: int
    ends: str = ""
    touches: Callable[[Slots], frozenset[str]] = lambda slots: frozenset()
    lasting: bool = True
    tool: Callable[[Slots], CallDict] | None = None
    feasible: bool = True
    needs: tuple[str, ...] = ()
    notes: Callable[[State, Slots], Sequence[str]] = lambda state, slots: ()


@dataclass(frozen=True)
class Task(suite.Task):
    """A path through an app's DAG."""

    app: str
    path: tuple[str, ...]


@dataclass(frozen=True)
class TaskInstance(suite.TaskInstance):
    """A task with its slots filled.

    final: whether the end state is right, all checkpoints having been met. strayed: the facts of a state's outcome that
    changed though the task does not speak of them. absent: the subtask that cannot be done.
    """

    app: App
    slots: Slots
    final: Callable[[State], bool]
    strayed: Callable[[State], list[str]]
    subtask_texts: tuple[str, ...]
    absent: str = ""

    def succeeded(self, state: State, declared: str | None, complete: bool) -> bool:
        """All checkpoints in order and the end state; what is infeasible is solved by terminate(failure) alone (R4)."""
        if not self.task.feasible:
            return declared == "failure"
        return declared == "success" and complete and bool(self.final(state))

    def move(self, state: State, elements: Sequence[Element], met: Sequence[bool], tools: Sequence[str]) -> Move:
        """See `scripted_move`."""
        return scripted_move(self.app, self, state, elements, met, tools)

    def known(self, state: State) -> dict[str, Any]:
        """See `suite.TaskInstance.known`."""
        notes = [note for name in self.task.path for note in self.app.by_id[name].notes(state, self.slots)]
        return {
            "facts": self.app.facts(state), "outcome": self.app.outcome(state), "subtasks": list(self.subtask_texts),
            "strayed": self.strayed(state), "notes": notes,
        }  # fmt: skip


@dataclass(frozen=True)
class App:
    """A virtual app. `page` is the whole HTML; the functions are pure and deterministic in their arguments.

    initial(seed): the state that tasks start from · sample_state(seed): any plausible state, for pre-training screens
    facts(state): (question, one- or two-word answer) true of the screen · fill(rng, path, state): slots for a path
    outcome(state): flat facts that tasks are about; two states with equal outcomes differ in navigation only
    home: the place where every task starts; from one place to another is one action
    most_actions: of a task's script, without terminate
    pools: by slot, the entity table that its value comes from, so that what is absent can be named
    """

    name: str
    device: str
    width: int
    height: int
    page: str = field(repr=False)
    subtasks: tuple[Subtask, ...] = field(repr=False)
    tools: tuple[ToolSpec, ...]
    initial: Callable[[int], State]
    sample_state: Callable[[int], State]
    facts: Callable[[State], list[tuple[str, str]]]
    fill: Callable[[random.Random, tuple[str, ...], State], Slots]
    outcome: Callable[[State], dict[str, Any]]
    home: str
    names: tuple[str, ...] = field(repr=False, default=())
    most_actions: int = MOST_ACTIONS
    pools: Mapping[str, Sequence[str]] = field(repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        check_dag(self.subtasks, self.name)

    @cached_property
    def kind(self) -> PageKind:
        """The page that its sessions load."""
        return PageKind(self.name, self.page, self.width, self.height, touch=self.device == "mobile")

    @property
    def hand(self) -> Hand:
        """Gestures of its device on its screen."""
        return Hand(self.device, self.width, self.height)

    @cached_property
    def by_id(self) -> dict[str, Subtask]:
        """Its subtasks by id."""
        return {subtask.id: subtask for subtask in self.subtasks}

    @cached_property
    def task_list(self) -> tuple[Task, ...]:
        """Its tasks: paths through the graph."""
        return tuple(make_task(self, path) for path in sample_paths(self, MOST_TASKS))

    def tasks(self) -> tuple[Task, ...]:
        """The app's tasks: distinct paths of 1 to 4 subtasks, at most `MOST_TASKS`, every vertex covered."""
        return self.task_list

    def by_tool(self, subtask: Subtask) -> bool:
        """Whether a script that may use tools uses one here: where there is one and it saves actions from `home`."""
        return subtask.tool is not None and subtask.actions + (subtask.at != self.home) > 1

    def slots(self, seed: int, path: tuple[str, ...], state: State) -> Slots:
        """Slots for `path` that make it feasible from `state`."""
        return self.fill(generator(self.name, "slots", *path, seed), path, state)


def check_dag(subtasks: Sequence[Subtask], app: str) -> None:
    """Raise ValueError unless ids are unique, predecessors exist, and all is acyclic and reachable from start."""
    ids = [subtask.id for subtask in subtasks]
    for name, count in Counter(ids).items():
        if count > 1 or name == START:
            raise ValueError(f"app {app}: subtask id {name!r} is used more than once")
    graph = {subtask.id: set(subtask.after) for subtask in subtasks}
    for name, before in graph.items():
        if unknown := before - set(ids) - {START}:
            raise ValueError(f"app {app}: subtask {name!r} comes after unknown {sorted(unknown)}")
        if not before:
            raise ValueError(f"app {app}: subtask {name!r} can not be reached from {START!r}")
    try:
        order = tuple(graphlib.TopologicalSorter(graph).static_order())
    except graphlib.CycleError as error:
        raise ValueError(f"app {app}: the subtasks form a cycle {error.args[1]}") from error
    reached = {START}
    for name in order:
        if graph.get(name, set()) & reached:
            reached.add(name)
    if lost := set(ids) - reached:
        raise ValueError(f"app {app}: subtasks {sorted(lost)} can not be reached from {START!r}")


def paths(app: App, longest: int = LONGEST_PATH) -> Iterator[tuple[str, ...]]:
    """Every path from start of 1 to `longest` subtasks, in the order of the subtasks' declaration."""
    following: dict[str, list[str]] = {START: [], **{subtask.id: [] for subtask in app.subtasks}}
    for subtask in app.subtasks:
        for before in subtask.after:
            following[before].append(subtask.id)

    def walk(path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        for name in following[path[-1] if path else START]:
            longer = (*path, name)
            yield longer
            if len(longer) < longest:
                yield from walk(longer)

    return walk(())


def script_length(app: App, path: tuple[str, ...], tools: bool = False) -> int:
    """Actions of the path's script (or of its tool route) without terminate, getting from place to place included."""
    total, place = 0, app.home
    for subtask in map(app.by_id.__getitem__, path):
        if tools and app.by_tool(subtask):
            total += 1
        else:
            total += subtask.actions + (subtask.at != place)
            place = subtask.ends or subtask.at
    return total


def sample_paths(app: App, most: int) -> list[tuple[str, ...]]:
    """At most `most` paths whose script fits `app.most_actions`: all single subtasks, then those that cover most anew.

    A path is worth the edges it adds that no chosen path has, then the rarity of its subtasks and of its length; ties
    go by a fixed shuffle, so that the list is the same everywhere.
    """
    fitting = [path for path in paths(app) if script_length(app, path) <= app.most_actions]
    chosen = [path for path in fitting if len(path) == 1][:most]
    rest = [path for path in fitting if len(path) > 1]
    generator(app.name, "paths").shuffle(rest)
    used, lengths = Counter(name for path in chosen for name in path), Counter(len(path) for path in chosen)
    edges: set[tuple[str, str]] = set()

    def worth(path: tuple[str, ...]) -> tuple[float, float]:
        new = sum(edge not in edges for edge in zip(path, path[1:], strict=False))
        return new / len(path) - 0.1 * lengths[len(path)], -sum(used[name] for name in path) / len(path)

    while rest and len(chosen) < most:
        best = max(rest, key=worth)
        rest.remove(best)
        chosen.append(best)
        used.update(best)
        lengths[len(best)] += 1
        edges.update(zip(best, best[1:], strict=False))
    order = {subtask.id: k for k, subtask in enumerate(app.subtasks)}
    return sorted(chosen, key=lambda path: (len(path), [order[name] for name in path]))


def make_task(app: App, path: tuple[str, ...]) -> Task:
    """The task of a path. A tool is beneficial (+1) where its route saves at least two actions, else it is -1."""
    subtasks = [app.by_id[name] for name in path]
    length = script_length(app, path)
    saved = length - script_length(app, path, tools=True)
    feasible = all(subtask.feasible for subtask in subtasks)
    tags = (app.name, f"length-{len(path)}", *(() if feasible else ("infeasible",)), *path)
    return Task(
        id=f"{app.name}/{'+'.join(path)}",
        app=app.name,
        device=app.device,
        path=path,
        instruction_template=" ".join(subtask.text for subtask in subtasks),
        tags=tags,
        tool_beneficial=1 if feasible and saved >= 2 else -1,
        feasible=feasible,
        max_steps=2 * length + 2,
    )


def make_instance(app: App, task: Task, seed: int) -> TaskInstance:
    """The instance of `task` that belongs to `seed`; raises ValueError for a seed of no split."""
    split_of(seed)
    initial = app.initial(seed)
    slots = app.slots(seed, task.path, initial)
    subtasks = [app.by_id[name] for name in task.path]
    before = app.outcome(initial)
    touched = frozenset().union(*(subtask.touches(slots) for subtask in subtasks))

    def strayed(state: State) -> list[str]:
        after = app.outcome(state)
        return sorted(k for k in (before.keys() | after.keys()) - touched if before.get(k) != after.get(k))

    def final(state: State) -> bool:
        kept = [subtask for k, subtask in enumerate(subtasks) if subtask.lasting or k == len(subtasks) - 1]
        return not strayed(state) and all(subtask.checkpoint(state, slots) for subtask in kept)

    def bind(subtask: Subtask) -> Callable[[State], bool]:
        return lambda state: subtask.checkpoint(state, slots)

    texts = tuple(subtask.text.format(**slots) for subtask in subtasks)
    return TaskInstance(
        task=task,
        seed=seed,
        page=app.kind,
        instruction=" ".join(texts),
        initial=initial,
        checkpoints=tuple(map(bind, subtasks)),
        tools=app.tools,
        app=app,
        slots=slots,
        final=final,
        strayed=strayed,
        subtask_texts=texts,
    )


def scripted_move(
    app: App,
    instance: TaskInstance,
    state: State,
    elements: Sequence[Element],
    met: Sequence[bool],
    tools: Sequence[str] = (),
) -> Move:
    """The script of a task: the next move from the present state towards the first checkpoint not in `met`.

    met: for every checkpoint whether it was met at some step so far. tools: names of the tools that the script may
    call; it calls one where that does a whole subtask in fewer actions. Ends with terminate(success), or, where a
    subtask cannot be done, with terminate(failure): not before the screen has shown that, as whoever learns from the
    script sees nothing else (so a task in which something is absent is played without tools).
    """
    for done, name, text in zip(met, instance.task.path, instance.subtask_texts, strict=True):
        if done:
            continue
        subtask = app.by_id[name]
        if subtask.tool and app.by_tool(subtask) and not instance.absent:
            call = subtask.tool(instance.slots)
            if call["name"] in tools:
                return Move(call, f"Use the tool. {text}")
        return subtask.move(state, instance.slots, elements)
    return app.hand.finish()
