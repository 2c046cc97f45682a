"""What the tasks of the app `admin` are about: the facts that they change, the DAG of subtasks, the slots of a path."""

from __future__ import annotations

import random
from typing import Any

from ...virtual.app import START, Slots, State, Subtask
from ..web import CITIES, FIRST, LAST, address, call
from . import script
from .content import ITEMS, ROLES, STATUSES, TABLES
from .script import row_of

NAME = "admin"


def _export(keys: list[str]) -> str:
    return f"export:orders:{','.join(sorted(keys))}"


def outcome(state: State) -> dict[str, Any]:
    """What every cell of the three tables holds, and what was exported how often."""
    found: dict[str, Any] = {}
    for tab, rows in state["tables"].items():
        for row in rows:
            found |= {f"{tab}:{row[TABLES[tab].key]}:{field}": value for field, value in row.items()}
    for one in state["exports"]:
        key = f"export:{one['tab']}:{','.join(sorted(one['keys']))}"
        found[key] = found.get(key, 0) + 1
    return found


def _cell(tab: str, slot: str, field: str, value: str):
    """(checkpoint, touches) of a cell: the row that `slot` names holds the slot `value`."""

    def holds(state: State, slots: Slots) -> bool:
        row = row_of(state, tab, slots[slot])
        return row is not None and str(row[field]) == str(slots[value])

    return holds, lambda slots: frozenset((f"{tab}:{slots[slot]}:{field}",))


def _user_facts(slot: str):
    return lambda slots: frozenset(f"users:{slots[slot]}:{field}" for field in TABLES["users"].fields)


def _statuses(slot: str):
    return lambda slots: frozenset(f"orders:{number}:status" for number in slots[slot])


def _all_are(slot: str, value: str):
    def holds(state: State, slots: Slots) -> bool:
        rows = [row_of(state, "orders", number) for number in slots[slot]]
        return all(row is not None and row["status"] == slots[value] for row in rows)

    return holds


def _is_added(state: State, slots: Slots) -> bool:
    wanted = {"name": slots["add_name"], "mail": slots["add_mail"], "role": slots["add_role"], "city": ""}
    return row_of(state, "users", slots["add_name"]) == wanted


def _view(tab: str, state: State, **wanted: Any) -> bool:
    view = state["views"][tab]
    return state["at"]["page"] == tab and all(view[key] == value for key, value in wanted.items())


def _set(tab: str, slot: str, field: str, value: str):
    return lambda slots: call(NAME, "set_cell", table=tab, row=slots[slot], field=field, value=str(slots[value]))


_moved, _moved_facts = _cell("users", "move", "city", "move_city")
_promoted, _promoted_facts = _cell("users", "promote", "role", "promote_role")
_contacted, _contacted_facts = _cell("users", "contact_user", "role", "contact_role")
_counted, _counted_facts = _cell("stock", "count", "count", "count_value")
_priced, _priced_facts = _cell("stock", "price", "price", "price_value")
_restocked, _restocked_facts = _cell("stock", "cheapest", "count", "cheapest_count")

