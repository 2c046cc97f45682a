"""What the mails and threads of the app `mail` say: tables of companies, subjects and sentences, and their drawing."""

from __future__ import annotations

import random
from typing import Any

from ..web import CITIES, MONTHS, address, people

COMPANIES = (
    "Alder Power", "Brightline", "Corvo Books", "Delta Water", "Elmwood Dental", "Fairway Hosting", "Grove Insurance",
    "Harbor Freight", "Ironbark Tools", "Juniper Telecom", "Kestrel Print", "Larkspur Foods",
)  # fmt: skip
SHOUTERS = (
    "Prize Desk", "Fast Credit Now", "Lucky Draw", "Miracle Pills", "Crypto Rocket", "Free Phone Club", "Royal Casino",
    "Urgent Bank Notice",
)  # fmt: skip
LABELS = ("Work", "Family", "Travel", "Receipts", "School", "Health", "Projects", "Later")
NOTES = (
    ("Lunch on {day}", "Shall we have lunch on {day}?", "I know a quiet place near the station."),
    ("Plans for {city}", "I booked the train to {city}.", "We leave early on {day}, so bring coffee."),
    ("Minutes of the meeting", "Here are the minutes of our meeting.", "Please read the second point before {day}."),
    ("Budget for {month}", "The budget for {month} is ready.", "Tell me if a number looks wrong to you."),
    ("Garden party", "We are having friends over on {day}.", "There is no need to bring anything."),
    ("Photos from {city}", "The photos from {city} turned out well.", "I chose the ten best of them for you."),
    ("Question about the printer", "The printer on our floor is jammed again.", "Whom should I call about it?"),
    ("Keys to the office", "I left the keys to the office at the desk.", "You will need them on {day}."),
    ("Choir practice", "Practice moves to {day} this week.", "Bring the blue folder, please."),
    ("New desk lamp", "The lamp that you liked is on sale.", "Should I order one for you as well?"),
    ("Draft of the report", "The draft of the report is attached.", "I would be glad of your comments by {day}."),
    ("Trip in {month}", "What do you think of a week in {city} in {month}?", "The hotel near the river is free."),
    ("Football on {day}", "We need one more player on {day}.", "The match starts at six."),
    ("Recipe for the soup", "You asked for the recipe of the soup.", "The secret is a spoon of mustard."),
)
LURES = ("You have won", "Your loan is approved", "Last chance to claim", "Act now and save", "Your account is locked")
FILES = ("report.pdf", "photos.zip", "minutes.docx", "budget.xlsx", "ticket.pdf", "map.png", "recipe.pdf", "plan.pptx")
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
REPLIES = (
    "Thank you, that works for me.", "I will be there on time.", "Sorry, I can not make it.",
    "Please send me the list.", "Great news, well done!", "Let us talk about it tomorrow.",
    "I will call you tonight.", "Yes, please go ahead.",
)  # fmt: skip
TOPICS = (
    ("Best bike route to {city}", "I want to ride to {city} this summer. Which way has the fewest hills?"),
    ("My tomatoes will not ripen", "They have been green for weeks. What am I doing wrong?"),
    ("Quiet keyboards", "My old keyboard wakes the baby. Which quiet one do you like?"),
    ("Where to eat in {city}", "Two days in {city} and a small budget. Where should we eat?"),
    ("Learning the cello at forty", "Is it too late to start? I practise half an hour a day."),
    ("Bread with rye flour", "Mine is always too dense. How long do you let it rise?"),
    ("Moving to {city}", "We move to {city} in {month}. Which part of town is calm?"),
    ("Old phones as cameras", "I have three old phones. Has anyone made cameras of them?"),
    ("A tent for four", "We look for a light tent for four people. Any advice?"),
    ("How to fix a slow laptop", "It takes ten minutes to start. Is a new disk worth it?"),
    ("Chess puzzles for children", "My daughter loves puzzles. Where do I find easy ones?"),
    ("Night trains to {city}", "Has anybody taken the night train to {city} lately?"),
)
COMMENTS = (
    "I had the same problem last year.", "Try the one from the market, it is better.",
    "It took me a month, do not give up.", "The second way is much faster.", "Ask at the library, they helped me.",
    "I would wait until spring.",
    "We did that and never looked back.", "Be careful, it is harder than it looks.",
)  # fmt: skip
POSTS = (
    "I can recommend it.", "Thank you for asking this.", "Have you tried warm water?", "Count me in for the weekend.",
    "Mine works well since May.", "That is a good idea.",
)  # fmt: skip
STARTS = (
    ("Lost cat near the park", "She is grey and shy. Please write if you see her."),
    ("Looking for a drummer", "We play every week and need a drummer."),
    ("Free moving boxes", "Twenty boxes to give away, come and get them."),
    ("Which rain jacket lasts", "Mine leaks after a year. What do you wear?"),
)
BOARDS = ("Home", "Hobby", "Travel", "Tech")


