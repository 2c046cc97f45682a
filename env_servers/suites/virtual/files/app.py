"""Files, a desktop file manager: things and coloured folders, drag to move, right click for a menu, keys for the rest.

State JSON: layout {bar, dx, dy, theme, folders, menu} · view grid|list · place "" (root) or a folder's colour ·
root [things] · folders {colour: [things]} · order [colours] · starred [things] · selected · clip ·
menu (thing whose menu is open) · pointer (target under the mouse: a drag starts there) · answer.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from ..app import START, App, CallDict, Element, Move, Slots, State, Subtask, ToolSpec, generator
from ..gestures import Hand
from ..icons import COLOURS, THINGS
from ..pages import assemble
from ..words import fact, facts, without, yes

NAME, DEVICE, WIDTH, HEIGHT = "files", "desktop", 160, 128
ROOM = 8  # entries that fit into one place
HAND = Hand(DEVICE, WIDTH, HEIGHT)


# --- states ----------------------------------------------------------------------------------------------------------
def _content(rng: random.Random) -> State:
    names = rng.sample(sorted(THINGS), 12)
    order = rng.sample(sorted(COLOURS), rng.choice((2, 2, 3)))
    root = names[: 4 if len(order) == 3 else rng.choice((4, 4, 5))]
    inner = iter(names[5:])
    return {
        "layout": {
            "bar": rng.choice(("top", "top", "bottom")),
            "dx": rng.randint(0, 4),
            "dy": rng.randint(0, 6),
            "theme": rng.randint(0, 5),
            "folders": rng.choice(("first", "last")),
            "menu": rng.sample(("copy", "star", "trash"), 3),
        },
        "view": rng.choice(("grid", "grid", "list")),
        "place": "",
        "root": root,
        "folders": {colour: [next(inner) for _ in range(rng.choice((1, 2)))] for colour in order},
        "order": order,
        "starred": [rng.choice(root)],
        "selected": "",
        "clip": "",
        "menu": "",
        "pointer": "",
        "answer": "",
    }


def initial(seed: int) -> State:
    """The root with four or five things, one of them starred, and two or three folders that hold one or two things."""
    return _content(generator(NAME, "initial", seed))


def _names(state: State) -> list[str]:
    """The entries of the open place."""
    if state["place"]:
        return list(state["folders"][state["place"]])
    return [*state["root"], *(f"{colour} folder" for colour in state["order"])]


def sample_state(seed: int) -> State:
    """Any screen of the app: root or a folder, any view, selection, clipboard and open menu."""
    rng = generator(NAME, "sample", seed)
    state = _content(rng)
    if rng.random() < 0.4:
        state["root"] = rng.sample(sorted(THINGS), rng.randint(1, ROOM - 1 - len(state["order"])))
    for colour in state["order"]:
        if rng.random() < 0.4:
            state["folders"][colour] = rng.sample(sorted(THINGS), rng.randint(0, 6))
    if rng.random() < 0.35:
        state["place"] = rng.choice(state["order"])
    things = sorted({*state["root"], *(name for inside in state["folders"].values() for name in inside)})
    state["starred"] = sorted(name for name in things if rng.random() < 0.2)
    shown = _names(state)
    if shown and rng.random() < 0.5:
        state["selected"] = state["pointer"] = rng.choice(shown)
        if state["selected"] in THINGS and rng.random() < 0.6:
            state["menu"] = state["selected"]
    if rng.random() < 0.3:
        state["clip"] = rng.choice(things or sorted(THINGS))
    return state


def screen_facts(state: State) -> list[tuple[str, str]]:
    """Questions that the present screen answers."""
    shown = _names(state)
    things = [name for name in shown if name in THINGS]
    found = [
        ("Which folder is open?", state["place"] or "none"),
        ("Which view is open?", state["view"]),
        ("Is a menu open?", yes(bool(state["menu"]))),
        ("Can you paste?", yes(bool(state["clip"]))),
    ]
    if not state["menu"]:
        found.append(("What is selected?", state["selected"] or "none"))
        found.append(("How many things are shown?", str(len(things))))
        found += [(f"Is the {name} starred?", yes(name in state["starred"])) for name in things]
        if not state["place"]:
            found.append(("How many folders are shown?", str(len(state["order"]))))
    return found


def outcome(state: State) -> dict[str, object]:
    """What lies where, what is starred, and the view."""
    return {
        "view": state["view"],
        **{fact("file", name): True for name in state["root"]},
        **{fact("file", colour, name): True for colour, inside in state["folders"].items() for name in inside},
        **{fact("star", name): True for name in state["starred"]},
    }


# --- script ----------------------------------------------------------------------------------------------------------
def _go(state: State, elements: Sequence[Element], place: str) -> Move | None:
    """The move towards `place` with no menu open, None where that is the screen; the root shows where it is missing."""
    if state["menu"]:
        return HAND.keys("escape")
    if state["place"] == place:
        return None
    if state["place"]:
        return HAND.keys("backspace")
    return HAND.double(elements, f"{place} folder") if place in state["folders"] else HAND.give_up()


def _select(state: State, elements: Sequence[Element], name: str, place: str = "") -> Move | None:
    """The move towards `name` of `place` being selected, None where it is."""
    if move := _go(state, elements, place):
        return move
    if name not in (state["folders"][place] if place else state["root"]):
        return HAND.give_up()
    return None if state["selected"] == name else HAND.tap(elements, name)


def _full(state: State, place: str) -> bool:
    return (len(state["folders"].get(place, ())) if place else len(state["root"]) + len(state["order"])) >= ROOM


def _drag(state: State, elements: Sequence[Element], name: str, source: str, goal: str) -> Move:
    """Select, which leaves the mouse on `name`, then drag from `source` to `goal`."""
    if _full(state, goal):
        return HAND.give_up()
    if move := _select(state, elements, name, source):
        return move
    if goal and goal not in state["folders"]:
        return HAND.give_up()
    onto = f"{goal} folder" if goal else "back"
    return HAND.drag(elements, name, onto) if state["pointer"] == name else HAND.tap(elements, name)


def _star(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    if state["menu"] == slots["star"] and not state["place"]:
        return HAND.tap(elements, "star")
    if move := _go(state, elements, ""):
        return move
    return HAND.context(elements, slots["star"]) if slots["star"] in state["root"] else HAND.give_up()


def _copy(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    name, folder = slots["copy"], slots["copy_folder"]
    if _full(state, folder):
        return HAND.give_up()
    if state["clip"] != name:
        return _select(state, elements, name) or HAND.keys("ctrl", "c")
    return _go(state, elements, folder) or HAND.keys("ctrl", "v")


def _delete(slot: str) -> Callable[[State, Slots, Sequence[Element]], Move]:
    def move(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
        return _select(state, elements, slots[slot], slots.get(f"{slot}_folder", "")) or HAND.keys("delete")

    return move


def _open(state: State, slots: Slots, elements: Sequence[Element], slot: str = "open_folder") -> Move:
    return _go(state, elements, slots[slot]) or HAND.keys("escape")


def _ask(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    return _go(state, elements, slots["ask_folder"]) or HAND.answer(str(len(state["folders"][slots["ask_folder"]])))


def _view(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    return HAND.keys("escape") if state["menu"] else HAND.tap(elements, slots["view"])


# --- the DAG ---------------------------------------------------------------------------------------------------------
def _call(tool: str, **arguments: object) -> CallDict:
    return {"name": f"{NAME}.{tool}", "arguments": arguments}


def _where(state: State, name: str, folder: str) -> tuple[bool, bool]:
    """Whether a thing is in the root, and whether it is in a folder."""
    return name in state["root"], name in state["folders"][folder]


def _both(slots: Slots, slot: str) -> frozenset[str]:
    """The facts of a thing in the root and in the folder of its subtask."""
    return facts(fact("file", slots[slot]), fact("file", slots[f"{slot}_folder"], slots[slot]))


_ROOT = ("view", "star", "move", "delete")
_FOLDER = ("copy", "takeout", "purge")

SUBTASKS = (
    Subtask(
        "view", "Switch to the {view}.",
        lambda state, slots: state["view"] == slots["view"],
        _view,
        after=(START,), at="root", actions=1,
        touches=lambda slots: facts("view"),
    ),
    Subtask(
        "star", "Star the {star}.",
        lambda state, slots: slots["star"] in state["starred"],
        _star,
        after=(START, "view"), at="root", actions=2,
        touches=lambda slots: facts(fact("star", slots["star"])),
        tool=lambda slots: _call("star_file", name=slots["star"]),
        needs=("star",),
    ),
    Subtask(
        "move", "Move the {move} to the {move_folder} folder.",
        lambda state, slots: _where(state, slots["move"], slots["move_folder"]) == (False, True),
        lambda state, slots, elements: _drag(state, elements, slots["move"], "", slots["move_folder"]),
        after=(START, "view", "star"), at="root", actions=2,
        touches=lambda slots: _both(slots, "move"),
        needs=("move", "move_folder"),
    ),
    Subtask(
        "delete", "Delete the {delete}.",
        lambda state, slots: slots["delete"] not in state["root"],
        _delete("delete"),
        after=(START, "view", "star", "move"), at="root", actions=2,
        touches=lambda slots: facts(fact("file", slots["delete"]), fact("star", slots["delete"])),
        tool=lambda slots: _call("delete_file", name=slots["delete"]),
        needs=("delete",),
    ),
    Subtask(
        "copy", "Copy the {copy} to the {copy_folder} folder.",
        lambda state, slots: _where(state, slots["copy"], slots["copy_folder"]) == (True, True),
        _copy,
        after=(START, *_ROOT), at="root", actions=4, ends="folder",
        touches=lambda slots: facts(fact("file", slots["copy_folder"], slots["copy"])),
        tool=lambda slots: _call("copy_file", name=slots["copy"], folder=slots["copy_folder"]),
        needs=("copy", "copy_folder"),
    ),
    Subtask(
        "takeout", "Take the {takeout} out of the {takeout_folder} folder.",
        lambda state, slots: _where(state, slots["takeout"], slots["takeout_folder"]) == (True, False),
        lambda state, slots, elements: _drag(state, elements, slots["takeout"], slots["takeout_folder"], ""),
        after=(START, *_ROOT), at="root", actions=3, ends="folder",
        touches=lambda slots: _both(slots, "takeout"),
        needs=("takeout", "takeout_folder"),
    ),
    Subtask(
        "purge", "Delete the {purge} in the {purge_folder} folder.",
        lambda state, slots: slots["purge"] not in state["folders"][slots["purge_folder"]],
        _delete("purge"),
        after=(START, *_ROOT), at="root", actions=3, ends="folder",
        touches=lambda slots: facts(fact("file", slots["purge_folder"], slots["purge"]), fact("star", slots["purge"])),
        tool=lambda slots: _call("delete_file", name=slots["purge"], folder=slots["purge_folder"]),
        needs=("purge", "purge_folder"),
    ),
    Subtask(
        "open", "Open the {open_folder} folder.",
        lambda state, slots: state["place"] == slots["open_folder"],
        _open,
        after=(START, *_ROOT, *_FOLDER), at="root", actions=1, ends="folder", lasting=False,
        needs=("open_folder",),
    ),
    Subtask(
        "select", "Select the {select}.",
        lambda state, slots: not state["place"] and state["selected"] == slots["select"],
        lambda state, slots, elements: _select(state, elements, slots["select"]) or HAND.tap(elements, slots["select"]),
        after=(START, *_ROOT, *_FOLDER), at="root", actions=1, lasting=False,
        needs=("select",),
    ),
    Subtask(
        "ask", "How many things are in the {ask_folder} folder?",
        lambda state, slots: state["answer"] == str(len(state["folders"][slots["ask_folder"]])),
        _ask,
        after=(START, *_ROOT, *_FOLDER), at="root", actions=2, ends="folder",
        needs=("ask_folder",),
    ),
    Subtask(
        "missing", "Delete the {missing}.",
        lambda state, slots: False,
        lambda state, slots, elements: _go(state, elements, "") or HAND.give_up(),
        after=(START,), at="root", actions=1, feasible=False,
    ),
)  # fmt: skip


def fill(rng: random.Random, path: tuple[str, ...], state: State) -> Slots:
    """Different things for the subtasks of a path; folders that get opened differ while there are enough."""
    slots: Slots = {}
    used: set[str] = set()
    folders = rng.sample(state["order"], len(state["order"]))
    for k, name in enumerate(name for name in path if name in ("copy", "takeout", "purge", "open", "ask")):
        slots[f"{name}_folder"] = folders[k % len(folders)]
    if "move" in path:
        slots["move_folder"] = rng.choice(folders)
    pools = {
        "star": without(state["root"], state["starred"]),
        "move": state["root"],
        "delete": state["root"],
        "copy": state["root"],
        "select": state["root"],
        "missing": without(sorted(THINGS), *state["folders"].values(), state["root"]),
        **{name: state["folders"][slots[f"{name}_folder"]] for name in ("takeout", "purge") if name in path},
    }
    for name, pool in pools.items():
        if name in path:
            slots[name] = rng.choice(without(pool, used))
            used.add(slots[name])
    if "view" in path:
        slots["view"] = "list" if state["view"] == "grid" else "grid"
    return slots


_FILE = {"type": "string", "description": "name of a thing"}
_COLOUR = {"type": "string", "description": "colour of a folder"}

TOOLS = (
    ToolSpec.of(f"{NAME}.copy_file", "Copy a thing into a folder.", {"name": _FILE, "folder": _COLOUR}),
    ToolSpec.of(
        f"{NAME}.delete_file", "Delete a thing, of a folder where given.", {"name": _FILE}, {"folder": _COLOUR}
    ),
    ToolSpec.of(f"{NAME}.star_file", "Star a thing.", {"name": _FILE}),
)

NAMES = (*(f"{colour} folder" for colour in COLOURS), "back", "list", "grid", "copy", "paste", "star", "trash")

APP = App(
    name=NAME,
    device=DEVICE,
    width=WIDTH,
    height=HEIGHT,
    page=assemble(NAME, WIDTH, HEIGHT),
    subtasks=SUBTASKS,
    tools=TOOLS,
    initial=initial,
    sample_state=sample_state,
    facts=screen_facts,
    fill=fill,
    outcome=outcome,
    home="root",
    names=(*sorted(THINGS), *NAMES),
    pools={
        slot: sorted(COLOURS if slot.endswith("folder") else THINGS) for subtask in SUBTASKS for slot in subtask.needs
    },
)
