"""Explorer, a file manager on a desktop: windows that overlap, lists, icons, dragging, keys, archives, bin, search."""

from __future__ import annotations

import json
import random

from ...virtual.app import START, Slots, State, Subtask, ToolSpec
from ...virtual.words import without
from ..goals import answered, reached, touched, with_goals
from ..office import DESKTOP
from ..web import call
from . import script
from .content import FILES, FOLDERS, KINDS, NEW_STEMS, PLACES
from .effects import ANSWERS, EFFECTS, largest
from .state import NAME, front, initial, is_folder, node_at, outcome, sample_state, screen_facts

FILE_TASKS = ("move", "across", "copy", "rename", "delete", "compress", "star", "size")  # a file of its own for each


# --- the DAG ---------------------------------------------------------------------------------------------------------
def _task(
    name: str, text: str, after: tuple[str, ...], actions: int, needs: tuple[str, ...] = (), at: str = "", **more
):
    check = answered(name) if name in ANSWERS else reached(name, outcome)
    touches = {} if name in ANSWERS else {"touches": touched(name)}
    return Subtask(name, text, check, getattr(script, name), (START, *after), at or name, actions, needs=needs,
                   **touches, **more)  # fmt: skip


def _looks(name: str, text: str, check, after: tuple[str, ...], actions: int, needs: tuple[str, ...]) -> Subtask:
    """A subtask about windows, which may change again."""
    return Subtask(name, text, check, getattr(script, name), (START, *after), name, actions, needs=needs, lasting=False)


def _shows(state: State, path: str) -> bool:
    own = front(state)
    return own is not None and own["path"] == path and not own["query"] and not state["dialog"]["kind"]


def _path(*slots_: str):
    return lambda slots: "/".join(("Home", *(slots[slot] for slot in slots_)))


_MOVING = ("move", "across", "copy")

