"""Rows filled to the brim: nothing lost, nothing twice, few empty places, and the same again after a resume."""

import dataclasses
import io
import json

import numpy as np
import pytest
from PIL import Image

from gui_rl.data.filling import Filler, fill
from gui_rl.data.packing import Branch, Sample
from gui_rl.data.pipeline import Feed, TurnSource, ordered
from gui_rl.data.samples import BatchShape, supervised, with_ids
from gui_rl.data.schema import Episode, Turn
from gui_rl.data.store import EpisodeSource, write_episodes
from gui_rl.errors import UserError
from gui_rl.model.config import preset
from gui_rl.prompt.context import TINY_CONTEXT
from gui_rl.prompt.images import prepare
from gui_rl.prompt.tokenizer import Tokenizer

TOKENIZER = Tokenizer.load("gui-tiny")
CFG = dataclasses.replace(preset("gui-tiny"), image_token_id=TOKENIZER.image_id)
SHAPE = BatchShape(rows=4, row_length=1024, row_patches=1600, micro_batches=1)


def png(random, width, height):
    stream = io.BytesIO()
    Image.fromarray(random.integers(0, 256, (height, width, 3), dtype=np.uint8)).save(stream, "PNG")
    return stream.getvalue()


def write_stored(path, episodes=12):
    """Episodes of 1 to 5 turns with a random screen each, as they would be imported."""
    random = np.random.default_rng(1)

    def turn(index):
        call = '{"name": "mobile_use", "arguments": {"action": "click", "coordinate": [5, 9]}}'
        text = f"Action: Tap the apple.\n<tool_call>\n{call}\n</tool_call>"
        return Turn(index, png(random, 128, 160), text=text, conclusion="Tap the apple.")

    made = [
        Episode(
            f"e{number}", "s", "t", number, "mobile", "Open the apple.", (128, 160),
            tuple(map(turn, range(random.integers(1, 6)))), "success", source="human",
        )
        for number in range(episodes)
    ]  # fmt: skip
    write_episodes(path, [with_ids(episode, TOKENIZER, TINY_CONTEXT) for episode in made])


def fingerprint(batch):
    """Enough of a batch to tell it from others."""
    tokens, patches = batch.inputs.tokens.astype(np.int64), batch.inputs.patches
    return [int((tokens * np.arange(1, tokens.shape[1] + 1)).sum()), round(float(patches.sum()), 2)]


def stored_feed(path):
    """Filled rows of a stored data set in two parts, small enough that samples wait from batch to batch."""
    filler = Filler(CFG, BatchShape(rows=2, row_length=512, row_patches=400, micro_batches=1))
    sources = {"one": (TurnSource(EpisodeSource(path)), 2.0), "two": (TurnSource(EpisodeSource(path)), 1.0)}

    def take(items, kept):
        batch, waiting = filler(items, kept)
        return fingerprint(batch), waiting

    return Feed(ordered(sources, seed=3, transform=supervised), take, threads=1, ahead=1)


class Mixed:
    """Samples of many sizes: short texts, one screen, several screens; each is known by its last token."""

    def __init__(self, count):
        random = np.random.default_rng(0)
        self.kinds = [int(random.choice(3, p=(0.4, 0.35, 0.25))) for _ in range(count)]
        self.texts = random.integers(20, 250, count)
        self.screens = [prepare(np.zeros((160, 32 * int(w), 3), np.uint8)) for w in range(2, 12)]

    def __len__(self):
        return len(self.kinds)

    def __getitem__(self, index):
        images = tuple(self.screens[(index + k) % len(self.screens)] for k in range((0, 1, 3)[self.kinds[index]]))
        text = [7] * int(self.texts[index])
        ids = [*[TOKENIZER.image_id] * sum(image.tokens for image in images), *text]
        return Sample(f"s{index}", ids, images, (Branch([5000 + index], ce_weight=1.0),))


def seen(batch):
    return sorted(batch.targets[batch.ce_weight > 0].tolist())


