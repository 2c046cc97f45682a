"""Notes and weather on one phone: notes in folders, lists to tick, and values that go from one app to the other."""

from __future__ import annotations

import random
from collections.abc import Callable

from ...virtual.app import START, CallDict, Slots, State, Subtask, ToolSpec
from ...virtual.words import fact, facts, without
from ..mobile import HAND, PHONE
from . import script
from .content import CITIES, FOLDERS, LISTS, NEW_ITEMS, NEW_TEXTS, NEW_TITLES, NOTES, POOLS, TEXTS, TRIPS
from .state import NAME, degrees, high_of, initial, note_of, outcome, sample_state, screen_facts, whole

UNITS = {"C": "Celsius", "F": "Fahrenheit"}


def _call(tool: str, **arguments: object) -> CallDict:
    return {"name": tool, "arguments": arguments}


def _number(text: str) -> str:
    return text.strip().rstrip("CF").rstrip("° ").removesuffix(" degrees")


def _ends(slot: str, value: Callable[[str], str] = str.strip) -> Callable[[State, Slots], bool]:
    """Whether the note has its old text and, after it, what `value` reads as the wanted word."""

    def check(state: State, slots: Slots) -> bool:
        one = note_of(state, slots[slot])
        if one is None or not one["text"].startswith(slots[f"{slot}_old"]):
            return False
        return value(one["text"].removeprefix(slots[f"{slot}_old"]).strip(" :,.\n")) == slots[f"{slot}_value"]

    return check


def _same_items(slot: str) -> Callable[[State, Slots], bool]:
    """Whether the list has its old items and one more, the wanted one."""

    def check(state: State, slots: Slots) -> bool:
        one = note_of(state, slots[slot])
        return one is not None and one["items"] == [*slots[f"{slot}_items"], [slots[f"{slot}_text"], False]]

    return check


def _difference(state: State, slots: Slots) -> str:
    return str(int(high_of(state, slots["ask_diff"])) - int(high_of(state, slots["ask_diff_b"])))


def _left(state: State, slots: Slots) -> str:
    return str(sum(not done for _, done in note_of(state, slots["ask_left"])["items"]))


def _held(kind: str, text: str, done: Callable[[dict, Slots], bool], part: str, names, tool, after) -> Subtask:
    """What is done to a note from its list by holding it."""
    return Subtask(
        kind, text,
        lambda state, slots: (one := note_of(state, slots[kind])) is not None and done(one, slots),
        lambda state, slots, elements: script.by_holding(state, elements, slots[kind], *names(slots)),
        after=(START, *after), at="notes", actions=1 + len(names({f"{kind}_folder": ""})),
        touches=lambda slots: facts(fact(part, slots[kind])),
        tool=tool,
        needs=(kind, f"{kind}_folder") if part == "in" else (kind,),
    )  # fmt: skip


def _asking(kind: str, text: str, at: str, actions: int, seen, answer) -> Subtask:
    """A question whose answer stands where `seen(slots)` was looked at."""

    named = tuple(slot for slot in (kind, f"{kind}_b") if "{" + slot + "}" in text)
    return Subtask(
        kind, text,
        lambda state, slots: _number(state["answer"]) == answer(state, slots),
        lambda state, slots, elements: (
            script.first_seen(state, elements, *seen(slots))
            or script.unsaved(state, elements, *(slots[slot] for slot in named if slot in _CITY_SLOTS))
            or HAND.answer(answer(state, slots))
        ),
        after=(START, *_TIDY, *_WRITE, *_WEATHER, *_LAST), at=at, actions=actions,
        needs=named,
    )  # fmt: skip


_CITY_SLOTS = ("ask_now", "ask_diff", "ask_diff_b")
_TIDY = ("find", "pin", "unpin", "move", "rename")
_WRITE = ("tick", "item", "new", "new_folder")
_WEATHER = ("look", "trip_add", "add_city", "high", "warmer", "rainy")
_LAST = ("remove_city", "delete", "unit")

