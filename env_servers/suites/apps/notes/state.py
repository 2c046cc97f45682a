"""The phone's states, what its screens say and what tasks are about.

State JSON: layout · open home|notes|weather · screens {notes: list|note, weather: cities|city|add} ·
dialog ""|actions|move|folders|delete|remove · focus · days [five, today first] · answer ·
notes [{id, title, folder, pinned, list, text, items [[text, ticked]]}], next (number of the next id), folders ·
folder (shown, "" all), query, item (id of the open note), held (id of the note held down), entry (in a box for a new
item or folder) · forecast {city: {now, sky, humidity, wind, sunrise, days [[day, sky, high, low]]}} in Celsius ·
cities (saved), city (open), place (in the box for a new city), unit C|F · history (what was looked at, in order).
"""

from __future__ import annotations

import random
from typing import Any

from ...virtual.app import State, generator
from ...virtual.words import fact, yes
from ..mobile import days, look
from .content import CITIES, FOLDERS, LISTS, SKIES, TEXTS, TRIPS

NAME = "notes"


def degrees(state: State, celsius: int) -> str:
    """A temperature as the screen says it, without its sign of degrees."""
    return str(round(celsius * 9 / 5 + 32) if state["unit"] == "F" else celsius)


def _sky(rng: random.Random, celsius: int) -> str:
    return rng.choice([sky for sky in SKIES if (sky == "snowy") <= (celsius < 3) and (sky == "rainy") <= (celsius > 0)])


def _forecast(rng: random.Random, dates: list[str], now: int) -> dict[str, Any]:
    table = []
    for day in dates:
        high = now + rng.randint(-4, 6)
        table.append([day, _sky(rng, high), high, high - rng.randint(4, 11)])
    return {
        "now": now,
        "sky": _sky(rng, now),
        "humidity": rng.randint(25, 95),
        "wind": rng.randint(2, 60),
        "sunrise": f"{rng.randint(5, 7)}:{rng.randrange(60):02d}",
        "days": table,
    }


def _content(rng: random.Random) -> State:
    dates = days(rng, 5)
    folders = rng.sample(FOLDERS, 4)
    world = rng.sample(CITIES, 12)
    temperatures = rng.sample(range(-6, 38), 12)
    state: State = {
        "layout": {
            **look(rng),
            "wallpaper": rng.randrange(5),
            "icons": rng.choice(("high", "low")),
            "apps": rng.sample(("notes", "weather"), 2),
            "sub": rng.choice(("folder", "text")),
        },
        "open": "home",
        "screens": {"notes": "list", "weather": "cities"},
        "dialog": "",
        "focus": "",
        "days": dates,
        "notes": [],
        "next": 1,
        "folders": folders,
        "folder": "",
        "query": "",
        "item": "",
        "held": "",
        "entry": "",
        "forecast": {city: _forecast(rng, dates, degree) for city, degree in zip(world, temperatures, strict=True)},
        "cities": world[:6],
        "city": "",
        "place": "",
        "unit": rng.choice("CCF"),
        "history": [],
        "answer": "",
    }
    wet = rng.choice(world[:6])
    state["forecast"][wet]["days"][rng.randint(1, 3)][1] = "rainy"
    notes: list[dict[str, Any]] = [
        {"title": title, "list": False, "text": text, "items": []} for title, text in rng.sample(TEXTS, 5)
    ]
    for title, city in zip(rng.sample(TRIPS, 2), (rng.choice(world[:6]), rng.choice(world[6:])), strict=True):
        notes.append({"title": title, "list": False, "text": f"We go to {city} this time.", "items": []})
    for title in rng.sample(sorted(LISTS), 4):
        items = [[item, rng.random() < 0.4] for item in rng.sample(LISTS[title], 5)]
        items[0][1] = False
        rng.shuffle(items)
        notes.append({"title": title, "list": True, "text": "", "items": items})
    rng.shuffle(notes)
    pinned = rng.sample(range(len(notes)), 2)
    for k, one in enumerate(notes):
        placed = {"id": f"n{k + 1}", "folder": rng.choice(folders), "pinned": k in pinned}
        state["notes"].append({**placed, **one})
    state["next"] = len(notes) + 1
    return state


def initial(seed: int) -> State:
    """The home screen; eleven notes in four folders, six cities of twelve."""
    return _content(generator(NAME, "initial", seed))


