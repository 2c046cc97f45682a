"""Writer, a document editor on a desktop: a list of documents, and an editor with styles, lists, comments and footers.

State JSON: layout {theme, view, side, tools, paper, size} · docs [{id, name, kind, date, star, footer,
comments [{quote, text}], dirty, version, lines [{text, style, align, marks [[from, to, mark]]}]}] · open (id, "" = the
list) · title (in its field) · selection [index, length] or null · scroll (css px) · clip · menu, at, dialog, focus,
picked (see office.js) · answer.
"""

from __future__ import annotations

import random
from typing import Any

from ...virtual.app import START, CallDict, Slots, State, Subtask, ToolSpec, generator
from ..goals import answered, reached, touched, with_goals
from ..office import CITIES, DESKTOP
from . import script
from .content import APPENDED, COMMENTS, FOOTERS, KINDS, TITLES, TYPOS, Line, document, line

NAME = "writer"


# --- states ----------------------------------------------------------------------------------------------------------
def _content(rng: random.Random) -> State:
    kinds = rng.sample(sorted(KINDS), 4)
    named = [(kind, name) for kind in kinds for name in rng.sample(KINDS[kind][0], rng.choice((1, 2, 2)))]
    rng.shuffle(named)
    return {
        "layout": {
            "theme": rng.randint(0, 5),
            "view": rng.choice(("grid", "rows")),
            "side": rng.choice(("left", "right")),
            "tools": rng.sample(("marks", "lists", "sides", "more"), 4),
            "paper": rng.choice((640, 680, 720)),
            "size": rng.choice((13, 14, 15)),
        },
        "docs": [document(rng, k + 1, kind, name) for k, (kind, name) in enumerate(named)],
        "open": "",
        "title": "",
        "selection": None,
        "scroll": 0,
        "clip": "",
        "menu": "",
        "at": [0, 0],
        "dialog": {"kind": ""},
        "focus": "",
        "picked": False,
        "answer": "",
    }


def initial(seed: int) -> State:
    """The list of four to eight documents of four kinds."""
    return _content(generator(NAME, "initial", seed))


def sample_state(seed: int) -> State:
    """Any screen: the list, a document with or without a menu, a dialog or a selection."""
    rng = generator(NAME, "sample", seed)
    state = _content(rng)
    if rng.random() < 0.3:
        return state
    doc = rng.choice(state["docs"])
    state.update(open=doc["id"], title=doc["name"])
    for one in rng.sample(doc["lines"], 3):
        one["style"] = rng.choice(("normal", "heading 1", "heading 2", "bullets", "numbers"))
        one["align"] = rng.choice(("left", "left", "center", "right"))
    match rng.randint(0, 3):
        case 0:
            state["menu"] = rng.choice(("file", "edit", "insert", "format", "style"))
        case 1:
            kind, fields = rng.choice(
                (("find", ("find", "replace")), ("comment", ("comment",)), ("footer", ("footer",)))
            )
            state["dialog"] = {"kind": kind, **dict.fromkeys(fields, "")}
        case 2:
            length = len(doc["lines"][0]["text"])
            state["selection"] = [0, length]
    return state


def outcome(state: State) -> dict[str, Any]:
    """Of every document: name, star, footer, comments, version, the order of its lines, and each line's looks."""
    found: dict[str, Any] = {}
    for doc in state["docs"]:
        key = doc["id"]
        found |= {f"{part}:{key}": doc[part] for part in ("name", "star", "footer", "comments", "version")}
        found[f"order:{key}"] = [one["text"] for one in doc["lines"]]
        for one in doc["lines"]:
            found.setdefault(f"line:{key}:{one['text']}", []).append([one["style"], one["align"], one["marks"]])
    return found


def screen_facts(state: State) -> list[tuple[str, str]]:
    """Questions that the present screen answers."""
    if not state["open"]:
        starred = sum(doc["star"] for doc in state["docs"])
        kinds = [(f"What kind of document is {doc['name']}?", doc["kind"].lower()) for doc in state["docs"][:4]]
        return [
            ("How many documents are listed?", str(len(state["docs"]))),
            ("How many documents are starred?", str(starred)),
            *kinds,
        ]
    doc = script.by_id(state, state["open"])
    menu, dialog = state["menu"] or "none", state["dialog"]["kind"] or "none"
    return [
        ("Which document is open?", doc["name"]),
        ("How many comments are there?", str(len(doc["comments"]))),
        ("Which menu is open?", menu),
        ("Which dialog is open?", dialog),
        ("Which version is saved?", str(doc["version"])) if not doc["dirty"] else ("Is the document saved?", "no"),
    ]