SUBTASKS = (
    Subtask(
        "move",
        "Change the city of the user {move} to {move_city}.",
        _moved,
        script.edit("users", "city", "move", "move_city"),
        after=(START,),
        at="users",
        actions=2,
        touches=_moved_facts,
        tool=_set("users", "move", "city", "move_city"),
        needs=("move",),
    ),
    Subtask(
        "add",
        "Add the user {add_name} with the mail address {add_mail} and the role {add_role}.",
        _is_added,
        script.add,
        after=(START, "move"),
        at="users",
        actions=5,
        touches=_user_facts("add_name"),
        tool=lambda slots: call(
            NAME, "add_user", name=slots["add_name"], mail=slots["add_mail"], role=slots["add_role"]
        ),
    ),
    Subtask(
        "promote",
        "Give the user {promote} the role {promote_role}.",
        _promoted,
        script.set_rows("users", lambda slots: [slots["promote"]], "promote_role"),
        after=(START, "move", "add"),
        at="users",
        actions=3,
        touches=_promoted_facts,
        tool=_set("users", "promote", "role", "promote_role"),
        needs=("promote",),
    ),
    Subtask(
        "delete",
        "Delete the user {delete}.",
        lambda state, slots: row_of(state, "users", slots["delete"]) is None,
        script.delete,
        after=(START, "add", "promote"),
        at="users",
        actions=4,
        touches=_user_facts("delete"),
        tool=lambda slots: call(NAME, "delete_row", table="users", row=slots["delete"]),
        needs=("delete",),
    ),
    Subtask(
        "contact",
        "Look up which customer placed the order {contact}, and give that user the role {contact_role}.",
        _contacted,
        script.contact,
        after=(START, "move", "promote"),
        at="orders",
        actions=5,
        ends="users",
        touches=_contacted_facts,
        needs=("contact",),
    ),
    Subtask(
        "count",
        "Set the count of the item {count} in the stock to {count_value}.",
        _counted,
        script.edit("stock", "count", "count", "count_value"),
        after=(START, "promote", "move"),
        at="stock",
        actions=2,
        touches=_counted_facts,
        tool=_set("stock", "count", "count", "count_value"),
        needs=("count",),
    ),
    Subtask(
        "price",
        "Change the price of the item {price} to {price_value} euros.",
        _priced,
        script.edit("stock", "price", "price", "price_value"),
        after=(START, "count"),
        at="stock",
        actions=2,
        touches=_priced_facts,
        tool=_set("stock", "price", "price", "price_value"),
        needs=("price",),
    ),
    Subtask(
        "cheapest",
        "Set the count of the cheapest item in the stock to {cheapest_count}.",
        _restocked,
        script.cheapest,
        after=(START, "count", "price"),
        at="stock",
        actions=2,
        touches=_restocked_facts,
    ),
    Subtask(
        "ship",
        "Set the status of the orders {ship_one} and {ship_two} to {ship_to}.",
        _all_are("ship", "ship_to"),
        script.set_rows("orders", lambda slots: [slots["ship_one"], slots["ship_two"]], "ship_to"),
        after=(START, "count", "cheapest"),
        at="orders",
        actions=5,
        touches=_statuses("ship"),
        needs=("ship_one", "ship_two"),
    ),
    Subtask(
        "bulk",
        "Set the status of all orders that are {bulk_from} to {bulk_to}.",
        _all_are("bulk", "bulk_to"),
        script.bulk,
        after=(START, "price", "ship"),
        at="orders",
        actions=3,
        touches=_statuses("bulk"),
        tool=lambda slots: call(NAME, "set_status", old_status=slots["bulk_from"], new_status=slots["bulk_to"]),
    ),
    Subtask(
        "export",
        "Export the orders that are {export}.",
        lambda state, slots: outcome(state).get(_export(slots["export_keys"])) == 1,
        script.export,
        after=(START, "delete", "ship", "bulk"),
        at="orders",
        actions=3,
        touches=lambda slots: frozenset((_export(slots["export_keys"]),)),
    ),
    Subtask(
        "total",
        "How many euros do the orders that are {total} amount to in total?",
        lambda state, slots: state["answer"].lower().removesuffix(" euros") == slots["total_answer"],
        script.total,
        after=(START, "delete", "price", "bulk"),
        at="orders",
        actions=3,
    ),
    Subtask(
        "live",
        "How many users live in {live}?",
        lambda state, slots: state["answer"] == slots["live_answer"],
        script.count,
        after=(START, "delete", "export", "move"),
        at="users",
        actions=2,
    ),
    Subtask(
        "sort",
        "Sort the orders by {sort}, the {sort_words} first.",
        lambda state, slots: _view("orders", state, sort={"field": slots["sort"], "dir": slots["sort_dir"]}),
        script.sort,
        after=(START, "ship", "bulk", "price"),
        at="orders",
        actions=2,
        lasting=False,
    ),
    Subtask(
        "filter",
        "Show only the orders that are {filter}.",
        lambda state, slots: _view("orders", state, filter=slots["filter"], query=""),
        script.filter_orders,
        after=(START, "sort", "count", "delete"),
        at="orders",
        actions=1,
        lasting=False,
    ),
    Subtask(
        "search",
        "Search the users for {search}.",
        lambda state, slots: _view("users", state, query=slots["search"], filter="All"),
        script.search,
        after=(START, "add", "cheapest", "contact", "export"),
        at="users",
        actions=1,
        lasting=False,
    ),
    Subtask(
        "page",
        "Go to page {page} of the stock.",
        lambda state, slots: _view("stock", state, page=slots["page"], query="", filter="All"),
        script.page,
        after=(START, "cheapest", "bulk", "contact"),
        at="stock",
        actions=1,
        lasting=False,
    ),
    Subtask(
        "missing",
        "Delete the user {missing}.",
        lambda state, slots: False,
        script.missing,
        after=(START,),
        at="users",
        actions=1,
        feasible=False,
    ),
)


