"""What the tasks of the app `search` are about: the facts that they change, the DAG of subtasks, a path's slots."""

from __future__ import annotations

import random
from typing import Any

from ...virtual.app import START, Slots, State, Subtask
from ..web import CITIES, address, call
from . import script
from .content import COUNTS, EXTRAS, KINDS, MONTHS, NOUN, OPTIONS, PAYMENTS, PLACES, REMARKS, YEAR, date, empty, guest
from .script import FIELDS, page_of

NAME = "search"


def _form(state: State, number: int) -> dict[str, Any]:
    """The form of a place, being filled in or sent."""
    sent = next((booking for booking in state["bookings"] if booking["id"] == number), None)
    return sent or state["drafts"].get(str(number)) or {}


def outcome(state: State) -> dict[str, Any]:
    """Bookmarks, what every form says, and which were sent."""
    found: dict[str, Any] = {f"bookmark:{state['pages'][number]['name']}": True for number in state["bookmarks"]}
    for page in state["pages"]:
        form = _form(state, page["id"])
        for field in FIELDS:
            value = form.get(field)
            if value:
                found[f"form:{page['name']}:{field}"] = value.strip() if isinstance(value, str) else value
        if "number" in form:
            found[f"sent:{page['name']}"] = True
    return found


def _facts(name: str, *fields: str) -> frozenset[str]:
    return frozenset(f"form:{name}:{field}" for field in fields)


def _whole(slot: str):
    return lambda slots: _facts(slots[slot], *FIELDS) | {f"sent:{slots[slot]}"}


def _field(*fields: str):
    """(touches, checkpoint) of fields of the started booking."""

    def holds(state: State, slots: Slots) -> bool:
        form = _form(state, state["started"])
        return bool(form) and all(form[field].strip() == slots[f"form_{field}"] for field in fields)

    return lambda slots: _facts(slots["started"], *fields), holds


_guest_facts, _has_guest = _field("name", "mail")
_option_facts, _has_option = _field("option", "count")
_date_facts, _has_date = _field("date")
_pay_facts, _has_pay = _field("pay")
_remark_facts, _has_remark = _field("remark")


def _fill_in(field: str, slot: str):
    return lambda slots: call(NAME, "fill_field", field=field, value=slots[slot])


def _sent(state: State, name: str) -> bool:
    return bool(outcome(state).get(f"sent:{name}"))


def _is_booked(state: State, slots: Slots) -> bool:
    page = page_of(state, slots["book"])
    form = _form(state, page["id"]) if page else {}
    return "number" in form and all(form[field] == slots["booking"][field] for field in FIELDS)


def _is_cancelled(state: State, slots: Slots) -> bool:
    return page_of(state, slots["cancel"]) is not None and not _sent(state, slots["cancel"])


def _answered(slot: str):
    return lambda state, slots: state["answer"].lower().removesuffix(" euros") == slots[f"{slot}_answer"].lower()


def _listed(state: State, query: str, tab: str, region: str) -> bool:
    shown = state["at"]["page"] == "results" and state["query"].lower() == query.lower()
    return shown and (state["tab"], state["region"]) == (tab, region)


def _is_open(state: State, slots: Slots) -> bool:
    at = state["at"]
    return at["page"] == "page" and state["pages"][at["id"]]["name"] == slots["open"]


def _is_bookmarked(state: State, slots: Slots) -> bool:
    return any(state["pages"][number]["name"] == slots["bookmark"] for number in state["bookmarks"])


def _costs(state: State, slots: Slots) -> list[str]:
    """The price on the page of one of the two that are compared."""
    page = state["pages"][state["at"]["id"]] if state["at"]["page"] == "page" else None
    compared = page is not None and page["name"] in (slots["cheaper"], slots["other"])
    return [f"{page['name']} costs {page['price']} euros."] if compared else []


_BEFORE = (START, "bookmark", "cancel")
_FORM = ("guest", "option", "date", "pay", "extra", "code", "remark")

