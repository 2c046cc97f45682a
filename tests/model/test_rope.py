"""Positions and vision indices agree with the golden cases and with transformers' host-side functions."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import vision_utils

from gui_rl.model.rope import mrope_positions, text_rotary
from gui_rl.model.vision import vision_indices

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "mrope_positions.json").read_text())["cases"]


@pytest.mark.parametrize("case", range(len(GOLDEN)))
def test_golden_positions(case):
    given = GOLDEN[case]
    positions, delta = mrope_positions(
        given["input_ids"], given["image_grid_thw"], given["image_token_id"], given["spatial_merge_size"]
    )
    assert positions.dtype == np.int32
    np.testing.assert_array_equal(positions, given["expect_positions_3xT"])
    assert delta == given["expect_delta"]


def test_text_alone_counts_up():
    positions, delta = mrope_positions([5, 6, 7], [], 60)
    np.testing.assert_array_equal(positions, np.tile(np.arange(3), (3, 1)))
    assert delta == 0
    assert mrope_positions([], [], 60)[0].shape == (3, 0)


@pytest.mark.parametrize(
    ("ids", "grids", "message"),
    [
        ([1, 60, 60, 2], [(1, 4, 4)], "2 image placeholders.*need 4"),
        ([1, 60, 60, 2], [], "2 image placeholders.*need 0"),
        ([60, 1, 60, 60, 60], [(1, 4, 4)], "starts at token 0 needs 4 placeholders in a row"),
        ([60], [(1, 3, 2)], "not a multiple of the merge size"),
    ],
)
def test_placeholders_must_match_grids(ids, grids, message):
    with pytest.raises(ValueError, match=message):
        mrope_positions(ids, grids, 60)


@pytest.mark.parametrize("grid", [(1, 2, 2), (1, 10, 8), (1, 4, 14), (2, 6, 4), (1, 64, 2)])
@pytest.mark.parametrize("side", [5, 16, 48])
def test_vision_indices_equal_transformers(grid, side):
    yx, table, weight = vision_indices(grid, side, 2)
    thw = torch.tensor([grid])
    expected_table, expected_weight = vision_utils.get_vision_interpolation_indices_and_weights(
        thw, side, mode="bilinear", align_corners=True, spatial_merge_size=2
    )
    np.testing.assert_array_equal(yx, vision_utils.get_vision_position_ids(thw, 2).numpy())
    np.testing.assert_allclose(weight, expected_weight.numpy(), atol=1e-6)
    used = weight > 0  # where a weight is zero the index is free
    np.testing.assert_array_equal(table[used], expected_table.numpy()[used])
    assert table.min() >= 0 and table.max() < side**2


def test_vision_indices_need_whole_merge_blocks():
    with pytest.raises(ValueError, match="cannot be tiled by 2x2"):
        vision_indices((1, 3, 4), 16, 2)


def test_rotary_of_far_positions_stays_exact():
    """Positions are integers until they meet fp32 frequencies: position 40,001 differs from 40,000 (bf16 cannot)."""
    positions = np.tile(np.array([40_000, 40_001], np.int32), (1, 3, 1))
    cos, sin = (np.asarray(part) for part in text_rotary(positions, 16, 1e4, (4, 2, 2)))
    np.testing.assert_allclose(cos[0, :, 0], np.cos([40_000.0, 40_001.0]), atol=1e-5)
    np.testing.assert_allclose(sin[0, :, 0], np.sin([40_000.0, 40_001.0]), atol=1e-5)
