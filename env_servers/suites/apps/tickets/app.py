"""Ticket booking: films and trains, seats chosen on a plan, extras and codes, one's tickets, a watchlist."""

from __future__ import annotations

import random
from typing import Any

from ...virtual.app import START, CallDict, Slots, State, Subtask, ToolSpec
from ...virtual.words import fact, facts, without
from ..mobile import HAND, PHONE
from .content import CARDS, CITIES, CODES, EXTRAS, FILMS, PEOPLE, SHOW_TIMES, TRAIN_TIMES
from .script import ask_train, buy, buy_taken, price_of, refund, reseat, search, send, to_film, to_tab, to_ticket
from .state import (
    NAME,
    PLANS,
    film_of,
    free_seats,
    initial,
    outcome,
    sample_state,
    screen_facts,
    ticket_of,
    unowned,
)


def _call(tool: str, **arguments: object) -> CallDict:
    return {"name": f"{NAME}.{tool}", "arguments": arguments}


def _wanted(slots: Slots, kind: str) -> dict[str, Any]:
    """The ticket that the subtask `kind` asks for."""
    extra = slots.get(f"{kind}_extra")
    return {
        "kind": "train" if f"{kind}_to" in slots else "film",
        "title": f"{slots[kind]} to {slots[f'{kind}_to']}" if f"{kind}_to" in slots else slots[kind],
        "from": slots[kind],
        "to": slots.get(f"{kind}_to", ""),
        "day": slots[f"{kind}_day"],
        "time": slots[f"{kind}_time"],
        "seats": slots[f"{kind}_seats"],
        "extras": {extra: slots[f"{kind}_count"]} if extra else {},
        "code": slots.get(f"{kind}_code", ""),
        "pay": slots.get(f"{kind}_pay", slots["pay"]),
    }


def _buying(kind: str, text: str, actions: int, tool: str = "") -> Subtask:
    any_seat = kind == "cheapest"

    def checkpoint(state: State, slots: Slots) -> bool:
        want = _wanted(slots, kind)
        ticket = ticket_of(state, want["title"])
        keys = ("day", "time", "extras", "code", "pay", *(() if any_seat else ("seats",)))
        return bool(ticket) and not ticket["sent"] and all(ticket[k] == want[k] for k in keys) and (
            not any_seat or len(ticket["seats"]) == 1
        )  # fmt: skip

    def call(slots: Slots) -> CallDict:
        want = _wanted(slots, kind)
        given = ("from", "to") if want["kind"] == "train" else ("title",)
        return _call(tool, **{key: want[key] for key in (*given, "day", "time", "seats")})

    return Subtask(
        kind, text, checkpoint,
        lambda state, slots, elements: buy(state, elements, _wanted(slots, kind)),
        after=(START, *_LOOK, *_WATCH), at="trains" if kind in _TRAINS else "films", actions=actions, ends="ticket",
        touches=lambda slots: facts(fact("ticket", _wanted(slots, kind)["title"])),
        tool=call if tool else None,
        needs=tuple(slot for slot in (kind, f"{kind}_to", f"{kind}_pay") if "{" + slot + "}" in text),
    )  # fmt: skip


def _asking(kind: str, text: str, at: str, actions: int, move, answer) -> Subtask:
    """A question: `move(state, slots, elements)` goes where the answer stands, `answer(state, slots)` is it."""

    def said(state: State, slots: Slots) -> bool:
        right, given = answer(state, slots), state["answer"]
        return given.removesuffix(" min").lstrip("$") == right.removesuffix(" min").lstrip("$")

    return Subtask(
        kind, text, said,
        lambda state, slots, elements: move(state, slots, elements) or HAND.answer(answer(state, slots)),
        after=(START, *_WATCH, *_FILMS, *_TRAINS, *_MINE), at=at, actions=actions,
        ends={"films": "film", "mine": "ticket", "trains": "results"}[at],
        needs=(kind,),
    )  # fmt: skip


def _seats(state: State, slots: Slots) -> str:
    return ", ".join(ticket_of(state, slots["ask_seat"])["seats"])


