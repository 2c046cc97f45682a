"""`gui-rl eval` in live environments: the script solves all, chance does not; what was played is not played again."""

import dataclasses
import json

import pytest

from env_servers.server import ServerConfig, running_server
from gui_rl.errors import UserError
from gui_rl.evaluate.command import EvalOptions, Journal, pairs_of, run, seeds_of, show


@pytest.fixture(scope="module")
def server(chromium):
    with running_server(ServerConfig(port=0)) as running:
        yield running


@pytest.fixture
def ask(server, tmp_path, monkeypatch):
    monkeypatch.setenv("GUI_RL_TOKEN", server.token)
    options = EvalOptions(
        "script", longest=1, episodes=3, repeat=2, server=server.url, out=tmp_path / "out", keep=True, parallel=8
    )
    return lambda **changes: run(dataclasses.replace(options, **changes))


def test_the_script_solves_everything_and_nothing_is_played_twice(ask, tmp_path, capsys):
    first = ask()["script"]
    assert first["all"]["all"].success == 1.0 and first["all"]["all"].episodes == 3 * 3 * 2
    assert first["all"]["all"].low < 1.0
    assert set(first["device"]) == {"mobile", "desktop", "web"} and set(first["length"]) == {"1"}
    written = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert written["script"]["device"]["web"]["success"] == 1.0
    assert len(list((tmp_path / "out" / "trajectories").glob("*.json"))) == 18

    records = tmp_path / "out" / "records.jsonl"
    lines = records.read_text().splitlines(keepends=True)
    records.write_text("".join(lines[:-2]) + lines[-2][:40])  # as a kill in the middle of a line leaves it
    before = records.read_text().splitlines()[:-1]
    again = ask()["script"]
    after = records.read_text().splitlines()
    assert after[: len(before)] == before and len(after) == len(lines)
    assert again["all"]["all"].episodes == 18
    show({"script": again})
    assert "100.0" in capsys.readouterr().out


def test_another_question_needs_another_folder(ask, tmp_path):
    ask(episodes=1, repeat=1, tasks="shop/c*")
    with pytest.raises(UserError, match="other options"):
        ask(episodes=2, repeat=1, tasks="shop/c*")


def test_chance_is_measured_on_the_same_pairs(ask):
    found = ask(policy="random", episodes=2, repeat=1)
    assert found["random"]["all"]["all"].success < 0.5


def test_what_does_not_exist_is_named(ask, tmp_path):
    for changes, word in (
        ({"tasks": "nothing/*"}, "nothing"),
        ({"suite": "nowhere"}, "nowhere"),
        ({"seeds": "9:3"}, "9:3"),
        ({"seeds": "1:3"}, "2"),
        ({"policy": str(tmp_path / "none")}, "none"),
        ({"agent": "roles"}, "speaks for the roles"),
        ({"knowledge": tmp_path}, "told to the Manager"),
    ):
        with pytest.raises(UserError, match=word):
            ask(out=tmp_path / "-".join(word.split()), **changes)
    assert not (tmp_path / "none" / "config.json").exists()


def test_seeds_and_pairs():
    assert seeds_of("5:8") == range(5, 8) and seeds_of("evaluation").start == 1_000_000
    assert pairs_of([], EvalOptions("script"), range(100), "x") == []


def test_a_journal_that_is_none_is_named(tmp_path):
    path = tmp_path / "records.jsonl"
    path.write_text('{"id": 1}\n')
    with pytest.raises(UserError, match="records.jsonl, line 1"):
        Journal(path)
