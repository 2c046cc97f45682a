"""Screenshots to patches, as Qwen3-VL's image processor makes them (patch 16, merge 2, so sizes are multiples of 32).

In: PNG/JPEG bytes, a path, a PIL image or a uint8 array [H, W, 3]. Out: `ImageInput`: patches in merge-block order and
their grid. Needs Pillow and numpy alone.
"""

from __future__ import annotations

import io
import math
import weakref
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float32, UInt8
from PIL import Image, UnidentifiedImageError

from gui_rl.errors import UserError

PATCH = 16
MERGE = 2
TEMPORAL = 2
FACTOR = PATCH * MERGE
PATCH_DIM = 3 * TEMPORAL * PATCH * PATCH
DEFAULT_MIN_PIXELS = 4_096
DEFAULT_MAX_PIXELS = 3_072_000
MAX_ASPECT = 200


@dataclass(frozen=True, eq=False)
class ImageInput:
    """One image as the vision encoder takes it.

    patches: [h*w, 1536] float32 in -1..1, row order = 2x2 merge blocks (so four rows make one visual token),
    each row ordered (channel, time, y, x). grid: (t, h, w) in patches. source_size: (width, height) in pixels before
    the resize: the frame that coordinates refer to.
    """

    patches: Float32[np.ndarray, "P 1536"]
    grid: tuple[int, int, int]
    source_size: tuple[int, int]

    @property
    def tokens(self) -> int:
        """Visual tokens, and so placeholders in the prompt: t*h*w / 4."""
        return math.prod(self.grid) // MERGE**2


def resized_size(
    height: int, width: int, min_pixels: int = DEFAULT_MIN_PIXELS, max_pixels: int = DEFAULT_MAX_PIXELS
) -> tuple[int, int]:
    """The (height, width) that an image is resized to: multiples of 32, area within the limits, aspect nearly kept.

    Qwen3-VL's rule with Python's rounding (half to even). Raises ValueError for an empty image, an aspect ratio above
    200, or limits that no size can meet.
    """
    if height < 1 or width < 1:
        raise ValueError(f"an image has at least one pixel a side, got {width}x{height}")
    if not FACTOR**2 <= max_pixels or min_pixels > max_pixels:
        raise ValueError(f"need min_pixels <= max_pixels and max_pixels >= {FACTOR**2}, got {min_pixels}, {max_pixels}")
    if max(height, width) / min(height, width) > MAX_ASPECT:
        raise ValueError(f"aspect ratio of {width}x{height} is above {MAX_ASPECT}")
    new_height, new_width = round(height / FACTOR) * FACTOR, round(width / FACTOR) * FACTOR
    if new_height * new_width > max_pixels:
        shrink = math.sqrt(height * width / max_pixels)
        new_height = max(FACTOR, math.floor(height / shrink / FACTOR) * FACTOR)
        new_width = max(FACTOR, math.floor(width / shrink / FACTOR) * FACTOR)
    elif new_height * new_width < min_pixels:
        grow = math.sqrt(min_pixels / (height * width))
        new_height = math.ceil(height * grow / FACTOR) * FACTOR
        new_width = math.ceil(width * grow / FACTOR) * FACTOR
    return new_height, new_width


def prepare(
    source: bytes | str | Path | Image.Image | UInt8[np.ndarray, "H W 3"],
    min_pixels: int = DEFAULT_MIN_PIXELS,
    max_pixels: int = DEFAULT_MAX_PIXELS,
    name: str = "",
) -> ImageInput:
    """Read, resize (bicubic) and cut an image; the same numbers as transformers' `Qwen2VLImageProcessorPil`.

    name: the file, sample or session that the image belongs to, for errors.
    Raises UserError (naming it) where the image cannot be read or has an impossible size.
    """
    where = name or (str(source) if isinstance(source, str | Path) else "image")
    image = _read(source, where)
    try:
        height, width = resized_size(image.height, image.width, min_pixels, max_pixels)
    except ValueError as error:
        raise UserError(f"{where}: {error}") from error
    return _cut(image, height, width)


_Size = int | None | tuple[int, int, int]
_shared: weakref.WeakValueDictionary[tuple[bytes, _Size], ImageInput] = weakref.WeakValueDictionary()


def shared(content: bytes, name: str = "", max_pixels: int | None = None) -> ImageInput:
    """`prepare` of a file's content; equal contents that are in use at the same time are one object.

    So a sampler sees that two prompts show the same screen. max_pixels: None for Qwen's own limit.
    """
    image = _shared.get((content, max_pixels))
    if image is None:
        image = prepare(content, max_pixels=max_pixels or DEFAULT_MAX_PIXELS, name=name)
        _shared[content, max_pixels] = image
    return image


def as_seen(content: bytes, grid: tuple[int, int, int], name: str = "") -> ImageInput:
    """A file's content at the size that a prompt was made with, whatever the policy's limit of pixels was then.

    grid: (1, h, w) in patches, as recorded. Equal ones that are in use at the same time are one object, as in `shared`.
    """
    grid = tuple(grid)
    image = _shared.get((content, grid))
    if image is None:
        _, rows, columns = grid
        image = _shared[content, grid] = _cut(_read(content, name or "image"), rows * PATCH, columns * PATCH)
    return image


def _cut(image: Image.Image, height: int, width: int) -> ImageInput:
    resized = image if (width, height) == image.size else image.resize((width, height), Image.Resampling.BICUBIC)
    pixels = np.asarray(resized, dtype=np.float32) / np.float32(127.5) - np.float32(1.0)
    return ImageInput(_patchify(pixels), (1, height // PATCH, width // PATCH), image.size)


def _read(source: bytes | str | Path | Image.Image | np.ndarray, where: str) -> Image.Image:
    if isinstance(source, np.ndarray):
        if source.dtype != np.uint8 or source.ndim != 3 or source.shape[2] != 3 or 0 in source.shape:
            raise UserError(f"{where}: need a uint8 array [H, W, 3], got {source.dtype} {list(source.shape)}")
        return Image.fromarray(source)
    try:
        opened = source if isinstance(source, Image.Image) else Image.open(_file(source))
        return opened.convert("RGB")
    except (OSError, UnidentifiedImageError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        reason = "not an image that can be read" if isinstance(error, UnidentifiedImageError) else str(error)
        raise UserError(f"{where}: {reason}; a screenshot must be a whole PNG or JPEG") from error


def _file(source: bytes | str | Path) -> io.BytesIO | Path:
    return io.BytesIO(source) if isinstance(source, bytes | bytearray | memoryview) else Path(source)


def _patchify(pixels: Float32[np.ndarray, "H W 3"]) -> Float32[np.ndarray, "P 1536"]:
    """[H, W, 3] -> [H/16 * W/16, 1536]: rows in merge-block order, the still image repeated over the time axis."""
    height, width, _ = pixels.shape
    blocks = pixels.reshape(height // FACTOR, MERGE, PATCH, width // FACTOR, MERGE, PATCH, 3)
    rows = blocks.transpose(0, 3, 1, 4, 6, 2, 5)  # (block y, block x, y in block, x in block, channel, y, x)
    still = rows[:, :, :, :, :, None]
    return np.repeat(still, TEMPORAL, axis=5).reshape(-1, PATCH_DIM)
