"""The script's moves through the app `mail`: every one works from any state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...virtual.app import Slots, State
from ...virtual.gestures import Element, Move
from ..web import HAND, fill_in, look_through, reach, shown

FOLDERS = ("Inbox", "Archive", "Sent", "Spam", "Bin")


def mail_of(state: State, number: int) -> dict[str, Any]:
    """The mail of this id."""
    return next(mail for mail in state["mails"] if mail["id"] == number)


def thread_of(state: State, number: int) -> dict[str, Any]:
    """The thread of this id."""
    return next(thread for thread in state["threads"] if thread["id"] == number)


def listed(state: State) -> list[dict[str, Any]]:
    """The mails that the present folder or search lists, in the page's order."""
    words, folder = state["query"].lower().split(), state["at"]["folder"]
    if words:
        texts = [(m, " ".join([m["from"], m.get("to", ""), m["subject"], *m["lines"]]).lower()) for m in state["mails"]]
        return [mail for mail, text in texts if all(word in text for word in words)]
    if folder.startswith("#"):
        return [mail for mail in state["mails"] if folder[1:] in mail["labels"]]
    return [mail for mail in state["mails"] if mail["folder"] == folder]


def _by(state: State, sender: str) -> dict[str, Any] | None:
    return next((mail for mail in state["mails"] if mail["from"] == sender and "to" not in mail), None)


def _aside(state: State, elements: Sequence[Element]) -> Move | None:
    """What lies over the page goes first."""
    return HAND.tap(elements, "OK") if state["dialog"] else None


def _to_folder(state: State, elements: Sequence[Element], name: str) -> Move | None:
    if move := _aside(state, elements):
        return move
    if state["at"] == {"page": "folder", "folder": name} and not state["query"]:
        return None
    return HAND.tap(elements, f"{name} folder" if shown(elements, f"{name} folder") else "mail tab")


def look_for(state: State, elements: Sequence[Element], sender: str) -> Move:
    """The search for a mail that is nowhere; given up once its results have shown that."""
    if move := _aside(state, elements):
        return move
    if state["at"]["page"] == "folder" and state["query"] == sender:
        return HAND.give_up()
    if not shown(elements, "search box"):
        return HAND.tap(elements, "mail tab")
    return HAND.enter(elements, "search box", sender + "\n")


def _in_list(state: State, elements: Sequence[Element], sender: str, what: str) -> Move:
    """`what` ("mail from", "star of") of a sender, in the folder where the mail is, or in the list that is open."""
    mail = _by(state, sender)
    if mail is None:
        return look_for(state, elements, sender)
    rows = listed(state) if state["at"]["page"] == "folder" else []
    if mail not in rows and (move := _to_folder(state, elements, mail["folder"])):
        return move
    order = [f"{what} {row['from']}" for row in listed(state)]
    return _aside(state, elements) or reach(elements, f"{what} {sender}", order)


def _on_mail(state: State, elements: Sequence[Element], sender: str, control: str) -> Move:
    """Open the mail of a sender and use `control` there."""
    mail = _by(state, sender)
    if mail is None:
        return look_for(state, elements, sender)
    if state["at"] == {"page": "mail", "id": mail["id"]}:
        return _aside(state, elements) or reach(elements, control)
    return _in_list(state, elements, sender, "mail from")