_LOOK = ("genre", "search")
_WATCH = ("watch", "unwatch")
_FILMS = ("film", "pair", "snack", "code", "card")
_TRAINS = ("train", "cheapest")
_MINE = ("reseat", "send", "refund")
_SHOW = "on {%s_day} at {%s_time}"


def _show(kind: str) -> str:
    return _SHOW % (kind, kind)


SUBTASKS = (
    Subtask(
        "genre", "Show only the films of the genre {genre}.",
        lambda state, slots: state["screen"] == "films" and state["genre"] == slots["genre"] and not state["query"],
        lambda state, slots, elements: (
            to_tab(state, elements, "films")
            or HAND.tap(elements, "clear search" if state["query"] else slots["genre"])
        ),
        after=(START,), at="films", actions=1, lasting=False,
    ),
    Subtask(
        "search", "Search for the film {search}.",
        lambda state, slots: (
            state["screen"] == "films" and state["query"].strip() == slots["search"] and not state["genre"]
        ),
        search,
        after=(START, "genre"), at="films", actions=2, lasting=False,
    ),
    Subtask(
        "watch", "Put {watch} on the watchlist.",
        lambda state, slots: slots["watch"] in state["watched"],
        lambda state, slots, elements: to_film(state, elements, slots["watch"]) or HAND.tap(elements, "watch"),
        after=(START, *_LOOK), at="films", actions=2, ends="film",
        touches=lambda slots: facts(fact("watch", slots["watch"])),
        tool=lambda slots: _call("set_watched", title=slots["watch"], watched=True),
        needs=("watch",),
    ),
    Subtask(
        "unwatch", "Take {unwatch} off the watchlist.",
        lambda state, slots: slots["unwatch"] not in state["watched"],
        lambda state, slots, elements: to_film(state, elements, slots["unwatch"]) or HAND.tap(elements, "unwatch"),
        after=(START, *_LOOK, "watch"), at="films", actions=2, ends="film",
        touches=lambda slots: facts(fact("watch", slots["unwatch"])),
        tool=lambda slots: _call("set_watched", title=slots["unwatch"], watched=False),
        needs=("unwatch",),
    ),
    _buying("film", f"Buy a ticket for {{film}} {_show('film')}, seat {{film_seats[0]}}.", 6, "buy_film"),
    _buying(
        "pair",
        f"Buy two tickets for {{pair}} {_show('pair')}, seats {{pair_seats[0]}} and {{pair_seats[1]}}.",
        7, "buy_film",
    ),
    _buying(
        "snack",
        f"Buy seat {{snack_seats[0]}} for {{snack}} {_show('snack')}, with {{snack_count}} {{snack_extra}}.", 8,
    ),
    _buying(
        "code",
        f"Buy seat {{code_seats[0]}} for {{code}} {_show('code')} with the promotion code {{code_code}}.", 8,
    ),
    _buying("card", f"Buy seat {{card_seats[0]}} for {{card}} {_show('card')} and pay with {{card_pay}}.", 8),
    _buying(
        "train",
        f"Buy a train ticket from {{train}} to {{train_to}} {_show('train')}, seat {{train_seats[0]}}.",
        10, "buy_train",
    ),
    _buying("cheapest", "Buy one seat on the cheapest train from {cheapest} to {cheapest_to} on {cheapest_day}.", 10),
    Subtask(
        "reseat", "Change the seats of the ticket for {reseat} to {reseat_words}.",
        lambda state, slots: (
            (one := ticket_of(state, slots["reseat"])) is not None
            and [one["seats"], one["day"], one["time"]] == [slots["reseat_seats"], *slots["reseat_rest"]]
        ),
        reseat,
        after=(START, *_WATCH, *_FILMS, *_TRAINS), at="mine", actions=5, ends="ticket",
        touches=lambda slots: facts(fact("ticket", slots["reseat"])),
        needs=("reseat",),
    ),
    Subtask(
        "send", "Send the ticket for {send} to {send_person}.",
        lambda state, slots: (
            (one := ticket_of(state, slots["send"])) is not None
            and [one["sent"], one["seats"]] == [slots["send_person"], slots["send_seats"]]
        ),
        send,
        after=(START, *_WATCH, *_FILMS, *_TRAINS, "reseat"), at="mine", actions=4, ends="ticket",
        touches=lambda slots: facts(fact("ticket", slots["send"])),
        needs=("send",),
    ),
    Subtask(
        "refund", "Refund the ticket for {refund}.",
        lambda state, slots: ticket_of(state, slots["refund"]) is None,
        lambda state, slots, elements: refund(state, elements, slots["refund"]),
        after=(START, *_WATCH, *_FILMS, *_TRAINS, "reseat", "send"), at="mine", actions=3,
        touches=lambda slots: facts(fact("ticket", slots["refund"])),
        tool=lambda slots: _call("refund", title=slots["refund"]),
        needs=("refund",),
    ),
    _asking(
        "ask_seat", "Which seats do I have for {ask_seat}?", "mine", 2,
        lambda state, slots, elements: to_ticket(state, elements, slots["ask_seat"]), _seats,
    ),
    _asking(
        "ask_length", "How many minutes does {ask_length} last?", "films", 2,
        lambda state, slots, elements: to_film(state, elements, slots["ask_length"]),
        lambda state, slots: f"{film_of(state, slots['ask_length'])['minutes']} min",
    ),
    _asking(
        "ask_train",
        "What is the price of the train from {ask_train} to {ask_train_to} on {ask_train_day} at {ask_train_time}?",
        "trains", 7,
        lambda state, slots, elements: ask_train(state, slots, elements),
        lambda state, slots: slots["ask_train_price"],
    ),
    Subtask(
        "full", f"Buy a ticket for {{full}} {_show('full')}, seat {{full_seat}}.",
        lambda state, slots: False,
        buy_taken,
        after=(START, "watch"), at="films", actions=4, feasible=False,
    ),
    Subtask(
        "missing", "Refund the ticket for {missing}.",
        lambda state, slots: False,
        lambda state, slots, elements: refund(state, elements, slots["missing"]),
        after=(START, "watch", "film", "send"), at="mine", actions=2, feasible=False,
    ),
)  # fmt: skip


