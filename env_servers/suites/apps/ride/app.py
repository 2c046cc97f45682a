"""Ride hailing: order and plan rides on a map, change and cancel them, rate and tip trips, places, payment."""

from __future__ import annotations

import random
from typing import Any

from ...virtual.app import START, CallDict, Slots, State, Subtask, ToolSpec
from ...virtual.words import fact, facts, without
from ..mobile import HAND, PHONE, money
from .content import CARDS, CLASSES, NOTES, PLACES, TIMES, TIPS
from .script import (
    ask_price,
    book,
    cancel,
    move_ride,
    quoted,
    said,
    set_home,
    tap_row,
    to_item,
    to_pin,
    unlike,
    write_note,
    zoom,
)
from .state import NAME, initial, outcome, ride_to, sample_state, screen_facts, trip_to


# --- the DAG ---------------------------------------------------------------------------------------------------------
def _call(tool: str, **arguments: object) -> CallDict:
    return {"name": f"{NAME}.{tool}", "arguments": arguments}


def _wanted(slots: Slots, kind: str) -> dict[str, Any]:
    """The ride that the subtask `kind` asks for; pay "": any card that was the default."""
    return {
        "from": slots.get(f"{kind}_from", slots["here"]),
        "to": slots[kind],
        "class": slots[f"{kind}_class"],
        "pay": slots.get(f"{kind}_pay", ""),
        "day": slots.get(f"{kind}_day", ""),
        "time": slots.get(f"{kind}_time", ""),
    }


def _ordering(kind: str, text: str, actions: int, tool: bool = True) -> Subtask:
    def checkpoint(state: State, slots: Slots) -> bool:
        ride, want = ride_to(state, slots[kind]), _wanted(slots, kind)
        paid = ride and (ride["pay"] == want["pay"] or (not want["pay"] and ride["pay"] in slots["pays"]))
        return bool(paid) and not ride["note"] and all(ride[k] == want[k] for k in want if k != "pay")

    def call(slots: Slots) -> CallDict:
        want = _wanted(slots, kind)
        given = {k: want[k] for k in ("to", "class", "from", "day", "time") if want[k]}
        return _call("order", **given)

    return Subtask(
        kind, text, checkpoint,
        lambda state, slots, elements: book(state, elements, _wanted(slots, kind)),
        after=(START, *_PLACES), at="map", actions=actions, ends="ride",
        touches=lambda slots: facts(fact("ride", slots[kind]), fact("note", slots[kind])),
        tool=call if tool else None,
        needs=tuple(slot for slot in (kind, f"{kind}_from", f"{kind}_pay") if "{" + slot + "}" in text),
    )  # fmt: skip


def _trip_row(kind: str, text: str, key: str, control: str) -> Subtask:
    return Subtask(
        kind, text,
        lambda state, slots: (trip := trip_to(state, slots[kind])) is not None and trip[key] == slots[f"{kind}_{key}"],
        lambda state, slots, elements: (
            to_item(state, elements, "receipt", slots[kind])
            or HAND.tap(elements, f"{control} {slots[f'{kind}_{key}']}")
        ),
        after=(START, *_PLACES, *_ORDERS, *_CHANGES), at="trips", actions=3, ends="receipt",
        touches=lambda slots: facts(fact(key, slots[kind])),
        tool=(lambda slots: _call("rate", to=slots[kind], stars=slots[f"{kind}_stars"])) if key == "stars" else None,
        needs=(kind,),
    )  # fmt: skip


_PLACES = ("zoom", "favourite", "set_home", "set_pay")
_ORDERS = ("ride", "pickup", "plan", "charge")
_CHANGES = ("move", "note", "cancel")
_TRIPS = ("rate", "tip")

