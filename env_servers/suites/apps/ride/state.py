"""Ride's states, what its screens say and what tasks are about.

State JSON: layout · screen map|search|place|route|ride|trips|receipt|account · dialog ""|time|payment|cancel|refused ·
focus, query · slot (what the search is for) to|from|home|work · city {areas, avenues, river} · view {x, y, z} ·
places [{name, kind, street, rating, x, y}] · pins, favourites [names] · here, home, work · place (open) ·
classes [[name, words, cents, cents a block]] · draft, rides [{from, to, class, pay, day, time, note}] (day "": now) ·
trips [{to, day, class, driver, price, pay, stars, tip}] · item (destination of the open ride or trip) · text ·
segment planned|past · cards, pay · days, times, tips · answer.
"""

from __future__ import annotations

import random
from typing import Any

from ...virtual.app import State, generator
from ...virtual.words import fact, without, yes
from ..mobile import days, look, money
from .content import CARDS, CLASSES, DRIVERS, NOTES, PLACES, STREETS, TIMES, TIPS

NAME = "ride"
SIDE, BLOCK = 8, 64  # blocks of the city each way, map units of a block


def _city(rng: random.Random) -> dict[str, Any]:
    spots = [(x, y) for x in range(SIDE) for y in range(SIDE)]
    kinds = rng.choices(("park", "built", "square"), (2, 6, 1), k=34)
    banks = [rng.uniform(2, 6)]
    for _ in range(5):
        banks.append(min(7.5, max(0.5, banks[-1] + rng.uniform(-1.6, 1.6))))
    river = [[round(at, 2), -3 + k * 2.8] for k, at in enumerate(banks)]
    return {
        "areas": [[x, y, kind] for (x, y), kind in zip(rng.sample(spots, 34), kinds, strict=True)],
        "avenues": sorted(rng.sample(range(1, SIDE), 2)),
        "river": river if rng.random() < 0.5 else [[y, x] for x, y in river],
    }


def _places(rng: random.Random) -> list[dict[str, Any]]:
    known = [(kind, name) for kind, names in PLACES.items() for name in names]
    corners = rng.sample([(x, y) for x in range(SIDE + 1) for y in range(SIDE + 1)], 16)
    return [
        {
            "name": name,
            "kind": kind,
            "street": f"{rng.randint(1, 98)} {rng.choice(STREETS)}",
            "rating": f"{rng.randint(32, 49) / 10:.1f}",
            "x": x,
            "y": y,
        }
        for (kind, name), (x, y) in zip(rng.sample(known, 16), corners, strict=True)
    ]


def price(state: State, name: str, start: str, to: str) -> int:
    """Cents that a ride costs."""
    at = {place["name"]: place for place in state["places"]}
    far = abs(at[start]["x"] - at[to]["x"]) + abs(at[start]["y"] - at[to]["y"])
    return next(begin + each * far for other, _, begin, each in state["classes"] if other == name)


def _ride(rng: random.Random, state: State, to: str, planned: bool = True) -> dict[str, Any]:
    return {
        "from": state["here"],
        "to": to,
        "class": rng.choice(state["classes"])[0],
        "pay": rng.choice(state["cards"]),
        "day": rng.choice(state["days"]) if planned else "",
        "time": rng.choice(state["times"]) if planned else "",
        "note": "",
    }


def _content(rng: random.Random) -> State:
    places = _places(rng)
    names = [place["name"] for place in places]
    here, *others = rng.sample(names, 16)
    calendar = days(rng, 9)
    state: State = {
        "layout": {
            **look(rng),
            "where": rng.choice(("high", "low")),
            "account": rng.sample(("payment", "saved", "liked"), 3),
            "brand": rng.choice(("Rolla", "Swift Cab", "Wheelie", "CityHop")),
        },
        "screen": "map",
        "dialog": "",
        "focus": "",
        "query": "",
        "slot": "to",
        "city": _city(rng),
        "view": {"x": 4 * BLOCK + rng.randint(-40, 40), "y": 4 * BLOCK + rng.randint(-40, 40), "z": rng.choice((0, 1))},
        "places": places,
        "pins": sorted(rng.sample(others, 5)),
        "favourites": rng.sample(others, rng.randint(1, 3)),
        "here": here,
        "home": others[0],
        "work": others[1],
        "place": "",
        "classes": [list(row) for row in rng.sample(CLASSES, 4)],
        "draft": {"from": here, "to": "", "class": "", "pay": "", "day": "", "time": ""},
        "rides": [],
        "trips": [],
        "item": "",
        "text": "",
        "segment": rng.choice(("planned", "past")),
        "cards": rng.sample(CARDS, 4),
        "days": calendar[3:],
        "times": sorted(rng.sample(TIMES, 6)),
        "tips": list(TIPS),
        "answer": "",
    }
    state["pay"] = rng.choice(state["cards"])
    state["rides"] = [_ride(rng, state, to) for to in others[2 : rng.choice((5, 6))]]
    for to in rng.sample(others, 7):
        kind = rng.choice(state["classes"])[0]
        trip = {"to": to, "day": rng.choice(calendar[:3]), "class": kind, "driver": rng.choice(DRIVERS)}
        cents = price(state, kind, here, to) + rng.randrange(0, 90, 5)
        stars = rng.choice((0, 0, 3, 4, 5))
        state["trips"].append({**trip, "price": cents, "pay": rng.choice(state["cards"]), "stars": stars, "tip": 0})
    return state


