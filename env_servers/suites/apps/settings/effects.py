"""What the tasks of the settings are about, and what each subtask does to a state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ...virtual.app import Slots, State
from .content import Node

KEYS = {
    "display": ("brightness", "night", "scale"),
    "sound": ("volume", "mute", "output"),
    "network": ("wifi", "connected"),
}


def _walk(node: Node, path: str) -> Iterator[tuple[str, Node]]:
    yield path, node
    for name, inner in node.get("items", {}).items():
        yield from _walk(inner, f"{path}/{name}")


def outcome(state: State) -> dict[str, Any]:
    """Every setting, user, known network, app's notifications, and every folder and file with its mode and text."""
    held = state["settings"]
    found = {f"{group}.{name}": held[group][name] for group, names in KEYS.items() for name in names}
    found |= {f"known:{name}": True for name in held["network"]["known"]}
    found |= {f"user:{user['name']}": user["role"] for user in held["users"]}
    found |= {f"app:{name}": on for name, on in held["notifications"]["apps"].items()}
    found |= {"quiet": held["notifications"]["quiet"], "device": held["device"]["name"]}
    found |= {f"path:{path}": [node["mode"], node.get("text")] for path, node in _walk(state["fs"], "")}
    return found


def _set(group: str, name: str, slot: str) -> Callable[[State, Slots], None]:
    return lambda state, slots: state["settings"][group].update({name: slots[slot]})


def node(state: State, path: str) -> Node:
    node = state["fs"]
    for name in (state["home"] + path.removeprefix("~")).strip("/").split("/"):
        node = node["items"][name]
    return node


def _join(state: State, slots: Slots) -> None:
    network = state["settings"]["network"]
    network.update(connected=slots["network"], known=sorted([*network["known"], slots["network"]]))


def _remove(state: State, slots: Slots) -> None:
    state["settings"]["users"] = [user for user in state["settings"]["users"] if user["name"] != slots["old_user"]]


def _role(state: State, slots: Slots) -> None:
    next(u for u in state["settings"]["users"] if u["name"] == slots["role_user"])["role"] = slots["role"]


def _file(slot: str, text: str) -> Callable[[State, Slots], None]:
    def effect(state: State, slots: Slots) -> None:
        node(state, "~")["items"][slots[slot]] = {"mode": "644", "text": slots[text] + "\n"}

    return effect


def _shift(state: State, slots: Slots) -> None:
    node(state, "~/Documents")["items"][slots["shifted"]] = node(state, "~/Downloads")["items"].pop(slots["shifted"])


EFFECTS = {
    "brightness": _set("display", "brightness", "brightness"), "night": _set("display", "night", "night"),
    "scale": _set("display", "scale", "scale"), "volume": _set("sound", "volume", "volume"),
    "mute": _set("sound", "mute", "mute"), "output": _set("sound", "output", "output"),
    "join": _join, "remove": _remove, "role": _role, "shift": _shift,
    "forget": lambda state, slots: state["settings"]["network"]["known"].remove(slots["forgotten"]),
    "wifi": lambda state, slots: state["settings"]["network"].update(wifi=False, connected=""),
    "add": lambda state, slots: state["settings"]["users"].append({"name": slots["new_user"], "role": "Standard"}),
    "quiet": lambda state, slots: state["settings"]["notifications"].update(quiet=slots["quiet"]),
    "app": lambda state, slots: state["settings"]["notifications"]["apps"].update({slots["app"]: slots["app_on"]}),
    "device": _set("device", "name", "device"),
    "folder": lambda state, slots: node(state, "~/Documents")["items"].update(
        {slots["folder"]: {"mode": "755", "items": {}}}
    ),
    "write": _file("file", "line"),
    "serial": _file("serial_file", "serial"),
    "mode": lambda state, slots: node(state, f"~/Documents/{slots['moded']}").update(mode=slots["mode"]),
    "erase": lambda state, slots: node(state, "~/Downloads")["items"].pop(slots["erased"]),
}  # fmt: skip


def contacts(state: State) -> dict[str, str]:
    lines = node(state, "~/contacts.txt")["text"].splitlines()
    return dict(line.split(", ") for line in lines)