SUBTASKS = (
    Subtask(
        "find", "Search the notes for {find}.",
        lambda state, slots: (
            state["open"] == "notes" and state["screens"]["notes"] == "list" and not state["folder"]
            and state["query"].strip().lower() == slots["find"].lower()
        ),
        script.search,
        after=(START,), at="notes", actions=2, lasting=False,
    ),
    _held(
        "pin", "Pin the note {pin}.", lambda one, slots: one["pinned"], "pin", lambda slots: ("pin",),
        lambda slots: _call("notes.set_pinned", title=slots["pin"], pinned=True), (),
    ),
    _held(
        "unpin", "Unpin the note {unpin}.", lambda one, slots: not one["pinned"], "pin", lambda slots: ("unpin",),
        lambda slots: _call("notes.set_pinned", title=slots["unpin"], pinned=False), ("pin",),
    ),
    _held(
        "move", "Move the note {move} to the folder {move_folder}.",
        lambda one, slots: one["folder"] == slots["move_folder"], "in",
        lambda slots: ("move", f"folder {slots['move_folder']}"),
        lambda slots: _call("notes.move", title=slots["move"], folder=slots["move_folder"]), ("find", "pin", "unpin"),
    ),
    Subtask(
        "rename", "Rename the note {rename} to {rename_to}.",
        lambda state, slots: (
            (one := note_of(state, slots["rename_to"])) is not None and one["id"] == slots["rename_id"]
            and [one[key] for key in ("folder", "pinned", "text", "items")] == slots["rename_rest"]
        ),
        script.rename,
        after=(START, "find", "pin", "unpin", "move"), at="notes", actions=3,
        touches=lambda slots: whole(slots["rename"]) | whole(slots["rename_to"]),
        needs=("rename",),
    ),
    Subtask(
        "tick", "Tick {tick_item} in the list {tick}.",
        lambda state, slots: (
            (one := note_of(state, slots["tick"])) is not None and one["items"] == slots["tick_items"]
        ),
        script.tick,
        after=(START, *_TIDY), at="notes", actions=2,
        touches=lambda slots: facts(fact("items", slots["tick"])),
        needs=("tick",),
    ),
    Subtask(
        "item", "Add {item_text} to the list {item}.",
        _same_items("item"),
        lambda state, slots, elements: script.add_item(state, elements, slots["item"], slots["item_text"]),
        after=(START, *_TIDY, "tick"), at="notes", actions=4,
        touches=lambda slots: facts(fact("items", slots["item"])),
        tool=lambda slots: _call("notes.add_item", title=slots["item"], item=slots["item_text"]),
        needs=("item",),
    ),
    Subtask(
        "new", "Write a new note with the title {new} and the text: {new_text}",
        lambda state, slots: [one["text"] for one in state["notes"] if one["title"] == slots["new"]] == [
            slots["new_text"]
        ],
        script.new_note,
        after=(START, *_TIDY, "tick", "item"), at="notes", actions=4,
        touches=lambda slots: whole(slots["new"]) | facts("count"),
        tool=lambda slots: _call("notes.create", title=slots["new"], text=slots["new_text"]),
    ),
    Subtask(
        "new_folder", "Create the folder {new_folder}.",
        lambda state, slots: slots["new_folder"] in state["folders"],
        script.new_folder,
        after=(START, *_TIDY, "tick", "item", "new"), at="notes", actions=4,
        touches=lambda slots: facts(fact("folder", slots["new_folder"])),
    ),
    Subtask(
        "look", "Show the weather of the city that the note {look} names.",
        lambda state, slots: (
            state["open"] == "weather" and state["screens"]["weather"] == "city"
            and state["city"] == slots["look_city"]
        ),
        lambda state, slots, elements: (
            script.first_seen(state, elements, f"note {slots['look']}", f"city {slots['look_city']}")
            or script.to_city(state, elements, slots["look_city"]) or HAND.finish()
        ),
        after=(START, *_TIDY, *_WRITE), at="notes", actions=4, ends="weather", lasting=False,
        needs=("look",),
    ),
    Subtask(
        "trip_add", "Add the city that the note {trip_add} names to the weather.",
        lambda state, slots: slots["trip_add_city"] in state["cities"],
        lambda state, slots, elements: (
            script.first_seen(state, elements, f"note {slots['trip_add']}")
            or script.add_city(state, elements, slots["trip_add_city"])
        ),
        after=(START, *_TIDY, *_WRITE, "look"), at="notes", actions=6, ends="weather",
        touches=lambda slots: facts(fact("city", slots["trip_add_city"])),
        needs=("trip_add",),
    ),
    Subtask(
        "add_city", "Add {add_city} to the weather.",
        lambda state, slots: slots["add_city"] in state["cities"],
        lambda state, slots, elements: script.add_city(state, elements, slots["add_city"]),
        after=(START, *_TIDY, *_WRITE, "look", "trip_add"), at="weather", actions=3,
        touches=lambda slots: facts(fact("city", slots["add_city"])),
        tool=lambda slots: _call("weather.add_city", city=slots["add_city"]),
        needs=("add_city",),
    ),
    Subtask(
        "high", "Write today's high in {high_city} at the end of the note {high}.",
        _ends("high", _number),
        lambda state, slots, elements: (
            script.first_seen(state, elements, f"city {slots['high_city']}")
            or script.text(state, elements, slots["high"], slots["high_old"], f" {slots['high_value']}")
        ),
        after=(START, *_TIDY, *_WRITE, "look", "trip_add", "add_city"), at="weather", actions=6, ends="notes",
        touches=lambda slots: facts(fact("text", slots["high"])),
        needs=("high", "high_city"),
    ),
    Subtask(
        "warmer", "Write at the end of the note {warmer} where it is warmer now, in {warmer_a} or in {warmer_b}.",
        _ends("warmer"),
        lambda state, slots, elements: (
            script.first_seen(state, elements, "cities")
            or script.unsaved(state, elements, slots["warmer_a"], slots["warmer_b"])
            or script.text(state, elements, slots["warmer"], slots["warmer_old"], f" {slots['warmer_value']}")
        ),
        after=(START, *_TIDY, *_WRITE, "look", "trip_add", "high"), at="weather", actions=5, ends="notes",
        touches=lambda slots: facts(fact("text", slots["warmer"])),
        needs=("warmer", "warmer_a", "warmer_b"),
    ),
    Subtask(
        "rainy", "Add the first day with rain in {rainy_city}, as the weather writes it, to the list {rainy}.",
        _same_items("rainy"),
        lambda state, slots, elements: (
            script.first_seen(state, elements, f"city {slots['rainy_city']}")
            or script.add_item(state, elements, slots["rainy"], slots["rainy_text"])
        ),
        after=(START, *_TIDY, *_WRITE, "look", "high", "warmer"), at="weather", actions=7, ends="notes",
        touches=lambda slots: facts(fact("items", slots["rainy"])),
        needs=("rainy", "rainy_city"),
    ),
    Subtask(
        "remove_city", "Remove {remove_city} from the weather.",
        lambda state, slots: slots["remove_city"] not in state["cities"],
        script.remove_city,
        after=(START, *_TIDY, *_WRITE, *_WEATHER), at="weather", actions=3,
        touches=lambda slots: facts(fact("city", slots["remove_city"])),
        needs=("remove_city",),
    ),
    Subtask(
        "delete", "Delete the note {delete}.",
        lambda state, slots: note_of(state, slots["delete"]) is None,
        script.deleting("delete"),
        after=(START, *_TIDY, *_WRITE, *_WEATHER, "remove_city"), at="notes", actions=3,
        touches=lambda slots: whole(slots["delete"]) | facts("count"),
        tool=lambda slots: _call("notes.delete", title=slots["delete"]),
        needs=("delete",),
    ),
    Subtask(
        "unit", "Show the temperatures in {unit_word}.",
        lambda state, slots: state["unit"] == slots["unit"],
        lambda state, slots, elements: (
            script.to_cities(state, elements) or HAND.tap(elements, f"degrees {slots['unit']}")
        ),
        after=(START, *_TIDY, *_WRITE, *_WEATHER, "remove_city", "delete"), at="weather", actions=1,
        touches=lambda slots: facts("unit"),
    ),
    _asking(
        "ask_now", "How many degrees is it now in {ask_now}?", "weather", 1,
        lambda slots: ("cities",), lambda state, slots: degrees(state, state["forecast"][slots["ask_now"]]["now"]),
    ),
    _asking(
        "ask_diff", "By how many degrees is today's high in {ask_diff} above that in {ask_diff_b}?", "weather", 4,
        lambda slots: (f"city {slots['ask_diff']}", f"city {slots['ask_diff_b']}"), _difference,
    ),
    _asking(
        "ask_left", "How many items of the list {ask_left} are not ticked?", "notes", 2,
        lambda slots: (f"note {slots['ask_left']}",), _left,
    ),
    Subtask(
        "missing", "Delete the note {missing}.",
        lambda state, slots: False,
        script.deleting("missing"),
        after=(START, "pin", "tick", "add_city"), at="notes", actions=2, feasible=False,
    ),
)  # fmt: skip


