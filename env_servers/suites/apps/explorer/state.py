"""Explorer's states, what its screens say, and what tasks are about.

State JSON: layout {theme, dock, light, day, icons} · fs (the home folder {items}; a folder is {items, date, star}, a
file {size (KB), date, star}, an archive {items, size, date, star}) · places (folders of the home folder) · bin [{from
(path), name, node}] · windows [{path, view icons|list, sort {by, down}, query, x, y, mini, chosen [names], past
[paths]}], the front one last; a folder is shown by one window at most · clip {cut, path, names} or null · pointer (what
the mouse is on, of what can be dragged) · menu, at (its point), dialog, focus, picked (see office.js) · answer.
A path is "Home/Documents/Club"; the bin's is "Bin".
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from ...virtual.app import State, generator
from ..office import day
from .content import FOLDERS, NEW_STEMS, Node, total, tree

NAME = "explorer"
WINDOW = (560, 366)  # css px


def node_at(state: State, path: str) -> Node:
    """The folder at `path`; raises KeyError where there is none."""
    node = state["fs"]
    for name in path.split("/")[1:]:
        node = node["items"][name]
    return node


def _walk(node: Node, path: str) -> Iterator[tuple[str, str, Node]]:
    for name, inner in node["items"].items():
        yield path, name, inner
        if "items" in inner and "size" not in inner:
            yield from _walk(inner, f"{path}/{name}")


def walk(state: State) -> list[tuple[str, str, Node]]:
    """(path of the folder, name, node) of everything in the home folder; archives are not opened."""
    return list(_walk(state["fs"], "Home"))


def is_folder(node: Node) -> bool:
    return "items" in node and "size" not in node


def window(path: str, x: int, y: int, view: str = "icons") -> dict[str, Any]:
    """A window on a folder, as it opens."""
    return {
        "path": path, "view": view, "sort": {"by": "name", "down": False}, "query": "", "x": x, "y": y, "mini": False,
        "chosen": [], "past": [],
    }  # fmt: skip


def front(state: State) -> dict[str, Any] | None:
    """The window in front, None where all are closed or minimised."""
    return next((own for own in reversed(state["windows"]) if not own["mini"]), None)


def listed(state: State, own: dict[str, Any]) -> list[tuple[str, str, Node]]:
    """(path of the folder, name, node) of what a window lists, in its order: folders first."""
    if own["path"] == "Bin":
        rows = [(gone["from"], gone["name"], gone["node"]) for gone in state["bin"]]
    elif own["query"]:
        inside = [row for row in walk(state) if f"{row[0]}/".startswith(f"{own['path']}/")]
        rows = [row for row in inside if own["query"].lower() in row[1].lower()]
    else:
        rows = [(own["path"], name, node) for name, node in node_at(state, own["path"])["items"].items()]
    by, down = own["sort"]["by"], own["sort"]["down"]
    keys = {"name": lambda row: row[1].lower(), "size": lambda row: total(row[2])}
    rows.sort(key=lambda row: row[1].lower())
    rows.sort(key=keys[by], reverse=down)
    return sorted(rows, key=lambda row: not is_folder(row[2]))


def _content(rng: random.Random) -> State:
    home, gone, places = tree(rng)
    dock = rng.choice(("left", "bottom"))
    first, second = rng.sample(places, 2)
    edge = 100 if dock == "left" else 16
    return {
        "layout": {
            "theme": rng.randint(0, 5), "dock": dock, "light": rng.choice((20, 50, 80)), "day": day(rng),
            "icons": rng.sample(("home", "bin"), 2),
        },
        "fs": {"items": home}, "places": places, "bin": gone,
        "windows": [
            window(f"Home/{first}", rng.randint(edge, edge + 60), rng.randint(36, 60), rng.choice(("icons", "list"))),
            window(f"Home/{second}", rng.randint(390, 450), rng.randint(150, 180), rng.choice(("icons", "list"))),
        ],
        "clip": None, "pointer": "", "menu": "", "at": [0, 0], "dialog": {"kind": ""}, "focus": "", "picked": False,
        "answer": "",
    }  # fmt: skip


def initial(seed: int) -> State:
    """Two windows that overlap, on two of the five folders; two files in the bin."""
    return _content(generator(NAME, "initial", seed))


def sample_state(seed: int) -> State:
    """Any screen: one to three windows, lists sorted and searched, menus, dialogs, something marked."""
    rng = generator(NAME, "sample", seed)
    state = _content(rng)
    others = [f"Home/{name}" for name in state["places"]] + ["Home", "Bin"]
    taken = {own["path"] for own in state["windows"]}
    if rng.random() < 0.4:
        path = rng.choice([path for path in others if path not in taken])
        state["windows"].append(
            window(path, rng.randint(200, 330), rng.randint(80, 120), rng.choice(("icons", "list")))
        )
    if rng.random() < 0.3:
        state["windows"][0]["mini"] = True
    own = state["windows"][-1]
    own["sort"] = {"by": rng.choice(("name", "name", "size")), "down": rng.random() < 0.3}
    rows = [name for _, name, _ in listed(state, own)]
    match rng.choice(("plain", "plain", "chosen", "menu", "query", "rename", "properties", "folder", "empty")):
        case "chosen" if rows:
            own["chosen"] = rng.sample(rows, rng.randint(1, len(rows)))
        case "menu" if rows and own["path"] != "Bin":
            own["chosen"] = [rng.choice(rows)]
            state |= {"menu": "item", "at": [own["x"] + 240, own["y"] + 130]}
        case "query" if own["path"] != "Bin":
            own["query"] = rng.choice(("a", "e", ".pdf"))
        case "rename" if rows and own["path"] != "Bin":
            own["chosen"] = [rng.choice(rows)]
            state |= {"dialog": {"kind": "rename", "name": own["chosen"][0]}, "focus": "name box", "picked": True}
        case "properties" if rows and own["path"] != "Bin":
            own["chosen"] = [rng.choice(rows)]
            state["dialog"] = {"kind": "properties"}
        case "folder" if own["path"] != "Bin":
            text = rng.choice(("", *FOLDERS, *NEW_STEMS))
            state |= {"dialog": {"kind": "folder", "name": text}, "focus": "name box"}
        case "empty":
            state["dialog"] = {"kind": "empty"}
    return state


def screen_facts(state: State) -> list[tuple[str, str]]:
    """Questions that the present screen answers."""
    own = front(state)
    if own is None:
        return [("Which folder is in front?", "none")]
    if state["dialog"]["kind"] == "properties":
        node = node_at(state, own["path"])["items"][own["chosen"][0]]
        return [("How large is it?", f"{total(node)} KB"), ("When was it changed?", node["date"])]
    found = [
        ("Which folder is in front?", own["path"].split("/")[-1]),
        ("How many windows are open?", str(len(state["windows"]))),
    ]
    if not state["dialog"]["kind"]:
        rows = listed(state, own)
        found.append(("How many entries does the front window list?", str(len(rows))))
        if own["view"] == "list" and not own["query"]:
            found += [(f"How large is {name}?", f"{total(node)} KB") for _, name, node in rows[:4]]
    return found


def outcome(state: State) -> dict[str, Any]:
    """Every folder, file and archive with its size, star and contents, and what is in the bin."""
    found: dict[str, Any] = {"Home": "folder"}
    for path, name, node in walk(state):
        inner = sorted(node["items"]) if "size" in node and "items" in node else []
        kind = "folder" if is_folder(node) else node["size"]
        found[f"{path}/{name}"] = [kind, node["star"], inner]
    found |= {f"Bin: {gone['from']}/{gone['name']}": total(gone["node"]) for gone in state["bin"]}
    return found
