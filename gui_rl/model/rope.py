"""Rotary positions: three-dimensional (interleaved MRoPE) for the decoder, two-dimensional for the vision encoder.

In: token ids and image grids (host, numpy), or position arrays (device). Out: integer positions, and cos/sin tables
over half a head. Positions stay int32 until they are multiplied by fp32 frequencies. Reference: Qwen3-VL in
transformers (`get_rope_index`, `Qwen3VLTextRotaryEmbedding`).
"""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

Rotary = tuple[Float[Array, "*n half"], Float[Array, "*n half"]]


def mrope_positions(
    input_ids: Sequence[int] | np.ndarray, image_grids: Sequence[Sequence[int]], image_token_id: int, merge: int = 2
) -> tuple[Int[np.ndarray, "3 T"], int]:
    """Rotary positions of one sequence, and the `delta` by which positions after its end are ahead of token numbers.

    The k-th token generated after the sequence (k = 0, 1, ...) has position T + k + delta on all three axes.
    `image_grids` are (frames, height, width) in patches, one for each image in order; image tokens must already be
    expanded to frames * height * width / merge^2 placeholders. An image spans max(height, width) / merge positions.
    Raises `ValueError` if placeholders and grids do not match.
    """
    ids = np.asarray(input_ids, dtype=np.int64)
    is_image = ids == image_token_id
    expected = sum(_visual_tokens(grid, merge) for grid in image_grids)
    if int(is_image.sum()) != expected:
        raise ValueError(
            f"{int(is_image.sum())} image placeholders, but the {len(image_grids)} image grids "
            f"{[tuple(grid) for grid in image_grids]} need {expected}"
        )
    positions = np.zeros((3, len(ids)), np.int32)
    grids = iter(image_grids)
    at, place = 0, 0
    while at < len(ids):
        if is_image[at]:
            frames, height, width = (int(side) for side in next(grids))
            count = _visual_tokens((frames, height, width), merge)
            if not is_image[at : at + count].all():
                raise ValueError(f"the image that starts at token {at} needs {count} placeholders in a row")
            span = np.indices((frames, height // merge, width // merge)).reshape(3, -1)
            positions[:, at : at + count] = span + place
            at, place = at + count, place + max(height, width) // merge
        else:
            count = int(np.argmax(is_image[at:])) if is_image[at:].any() else len(ids) - at
            positions[:, at : at + count] = np.arange(place, place + count)
            at, place = at + count, place + count
    delta = int(positions.max()) + 1 - len(ids) if len(ids) else 0
    return positions, delta


def _visual_tokens(grid: Sequence[int], merge: int) -> int:
    frames, height, width = (int(side) for side in grid)
    if height % merge or width % merge:
        raise ValueError(f"image grid {(frames, height, width)} is not a multiple of the merge size {merge}")
    return frames * height * width // merge**2


def text_rotary(positions: Int[Array, "B 3 T"], head_dim: int, theta: float, section: tuple[int, int, int]) -> Rotary:
    """cos and sin of shape [B, T, head_dim / 2]. Frequency j turns with height for j = 1, 4, 7, ... below 3 *
    section[1], with width for j = 2, 5, 8, ... below 3 * section[2], and with time elsewhere (interleaved MRoPE)."""
    axis = np.zeros(head_dim // 2, np.int32)
    for dimension in (1, 2):
        axis[dimension : 3 * section[dimension] : 3] = dimension
    angles = positions[:, axis].astype(jnp.float32).transpose(0, 2, 1) * _frequencies(head_dim, theta)
    return jnp.cos(angles), jnp.sin(angles)


def vision_rotary(yx: Int[Array, "B P 2"], head_dim: int, theta: float) -> Rotary:
    """cos and sin of shape [B, P, head_dim / 2]:

    the first quarter of a head turns with the row, the second with the column.
    """
    angles = yx[..., None].astype(jnp.float32) * _frequencies(head_dim // 2, theta)
    angles = angles.reshape(*yx.shape[:-1], head_dim // 2)
    return jnp.cos(angles), jnp.sin(angles)


def rotate(x: Float[Array, "B T H Dh"], rotary: Rotary) -> Float[Array, "B T H Dh"]:
    """Turns the pairs (x[j], x[j + Dh/2]) by their angles, in fp32."""
    cos, sin = (table[:, :, None, :] for table in rotary)
    first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1).astype(x.dtype)


def _frequencies(dim: int, theta: float) -> Float[np.ndarray, " half"]:
    return (1.0 / theta ** (np.arange(0, dim, 2, dtype=np.float32) / np.float32(dim))).astype(np.float32)
