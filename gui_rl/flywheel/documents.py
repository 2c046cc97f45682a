"""Documentation files to passages: Markdown, HTML or plain text, cut at the headings, with their pictures.

In: a file or a folder. Out: `Passage`s of a bounded length, cleaned: no navigation, scripts or styles, nothing twice,
nothing too short to say anything.
"""

from __future__ import annotations

import dataclasses
import io
import math
import re
from collections import Counter
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

from markdown_it import MarkdownIt
from PIL import Image, UnidentifiedImageError

from gui_rl.errors import UserError

SUFFIXES = (".md", ".markdown", ".html", ".htm", ".txt")
SHORTEST, LONGEST = 80, 4000
"""Characters of a passage; a longer section is cut between its paragraphs."""
_SKIPPED = frozenset(("script", "style", "nav", "header", "footer", "noscript", "template", "svg", "head"))
_HEADINGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
_BLOCKS = frozenset(("p", "li", "tr", "div", "section", "pre", "br", "table", "ul", "ol", "blockquote", "dt", "dd"))


@dataclasses.dataclass(frozen=True)
class Passage:
    """A section of a document. `source`: its file, from the folder that was named. `pictures`: PNG bytes."""

    source: str
    title: str
    text: str
    pictures: tuple[bytes, ...] = ()


def read_documents(path: Path, counts: Counter[str]) -> list[Passage]:
    """The passages of a file, or of every document below a folder, in the order of their names.

    counts: `passages`, and what was left out: `too short`, `repeated`, `no picture` (one that cannot be read, or lies
    outside the folder), `no text` (a file that is not UTF-8).
    Raises UserError where there is no document.
    """
    root = path if path.is_dir() else path.parent
    files = sorted(p for p in path.rglob("*") if p.suffix.lower() in SUFFIXES) if path.is_dir() else [path]
    if not files or not all(file.is_file() and file.suffix.lower() in SUFFIXES for file in files):
        raise UserError(f"{path}: no documentation there; it is read from files that end in {', '.join(SUFFIXES)}")
    seen: set[str] = set()
    passages: list[Passage] = []
    for file in files:
        try:
            content = file.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            counts["no text"] += 1
            continue
        for title, text, links in _sections(file, content):
            for piece, number in zip(_pieces(text), range(10**6), strict=False):
                if len(piece) < SHORTEST:
                    counts["too short"] += 1
                elif piece in seen:
                    counts["repeated"] += 1
                else:
                    seen.add(piece)
                    pictures = [_picture(root, file, link, counts) for link in links] if number == 0 else []
                    found = tuple(picture for picture in pictures if picture is not None)
                    passages.append(Passage(str(file.relative_to(root)), title, piece, found))
    counts["passages"] += len(passages)
    return passages


def retrieve(passages: Sequence[Passage], query: str) -> str:
    """The passage that tells most about a query: rare words that both have count most; "" where they share none.

    This is K of GUI-Owl-1.5's Manager (section 2.3.3).
    """
    words = [frozenset(re.findall(r"\w+", f"{passage.title} {passage.text}".lower())) for passage in passages]
    often = Counter(word for found in words for word in found)
    asked = frozenset(re.findall(r"\w+", query.lower()))

    def worth(found: frozenset[str]) -> float:
        return sum(math.log((1 + len(passages)) / often[word]) for word in sorted(asked & found))

    best = max(range(len(passages)), key=lambda index: worth(words[index]), default=None)
    return passages[best].text if best is not None and asked & words[best] else ""


def _sections(file: Path, content: str) -> list[tuple[str, str, list[str]]]:
    """(heading, text, links of pictures) of a document, in order."""
    suffix = file.suffix.lower()
    if suffix == ".txt":
        return [(file.stem, content, [])]
    reader = _Reader(file.stem)
    reader.feed(content if suffix.startswith(".htm") else MarkdownIt("commonmark").enable("table").render(content))
    reader.close()
    return [(title.strip(), text, links) for title, text, links in reader.sections]


class _Reader(HTMLParser):
    def __init__(self, title: str):
        super().__init__(convert_charrefs=True)
        self.sections: list[tuple[str, str, list[str]]] = [(title, "", [])]
        self._skipping: list[str] = []
        self._heading = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _SKIPPED:
            self._skipping.append(tag)
        elif tag in _HEADINGS and not self._skipping:
            self.sections.append(("", "", []))
            self._heading = True
        elif tag in _BLOCKS:
            self.handle_data("\n")
        elif tag == "img" and not self._skipping and (link := dict(attrs).get("src")):
            self.sections[-1][2].append(link)

    def handle_endtag(self, tag: str) -> None:
        if tag in self._skipping:
            while self._skipping.pop() != tag:
                pass
        elif tag in _HEADINGS:
            self._heading = False
        elif tag in _BLOCKS:
            self.handle_data("\n")

    def handle_data(self, data: str) -> None:
        if self._skipping:
            return
        title, text, links = self.sections[-1]
        self.sections[-1] = (title + data, text, links) if self._heading else (title, text + data, links)


def _pieces(text: str) -> list[str]:
    """The text in clean paragraphs, cut where it is longer than `LONGEST`."""
    paragraphs = [re.sub(r"\s+", " ", line).strip() for line in text.split("\n")]
    pieces, piece = [], ""
    for paragraph in filter(None, paragraphs):
        if piece and len(piece) + len(paragraph) >= LONGEST:
            pieces.append(piece)
            piece = ""
        piece += ("\n" if piece else "") + paragraph[:LONGEST]
    return [*pieces, piece] if piece else pieces


def _picture(root: Path, file: Path, link: str, counts: Counter[str]) -> bytes | None:
    try:
        place = (file.parent / unquote(link)).resolve()
        if not place.is_relative_to(root.resolve()):
            raise OSError("outside the folder")
        stream = io.BytesIO()
        Image.open(place).convert("RGB").save(stream, "PNG")
        return stream.getvalue()
    except (OSError, ValueError, UnidentifiedImageError):
        counts["no picture"] += 1
        return None
