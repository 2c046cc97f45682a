"""What supervised fine-tuning is fed: one trainer for one source or a mixture, by count or in filled rows."""

import dataclasses
import json

import numpy as np
import pytest

from gui_rl.data.samples import BatchShape
from gui_rl.data.schema import Episode, Turn
from gui_rl.learn import sft
from gui_rl.model.config import preset

IMAGE = 40
CFG = dataclasses.replace(preset("gui-tiny"), image_token_id=IMAGE)
SHAPE = BatchShape(rows=2, row_length=64, row_patches=0, micro_batches=2)


def episodes(first, count, used=True):
    """Episodes of three turns without pictures; a turn's response is its own number, 100 and up."""

    def turn(number, index):
        ids = (100 + 3 * number + index,) * 4
        return Turn(index, b"", prompt_ids=(1,) * (5 + number % 7), response_ids=ids, use=used or index != 1)

    return [
        Episode(f"e{n}", "s", "t", n, "web", "i", (1, 1), tuple(turn(n, k) for k in range(3)), "success")
        for n in range(first, first + count)
    ]


def answers(batch):
    return sorted(set(batch.targets[batch.ce_weight > 0].tolist()))


@pytest.mark.parametrize("turns", [6, 0])
def test_micro_batches_of_static_shape(turns):
    config = sft.SFTConfig(turns=turns, shape=SHAPE, ahead=1)
    feed = sft.feed(episodes(0, 10), CFG, config)
    seen = [answers(next(feed)) for _ in range(3)]
    feed.close()
    batch = next(sft.feed(episodes(0, 10), CFG, dataclasses.replace(config, ahead=0)))
    assert batch.targets.shape == (2, 2, 64) and answers(batch) == seen[0]
    if turns:
        assert all(len(batch) == turns for batch in seen)
    else:
        assert (batch.inputs.segments > 0).mean() > 0.9
    assert set(np.unique(batch.ce_weight)) == {0.0, 1.0}


def test_turns_that_are_not_to_be_used_are_never_fed():
    feed = sft.feed(episodes(0, 10, used=False), CFG, sft.SFTConfig(turns=20, shape=SHAPE, ahead=0))
    assert answers(next(feed)) == [100 + 3 * n + k for n in range(10) for k in (0, 2)]


def test_a_mixture_is_one_feed_that_resumes_and_its_hosts_share_nothing():
    sources = {"first": (episodes(0, 20), 3.0), "second": (episodes(100, 20), 1.0)}
    config = sft.SFTConfig(turns=0, shape=SHAPE, ahead=1, seed=4)
    whole = sft.feed(sources, CFG, config)
    expected = [answers(next(whole)) for _ in range(6)]
    second = [len([a for a in batch if a >= 400]) for batch in expected]
    assert all(second) and sum(second) < sum(map(len, expected)) / 2
    state = None
    for taken in range(6):
        other = sft.feed(sources, CFG, config)
        if state is not None:
            other.set_state(json.loads(json.dumps(state)))
        assert answers(next(other)) == expected[taken]
        state = other.get_state()
        other.close()
    hosts = [sft.feed(sources, CFG, config, shard=(part, 2)) for part in range(2)]
    seen = [{a for _ in range(6) for a in answers(next(feed))} for feed in hosts]
    assert not seen[0] & seen[1]
    for feed in (whole, *hosts):
        feed.close()
