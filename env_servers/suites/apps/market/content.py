"""What the seed draws a shop's articles, orders and customers from."""

from __future__ import annotations

import random
from typing import Any

from ..web import CITIES, DAYS, MONTHS

GOODS: dict[str, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], tuple[int, int]]] = {
    "Kitchen": (
        ("Bread knife", "Cast iron pan", "Salad spinner", "Milk frother", "Spice rack", "Pepper mill", "Tea kettle",
         "Mixing bowls", "Oven gloves", "Cutting board"),
        ("Norfield", "Casarosa", "Bellini"),
        ("steel", "oak", "ceramic", "cast iron", "silicone"),
        (990, 7900),
    ),
    "Garden": (
        ("Watering can", "Garden hose", "Plant pots", "Pruning shears", "Bird feeder", "Leaf rake", "Seed tray",
         "Solar lamp", "Hand trowel", "Rain barrel"),
        ("Greenway", "Florastar", "Hedgerow"),
        ("zinc", "bamboo", "terracotta", "ash wood", "recycled plastic"),
        (690, 6900),
    ),
    "Sports": (
        ("Yoga mat", "Jump rope", "Climbing shoes", "Swim goggles", "Tennis racket", "Bike helmet", "Running belt",
         "Foam roller", "Water bottle", "Hiking poles"),
        ("Peakline", "Velona", "Trailhead"),
        ("cork", "carbon", "rubber", "nylon", "aluminium"),
        (1290, 12900),
    ),
    "Office": (
        ("Desk lamp", "Letter tray", "Wall calendar", "Fountain pen", "Paper shredder", "Note blocks", "Monitor stand",
         "Pencil case", "Desk pad", "Label printer"),
        ("Inkwell", "Papermill", "Lumen"),
        ("brass", "felt", "walnut", "leather", "steel mesh"),
        (590, 8900),
    ),
    "Toys": (
        ("Wooden train", "Marble run", "Kite", "Puzzle box", "Toy crane", "Doll house", "Magnet tiles", "Puppet set",
         "Spinning top", "Play tent"),
        ("Tumbly", "Brightbox", "Oakling"),
        ("beech", "cotton", "cardboard", "birch", "felt"),
        (790, 9900),
    ),
    "Audio": (
        ("Headphones", "Bookshelf speaker", "Record player", "Radio alarm", "Microphone", "Sound bar", "Earbuds",
         "Tuner", "Turntable mat", "Speaker stand"),
        ("Sonora", "Klangwerk", "Echo Bay"),
        ("aluminium", "maple", "glass fibre", "felt", "steel"),
        (1990, 19900),
    ),
}  # fmt: skip
"""Of each category: articles, brands, materials, prices in cents."""

CATEGORIES = tuple(GOODS)
ARTICLES = tuple(name for names, *_ in GOODS.values() for name in names)
BRANDS = tuple(brand for _, brands, *_ in GOODS.values() for brand in brands)
OPTIONS = (
    "Black", "White", "Blue", "Green", "Red", "Grey", "Yellow", "Sand", "Violet", "Copper", "Mint", "Navy", "Coral",
    "Olive",
)  # fmt: skip
DELIVERIES = (("Standard", 390), ("Express", 890), ("Pick-up", 0))
PAYMENTS = ("Card", "Invoice", "Transfer")
REASONS = ("It is broken", "It does not fit", "It is the wrong one", "I changed my mind")
COUPONS = (("SPRING10", 10), ("WELCOME15", 15), ("CLUB20", 20), ("AUTUMN12", 12), ("THANKYOU5", 5), ("FLASH25", 25))
"""Code, per cent off the articles."""
STREETS = (
    "Mill Street", "Harbour Road", "Castle Lane", "Linden Avenue", "Park Row", "Bridge Street", "Elm Street",
    "Queen Street", "Canal Walk", "Hill Road", "Orchard Way", "Market Place",
)  # fmt: skip
WORDS = (
    "Just as described", "Smaller than I thought", "Well made and sturdy", "The colour faded", "A fine present",
    "Too loud for me", "Came well packed", "One screw was missing", "I use it every day", "Good for the price",
)  # fmt: skip
ABOUT = (
    "Made to last and easy to clean.", "Tested by our team for a whole year.", "A favourite of our customers.",
    "Designed in a small workshop.", "Spare parts are kept for ten years.", "Packed without plastic.",
)  # fmt: skip
NUMBERS = tuple(f"M-{number}" for number in range(3000, 3400))
"""What an order may be called."""


def day(rng: random.Random) -> str:
    """ "14 May"."""
    month = rng.randrange(12)
    return f"{rng.randint(1, DAYS[month])} {MONTHS[month]}"


def street(rng: random.Random) -> str:
    """ "14 Mill Street"."""
    return f"{rng.randint(1, 98)} {rng.choice(STREETS)}"


def products(rng: random.Random) -> list[dict[str, Any]]:
    """Five articles of each category; no two prices of a category are alike, nor any two ratings of the shop close."""
    made: list[dict[str, Any]] = []
    colours = rng.sample(OPTIONS, 9)
    for category, (names, brands, materials, (low, high)) in GOODS.items():
        prices = rng.sample(range(low, high, 100), 5)
        for name, price in zip(rng.sample(names, 5), prices, strict=True):
            made.append({
                "name": name, "category": category, "brand": rng.choice(brands), "price": price,
                "rating": f"{rng.randint(31, 49) / 10:.1f}", "options": rng.sample(colours, rng.randint(2, 4)),
                "hue": rng.randrange(360), "text": " ".join(rng.sample(ABOUT, 2)),
                "facts": {
                    "Material": rng.choice(materials), "Weight": f"{rng.randint(2, 60) / 10:.1f} kg",
                    "Warranty": f"{rng.randint(1, 10)} years",
                },
                "reviews": [],
            })  # fmt: skip
    rng.shuffle(made)
    return made


def orders(rng: random.Random, goods: list[dict[str, Any]], profile: dict[str, str]) -> list[dict[str, Any]]:
    """Newest first: two being packed, one on its way, four delivered; every article is in one of them at most."""
    first = rng.randrange(3000, 3300)
    statuses = (*("Delivered",) * 4, *rng.sample(("Being packed", "Being packed", "On its way"), 3))
    pool = rng.sample(goods, 14)
    made = []
    for k, status in enumerate(statuses):
        bought = pool[2 * k : 2 * k + rng.choice((1, 2))]
        lines = [
            {"name": one["name"], "option": rng.choice(one["options"]), "count": rng.choice((1, 1, 2))}
            for one in bought
        ]
        made.append({
            "number": f"M-{first + 3 * k + rng.randrange(3)}", "date": day(rng), "status": status, "lines": lines,
            "name": profile["name"], "street": profile["street"], "city": profile["city"], "gift": False,
            "delivery": rng.choice(DELIVERIES)[0], "pay": rng.choice(PAYMENTS), "coupon": "", "returns": {},
            "new": False,
        })  # fmt: skip
    return made[::-1]


def profile(rng: random.Random, name: str, mail: str) -> dict[str, str]:
    """The customer's account."""
    return {"name": name, "street": street(rng), "city": rng.choice(CITIES), "mail": mail}
