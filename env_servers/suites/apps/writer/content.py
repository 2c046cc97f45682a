"""What the writer's documents say: five kinds of documents, filled with people, places, dates and amounts."""

from __future__ import annotations

import random
from typing import Any

from ..office import CITIES, day, person

Line = dict[str, Any]

TYPOS = {
    "recieve": "receive", "adress": "address", "tommorow": "tomorrow", "definately": "definitely", "wich": "which",
    "seperate": "separate", "untill": "until", "begining": "beginning", "goverment": "government",
    "wellcome": "welcome", "neccessary": "necessary", "calender": "calendar",
}  # fmt: skip
"""Misspelled words and what they should be; every document holds one of them."""

WRONG = {
    "recieve": "Everybody will recieve the papers a week ahead.",
    "adress": "Letters go to the old adress near the station.",
    "tommorow": "The printed copies arrive tommorow at noon.",
    "definately": "The smaller room is definately too cold in winter.",
    "wich": "We compared the offers, wich took most of the morning.",
    "seperate": "Guests get a seperate entrance on the north side.",
    "untill": "The desk stays open untill seven on weekdays.",
    "begining": "From the begining it was planned as a pilot.",
    "goverment": "The form from the goverment is already signed.",
    "wellcome": "New members are wellcome at any time.",
    "neccessary": "A second visit may become neccessary in spring.",
    "calender": "All dates are also in the shared calender online.",
}

SENTENCES = (
    "The garden behind the hall can hold forty visitors when the weather is mild.",
    "Breakfast is served between seven and nine, with coffee from the bakery across the street.",
    "A short survey showed that most people prefer the morning sessions.",
    "Our supplier promised to deliver the wooden shelves before the holidays.",
    "Please bring comfortable shoes, because the path along the river is steep.",
    "The museum offers a guided walk for schools on every second Monday.",
    "Costs for electricity went up by a tenth compared with last year.",
    "Volunteers repaired the roof and painted the kitchen in bright yellow.",
    "The orchestra rehearses twice before the concert and needs extra chairs.",
    "A new lamp for the reading corner was ordered from a local workshop.",
    "Parking is limited, so sharing a car with neighbours is a good idea.",
    "The committee thanked the interns for their patient help with the archive.",
    "Fresh fruit and water will be ready near the main entrance.",
    "Two of the old computers were replaced, and the printer got a quiet cabinet.",
    "Last summer the lake was warm enough for swimming until late September.",
    "The translation is nearly finished and only lacks the final chapter.",
)

KINDS: dict[str, tuple[tuple[str, ...], str, tuple[str, ...]]] = {
    "Minutes": (
        ("Library club minutes", "Choir board minutes", "Harbour team minutes", "Tenants meeting minutes"),
        "Topics on the agenda:",
        ("Report of the treasurer", "Election of a secretary", "Repairs in the cellar", "Summer festival plans",
         "Letters from members", "Opening hours in winter"),
    ),
    "Trip": (
        ("Autumn trip plan", "School excursion plan", "Cycling tour plan", "Family weekend plan"),
        "Things to pack:",
        ("Rain jacket", "Water bottle", "Folding map", "First aid kit", "Warm blanket", "Spare batteries"),
    ),
    "Report": (
        ("Quarterly sales report", "Customer survey report", "Energy audit report", "Safety inspection report"),
        "Main results:",
        ("More visitors on weekends", "Fewer broken parcels", "Faster answers by phone", "Lower heating bills",
         "Better reviews online", "Longer waiting lists"),
    ),
    "Recipe": (
        ("Lentil soup for twelve", "Apple cake for the fair", "Vegetable curry for guests", "Bread for the market"),
        "Ingredients:",
        ("Two large onions", "Fresh parsley", "Half a lemon", "Olive oil", "Black pepper", "Three carrots"),
    ),
    "Letter": (
        ("Letter to the landlord", "Letter to the sponsors", "Invitation to the opening", "Letter to the new tenants"),
        "Points to settle:",
        ("Keys for the gate", "Quiet hours at night", "Bicycles in the yard", "Names on the doorbell",
         "Cleaning of the stairs", "Storage in the attic"),
    ),
}  # fmt: skip

FOOTERS = ("Draft", "Internal use only", "Printed on recycled paper", "Page 1", "Not for publication", "Second edition")
COMMENTS = (
    "Is this still right?", "Please check the numbers.", "Nice sentence!", "Needs a source.", "Shorten this part.",
    "Ask the lawyer first.", "Agreed.", "Move this to the end.", "Who wrote this?",
)  # fmt: skip
APPENDED = (
    "Thank you for reading.", "More news will follow soon.", "Copies are kept in the office.", "All are invited.",
    "Please answer by Friday.", "The next draft is due in a week.",
)  # fmt: skip
TITLES = (
    "Final version", "Notes for Monday", "Archive copy", "Plan B", "Shared draft", "To be printed", "Open questions",
    "Winter edition", "Board papers", "Reading list",
)  # fmt: skip


def line(text: str, style: str = "normal", align: str = "left", marks: list[list[Any]] | None = None) -> Line:
    return {"text": text, "style": style, "align": align, "marks": marks or []}


def document(rng: random.Random, number: int, kind: str, name: str) -> dict[str, Any]:
    """A document: title, place and day, some sentences, items under a line with a colon, contact, deadline, budget."""
    _, lead, items = KINDS[kind]
    city = rng.choice(CITIES)
    wrong = rng.choice(sorted(WRONG))
    body = rng.sample(SENTENCES, 6)
    chosen = rng.sample(items, rng.choice((3, 4)))
    facts = [
        f"Contact: {person(rng)}.",
        f"Deadline: {day(rng)}.",
        f"Budget: {rng.randint(12, 98) * 50} euros.",
    ]
    rng.shuffle(facts)
    lines = [
        line(name),
        line(f"Written in {city} on {day(rng)}."),
        *map(line, body[:2]),
        line(lead, rng.choice(("normal", "heading 2"))),
        *map(line, chosen),
        line(WRONG[wrong]),
        *map(line, body[2:4]),
        line(f"Everyone who comes to {city} by train gets a ticket.")
        if rng.random() < 0.7
        else line(f"Back to {city}."),
        *map(line, facts),
        *map(line, body[4:]),
    ]
    marked = rng.choice((2, 3))
    first = lines[marked]["text"].index(" ")
    lines[marked]["marks"] = [[0, first, rng.choice(("bold", "italic", "underline"))]]
    return {
        "id": f"d{number}",
        "name": name,
        "kind": kind,
        "date": day(rng),
        "star": rng.random() < 0.25,
        "footer": rng.choice(("", *FOOTERS)),
        "comments": [
            {"quote": rng.choice(body).split()[-1].strip("."), "text": text}
            for text in rng.sample(COMMENTS, rng.randint(0, 2))
        ],
        "dirty": False,
        "version": rng.randint(1, 9),
        "lines": lines,
    }
