"""The tasks of several programs: what is read in one of them is used in another.

Documents are those of the suite `libreoffice`: a workbook of goods (`Book`), a letter (`Letter`).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from ..apps.mail.content import mails
from ..libreoffice.calc import GOODS, Book
from ..libreoffice.case import SAVE, Part
from ..libreoffice.writer import Letter
from .case import Job, Kind

_NAMES = "autumn budget copy draft final harvest master orders plan quarter review spring summer winter".split()
_FOLDERS = "Archive Backup Done Ready Sent".split()
_FILES, _SHELL, _NOTE = ("click", "File manager"), ("click", "Terminal"), ("click", "Text editor")
_TO_END = (("click", "Document"), ("key", "ctrl", "end"))


# --- pieces of work --------------------------------------------------------------------------------------------------
def _enter(cell: str, value: Any) -> Part:
    return Part((("click", cell), ("type", f"{value}\n")), (("set_cell_value", {"cell": cell, "value": str(value)}),))


def _by_hand(*moves: tuple[Any, ...]) -> Part:
    return Part(moves)


def _pick(names: list[str], name: str) -> tuple[tuple[Any, ...], ...]:
    """Select an icon of the file manager by the arrow keys; names: all, folders first, as it sorts them."""
    return _FILES, ("key", "home"), *((("key", "right"),) * names.index(name))


def _command(line: str) -> Part:
    return _by_hand(_SHELL, ("type", f"{line}\n"))


def _new_units(book: Book, rng: random.Random) -> tuple[str, str, int]:
    """(goods, cell of its units, a new value)."""
    k = rng.randrange(len(book.rows))
    return book.rows[k][0], f"B{k + 2}", rng.randint(100, 999)


def _note(rng: random.Random, lines: list[str]) -> str:
    """The lines in any order, each with its break."""
    return "".join(f"{line}\n" for line in rng.sample(lines, len(lines)))


# --- file manager ----------------------------------------------------------------------------------------------------
def _rename(rng: random.Random) -> Job:
    book = Book(rng)
    item, cell, value = _new_units(book, rng)
    name = rng.choice(_NAMES)
    beside = {"notes.txt": _note(rng, rng.sample(GOODS, 3))}
    hand = (*_pick(["notes.txt", "report.ods"], "report.ods"), ("key", "f2"), ("type", f"{name}\n"))
    parts = (_enter(cell, value), SAVE, _by_hand(*hand))
    slots = {"item": item, "value": value, "name": f"{name}.ods"}
    return Job(slots, book.model, book.put({cell: value}), parts, programs=("files",), beside=beside,
               place=f"{name}.ods")  # fmt: skip


def _move(rng: random.Random) -> Job:
    letter = Letter(rng)
    line, folder = f"PS: see you in {letter.new}", rng.choice(_FOLDERS)
    beside = {f"{folder}/{letter.here}.txt": f"{letter.sender}\n"}
    names = [folder, "letter.odt"]
    hand = (*_pick(names, "letter.odt"), ("key", "ctrl", "x"), ("key", "home"), ("key", "enter"), ("key", "ctrl", "v"))
    parts = (_by_hand(("key", "ctrl", "end"), ("type", f"\n{line}")), SAVE, _by_hand(*hand))
    after = letter.with_lines([*letter.lines, line])
    return Job({"line": line, "folder": folder}, letter.model, after, parts, programs=("files",), beside=beside,
               place=f"{folder}/letter.odt")  # fmt: skip


def _delete(rng: random.Random) -> Job:
    book = Book(rng)
    item, cell, value = _new_units(book, rng)
    files = {f"{name}.txt": f"{good}\n" for name, good in zip(rng.sample(_NAMES, 3), rng.sample(GOODS, 3), strict=True)}
    gone = rng.choice(sorted(files))
    hand = (*_pick(sorted([*files, "report.ods"]), gone), ("key", "delete"), ("key", "enter"))
    slots, left = {"item": item, "value": value, "name": gone}, {k: v for k, v in files.items() if k != gone}
    return Job(slots, book.model, book.put({cell: value}), (_enter(cell, value), SAVE, _by_hand(*hand)),
               programs=("files",), beside=files, files=left)  # fmt: skip


# --- text editor -----------------------------------------------------------------------------------------------------
def _from_note(rng: random.Random) -> Job:
    book = Book(rng)
    prices = dict(zip([row[0] for row in book.rows], rng.sample(range(1000, 2000), len(book.rows)), strict=True))
    k = rng.randrange(len(book.rows))
    item, cell = book.rows[k][0], f"C{k + 2}"
    note = _note(rng, [f"{name}: {price}" for name, price in prices.items()])
    parts = (_enter(cell, prices[item]), SAVE)
    return Job({"item": item}, book.model, book.put({cell: prices[item]}), parts, programs=("editor",),
               beside={"notes.txt": note}, opened="notes.txt")  # fmt: skip


def _new_day(rng: random.Random) -> Job:
    letter = Letter(rng)
    old, new = letter.later, letter.never
    note = _note(rng, [f"The {letter.other} is wanted by {new}.", f"{letter.reader} lives in {letter.here}."])
    hand = (
        ("key", "ctrl", "h"), ("type", old), ("key", "alt", "p"), ("type", new), ("click", "Replace All"),
        ("click", "Close"),
    )  # fmt: skip
    change = Part(hand, (("find_and_replace", {"pattern": old, "replacement": new}),))
    after = letter.with_lines([line.replace(old, new) for line in letter.lines])
    return Job({"old": old}, letter.model, after, (change, SAVE), programs=("editor",), beside={"notes.txt": note},
               opened="notes.txt")  # fmt: skip


def _into_note(text: Callable[[Any], str], document: Callable[[random.Random], Any], name: str):
    """Tasks that add a line from the document to a text file, which has to be saved."""

    def make(rng: random.Random) -> Job:
        held = document(rng)
        note = _note(rng, [f"Call {name}" for name in rng.sample(_NAMES, 3)])
        line = text(held)
        hand = _by_hand(_NOTE, ("key", "ctrl", "end"), ("type", f"{line}\n"), ("key", "ctrl", "s"))
        return Job({"file": name}, held.model, None, (hand,), programs=("editor",), beside={name: note}, opened=name,
                   files={name: f"{note}{line}\n"})  # fmt: skip

    return make


# --- terminal --------------------------------------------------------------------------------------------------------
def _count(pattern: str, find: Callable[[list[str], str], Any], command: str):
    """Tasks that write a command's result about a log of seeded lines into a cell. pattern: of a line."""

    def make(rng: random.Random) -> Job:
        book = Book(rng)
        cities = [row[3] for row in book.rows]
        chosen = rng.choice(cities)
        lines = [pattern.format(n=n, city=rng.choice(cities), number=rng.randint(1000, 9999))
                 for n in range(rng.randint(60, 90))]  # fmt: skip
        lines.append(pattern.format(n=len(lines), city=chosen, number=rng.randint(1000, 9999)))
        cell, value = f"E{rng.randint(2, 6)}", find(lines, chosen)
        parts = (_command(command.format(city=chosen)), _enter(cell, value), SAVE)
        return Job({"cell": cell, "city": chosen}, book.model, book.put({cell: value}), parts, programs=("terminal",),
                   beside={"log.txt": "".join(f"{line}\n" for line in lines)})  # fmt: skip

    return make


