"""Episodes stored to be looked at come back whole, and the shown choice is a fair one."""

import dataclasses

import pytest

from gui_rl.data.schema import Episode, Turn
from gui_rl.data.trajectory_files import read_trajectories, write_trajectory
from gui_rl.report.trajectories import call_text, select


def episode(
    identity: str, device: str = "web", success: bool = True, version: int = 3, source: str = "policy"
) -> Episode:
    turn = Turn(
        index=0,
        screenshot=b"\x89PNG one",
        prompt_ids=(5, 6),
        image_grids=((1, 4, 6),),
        image_turns=(0,),
        response_ids=(7, 8),
        behaviour_logp=(-0.5, -0.25),
        action={"name": "browser_use", "arguments": {"action": "click", "coordinate": [1, 2]}},
        target_box=(0.0, 1.0, 2.0, 3.0),
        seconds={"sample": 0.5},
    )
    return Episode(
        id=identity,
        suite="virtual",
        task="t",
        seed=1,
        device=device,
        instruction="Öffne »das« Fach",
        screen_size=(160, 128),
        turns=(turn,),
        outcome="success" if success else "fail",
        checkpoints=(0, None),
        total=2,
        progress=1,
        source=source,
        policy_version=version,
        final_screenshot=b"\x89PNG two",
    )


@pytest.mark.parametrize("identity", ["plain-1", "virtual/shop.star/1000000/3", "../../outside", "a b", "x" * 300])
def test_an_episode_comes_back_whole(tmp_path, identity):
    stored = episode(identity)
    path = write_trajectory(tmp_path, stored)
    assert path.parent == tmp_path / "trajectories"
    assert read_trajectories(tmp_path) == (stored,)
    assert sorted(p.suffix for p in path.parent.iterdir()) == [".json", ".jsonl", ".png", ".png"]


def test_ids_that_look_alike_as_file_names_stay_apart(tmp_path):
    for identity in ("a/b", "a_b", "a b"):
        write_trajectory(tmp_path, episode(identity))
    assert {e.id for e in read_trajectories(tmp_path)} == {"a/b", "a_b", "a b"}


def test_a_stored_name_never_leads_out_of_the_folder(tmp_path):
    (tmp_path / "secret.png").write_bytes(b"secret")
    path = write_trajectory(tmp_path, episode("e"))
    path.write_text(path.read_text().replace("e-00.png", "../secret.png"))
    assert read_trajectories(tmp_path)[0].turns[0].screenshot == b""


def test_the_choice_mixes_outcomes_and_prefers_the_newest_policy():
    episodes = [
        episode("script", source="script", version=-1),
        episode("old good", version=1),
        episode("new good", version=9),
        episode("new bad", success=False, version=9),
        episode("phone", device="mobile"),
    ]
    assert [e.id for e in select(episodes)] == ["phone", "new good", "new bad"]
    assert [e.id for e in select(episodes, per_family=9)] == ["phone", "new good", "new bad", "old good", "script"]
    assert select([dataclasses.replace(episodes[0], device="toaster")]) == []


@pytest.mark.parametrize(
    ("action", "text"),
    [
        (None, "no call"),
        ({"name": "mobile_use", "arguments": {"action": "type", "text": "é<"}}, 'type text="é<"'),
        ({"name": "files.move_file", "arguments": {"name": "a"}}, 'files.move_file name="a"'),
        ({"name": "shop.checkout", "arguments": {}}, "shop.checkout"),
    ],
)
def test_calls_on_one_line(action, text):
    assert call_text(action) == text
