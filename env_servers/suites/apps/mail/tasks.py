"""What the tasks of the app `mail` are about: the facts that they change, the DAG of subtasks, the slots of a path."""

from __future__ import annotations

import random
from typing import Any

from ...virtual.app import START, Slots, State, Subtask
from ..web import CITIES, FIRST, LAST, address, call, people
from . import script
from .content import BOARDS, COMPANIES, POSTS, REPLIES, SHOUTERS, STARTS, TOPICS
from .script import mail_of

NAME = "mail"


def _sent(kind: str, about: str, to: str, subject: str, text: str) -> str:
    return f"sent:{kind}:{about}:{to}:{subject}:{text}"


def outcome(state: State) -> dict[str, Any]:
    """Where every mail is, its star and labels; what was sent, saved, voted for and posted."""
    found: dict[str, Any] = {}
    for mail in state["mails"]:
        if mail["folder"] == "Sent" and "to" in mail:
            about = mail_of(state, mail["about"])["from"] if mail["about"] >= 0 else ""
            subject = mail["subject"] if mail["kind"] == "new" else ""
            key = _sent(mail["kind"], about, mail["to"], subject, "\n".join(mail["lines"]))
            found[key] = found.get(key, 0) + 1
            continue
        for field in ("folder", "starred", "labels", "marked"):
            found[f"{mail['from']}:{field}"] = mail[field]
    found |= {f"saved:{file}": True for file in state["saved"]}
    for thread in state["threads"]:
        if thread["author"] == "Me":
            found[f"thread:{thread['title']}:{thread['text']}:{thread['board']}"] = True
        if thread["author"] != "Me" or thread["voted"]:
            found[f"vote:{thread['title']}"] = thread["voted"]
        for post in thread["posts"]:
            key = f"vote:{thread['title']}:{post['author']}"
            if post["author"] == "Me":
                key = f"post:{thread['title']}:{post['text']}"
            found[key] = found.get(key, 0) + 1 if post["author"] == "Me" else post["voted"]
    return found


# --- the DAG ---------------------------------------------------------------------------------------------------------
def _of(state: State, sender: str) -> dict[str, Any]:
    return next((one for one in state["mails"] if one["from"] == sender and "to" not in one), {})


def _is(slot: str, field: str, value: Any):
    return lambda state, slots: _of(state, slots[slot]).get(field) == value


def _mail_fact(slot: str, *fields: str):
    return lambda slots: frozenset(f"{slots[slot]}:{field}" for field in fields)


def _once(key):
    """(touches, checkpoint) of what must have been done exactly once; `key(slots)` is its fact."""
    return lambda slots: frozenset((key(slots),)), lambda state, slots: outcome(state).get(key(slots)) in (1, True)


_replied, _is_replied = _once(lambda s: _sent("reply", s["reply"], s["reply_address"], "", s["reply_text"]))
_told, _is_told = _once(lambda s: _sent("reply", s["tell"], s["tell_address"], "", s["amount"]))
_forwarded, _is_forwarded = _once(lambda s: _sent("forward", s["forward"], s["forward_to"], "", ""))
_written, _is_written = _once(lambda s: _sent("new", "", s["write_to"], s["subject"], s["write_text"]))
_saved, _is_saved = _once(lambda s: f"saved:{s['save']}: {s['file']}")
_voted, _is_voted = _once(lambda s: f"vote:{s['vote']}")
_liked, _is_liked = _once(lambda s: f"vote:{s['like_thread']}:{s['like']}")
_posted, _is_posted = _once(lambda s: f"post:{s['post']}:{s['post_text']}")
_started, _is_started = _once(lambda s: f"thread:{s['title']}:{s['start_text']}:{s['board']}")

_SORTING = ("star", "archive", "spam", "delete", "label")
_MAILING = (*_SORTING, "reply", "forward", "write")
_FORUM = ("vote", "like", "post")

