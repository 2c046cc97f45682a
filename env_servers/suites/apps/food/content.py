"""What the seed draws restaurants, their menus, addresses and orders from."""

from __future__ import annotations

import random
from typing import Any

MENUS: dict[str, tuple[tuple[str, ...], dict[str, tuple[str, ...]], tuple[str, ...]]] = {
    "Pizza": (
        ("Pizza Nova", "Forno Rosso", "Mamma Lina", "Slice Yard"),
        {
            "Starters": ("Garlic bread", "Bruschetta", "Caprese", "Olives"),
            "Mains": ("Margherita", "Marinara", "Quattro formaggi", "Diavola", "Calzone", "Ortolana"),
            "Desserts": ("Tiramisu", "Panna cotta"),
        },
        ("Extra mozzarella", "Rocket", "Anchovies", "Chili oil"),
    ),
    "Sushi": (
        ("Sakura Bar", "Umi House", "Blue Tuna", "Kyoto Corner"),
        {
            "Starters": ("Miso soup", "Edamame", "Gyoza", "Seaweed salad"),
            "Mains": ("Salmon nigiri", "Tuna maki", "Rainbow roll", "Avocado maki", "Chirashi bowl", "Eel roll"),
            "Desserts": ("Mochi", "Matcha cake"),
        },
        ("Wasabi", "Pickled ginger", "Spicy mayo", "Sesame"),
    ),
    "Burgers": (
        ("Burger Barn", "Smash Club", "Patty Hill", "Iron Grill"),
        {
            "Starters": ("Onion rings", "Coleslaw", "Sweet potato fries", "Chicken wings"),
            "Mains": ("Classic burger", "Cheeseburger", "Bacon burger", "Veggie burger", "Fish burger", "Double smash"),
            "Desserts": ("Brownie", "Vanilla shake"),
        },
        ("Jalapenos", "Fried egg", "Pickles", "Blue cheese"),
    ),
    "Curry": (
        ("Bombay Kitchen", "Tandoor Hall", "Spice Route", "Green Mango"),
        {
            "Starters": ("Samosa", "Onion bhaji", "Papadam", "Raita"),
            "Mains": ("Butter chicken", "Palak paneer", "Lamb korma", "Chana masala", "Prawn curry", "Dal makhani"),
            "Desserts": ("Kheer", "Mango lassi"),
        },
        ("Naan", "Basmati rice", "Mango chutney", "Fresh coriander"),
    ),
    "Noodles": (
        ("Wok Express", "Ramen Den", "Lucky Bowl", "Hanoi Street"),
        {
            "Starters": ("Spring rolls", "Papaya salad", "Wonton soup", "Steamed buns"),
            "Mains": ("Pad thai", "Shoyu ramen", "Beef pho", "Dan dan noodles", "Udon soup", "Singapore noodles"),
            "Desserts": ("Coconut rice", "Lychee jelly"),
        },
        ("Tofu", "Soft egg", "Bean sprouts", "Peanuts"),
    ),
    "Salads": (
        ("Leaf and Seed", "Garden Box", "Fresh Fork", "The Green Hour"),
        {
            "Starters": ("Tomato soup", "Hummus", "Pea soup", "Stuffed peppers"),
            "Mains": ("Caesar salad", "Greek salad", "Quinoa bowl", "Lentil salad", "Falafel bowl", "Beet salad"),
            "Desserts": ("Fruit salad", "Chia pudding"),
        },
        ("Feta", "Croutons", "Grilled chicken", "Pumpkin seeds"),
    ),
    "Tacos": (
        ("Casa Verde", "El Camino", "Taco Loco", "La Cantina"),
        {
            "Starters": ("Nachos", "Guacamole", "Corn soup", "Quesadilla"),
            "Mains": ("Beef tacos", "Fish tacos", "Chicken burrito", "Bean burrito", "Enchiladas", "Fajitas"),
            "Desserts": ("Churros", "Flan"),
        },
        ("Sour cream", "Salsa verde", "Cheddar", "Black beans"),
    ),
    "Bakery": (
        ("Golden Crust", "Butter Lane", "Morning Loaf", "Petit Four"),
        {
            "Starters": ("Croissant", "Pretzel", "Cheese scone", "Onion tart"),
            "Mains": ("Ham baguette", "Egg sandwich", "Spinach quiche", "Tuna toast", "Leek pie", "Brie sandwich"),
            "Desserts": ("Carrot cake", "Lemon tart"),
        },
        ("Mustard", "Salted butter", "Cress", "Sun-dried tomatoes"),
    ),
}
"""Of each kind: restaurants, dishes by section, extras."""

