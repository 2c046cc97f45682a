"""GUI knowledge: questions about documentation, about the steps of trajectories, and about what an action changes.

In: documentation files and an annotator, or trajectories with the world's word about them (GUI-Owl-1.5, 2.3.1).
Out: `Pair`s, and the one-turn episodes that hold them: the question is the prompt, the answer the response, so that
they are stored and fed like everything else.
- *qa*, *vqa*: task-level questions on a passage, step-level ones on its pictures; every answer comes with the words of
  the passage that it is taken from, and one whose words are not there is rubbish;
- *step*: what has been done, what is next, which element: exact, from the task's script;
- *world*: the screen and the action -> what changes: exact from the states before and after, else by the annotator.
"""

from __future__ import annotations

import dataclasses
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from PIL import Image

from gui_rl.data.schema import Episode, Turn
from gui_rl.errors import UserError
from gui_rl.flywheel.annotator import Annotator, AnnotatorError, Exact, Question, RubbishError, ask_json
from gui_rl.flywheel.documents import Passage
from gui_rl.flywheel.witness import Seen, Witnessed
from gui_rl.prompt.images import shared
from gui_rl.prompt.render import encode_response, render_messages, render_question
from gui_rl.rollout.agents import Prompts

QA = (
    "From the documentation of a program:\n{passage}\nWrite up to {count} questions that somebody who works with the "
    "program may ask, with short answers that this text gives. Each stands by itself, without a word of the text or of "
    "these instructions. `quote` is the words of the text that give the answer, letter by letter. Answer with JSON: "
    '{{"pairs": [{{"question": "...", "answer": "...", "quote": "..."}}]}}, an empty list where the text gives none.'
)
VQA = (
    "The picture belongs to this text of a program's documentation:\n{passage}\nWrite up to {count} questions about "
    "the picture: what to press next, where something is, what a control does. `quote` is the words of the text that "
    'give the answer, letter by letter. Answer with JSON: {{"pairs": [{{"question": "...", "answer": "...", '
    '"quote": "..."}}]}}, an empty list where the text says nothing of the picture.'
)
WORLD = (
    "A GUI agent did this on the screen of the first picture: {action}\nThe second picture is the screen after it. "
    "Describe what has changed (dialogs, texts, focus, selected or updated elements), in one to three sentences, so "
    'that one who sees the first picture alone would know the second. Answer with JSON: {{"change": "..."}}'
)
DONE, NEXT, ELEMENT, CHANGES = (
    "What is done?",
    "What is next?",
    "What is to be pressed next?",
    "What is the next screen?",
)


@dataclasses.dataclass(frozen=True)
class Pair:
    """A question with its answer. `kind`: qa, vqa, step or world. `device`: "" without a screen. `origin`: the file or
    the episode that it is from; `annotator`: who answered."""

    kind: str
    question: str
    answer: str
    annotator: str
    origin: str
    device: str = ""
    screenshot: bytes | None = None
    licence: str = ""


# --- from documentation ----------------------------------------------------------------------------------------------
async def document_pairs(
    annotator: Annotator, passages: Sequence[Passage], device: str, counts: Counter[str], most: int = 4
) -> list[Pair]:
    """Questions on passages and their pictures; without a usable answer it counts (`rubbish qa`, `unanswered vqa`)."""
    pairs: list[Pair] = []
    for passage in passages:
        asked = [("qa", QA, None), *(("vqa", VQA, picture) for picture in passage.pictures)]
        for kind, template, picture in asked:
            text = template.format(passage=f"{passage.title}\n{passage.text}", count=most)
            question = Question(kind, text, images=() if picture is None else (picture,))
            try:
                found = await ask_json(annotator, question, lambda value, p=passage: _pairs(value, p, most))
            except AnnotatorError as error:
                counts[f"{_fault(error)} {kind}"] += 1
                continue
            shown = {"device": device, "screenshot": picture} if picture is not None else {}
            made = [Pair(kind, ask, answer, annotator.name, passage.source, **shown) for ask, answer in found]
            pairs += made
            counts[kind] += len(made)
    return pairs


def _pairs(value: Any, passage: Passage, most: int) -> list[tuple[str, str]]:
    items = value["pairs"]
    if not isinstance(items, list) or len(items) > most:
        raise ValueError(f"need a list of at most {most} pairs")
    text, found = _spaced(f"{passage.title} {passage.text}"), []
    for item in items:
        ask, answer, quote = (_spaced(item[name]) for name in ("question", "answer", "quote"))
        if not (ask.endswith("?") and answer and quote):
            raise ValueError("a pair needs a question that ends with a question mark, an answer and a quote")
        if quote not in text:
            raise ValueError(f"the text does not say {quote[:60]!r}")
        found.append((ask, answer))
    return found


def _fault(error: AnnotatorError) -> str:
    return "rubbish" if isinstance(error, RubbishError) else "unanswered"


def _spaced(text: Any) -> str:
    if not isinstance(text, str):
        raise TypeError(f"{text!r} is no text")
    return re.sub(r"\s+", " ", text).strip()


# --- from trajectories -----------------------------------------------------------------------------------------------
def step_pairs(witnessed: Witnessed) -> Iterator[Pair]:
    """What has been done, what is next and which element comes next, at every step; true of the world's state."""
    episode = witnessed.episode
    said: list[str] = []
    for turn, seen in zip(episode.turns, witnessed.seen, strict=False):
        known, move = seen.known, seen.move
        steps = f"{episode.instruction} {' '.join(said)}".strip()
        done = [text for text, met in zip(known.subtasks, known.met, strict=True) if met]
        left = [text for text, met in zip(known.subtasks, known.met, strict=True) if not met]
        asked = {DONE: " ".join(done) or "nothing", NEXT: left[0] if left else "nothing"}
        target = next((e.name for e in move.elements if move.box is not None and tuple(e.box) == tuple(move.box)), None)
        if target is not None:
            asked[ELEMENT] = target
        for question, answer in asked.items():
            where = f"{episode.id} turn {turn.index}"
            yield Pair("step", f"{steps} {question}", answer, "exact", where, episode.device_of(turn), turn.screenshot)
        said.append(turn.conclusion or "")


