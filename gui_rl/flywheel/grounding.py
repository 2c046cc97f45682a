"""Pre-training queries about one screenshot: where things are, what is where, what is true, what a press would do.

In: `Screen`s. Out: packed samples, in which the screenshot is the trunk and every query a branch of its own, so that no
query can be answered by elimination from its neighbours' answers.

The answers are made to be learnt by a small policy (see the loss weights): a hit hangs on the leading digits of a
coordinate, and naming, the reverse of pointing, has to keep up with it.
"""

from __future__ import annotations

import dataclasses
import functools
import io
from collections.abc import Sequence

import numpy as np
from PIL import Image

from env_servers.protocol.actions import FUNCTIONS, Call, from_pixels
from env_servers.suites.virtual.gestures import Hand
from env_servers.suites.virtual.icons import bodies
from gui_rl.data.packing import Branch, Sample
from gui_rl.flywheel.screens import SIZES, Screen
from gui_rl.prompt.context import ContextConfig
from gui_rl.prompt.images import ImageInput, prepare
from gui_rl.prompt.render import encode_response, render, render_question, response_text
from gui_rl.prompt.tokenizer import Tokenizer

POINTING = {
    "mobile": (("Tap the {}.", "click"), ("Hold the {}.", "long_press")),
    "desktop": (
        ("Click the {}.", "left_click"),
        ("Open the {}.", "double_click"),
        ("Right click the {}.", "right_click"),
    ),
    "web": (("Click the {}.", "click"),),
}
"""Sentences and actions that point at one element, the commonest first, by family."""
ABSENT = 4
"""One in so many screens is asked for something that it does not show (infeasible queries, GUI-Owl-1.5 2.2.1)."""


@dataclasses.dataclass(frozen=True)
class QueryWeights:
    """Loss weights by the kind of answer token.

    Attributes:
      digits: the first, second and third digit of a coordinate; a third digit is less than a fifth of a pixel here.
      name: every token of a name that answers "What is at ...?".
      fact: every token of an answer about the screen.
      effect: every token of an answer about the screen after a press.
      absent: the first token of the refusal to point at what is not there.
      wording: the sentence and the frame of a call, which are soon learnt.
    """

    digits: tuple[float, float, float] = (3.0, 1.0, 0.1)
    name: float = 8.0
    fact: float = 2.0
    effect: float = 2.5
    absent: float = 0.5
    wording: float = 0.1


@dataclasses.dataclass(frozen=True)
class Query:
    """One question to a screenshot, as token ids after the shared trunk.

    Attributes:
      kind: `point`, `absent`, `name`, `fact` or `effect`.
      prompt: ids of the question, up to the opening of the assistant's turn.
      response: ids of the answer, the end token included.
      box: of the element pointed at, in pixels, for measuring hits.
    """

    kind: str
    prompt: list[int]
    response: list[int]
    box: tuple[float, float, float, float] | None = None


