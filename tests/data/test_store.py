"""Trajectories survive documents and files exactly; a dataset is there whole or not at all."""

import dataclasses
import hashlib
import io
import json
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow_datasets as tfds
from PIL import Image

from gui_rl.data.example import RecordError
from gui_rl.data.pipeline import TurnSource
from gui_rl.data.schema import Episode, SchemaError, Turn
from gui_rl.data.store import EpisodeSource, episode_writer, write_episodes
from gui_rl.errors import UserError

HERE = Path(__file__).resolve().parent


def png(random):
    stream = io.BytesIO()
    Image.fromarray(random.integers(0, 256, (random.integers(1, 40), 24, 3), dtype=np.uint8)).save(stream, "PNG")
    return stream.getvalue()


def turn(random, index, **changes):
    values = dict(
        index=index,
        screenshot=png(random),
        prompt_ids=random.integers(0, 151_000, random.integers(0, 9)),
        image_grids=[(1, 2, 4)] * (index % 3),
        image_turns=[0] * (index % 3),
        response_ids=(ids := random.integers(0, 151_000, random.integers(0, 6))),
        behaviour_logp=random.normal(size=len(ids)) * 3 if index % 2 else (),
        temperature=0.7,
        policy_version=int(random.integers(0, 9)),
        text="Action: é \u2603 \x00.\n<tool_call>",
        thought=None if index % 2 else "",
        conclusion="Tap it." if index % 2 else None,
        action={"name": "mobile_use", "arguments": {"action": "click", "coordinate": [1, 999]}} if index % 2 else None,
        parse_error=None if index % 2 else "no_call",
        tool_result='{"success": true}' if index % 2 else None,
        target_box=(1, 2.5, 3, 4) if index % 2 else None,
        seconds={"sample": 0.1, "step": 1 / 3},
        use=index != 2,
    )
    return Turn(**(values | changes))


def episode(random, number, turns):
    return Episode(
        id=f"episode-{number}",
        suite="virtual",
        task="shop.buy",
        seed=2**40 + number,
        device="mobile",
        instruction="Buy the “apple”.",
        screen_size=(128, 160),
        turns=tuple(turn(random, index) for index in range(turns)),
        outcome="success" if number % 2 else "env_crash",
        score=0.1 * number,
        rewards={"accuracy": 1.0, "tool": 1 / 3},
        progress=1,
        total=2,
        checkpoints=(3, None),
        source="policy",
        policy_version=number,
        tools=({"type": "function", "function": {"name": "files.move"}},),
        final_screenshot=png(random) if number % 2 else None,
        remaining="" if number % 2 else "Pay.",
        made_by={"judge": "exact"} if number % 2 else {},
        origin="AgentNet" if number == 3 else "",
        licence="MIT" if number == 3 else "",
    )


@pytest.fixture(scope="module")
def episodes():
    random = np.random.default_rng(0)
    return [episode(random, number, turns) for number, turns in enumerate([3, 1, 0, 6, 2])]


def test_documents_are_exact(episodes):
    for item in episodes:
        assert Episode.from_dict(json.loads(json.dumps(item.to_dict()))) == item


def test_stored_episodes_are_exact(tmp_path, episodes):
    assert write_episodes(tmp_path / "data", iter(episodes), episodes_per_file=2) == 5
    source = EpisodeSource(tmp_path / "data")
    assert [source[index] for index in range(len(source))] == episodes
    assert source[3].turns[1].screenshot == episodes[3].turns[1].screenshot
    assert source.turn_counts == (3, 1, 0, 6, 2)
    assert len(list((tmp_path / "data" / "episodes").glob("*.array_record*"))) == 3
    assert pickle.loads(pickle.dumps(source))[4] == episodes[4]


def test_single_turns_are_those_of_their_episodes(tmp_path, episodes):
    write_episodes(tmp_path / "data", episodes)
    source = EpisodeSource(tmp_path / "data")
    whole = [(episode, turn) for episode in episodes for turn in episode.turns]
    for number, (episode, turn) in enumerate(whole):
        record = source.turn(number)
        assert record.turn == turn and record.episode == dataclasses.replace(episode, turns=())
        assert list(record.screens) == [episode.turns[shown].screenshot for shown in turn.image_turns]
    assert source.unused == tuple(number for number, (_, turn) in enumerate(whole) if turn.index == 2)
    sample = TurnSource(source)
    assert [sample[k].turn for k in range(len(sample))] == [turn for _, turn in whole if turn.index != 2]


def test_tfds_reads_the_same(tmp_path, episodes):
    """The library's own decoder, which is not used for reading."""
    write_episodes(tmp_path / "data", episodes)
    raw = {"screenshot": tfds.decode.SkipDecoding()}
    turns = tfds.builder_from_directory(tmp_path / "data" / "turns").as_data_source("train", decoders=raw)
    heads = tfds.builder_from_directory(tmp_path / "data" / "episodes").as_data_source("train")
    assert [head["id"].decode() for head in heads] == [episode.id for episode in episodes]
    assert [int(head["seed"]) for head in heads] == [episode.seed for episode in episodes]
    kept = [turn for episode in episodes for turn in episode.turns]
    for number, turn in enumerate(kept):
        found = turns[number]
        assert found["screenshot"] == turn.screenshot and found["text"].decode() == turn.text
        assert [int(i) for i in found["prompt_ids"]] == list(turn.prompt_ids)
        assert [float(value) for value in found["behaviour_logp"]] == list(turn.behaviour_logp)
        assert np.array(found["image_grids"]).reshape(-1, 3).tolist() == [list(grid) for grid in turn.image_grids]


