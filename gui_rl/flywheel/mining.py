"""Grounding data from what is there already: trajectories, tutorials, and pairs that do not fit (GUI-Owl-1.5, 2.2.1).

In: stored episodes; HTML, Markdown or subtitle files; shots and their queries. Out: one-turn episodes (`shots`), or
question-place pairs. What is left out is counted by its reason.
"""

from __future__ import annotations

import dataclasses
import hashlib
import html
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from env_servers.protocol.actions import GRID
from gui_rl.data.schema import Episode
from gui_rl.errors import UserError
from gui_rl.flywheel.annotator import Annotator, AnnotatorError, Question, ask_json
from gui_rl.flywheel.shots import CLICK, Element, Query, Shot, episode_of

LARGEST = 0.25
"""Share of the screen that a mined box may cover."""


def mine(episodes: Iterable[Episode], counts: Counter) -> Iterator[Episode]:
    """Queries from the clicks of trajectories: the step's sentence, and the box of the element that was clicked.

    Dropped, and counted: turns that are no training samples or no clicks, without a box or a sentence, whose box covers
    more than `LARGEST` of the screen or does not hold the click, that are on another device than the episode began on;
    sentences that mean several boxes on one screenshot, and repetitions.
    """
    found: dict[tuple[str, str], list[tuple[Any, ...]]] = defaultdict(list)
    for episode in episodes:
        width, height = episode.screen_size
        for turn in episode.turns:
            call = (turn.action or {}).get("arguments", {})
            place, box = call.get("coordinate"), turn.target_box
            if not turn.use or call.get("action") != CLICK.get(episode.device_of(turn)) or place is None:
                counts["no click"] += 1
            elif turn.device:
                counts["not the episode's screen"] += 1
            elif box is None or not turn.conclusion:
                counts["no box or sentence"] += 1
            elif (box[2] - box[0]) * (box[3] - box[1]) > LARGEST * GRID * GRID:
                counts["covers the screen"] += 1
            elif not (box[0] <= place[0] <= box[2] and box[1] <= place[1] <= box[3]):
                counts["click outside the box"] += 1
            else:
                key = (hashlib.sha256(turn.screenshot).hexdigest(), turn.conclusion)
                pixels = tuple(v * s / GRID for v, s in zip(box, (width, height) * 2, strict=True))
                found[key].append((episode, turn, pixels))
    for number, ((_, sentence), places) in enumerate(found.items()):
        if len({box for *_, box in places}) > 1:
            counts["not unique"] += len(places)
            continue
        counts["repeated"] += len(places) - 1
        episode, turn, box = places[0]
        shot = Shot(f"{episode.id}/{turn.index}", turn.screenshot, *episode.screen_size, (), (), episode.device)
        query = Query("mined", sentence, Element(sentence, box))
        made_by = {"query": f"the step's sentence ({episode.source})", "box": "the trajectory"}
        counts["kept"] += 1
        yield episode_of("trajectories", shot, query, number, made_by, episode.origin, episode.licence)


@dataclasses.dataclass(frozen=True)
class Pair:
    """What a tutorial says: to reach `question`, go to `place`. `sentence` is where it says so."""

    question: str
    place: str
    sentence: str
    source: str
    made_by: str


_MARK = "\x01{}\x02"
_MARKED = re.compile(r"\x01([^\x01\x02]{1,60})\x02")
_VERB = r"(?:click|press|tap|select|choose|open|hit)(?: on)?(?: the)?"
_AHEAD = re.compile(rf"^To ([^,\x01]{{3,100}}), {_VERB} \x01([^\x01\x02]{{1,60}})\x02", re.IGNORECASE)
_BEHIND = re.compile(rf"^{_VERB} \x01([^\x01\x02]{{1,60}})\x02(?: \w+)? to ([^.;:\x01]{{3,100}})", re.IGNORECASE)