def initial(seed: int) -> State:
    """The map; some rides are planned, seven trips have been made."""
    return _content(generator(NAME, "initial", seed))


def sample_state(seed: int) -> State:
    """Any screen of the app, with any sheet over it that it can have."""
    rng = generator(NAME, "sample", seed)
    state = _content(rng)
    names = [place["name"] for place in state["places"]]
    state["screen"] = screen = rng.choice(
        ("map", "map", "search", "place", "route", "route", "ride", "trips", "receipt", "account")
    )
    state["view"]["z"] = rng.randint(-1, 2)
    free = without(names, [state["here"]], (ride["to"] for ride in state["rides"]))
    for trip in state["trips"]:
        trip["tip"] = rng.choice((0, 0, *TIPS))
    state["draft"] = _ride(rng, state, rng.choice(free), planned=rng.random() < 0.5)
    del state["draft"]["note"]
    match screen:
        case "search":
            state["slot"] = rng.choice(("to", "from", "home", "work"))
            state["focus"] = "search"
            state["query"] = rng.choice(("", rng.choice(names), rng.choice(names)[:3]))
        case "place":
            state["place"] = rng.choice(without(names, [state["here"]]))
        case "route":
            state["dialog"] = rng.choice(("", "", "time", "payment"))
        case "ride":
            state["item"] = rng.choice(state["rides"])["to"]
            state["text"] = rng.choice(("", *NOTES))
            state["dialog"] = rng.choice(("", "", "time", "cancel"))
        case "receipt":
            state["item"] = rng.choice(state["trips"])["to"]
    return state


def found(state: State) -> list[str]:
    """Names that the search lists."""
    wanted = state["query"].strip().lower()
    return [place["name"] for place in state["places"] if wanted in place["name"].lower()]


def ride_to(state: State, to: str) -> dict[str, Any] | None:
    """The planned ride to `to`, or None."""
    return next((ride for ride in state["rides"] if ride["to"] == to), None)


def trip_to(state: State, to: str) -> dict[str, Any] | None:
    """The past trip to `to`, or None."""
    return next((trip for trip in state["trips"] if trip["to"] == to), None)


def screen_facts(state: State) -> list[tuple[str, str]]:
    """Questions that the present screen answers."""
    if state["dialog"]:
        titles = {"time": "time", "payment": "payment", "cancel": "cancel this ride", "refused": "not possible"}
        return [("Which dialog is open?", titles[state["dialog"]])]
    match state["screen"]:
        case "search":
            return [("What is in the search box?", state["query"] or "nothing")]
        case "place":
            place = next(place for place in state["places"] if place["name"] == state["place"])
            return [
                ("Which place is open?", place["name"]),
                ("What is the address?", place["street"]),
                ("What is the rating?", place["rating"]),
                ("Is it a favourite?", yes(place["name"] in state["favourites"])),
            ]
        case "route":
            draft = state["draft"]
            prices = [
                (f"What does {name} cost?", f"${money(price(state, name, draft['from'], draft['to']))}")
                for name, *_ in state["classes"][:2]
            ]
            return [
                ("Where does the ride go?", draft["to"]),
                ("Where is the pick-up?", draft["from"]),
                ("Which payment is chosen?", draft["pay"]),
                ("Which class is chosen?", draft["class"]),
                *prices,
            ]
        case "ride":
            ride = ride_to(state, state["item"])
            return [
                ("Where does the ride go?", ride["to"]),
                ("When is the ride?", f"{ride['day']}, {ride['time']}" if ride["day"] else "Now"),
                ("Which class is the ride?", ride["class"]),
            ]
        case "trips" if state["segment"] == "planned":
            return [("How many rides are planned?", str(len(state["rides"])))]
        case "receipt":
            trip = trip_to(state, state["item"])
            return [
                ("Who was the driver?", trip["driver"]),
                ("How much was the trip?", f"${money(trip['price'])}"),
                ("How many stars are given?", str(trip["stars"])),
            ]
        case "account" if state["layout"]["account"][0] == "payment":
            return [("What is the default payment?", state["pay"])]
        case "account" if state["layout"]["account"][0] == "saved":
            return [("Where is home?", state["home"]), ("Where is work?", state["work"])]
    return [("Which screen is open?", state["screen"])]


def outcome(state: State) -> dict[str, Any]:
    """Default payment, saved places, planned rides with their notes, stars and tips of trips."""
    return {
        "pay": state["pay"],
        "home": state["home"],
        "work": state["work"],
        **{fact("favourite", name): True for name in state["favourites"]},
        **{fact("ride", one["to"]): {k: v for k, v in one.items() if k != "note"} for one in state["rides"]},
        **{fact("note", one["to"]): one["note"] for one in state["rides"] if one["note"]},
        **{fact("stars", one["to"]): one["stars"] for one in state["trips"]},
        **{fact("tip", one["to"]): one["tip"] for one in state["trips"]},
    }
