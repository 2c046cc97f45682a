"""What the desktop's settings and folders hold."""

from __future__ import annotations

import random
from typing import Any

from ..office import FIRST, LAST, day, person

Node = dict[str, Any]

PANELS = ("display", "sound", "network", "users", "notifications", "about")
NETWORKS = (
    "Harbour-Guest", "Blue-Door", "Attic-5G", "Bakery-Free", "Garden-Net", "Library", "Studio-12", "Corner-Cafe",
    "Lighthouse", "Workshop", "Rooftop", "Station-WLAN",
)  # fmt: skip
OUTPUTS = ("Speakers", "Headphones", "Monitor", "Headset", "Living room")
APPS = ("Mail", "Calendar", "Chat", "Music", "Photos", "News", "Weather", "Updates", "Backup", "Games", "Maps", "Clock")
DEVICES = (
    "workbench",
    "kitchen-pc",
    "blue-laptop",
    "studio-mac",
    "front-desk",
    "archive-box",
    "lab-seven",
    "reading-room",
)
FOLDERS = ("invoices", "drafts", "travel", "recipes", "taxes", "letters", "scans", "lessons")
FILES = ("budget.csv", "agenda.txt", "song.mp3", "poem.txt", "route.gpx", "menu.txt", "ticket.pdf", "photo.png",
         "list.txt", "backup.sh", "sync.sh", "letter.txt")  # fmt: skip
NEW_FILES = ("todo.txt", "idea.txt", "memo.txt", "reminder.txt", "plan.txt")
LINES = ("water the plants", "call the dentist", "buy new shoes", "return the books", "pay the rent", "book a table")
MODES = ("600", "700", "755", "640", "444")
POOLS = {
    **dict.fromkeys(("old_user", "role_user"), tuple(name.lower() for name in FIRST)),
    **dict.fromkeys(("network", "forgotten"), NETWORKS),
    **dict.fromkeys(("shifted", "erased", "moded"), FILES),
    "output": OUTPUTS, "app": APPS, "contact": tuple(f"{first} {last}" for first in FIRST for last in LAST),
}  # fmt: skip
"""By slot, what its value is drawn from."""


def text(*lines: str, mode: str = "644") -> Node:
    return {"mode": mode, "text": "".join(f"{line}\n" for line in lines)}


def folder(**items: Node) -> Node:
    return {"mode": "755", "items": items}


def tree(rng: random.Random, user: str) -> Node:
    """The folders: a home with Documents, Downloads, Pictures and a list of contacts, and a system log."""
    names = rng.sample(FILES, 7)
    people = sorted({person(rng) for _ in range(9)})
    contacts = [f"{name}, {rng.randint(201, 989)}-{rng.randint(1000, 9999)}" for name in people]
    documents = {name: text(rng.choice(LINES)) for name in names[:3]}
    documents[rng.choice(FOLDERS[:3])] = folder()
    downloads = {name: text(rng.choice(LINES)) for name in names[3:6]}
    log = [
        f"{day(rng)} {rng.choice(('network', 'disk', 'printer', 'login'))} {rng.choice(('ok', 'slow', 'error'))}"
        for _ in range(9)
    ]
    home = folder(
        Documents=folder(**documents),
        Downloads=folder(**downloads),
        Pictures=folder(**{names[6]: text("picture")}),
        **{"contacts.txt": text(*contacts)},
    )
    return folder(home=folder(**{user: home}), var=folder(log=folder(**{"system.log": text(*log)})))


def settings(rng: random.Random, user: str) -> dict[str, Any]:
    """Everything that a panel shows."""
    networks = rng.sample(NETWORKS, 5)
    known = sorted(rng.sample(networks, 2))
    outputs = rng.sample(OUTPUTS, 3)
    others = rng.sample([name.lower() for name in FIRST if name.lower() != user], 3)
    apps = rng.sample(APPS, 9)
    return {
        "display": {"brightness": 5 * rng.randint(2, 19), "night": rng.random() < 0.5,
                    "scale": rng.choice(("100", "125"))},
        "sound": {"volume": 5 * rng.randint(1, 19), "mute": rng.random() < 0.3, "output": outputs[0],
                  "outputs": sorted(outputs)},
        "network": {"wifi": True, "connected": rng.choice(known), "known": known, "networks": networks},
        "users": [{"name": user, "role": "Administrator"},
                  *({"name": name, "role": rng.choice(("Standard", "Standard", "Administrator"))} for name in others)],
        "notifications": {"quiet": rng.random() < 0.3, "order": apps,
                          "apps": {app: rng.random() < 0.7 for app in apps}},
        "device": {
            "name": rng.choice(DEVICES[:4]),
            "facts": {
                "Memory": f"{rng.choice((4, 8, 16, 32, 64))} GB",
                "Disk": f"{rng.choice((128, 256, 512, 1024))} GB",
                "Processor": f"{rng.choice(LAST)} {rng.randint(3, 9)}{rng.randint(100, 999)}",
                "Serial number": "".join(rng.choices("ABCDEFGHKLMNPRSTUVWX", k=3)) + str(rng.randint(1000, 9999)),
                "Version": f"{rng.randint(20, 26)}.{rng.choice(('04', '10'))}",
            },
        },
    }  # fmt: skip