def sentences(path: Path) -> list[str]:
    """The sentences of a tutorial; names that its markup sets off stand between U+0001 and U+0002.

    HTML (b, strong, kbd, button, quotes), Markdown (bold, quotes), subtitles (srt, vtt: quotes). Raises UserError for
    another kind of file or one that cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: this tutorial cannot be read ({error})") from None
    kind = path.suffix.lower()
    if kind in (".html", ".htm"):
        text = re.sub(r"<(script|style)\b.*?</\1>", " ", text, flags=re.DOTALL | re.IGNORECASE)
        marked = r"<(b|strong|kbd|button)\b[^>]*>([^<]+)</\1>"
        text = re.sub(marked, lambda m: _MARK.format(m[2].strip()), text, flags=re.IGNORECASE)
        text = re.sub(r"</?(p|li|h\d|td|div|br|tr)\b[^>]*>", "\n\n", text, flags=re.IGNORECASE)
        text = html.unescape(re.sub(r"<[^>]+>", "", text))
    elif kind in (".md", ".markdown"):
        text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
        text = re.sub(r"(\*\*|__)([^*_\n]+?)\1", lambda m: _MARK.format(m[2].strip()), text)
        text = re.sub(r"^#+ .*$", "\n", text, flags=re.MULTILINE)
        text = re.sub(r"^\s*(?:[-*+]|\d+\.|>)\s+", "\n\n", text, flags=re.MULTILINE)
    elif kind in (".srt", ".vtt"):
        keep = [r for r in text.splitlines() if r.strip() and "-->" not in r and not r.strip().isdigit()
                and not r.startswith(("WEBVTT", "NOTE"))]  # fmt: skip
        text = " ".join(keep)
    else:
        raise UserError(f"{path}: a tutorial is .html, .md, .srt or .vtt, not {kind or 'a file without an ending'}")
    text = re.sub(r"[\"“]([^\"“”\n\x01\x02]{1,60})[\"”]", lambda m: _MARK.format(m[1]), text)
    blocks = (" ".join(block.split()) for block in re.split(r"\n\s*\n", text))
    return [part for block in blocks for part in re.split(r"(?<=[.!?])\s+", block) if part]


def pairs_by_rule(path: Path) -> list[Pair]:
    """The pairs that a fixed rule reads: "To X, click **Y**" and "Click **Y** to X". Nothing is guessed."""
    found = []
    for sentence in sentences(path):
        plain = re.sub("[\x01\x02]", "", sentence)
        if match := _AHEAD.match(sentence):
            goal, place = match[1], match[2]
        elif match := _BEHIND.match(sentence):
            place, goal = match[1], match[2]
        else:
            continue
        goal = goal.strip().rstrip(".!")
        found.append(Pair(f"Where do you click to {goal}?", place.strip(), plain, path.name, "exact"))
    return found


async def pairs_by_annotator(annotator: Annotator, path: Path, counts: Counter, portion: int = 30) -> list[Pair]:
    """The pairs that an annotator reads, `portion` sentences at a time; a place that the text does not name is none."""
    text, found = [re.sub("[\x01\x02]", "", sentence) for sentence in sentences(path)], []
    for start in range(0, len(text), portion):
        part = "\n".join(text[start : start + portion])
        question = Question(
            "tutorial",
            "Read this part of a tutorial. List what a reader wants to do and the control to click for it, as JSON "
            '[{"question": "Where do you click to ...?", "place": "name of the control, as written"}].\n\n' + part,
            "You find controls in the documentation of programs.",
        )
        try:
            answers = await ask_json(annotator, question, lambda v: [(str(p["question"]), str(p["place"])) for p in v])
        except AnnotatorError:
            counts["no answer"] += 1
            continue
        for asked, place in answers:
            if place and place in part:
                found.append(Pair(asked, place, part, path.name, annotator.name))
            else:
                counts["place not in the text"] += 1
    return found


def located(pairs: Sequence[Pair], shots: Sequence[Shot]) -> Iterator[Episode]:
    """The pairs whose place exactly one element of a shot is called (by its text, or as "the NAME icon")."""
    for number, pair in enumerate(pairs):
        wanted = pair.place.casefold()
        for shot in shots:
            fits = [
                e for e in shot.elements if wanted == e.text.casefold() or f"the {wanted} icon" == e.name.casefold()
            ]
            if len(fits) == 1:
                made_by = {"query": pair.made_by, "box": "the page"}
                yield episode_of(
                    "tutorials", shot, Query("tutorial", pair.question, fits[0]), number, made_by, pair.source
                )
                break


@dataclasses.dataclass(frozen=True)
class Paired:
    """A query and a shot that was drawn for it at random; what an `Exact` judge is told."""

    query: Query
    shot: Shot


def possible(pair: Paired) -> dict[str, bool]:
    """The exact judge of `infeasible`: whether anything on the shot is called, looks or does what the query says.

    What is covered, cut or there twice counts as being there.
    """
    wanted, sides = pair.query.element, ("name", "does", "look")
    there = (*pair.shot.elements, *pair.shot.obstacles)
    shown = {getattr(e, side) for e in there for side in sides} - {""}
    text = {e.text for e in there} - {""}
    hit = any(getattr(wanted, side) in shown for side in sides) or wanted.text in text
    return {"possible": hit}


async def infeasible(
    shots: Sequence[Shot], queries: Sequence[Query], judges: Sequence[Annotator], rng: Any, counts: Counter
) -> list[Episode]:
    """Each query with a shot drawn at random, kept if every judge says that it cannot be done there.

    Queries by position are left out, since what they point at depends on the screen. `counts` gets `kept`, `possible`
    (some judge said so) and `no answer`.
    """
    if not judges:
        raise UserError("infeasible queries need at least one judge")
    kept = []
    for number, query in enumerate(q for q in queries if q.way != "position"):
        shot = shots[int(rng.integers(len(shots)))]
        question = Question(
            "infeasible",
            f"Can this be done on the screen that you see? {query.text} Answer as JSON: "
            '{"possible": true} or {"possible": false}.',
            "You judge whether a control is on a screenshot.",
            (shot.png,),
            Paired(query, shot),
        )
        try:
            said = [await ask_json(judge, question, _possible) for judge in judges]
        except AnnotatorError:
            counts["no answer"] += 1
            continue
        if any(said):
            counts["possible"] += 1
            continue
        counts["kept"] += 1
        made_by = {"query": "exact", "consensus": ", ".join(judge.name for judge in judges)}
        kept.append(episode_of("infeasible", shot, dataclasses.replace(query, element=None), number, made_by))
    return kept


def _possible(value: Any) -> bool:
    if not isinstance(value["possible"], bool):
        raise ValueError("possible is neither true nor false")
    return value["possible"]