def fill(rng: random.Random, path: tuple[str, ...], state: State) -> Slots:
    """Rows that no other subtask speaks of, and values that they do not have yet."""
    users, orders, stock = (state["tables"][tab] for tab in ("users", "orders", "stock"))
    by_status = {status: [row for row in orders if row["status"] == status] for status in STATUSES}
    start, middle, end, shipped, counted = rng.sample(STATUSES, 5)
    order = rng.choice(orders)
    customer = order["customer"]
    town = rng.choice(sorted({row["city"] for row in users}))
    others = [row for row in users if row["name"] != customer]
    rng.shuffle(others)
    away = sorted(others, key=lambda row: row["city"] == town)  # the town's own people are touched last
    move, delete, promote = away[:3]
    ship = [row["number"] for row in rng.sample(by_status[middle], 2)]
    cheapest, *rest = sorted(stock, key=lambda row: row["price"])
    one, two = rng.sample(rest, 2)
    taken = {word for row in users for word in row["name"].split()}
    firsts, lasts = (rng.sample([name for name in names if name not in taken], 2) for names in (FIRST, LAST))
    fresh, gone = (f"{first} {last}" for first, last in zip(firsts, lasts, strict=True))
    numbers = rng.sample(range(100, 400), 3)
    sort, (sort_dir, sort_words) = rng.choice(
        (("amount", ("asc", "smallest")), ("amount", ("desc", "largest")), ("number", ("desc", "last")))
    )
    others_of = [role for role in ROLES if role != promote["role"]]
    role = next(row["role"] for row in users if row["name"] == customer)
    return {
        "move": move["name"],
        "move_city": rng.choice([city for city in CITIES if city not in (move["city"], town)]),
        "add_name": fresh, "add_mail": address(fresh), "add_role": rng.choice(ROLES[:4]),
        "promote": promote["name"], "promote_role": rng.choice(others_of),
        "delete": delete["name"],
        "contact": order["number"], "contact_user": customer,
        "contact_role": rng.choice([name for name in ROLES if name != role]),
        "count": one["item"], "count_value": numbers[0],
        "price": two["item"], "price_value": numbers[1],
        "cheapest": cheapest["item"], "cheapest_count": numbers[2],
        "ship": ship, "ship_one": ship[0], "ship_two": ship[1], "ship_to": shipped,
        "bulk": [row["number"] for row in by_status[start]], "bulk_from": start, "bulk_to": end,
        "export": counted, "export_keys": [row["number"] for row in by_status[counted]],
        "total": counted, "total_answer": str(sum(row["amount"] for row in by_status[counted])),
        "live": town, "live_answer": str(sum(row["city"] == town for row in users)),
        "sort": sort, "sort_dir": sort_dir, "sort_words": sort_words,
        "filter": rng.choice(STATUSES), "search": rng.choice([row["city"] for row in users]),
        "page": rng.randint(2, -(-len(stock) // state["layout"]["size"])),
        "missing": gone,
    }  # fmt: skip


POOLS = {
    **dict.fromkeys(("move", "promote", "delete"), tuple(f"{first} {last}" for first in FIRST for last in LAST)),
    **dict.fromkeys(("count", "price"), ITEMS),
    **dict.fromkeys(("contact", "ship_one", "ship_two"), tuple(f"A{number}" for number in range(1000, 9200, 13))),
}
