"""Tickets' states, what its screens say and what tasks are about.

State JSON: layout · screen films|film|trains|results|seats|basket|mine|ticket · focus, query, genre, text ·
dialog ""|from|to|payment|refund|refused|count · day (of a film's shows) · item (open film or ticket) ·
films [{title, genre, minutes, age, shows [{time, hall, price, salt}]}] · cities · trip {from, to, day} ·
trains [{from, to, runs [{time, arrive, hall, price, salt}]}] · days · extras {kind: [[name, cents]]} ·
codes [[code, per cent]] · cards, pay · draft {kind, title, day, time, hall, price, salt, seats, extras, code, pay,
of (the ticket whose seats change)} · tickets [{.., paid, sent}] · watched [titles] · answer.
"""

from __future__ import annotations

import random
from typing import Any

from ...virtual.app import State, generator
from ...virtual.words import fact, without, yes
from ..mobile import days, look, money
from .content import CARDS, CITIES, CODES, EXTRAS, FILMS, PEOPLE, SHOW_TIMES, TRAIN_TIMES

NAME = "tickets"
PLANS = {"film": (8, 8), "train": (11, 4)}  # rows, seats in a row
NO_DRAFT = {
    "kind": "film", "title": "", "day": "", "time": "", "hall": "", "price": 0, "salt": 0,
    "seats": [], "extras": {}, "code": "", "pay": "", "of": "",
}  # fmt: skip


def free_seats(state: State, kind: str, salt: int, day: str) -> list[str]:
    """Seats of a show or train that are not taken: the same formula as page.js's."""
    rows, columns = PLANS[kind]
    number = (salt + 53 * state["days"].index(day)) * 7919
    return [
        f"{chr(65 + row)}{column + 1}"
        for row in range(rows)
        for column in range(columns)
        if (number + (row * 13 + column) * 4729) % 1009 % 10 >= 4
    ]


def _shows(rng: random.Random) -> list[dict[str, Any]]:
    return [
        {"time": time, "hall": f"Hall {rng.randint(1, 9)}", "price": rng.randrange(900, 1600, 50),
         "salt": rng.randrange(1000)}
        for time in sorted(rng.sample(SHOW_TIMES, 3))
    ]  # fmt: skip


def _runs(rng: random.Random) -> list[dict[str, Any]]:
    times = sorted(rng.sample(TRAIN_TIMES, 5))
    prices = rng.sample(range(1900, 7900, 150), 5)
    runs = []
    for time, price in zip(times, prices, strict=True):
        minutes = int(time[:2]) * 60 + int(time[3:]) + rng.randrange(95, 290)
        arrive = f"{minutes // 60 % 24:02d}:{minutes % 60:02d}"
        number = f"Train {rng.randint(100, 999)}"
        runs.append({"time": time, "arrive": arrive, "hall": number, "price": price, "salt": rng.randrange(1000)})
    return runs


def _ticket(rng: random.Random, state: State, kind: str, title: str, one: dict[str, Any]) -> dict[str, Any]:
    day = rng.choice(state["days"])
    seats = sorted(rng.sample(free_seats(state, kind, one["salt"], day), rng.choice((1, 1, 2))))
    name, cents = rng.choice(EXTRAS[kind])
    extras = {name: 1} if rng.random() < 0.4 else {}
    kept = {key: one[key] for key in ("time", "hall", "salt", "price")}
    paid = len(seats) * one["price"] + (cents if extras else 0)
    ticket = {"kind": kind, "title": title, "day": day, **kept, "seats": seats, "extras": extras, "code": ""}
    return {**ticket, "pay": rng.choice(state["cards"]), "paid": paid, "sent": ""}


def _content(rng: random.Random) -> State:
    cities = rng.sample(CITIES, 6)
    state: State = {
        "layout": {
            **look(rng),
            "brand": rng.choice(("Cinelane", "TicketBox", "Seatly", "Marquee")),
            "seats": rng.choice(("round", "square")),
            "aisle": rng.choice((2, 4, 6)),
        },
        "screen": "films",
        "dialog": "",
        "focus": "",
        "query": "",
        "genre": "",
        "text": "",
        "films": [
            {"title": title, "genre": genre, "minutes": rng.randint(82, 168), "age": rng.choice((6, 10, 12, 16)),
             "shows": _shows(rng)}
            for title, genre in rng.sample(FILMS, 9)
        ],
        "days": days(rng, 6),
        "item": "",
        "cities": sorted(cities),
        "trains": [
            {"from": a, "to": b, "runs": _runs(rng)} for a in cities for b in cities if a != b and rng.random() < 0.4
        ],
        "extras": {kind: [list(row) for row in rows] for kind, rows in EXTRAS.items()},
        "codes": [list(row) for row in rng.sample(CODES, 3)],
        "cards": rng.sample(CARDS, 4),
        "draft": dict(NO_DRAFT, seats=[], extras={}),
        "answer": "",
    }  # fmt: skip
    if len(state["trains"]) < 4:
        pairs = ((cities[k], cities[k + 1]) for k in range(4))
        state["trains"] = [{"from": a, "to": b, "runs": _runs(rng)} for a, b in pairs]
    state["day"] = state["days"][0]
    state["trip"] = {"from": "", "to": "", "day": rng.choice(state["days"])}
    state["pay"] = rng.choice(state["cards"])
    films, trains = rng.sample(state["films"], 5), rng.sample(state["trains"], 2)
    state["tickets"] = [_ticket(rng, state, "film", one["title"], rng.choice(one["shows"])) for one in films[:3]]
    for one in trains[: rng.choice((1, 2))]:
        state["tickets"].append(_ticket(rng, state, "train", f"{one['from']} to {one['to']}", rng.choice(one["runs"])))
    rng.shuffle(state["tickets"])
    state["watched"] = [one["title"] for one in rng.sample(state["films"], rng.randint(1, 3))]
    return state