def _pools(state: State) -> dict[str, list[str]]:
    """By slot, narrowest first, the notes or cities that it may name."""
    notes = [one["title"] for one in state["notes"]]
    trips = {one["title"]: one["text"].split()[3] for one in state["notes"] if one["title"] in TRIPS}
    lists = [one["title"] for one in state["notes"] if one["list"]]
    texts = without(notes, trips, lists)
    saved = state["cities"]
    wet = [city for city in saved if any(row[1] == "rainy" for row in state["forecast"][city]["days"])]
    return {
        "look": [title for title, city in trips.items() if city in saved],
        "trip_add": [title for title, city in trips.items() if city not in saved],
        "unpin": [one["title"] for one in state["notes"] if one["pinned"]],
        **dict.fromkeys(("high", "warmer"), texts),
        **dict.fromkeys(("tick", "item", "rainy", "ask_left"), lists),
        "pin": [one["title"] for one in state["notes"] if not one["pinned"]],
        **dict.fromkeys(("move", "rename", "delete", "find"), notes),
        "missing": without([title for title, _ in TEXTS], notes),
        "rainy_city": wet,
        **dict.fromkeys(
            ("high_city", "warmer_a", "warmer_b", "remove_city", "ask_now", "ask_diff", "ask_diff_b"), saved
        ),
        "add_city": without(sorted(state["forecast"]), saved, trips.values()),
    }


