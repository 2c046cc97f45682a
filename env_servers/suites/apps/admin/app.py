"""Admin, the back office of a shop: tables of users, orders and goods to sort, filter, search, edit, choose and export.

State JSON: layout {theme, brand, size (rows of a page), tools (order), columns {table: fields}} · tables {users [{name,
mail, city, role}], orders [{number, customer, item, amount, date, status}], stock [{item, shelf, price, count}]} ·
views {table: {query, filter, sort {field, dir} or null, page, chosen [keys]}} · at (the table) · past · scroll · typed
(in the search box) · form {name, mail, role, city} of a new user · exports [{tab, keys}] · dialog · toast · answer.
"""

from __future__ import annotations

import random

from ...virtual.app import State, ToolSpec, generator
from ...virtual.words import yes
from ..web import CITIES, FIRST, LAST, WEB, address, layout, people
from .content import ITEMS, ROLES, SHELVES, STATUSES, TABLES, tables
from .script import filtered
from .tasks import NAME, POOLS, SUBTASKS, fill, outcome

BRANDS = ("Backroom", "Shopdesk", "Ledger", "Stockpilot", "Orderly")


# --- states ----------------------------------------------------------------------------------------------------------
def _columns(rng: random.Random, tab: str) -> list[str]:
    """The key first, the other fields in any order."""
    key, *others = TABLES[tab].fields
    return [key, *rng.sample(others, len(others))]


def _content(rng: random.Random) -> State:
    look = layout(rng, brand=BRANDS, size=(7, 8, 9))
    look["tools"] = rng.sample(("search", "filter", "buttons"), 3)
    look["columns"] = {tab: _columns(rng, tab) for tab in TABLES}
    return {
        "layout": look, "tables": tables(rng),
        "views": {tab: {"query": "", "filter": "All", "sort": None, "page": 1, "chosen": []} for tab in TABLES},
        "at": {"page": "orders"}, "past": [], "scroll": 0, "typed": "", "form": None, "exports": [],
        "dialog": None, "toast": "", "answer": "",
    }  # fmt: skip


def initial(seed: int) -> State:
    """The orders' first page, unsorted and unfiltered."""
    return _content(generator(NAME, "initial", seed))


def sample_state(seed: int) -> State:
    """Any screen of the app: tables sorted, filtered and searched, rows chosen, the form of a new user, dialogs."""
    rng = generator(NAME, "sample", seed)
    state = _content(rng)
    tab = rng.choice(sorted(TABLES))
    state["at"]["page"] = tab
    view, rows = state["views"][tab], state["tables"][tab]
    key, field = TABLES[tab].key, TABLES[tab].choice
    match rng.choice(("plain", "filter", "search", "page")):
        case "filter":
            view["filter"] = rng.choice(rows)[field]
        case "search":
            view["query"] = state["typed"] = rng.choice(rows)[key].split()[0]
        case "page":
            view["page"] = rng.randint(1, -(-len(rows) // state["layout"]["size"]))
    if rng.random() < 0.5:
        view["sort"] = {"field": rng.choice(TABLES[tab].fields), "dir": rng.choice(("asc", "desc"))}
    if rng.random() < 0.4:
        left = [row[key] for row in filtered(state, tab)]
        view["chosen"] = sorted(rng.sample(left, rng.randint(1, min(3, len(left)))))
    if tab == "users" and rng.random() < 0.4:
        name = rng.choice(("", people(rng, 1)[0]))
        state["form"] = {
            "name": name,
            "mail": address(name) if name else "",
            "role": rng.choice(("", *ROLES)),
            "city": "",
        }
        if not name and rng.random() < 0.5:
            text = "The user needs a name."
            state["dialog"] = {"icon": "error", "title": "Not added", "text": text, "ok": "OK", "then": ""}
    return state


def screen_facts(state: State) -> list[tuple[str, str]]:
    """Questions that the present screen answers."""
    tab = state["at"]["page"]
    view = state["views"][tab]
    if state["form"]:
        return [("Which role is chosen?", state["form"]["role"] or "none")]
    rows = filtered(state, tab)
    found = [
        ("Which table is open?", tab),
        ("How many rows are listed?", str(len(rows))),
        ("How many rows are chosen?", str(len(view["chosen"]))),
        ("Which filter is set?", view["filter"]),
        ("Is the table sorted?", yes(view["sort"] is not None)),
    ]
    if len(rows) <= state["layout"]["size"]:
        field = TABLES[tab].choice
        found += [(f"What is the {field} of {row[TABLES[tab].key]}?", row[field]) for row in rows[:3]]
    return found


_TABLE = {"type": "string", "enum": sorted(TABLES)}
_KEY = {"type": "string", "description": "name of the user, number of the order or name of the item"}
_TEXT = {"type": "string", "description": "text"}
_STATUS = {"type": "string", "enum": list(STATUSES)}

TOOLS = (
    ToolSpec.of(f"{NAME}.set_cell", "Change a cell.", {"table": _TABLE, "row": _KEY, "field": _TEXT, "value": _TEXT}),
    ToolSpec.of(f"{NAME}.add_user", "Add a user.", {"name": _TEXT, "mail": _TEXT, "role": _TEXT}),
    ToolSpec.of(f"{NAME}.delete_row", "Delete a row.", {"table": _TABLE, "row": _KEY}),
    ToolSpec.of(
        f"{NAME}.set_status",
        "Change the status of all orders of one status.",
        {"old_status": _STATUS, "new_status": _STATUS},
    ),
    ToolSpec.of(f"{NAME}.find_rows", "Rows that hold a text.", {"table": _TABLE, "text": _TEXT}),
)

_FIELDS = sorted({field for table in TABLES.values() for field in table.fields})
NAMES = (
    *(f"{tab} tab" for tab in TABLES), *(f"{field} header" for field in _FIELDS), "all rows box",
    *(f"{part} box" for part in ("search", "name", "mail", "city")),
    *(f"{part} list" for part in ("filter", "set", "role")),
    *("reset", "add", "export", "delete", "clear", "save", "cancel", "Download", "Close", "Yes, delete", "Keep", "OK"),
    *("first page", "previous page", "next page", "last page"), *(f"page {number}" for number in range(1, 6)),
)  # fmt: skip

APP = WEB.app(
    NAME,
    ("tabulator-tables", "sweetalert2"),
    subtasks=SUBTASKS,
    tools=TOOLS,
    initial=initial,
    sample_state=sample_state,
    facts=screen_facts,
    fill=fill,
    outcome=outcome,
    home="orders",
    names=(*NAMES, *ITEMS, *ROLES, *STATUSES, *SHELVES, *CITIES, *FIRST, *LAST),
    pools=POOLS,
    most_actions=16,
)