# --- effects: what a subtask does to the state -----------------------------------------------------------------------
def _doc(state: State, slots: Slots) -> dict[str, Any]:
    return script.by_id(state, slots["doc_id"])


def _line(state: State, slots: Slots, slot: str) -> Line:
    return next(one for one in _doc(state, slots)["lines"] if one["text"] == slots[slot])


def _marked(one: Line, start: int, end: int, mark: str) -> None:
    kept = [[a, b, kind] for a, b, kind in one["marks"] if kind != mark]
    one["marks"] = sorted([*kept, [start, end, mark]])


def _bold(state: State, slots: Slots) -> None:
    one = _line(state, slots, "bold_line")
    start = one["text"].index(slots["bold"])
    _marked(one, start, start + len(slots["bold"]), "bold")


def _italic(state: State, slots: Slots) -> None:
    one = _line(state, slots, "italic")
    _marked(one, 0, len(one["text"]), "italic")


def _points(state: State, slots: Slots) -> None:
    for text in slots["list_lines"]:
        next(one for one in _doc(state, slots)["lines"] if one["text"] == text)["style"] = slots["list_style"]


def _replace(state: State, slots: Slots) -> None:
    for one in _doc(state, slots)["lines"]:
        one["text"] = one["text"].replace(slots["find"], slots["put"])


def _correct(state: State, slots: Slots) -> None:
    one = _line(state, slots, "correct_line")
    one["text"] = one["text"].replace(slots["typo"], slots["right"])


def _duplicate(state: State, slots: Slots) -> None:
    number = max(int(doc["id"][1:]) for doc in state["docs"]) + 1
    doc = script.by_id(state, slots["copy_id"])
    state["docs"].append({**doc, "id": f"d{number}", "name": f"Copy of {doc['name']}", "star": False})


def _create(state: State, slots: Slots) -> None:
    number = max(int(doc["id"][1:]) for doc in state["docs"]) + 1
    state["docs"].append(
        {"id": f"d{number}", "name": slots["new"], "star": False, "footer": "", "comments": [], "version": 1,
         "lines": [line("")]}
    )  # fmt: skip


def _delete(state: State, slots: Slots) -> None:
    state["docs"] = [doc for doc in state["docs"] if doc["id"] != slots["delete_id"]]


EFFECTS = {
    "star": lambda state, slots: script.by_id(state, slots["star_id"]).update(star=True),
    "duplicate": _duplicate,
    "delete": _delete,
    "create": _create,
    "rename": lambda state, slots: _doc(state, slots).update(name=slots["title"]),
    "bold": _bold,
    "italic": _italic,
    "heading": lambda state, slots: _line(state, slots, "heading").update(style=slots["heading_style"]),
    "center": lambda state, slots: _line(state, slots, "center").update(align="center"),
    "points": _points,
    "replace": _replace,
    "correct": _correct,
    "footer": lambda state, slots: _doc(state, slots).update(footer=slots["footer"]),
    "comment": lambda state, slots: _doc(state, slots)["comments"].append(
        {"quote": slots["noted"], "text": slots["comment"]}
    ),
    "remove": lambda state, slots: _doc(state, slots)["lines"].remove(_line(state, slots, "remove")),
    "append": lambda state, slots: _doc(state, slots)["lines"].append(line(slots["append"])),
    "save": lambda state, slots: _doc(state, slots).update(version=_doc(state, slots)["version"] + 1),
}

QUESTIONS = {
    "Contact": "who is the contact",
    "Deadline": "what is the deadline",
    "Budget": "what is the budget in euros",
}


def _asked(state: State, slots: Slots) -> str:
    text = next(one["text"] for one in _doc(state, slots)["lines"] if one["text"].startswith(slots["ask"] + ":"))
    return text.split(": ")[1].removesuffix(".").removesuffix(" euros")


# --- the DAG ---------------------------------------------------------------------------------------------------------
def _call(tool: str, **arguments: object) -> CallDict:
    return {"name": f"{NAME}.{tool}", "arguments": arguments}


def _saved(state: State, slots: Slots) -> bool:
    return reached("save", outcome)(state, slots) and not _doc(state, slots)["dirty"]


def _task(name: str, text: str, after: tuple[str, ...], at: str, actions: int, needs: tuple[str, ...], **more: Any):
    checkpoint = more.pop("checkpoint", None) or reached(name, outcome)
    move = getattr(script, name)
    return Subtask(
        name, text, checkpoint, move, (START, *after), at, actions, touches=touched(name), needs=needs, **more
    )


