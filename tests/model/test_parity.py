"""fp32 logits agree with transformers' Qwen3-VL on random weights, to 1e-4."""

import numpy as np
import pytest
import qwen_reference as reference

from gui_rl.model import hf

TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """{tied: (transformers' model, our configuration, our parameters)}"""
    found = {}
    for tied in (True, False):
        directory = tmp_path_factory.mktemp("checkpoint")
        found[tied] = reference.make(directory, tied), *hf.load(directory)
    return found


CASES = {
    "text only": [[(11, [])]],
    "one image": [[(4, [(1, 4, 6)])]],
    "three images of different sizes": [[(3, [(1, 4, 6), (1, 2, 2), (1, 8, 2)])]],
    "packed rows": [[(4, [(1, 4, 2)]), (3, [(1, 2, 6)])], [(12, [])]],
}


@pytest.mark.parametrize(("case", "tied"), [*((case, True) for case in CASES), ("one image", False)])
def test_logits_equal_transformers(checkpoints, case, tied):
    model, cfg, params = checkpoints[tied]
    assert cfg.tie_word_embeddings == tied
    rows = [[reference.sample(10 * r + s, *shape) for s, shape in enumerate(row)] for r, row in enumerate(CASES[case])]
    ours = reference.our_logits(params, cfg, reference.pack(rows))
    for row, samples in enumerate(rows):
        at = 0
        for item in samples:
            expected = reference.reference_logits(model, item)
            np.testing.assert_allclose(ours[row, at : at + len(item.ids)], expected, atol=TOLERANCE, rtol=0)
            assert np.abs(expected).max() > 1  # the comparison is of numbers of some size
            at += len(item.ids)