def sample_state(seed: int) -> State:
    """Any screen of the phone, with any sheet over it that it can have."""
    rng = generator(NAME, "sample", seed)
    state = _content(rng)
    for one in state["notes"]:
        one["pinned"] = rng.random() < 0.3
    state["open"] = rng.choice(("home", "notes", "notes", "notes", "weather", "weather"))
    if state["open"] == "notes":
        state["screens"]["notes"] = rng.choice(("list", "note"))
        one = rng.choice(state["notes"])
        if state["screens"]["notes"] == "note":
            state["item"] = one["id"]
            state["dialog"] = rng.choice(("", "", "", "move", "delete"))
            if not state["dialog"]:
                state["focus"] = rng.choice(("", "title", "new item" if one["list"] else "text"))
        else:
            state["folder"] = rng.choice(("", "", *state["folders"]))
            state["query"] = rng.choice(("", "", "", one["title"]))
            state["dialog"] = rng.choice(("", "", "", "folders", "actions"))
            if state["dialog"] == "actions":
                state |= {"held": one["id"], "folder": "", "query": ""}
    if state["open"] == "weather":
        state["screens"]["weather"] = screen = rng.choice(("cities", "city", "city", "add"))
        if screen == "city":
            state["city"] = rng.choice(state["cities"])
            state["dialog"] = rng.choice(("", "", "", "remove"))
        if screen == "add":
            state["place"] = rng.choice(("", sorted(state["forecast"])[0][:2]))
    return state


def note_of(state: State, title: str) -> dict[str, Any] | None:
    """The note called `title`, or None."""
    return next((one for one in state["notes"] if one["title"] == title), None)


def listed(state: State) -> list[str]:
    """Titles of the notes that the list shows, in its order."""
    wanted = state["query"].strip().lower()
    found = [
        one
        for one in state["notes"]
        if state["folder"] in ("", one["folder"])
        and wanted in " ".join((one["title"], one["text"], *(text for text, _ in one["items"]))).lower()
    ]
    return [one["title"] for one in sorted(found, key=lambda one: not one["pinned"])]


def high_of(state: State, city: str, day: int = 0) -> str:
    """The high of a day in a city as the screen says it."""
    return degrees(state, state["forecast"][city]["days"][day][2])


def screen_facts(state: State) -> list[tuple[str, str]]:
    """Questions that the present screen answers."""
    if state["dialog"]:
        return [("Is a dialog open?", "yes")]
    screen = state["screens"].get(state["open"])
    match state["open"], screen:
        case "notes", "list":
            shown = listed(state)
            first = [("Which note is first?", shown[0])] if shown else []
            return [("Which folder is shown?", state["folder"] or "all notes"), *first]
        case "notes", _:
            one = next(one for one in state["notes"] if one["id"] == state["item"])
            ticks = [(f"Is {text} ticked?", yes(done)) for text, done in one["items"][:3]]
            return [
                ("Which note is open?", one["title"]),
                ("In which folder is the note?", one["folder"]),
                ("Is the note pinned?", yes(one["pinned"])),
                *ticks,
            ]
        case "weather", "cities":
            now = [
                (f"How many degrees is it in {c}?", degrees(state, state["forecast"][c]["now"]))
                for c in state["cities"]
            ]
            return [("Which unit is on?", "Celsius" if state["unit"] == "C" else "Fahrenheit"), *now[:3]]
        case "weather", "city":
            given = state["forecast"][state["city"]]
            return [
                ("Which city is open?", state["city"]),
                ("How many degrees is it now?", degrees(state, given["now"])),
                ("What is the humidity?", f"{given['humidity']} %"),
                ("What is today's high?", high_of(state, state["city"])),
            ]
        case "weather", _:
            return [("What is in the search box?", state["place"] or "nothing")]
    return [("Which screen is open?", "home")]


def outcome(state: State) -> dict[str, Any]:
    """Every part of every note, how many there are, the folders, the saved cities and the unit."""
    found: dict[str, Any] = {"count": len(state["notes"]), "unit": state["unit"]}
    for one in state["notes"]:
        found |= {
            fact("in", one["title"]): one["folder"],
            fact("pin", one["title"]): one["pinned"],
            fact("text", one["title"]): one["text"],
            fact("items", one["title"]): one["items"],
        }
    found |= {fact("folder", name): True for name in state["folders"]}
    return {**found, **{fact("city", name): True for name in state["cities"]}}


def whole(title: str) -> frozenset[str]:
    """The facts of `outcome` that a note has."""
    return frozenset(fact(part, title) for part in ("in", "pin", "text", "items"))