def _first_name(rng: random.Random) -> Job:
    letter = Letter(rng)
    words = rng.sample(sorted({*GOODS, *_NAMES}), 20)
    line = min(words)
    after = letter.with_lines([*letter.lines, line])
    parts = (_command("sort words.txt | head -n 1"), _by_hand(*_TO_END, ("type", f"\n{line}")), SAVE)
    return Job({}, letter.model, after, parts, programs=("terminal",), beside={"words.txt": _note(rng, words)})


def _put_away(rng: random.Random) -> Job:
    book = Book(rng)
    item, cell, value = _new_units(book, rng)
    folder = rng.choice(_NAMES)
    parts = (_enter(cell, value), SAVE, _command(f"mkdir {folder}; mv report.ods {folder}/"))
    return Job({"item": item, "value": value, "folder": folder}, book.model, book.put({cell: value}), parts,
               programs=("terminal",), place=f"{folder}/report.ods")  # fmt: skip


def _read_and_count(rng: random.Random) -> Job:
    """Three programs: the note says which file."""
    book = Book(rng)
    names = [f"{name}.txt" for name in rng.sample(_NAMES, 3)]
    files = {name: "".join(f"{rng.choice(GOODS)}\n" for _ in range(count))
             for name, count in zip(names, rng.sample(range(20, 90), 3), strict=True)}  # fmt: skip
    chosen, cell = rng.choice(names), f"E{rng.randint(2, 6)}"
    value = files[chosen].count("\n")
    parts = (_command(f"wc -l {chosen}"), _enter(cell, value), SAVE)
    beside = {**files, "note.txt": f"The file that counts is {chosen}\n"}
    return Job({"cell": cell}, book.model, book.put({cell: value}), parts, programs=("editor", "terminal"),
               beside=beside, opened="note.txt")  # fmt: skip