SUBTASKS = (
    Subtask(
        "star",
        "Star the mail from {star}.",
        _is("star", "starred", True),
        script.star,
        after=(START,),
        at="inbox",
        actions=1,
        touches=_mail_fact("star", "starred"),
        needs=("star",),
    ),
    Subtask(
        "archive",
        "Archive the mail from {archive}.",
        _is("archive", "folder", "Archive"),
        script.moving("archive", "archive"),
        after=(START, "star"),
        at="inbox",
        actions=2,
        touches=_mail_fact("archive", "folder"),
        needs=("archive",),
        tool=lambda s: call(NAME, "move_mail", sender=s["archive"], folder="Archive"),
    ),
    Subtask(
        "spam",
        "Report the mail from {spam} as spam.",
        _is("spam", "folder", "Spam"),
        script.moving("spam", "spam"),
        after=(START, "star", "archive"),
        at="inbox",
        actions=2,
        touches=_mail_fact("spam", "folder"),
        needs=("spam",),
        tool=lambda s: call(NAME, "move_mail", sender=s["spam"], folder="Spam"),
    ),
    Subtask(
        "delete",
        "Delete the mail from {delete}.",
        _is("delete", "folder", "Bin"),
        script.moving("delete", "delete"),
        after=(START, "spam", "archive"),
        at="inbox",
        actions=2,
        touches=_mail_fact("delete", "folder"),
        needs=("delete",),
        tool=lambda s: call(NAME, "move_mail", sender=s["delete"], folder="Bin"),
    ),
    Subtask(
        "rescue",
        "Take the mail from {rescue} out of the spam folder.",
        _is("rescue", "folder", "Inbox"),
        script.moving("rescue", "to inbox"),
        after=(START, "star", "delete"),
        at="spam",
        actions=2,
        ends="inbox",
        touches=_mail_fact("rescue", "folder"),
        needs=("rescue",),
        tool=lambda s: call(NAME, "move_mail", sender=s["rescue"], folder="Inbox"),
    ),
    Subtask(
        "label",
        "Put the label {label_name} on the mail from {label}.",
        lambda state, s: s["label_name"] in _of(state, s["label"]).get("labels", ()),
        script.label,
        after=(START, "star", "spam", "rescue"),
        at="inbox",
        actions=3,
        ends="mail",
        touches=_mail_fact("label", "labels"),
        needs=("label",),
        tool=lambda s: call(NAME, "set_label", sender=s["label"], label=s["label_name"]),
    ),
    Subtask(
        "unread",
        "Mark the mail from {unread} as unread.",
        _is("unread", "marked", True),
        script.unread,
        after=(START, "label", "star"),
        at="inbox",
        actions=2,
        touches=_mail_fact("unread", "marked"),
        needs=("unread",),
    ),
    Subtask(
        "save",
        "Save the file that {save} sent.",
        _is_saved,
        script.save,
        after=(START, "star", "label"),
        at="inbox",
        actions=2,
        ends="mail",
        touches=_saved,
        needs=("save",),
    ),
    Subtask(
        "reply",
        'Reply "{reply_text}" to {reply}.',
        _is_replied,
        script.reply,
        after=(START, *_SORTING, "save"),
        at="inbox",
        actions=4,
        ends="mail",
        touches=_replied,
        needs=("reply",),
        tool=lambda s: call(NAME, "reply", sender=s["reply"], text=s["reply_text"]),
    ),
    Subtask(
        "forward",
        "Forward the mail from {forward} to {forward_to}.",
        _is_forwarded,
        script.forward,
        after=(START, *_SORTING, "save", "reply"),
        at="inbox",
        actions=4,
        ends="mail",
        touches=_forwarded,
        needs=("forward",),
        tool=lambda s: call(NAME, "forward", sender=s["forward"], to=s["forward_to"]),
    ),
    Subtask(
        "write",
        'Write to {write_to} with the subject "{subject}" and the text "{write_text}"',
        _is_written,
        script.write,
        after=(START, "star", "archive", "save"),
        at="inbox",
        actions=5,
        touches=_written,
        tool=lambda s: call(NAME, "send_mail", to=s["write_to"], subject=s["subject"], text=s["write_text"]),
    ),
    Subtask(
        "tell",
        "Read which amount {invoice} asks for, and reply to {tell} with this amount alone, like 12.50.",
        _is_told,
        script.tell,
        after=(START, "star", "archive"),
        at="inbox",
        actions=6,
        ends="mail",
        touches=_told,
        needs=("invoice", "tell"),
    ),
    Subtask(
        "ask",
        "How many euros does {ask} want to be paid?",
        lambda state, s: state["answer"].removesuffix(" euros") == s["ask_amount"],
        script.ask,
        after=(START, *_SORTING, "write"),
        at="inbox",
        actions=2,
        ends="mail",
        needs=("ask",),
    ),
    Subtask(
        "search",
        "Search the mail for {search}.",
        lambda state, s: state["at"]["page"] == "folder" and state["query"].lower() == s["search"].lower(),
        script.search,
        after=(START, *_MAILING, *_FORUM),
        at="results",
        actions=0,
        lasting=False,
    ),
    Subtask(
        "folder",
        "Open the {folder} folder.",
        lambda state, s: state["at"] == {"page": "folder", "folder": s["folder"]} and not state["query"],
        script.folder,
        after=(START, *_MAILING),
        at="other",
        actions=0,
        lasting=False,
    ),
    Subtask(
        "vote",
        'In the forum, vote for the thread "{vote}".',
        _is_voted,
        script.vote,
        after=(START, "reply", "archive"),
        at="forum",
        actions=1,
        touches=_voted,
        needs=("vote",),
    ),
    Subtask(
        "like",
        'In the forum thread "{like_thread}", vote for the post by {like}.',
        _is_liked,
        script.like,
        after=(START, "vote", "forward"),
        at="forum",
        actions=2,
        ends="thread",
        touches=_liked,
        needs=("like_thread",),
    ),
    Subtask(
        "post",
        'Post "{post_text}" in the forum thread "{post}".',
        _is_posted,
        script.post,
        after=(START, "vote", "star", "like"),
        at="forum",
        actions=3,
        ends="thread",
        touches=_posted,
        needs=("post",),
        tool=lambda s: call(NAME, "post", thread=s["post"], text=s["post_text"]),
    ),
    Subtask(
        "begin",
        'Start a thread "{title}" in the forum on the board {board} with the text "{start_text}"',
        _is_started,
        script.start,
        after=(START, "vote"),
        at="forum",
        actions=5,
        ends="thread",
        touches=_started,
    ),
    Subtask(
        "missing",
        "Archive the mail from {missing}.",
        lambda state, s: False,
        lambda state, s, elements: script.look_for(state, elements, s["missing"]),
        after=(START,),
        at="inbox",
        actions=1,
        feasible=False,
    ),
)