def initial(seed: int) -> State:
    """The list of films; four or five tickets are there."""
    return _content(generator(NAME, "initial", seed))


def sample_state(seed: int) -> State:
    """Any screen of the app, with any sheet over it that it can have."""
    rng = generator(NAME, "sample", seed)
    state = _content(rng)
    screens = ("films", "film", "trains", "results", "seats", "seats", "basket", "mine", "ticket")
    state["screen"] = screen = rng.choice(screens)
    state["day"] = rng.choice(state["days"])
    line = rng.choice(state["trains"])
    if rng.random() < 0.7 or screen == "results":
        state["trip"] |= {"from": line["from"], "to": line["to"]}
    match screen:
        case "films":
            state["genre"] = rng.choice(("", "", rng.choice(state["films"])["genre"]))
            state["query"] = rng.choice(("", "", "", rng.choice(state["films"])["title"]))
        case "film":
            state["item"] = rng.choice(state["films"])["title"]
        case "trains":
            state["dialog"] = rng.choice(("", "", "from", "to"))
        case "ticket":
            state["item"] = rng.choice(state["tickets"])["title"]
            state["text"] = rng.choice(("", "", *PEOPLE[:3]))
            state["dialog"] = rng.choice(("", "", "refund"))
        case "seats" | "basket":
            kind = rng.choice(("film", "train"))
            film = rng.choice(state["films"])
            title = film["title"] if kind == "film" else f"{line['from']} to {line['to']}"
            state["trip"] |= {"from": line["from"], "to": line["to"]}
            one = rng.choice(film["shows"] if kind == "film" else line["runs"])
            ticket = _ticket(rng, state, kind, title, one)
            state["draft"] = {key: ticket.get(key, "") for key in NO_DRAFT}
            if screen == "seats" and rng.random() < 0.3:
                state["draft"]["seats"] = []
            if screen == "basket":
                state["draft"]["code"] = rng.choice(("", "", state["codes"][0][0], "SUMMER99"))
                state["dialog"] = rng.choice(("", "", "payment"))
    return state


def film_of(state: State, title: str) -> dict[str, Any] | None:
    """The film called `title`, or None."""
    return next((film for film in state["films"] if film["title"] == title), None)


def runs_of(state: State, start: str, to: str) -> list[dict[str, Any]]:
    """The trains between two cities."""
    return next((line["runs"] for line in state["trains"] if (line["from"], line["to"]) == (start, to)), [])


def ticket_of(state: State, title: str) -> dict[str, Any] | None:
    """The user's ticket for `title`, or None."""
    return next((ticket for ticket in state["tickets"] if ticket["title"] == title), None)


def listed(state: State) -> list[str]:
    """Titles that the list of films shows."""
    wanted = state["query"].strip().lower()
    return [
        film["title"]
        for film in state["films"]
        if wanted in film["title"].lower() and state["genre"] in ("", film["genre"])
    ]


def screen_facts(state: State) -> list[tuple[str, str]]:
    """Questions that the present screen answers."""
    if state["dialog"]:
        return [("Is a dialog open?", "yes")]
    draft = state["draft"]
    match state["screen"]:
        case "films":
            return [
                ("Which genre is shown?", state["genre"] or "all"),
                ("What is searched?", state["query"] or "nothing"),
            ]
        case "film":
            film = film_of(state, state["item"])
            return [
                ("Which film is open?", film["title"]),
                ("How long is the film?", f"{film['minutes']} min"),
                ("Is the film on the watchlist?", yes(film["title"] in state["watched"])),
                *(
                    (f"How much is the show at {show['time']}?", f"${money(show['price'])}")
                    for show in film["shows"][:1]
                ),
            ]
        case "trains":
            trip = state["trip"]
            return [("Which day is chosen?", trip["day"]), ("Where does the trip start?", trip["from"] or "nowhere")]
        case "results":
            runs = runs_of(state, state["trip"]["from"], state["trip"]["to"])
            return [(f"How much is the train at {run['time']}?", f"${money(run['price'])}") for run in runs[:3]]
        case "seats":
            return [
                ("Which seats are chosen?", ", ".join(draft["seats"]) or "none"),
                ("At what time is it?", draft["time"]),
            ]
        case "basket":
            return [("Which seats are in the basket?", ", ".join(draft["seats"])), ("What is bought?", draft["title"])]
        case "mine":
            return [("How many tickets are there?", str(len(state["tickets"])))]
        case _:
            ticket = ticket_of(state, state["item"])
            return [
                ("What is the ticket for?", ticket["title"]),
                ("Which seats are on the ticket?", ", ".join(ticket["seats"])),
                ("At what time is it?", ticket["time"]),
            ]


def outcome(state: State) -> dict[str, Any]:
    """The tickets in all that matters, and the watchlist."""
    keys = ("day", "time", "seats", "extras", "code", "pay", "sent")
    return {
        **{fact("watch", title): True for title in state["watched"]},
        **{fact("ticket", one["title"]): {key: one[key] for key in keys} for one in state["tickets"]},
    }


def unowned(state: State) -> list[str]:
    """Films that the user has no ticket for."""
    return without([film["title"] for film in state["films"]], (one["title"] for one in state["tickets"]))