SUBTASKS = (
    Subtask(
        "zoom", "Zoom the map in as far as it goes.",
        lambda state, slots: state["screen"] == "map" and state["view"]["z"] == 2,
        zoom,
        after=(START,), at="map", actions=2, lasting=False,
    ),
    Subtask(
        "favourite", "Find {favourite} on the map and add it to the favourites.",
        lambda state, slots: slots["favourite"] in state["favourites"],
        lambda state, slots, elements: (
            to_pin(state, elements, slots["favourite"]) or HAND.tap(elements, "add favourite")
        ),
        after=(START, "zoom"), at="map", actions=3, ends="place",
        touches=lambda slots: facts(fact("favourite", slots["favourite"])),
        tool=lambda slots: _call("set_favourite", place=slots["favourite"], favourite=True),
        needs=("favourite",),
    ),
    Subtask(
        "set_home", "Set {set_home} as the home address.",
        lambda state, slots: state["home"] == slots["set_home"],
        set_home,
        after=(START, "zoom", "favourite"), at="account", actions=3,
        touches=lambda slots: facts("home"),
        needs=("set_home",),
    ),
    Subtask(
        "set_pay", "Make {set_pay} the default payment.",
        lambda state, slots: state["pay"] == slots["set_pay"],
        lambda state, slots, elements: tap_row(state, elements, slots["set_pay"]),
        after=(START, "zoom", "favourite", "set_home"), at="account", actions=1,
        touches=lambda slots: facts("pay"),
        needs=("set_pay",),
    ),
    _ordering("ride", "Order a {ride_class} to {ride}.", 5),
    _ordering("pickup", "Order a {pickup_class} that goes from {pickup_from} to {pickup}.", 8),
    _ordering("plan", "Book a {plan_class} to {plan} for {plan_day} at {plan_time}.", 9),
    _ordering("charge", "Order a {charge_class} to {charge} and pay with {charge_pay}.", 7, tool=False),
    Subtask(
        "move", "Move the ride to {move} to {move_day} at {move_time}.",
        lambda state, slots: (
            (ride := ride_to(state, slots["move"])) is not None
            and [ride[k] for k in ("day", "time", "class", "from", "pay")]
            == [slots["move_day"], slots["move_time"], *slots["move_rest"]]
        ),
        move_ride,
        after=(START, *_PLACES, *_ORDERS), at="trips", actions=4, ends="ride",
        touches=lambda slots: facts(fact("ride", slots["move"])),
        needs=("move",),
    ),
    Subtask(
        "note", "Write the driver of the ride to {note}: {note_text}.",
        lambda state, slots: (
            (ride := ride_to(state, slots["note"])) is not None and ride["note"] == slots["note_text"]
        ),
        write_note,
        after=(START, *_PLACES, *_ORDERS, "move"), at="trips", actions=4, ends="ride",
        touches=lambda slots: facts(fact("note", slots["note"])),
        needs=("note",),
    ),
    Subtask(
        "cancel", "Cancel the ride to {cancel}.",
        lambda state, slots: ride_to(state, slots["cancel"]) is None,
        lambda state, slots, elements: cancel(state, elements, slots["cancel"]),
        after=(START, *_PLACES, *_ORDERS, "move", "note"), at="trips", actions=3,
        touches=lambda slots: facts(fact("ride", slots["cancel"]), fact("note", slots["cancel"])),
        tool=lambda slots: _call("cancel", to=slots["cancel"]),
        needs=("cancel",),
    ),
    _trip_row("rate", "Give the trip to {rate} {rate_stars} of 5 stars.", "stars", "star"),
    _trip_row("tip", "Tip the driver of the trip to {tip} ${tip_tip}.", "tip", "tip"),
    Subtask(
        "unfavourite", "Remove {unfavourite} from the favourites.",
        lambda state, slots: slots["unfavourite"] not in state["favourites"],
        unlike,
        after=(START, *_PLACES, *_ORDERS, *_CHANGES, *_TRIPS), at="account", actions=2, ends="place",
        touches=lambda slots: facts(fact("favourite", slots["unfavourite"])),
        tool=lambda slots: _call("set_favourite", place=slots["unfavourite"], favourite=False),
        needs=("unfavourite",),
    ),
    Subtask(
        "ask_trip", "How much did the trip to {ask_trip} cost?",
        lambda state, slots: said(state, slots["ask_trip_price"]),
        lambda state, slots, elements: (
            to_item(state, elements, "receipt", slots["ask_trip"]) or HAND.answer(slots["ask_trip_price"])
        ),
        after=(START, *_PLACES, *_ORDERS, *_CHANGES, *_TRIPS), at="trips", actions=3, ends="receipt",
        needs=("ask_trip",),
    ),
    Subtask(
        "quote", "What would a {quote_class} to {quote} cost from here?",
        lambda state, slots: said(state, quoted(state, slots)),
        ask_price,
        after=(START, *_PLACES, *_CHANGES, *_TRIPS), at="map", actions=4, ends="route",
        needs=("quote",),
    ),
    Subtask(
        "missing", "Cancel the ride to {missing}.",
        lambda state, slots: False,
        lambda state, slots, elements: cancel(state, elements, slots["missing"]),
        after=(START, "favourite", "set_pay"), at="trips", actions=2, feasible=False,
    ),
)  # fmt: skip