def fill(rng: random.Random, path: tuple[str, ...], state: State) -> Slots:
    """A note, list or city of its own for every subtask, and what is to be written there."""
    slots: Slots = {"first_id": state["next"]}
    used: set[str] = set()
    for name, pool in _pools(state).items():
        kind = next(
            (kind for kind in (*_WEATHER, "ask_diff") if name in (f"{kind}_city", f"{kind}_a", f"{kind}_b")), name
        )
        if kind in path:
            slots[name] = rng.choice(without(pool, used))
            used.add(slots[name])
            if name in ("look", "trip_add"):
                slots[f"{name}_city"] = note_of(state, slots[name])["text"].split()[3]
                used.add(slots[f"{name}_city"])
    if "find" in path and rng.random() < 0.5:
        slots["find"] = rng.choice(note_of(state, slots["find"])["text"].split() or [slots["find"]]).strip(".,")
    if "move" in path:
        slots["move_folder"] = rng.choice(without(state["folders"], [note_of(state, slots["move"])["folder"]]))
    titles = rng.sample(NEW_TITLES, 2)
    if "rename" in path:
        one = note_of(state, slots["rename"])
        slots |= {"rename_to": titles[0], "rename_id": one["id"], "rename_from": slots["rename"]}
        slots["rename_rest"] = [one[key] for key in ("folder", "pinned", "text", "items")]
    if "tick" in path:
        items = note_of(state, slots["tick"])["items"]
        slots["tick_item"] = rng.choice([text for text, done in items if not done])
        slots["tick_items"] = [[text, done or text == slots["tick_item"]] for text, done in items]
    if "new" in path:
        slots |= {"new": titles[1], "new_text": rng.choice(NEW_TEXTS)}
    if "new_folder" in path:
        slots["new_folder"] = rng.choice(without(FOLDERS, state["folders"]))
    if "high" in path:
        slots["high_value"] = high_of(state, slots["high_city"])
    if "warmer" in path:
        pair = (slots["warmer_a"], slots["warmer_b"])
        slots["warmer_value"] = max(pair, key=lambda city: state["forecast"][city]["now"])
    for name in {"high", "warmer"} & set(path):
        slots[f"{name}_old"] = note_of(state, slots[name])["text"]
    for name in {"item", "rainy"} & set(path):
        slots[f"{name}_items"] = note_of(state, slots[name])["items"]
    if "item" in path:
        slots["item_text"] = rng.choice(NEW_ITEMS)
    if "rainy" in path:
        days = state["forecast"][slots["rainy_city"]]["days"]
        slots["rainy_text"] = next(day for day, sky, *_ in days if sky == "rainy")
    if "unit" in path:
        slots["unit"] = "F" if state["unit"] == "C" else "C"
        slots["unit_word"] = UNITS[slots["unit"]]
    if "ask_diff" in path and int(_difference(state, slots)) < 0:
        slots["ask_diff"], slots["ask_diff_b"] = slots["ask_diff_b"], slots["ask_diff"]
    return slots


