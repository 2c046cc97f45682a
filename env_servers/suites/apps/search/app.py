"""Search, a search engine with the pages that it finds, bookmarks, and long booking forms with checks before sending.

State JSON: layout {theme, brand, form, banner} · pages [{id, kind, name, city, url, lines, price, phone, opens, code,
site}] · regions, popular [words] · month (0 to 11, where an empty calendar opens) · at (the place) · past · scroll ·
query, typed (in the search box), tab, region · visited, bookmarks [ids] · drafts {id: form} · started (id of the draft
that the header names) · bookings [form with id, number] · picker (month of the open calendar, -1 = closed) · wrong
(field marked red) · dialog · toast · answer. A form: {name, mail, phone, option, count, date, pay, extras, code,
remark, terms}.
"""

from __future__ import annotations

import random

from ...virtual.app import State, ToolSpec, generator
from ...virtual.words import yes
from ..web import DAYS, WEB, layout, people
from .content import COUNTS, EXTRAS, KINDS, OPTIONS, PAYMENTS, empty, filled, pages
from .script import results
from .tasks import ENTITIES, NAME, POOLS, SUBTASKS, fill, outcome

BRANDS = ("Findly", "Seekr", "Lumen", "Questo", "Wander", "Trovare")


# --- states ----------------------------------------------------------------------------------------------------------
def _content(rng: random.Random) -> State:
    found, month = pages(rng), rng.randrange(12)
    booked = rng.sample([page for page in found if page["kind"] != "News"], 3)
    names = people(rng, 3)
    forms = [
        filled(rng, page["kind"], name, (month + rng.randint(0, 2)) % 12)
        for page, name in zip(booked, names, strict=True)
    ]
    return {
        "layout": layout(rng, brand=BRANDS, form=("plain", "wide", "labels"), banner=(0, 1, 2)),
        "pages": found, "regions": sorted({page["city"] for page in found}),
        "popular": sorted({page["city"] for page in found})[:2] + [rng.choice(("hotel", "course", "tour"))],
        "month": month, "at": {"page": "home"}, "past": [], "scroll": 0,
        "query": "", "typed": "", "tab": "All", "region": "", "visited": [], "bookmarks": [],
        "drafts": {str(booked[0]["id"]): forms[0]}, "started": booked[0]["id"],
        "bookings": [
            {**form, "terms": True, "id": page["id"], "number": f"R{rng.randint(1000, 3999)}"}
            for page, form in zip(booked[1:], forms[1:], strict=True)
        ],
        "picker": -1, "wrong": "", "dialog": None, "toast": "", "answer": "",
    }  # fmt: skip


def initial(seed: int) -> State:
    """The engine's first page; one booking is begun and two are sent."""
    return _content(generator(NAME, "initial", seed))


def sample_state(seed: int) -> State:
    """Any screen of the app: results, pages, forms in all stages, calendars, dialogs, bookings."""
    rng = generator(NAME, "sample", seed)
    state = _content(rng)
    page = rng.choice(state["pages"])
    state["visited"] = sorted(rng.sample(range(len(state["pages"])), rng.randint(0, 5)))
    state["bookmarks"] = sorted(rng.sample(range(len(state["pages"])), rng.randint(0, 3)))
    match rng.choice(("home", "results", "results", "page", "page", "form", "form", "form", "bookings", "bookmarks")):
        case "home":
            state["typed"] = rng.choice(("", page["name"], page["city"]))
        case "results":
            query = rng.choice((page["city"], page["name"], "hotel", "course", "tour"))
            state |= {"at": {"page": "results"}, "query": query, "typed": query}
            state["tab"], state["region"] = rng.choice(("All", "All", *KINDS)), rng.choice(("", "", *state["regions"]))
        case "page":
            state["at"] = {"page": "page", "id": page["id"]}
        case "form":
            _sample_form(rng, state)
        case "bookings":
            state["at"] = {"page": "bookings"}
            if rng.random() < 0.3:
                booking = state["bookings"][0]
                name = state["pages"][booking["id"]]["name"]
                state["dialog"] = {
                    "icon": "warning", "title": "Cancel this booking?", "text": f"{name}, {booking['date']}",
                    "ok": "Yes, cancel it", "cancel": "Keep it", "then": name,
                }  # fmt: skip
        case "bookmarks":
            state["at"] = {"page": "bookmarks"}
    return state


