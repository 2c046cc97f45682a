"""Mail, a webmail with a forum: reading, sorting, searching, writing; threads with votes and posts.

State JSON: layout {theme, side, rows, brand} · me · labels [names] · boards [names] · mails [{id, from, address,
subject, lines, date, folder, unread, marked (unread by hand), starred, labels, files, amount; of sent ones also to,
kind, about}] · threads [{id, title, text, author, board, votes, voted, posts}] · saved [files] · at (the place) ·
past · scroll · query, typed (in the search box) · menu · draft {kind, about, to, subject, text} · post · start {title,
text, board} · dialog · toast · answer.
"""

from __future__ import annotations

import random

from ...virtual.app import State, ToolSpec, generator
from ...virtual.words import yes
from ..web import FIRST, LAST, WEB, address, layout, people
from .content import BOARDS, COMPANIES, FILES, LABELS, POSTS, REPLIES, SHOUTERS, STARTS, mails, threads
from .script import FOLDERS, listed, mail_of, thread_of
from .tasks import NAME, POOLS, SUBTASKS, fill, outcome

BRANDS = ("Postbox", "Quill Mail", "Letterbird", "Inkwell", "Courier")


# --- states ----------------------------------------------------------------------------------------------------------
def _content(rng: random.Random) -> State:
    (me,) = people(rng, 1)
    return {
        "layout": layout(rng, side=("left", "left", "right"), rows=("cosy", "compact"), brand=BRANDS),
        "me": address(me), "labels": sorted(rng.sample(LABELS, 4)), "boards": list(BOARDS),
        "mails": mails(rng), "threads": threads(rng), "saved": [],
        "at": {"page": "folder", "folder": "Inbox"}, "past": [], "scroll": 0, "query": "", "typed": "", "menu": "",
        "draft": None, "post": "", "start": None, "dialog": None, "toast": "", "answer": "",
    }  # fmt: skip


def initial(seed: int) -> State:
    """The inbox with fourteen mails, two in spam, six threads in the forum."""
    return _content(generator(NAME, "initial", seed))


def sample_state(seed: int) -> State:
    """Any screen of the app: folders, searches, mails, half-written messages, threads, dialogs."""
    rng = generator(NAME, "sample", seed)
    state = _content(rng)
    mail, thread = rng.choice(state["mails"]), rng.choice(state["threads"])
    for one in state["mails"]:
        if rng.random() < 0.2:
            one["labels"] = [rng.choice(state["labels"])]
    match rng.choice(("folder", "folder", "search", "mail", "mail", "write", "forum", "thread", "start")):
        case "folder":
            state["at"]["folder"] = rng.choice(FOLDERS)
        case "search":
            state["query"] = state["typed"] = mail["from"].split()[0]
        case "mail":
            state |= {"at": {"page": "mail", "id": mail["id"]}, "menu": rng.choice(("", "", "labels"))}
            mail["unread"] = False
        case "write":
            kind = rng.choice(("new", "reply", "forward"))
            state["at"] = {"page": "write"}
            state["draft"] = {
                "kind": kind, "about": -1 if kind == "new" else mail["id"],
                "to": mail["address"] if kind == "reply" else rng.choice(("", address(*people(rng, 1)))),
                "subject": "" if kind == "new" else mail["subject"], "text": rng.choice(("", *REPLIES)),
            }  # fmt: skip
            if rng.random() < 0.2:
                text = "Sorry, the receiver is no mail address."
                state["dialog"] = {"icon": "error", "title": "Not sent", "text": text, "ok": "OK"}
        case "forum":
            state["at"] = {"page": "forum"}
        case "thread":
            state |= {"at": {"page": "thread", "id": thread["id"]}, "post": rng.choice(("", "", *POSTS))}
        case "start":
            title, text = rng.choice(STARTS)
            state |= {"at": {"page": "start"}, "start": {"title": title, "text": text, "board": rng.choice(BOARDS)}}
    return state


def screen_facts(state: State) -> list[tuple[str, str]]:
    """Questions that the present screen answers."""
    at = state["at"]
    match at["page"]:
        case "folder":
            found = [("Which folder is open?", at["folder"].replace("#", ""))] if not state["query"] else []
            rows = listed(state)
            found.append(("How many mails are shown in the list?", str(len(rows))))
            for mail in rows[:6]:
                found.append((f"Is the mail from {mail['from']} starred?", yes(mail["starred"])))
            return found
        case "mail":
            mail = mail_of(state, at["id"])
            found = [("Who sent this mail?", mail["from"]), ("When was this mail sent?", mail["date"])]
            if mail["amount"]:
                found.append(("How much is to be paid?", f"{mail['amount']} euros"))
            return found + [("Which file is attached?", file["name"]) for file in mail["files"]]
        case "write":
            return [("Is the text still empty?", yes(not state["draft"]["text"]))]
        case "forum":
            return [(f'How many votes has "{one["title"]}"?', str(one["votes"])) for one in state["threads"][:5]]
        case "thread":
            thread = thread_of(state, at["id"])
            return [
                ("Who began this thread?", thread["author"]),
                ("How many posts are there?", str(len(thread["posts"]))),
            ]
    return [("Which board is chosen?", state["start"]["board"] or "none")]


_SENDER = {"type": "string", "description": "who sent the mail"}
_TEXT, _TO = {"type": "string", "description": "text"}, {"type": "string", "description": "mail address"}
_FOLDER = {"type": "string", "enum": ["Inbox", "Archive", "Spam", "Bin"]}

TOOLS = (
    ToolSpec.of(f"{NAME}.send_mail", "Send a new mail.", {"to": _TO, "subject": _TEXT, "text": _TEXT}),
    ToolSpec.of(f"{NAME}.reply", "Reply to a mail.", {"sender": _SENDER, "text": _TEXT}),
    ToolSpec.of(f"{NAME}.forward", "Forward a mail.", {"sender": _SENDER, "to": _TO}),
    ToolSpec.of(f"{NAME}.move_mail", "Move a mail to a folder.", {"sender": _SENDER, "folder": _FOLDER}),
    ToolSpec.of(f"{NAME}.set_label", "Put a label on a mail.", {"sender": _SENDER, "label": _TEXT}),
    ToolSpec.of(f"{NAME}.read_mail", "The text of a mail.", {"sender": _SENDER}),
    ToolSpec.of(f"{NAME}.post", "Post in a thread of the forum.", {"thread": _TEXT, "text": _TEXT}),
)

NAMES = (
    *(f"{folder} folder" for folder in FOLDERS), *(f"{label} label" for label in LABELS),
    *(f"{label} choice" for label in LABELS), *(f"{kind} tab" for kind in ("mail", "forum")),
    *(f"{part} box" for part in ("search", "receiver", "subject", "text", "post", "title")), "board list",
    *("search", "compose", "archive", "to inbox", "spam", "delete", "mark unread", "labels", "save file", "back"),
    *("reply", "forward", "send", "discard", "new thread", "publish", "cancel", "post", "OK", "vote of the thread"),
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
    home="inbox",
    names=(*NAMES, *COMPANIES, *SHOUTERS, *FIRST, *LAST, *FILES),
    pools=POOLS,
    most_actions=14,
)