_TITLE = {"type": "string", "description": "title of a note"}
_TEXT = {"type": "string"}

TOOLS = (
    ToolSpec.of("notes.create", "Write a new note.", {"title": _TEXT, "text": _TEXT}, {"folder": _TEXT}),
    ToolSpec.of("notes.add_item", "Add an item to a list.", {"title": _TITLE, "item": _TEXT}),
    ToolSpec.of("notes.set_pinned", "Pin or unpin a note.", {"title": _TITLE, "pinned": {"type": "boolean"}}),
    ToolSpec.of("notes.move", "Move a note to another folder.", {"title": _TITLE, "folder": _TEXT}),
    ToolSpec.of("notes.delete", "Delete a note.", {"title": _TITLE}),
    ToolSpec.of("weather.get", "The weather of a city, now and for five days.", {"city": _TEXT}),
    ToolSpec.of("weather.add_city", "Add a city to the weather.", {"city": _TEXT}),
)

_ITEMS = (*(item for items in LISTS.values() for item in items), *NEW_ITEMS)

APP = PHONE.app(
    NAME,
    ("framework7",),
    subtasks=SUBTASKS,
    tools=TOOLS,
    initial=initial,
    sample_state=sample_state,
    facts=screen_facts,
    fill=fill,
    outcome=outcome,
    home="home",
    names=(
        *(f"note {title}" for title in (*NOTES, *NEW_TITLES, "untitled")), *(f"item {text}" for text in _ITEMS),
        *(f"folder {name}" for name in FOLDERS), *(f"{word} {city}" for word in ("city", "add") for city in CITIES),
        *("notes app", "weather app", "search", "clear search", "folders", "new note", "back", "close", "keep"),
        *("title", "clear title", "text", "clear text", "new item", "clear new item", "add item", "pin", "unpin"),
        *("move", "delete", "confirm delete", "all notes", "new folder", "clear new folder", "create folder"),
        *("degrees C", "degrees F", "add city", "city", "clear city", "remove city", "confirm remove"),
    ),
    most_actions=22,
    pools=POOLS,
)  # fmt: skip
