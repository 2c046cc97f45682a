"""Tasks from directed acyclic graphs of subtasks (GUI-Owl-1.5, section 2.2.2), as files and as instructions.

In: a graph, written by hand (YAML or JSON) or taken from a virtual app. Out: `MadeTask`s: a path from a start to a
terminal vertex, its slots filled, and its instruction I(p) = Compose(d(v_1) ... d(v_K)). A file:

    app: notes
    device: mobile
    entities: {note: [apple, pear], person: [Ann, Bob]}
    start: [open]                        # S; other vertices say what they come after
    terminal: [share, delete]            # T; left out: a path may end anywhere
    subtasks:
      open: {text: "Open the {note}."}
      share: {text: "Share it with {person}.", after: [open]}
      delete: {text: "Delete the {old}.", after: [open, share], slots: {old: note}}

A slot takes its value from the entity table of its own name, or from the one that `slots` names; two slots of one path
that draw on one table get different values. What makes a graph valid, and its paths, are those of the virtual apps
(`env_servers.suites.virtual.app`): this is the same graph with its predicates left out.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import random
import re
import string
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from env_servers.protocol.actions import FAMILIES
from env_servers.suites.virtual.app import START, App, check_dag, paths
from gui_rl.errors import UserError
from gui_rl.flywheel.annotator import Annotator, Question, RubbishError, ask_json

MOST_PATHS = 1_000_000
JOINS = (
    ("", " ", ""),
    ("First: ", " Then: ", ""),
    ("Do this step by step. ", " After that: ", ""),
    ("", " Next: ", ""),
    ("", " When that is done: ", " That is all."),
)
"""Templates of `compose`: what opens, joins and closes the subtasks' sentences; the first is the virtual apps' own."""


@dataclasses.dataclass(frozen=True)
class Vertex:
    """A subtask as a file has it. `slots` maps a slot of the text to its entity table."""

    id: str
    text: str
    after: tuple[str, ...]
    slots: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Graph:
    """The subtasks of one app. Raises UserError, naming the app and what is wrong, for a graph that is not valid."""

    app: str
    device: str
    subtasks: tuple[Vertex, ...]
    terminal: tuple[str, ...] = ()
    entities: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.device not in FAMILIES:
            raise UserError(f"app {self.app}: device {self.device!r} is none of {', '.join(FAMILIES)}")
        try:
            check_dag(self.subtasks, self.app)
        except ValueError as error:
            raise UserError(str(error)) from None
        known = {vertex.id for vertex in self.subtasks}
        if unknown := set(self.terminal) - known:
            raise UserError(f"app {self.app}: terminal names unknown subtasks {sorted(unknown)}")
        if lost := known - self._ending():
            raise UserError(f"app {self.app}: no terminal subtask can be reached from {sorted(lost)}")
        for vertex in self.subtasks:
            for slot in slots_of(vertex.text, f"app {self.app}: subtask {vertex.id!r}"):
                table = vertex.slots.get(slot, slot)
                if self.entities and not self.entities.get(table):
                    raise UserError(f"app {self.app}: subtask {vertex.id!r}: slot {slot!r} has no entities {table!r}")

    def _ending(self) -> set[str]:
        """Subtasks from which a terminal one can be reached."""
        before = {vertex.id: vertex.after for vertex in self.subtasks}
        found, queue = set(), list(self.terminal or before)
        while queue:
            name = queue.pop()
            if name not in found and name in before:
                found.add(name)
                queue += before[name]
        return found

    def paths(self, longest: int) -> list[tuple[str, ...]]:
        """Every path of at most `longest` subtasks that ends in a terminal one."""
        ends, found = set(self.terminal) or {vertex.id for vertex in self.subtasks}, []
        for path in paths(self, longest):
            if path[-1] in ends:
                found.append(path)
            if len(found) > MOST_PATHS:
                raise UserError(
                    f"app {self.app}: more than {MOST_PATHS} paths of up to {longest}: ask for shorter ones"
                )
        if not found:
            raise UserError(f"app {self.app}: no path of up to {longest} subtasks ends in {sorted(ends)}")
        return found

    def fill(self, path: Sequence[str], rng: random.Random) -> dict[str, str]:
        """Values for the slots of a path, different ones where slots draw on one table."""
        by_id = {vertex.id: vertex for vertex in self.subtasks}
        filled: dict[str, str] = {}
        used: dict[str, set[str]] = {}
        for vertex in (by_id[name] for name in path):
            for slot in slots_of(vertex.text):
                table = vertex.slots.get(slot, slot)
                if slot in filled:
                    continue
                left = [value for value in self.entities.get(table, ()) if value not in used.setdefault(table, set())]
                if not left:
                    raise UserError(f"app {self.app}: entities {table!r} are too few for the slots of {'+'.join(path)}")
                filled[slot] = rng.choice(left)
                used[table].add(filled[slot])
        return filled

    def texts(self, path: Sequence[str], slots: Mapping[str, Any]) -> tuple[str, ...]:
        """d(v_1) ... d(v_K) with the slots filled."""
        by_id = {vertex.id: vertex for vertex in self.subtasks}
        return tuple(by_id[name].text.format(**slots) for name in path)

    def to_document(self) -> dict[str, Any]:
        """The graph as its file holds it."""
        subtasks = {}
        for vertex in self.subtasks:
            after = [name for name in vertex.after if name != START]
            slots = {"slots": dict(vertex.slots)} if vertex.slots else {}
            subtasks[vertex.id] = {"text": vertex.text, **({"after": after} if after else {}), **slots}
        start = [vertex.id for vertex in self.subtasks if START in vertex.after]
        entities = {name: list(values) for name, values in self.entities.items()}
        document: dict[str, Any] = {"app": self.app, "device": self.device, "start": start}
        if self.terminal:
            document["terminal"] = list(self.terminal)
        return document | ({"entities": entities} if entities else {}) | {"subtasks": subtasks}


def slots_of(text: str, where: str = "") -> list[str]:
    """Names of the slots of a template, in order. Raises UserError for one that is no template."""
    try:
        names = [name for _, name, _, _ in string.Formatter().parse(text) if name is not None]
    except ValueError as error:
        raise UserError(f"{where}: {text!r} is no template: {error}") from None
    for name in names:
        if not name.isidentifier():
            raise UserError(f"{where}: {text!r}: a slot is a name in braces, not {{{name}}}")
    return list(dict.fromkeys(names))


def read_graph(path: str | Path) -> Graph:
    """The graph of a YAML or JSON file. Raises UserError naming the file and what is wrong in it."""
    try:
        document = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UserError(f"{path}: {' '.join(str(error).split())}") from None
    try:
        return graph_from(document)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None


def graph_from(document: Any) -> Graph:
    """The graph of a document (see the top of this file). Raises UserError for a field that does not fit."""
    known = {"app", "device", "start", "terminal", "entities", "subtasks"}
    if not isinstance(document, dict) or (missing := {"app", "device", "start", "subtasks"} - set(document)):
        raise UserError(f"a task graph needs {', '.join(sorted(missing if isinstance(document, dict) else known))}")
    if unknown := set(document) - known:
        raise UserError(f"unknown fields {sorted(unknown)}: a task graph has {', '.join(sorted(known))}")
    start, subtasks = _names(document, "start"), document["subtasks"]
    if not isinstance(subtasks, dict):
        raise UserError("subtasks: need a table from names to {text, after, slots}")
    vertices = []
    for name, fields in subtasks.items():
        if not isinstance(fields, dict) or not isinstance(fields.get("text"), str):
            raise UserError(f"subtasks: {name}: need {{text: ..., after: [...], slots: {{...}}}}")
        if unknown := set(fields) - {"text", "after", "slots"}:
            raise UserError(f"subtasks: {name}: unknown fields {sorted(unknown)}")
        after = _names(fields, "after", f"subtasks: {name}: ") if "after" in fields else ()
        vertices.append(
            Vertex(str(name), fields["text"], (*((START,) if name in start else ()), *after), fields.get("slots") or {})
        )
    if unknown := set(start) - set(subtasks):
        raise UserError(f"start names unknown subtasks {sorted(unknown)}")
    entities = document.get("entities") or {}
    if not isinstance(entities, dict) or not all(isinstance(values, list) and values for values in entities.values()):
        raise UserError("entities: need a table from names to lists of values")
    tables = {str(name): tuple(map(str, values)) for name, values in entities.items()}
    terminal = _names(document, "terminal") if document.get("terminal") else ()
    if slots := [slot for v in vertices for slot in slots_of(v.text, f"subtasks: {v.id}")]:
        if not tables:
            raise UserError(f"the slots {sorted(set(slots))} need entities")
    return Graph(str(document["app"]), str(document["device"]), tuple(vertices), terminal, tables)


def _names(document: Mapping[str, Any], field: str, where: str = "") -> tuple[str, ...]:
    value = document[field]
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise UserError(f"{where}{field}: need a list of subtasks, not {value!r}")
    return tuple(value)


def graph_of(app: App) -> Graph:
    """The graph of a virtual app; its entities are the content of each seed, so it has no tables of its own."""
    vertices = tuple(Vertex(subtask.id, subtask.text, subtask.after) for subtask in app.subtasks)
    return Graph(app.name, app.device, vertices)


def apply(graph: Graph, app: App) -> App:
    """A virtual app with the order and the texts of a graph; predicates, scripts and slots stay the app's.

    Raises UserError for a subtask that the app does not have, or a slot that its subtask does not fill.
    """
    made = []
    for vertex in graph.subtasks:
        if vertex.id not in app.by_id:
            raise UserError(f"app {app.name} has no subtask {vertex.id!r}: it has {', '.join(app.by_id)}")
        own = app.by_id[vertex.id]
        if extra := set(slots_of(vertex.text)) - set(slots_of(own.text)):
            raise UserError(f"app {app.name}: subtask {vertex.id!r} fills no slot {sorted(extra)}")
        made.append(dataclasses.replace(own, text=vertex.text, after=vertex.after))
    return dataclasses.replace(app, subtasks=tuple(made))


def covering(paths_: Sequence[tuple[str, ...]], seed: int) -> Iterator[tuple[str, ...]]:
    """Paths without end: none comes twice before all have come. In each round those come first that show most edges
    not yet seen in it, a path's own length counted against it; ties are drawn by the seed.
    """
    rng = random.Random(f"paths:{seed}")
    while True:
        left = list(paths_)
        rng.shuffle(left)
        seen: set[tuple[str, str]] = set()
        edges = {path: set(zip((START, *path), path, strict=False)) for path in left}
        while left and len(seen) < len(set().union(*edges.values())):
            best = max(left, key=lambda path: len(edges[path] - seen) / len(path))
            left.remove(best)
            seen |= edges[best]
            yield best
        yield from left


@dataclasses.dataclass(frozen=True)
class MadeTask:
    """A task: path, slots, sentences and instruction; `made_by` says who wrote the instruction.

    suite, task, seed: where a world plays it, else "" and 0.
    """

    app: str
    device: str
    path: tuple[str, ...]
    slots: Mapping[str, Any]
    subtasks: tuple[str, ...]
    instruction: str
    made_by: str = "template"
    suite: str = ""
    task: str = ""
    seed: int = 0

    def to_dict(self) -> dict[str, Any]:
        """A JSON document."""
        return dataclasses.asdict(self)


def compose(texts: Sequence[str], rng: random.Random) -> str:
    """Compose by a template of `JOINS`; one sentence stays as it is."""
    opening, join, closing = rng.choice(JOINS) if len(texts) > 1 else JOINS[0]
    return f"{opening}{join.join(texts)}{closing}"


REWRITE = (
    "Rewrite this instruction to a GUI agent in other words, as a person would ask for it. Keep the order of its steps "
    "and every one of these values, spelled exactly so: {values}.\nInstruction: {instruction}\n"
    'Answer with JSON: {{"instruction": "..."}}'
)


async def rewritten(annotator: Annotator, task: MadeTask) -> MadeTask:
    """The task with its instruction in an annotator's words, every slot value kept as often as it stood there.

    Only values that the composed instruction shows are asked for. Raises RubbishError where one is lost or doubled.
    """
    shown = [str(value) for value in task.slots.values() if _count(str(value), task.instruction)]

    def read(value: Any) -> str:
        text = value["instruction"]
        if not isinstance(text, str) or not text.strip() or "\n" in text.strip():
            raise ValueError("an instruction is one line of text")
        lost = [entity for entity in shown if _count(entity, text) != _count(entity, task.instruction)]
        if lost:
            raise ValueError(f"it does not keep {lost}")
        return text.strip()

    text = REWRITE.format(values=json.dumps(shown, ensure_ascii=False), instruction=task.instruction)
    facts = {"instruction": task.instruction, "values": shown}
    said = await ask_json(annotator, Question("rewrite", text, facts=facts), read)
    return dataclasses.replace(task, instruction=said, made_by=annotator.name)


def _count(value: str, text: str) -> int:
    """How often a value stands in a text as words of its own."""
    return len(re.findall(rf"(?<!\w){re.escape(value)}(?!\w)", text))


def make_tasks(graph: Graph, count: int, longest: int, seed: int) -> list[MadeTask]:
    """`count` tasks of a graph with entity tables of its own."""
    made, order = [], covering(graph.paths(longest), seed)
    for number in range(count):
        path, rng = next(order), random.Random(f"{graph.app}:{seed}:{number}")
        slots = graph.fill(path, rng)
        texts = graph.texts(path, slots)
        made.append(MadeTask(graph.app, graph.device, path, slots, texts, compose(texts, rng)))
    return made


def app_tasks(app: App, suite: str, count: int, longest: int, seed: int, seeds: range) -> list[MadeTask]:
    """`count` tasks that a server plays: paths of the app's own tasks, slots of the seed's content, a new seed each."""
    known = [task for task in app.tasks() if len(task.path) <= longest and task.feasible]
    by_path = {task.path: task for task in known}
    made, order = [], covering(list(by_path), seed)
    for number in range(count):
        path = next(order)
        world = seeds[number % len(seeds)]
        slots = app.slots(world, path, app.initial(world))
        texts = tuple(app.by_id[name].text.format(**slots) for name in path)
        instruction = compose(texts, random.Random(f"{app.name}:{seed}:{number}"))
        made.append(
            MadeTask(app.name, app.device, path, slots, texts, instruction, "template", suite, by_path[path].id, world)
        )
    return made


async def rewrite_all(annotator: Annotator, tasks: Sequence[MadeTask]) -> tuple[list[MadeTask], int]:
    """(the tasks, those that could be rewritten in other words; how many answers were rubbish and changed nothing)."""

    async def one(task: MadeTask) -> tuple[MadeTask, bool]:
        try:
            return await rewritten(annotator, task), False
        except RubbishError:
            return task, True

    done = await asyncio.gather(*map(one, tasks))
    return [task for task, _ in done], sum(rubbish for _, rubbish in done)