def _film_slots(rng: random.Random, kind: str, state: State, slots: Slots) -> None:
    show = rng.choice(film_of(state, slots[kind])["shows"])
    day = rng.choice(state["days"])
    free = free_seats(state, "film", show["salt"], day)
    slots[f"{kind}_day"], slots[f"{kind}_time"] = day, show["time"]
    slots[f"{kind}_seats"] = sorted(rng.sample(free, 2 if kind == "pair" else 1))
    if kind == "full":
        rows, columns = PLANS["film"]
        every = [f"{chr(65 + row)}{column + 1}" for row in range(rows) for column in range(columns)]
        slots["full_seat"] = rng.choice(without(every, free))
    if kind == "snack":
        slots["snack_extra"], slots["snack_count"] = rng.choice(EXTRAS["film"])[0], rng.choice((1, 1, 2))
    if kind == "code":
        slots["code_code"] = rng.choice(state["codes"])[0]
    if kind == "card":
        slots["card_pay"] = rng.choice(without(state["cards"], [state["pay"]]))


def _train_slots(rng: random.Random, kind: str, state: State, slots: Slots, used: set[str]) -> None:
    lines = [
        line
        for line in state["trains"]
        if (title := f"{line['from']} to {line['to']}") not in used and not ticket_of(state, title)
    ]
    line, day = rng.choice(lines), rng.choice(without(state["days"], [state["trip"]["day"]]))
    used.add(f"{line['from']} to {line['to']}")
    run = rng.choice(line["runs"]) if kind != "cheapest" else min(line["runs"], key=lambda run: run["price"])
    slots |= {kind: line["from"], f"{kind}_to": line["to"], f"{kind}_day": day, f"{kind}_time": run["time"]}
    slots[f"{kind}_seats"] = [rng.choice(free_seats(state, "train", run["salt"], day)[:16])]
    if kind == "ask_train":
        slots["ask_train_price"] = price_of(state, line["from"], line["to"], run["time"])


