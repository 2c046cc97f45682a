"""What the search engine of the app `search` finds: hotels, courses and tours with their facts, and news with codes."""

from __future__ import annotations

import random
from typing import Any

from ..web import CITIES, DAYS, MONTHS, address, people

YEAR = 2027
KINDS = ("Hotels", "Courses", "Tours", "News")
PLACES: dict[str, tuple[str, ...]] = {
    "Hotels": (
        "Hotel Aurora", "Harbour Inn", "Villa Serena", "The Green Door", "Hotel Meridian", "Old Mill Lodge",
        "Casa Blanca", "Hotel Saffron", "Riverside House", "The Blue Lantern",
    ),
    "Courses": (
        "Pottery Workshop", "Evening Spanish", "Bread School", "Watercolour Studio", "Guitar Academy", "Sailing Club",
        "Photo Lab", "Garden Design", "Chess Circle", "Swim Class",
    ),
    "Tours": (
        "Old Town Walk", "Night Market Tour", "Castle Tour", "River Cruise", "Bike Loop", "Food Trail",
        "Hidden Gardens", "Bell Tower Climb", "Street Art Walk", "Wine Cellar Visit",
    ),
}  # fmt: skip
NOUN = {"Hotels": "hotel", "Courses": "course", "Tours": "tour", "News": "news"}
ABOUT = {
    "Hotels": (
        "A quiet hotel near the old station in {city}.", "A small hotel with a roof garden in {city}.",
        "A family hotel by the park in {city}.",
    ),
    "Courses": (
        "A weekly course for beginners in {city}.", "A course in small groups in {city}.",
        "A weekend course with patient teachers in {city}.",
    ),
    "Tours": (
        "A guided tour of two hours through {city}.", "A tour in small groups around {city}.",
        "A relaxed tour for all ages in {city}.",
    ),
}  # fmt: skip
MORE = (
    "Guests praise the friendly staff.", "Bring comfortable shoes.", "Groups of more than ten should call first.",
    "There is a tram stop in front of the door.", "Everything is open all year round.", "Prices include all taxes.",
    "Children under six pay nothing.", "The next bakery is two minutes away.",
)  # fmt: skip
OPTIONS = {
    "Hotels": ("Room", ("Single", "Double", "Family", "Suite")),
    "Courses": ("Level", ("Beginner", "Middle", "Advanced", "Private")),
    "Tours": ("Language", ("English", "French", "German", "Spanish")),
}
EXTRAS = {
    "Hotels": ("Breakfast", "Parking", "Late checkout"),
    "Courses": ("Materials", "Certificate", "Lunch"),
    "Tours": ("Audio guide", "Pick-up", "Snacks"),
}
PAYMENTS = ("Card", "Invoice", "Cash")
COUNTS = ("1", "2", "3", "4", "5", "6")
REMARKS = (
    "We arrive late in the evening.", "Please call me the day before.", "One of us uses a wheelchair.",
    "We bring a small dog.", "I am allergic to nuts.",
)  # fmt: skip
WORDS = ("SPRING", "HAPPY", "RIVER", "EXTRA", "LUCKY", "WELCOME", "EARLY", "FRIEND")


def phone(rng: random.Random) -> str:
    """A phone number."""
    return f"0{rng.randint(20, 99)} {rng.randint(100, 999)} {rng.randint(100, 999)}"


def date(rng: random.Random, month: int) -> str:
    """A day of the month (0 to 11), as the forms write it: "14 May 2027"."""
    return f"{rng.randint(1, DAYS[month])} {MONTHS[month]} {YEAR}"


def month_of(text: str) -> int:
    """Month (0 to 11) of a date."""
    return MONTHS.index(text.split()[1])


def pages(rng: random.Random) -> list[dict[str, Any]]:
    """Four hotels, courses and tours each, in three towns, and three pieces of news, each with a code for one place."""
    towns = rng.sample(CITIES, 3)
    made: list[dict[str, Any]] = []
    prices = rng.sample(range(18, 320), 12)
    for kind, names in PLACES.items():
        for name in rng.sample(names, 4):
            city = rng.choice(towns)
            made.append({
                "kind": kind, "name": name, "city": city,
                "url": f"{name.lower().replace(' ', '-')}.example",
                "lines": [rng.choice(ABOUT[kind]).format(city=city), *rng.sample(MORE, 2)],
                "price": prices.pop(), "phone": phone(rng),
                "opens": f"{rng.randint(7, 11)}:{rng.choice(('00', '15', '30'))}",
                "code": "", "site": "",
            })  # fmt: skip
    for place in rng.sample(made, 3):
        name, code = f"{place['name']} special offer", f"{rng.choice(WORDS)}{rng.randint(10, 99)}"
        lines = [
            f"Good news for friends of {place['city']}.", f"{place['name']} gives a discount this season.",
            f"Enter the code {code} when you book.", rng.choice(MORE),
        ]  # fmt: skip
        made.append({
            "kind": "News", "name": name, "city": place["city"], "url": f"news.example/{place['url'].split('.')[0]}",
            "lines": lines, "price": 0, "phone": "", "opens": "", "code": code, "site": place["name"],
        })  # fmt: skip
    rng.shuffle(made)
    return [{"id": number, **page} for number, page in enumerate(made)]


def empty() -> dict[str, Any]:
    """A form of which nothing is filled in."""
    return {
        "name": "", "mail": "", "phone": "", "option": "", "count": "", "date": "", "pay": "", "extras": [], "code": "",
        "remark": "", "terms": False,
    }  # fmt: skip


def filled(rng: random.Random, kind: str, name: str, month: int) -> dict[str, Any]:
    """A form whose necessary fields are all filled in, but for the terms."""
    return {
        **empty(), "name": name, "mail": address(name), "option": rng.choice(OPTIONS[kind][1]),
        "count": rng.choice(COUNTS), "date": date(rng, month), "pay": rng.choice(PAYMENTS),
    }  # fmt: skip


def guest(rng: random.Random) -> str:
    """A person's name."""
    return people(rng, 1)[0]