SUBTASKS = (
    Subtask(
        "bookmark",
        "Bookmark the page of {bookmark}.",
        _is_bookmarked,
        script.bookmark,
        after=(START,),
        at="home",
        actions=2,
        ends="results",
        touches=lambda slots: frozenset((f"bookmark:{slots['bookmark']}",)),
        tool=lambda slots: call(NAME, "bookmark_page", name=slots["bookmark"]),
        needs=("bookmark",),
    ),
    Subtask(
        "cancel",
        "Cancel the booking at {cancel}.",
        _is_cancelled,
        script.cancel,
        after=(START, "bookmark"),
        at="bookings",
        actions=2,
        touches=_whole("cancel"),
        tool=lambda slots: call(NAME, "cancel_booking", place=slots["cancel"]),
        needs=("cancel",),
    ),
    Subtask(
        "price",
        "How many euros does {price} cost?",
        _answered("price"),
        script.told("price"),
        after=_BEFORE,
        at="home",
        actions=3,
        ends="page",
        needs=("price",),
    ),
    Subtask(
        "phone",
        "Which phone number has {phone}?",
        _answered("phone"),
        script.told("phone"),
        after=_BEFORE,
        at="home",
        actions=3,
        ends="page",
        needs=("phone",),
    ),
    Subtask(
        "cheaper",
        "Which of the two is cheaper, {cheaper} or {other}? Answer with its name.",
        _answered("cheaper"),
        script.cheaper,
        after=_BEFORE,
        at="home",
        actions=5,
        ends="page",
        needs=("cheaper", "other"),
        notes=_costs,
    ),
    Subtask(
        "guest",
        "In the started booking, change the name to {form_name} and the mail address to {form_mail}",
        _has_guest,
        script.change("name", "mail"),
        after=_BEFORE,
        at="form",
        actions=2,
        touches=_guest_facts,
    ),
    Subtask(
        "option",
        "In the started booking, choose {form_option} and {form_count} as the number of persons.",
        _has_option,
        script.change("option", "count"),
        after=(START, "bookmark", "guest"),
        at="form",
        actions=2,
        touches=_option_facts,
    ),
    Subtask(
        "date",
        "In the started booking, change the date to {form_date}.",
        _has_date,
        script.change("date"),
        after=(START, "cancel", "guest", "option"),
        at="form",
        actions=3,
        touches=_date_facts,
        tool=_fill_in("date", "form_date"),
    ),
    Subtask(
        "pay",
        "In the started booking, choose to pay by {form_pay}.",
        _has_pay,
        script.change("pay"),
        after=(START, "option", "date"),
        at="form",
        actions=1,
        touches=_pay_facts,
        tool=_fill_in("pay", "form_pay"),
    ),
    Subtask(
        "extra",
        "In the started booking, add the extra {extra}.",
        lambda state, slots: slots["extra"] in _form(state, state["started"]).get("extras", ()),
        script.extra,
        after=(START, "pay", "date"),
        at="form",
        actions=1,
        touches=lambda slots: _facts(slots["started"], "extras"),
        tool=_fill_in("extras", "extra"),
    ),
    Subtask(
        "code",
        'Find the news "{offer}" and enter their code into the started booking.',
        lambda state, slots: _form(state, state["started"]).get("code", "").strip() == slots["code"],
        script.code,
        after=(START, "extra", "pay", "guest"),
        at="home",
        actions=4,
        ends="form",
        touches=lambda slots: _facts(slots["started"], "code"),
        needs=("offer",),
    ),
    Subtask(
        "remark",
        'In the started booking, write the remark "{form_remark}"',
        _has_remark,
        script.change("remark"),
        after=(START, "code", "pay", "option"),
        at="form",
        actions=1,
        touches=_remark_facts,
        tool=_fill_in("remark", "form_remark"),
    ),
    Subtask(
        "send",
        "Accept the terms of the started booking and send it.",
        lambda state, slots: _sent(state, slots["started"]),
        script.send,
        after=(START, *_FORM),
        at="form",
        actions=2,
        ends="bookings",
        touches=lambda slots: _facts(slots["started"], "terms") | {f"sent:{slots['started']}"},
    ),
    Subtask(
        "book",
        "Book {book} for {book_name} ({book_mail}): {book_option}, persons: {book_count}, on {book_date}, paid by "
        "{book_pay}.",
        _is_booked,
        script.book,
        after=_BEFORE,
        at="home",
        actions=13,
        ends="bookings",
        touches=_whole("book"),
        tool=lambda slots: call(
            NAME,
            "book",
            place=slots["book"],
            **{field: slots["booking"][field] for field in ("name", "mail", "option", "count", "date", "pay")},
        ),
        needs=("book",),
    ),
    Subtask(
        "search",
        "Search for {search}.",
        lambda state, slots: _listed(state, slots["search"], "All", ""),
        script.search,
        after=(*_BEFORE, "send", "remark"),
        at="home",
        actions=1,
        ends="results",
        lasting=False,
    ),
    Subtask(
        "tab",
        "Search for {tab_query} and show only the results under {tab}.",
        lambda state, slots: _listed(state, slots["tab_query"], slots["tab"], ""),
        script.tab,
        after=(*_BEFORE, "send"),
        at="home",
        actions=2,
        ends="results",
        lasting=False,
    ),
    Subtask(
        "region",
        "Search for {region_query} and show only the results in the region {region}.",
        lambda state, slots: _listed(state, slots["region_query"], "All", slots["region"]),
        script.region,
        after=(*_BEFORE, "send"),
        at="home",
        actions=2,
        ends="results",
        lasting=False,
    ),
    Subtask(
        "open",
        "Open the page of {open}.",
        _is_open,
        script.open_page,
        after=(*_BEFORE, "extra", "send", "book"),
        at="home",
        actions=2,
        ends="page",
        lasting=False,
        needs=("open",),
    ),
    Subtask(
        "missing",
        "Bookmark the page of {missing}.",
        lambda state, slots: False,
        script.missing,
        after=(START,),
        at="home",
        actions=1,
        feasible=False,
    ),
)


