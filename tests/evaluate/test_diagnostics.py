"""Cosines of gradients by layer, against numpy on vectors written down by hand."""

import numpy as np
import pytest

from gui_rl.evaluate.diagnostics import cosine_metrics, layer_cosines


def gradient(layers, embed, patch):
    return {
        "text": {"layers": {"gate": np.array(layers, np.float32)}, "embed": np.array(embed, np.float32)},
        "vision": {"patch": np.array(patch, np.float32)},
    }


GRADIENTS = {
    "mobile": gradient([[[1.0, 0.0]], [[1.0, 1.0]]], [[2.0, 0.0]], [1.0]),
    "web": gradient([[[0.0, 3.0]], [[-1.0, -1.0]]], [[4.0, 0.0]], [0.0]),
}


def test_every_layer_has_its_own_cosine():
    found = layer_cosines(GRADIENTS)
    assert set(found) == {"text/layers/0", "text/layers/1", "text/embed", "vision/patch", "all"}
    for name, expected in (("text/layers/0", 0), ("text/layers/1", -1), ("text/embed", 1), ("vision/patch", 0)):
        np.testing.assert_allclose(found[name][0, 1], expected, atol=1e-12)
    one, other = np.array([1, 0, 1, 1, 2, 0, 1.0]), np.array([0, 3, -1, -1, 4, 0, 0.0])
    expected = one @ other / np.linalg.norm(one) / np.linalg.norm(other)
    np.testing.assert_allclose(found["all"], [[1, expected], [expected, 1]])


def test_the_numbers_for_a_log_name_layer_and_families():
    found = cosine_metrics(GRADIENTS)
    assert found["gradient_cosine/text/layers/1/mobile-web"] == pytest.approx(-1)
    assert len(found) == 5


def test_one_family_has_no_cosine():
    with pytest.raises(ValueError, match="two families"):
        layer_cosines({"web": GRADIENTS["web"]})