# --- mail ------------------------------------------------------------------------------------------------------------
class Post:
    """An inbox in which one mail of a person says something: `who`, `mails`."""

    def __init__(self, rng: random.Random, subject: str, *lines: str, file: str = "") -> None:
        self.mails = mails(rng)
        people = [
            mail for mail in self.mails if mail["folder"] == "Inbox" and mail["address"].endswith("@post.example")
        ]
        mail = rng.choice([mail for mail in people[:8] if not mail["files"]])
        self.who, self.address = mail["from"], mail["address"]
        files = [{"name": file, "size": "1 KB"}] if file else []
        mail |= {"subject": subject, "lines": [*lines, f"Best wishes, {self.who.split()[0]}"], "files": files}

    @property
    def read(self) -> Part:
        """Open it."""
        return Part((("click", f"mail from {self.who}"),), (("mail.read_mail", {"sender": self.who}),))

    def answer(self, text: str) -> tuple[Part, dict[str, Any]]:
        """(a reply, the mail being open; the fact that it was sent)."""
        hand = (("click", "reply"), ("click", "text box"), ("type", text), ("click", "send"))
        fact = {f"sent:reply:{self.who}:{self.address}::{text}": 1}
        return Part(hand, (("mail.reply", {"sender": self.who, "text": text}),)), fact


def _figure(rng: random.Random) -> Job:
    book = Book(rng)
    item, cell, value = _new_units(book, rng)
    post = Post(rng, f"Count of {item}", f"I counted again: we have {value} of {item}.", "The old number was wrong.")
    return Job({"item": item, "who": post.who}, book.model, book.put({cell: value}),
               (post.read, _enter(cell, value), SAVE), programs=("mail",), mails=tuple(post.mails))  # fmt: skip


def _total(rng: random.Random) -> Job:
    book = Book(rng)
    post = Post(rng, "Stock", "How many units do we have in all?", "Just send me the number.")
    part, fact = post.answer(str(sum(row[1] for row in book.rows)))
    return Job({"who": post.who}, book.model, None, (post.read, part), programs=("mail",), mails=tuple(post.mails),
               told=fact)  # fmt: skip


def _figure_and_total(rng: random.Random) -> Job:
    book = Book(rng)
    item, cell, value = _new_units(book, rng)
    post = Post(rng, f"Count of {item}", f"We have {value} of {item}.", "What is the total of all units then?")
    after = book.put({cell: value})
    total = value + sum(row[1] for row in book.rows if row[0] != item)
    part, fact = post.answer(str(total))
    return Job({"item": item, "who": post.who}, book.model, after, (post.read, _enter(cell, value), SAVE, part),
               programs=("mail",), mails=tuple(post.mails), told=fact)  # fmt: skip


def _attachment(rng: random.Random) -> Job:
    letter = Letter(rng)
    name, line = f"{rng.choice(_NAMES)}.txt", f"PS: see you in {letter.new}"
    post = Post(rng, "The paper", f"Here is the {letter.thing} for {letter.reader}.", file=name)
    text = f"{letter.thing} for {letter.reader}\n"
    parts = (
        _by_hand(("key", "ctrl", "end"), ("type", f"\n{line}")), SAVE,
        _by_hand(("click", f"mail from {post.who}"), ("click", "save file")),
    )  # fmt: skip
    return Job({"who": post.who, "line": line}, letter.model, letter.with_lines([*letter.lines, line]), parts,
               programs=("mail",), mails=tuple(post.mails), attached={name: text}, files={name: text},
               told={f"saved:{post.who}: {name}": True})  # fmt: skip


def _sender(rng: random.Random) -> Job:
    letter = Letter(rng)
    post = Post(rng, "A question", f"Who has signed the letter to {letter.reader}?", "First and last name, please.")
    part, fact = post.answer(letter.sender)
    return Job({"who": post.who}, letter.model, None, (post.read, part), programs=("mail",), mails=tuple(post.mails),
               told=fact)  # fmt: skip


# --- what cannot be done ---------------------------------------------------------------------------------------------
def _absent_attachment(rng: random.Random) -> Job:
    letter = Letter(rng)
    post = Post(rng, "The paper", f"I will send the {letter.thing} next week.")
    return Job({"who": post.who}, letter.model, None, programs=("mail",), mails=tuple(post.mails))