def star(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    """A click on the star in the list."""
    return _in_list(state, elements, slots["star"], "star of")


def moving(slot: str, control: str):
    """A mail to the folder that `control` stands for; what lies elsewhere comes back to the inbox first."""

    def move(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
        mail = _by(state, slots[slot])
        aside = mail and mail["folder"] != "Inbox" and control == "archive"
        return _on_mail(state, elements, slots[slot], "to inbox" if aside else control)

    return move


def label(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    """The label's line in the menu of the open mail."""
    control = f"{slots['label_name']} choice" if state["menu"] else "labels"
    return _on_mail(state, elements, slots["label"], control)


def unread(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    """The button of the open mail."""
    return _on_mail(state, elements, slots["unread"], "mark unread")


def save(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    """The button beside the file."""
    return _on_mail(state, elements, slots["save"], "save file")


def _compose(state: State, elements: Sequence[Element], wanted: dict[str, str], begin) -> Move:
    """Begin a message of the right kind, fill in what differs and send it."""
    if move := _aside(state, elements):
        return move
    draft = state["draft"]
    fixed = ("kind", "about")
    if state["at"]["page"] != "write" or any(draft[key] != wanted[key] for key in fixed if key in wanted):
        return begin()
    for key, name in (("to", "receiver box"), ("subject", "subject box"), ("text", "text box")):
        if key in wanted and draft[key].strip() != wanted[key]:
            return HAND.tap(elements, "discard") if not wanted[key] else fill_in(elements, name, wanted[key])
    return reach(elements, "send", ("receiver box", "subject box", "text box", "send"))


def _answer(state: State, elements: Sequence[Element], sender: str, text: str) -> Move:
    mail = _by(state, sender)
    if mail is None:
        return look_for(state, elements, sender)
    wanted = {"kind": "reply", "about": mail["id"], "to": mail["address"], "text": text}
    return _compose(state, elements, wanted, lambda: _on_mail(state, elements, sender, "reply"))


def reply(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    """Open, reply, text, send."""
    return _answer(state, elements, slots["reply"], slots["reply_text"])


def tell(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    """The invoice is read first (it is unread until then); then its amount goes into a reply."""
    bill = _by(state, slots["invoice"])
    if bill is None:
        return look_for(state, elements, slots["invoice"])
    if bill["unread"]:
        return _in_list(state, elements, slots["invoice"], "mail from")
    return _answer(state, elements, slots["tell"], slots["amount"])


def forward(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    """Open, forward, receiver, send."""
    mail = _by(state, slots["forward"])
    if mail is None:
        return look_for(state, elements, slots["forward"])
    wanted = {"kind": "forward", "about": mail["id"], "to": slots["forward_to"], "text": ""}
    return _compose(state, elements, wanted, lambda: _on_mail(state, elements, slots["forward"], "forward"))


def write(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    """Compose, receiver, subject, text, send."""
    wanted = {"kind": "new", "to": slots["write_to"], "subject": slots["subject"], "text": slots["write_text"]}

    def begin() -> Move:
        return HAND.tap(elements, "compose" if shown(elements, "compose") else "mail tab")

    return _compose(state, elements, wanted, begin)


def ask(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    """Read the invoice, then answer."""
    mail = _by(state, slots["ask"])
    if mail is None:
        return look_for(state, elements, slots["ask"])
    if state["at"] == {"page": "mail", "id": mail["id"]}:
        return HAND.answer(slots["ask_amount"])
    return _in_list(state, elements, slots["ask"], "mail from")


def search(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    """The words into the box, and Enter."""
    return _aside(state, elements) or HAND.enter(elements, "search box", slots["search"] + "\n")


def folder(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    """A click at the side."""
    return _to_folder(state, elements, slots["folder"]) or HAND.tap(elements, f"{slots['folder']} folder")


# --- the forum -------------------------------------------------------------------------------------------------------
def _in_forum(state: State, elements: Sequence[Element], title: str, what: str) -> Move:
    if move := _aside(state, elements):
        return move
    if state["at"]["page"] != "forum":
        return HAND.tap(elements, "forum tab")
    order = [f"{what} {thread['title']}" for thread in state["threads"]]
    return reach(elements, f"{what} {title}", order) if _thread(state, title) else look_through(elements, order)


def _thread(state: State, title: str) -> dict[str, Any] | None:
    return next((thread for thread in state["threads"] if thread["title"] == title), None)


def _in_thread(state: State, title: str) -> bool:
    thread = _thread(state, title)
    return thread is not None and state["at"] == {"page": "thread", "id": thread["id"]}


def vote(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    """The arrow beside the thread, in the list or on its page."""
    if _in_thread(state, slots["vote"]) and shown(elements, "vote of the thread"):
        return HAND.tap(elements, "vote of the thread")
    return _in_forum(state, elements, slots["vote"], "vote of")


def like(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    """The arrow beside the post."""
    if not _in_thread(state, slots["like_thread"]):
        return _in_forum(state, elements, slots["like_thread"], "thread")
    posts = [f"vote of {post['author']}" for post in _thread(state, slots["like_thread"])["posts"]]
    name = f"vote of {slots['like']}"
    return _aside(state, elements) or reach(elements, name, ["vote of the thread", *posts, "post box"])


def post(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    """The text into the box under the thread, and post."""
    if not _in_thread(state, slots["post"]):
        return _in_forum(state, elements, slots["post"], "thread")
    if move := _aside(state, elements):
        return move
    if state["post"].strip() != slots["post_text"]:
        return fill_in(elements, "post box", slots["post_text"])
    return reach(elements, "post")


def start(state: State, slots: Slots, elements: Sequence[Element]) -> Move:
    """New thread, title, board, text, publish."""
    if move := _aside(state, elements):
        return move
    page = state["at"]["page"]
    if page != "start":
        return reach(elements, "new thread" if page == "forum" else "forum tab")
    begun = state["start"]
    if begun["title"].strip() != slots["title"]:
        return HAND.enter(elements, "title box", slots["title"])
    if begun["board"] != slots["board"]:
        return HAND.select(elements, "board list", slots["board"])
    if begun["text"].strip() != slots["start_text"]:
        return HAND.enter(elements, "text box", slots["start_text"])
    return HAND.tap(elements, "publish")