def _mail(number: int, sender: str, subject: str, lines: list[str], **more: Any) -> dict[str, Any]:
    host = "mail.example" if sender in COMPANIES + SHOUTERS else "post.example"
    return {
        "id": number, "from": sender, "address": address(sender, host), "subject": subject, "lines": lines,
        "folder": "Inbox", "unread": False, "marked": False, "starred": False, "labels": [], "files": [], "amount": "",
        **more,
    }  # fmt: skip


def mails(rng: random.Random) -> list[dict[str, Any]]:
    """Eighteen mails of different senders: fourteen in the inbox, two in spam, one archived, one in the bin."""
    names, companies = people(rng, 13), rng.sample(COMPANIES, 2)
    shouters, notes, files = rng.sample(SHOUTERS, 3), rng.sample(NOTES, 13), rng.sample(FILES, 3)
    made: list[dict[str, Any]] = []
    for k, (name, note) in enumerate(zip(names, notes, strict=True)):
        said = {"day": rng.choice(WEEKDAYS), "city": rng.choice(CITIES), "month": rng.choice(MONTHS)}
        subject, *lines = (line.format(**said) for line in note)
        body = [f"Hello! {lines[0]}", *lines[1:], f"Best wishes, {name.split()[0]}"]
        more: dict[str, Any] = {"unread": rng.random() < 0.4, "starred": rng.random() < 0.15}
        if k < 3:
            more["files"] = [{"name": files[k], "size": f"{rng.randint(12, 980)} KB"}]
        if k > 10:
            more = {"folder": ("Archive", "Bin")[k - 11]}
        made.append(_mail(k, name, subject, body, **more))
    for company in companies:
        amount = f"{rng.randint(12, 480)}.{rng.randint(10, 99)}"
        lines = [
            f"Dear customer, this is your bill for {rng.choice(MONTHS)}.",
            f"Please pay {amount} euros by {rng.randint(2, 28)} {rng.choice(MONTHS)}.",
            f"Your customer number is {rng.randint(10_000, 99_999)}.",
            f"Kind regards, {company}",
        ]
        made.append(_mail(len(made), company, f"Invoice {rng.randint(1000, 9999)}", lines, unread=True, amount=amount))
    for k, name in enumerate(shouters):
        lines = [
            f"{rng.choice(LURES)}, dear friend!",
            "Send us your card number today.",
            "This offer ends at midnight.",
        ]
        folder = "Spam" if k else "Inbox"
        made.append(_mail(len(made), name, f"{rng.choice(LURES)}!", lines, folder=folder, unread=rng.random() < 0.6))
    rng.shuffle(made)
    day, month = rng.randint(23, 28), rng.choice(MONTHS)
    for number, mail in enumerate(made):
        mail |= {"id": number, "date": f"{max(1, day - number)} {month[:3]}"}
    return made


def threads(rng: random.Random) -> list[dict[str, Any]]:
    """Six threads of different titles, each with two to four posts of different authors."""
    made = []
    for number, (title, text) in enumerate(rng.sample(TOPICS, 6)):
        city, month = rng.choice(CITIES), rng.choice(MONTHS)
        author, *others = people(rng, rng.randint(3, 5))
        comments = rng.sample(COMMENTS, len(others))
        made.append({
            "id": number, "title": title.format(city=city, month=month), "text": text.format(city=city, month=month),
            "author": author, "board": rng.choice(BOARDS), "votes": rng.randint(1, 90), "voted": False,
            "posts": [
                {"author": name, "text": line, "votes": rng.randint(0, 30), "voted": False}
                for name, line in zip(others, comments, strict=True)
            ],
        })  # fmt: skip
    return made