SUBTASKS = (
    _looks("visit", "Open the folder {visit} inside {visit_in}.",
           lambda state, slots: _shows(state, f"Home/{slots['visit_in']}/{slots['visit']}"), (), 1,
           ("visit_in", "visit")),
    _looks("view", "Show the folder {view} as {view_words}.",
           lambda state, slots: _shows(state, f"Home/{slots['view']}") and front(state)["view"] == slots["view_words"],
           ("visit",), 1, ("view",)),
    _looks("snap", "Drag the window of {snap} to the {side} edge of the screen.",
           lambda state, slots: script.snapped(state, f"Home/{slots['snap']}", slots["side"]), ("view",), 2, ("snap",)),
    _looks("mini", "Minimise the window of {mini}.",
           lambda state, slots: any(own["path"] == f"Home/{slots['mini']}" and own["mini"] for own in state["windows"]),
           ("snap",), 1, ("mini",)),
    _looks("close", "Close the window of {close}.",
           lambda state, slots: all(own["path"] != f"Home/{slots['close']}" for own in state["windows"]),
           ("view",), 1, ("close",)),
    _task("move", "Move {move} from {move_from} to {move_to}.", ("visit", "mini"), 2, ("move_from", "move", "move_to"),
          tool=lambda s: call(NAME, "move", folder=_path("move_from")(s), name=s["move"], to=_path("move_to")(s))),
    _task("across", "Drag {across} from the window of {across_from} into the window of {across_to}.",
          ("view", "move"), 2, ("across_from", "across"),
          tool=lambda s: call(NAME, "move", folder=_path("across_from")(s), name=s["across"],
                              to=_path("across_to")(s))),
    _task("copy", "Copy {copy} from {copy_from} to {copy_to}.", ("close", "move"), 4, ("copy_from", "copy", "copy_to"),
          tool=lambda s: call(NAME, "copy", folder=_path("copy_from")(s), name=s["copy"], to=_path("copy_to")(s))),
    _task("rename", "Rename {rename} in {rename_in} to {rename_to}.", (*_MOVING, "mini"), 4, ("rename", "rename_in"),
          tool=lambda s: call(NAME, "rename", folder=_path("rename_in")(s), name=s["rename"], new_name=s["rename_to"])),
    _task("folder", 'Make a folder called "{folder}" in {folder_in}.', ("rename", "copy", "snap"), 3, ("folder_in",),
          tool=lambda s: call(NAME, "make_folder", folder=_path("folder_in")(s), name=s["folder"])),
    _task("delete", "Put {delete} from {delete_from} into the bin.", ("rename", "folder", "across"), 2,
          ("delete", "delete_from"),
          tool=lambda s: call(NAME, "delete", folder=_path("delete_from")(s), name=s["delete"])),
    _task("clear", "Put all that is in the folder {clear} inside {clear_in} into the bin.", ("delete", "close"), 3,
          ("clear", "clear_in")),
    _task("restore", "Restore {restore} from the bin.", ("delete", "clear", "folder"), 2, ("restore",), at="bin"),
    _task("empty", "Empty the bin.", ("restore", "clear"), 2, at="bin"),
    _task("compress", "Compress {compress} in {compress_in} into an archive.", ("folder", "copy", "restore"), 2,
          ("compress", "compress_in"),
          tool=lambda s: call(NAME, "compress", folder=_path("compress_in")(s), name=s["compress"])),
    _task("extract", "Extract the archive {extract} in {extract_in}.", ("compress", "empty", "move"), 2,
          ("extract", "extract_in"),
          tool=lambda s: call(NAME, "extract", folder=_path("extract_in")(s), name=s["extract"])),
    _task("star", "Mark {star} in {star_in} with a star.", ("compress", "delete", "across"), 2, ("star", "star_in")),
    _task("size", "How large is {size} in {size_in}? Answer like 120 KB.", ("star", "extract", "rename"), 3,
          ("size", "size_in")),
    _task("big", "Which is the largest file in {big}?", ("delete", "view", "restore"), 3, ("big",)),
    _task("find", "In which folder is {find}?", ("star", "folder", "close"), 3, ("find",), at="search"),
    Subtask("missing", "Rename {missing} to {rename_to}.", lambda state, slots: False, script.missing,
            (START, "star", "empty"), "search", 3, feasible=False),
)  # fmt: skip


# --- slots -----------------------------------------------------------------------------------------------------------
def fill(rng: random.Random, path: tuple[str, ...], state: State) -> Slots:
    """A file of its own for every subtask that changes one, and folders that differ from where it is."""
    places = list(state["places"])
    items = {place: node_at(state, f"Home/{place}")["items"] for place in places}
    folders = [(place, name) for place in places for name in items[place] if is_folder(items[place][name])]
    archives = [(place, name) for place in places for name in items[place] if name.endswith(".zip")]
    files = [(place, name) for place in places for name in items[place] if "items" not in items[place][name]]
    shown = [own["path"].removeprefix("Home/") for own in state["windows"]]
    rng.shuffle(files)
    slots: Slots = {}
    across = rng.sample(shown, 2)
    for name in FILE_TASKS:
        place, file = next(one for one in files if name != "across" or one[0] == across[0])
        files.remove((place, file))
        slots |= {name: file, f"{name}_from": place, f"{name}_in": place}
        slots[f"{name}_to"] = rng.choice(without(places, [place]))
    slots["across_to"] = across[1]
    slots["rename_to"] = f"{rng.choice(NEW_STEMS)}.{slots['rename'].rsplit('.', 1)[1]}"
    (slots["visit_in"], slots["visit"]), (slots["clear_in"], slots["clear"]) = rng.sample(folders, 2)
    slots["extract_in"], slots["extract"] = rng.choice(archives)
    slots["folder_in"] = rng.choice(places)
    slots["folder"] = rng.choice([name for name in FOLDERS if name not in {name for _, name in folders}])
    slots["restore"] = rng.choice(state["bin"])["name"]
    slots["view"], slots["view_words"] = rng.choice(without(places, shown)), rng.choice(("list", "icons"))
    slots["mini"], slots["close"], slots["snap"] = shown[0], shown[1], rng.choice(shown)
    slots["side"] = rng.choice(("left", "right"))
    ranked = [place for place in places if len(largest(state, place)) > 1]
    slots["big"] = rng.choice(ranked)
    slots["find"] = rng.choice([name for place, inner in folders for name in items[place][inner]["items"]])
    held = json.dumps(state)
    slots["missing"] = rng.choice([name for name in FILES if f'"{name.rsplit(".", 1)[0]}.' not in held])
    answers = {name: answer for name, answer in ANSWERS.items() if name in path}
    return with_goals(path, state, slots, outcome, EFFECTS, answers)


