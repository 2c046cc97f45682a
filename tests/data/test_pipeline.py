"""Order, shards, mixtures and resuming of input pipelines."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gui_rl.data.pipeline import Feed, TurnSource, batches, by_count, ordered
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


class Numbers:
    """`count` numbers from `first` on; a source that travels to other processes."""

    def __init__(self, first, count):
        self.first, self.count = first, count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return self.first + index


def mixture(weights=(3.0, 1.0), **options):
    sources = {"low": (Numbers(0, 50), weights[0]), "high": (Numbers(1000, 20), weights[1])}
    return ordered(sources, **options)


def test_a_mixture_has_its_weights_and_passes_over_each_source_evenly():
    items = [mixture(seed=2)[place] for place in range(400)]
    low = [item for item in items if item < 1000]
    high = [item for item in items if item >= 1000]
    assert (
        abs(len(low) - 300) <= 1
        and sorted(low[:50]) == list(range(50))
        and sorted(high[:20]) == list(range(1000, 1020))
    )
    assert items == [mixture(seed=2)[place] for place in range(400)]
    assert items != [mixture(seed=3)[place] for place in range(400)]
    with pytest.raises(UserError, match="high has weight 0"):
        mixture((1.0, 0.0))


def test_the_hosts_of_a_mixture_share_no_item():
    both = [{mixture(seed=1, shard=(part, 2))[place] for place in range(200)} for part in range(2)]
    assert not both[0] & both[1] and len(both[0] | both[1]) == 70


@pytest.mark.parametrize("reading", [{"threads": 3, "ahead": 2}, {"workers": 2, "ahead": 1}])
def test_reading_ahead_changes_neither_order_nor_positions(reading):
    plain, other = Feed(mixture(seed=4), by_count(3)), Feed(mixture(seed=4), by_count(3), **reading)
    expected = [next(plain) for _ in range(20)]
    assert [next(other) for _ in range(7)] == expected[:7]
    state = json.loads(json.dumps(other.get_state()))
    other.close()
    assert state == {"next": 21, "pending": []}
    other.set_state(state)
    assert [next(other) for _ in range(13)] == expected[7:]
    other.close()


def test_broken_items_are_left_out_counted_and_named(caplog):
    def transform(item):
        if item % 10 == 7:
            raise UserError(f"item {item} is torn")
        return item

    feed = batches(Numbers(0, 30), 5, shuffle=False, epochs=1, transform=transform)
    assert flat(feed) == [item for item in range(30) if item % 10 != 7] and feed.dropped == 3
    assert "item 17 is torn" in caplog.text
    with pytest.raises(UserError, match="11 broken items so far"):
        flat(batches(Numbers(0, 300), 5, shuffle=False, transform=transform))
    with pytest.raises(ZeroDivisionError):  # a mistake in the program stops it
        next(batches(Numbers(0, 3), 1, shuffle=False, transform=lambda item: 1 // item))


LOOP = """
import json, sys, time
sys.path[:0] = sys.argv[2:]
from test_filling import stored_feed
feed = stored_feed(sys.argv[1] + "/data")
state, log = sys.argv[1] + "/state.json", open(sys.argv[1] + "/log", "a")
import os
if os.path.exists(state):
    feed.set_state(json.load(open(state)))
while True:
    batch = next(feed)
    json.dump(feed.get_state(), open(state + ".new", "w"))
    print(batch, file=log, flush=True)
    os.replace(state + ".new", state)
    time.sleep(0.01)
"""


def test_killed_and_resumed_the_sequence_of_batches_is_the_same(tmp_path):
    """SIGKILL in the middle, twice. A batch may be logged twice (killed before its position was kept), none is lost."""
    from test_filling import stored_feed, write_stored

    write_stored(tmp_path / "data")
    feed = stored_feed(tmp_path / "data")
    expected = [next(feed) for _ in range(40)]
    feed.close()
    here = Path(__file__).resolve().parent
    command = [sys.executable, "-c", LOOP, str(tmp_path), str(here), str(here.parents[1])]
    log = tmp_path / "log"
    for wanted in (6, 14, 20):
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        while not log.exists() or log.read_text().count("\n") < wanted:
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    lines = log.read_text().split("\n")[:-1]
    once = [line for number, line in enumerate(lines) if number == 0 or line != lines[number - 1]]
    assert len(lines) - len(once) <= 3 and len(once) >= 18
    assert once == [str(batch) for batch in expected[: len(once)]]


def test_refusals():
    with pytest.raises(UserError, match="items"):
        batches([], 2)
    with pytest.raises(UserError, match="process 2 of 3"):
        batches([1, 2], 2, shard=(2, 3))
    with pytest.raises(ValueError):
        batches(ITEMS, 0)
    with pytest.raises(ValueError):
        batches(ITEMS, 1, shard=(1, 1))
    with pytest.raises(ValueError, match="no epochs"):
        mixture(epochs=2)