def fill(rng: random.Random, path: tuple[str, ...], state: State) -> Slots:
    """A destination of its own for every subtask, and details that differ from what is there."""
    slots: Slots = {"here": state["here"], "pays": [state["pay"]]}
    used: set[str] = {state["here"]}
    names = [place["name"] for place in state["places"]]
    planned = [ride["to"] for ride in state["rides"]]
    past = [trip["to"] for trip in state["trips"]]
    free = without(names, planned)
    pools = {
        "unfavourite": state["favourites"],
        "favourite": without(state["pins"], state["favourites"]),
        **dict.fromkeys(("cancel", "move", "note"), planned),
        **dict.fromkeys(("rate", "tip", "ask_trip"), past),
        **dict.fromkeys((*_ORDERS, "quote", "missing"), free),
        "set_home": without(names, [state["home"], state["work"]]),
    }
    for name, pool in pools.items():
        if name in path:
            slots[name] = rng.choice(without(pool, used))
            used.add(slots[name])
        if name in path and name in (*_ORDERS, "quote"):
            slots[f"{name}_class"] = rng.choice(state["classes"][1:])[0]
    if "pickup" in path:
        slots["pickup_from"] = rng.choice(without(names, used))
    if "set_pay" in path:
        slots["set_pay"] = rng.choice(without(state["cards"], [state["pay"]]))
        slots["pays"].append(slots["set_pay"])
    if "charge" in path:
        slots["charge_pay"] = rng.choice(without(state["cards"], slots["pays"]))
    for name in ("plan", "move"):
        if name in path:
            ride = ride_to(state, slots[name]) or {"day": "", "time": ""}
            slots[f"{name}_day"] = rng.choice(without(state["days"], [ride["day"]]))
            slots[f"{name}_time"] = rng.choice(without(state["times"][1:], [ride["time"]]))
    if "move" in path:
        slots["move_rest"] = [ride_to(state, slots["move"])[k] for k in ("class", "from", "pay")]
    if "note" in path:
        slots["note_text"] = rng.choice(NOTES)
    if "rate" in path:
        slots["rate_stars"] = rng.choice([n for n in range(1, 6) if n != trip_to(state, slots["rate"])["stars"]])
    if "tip" in path:
        slots["tip_tip"] = rng.choice(TIPS)
    if "ask_trip" in path:
        slots["ask_trip_price"] = f"${money(trip_to(state, slots['ask_trip'])['price'])}"
    return slots


_PLACE = {"type": "string", "description": "name of a place"}
_TEXT = {"type": "string"}

TOOLS = (
    ToolSpec.of(
        f"{NAME}.order",
        "Order a ride, for now or, with day and time, for later; from where the user is unless told otherwise.",
        {"to": _PLACE, "class": {**_TEXT, "description": "class of car"}},
        {"from": _PLACE, "day": {**_TEXT, "description": 'as "Tue 4 Mar"'}, "time": {**_TEXT, "description": "HH:MM"}},
    ),
    ToolSpec.of(f"{NAME}.cancel", "Cancel a planned ride.", {"to": _PLACE}),
    ToolSpec.of(
        f"{NAME}.rate", "Rate a past trip.", {"to": _PLACE, "stars": {"type": "integer", "description": "1 to 5"}}
    ),
    ToolSpec.of(
        f"{NAME}.set_favourite",
        "Add a place to the favourites or remove it.",
        {"place": _PLACE, "favourite": {"type": "boolean"}},
    ),
)

_ALL_PLACES = tuple(name for names in PLACES.values() for name in names)

APP = PHONE.app(
    NAME,
    ("framework7", "leaflet"),
    subtasks=SUBTASKS,
    tools=TOOLS,
    initial=initial,
    sample_state=sample_state,
    facts=screen_facts,
    fill=fill,
    outcome=outcome,
    home="map",
    names=(
        *_ALL_PLACES,
        *(f"{word} {name}" for word in ("pin", "ride", "trip") for name in _ALL_PLACES),
        *(name for name, *_ in CLASSES), *CARDS, *TIMES,
        *("map", "trips", "account", "where to", "zoom in", "zoom out", "search", "clear search", "back", "close"),
        *("pick-up", "time", "payment", "order", "now", "done", "note", "clear note", "save note", "change time"),
        *("cancel ride", "keep ride", "confirm cancel", "planned", "past", "ride again", "ride here", "home", "work"),
        *("add favourite", "remove favourite", "set as home", "set as work"),
        *(f"star {n}" for n in range(1, 6)), *(f"tip {n}" for n in TIPS),
    ),
    most_actions=20,
    pools={
        **dict.fromkeys((*_ORDERS, *_CHANGES, *_TRIPS, "pickup_from", "ask_trip", "quote"), _ALL_PLACES),
        **dict.fromkeys(("favourite", "unfavourite", "set_home"), _ALL_PLACES),
        **dict.fromkeys(("set_pay", "charge_pay"), CARDS),
    },
)  # fmt: skip
