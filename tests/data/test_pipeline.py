"""Order, shards and resuming of input pipelines."""

import json

import pytest

from gui_rl.data.pipeline import TurnSource, batches
from gui_rl.data.schema import Episode, Turn
from gui_rl.errors import UserError

ITEMS = list(range(23))


def flat(iterator):
    return [item for batch in iterator for item in batch]


def test_an_epoch_holds_every_item_once_in_an_order_of_the_seed():
    first = flat(batches(ITEMS, 5, seed=1, epochs=1))
    assert sorted(first) == ITEMS and first != ITEMS
    assert first == flat(batches(ITEMS, 5, seed=1, epochs=1))
    assert first != flat(batches(ITEMS, 5, seed=2, epochs=1))
    assert flat(batches(ITEMS, 5, shuffle=False, epochs=1)) == ITEMS


def test_epochs_differ_and_batches_run_through_them():
    both = flat(batches(ITEMS, 5, seed=1, epochs=2))
    assert sorted(both[:23]) == ITEMS and sorted(both[23:]) == ITEMS and both[:23] != both[23:]


def test_the_last_batch_is_not_dropped():
    assert [len(batch) for batch in batches(ITEMS, 5, epochs=1)] == [5, 5, 5, 5, 3]


@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.parametrize("taken", [0, 1, 4, 7])
def test_a_resumed_iterator_goes_on_with_the_very_next_batch(taken, threads):
    def make():
        return batches(ITEMS, 4, seed=3, transform=lambda item: item * 2, collate=tuple, threads=threads)

    whole = make()
    expected = [next(whole) for _ in range(12)]
    first = make()
    assert [next(first) for _ in range(taken)] == expected[:taken]
    state = json.loads(json.dumps(first.get_state()))
    second = make()
    second.set_state(state)
    assert [next(second) for _ in range(12 - taken)] == expected[taken:]


def test_shards_are_disjoint_and_complete():
    shards = [flat(batches(ITEMS, 3, seed=5, epochs=1, shard=(part, 3))) for part in range(3)]
    assert sorted(sum(shards, [])) == ITEMS


def test_turns_are_samples():
    def make(number, turns):
        return Episode(
            f"e{number}", "s", "t", 0, "web", "i", (1, 1), tuple(Turn(k, b"") for k in range(turns)), "success"
        )

    episodes = [make(0, 2), make(1, 0), make(2, 3), make(3, 1)]
    source = TurnSource(episodes)
    assert [(record.episode.id, record.turn.index) for record in (source[i] for i in range(len(source)))] == [
        ("e0", 0), ("e0", 1), ("e2", 0), ("e2", 1), ("e2", 2), ("e3", 0),
    ]  # fmt: skip
    with pytest.raises(IndexError):
        source[6]
    assert len(flat(batches(source, 4, epochs=1))) == 6
    with pytest.raises(ValueError, match="turn counts"):
        TurnSource(episodes, [1])


def test_refusals():
    with pytest.raises(UserError, match="items"):
        batches([], 2)
    with pytest.raises(UserError, match="process 2 of 3"):
        batches([1, 2], 2, shard=(2, 3))
    with pytest.raises(ValueError):
        batches(ITEMS, 0)
    with pytest.raises(ValueError):
        batches(ITEMS, 1, shard=(1, 1))