def _other(rng: random.Random, pool: tuple[str, ...], held: str) -> str:
    return rng.choice([value for value in pool if value != held])


def fill(rng: random.Random, path: tuple[str, ...], state: State) -> Slots:
    """Places that are neither booked nor being booked, and values that the started booking does not have yet."""
    taken = {state["started"], *(booking["id"] for booking in state["bookings"])}
    places = [page for page in state["pages"] if page["kind"] != "News" and page["id"] not in taken]
    rng.shuffle(places)
    one, two, three, four, five, *_ = places
    started = state["pages"][state["started"]]
    form = state["drafts"][str(started["id"])]
    name, booked = guest(rng), guest(rng)
    dates = [date(rng, (state["month"] + rng.randint(0, 2)) % 12) for _ in range(6)]
    free = next(text for text in dates if text != form["date"])
    booking = {
        **empty(), "name": booked, "mail": address(booked), "option": rng.choice(OPTIONS[five["kind"]][1]),
        "count": rng.choice(COUNTS), "date": dates[-1], "pay": rng.choice(PAYMENTS), "terms": True,
    }  # fmt: skip
    offer = rng.choice([page for page in state["pages"] if page["kind"] == "News"])
    used = {page["name"] for page in state["pages"]}
    options = OPTIONS[started["kind"]][1]
    return {
        "started": started["name"],
        "bookmark": one["name"],
        "price": two["name"], "price_answer": str(two["price"]),
        "phone": three["name"], "phone_answer": three["phone"],
        "cheaper": three["name"], "other": four["name"],
        "cheaper_answer": min(three, four, key=lambda page: page["price"])["name"],
        "cancel": state["pages"][rng.choice(state["bookings"])["id"]]["name"],
        "form_name": name, "form_mail": address(name),
        "form_option": _other(rng, options, form["option"]), "form_count": _other(rng, COUNTS, form["count"]),
        "form_date": free, "form_pay": _other(rng, PAYMENTS, form["pay"]),
        "form_remark": rng.choice(REMARKS), "extra": rng.choice(EXTRAS[started["kind"]]),
        "offer": offer["name"], "code": offer["code"],
        "book": five["name"], "booking": booking, **{f"book_{field}": value for field, value in booking.items()},
        "search": rng.choice((four["name"], *state["regions"])), "open": four["name"],
        "tab_query": rng.choice(state["regions"]), "tab": rng.choice(KINDS),
        "region_query": NOUN[rng.choice(KINDS[:3])], "region": rng.choice(state["regions"]),
        "missing": rng.choice([place for names in PLACES.values() for place in names if place not in used]),
    }  # fmt: skip


_PLACES = tuple(name for names in PLACES.values() for name in names)
POOLS = {
    **dict.fromkeys(("bookmark", "price", "phone", "cheaper", "other", "cancel", "book", "open"), _PLACES),
    "offer": tuple(f"{name} special offer" for name in _PLACES),
}
ENTITIES = (*(name for names in PLACES.values() for name in names), *CITIES, *MONTHS, str(YEAR))