SIZES = (("Small", -150), ("Regular", 0), ("Large", 250))
"""Of a main course: name, cents more than the price."""
STREETS = (
    "Mill Street", "Harbour Road", "Castle Lane", "Linden Avenue", "Park Row", "Bridge Street", "Elm Street",
    "Queen Street", "Canal Walk", "Hill Road", "Orchard Way", "Market Place",
)  # fmt: skip
LABELS = ("Home", "Work", "Parents", "Studio", "Gym", "Holiday flat", "Library", "Clinic", "School", "Garage")
CARDS = ("Visa 4821", "Mastercard 7730", "Amex 1009", "Visa 6654", "Gift balance", "Company account", "Cash")
COURIERS = ("Amina", "Boris", "Chen", "Dora", "Emil", "Farida", "Goran", "Hana", "Ivan", "Jonas", "Karin", "Luis")
SLOTS = ("12:00", "12:30", "13:15", "18:00", "18:45", "19:30", "20:15", "21:00")
CODES = (("TASTY10", 10), ("LUNCH15", 15), ("HELLO20", 20), ("SUNNY25", 25), ("FRIEND30", 30), ("SPICE12", 12))
"""Vouchers: code, per cent off the dishes."""
WORDS = (
    "Hot and on time", "Cold when it came", "Great portion size", "One dish was missing", "Best in town",
    "Too salty for us", "Friendly courier", "We will order again", "The box had leaked", "Very fresh",
)  # fmt: skip
TIPS = (1, 2, 3, 5)
KINDS = tuple(MENUS)
NAMES = tuple(name for names, _, _ in MENUS.values() for name in names)
DISHES = tuple(dish for _, sections, _ in MENUS.values() for dishes in sections.values() for dish in dishes)
EXTRAS = tuple(extra for _, _, extras in MENUS.values() for extra in extras)

_PRICES = {"Starters": (350, 690), "Mains": (850, 1690), "Desserts": (390, 650)}


def restaurants(rng: random.Random, count: int) -> list[dict[str, Any]]:
    """`count` restaurants with menus, two at most of a kind."""
    picked = [(kind, name) for kind in KINDS for name in rng.sample(MENUS[kind][0], 2)]
    fees = rng.sample(range(90, 90 + 20 * count, 20), count)  # no two alike, so that the lowest is one
    made = []
    for (kind, name), fee in zip(rng.sample(picked, count), fees, strict=True):
        _, sections, extras = MENUS[kind]
        menu = []
        for section, dishes in sections.items():
            low, high = _PRICES[section]
            chosen = rng.sample(dishes, 4) if section == "Mains" else rng.sample(dishes, 2)
            rows = [
                {"name": dish, "price": rng.randrange(low, high, 10), "sized": section == "Mains"} for dish in chosen
            ]
            menu.append({"section": section, "dishes": rows})
        added = [[extra, rng.randrange(50, 190, 10)] for extra in rng.sample(extras, 3)]
        about = {"rating": f"{rng.randint(36, 49) / 10:.1f}", "mins": rng.randrange(15, 60, 5), "fee": fee}
        made.append({"name": name, "kind": kind, **about, "hue": rng.randrange(360), "menu": menu, "extras": added})
    return made