def test_every_sample_comes_once_and_rows_are_full():
    filler = Filler(CFG, SHAPE)
    feed = Feed(ordered(Mixed(300), seed=1, epochs=1), filler)
    batches = list(feed)
    assert sorted(sum((seen(batch) for batch in batches), [])) == list(range(5000, 5300))
    full = batches[:-2]  # the last ones hold what is left over
    real = sum((batch.inputs.segments > 0).sum() for batch in full) / sum(batch.targets.size for batch in full)
    assert real > 0.95
    assert filler.real == pytest.approx(
        sum((batch.inputs.segments > 0).sum() for batch in batches) / sum(batch.targets.size for batch in batches)
    )
    for batch in batches:
        assert batch.targets.shape == (4, 1024) and batch.inputs.patches.shape[:2] == (4, 1600)


def test_what_waits_is_part_of_the_state():
    def make():
        return Feed(ordered(Mixed(300), seed=5), Filler(CFG, SHAPE), ahead=1)

    whole, first = make(), make()
    expected = [seen(next(whole)) for _ in range(12)]
    assert [seen(next(first)) for _ in range(5)] == expected[:5]
    state = json.loads(json.dumps(first.get_state()))
    assert state["pending"]  # else this test says nothing
    second = make()
    second.set_state(state)
    assert [seen(next(second)) for _ in range(7)] == expected[5:]
    for feed in (whole, first, second):
        feed.close()


def test_the_oldest_sample_never_waits():
    samples = [Sample("old", [1] * 9, (), (Branch([2]),))] + [
        Sample(f"s{n}", [1] * 99, (), (Branch([2]),)) for n in range(3)
    ]
    plan, placed, waiting = fill(samples, 100, 0, 2)
    assert placed[0] == 0 and plan.row[0] == 0 and len(waiting) == 2


@pytest.mark.parametrize("seed", range(5))
def test_places_do_not_overlap(seed):
    random = np.random.default_rng(seed)
    samples = [Mixed(40)[int(i)] for i in random.permutation(40)]
    plan, placed, waiting = fill(samples, 600, 900, 3)
    assert sorted([*placed, *waiting]) == list(range(40))
    used = np.zeros((3, 600), int), np.zeros((3, 900), int)
    for at, index in enumerate(placed):
        for grid, start, size in zip(
            used,
            (plan.token_start[at], plan.patch_start[at]),
            (samples[index].tokens, samples[index].patches),
            strict=True,
        ):
            grid[plan.row[at], start : start + size] += 1
            assert start + size <= grid.shape[1]
    assert all(grid.max() == 1 for grid in used)


def test_samples_that_do_not_fit_or_contradict_themselves_are_left_out_and_counted(caplog):
    class Long(Mixed):
        def __getitem__(self, index):
            sample = super().__getitem__(index)
            if index == 3:
                return dataclasses.replace(sample, ids=[TOKENIZER.image_id])  # without its picture
            return Sample(sample.id, [7] * 5000, (), sample.branches) if index % 50 == 0 else sample

    filler = Filler(CFG, SHAPE)
    batches = list(Feed(ordered(Long(100), epochs=1, shuffle=False), filler))
    assert len(sum((seen(batch) for batch in batches), [])) == 97 and filler.left_out == 3
    assert "sample s50: 5001 tokens" in caplog.text and "sample s3: 1 image placeholders for" in caplog.text
    tight = Filler(CFG, dataclasses.replace(SHAPE, row_length=16))
    with pytest.raises(UserError, match="give longer rows"):
        list(Feed(ordered(Mixed(300), epochs=1), tight))


def test_ids_of_what_was_recorded_without_a_policy(tmp_path):
    write_stored(tmp_path / "data", episodes=3)
    episode = max((EpisodeSource(tmp_path / "data")[k] for k in range(3)), key=lambda e: len(e.turns))
    prompt = TOKENIZER.decode(episode.turns[1].prompt_ids)
    assert "Open the apple." in prompt and "Step 1: Tap the apple." in prompt
    assert with_ids(episode, TOKENIZER, TINY_CONTEXT) == episode  # ids are never made twice