_LOOKS = ("bold", "italic", "heading", "center", "points")
_TEXTS = ("replace", "correct", "remove", "append")

SUBTASKS = (
    _task("star", 'Star the document "{star}".', (), "list", 1, ("star",)),
    _task("duplicate", 'Duplicate the document "{copy}".', ("star",), "list", 2, ("copy",)),
    _task("delete", 'Delete the document "{delete}".', ("star", "duplicate"), "list", 3, ("delete",)),
    _task("create", 'Create a new document called "{new}".', ("star", "delete"), "list", 3, (), ends="editor"),
    Subtask(
        "open", 'Open the document "{doc}".',
        lambda state, slots: state["open"] == slots["doc_id"],
        script.open_it,
        after=(START, "star", "delete"), at="editor", actions=0, lasting=False, needs=("doc",),
    ),
    _task("bold", 'In "{doc}", make the word "{bold}" bold.', ("open",), "editor", 2, ("doc",)),
    _task("italic", 'In "{doc}", set the paragraph that begins with "{italic_words}" in italics.', ("bold",),
          "editor", 2, ("doc",)),
    _task("heading", 'In "{doc}", give the line "{heading}" the style {heading_style}.', ("bold", "open"),
          "editor", 3, ("doc",)),
    _task("center", 'In "{doc}", centre the title line.', ("heading", "italic"), "editor", 2, ("doc",)),
    _task("points", 'In "{doc}", turn the lines from "{list_first}" to "{list_last}" into a list with {list_words}.',
          ("heading", "center", "append"), "editor", 3, ("doc",)),
    _task("replace", 'In "{doc}", replace every "{find}" by "{put}".', ("star", "bold", "heading"),
          "editor", 5, ("doc",),
          tool=lambda slots: _call("replace_all", document=slots["doc"], find=slots["find"], replace=slots["put"])),
    _task("correct", 'In "{doc}", correct the misspelled word "{typo}" to "{right}".', ("italic", "replace"),
          "editor", 2, ("doc",)),
    _task("remove", 'In "{doc}", remove the paragraph that begins with "{remove_words}".', ("bold", "correct"),
          "editor", 2, ("doc",)),
    _task("append", 'In "{doc}", add the line "{append}" at the end.', ("correct", "remove", "heading"),
          "editor", 4, ("doc",),
          tool=lambda slots: _call("append_line", document=slots["doc"], text=slots["append"])),
    _task("comment", 'In "{doc}", comment on the word "{noted}": "{comment}".', ("bold", "replace", "footer"),
          "editor", 4, ("doc",)),
    _task("footer", 'Give "{doc}" the footer "{footer}".', ("star", "replace"),
          "editor", 5, ("doc",),
          tool=lambda slots: _call("set_footer", document=slots["doc"], text=slots["footer"])),
    Subtask(
        "save", "Save it.", _saved, script.save,
        after=(*_LOOKS, *_TEXTS), at="editor", actions=1, touches=touched("save"),
    ),
    _task("rename", 'Rename "{doc}" to "{title}".', ("comment", "correct", "points", "star"), "editor", 4, ("doc",),
          tool=lambda slots: _call("rename_document", document=slots["doc"], name=slots["title"])),
    Subtask(
        "ask", 'In "{doc}", {ask_words}?', answered("ask"), script.ask,
        after=(START, "star", "delete", "bold", "footer"), at="editor", actions=2, needs=("doc",),
    ),
    Subtask(
        "missing", 'Open the document "{missing}".',
        lambda state, slots: False,
        script.missing,
        after=(START,), at="list", actions=1, feasible=False,
    ),
)  # fmt: skip