class QueryWriter:
    """Turns screens into queries and samples, for one vocabulary and one form of prompt."""

    def __init__(self, tokenizer: Tokenizer, context: ContextConfig, weights: QueryWeights | None = None):
        self.tokenizer, self.context, self.weights = tokenizer, context, weights or QueryWeights()
        self._digits = frozenset(tokenizer.encode("0123456789"))
        if len(self._digits) != 10:
            raise ValueError(f"{tokenizer.source}: the digits are not ten single tokens")

    def point(self, screen: Screen, index: int, rng: np.random.Generator) -> Query:
        """ "Tap the apple." -> the call with the middle of its box."""
        name, box = screen.elements[index]
        ways = POINTING[screen.device]
        sentence, action = ways[0] if rng.random() < 0.7 else ways[rng.integers(len(ways))]
        sentence = sentence.format(name)
        x, y = from_pixels((box[0] + box[2]) / 2, (box[1] + box[3]) / 2, screen.width, screen.height)
        call = Call(FUNCTIONS[screen.device], {"action": action, "coordinate": [x, y]})
        text = response_text(sentence, call)
        return Query("point", self._asked(screen.device, sentence, True), encode_response(self.tokenizer, text), box)

    def absent(self, screen: Screen, index: int) -> Query:
        """ "Tap the duck.", where there is no duck -> the end of a task that cannot be done."""
        shown = {name for name, _ in screen.elements}
        others = [name for name in bodies() if name not in shown]
        sentence = POINTING[screen.device][0][0].format(others[index % len(others)])
        move = Hand(screen.device, screen.width, screen.height).give_up()
        response = encode_response(self.tokenizer, response_text(move.conclusion, Call(**move.call)))
        return Query("absent", self._asked(screen.device, sentence, True), response)

    def name(self, screen: Screen, index: int, rng: np.random.Generator) -> Query:
        """ "What is at [512, 345]?" -> the name; the place is anywhere in the inner half of the box."""
        name, (x0, y0, x1, y1) = screen.elements[index]
        along, down = rng.uniform(0.25, 0.75, 2)
        x, y = from_pixels(x0 + along * (x1 - x0), y0 + down * (y1 - y0), screen.width, screen.height)
        question = self._asked(screen.device, f"What is at [{x}, {y}]?", False)
        return Query("name", question, self._answered(name))

    def fact(self, screen: Screen, index: int) -> Query:
        """A question about the state of the app -> its answer."""
        question, answer = screen.facts[index]
        return Query("fact", self._asked(screen.device, question, False), self._answered(answer))

    def effect(self, screen: Screen, index: int) -> Query:
        """ "Tap the trash. How many things are shown?" -> the answer after the tap."""
        element, question, answer = screen.effects[index]
        sentence = POINTING[screen.device][0][0].format(screen.elements[element][0])
        return Query("effect", self._asked(screen.device, f"{sentence} {question}", False), self._answered(answer))

    def draw(self, screen: Screen, count: int, rng: np.random.Generator) -> list[Query]:
        """At most `count` different queries: about half pointing, the rest naming, facts and effects, as there are.

        One in `ABSENT` screens is asked for something that it does not show.
        """
        elements = len(screen.elements)
        sizes = {"point": elements, "name": elements, "fact": len(screen.facts), "effect": len(screen.effects)}
        pool: list[tuple[float, str, int]] = []
        for (kind, size), bias in zip(sizes.items(), (0.0, 0.2, 0.1, 0.15), strict=True):
            most = size if kind in ("point", "name") else min(size, 2)
            chosen = rng.permutation(size)[:most]
            pool += [(rank / most + bias * rng.random(), kind, int(index)) for rank, index in enumerate(chosen)]
        queries = [self.absent(screen, int(rng.integers(2**16)))] if rng.integers(ABSENT) == 0 else []
        for _, kind, index in sorted(pool)[: count - len(queries)]:
            drawn = (rng,) if kind in ("point", "name") else ()
            queries.append(getattr(self, kind)(screen, index, *drawn))
        return queries

    def sample(self, screen: Screen, image: ImageInput, queries: Sequence[Query]) -> Sample:
        """One sample: the screenshot as trunk, the queries as branches."""
        branches = tuple(
            Branch([*query.prompt, *query.response], ce_weight=self._ce_weight(query)) for query in queries
        )
        return Sample(screen.id, self._trunk(screen.device, image.grid), (image,), branches)

    def _render(self, device: str, text: str, instruct: bool, image: ImageInput):
        if instruct:
            return render(self.tokenizer, self.context, device, (), text, [], image)
        return render_question(self.tokenizer, self.context, device, (), text, image)

    @functools.lru_cache(maxsize=100_000)  # noqa: B019 - a writer lives as long as its run
    def _asked(self, device: str, text: str, instruct: bool) -> list[int]:
        """What follows the trunk; it does not depend on the screenshot."""
        width, height = SIZES[device]
        prompt = self._render(device, text, instruct, prepare(np.zeros((height, width, 3), np.uint8)))
        return prompt.ids[prompt.trunk_length :]

    @functools.lru_cache(maxsize=1000)  # noqa: B019
    def _answered(self, text: str) -> list[int]:
        return encode_response(self.tokenizer, text)

    @functools.lru_cache(maxsize=100)  # noqa: B019
    def _trunk(self, device: str, grid: tuple[int, int, int]) -> list[int]:
        _, rows, columns = grid
        blank = prepare(np.zeros((rows * 16, columns * 16, 3), np.uint8))
        prompt = self._render(device, "?", False, blank)
        return prompt.ids[: prompt.trunk_length]

    def _ce_weight(self, query: Query) -> np.ndarray:
        weights = self.weights
        if query.kind == "absent":
            answer = np.full(len(query.response), weights.wording, np.float32)
            answer[0] = weights.absent
        elif query.kind == "point":
            answer = np.full(len(query.response), weights.wording, np.float32)
            place = 0
            for index, token in enumerate(query.response):
                if token in self._digits:
                    answer[index] = weights.digits[min(place, 2)]
                    place += 1
                else:
                    place = 0
        else:
            answer = np.full(len(query.response), getattr(weights, query.kind), np.float32)
            answer[-1] = weights.wording
        return np.concatenate([np.zeros(len(query.prompt), np.float32), answer])