def _absent_file(rng: random.Random) -> Job:
    letter = Letter(rng)
    here, there, name = rng.sample(_NAMES, 3)
    slots = {"old": f"{there}.txt", "name": f"{name}.txt"}
    return Job(slots, letter.model, None, programs=("files",), beside={f"{here}.txt": f"{letter.sender}\n"})


def _absent_price(rng: random.Random) -> Job:
    book = Book(rng)
    item, *others = [row[0] for row in book.rows]
    note = _note(rng, [f"{name}: {rng.randint(1000, 2000)}" for name in others])
    return Job({"item": item}, book.model, None, programs=("editor",), beside={"notes.txt": note}, opened="notes.txt")


_LOG = "line {n}: parcel {number} to {city}"
KINDS: tuple[Kind, ...] = (
    Kind("files/rename", "Set the units of {item} to {value}, save, and then rename the workbook's file to {name} in "
         "the file manager.", _rename, tags=("files",)),
    Kind("files/move", "Add a new last line that says: {line} . Save, and then move the letter's file into the folder "
         "{folder}.", _move, tags=("files",), program="writer"),
    Kind("files/delete", "Set the units of {item} to {value}, save, and delete the file {name}.", _delete,
         tags=("files",)),
    Kind("editor/price", "Set the price of {item} to the one in notes.txt, and save.", _from_note, tags=("editor",)),
    Kind("editor/day", "Replace {old} in the letter by the day that notes.txt gives, and save.", _new_day,
         tags=("editor",), program="writer"),
    Kind("editor/sum", "Add to the end of {file} a line that says Total and the sum of all units of the workbook, such "
         "as Total 12 , and save that file.", _into_note(lambda book: f"Total {sum(row[1] for row in book.rows)}", Book,
                                                      "stock.txt"), tags=("editor",)),
    Kind("editor/signer", "Add to the end of {file} a line with the first and last name of who signed the letter, and "
         "save that file.", _into_note(lambda letter: letter.sender, Letter, "people.txt"), tags=("editor",),
         program="writer"),
    Kind("terminal/lines", "Write into {cell} how many lines log.txt has, and save.",
         _count(_LOG, lambda lines, city: len(lines), "wc -l log.txt"), tags=("terminal",)),
    Kind("terminal/grep", "Write into {cell} how many lines of log.txt name {city}, and save.",
         _count(_LOG, lambda lines, city: sum(city in line for line in lines), "grep -c {city} log.txt"),
         tags=("terminal",)),
    Kind("terminal/largest", "Write into {cell} the largest number in log.txt, and save.",
         _count("{number}", lambda lines, city: max(map(int, lines)), "sort -n log.txt | tail -n 1"),
         tags=("terminal",)),
    Kind("terminal/first", "Sort words.txt as the terminal's sort does, add the first word as a new last line to the "
         "letter, and save.", _first_name, tags=("terminal",), program="writer"),
    Kind("terminal/folder", "Set the units of {item} to {value}, save, and then move the workbook's file into a new "
         "folder {folder} beside it.", _put_away, tags=("terminal",)),
    Kind("terminal/note", "Write into {cell} how many lines the file has that the note speaks of, and save.",
         _read_and_count, tags=("editor", "terminal")),
    Kind("mail/figure", "Set the units of {item} to the number that {who} has mailed, and save.", _figure,
         tags=("mail",)),
    Kind("mail/total", "Answer the mail from {who}: reply with the number alone.", _total, tags=("mail",)),
    Kind("mail/both", "Set the units of {item} to the number that {who} has mailed, save, and reply with the new total "
         "of all units, the number alone.", _figure_and_total, tags=("mail",)),
    Kind("mail/attachment", "Add a new last line that says: {line} . Save, and save the file from the mail of {who}.",
         _attachment, tags=("mail",), program="writer"),
    Kind("mail/signer", "Answer the mail from {who}: reply with the name alone.", _sender, tags=("mail",),
         program="writer"),
    Kind("mail/absent-attachment", "Save the file from the mail of {who}.", _absent_attachment, feasible=False,
         tags=("mail",), program="writer"),
    Kind("files/absent-file", "Rename the file {old} to {name}.", _absent_file, feasible=False, tags=("files",),
         program="writer"),
    Kind("editor/absent-price", "Set the price of {item} to the one in notes.txt, and save.", _absent_price,
         feasible=False, tags=("editor",)),
)  # fmt: skip