def test_the_card_counts_what_is_there(tmp_path, episodes):
    with episode_writer(tmp_path / "data") as writer:
        for item in episodes:
            writer.add(item)
        writer.drop("more than 40 steps", 3)
    card = json.loads((tmp_path / "data" / "card.json").read_text())
    assert (card["episodes"], card["turns"], card["samples"]) == (5, 12, 10)
    assert card["outcome"] == {"env_crash": 3, "success": 2} and card["dropped"] == {"more than 40 steps": 3}
    assert card["origin"] == {"AgentNet": 1, "made here": 4} and card["licence"]["MIT"] == 1
    assert card["annotator"] == {"judge: exact": 2}
    for name, digest in card["sha256"].items():
        assert hashlib.sha256((tmp_path / "data" / name).read_bytes()).hexdigest() == digest
    assert any(name.startswith("turns/") for name in card["sha256"])
    assert "AgentNet" in (tmp_path / "data" / "card.md").read_text()


def test_a_changed_file_is_a_named_error(tmp_path, episodes):
    write_episodes(tmp_path / "data", episodes)
    (file,) = (tmp_path / "data" / "turns").glob("*.array_record*")
    content = bytearray(file.read_bytes())
    full = [place for place, byte in enumerate(content) if byte]
    content[full[len(full) // 2]] ^= 255
    file.write_bytes(content)
    source, lost = EpisodeSource(tmp_path / "data"), 0
    for number in range(12):
        try:
            source.turn(number)
        except RecordError as error:
            lost += 1
            assert str(file.parent) in str(error)
    assert 0 < lost < 12


def test_a_full_disk_leaves_nothing(tmp_path):
    """Files may not grow over 64 KiB in the writing process, which is how a disk without room looks from inside."""
    code = (
        "import resource, sys, numpy as np; sys.path[:0] = sys.argv[2:]\n"
        "from test_store import episode; from gui_rl.data.store import write_episodes\n"
        "from gui_rl.errors import UserError\n"
        "random = np.random.default_rng(0)\n"
        "many = [episode(random, number, 12) for number in range(40)]\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, 2**16))\n"
        "try: write_episodes(sys.argv[1], many)\n"
        "except UserError as error: print('UserError', error)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "data"), str(HERE), str(HERE.parents[1])]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("UserError") and "could not be written" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_store_needs_no_tensorflow():
    code = "import sys, gui_rl.data.store; assert 'tensorflow' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=HERE.parents[1])


def test_a_failed_write_leaves_nothing(tmp_path, episodes):
    with pytest.raises(RuntimeError, match="stop"), episode_writer(tmp_path / "data") as writer:
        writer.add(episodes[0])
        assert not (tmp_path / "data").exists()
        raise RuntimeError("stop")
    assert list(tmp_path.iterdir()) == []


def test_a_killed_write_never_has_the_final_name(tmp_path):
    code = (
        "import os, signal, sys, numpy as np; sys.path[:0] = sys.argv[2:]\n"
        "from test_store import episode; from gui_rl.data.store import episode_writer\n"
        "with episode_writer(sys.argv[1]) as writer:\n"
        "    for number in range(3): writer.add(episode(np.random.default_rng(0), number, 2))\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "data"), str(HERE), str(HERE.parents[1])])
    assert done.returncode == -9
    assert not (tmp_path / "data").exists()
    with pytest.raises(UserError, match="no dataset"):
        EpisodeSource(tmp_path / "data")


def test_a_dataset_is_never_overwritten(tmp_path, episodes):
    write_episodes(tmp_path / "data", episodes[:1])
    with pytest.raises(UserError, match="exists already"):
        write_episodes(tmp_path / "data", episodes)
    assert len(EpisodeSource(tmp_path / "data")) == 1


def test_an_empty_dataset_is_an_error(tmp_path):
    with pytest.raises(UserError, match="no episode"):
        write_episodes(tmp_path / "data", [])
    assert list(tmp_path.iterdir()) == []


def test_environment_faults_do_not_count(episodes):
    assert not episodes[0].scored and episodes[1].scored and episodes[1].success
    assert episodes[0].group != episodes[1].group


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"behaviour_logp": [0.0]}, "log-probabilities"),
        ({"image_turns": [0]}, "image grids"),
        ({"image_turns": [1], "image_grids": [(1, 2, 2)]}, "had not happened"),
    ],
)
def test_turns_that_contradict_themselves(changes, match):
    with pytest.raises(SchemaError, match=match):
        turn(np.random.default_rng(0), 0, response_ids=[1, 2], **changes)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"outcome": "ok"}, "outcome"),
        ({"source": "robot"}, "source"),
        ({"progress": 3}, "progress"),
        ({"turns": (Turn(1, b""),)}, "numbered"),
    ],
)
def test_episodes_that_contradict_themselves(episodes, changes, match):
    document = {field: getattr(episodes[1], field) for field in Episode.__dataclass_fields__}
    with pytest.raises(SchemaError, match=match) as error:
        Episode(**(document | changes))
    assert "episode-1" in str(error.value)


def test_unknown_keys_are_refused(episodes):
    with pytest.raises(SchemaError, match="reward_total"):
        Episode.from_dict(episodes[0].to_dict() | {"reward_total": 1})