def fill(rng: random.Random, path: tuple[str, ...], state: State) -> Slots:
    """A film, train or ticket of its own for every subtask, and details that differ from what is there."""
    slots: Slots = {"pay": state["pay"]}
    used: set[str] = set()
    titles = [film["title"] for film in state["films"]]
    tickets = [one["title"] for one in state["tickets"]]
    pools = {
        "unwatch": state["watched"],
        "watch": without(titles, state["watched"]),
        **dict.fromkeys((*_MINE, "ask_seat"), tickets),
        **dict.fromkeys((*_FILMS, "full", "missing"), unowned(state)),
        **dict.fromkeys(("search", "ask_length"), titles),
    }
    for name, pool in pools.items():
        if name in path:
            slots[name] = rng.choice(without(pool, used))
            used.add(slots[name])
        if name in path and name in (*_FILMS, "full"):
            _film_slots(rng, name, state, slots)
    for name in (*_TRAINS, "ask_train"):
        if name in path:
            _train_slots(rng, name, state, slots, used)
    if "genre" in path:
        slots["genre"] = rng.choice(sorted({film["genre"] for film in state["films"]}))
    if "reseat" in path:
        one = ticket_of(state, slots["reseat"])
        free = without(free_seats(state, one["kind"], one["salt"], one["day"]), one["seats"])
        slots["reseat_seats"] = sorted(rng.sample(free, len(one["seats"])))
        slots["reseat_words"] = " and ".join(slots["reseat_seats"])
        slots["reseat_rest"] = [one["day"], one["time"]]
    if "send" in path:
        slots["send_person"] = rng.choice(PEOPLE)
        slots["send_seats"] = ticket_of(state, slots["send"])["seats"]
    return slots


_TEXT = {"type": "string"}
_DAY = {"type": "string", "description": 'as "Tue 4 Mar"'}
_TIME = {"type": "string", "description": "HH:MM"}
_SEATS = {"type": "array", "items": {"type": "string"}, "description": 'as "C4"'}

TOOLS = (
    ToolSpec.of(f"{NAME}.buy_film", "Buy film tickets.", {"title": _TEXT, "day": _DAY, "time": _TIME, "seats": _SEATS}),
    ToolSpec.of(
        f"{NAME}.buy_train",
        "Buy train tickets.",
        {"from": _TEXT, "to": _TEXT, "day": _DAY, "time": _TIME, "seats": _SEATS},
    ),
    ToolSpec.of(f"{NAME}.refund", "Refund a ticket.", {"title": _TEXT}),
    ToolSpec.of(
        f"{NAME}.set_watched",
        "Put a film on the watchlist or take it off.",
        {"title": _TEXT, "watched": {"type": "boolean"}},
    ),
)

_TITLES = tuple(title for title, _ in FILMS)
_TRIPS = tuple(f"{a} to {b}" for a in CITIES for b in CITIES if a != b)

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
    home="films",
    names=(
        *_TITLES, *sorted({genre for _, genre in FILMS}), *CARDS,
        *(f"ticket {title}" for title in (*_TITLES, *_TRIPS)), *(f"city {name}" for name in CITIES),
        *(f"seat {chr(65 + row)}{column}" for row in range(11) for column in range(1, 9)),
        *(f"show {time}" for time in SHOW_TIMES), *(f"train {time}" for time in TRAIN_TIMES),
        *(f"{word} {name}" for word in ("more", "fewer") for rows in EXTRAS.values() for name, _ in rows),
        *("films", "trains", "tickets", "search", "clear search", "all", "back", "close", "watch", "unwatch"),
        *("from", "to", "find trains", "continue", "save seats", "code", "clear code", "payment", "pay"),
        *("person", "clear person"),
        *("send", "change seats", "refund", "keep ticket", "confirm refund"),
    ),
    most_actions=20,
    pools={
        **dict.fromkeys((*_WATCH, *_FILMS, "ask_length"), _TITLES),
        **dict.fromkeys((*_MINE, "ask_seat"), (*_TITLES, *_TRIPS)),
        **{f"{kind}{end}": CITIES for kind in (*_TRAINS, "ask_train") for end in ("", "_to")},
        "card_pay": CARDS,
        "code_code": tuple(code for code, _ in CODES),
    },
)  # fmt: skip
