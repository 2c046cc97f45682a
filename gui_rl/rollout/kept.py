"""What the sampler keeps on the device and may use again: images' features, and the prefixes that slots hold.

Bookkeeping on the host; the arrays are in `programs`.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Int64

from gui_rl.model.inputs import ModelInputs
from gui_rl.prompt.images import ImageInput
from gui_rl.prompt.render import Prompt


class ImageCells:
    """Which cells of `programs.Features` hold which image's visual tokens; the images used longest ago make room."""

    def __init__(self, cells: int):
        self._free = list(range(cells))
        self._kept: OrderedDict[ImageInput, np.ndarray] = OrderedDict()

    def cells(self, image: ImageInput) -> np.ndarray:
        """The cells of an image that has been claimed."""
        return self._kept[image]

    def claim(self, images: Sequence[ImageInput]) -> list[ImageInput]:
        """Gives every image its cells; returns those that have to be encoded. All of them together must fit."""
        for image in images:
            if image in self._kept:
                self._kept.move_to_end(image)
        missing = [image for image in images if image not in self._kept]
        for image in missing:
            while len(self._free) < image.tokens:
                _, cells = self._kept.popitem(last=False)
                self._free += cells.tolist()
            self._kept[image] = np.array(self._free[-image.tokens :], np.int32)
            del self._free[-image.tokens :]
        return missing


@dataclasses.dataclass(frozen=True)
class Prefix:
    """What a slot's cache holds.

    Attributes:
      tokens: ids; at an image's placeholders a negative number that stands for that image.
      images: kept alive, since their identity is in `tokens`.
      weights: that made it: other weights cannot go on from it.
    """

    tokens: Int64[np.ndarray, " N"]
    images: tuple[ImageInput, ...]
    weights: Any

    @staticmethod
    def of(prompt: Prompt, weights: Any, response: Sequence[int] = ()) -> Prefix:
        """The prefix that a prompt and the response's tokens in the cache make."""
        tokens = np.array([*prompt.ids, *response], np.int64)
        for image, (start, end) in zip(prompt.images, prompt.image_spans, strict=True):
            tokens[start:end] = -id(image)
        return Prefix(tokens, tuple(prompt.images), weights)

    def common(self, other: Prefix) -> int:
        """Length of the common beginning."""
        if self.weights is not other.weights:
            return 0
        size = min(self.tokens.size, other.tokens.size)
        differ = self.tokens[:size] != other.tokens[:size]
        return int(differ.argmax()) if differ.any() else size


def longest_match(wanted: Prefix, slots: Iterable[tuple[int, Prefix]]) -> tuple[int, int]:
    """(slot, tokens) of the slot that begins most like `wanted`, at least one token left to do; (0, 0) without any."""
    best = max(((wanted.common(held), slot) for slot, held in slots), default=(0, 0))
    return best[1], min(best[0], wanted.tokens.size - 1)


def shown(prompt: Prompt, matched: int) -> list[ImageInput]:
    """The images that have a placeholder after the first `matched` tokens."""
    return [image for image, (_, end) in zip(prompt.images, prompt.image_spans, strict=True) if end > matched]


def tails(inputs: ModelInputs, matched: np.ndarray, length: int) -> ModelInputs:
    """Rows without their first `matched` tokens, `length` tokens each."""
    places = matched[:, None] + np.arange(length)
    inside = places < inputs.tokens.shape[1]
    places = np.minimum(places, inputs.tokens.shape[1] - 1)

    def tail(leaf: np.ndarray) -> np.ndarray:
        return np.take_along_axis(leaf, places, 1)

    return inputs.replace(
        tokens=tail(inputs.tokens),
        positions=np.take_along_axis(inputs.positions, np.repeat(places[:, None], 3, 1), 2),
        segments=np.where(inside, tail(inputs.segments), 0),
        branches=tail(inputs.branches),
        visual_index=tail(inputs.visual_index),
    )
