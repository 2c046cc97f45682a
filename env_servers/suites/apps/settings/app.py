"""Settings, a desktop with panels of settings and a terminal, in windows that can be moved and closed.

State JSON: layout {theme, dock, light, day, panels, icons, places} · windows [{app, x, y}], the front one last ·
panel · scroll (css px) · field (text of the device's name) · settings {display, sound, network, users, notifications,
device} · passwords {network: text} · home (path) · fs (tree of {mode, items} and {mode, text}) · terminal {cwd, lines,
input} · pointer (what the mouse is on, of what can be dragged) · menu, dialog, focus, picked (see office.js) · answer.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from ...virtual.app import START, CallDict, Slots, State, Subtask, ToolSpec, generator
from ..goals import answered, reached, touched, with_goals
from ..office import DESKTOP, FIRST, WIDTH, day
from . import script
from .content import DEVICES, FOLDERS, LINES, MODES, NEW_FILES, PANELS, POOLS, settings, tree
from .effects import EFFECTS, contacts, node, outcome

NAME = "settings"
DOCK = 90  # css px that a dock on the left keeps free of windows


# --- states ----------------------------------------------------------------------------------------------------------
def _content(rng: random.Random) -> State:
    user = rng.choice(FIRST).lower()
    made = settings(rng, user)
    panel = rng.choice(("about", "display", "network", "users"))
    places = {
        "settings": [rng.randint(110, 230), rng.randint(44, 90)],
        "terminal": [rng.randint(380, 470), rng.randint(250, 290)],
    }
    return {
        "layout": {
            "theme": rng.randint(0, 5),
            "dock": rng.choice(("left", "bottom")),
            "light": rng.choice((20, 50, 80)),
            "day": day(rng),
            "panels": rng.sample(PANELS, len(PANELS)),
            "icons": rng.sample(("settings", "terminal"), 2),
            "places": places,
        },
        "windows": [{"app": "settings", "x": places["settings"][0], "y": places["settings"][1]}],
        "panel": panel,
        "scroll": 0,
        "field": made["device"]["name"],
        "settings": made,
        "passwords": {
            name: f"{rng.choice(LINES).split()[-1]}{rng.randint(10, 99)}" for name in made["network"]["networks"]
        },
        "home": f"/home/{user}",
        "fs": tree(rng, user),
        "terminal": {"cwd": f"/home/{user}", "lines": ["Type help for a list of commands."], "input": ""},
        "pointer": "",
        "menu": "",
        "dialog": {"kind": ""},
        "focus": "",
        "picked": False,
        "answer": "",
    }


def initial(seed: int) -> State:
    """The settings are open at one of four panels, the terminal is closed."""
    return _content(generator(NAME, "initial", seed))


def sample_state(seed: int) -> State:
    """Any screen: each panel, the terminal with some output, both windows, dialogs."""
    rng = generator(NAME, "sample", seed)
    state = _content(rng)
    state["panel"] = rng.choice(PANELS)
    x, y = state["layout"]["places"]["terminal"]
    names = list(contacts(state))
    prompt = f"{state['home'].split('/')[-1]}@{state['settings']['device']['name']}:~$"
    listed = [
        line
        for name in rng.sample(names, rng.randint(1, 3))
        for line in (f'{prompt} grep "{name}" contacts.txt', f"{name}, {contacts(state)[name]}")
    ]
    match rng.randint(0, 3):
        case 0:
            state["windows"].append({"app": "terminal", "x": x, "y": y})
            state["terminal"]["lines"] += listed
        case 1:
            state["windows"] = [{"app": "terminal", "x": rng.randint(120, 470), "y": rng.randint(60, 270)}]
            state["terminal"]["lines"] += listed
        case 2:
            user = state["settings"]["users"][-1]["name"]
            network = next(
                n for n in state["settings"]["network"]["networks"] if n not in state["settings"]["network"]["known"]
            )
            state["dialog"] = rng.choice(
                ({"kind": "user", "name": ""}, {"kind": f"remove {user}"}, {"kind": f"join {network}", "password": ""})
            )
    return state


def screen_facts(state: State) -> list[tuple[str, str]]:
    """Questions that the present screen answers."""
    open_windows = [own["app"] for own in state["windows"]]
    found = [("Which window is in front?", open_windows[-1] if open_windows else "none"),
             ("What is the name of the device?", state["settings"]["device"]["name"])]  # fmt: skip
    if "settings" not in open_windows or state["dialog"]["kind"]:
        return found
    held, panel = state["settings"], state["panel"]
    found.append(("Which panel is open?", panel))
    if open_windows[-1] != "settings":
        return found
    match panel:
        case "display":
            found += [
                ("What is the brightness?", str(held["display"]["brightness"])),
                ("What is the scale?", held["display"]["scale"]),
            ]
        case "sound":
            found += [
                ("What is the volume?", str(held["sound"]["volume"])),
                ("Which output is chosen?", held["sound"]["output"]),
            ]
        case "network":
            found += [("Which network is connected?", held["network"]["connected"] or "none")]
        case "users":
            found += [(f"What is the role of {user['name']}?", user["role"]) for user in held["users"]]
        case "about":
            found += [(f"What is shown as {name}?", value) for name, value in held["device"]["facts"].items()]
    return found


# --- the DAG ---------------------------------------------------------------------------------------------------------
def _call(tool: str, **arguments: object) -> CallDict:
    return {"name": f"{NAME}.{tool}", "arguments": arguments}


def _setting(key: str, slot: str) -> Callable[[Slots], CallDict]:
    def call(slots: Slots) -> CallDict:
        value = slots[slot]
        return _call("set", key=key, value={True: "on", False: "off"}[value] if isinstance(value, bool) else str(value))

    return call


def _line(slot: str) -> Callable[[Slots], CallDict]:
    return lambda slots: _call("run_command", command=slots[slot])


def _task(
    name: str, text: str, after: tuple[str, ...], at: str, actions: int, needs: tuple[str, ...] = (), **more: Any
) -> Subtask:
    checkpoint = more.pop("checkpoint", None) or reached(name, outcome)
    return Subtask(name, text, checkpoint, getattr(script, name), (START, *after), at, actions, touches=touched(name),
                   needs=needs, **more)  # fmt: skip


def _snapped(state: State, slots: Slots) -> bool:
    near = DOCK if state["layout"]["dock"] == "left" else 0
    wanted = WIDTH - script.SETTINGS_WIDTH if slots["side"] == "right" else near
    return any(own["app"] == "settings" and own["x"] == wanted for own in state["windows"])


SUBTASKS = (
    _task("brightness", "Set the brightness of the screen to {brightness} %.", (), "display", 2,
          tool=_setting("display.brightness", "brightness")),
    _task("night", "Turn the night light {night_words}.", ("brightness",), "display", 1,
          tool=_setting("display.night-light", "night")),
    _task("scale", "Set the scale of the display to {scale} %.", ("brightness", "snap"), "display", 1),
    _task("volume", "Set the volume to {volume} %.", ("scale", "snap"), "sound", 2,
          tool=_setting("sound.volume", "volume")),
    _task("mute", "Turn mute {mute_words}.", ("volume", "night"), "sound", 1, tool=_setting("sound.mute", "mute")),
    _task("output", "Let the sound come from {output}.", ("volume",), "sound", 1, ("output",)),
    _task("join", 'Connect to the network "{network}"; its password is "{password}".', ("volume", "output"),
          "network", 3, ("network",)),
    _task("forget", 'Forget the network "{forgotten}".', ("join", "mute"), "network", 1, ("forgotten",)),
    _task("wifi", "Turn Wi-Fi off.", ("forget", "scale"), "network", 1),
    _task("add", 'Add a user called "{new_user}".', ("wifi", "forget"), "users", 3,
          tool=lambda slots: _call("add_user", name=slots["new_user"])),
    _task("remove", 'Remove the user "{old_user}".', ("add", "night"), "users", 2, ("old_user",),
          tool=lambda slots: _call("remove_user", name=slots["old_user"])),
    _task("role", 'Make the user "{role_user}" {role_words}.', ("add", "remove"), "users", 1, ("role_user",)),
    _task("quiet", "Turn do not disturb {quiet_words}.", ("role", "output"), "notifications", 1,
          tool=_setting("notifications.quiet", "quiet")),
    _task("app", "Turn the notifications of {app} {app_words}.", ("quiet", "role"), "notifications", 2, ("app",)),
    _task("device", 'Rename the device to "{device}".', ("app", "quiet"), "about", 4,
          tool=_setting("device.name", "device")),
    _task("folder", 'In the terminal, make the folder "{folder}" inside Documents.', ("device", "app"), "terminal", 2,
          tool=_line("folder_line")),
    _task("write", 'In the terminal, write the line "{line}" into the new file {file} in the home folder.',
          ("folder", "join"), "terminal", 2, tool=_line("write_line")),
    _task("shift", "In the terminal, move the file {shifted} from Downloads to Documents.", ("folder", "write"),
          "terminal", 2, ("shifted",), tool=_line("shift_line")),
    _task("mode", "In the terminal, change the mode of Documents/{moded} to {mode}.", ("shift", "write"), "terminal", 2,
          ("moded",), tool=_line("mode_line")),
    _task("erase", "In the terminal, delete the file {erased} from Downloads.", ("mode", "folder"), "terminal", 2,
          ("erased",), tool=_line("erase_line")),
    _task("serial", "Write the serial number that the about panel shows into the new file {serial_file} in the home "
          "folder.", ("erase", "volume"), "about", 3, ends="terminal", tool=_line("serial_line")),
    Subtask(
        "phone", 'Which number does contacts.txt in the home folder give for "{contact}"?', answered("phone"),
        script.phone,
        after=(START, "write", "erase", "wifi"), at="terminal", actions=3, needs=("contact",),
    ),
    Subtask(
        "fact", "What does the about panel give as {fact_words}?", answered("fact"), script.fact,
        after=(START, "app", "brightness", "mode"), at="about", actions=1,
    ),
    Subtask(
        "panel", "Open the {panel} panel.",
        lambda state, slots: state["panel"] == slots["panel"] and state["windows"][-1:] != []
        and state["windows"][-1]["app"] == "settings",
        script.panel,
        after=(START, "shift", "snap"), at="panel", actions=0, lasting=False,
    ),
    Subtask(
        "snap", "Drag the settings window to the {side} edge of the screen.", _snapped, script.snap,
        after=(START,), at="settings", actions=2,
    ),
    Subtask(
        "close", "Close the settings window.",
        lambda state, slots: all(own["app"] != "settings" for own in state["windows"]),
        script.close,
        after=(START, "quiet", "brightness"), at="settings", actions=1, lasting=False,
    ),
    Subtask(
        "missing", 'Remove the user "{missing}".',
        lambda state, slots: False,
        script.missing,
        after=(START,), at="users", actions=1, feasible=False,
    ),
)  # fmt: skip


# --- slots -----------------------------------------------------------------------------------------------------------
def fill(rng: random.Random, path: tuple[str, ...], state: State) -> Slots:
    """Values that differ from the present ones; every user, network and file is touched by one subtask at most."""
    held = state["settings"]
    display, sound, network, device = held["display"], held["sound"], held["network"], held["device"]
    users = [user for user in held["users"] if not state["home"].endswith(f"/{user['name']}")]
    old_user, role_user = rng.sample(users, 2)
    names = [user["name"] for user in held["users"]]
    other = [name.lower() for name in FIRST if name.lower() not in names]
    downloads, documents = (sorted(node(state, f"~/{name}")["items"]) for name in ("Downloads", "Documents"))
    shifted, erased = rng.sample(downloads, 2)
    files = [name for name in documents if "text" in node(state, f"~/Documents/{name}")]
    joined = rng.choice([name for name in network["networks"] if name not in network["known"]])
    app, contact = rng.choice(held["notifications"]["order"]), rng.choice(sorted(contacts(state)))
    fact = rng.choice(("Memory", "Disk", "Processor", "Version"))
    slots: Slots = {
        "brightness": rng.choice([n for n in range(20, 101, 20) if n != display["brightness"]]),
        "night": not display["night"],
        "scale": rng.choice([n for n in ("100", "125", "150", "200") if n != display["scale"]]),
        "volume": rng.choice([n for n in range(0, 101, 20) if n != sound["volume"]]),
        "mute": not sound["mute"],
        "output": rng.choice([name for name in sound["outputs"] if name != sound["output"]]),
        "network": joined, "password": state["passwords"][joined],
        "forgotten": next(name for name in network["known"] if name != network["connected"]),
        "new_user": rng.choice(other), "old_user": old_user["name"], "missing": rng.choice(other),
        "role_user": role_user["name"],
        "role": "Standard" if role_user["role"] == "Administrator" else "Administrator",
        "quiet": not held["notifications"]["quiet"],
        "app": app, "app_on": not held["notifications"]["apps"][app],
        "device": rng.choice(DEVICES[4:]),
        "folder": rng.choice(FOLDERS[3:]), "file": rng.choice(NEW_FILES), "line": rng.choice(LINES),
        "shifted": shifted, "erased": erased, "moded": rng.choice(files), "mode": rng.choice(MODES),
        "serial_file": "serial.txt", "serial": device["facts"]["Serial number"],
        "contact": contact, "fact_words": fact.lower(),
        "panel": rng.choice([panel for panel in PANELS if panel != state["panel"]]),
        "side": rng.choice(("left", "right")),
    }  # fmt: skip
    for name in ("night", "mute", "quiet"):
        slots[f"{name}_words"] = "on" if slots[name] else "off"
    slots["app_words"] = "on" if slots["app_on"] else "off"
    slots["role_words"] = "an administrator" if slots["role"] == "Administrator" else "a standard user"
    slots |= {
        "folder_line": f"mkdir ~/Documents/{slots['folder']}",
        "write_line": f'echo "{slots["line"]}" > ~/{slots["file"]}',
        "shift_line": f"mv ~/Downloads/{shifted} ~/Documents",
        "mode_line": f"chmod {slots['mode']} ~/Documents/{slots['moded']}",
        "erase_line": f"rm ~/Downloads/{erased}",
        "serial_line": f"echo {slots['serial']} > ~/serial.txt",
        "phone_line": f'grep "{contact}" ~/contacts.txt',
    }
    answers = {
        "phone": lambda state, slots: contacts(state)[slots["contact"]],
        "fact": lambda state, slots: state["settings"]["device"]["facts"][fact],
    }
    return with_goals(path, state, slots, outcome, EFFECTS, answers)


_NAME = {"type": "string", "description": "name of a user"}

TOOLS = (
    ToolSpec.of(
        f"{NAME}.set",
        "Change a setting: display.brightness, display.night-light, display.scale, sound.volume, sound.mute, "
        "sound.output, network.wifi, notifications.quiet or device.name.",
        {"key": {"type": "string"}, "value": {"type": "string", "description": "on, off, a number or a name"}},
    ),
    ToolSpec.of(f"{NAME}.add_user", "Add a user.", {"name": _NAME}),
    ToolSpec.of(f"{NAME}.remove_user", "Remove a user.", {"name": _NAME}),
    ToolSpec.of(f"{NAME}.run_command", "Run a command line in the terminal's shell.", {"command": {"type": "string"}}),
)

NAMES = (
    *(f"{panel} {what}" for panel in PANELS for what in ("panel", "settings")), "settings icon", "terminal icon",
    "settings title", "terminal title", "close settings", "close terminal", "terminal input", "terminal screen",
    "brightness knob", "volume knob", *(f"{name} {n}" for name in ("brightness", "volume") for n in range(0, 101, 20)),
    "night light", *(f"scale {n}" for n in (100, 125, 150, 200)), "mute", "wifi", "add user", "do not disturb",
    "device name", "apply", "name box", "password box", "cancel", "create", "remove", "connect",
)  # fmt: skip

APP = DESKTOP.app(
    NAME,
    parts=("desk", "settings/shell"),
    subtasks=SUBTASKS,
    tools=TOOLS,
    initial=initial,
    sample_state=sample_state,
    facts=screen_facts,
    fill=fill,
    outcome=outcome,
    home="desktop",
    names=NAMES,
    most_actions=16,
    pools=POOLS,
)  # fmt: skip