# --- slots -----------------------------------------------------------------------------------------------------------
def fill(rng: random.Random, path: tuple[str, ...], state: State) -> Slots:
    """One document for all that is done in the editor, others for the list; every edit has lines of its own."""
    doc, star, copied, gone = rng.sample(state["docs"], 4)
    if "star" in path:
        plain = [one for one in state["docs"] if not one["star"]] or [star]
        star = rng.choice(plain)
        doc, copied, gone = rng.sample([one for one in state["docs"] if one is not star], 3)
    texts = [one["text"] for one in doc["lines"]]
    typo = next(word for word in sorted(TYPOS) if any(word in text.split() for text in texts))
    city = texts[1].split()[2]
    lead = next(k for k, text in enumerate(texts) if text.endswith(":"))
    wrong = next(k for k, text in enumerate(texts) if typo in text.split())
    free = [
        text
        for k, text in enumerate(texts[:-1])
        if k > 1 and not lead <= k <= wrong and city not in text and ": " not in text and not doc["lines"][k]["marks"]
    ]
    bold_line, italic, removed = rng.sample(free, 3)
    names = {one["name"] for one in state["docs"]}
    slots: Slots = {
        "doc": doc["name"], "doc_id": doc["id"],
        "star": star["name"], "star_id": star["id"],
        "copy": copied["name"], "copy_id": copied["id"],
        "delete": gone["name"], "delete_id": gone["id"],
        "new": rng.choice(TITLES[5:]), "title": rng.choice(TITLES[:5]),
        "bold": _word(rng, bold_line, texts), "bold_line": bold_line,
        "italic": italic, "italic_words": " ".join(italic.split()[:3]),
        "remove": removed, "remove_words": " ".join(removed.split()[:3]),
        "heading": texts[lead],
        "heading_style": rng.choice([s for s in ("heading 1", "heading 2") if s != doc["lines"][lead]["style"]]),
        "center": texts[0],
        "list_lines": texts[lead + 1 : wrong], "list_first": texts[lead + 1], "list_last": texts[wrong - 1],
        "list_style": rng.choice(("bullets", "numbers")),
        "find": city, "put": rng.choice([name for name in CITIES if name != city]),
        "typo": typo, "right": TYPOS[typo], "correct_line": texts[wrong],
        "append": rng.choice(APPENDED),
        "noted": _word(rng, rng.choice([text for text in free if text not in (bold_line, removed)]), texts),
        "comment": rng.choice(COMMENTS),
        "footer": rng.choice([text for text in FOOTERS if text != doc["footer"]]),
        "ask": rng.choice(sorted(QUESTIONS)),
        "missing": rng.choice([name for kind in KINDS.values() for name in kind[0] if name not in names]),
    }  # fmt: skip
    slots["list_words"] = slots["list_style"] if slots["list_style"] == "numbers" else "bullet points"
    slots["ask_words"] = QUESTIONS[slots["ask"]]
    return with_goals(path, state, slots, outcome, EFFECTS, {"ask": _asked})


def _word(rng: random.Random, text: str, texts: list[str]) -> str:
    """A word of `text` that stands nowhere else in the document."""
    held = [word.strip(".,:!") for other in texts for word in other.split()]
    pool = [word.strip(".,") for word in text.split() if len(word) > 4]
    return rng.choice([word for word in pool if held.count(word) == 1 and word.isalpha()])


_TEXT = {"type": "string"}
_DOC = {"type": "string", "description": "name of a document"}

TOOLS = (
    ToolSpec.of(f"{NAME}.replace_all", "Replace a text everywhere in a document.",
                {"document": _DOC, "find": _TEXT, "replace": _TEXT}),
    ToolSpec.of(f"{NAME}.rename_document", "Give a document another name.", {"document": _DOC, "name": _TEXT}),
    ToolSpec.of(f"{NAME}.set_footer", "Set the footer of a document.", {"document": _DOC, "text": _TEXT}),
    ToolSpec.of(f"{NAME}.append_line", "Add a line at the end of a document.", {"document": _DOC, "text": _TEXT}),
    ToolSpec.of(f"{NAME}.read_document", "The lines, footer and comments of a document.", {"document": _DOC}),
)  # fmt: skip

NAMES = (
    "document list", "new document", "documents", "title", "page", "footer", "style list", "bold", "italic",
    "underline", "bullets", "numbers", "align left", "align center", "align right", "comment button", "find button",
    "file menu", "edit menu", "insert menu", "format menu", "save", "rename", "close", "undo", "find and replace",
    "comment", "centre", "bulleted list", "numbered list", "normal style", "heading 1 style", "heading 2 style",
    "find box", "replace box", "comment box", "footer box", "name box", "cancel", "replace all", "add", "apply",
    "create", "delete", "open", "duplicate",
)  # fmt: skip

APP = DESKTOP.app(
    NAME,
    ("quill",),
    subtasks=SUBTASKS,
    tools=TOOLS,
    initial=initial,
    sample_state=sample_state,
    facts=screen_facts,
    fill=fill,
    outcome=outcome,
    home="list",
    names=NAMES,
    most_actions=16,
    pools=dict.fromkeys(("doc", "star", "copy", "delete"), tuple(name for kind in KINDS.values() for name in kind[0])),
)