def fill(rng: random.Random, path: tuple[str, ...], state: State) -> Slots:
    """A mail of its own for every subtask of the path that speaks of one, and a thread likewise."""
    inbox = [mail for mail in state["mails"] if mail["folder"] == "Inbox"]
    bills = [mail["from"] for mail in inbox if mail["amount"]]
    persons = [mail["from"] for mail in inbox if not mail["amount"] and mail["from"] not in SHOUTERS]
    rng.shuffle(persons), rng.shuffle(bills)
    slots: Slots = {}
    if "save" in path:
        slots["save"] = rng.choice([name for name in persons if _of(state, name)["files"]])
        slots["file"] = _of(state, slots["save"])["files"][0]["name"]
        persons.remove(slots["save"])
    for name in ("unread", "star"):  # what is read, what has no star yet
        if name in path:
            field = {"unread": "unread", "star": "starred"}[name]
            slots[name] = next(one for one in persons if not _of(state, one)[field])
            persons.remove(slots[name])
    for name in ("archive", "delete", "label", "reply", "forward", "tell"):
        if name in path:
            slots[name] = persons.pop()
    if "spam" in path:
        slots["spam"] = next(mail["from"] for mail in inbox if mail["from"] in SHOUTERS)
    if "rescue" in path:
        slots["rescue"] = rng.choice([mail["from"] for mail in state["mails"] if mail["folder"] == "Spam"])
    if "tell" in path:
        slots["invoice"] = bills[0]
        slots["amount"], slots["tell_address"] = _of(state, bills[0])["amount"], _of(state, slots["tell"])["address"]
    if "ask" in path:
        slots["ask"], slots["ask_amount"] = bills[-1], _of(state, bills[-1])["amount"]
    slots["label_name"], slots["reply_text"] = rng.choice(state["labels"]), rng.choice(REPLIES)
    if "reply" in path:
        slots["reply_address"] = _of(state, slots["reply"])["address"]
    slots["forward_to"], slots["write_to"] = (address(name) for name in people(rng, 2))
    slots["subject"], slots["write_text"] = f"Visit to {rng.choice(CITIES)}", rng.choice(REPLIES)
    slots["search"] = rng.choice([mail["from"] for mail in state["mails"]]).split()[0]
    slots["folder"] = rng.choice(("Archive", "Spam", "Bin"))
    titles = [thread["title"] for thread in state["threads"]]
    slots["vote"], slots["like_thread"], slots["post"] = rng.sample(titles, 3)
    liked = next(thread for thread in state["threads"] if thread["title"] == slots["like_thread"])
    slots["like"], slots["post_text"] = rng.choice(liked["posts"])["author"], rng.choice(POSTS)
    (slots["title"], slots["start_text"]), slots["board"] = rng.choice(STARTS), rng.choice(BOARDS)
    known = {word for mail in state["mails"] for word in mail["from"].split()}
    slots["missing"] = next(name for name in people(rng, 24) if not known & set(name.split()))
    return slots


POOLS = {
    **dict.fromkeys(
        (*_SORTING, "unread", "save", "rescue", "reply", "forward", "tell"),
        tuple(f"{first} {last}" for first in FIRST for last in LAST),
    ),
    **dict.fromkeys(("invoice", "ask"), COMPANIES),
    **dict.fromkeys(("vote", "like_thread", "post"), tuple(title for title, _ in TOPICS if "{" not in title)),
}
