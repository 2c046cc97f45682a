"""The users, orders and goods of the app `admin`, and what its tables look like."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from ..web import CITIES, MONTHS, address, people

ROLES = ("Reader", "Editor", "Manager", "Admin", "Blocked")
STATUSES = ("New", "Paid", "Packed", "Shipped", "Returned")
SHELVES = ("A1", "A2", "B1", "B2", "C1", "C2")
ITEMS = (
    "Desk lamp", "Wool scarf", "Tea kettle", "Oak stool", "Bread knife", "Wall clock", "Bath towel", "Garden hose",
    "Rain coat", "Bike bell", "Sketch book", "Glass jar", "Door mat", "Hand soap", "Floor brush", "Cork board",
    "Paper tray", "Steel ruler", "Flower pot", "Salt mill", "Yoga block", "Picnic rug", "Candle set", "Travel mug",
    "Kitchen scale", "Tool box",
)  # fmt: skip


@dataclass(frozen=True)
class Table:
    """key: the field that names a row. choice: the field that is filtered and set in bulk, options: its values.
    edited: fields that are edited in their cell. fields: all, in the order of the initial columns."""

    key: str
    choice: str
    options: tuple[str, ...]
    edited: tuple[str, ...]
    fields: tuple[str, ...]


TABLES = {
    "users": Table("name", "role", ROLES, ("city",), ("name", "mail", "city", "role")),
    "orders": Table("number", "status", STATUSES, (), ("number", "customer", "item", "amount", "date", "status")),
    "stock": Table("item", "shelf", SHELVES, ("price", "count"), ("item", "shelf", "price", "count")),
}


def tables(rng: random.Random) -> dict[str, list[dict[str, Any]]]:
    """Twenty users, twenty-five orders of theirs (five of each status) and twenty goods; no price or amount twice."""
    names, items = people(rng, 20), rng.sample(ITEMS, 20)
    towns = rng.sample(CITIES, 6)
    users = [
        {"name": name, "mail": address(name), "city": rng.choice(towns), "role": rng.choice(ROLES[:3])}
        for name in names
    ]
    prices, amounts = rng.sample(range(4, 120), 20), rng.sample(range(15, 600), 25)
    stock = [
        {"item": item, "shelf": rng.choice(SHELVES), "price": price, "count": rng.randint(0, 90)}
        for item, price in zip(items, prices, strict=True)
    ]
    statuses, first = list(STATUSES) * 5, rng.randint(1000, 9000)
    rng.shuffle(statuses)
    orders = [
        {
            "number": f"A{first + 7 * k}", "customer": rng.choice(names), "item": rng.choice(items), "amount": amount,
            "date": f"{rng.randint(1, 28)} {rng.choice(MONTHS)[:3]}", "status": status,
        }
        for k, (amount, status) in enumerate(zip(amounts, statuses, strict=True))
    ]  # fmt: skip
    return {"users": users, "orders": orders, "stock": stock}
