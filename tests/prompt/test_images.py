"""Screenshots to patches (R2): sizes and values against transformers, errors that name the file."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil, smart_resize

from gui_rl.errors import UserError
from gui_rl.prompt.images import PATCH_DIM, as_seen, prepare, resized_size, shared

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "smart_resize.json").read_text())["cases"]


def picture(height, width, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def png(array):
    buffer = io.BytesIO()
    Image.fromarray(array).save(buffer, "PNG")
    return buffer.getvalue()


@pytest.mark.parametrize("case", GOLDEN)
def test_resized_size_golden(case):
    height, width = resized_size(case["height"], case["width"], case["min_pixels"], case["max_pixels"])
    assert (height, width) == (case["expect_height"], case["expect_width"])
    assert height * width // 32**2 == case["expect_visual_tokens"]


@given(st.integers(1, 3000), st.integers(1, 3000), st.sampled_from([1024, 4096, 65536]), st.integers(70_000, 4_000_000))
def test_resized_size_is_transformers_rule(height, width, min_pixels, max_pixels):
    try:
        expected = smart_resize(height, width, 32, min_pixels, max_pixels)
    except ValueError:
        with pytest.raises(ValueError, match="aspect ratio"):
            resized_size(height, width, min_pixels, max_pixels)
        return
    assert resized_size(height, width, min_pixels, max_pixels) == expected


@pytest.mark.parametrize("arguments", [(0, 5), (5, 5, 100, 50), (5, 5, 1, 100)])
def test_impossible_sizes(arguments):
    with pytest.raises(ValueError):
        resized_size(*arguments)


@pytest.mark.parametrize("size", [(160, 128), (128, 160), (224, 320), (33, 47), (250, 401), (31, 700), (1080, 1920)])
def test_patches_are_the_processors(size):
    array = picture(*size)
    limits = {"shortest_edge": 4096, "longest_edge": 600_000}
    processor = Qwen2VLImageProcessorPil(patch_size=16, image_mean=[0.5] * 3, image_std=[0.5] * 3, size=limits)
    expected = processor(Image.fromarray(array), return_tensors="np")
    for source in (array, png(array), Image.fromarray(array)):
        image = prepare(source, 4096, 600_000)
        assert image.grid == tuple(expected["image_grid_thw"][0])
        assert image.patches.dtype == np.float32
        np.testing.assert_allclose(image.patches, expected["pixel_values"], atol=1e-5, rtol=0)
        assert image.source_size == (size[1], size[0])
        assert image.tokens == image.grid[1] * image.grid[2] // 4


@pytest.mark.parametrize("height,width", [(160, 128), (128, 160)])
def test_the_tiny_screens_pass_unresized(height, width):
    array = picture(height, width)
    image = prepare(array)
    assert image.grid == (1, height // 16, width // 16) and image.patches.shape == (80, PATCH_DIM)
    assert image.tokens == 20
    merged = image.patches.reshape(height // 32, width // 32, 2, 2, 3, 2, 16, 16)
    assert (merged[..., 0, :, :] == merged[..., 1, :, :]).all()
    back = merged[..., 0, :, :].transpose(0, 2, 5, 1, 3, 6, 4).reshape(height, width, 3)
    np.testing.assert_array_equal(np.rint((back + 1) * 127.5).astype(np.uint8), array)


@pytest.mark.parametrize("mode", ["RGBA", "L", "P", "LA", "1"])
def test_other_modes_are_converted_as_transformers_does(mode):
    image = Image.fromarray(picture(64, 64)).convert(mode)
    np.testing.assert_array_equal(prepare(image).patches, prepare(image.convert("RGB")).patches)


def test_files(tmp_path):
    path = tmp_path / "screen.png"
    path.write_bytes(png(picture(64, 96)))
    assert prepare(path).grid == prepare(str(path)).grid == (1, 4, 6)


@pytest.mark.parametrize("content", [b"", b"no image", png(picture(64, 64))[:300]])
def test_unreadable_images_are_named(tmp_path, content):
    path = tmp_path / "broken.png"
    path.write_bytes(content)
    with pytest.raises(UserError, match="broken.png"):
        prepare(path)
    with pytest.raises(UserError, match="episode 7, turn 3"):
        prepare(content, name="episode 7, turn 3")


def test_missing_file(tmp_path):
    with pytest.raises(UserError, match="nowhere.png"):
        prepare(tmp_path / "nowhere.png")


@pytest.mark.parametrize(
    "array", [np.zeros((4, 4), np.uint8), np.zeros((4, 4, 3), np.float32), np.zeros((0, 4, 3), np.uint8)]
)
def test_arrays_must_be_rgb_bytes(array):
    with pytest.raises(UserError, match=r"s1: need a uint8 array \[H, W, 3\]"):
        prepare(array, name="s1")


def test_impossible_aspect_is_named():
    with pytest.raises(UserError, match="s1: aspect ratio"):
        prepare(np.zeros((1, 300, 3), np.uint8), name="s1")


def test_equal_files_in_use_are_one_image():
    first = shared(png(picture(64, 96)))
    assert shared(png(picture(64, 96))) is first and shared(png(picture(64, 96, seed=1))) is not first
    np.testing.assert_array_equal(first.patches, prepare(png(picture(64, 96))).patches)


def test_an_image_is_cut_again_as_a_prompt_with_a_limit_saw_it():
    screen = png(picture(800, 1280))
    seen = shared(screen, max_pixels=81920)
    assert seen.tokens <= 80 and seen.source_size == (1280, 800) and shared(screen).tokens == 1000
    again = as_seen(screen, seen.grid)
    assert again.grid == seen.grid and as_seen(screen, list(seen.grid)) is again
    np.testing.assert_array_equal(again.patches, seen.patches)