def change(before: Seen, after: Seen) -> str:
    """What is another after an action, from the two states: the screen's facts that are new or answered otherwise, and
    what of the outcome changed. "" where the states differ in what neither tells of."""
    if before.state_hash == after.state_hash:
        return "Nothing is different."
    told = dict(before.known.facts)
    parts = [f"{ask} {answer}." for ask, answer in dict(after.known.facts).items() if told.get(ask) != answer]
    return " ".join(filter(None, [*parts, outcome_change(before, after)]))


def outcome_change(before: Seen, after: Seen) -> str:
    """What of the outcome is another after an action; "" where nothing is."""
    parts = []
    was, now = before.known.outcome, after.known.outcome
    for name in sorted(was.keys() | now.keys()):
        if was.get(name) != now.get(name):
            old, new = (json.dumps(one[name], ensure_ascii=False) if name in one else "none" for one in (was, now))
            parts.append(f"{name}: {old} -> {new}.")
    return " ".join(parts)


EXACT = Exact({"world": lambda seen: {"change": change(*seen)}})


async def world_pairs(
    annotator: Annotator, episode: Episode, counts: Counter[str], witnessed: Witnessed | None = None
) -> list[Pair]:
    """(screen, action) -> what changes, of every step that has a screen after it and a valid action."""
    pairs: list[Pair] = []
    screens = [*(turn.screenshot for turn in episode.turns), episode.final_screenshot]
    for turn in episode.turns:
        after, seen = screens[turn.index + 1], None
        if witnessed is not None:
            later = witnessed.after(turn.index)
            seen = None if later is None else (witnessed.seen[turn.index], later)
        ended = turn.action is not None and dict(turn.action["arguments"]).get("action") == "terminate"
        if turn.action is None or after is None or ended or (witnessed is not None and seen is None):
            continue
        if seen is not None and not change(*seen):
            counts["unsaid world"] += 1
            continue
        call = json.dumps(dict(turn.action), ensure_ascii=False)
        pictures = (turn.screenshot, after)
        question = Question(
            "world", WORLD.format(action=f"{turn.conclusion or ''} {call}"), images=pictures, facts=seen
        )
        try:
            answer = await ask_json(annotator, question, _change)
        except AnnotatorError as error:
            counts[f"{_fault(error)} world"] += 1
            continue
        where = f"{episode.id} turn {turn.index}"
        asked, device = f"{call}\n{CHANGES}", episode.device_of(turn)
        pairs.append(Pair("world", asked, answer, annotator.name, where, device, turn.screenshot, episode.licence))
        counts["world"] += 1
    return pairs


def _change(value: Any) -> str:
    text = _spaced(value["change"])
    if not text:
        raise ValueError("need a description")
    return text


# --- to training data ------------------------------------------------------------------------------------------------
def pair_episode(pair: Pair, number: int, prompts: Prompts) -> Episode:
    """The pair as an episode of one turn, with its ids.

    Raises ValueError where the prompt is over the context's limit.
    """
    context = dataclasses.replace(prompts.context, thinking=False)
    name = f"knowledge:{pair.kind}:{number}"
    if pair.screenshot is None:
        prompt = render_messages(prompts.tokenizer, [{"role": "user", "content": pair.question}], sample_id=name)
    else:
        image = shared(pair.screenshot, name=pair.origin)
        prompt = render_question(prompts.tokenizer, context, pair.device, (), pair.question, image, sample_id=name)
    limit = context.max_prompt_tokens
    if limit is not None and len(prompt.ids) > limit:
        raise ValueError(f"{name} ({pair.origin}): a prompt of {len(prompt.ids)} ids, over the limit of {limit}")
    screen = pair.screenshot or _nothing()
    width, height = Image.open(io.BytesIO(screen)).size
    turn = Turn(
        0, screen, tuple(prompt.ids), tuple(image.grid for image in prompt.images), (0,) * len(prompt.images),
        tuple(encode_response(prompts.tokenizer, pair.answer)), text=pair.answer,
    )  # fmt: skip
    return Episode(
        name, "knowledge", pair.kind, number, pair.device or "web", pair.question, (width, height), (turn,), "success",
        score=1.0, source="script" if pair.annotator == "exact" else "imported",
        made_by={"answer": pair.annotator}, origin=pair.origin.split(" turn ")[0] if pair.kind in ("qa", "vqa") else "",
        licence=pair.licence,
    )  # fmt: skip


def write_pairs(pairs: Sequence[Pair], prompts: Prompts, add: Callable[[Episode], None], counts: Counter[str]) -> None:
    """Adds every pair as an episode; those whose prompt is too long are counted as `too long`."""
    if not pairs:
        raise UserError("no question got a usable answer: there is nothing to store")
    for number, pair in enumerate(pairs):
        try:
            add(pair_episode(pair, number, prompts))
        except ValueError:
            counts["too long"] += 1


def _nothing() -> bytes:
    """A blank picture, for a turn whose prompt shows none."""
    stream = io.BytesIO()
    Image.new("RGB", (32, 32)).save(stream, "PNG")
    return stream.getvalue()