def jitter(screen: Screen, pixels: np.ndarray, limit: int, rng: np.random.Generator) -> tuple[Screen, np.ndarray]:
    """Moves a screenshot by up to `limit` pixels each way, repeating its border, and its boxes with it.

    An element that would leave the inner 98 % of the screen keeps the screenshot where it is.
    """
    dx, dy = rng.integers(-limit, limit + 1, 2)
    boxes = [(name, (x0 + dx, y0 + dy, x1 + dx, y1 + dy)) for name, (x0, y0, x1, y1) in screen.elements]
    width, height = screen.width, screen.height
    inside = all(
        0.1 * width <= (x0 + x1) / 2 < 0.99 * width and 0.1 * height <= (y0 + y1) / 2 < 0.99 * height
        for _, (x0, y0, x1, y1) in boxes
    )
    if not inside:
        return screen, pixels
    rows = np.clip(np.arange(height) - dy, 0, height - 1)
    columns = np.clip(np.arange(width) - dx, 0, width - 1)
    return dataclasses.replace(screen, elements=tuple(boxes)), pixels[rows][:, columns]


def load_pixels(screen: Screen) -> np.ndarray:
    """The screenshot as uint8 `[height, width, 3]`."""
    return np.asarray(Image.open(io.BytesIO(screen.png)).convert("RGB"))


def visual_labels(screen: Screen, cell: int = 32) -> tuple[np.ndarray, np.ndarray]:
    """Which element each visual token shows, for aligning visual features with words.

    Returns:
      index: `[M]` int, the element that covers most of the token's cell of the screenshot, -1: none covers a tenth.
      share: `[M]` float in [0, 1], how much of the element (or of the cell, where that is smaller) the cell shows.
    """
    columns, rows = screen.width // cell, screen.height // cell
    left, top = np.arange(columns) * cell, np.arange(rows) * cell
    index, share = np.full(rows * columns, -1), np.zeros(rows * columns, np.float32)
    covered = np.zeros(rows * columns)
    for number, (_, (x0, y0, x1, y1)) in enumerate(screen.elements):
        wide = np.clip(np.minimum(x1, left + cell) - np.maximum(x0, left), 0, None)
        high = np.clip(np.minimum(y1, top + cell) - np.maximum(y0, top), 0, None)
        area = np.outer(high, wide).ravel()
        better = (area > covered) & (area > 0.1 * cell * cell)
        covered[better], index[better] = area[better], number
        share[better] = area[better] / min(cell * cell, (x1 - x0) * (y1 - y0))
    return index, share