def _sample_form(rng: random.Random, state: State) -> None:
    number = state["started"]
    form, kind = state["drafts"][str(number)], state["pages"][number]["kind"]
    state["at"] = {"page": "form", "id": number}
    for field in rng.sample(("name", "mail", "option", "count", "date", "pay"), rng.randint(0, 3)):
        form[field] = empty()[field]
    form["extras"] = sorted(rng.sample(EXTRAS[kind], rng.randint(0, 2)))
    form["terms"] = rng.random() < 0.3
    if rng.random() < 0.3:
        state["picker"] = rng.randrange(12)
    elif rng.random() < 0.25 and not form["name"]:
        text = "Please enter your name."
        state |= {"wrong": "name"}
        state["dialog"] = {"icon": "error", "title": "Something is missing", "text": text, "ok": "OK", "then": ""}


def screen_facts(state: State) -> list[tuple[str, str]]:
    """Questions that the present screen answers."""
    at = state["at"]
    match at["page"]:
        case "results":
            return [
                ("How many results are there?", str(len(results(state)))),
                ("Which tab is chosen?", state["tab"]),
                ("What was searched for?", state["query"]),
            ]
        case "page":
            page = state["pages"][at["id"]]
            marked = ("Is this page bookmarked?", yes(page["id"] in state["bookmarks"]))
            if page["kind"] == "News":
                return [("Which code is given?", page["code"]), marked]
            return [
                ("How many euros does it cost?", str(page["price"])), ("When does it open?", page["opens"]),
                ("What is the phone number?", page["phone"]), marked,
            ]  # fmt: skip
        case "form":
            form = state["drafts"][str(at["id"])]
            found = [
                ("Which name is entered?", form["name"] or "none"),
                ("Are the terms accepted?", yes(form["terms"])),
            ]
            if state["picker"] >= 0:
                found.append(("How many days has the month shown?", str(DAYS[state["picker"]])))
            return found
        case "bookings":
            pages_ = state["pages"]
            return [
                (f"For how many persons is {pages_[one['id']]['name']} booked?", one["count"])
                for one in state["bookings"]
            ]
        case "bookmarks":
            return [("How many pages are bookmarked?", str(len(state["bookmarks"])))]
    return [("What is in the search box?", state["typed"] or "nothing")]


_NAME, _TEXT = {"type": "string", "description": "name of a page"}, {"type": "string", "description": "text"}
_FIELD = {
    "type": "string",
    "enum": ["name", "mail", "phone", "option", "count", "date", "pay", "extras", "code", "remark"],
}
_BOOKING = {field: _TEXT for field in ("name", "mail", "option", "count", "date", "pay")}

TOOLS = (
    ToolSpec.of(f"{NAME}.find_pages", "Search; the names of the pages found.", {"query": _TEXT}),
    ToolSpec.of(f"{NAME}.read_page", "Text and facts of a page.", {"name": _NAME}),
    ToolSpec.of(f"{NAME}.bookmark_page", "Bookmark a page.", {"name": _NAME}),
    ToolSpec.of(f"{NAME}.fill_field", "Fill in a field of the started booking.", {"field": _FIELD, "value": _TEXT}),
    ToolSpec.of(f"{NAME}.book", "Book a place; a date is like 14 May 2027.", {"place": _NAME, **_BOOKING}),
    ToolSpec.of(f"{NAME}.cancel_booking", "Cancel a booking.", {"place": _NAME}),
)

NAMES = (
    *(f"{part} box" for part in ("search", "name", "mail", "phone", "date", "code", "remark", "terms")),
    *(f"{part} list" for part in ("option", "persons", "region")), *(f"{tab} tab" for tab in ("All", *KINDS)),
    *(f"{name} button" for name in PAYMENTS), *(f"{name} box" for names in EXTRAS.values() for name in names),
    *(f"day {number}" for number in range(1, 32)), "previous month", "next month", "search", "home", "bookmarks",
    *("bookings", "started booking", "book", "bookmark", "send", "page", "OK", "Keep it", "Yes, cancel it"),
)  # fmt: skip

APP = WEB.app(
    NAME,
    ("sweetalert2",),
    subtasks=SUBTASKS,
    tools=TOOLS,
    initial=initial,
    sample_state=sample_state,
    facts=screen_facts,
    fill=fill,
    outcome=outcome,
    home="home",
    names=(*NAMES, *ENTITIES, *COUNTS, *(name for _, names in OPTIONS.values() for name in names)),
    pools=POOLS,
    most_actions=16,
)