_FOLDER = {"type": "string", "description": 'path of a folder, as "Home/Documents"'}
_NAME = {"type": "string", "description": "name of a file or folder in it"}

TOOLS = (
    ToolSpec.of(f"{NAME}.list_folder", "What is in a folder.", {"folder": _FOLDER}),
    ToolSpec.of(f"{NAME}.move", "Move a file or folder.", {"folder": _FOLDER, "name": _NAME, "to": _FOLDER}),
    ToolSpec.of(f"{NAME}.copy", "Copy a file or folder.", {"folder": _FOLDER, "name": _NAME, "to": _FOLDER}),
    ToolSpec.of(
        f"{NAME}.rename", "Rename a file or folder.", {"folder": _FOLDER, "name": _NAME, "new_name": {"type": "string"}}
    ),
    ToolSpec.of(f"{NAME}.make_folder", "Make a folder.", {"folder": _FOLDER, "name": {"type": "string"}}),
    ToolSpec.of(f"{NAME}.delete", "Put a file or folder into the bin.", {"folder": _FOLDER, "name": _NAME}),
    ToolSpec.of(f"{NAME}.compress", "Make an archive of a file or folder.", {"folder": _FOLDER, "name": _NAME}),
    ToolSpec.of(f"{NAME}.extract", "Unpack an archive beside it.", {"folder": _FOLDER, "name": _NAME}),
)

_WINDOWS = (*PLACES, *FOLDERS, "Home", "Bin")

APP = DESKTOP.app(
    NAME,
    parts=("desk", "explorer/tree"),
    subtasks=SUBTASKS,
    tools=TOOLS,
    initial=initial,
    sample_state=sample_state,
    facts=screen_facts,
    fill=fill,
    outcome=outcome,
    home="desktop",
    names=(
        *FILES, *FOLDERS, *PLACES,
        *(f"{word} {name}" for word in ("title of", "close", "minimise", "place") for name in _WINDOWS),
        *(f"{name} {word}" for word in ("window", "in the dock") for name in _WINDOWS),
        *(f"{stem}.{end}" for stem in NEW_STEMS for end in KINDS),
        *("home icon", "bin icon", "back", "up", "search box", "clear search", "icons view", "list view", "new folder"),
        *("restore", "empty bin", "entries", "name header", "size header", "open", "rename", "copy", "cut", "paste"),
        *("compress", "extract here", "add star", "remove star", "properties", "move to bin", "select all", "name box"),
        *("cancel", "create", "delete for good", "ok"),
    ),
    most_actions=18,
    pools={
        **dict.fromkeys((*FILE_TASKS, "extract", "restore", "find"), FILES),
        **dict.fromkeys(("move_from", "move_to", "across_from", "copy_from", "copy_to", "delete_from"), PLACES),
        **dict.fromkeys(("rename_in", "compress_in", "extract_in", "star_in", "size_in", "folder_in", "big"), PLACES),
        **dict.fromkeys(("visit_in", "clear_in", "view", "snap", "mini", "close"), PLACES),
        **dict.fromkeys(("visit", "clear"), FOLDERS),
    },
)  # fmt: skip
