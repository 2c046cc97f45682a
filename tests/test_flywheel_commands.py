"""`gui-rl flywheel` from tasks to datasets and back, as a user runs it, and what it says about mistakes."""

import json
from pathlib import Path

import pytest
import yaml

from gui_rl import cli
from gui_rl.data.store import EpisodeSource
from gui_rl.flywheel.collect import Item
from gui_rl.flywheel.tasks import read_graph

BASE = Path(__file__).resolve().parents[1] / "experiments" / "base_policy"


@pytest.fixture
def flywheel(tmp_path, monkeypatch, capsys):
    """`flywheel(words)`: output of a command run in a folder of its own; a refusal is (code, its one line)."""
    monkeypatch.chdir(tmp_path)

    def run(words, code=0):
        try:
            cli.main(["flywheel", *map(str, words.split())])
            got = 0
        except SystemExit as end:
            got = end.code
        out, err = capsys.readouterr()
        assert got == code, err
        return err.strip() if code else out

    return run


def test_from_tasks_to_datasets_and_back(flywheel, tmp_path, chromium):
    said = flywheel("tasks --app files --count 6 --longest 2 --out tasks.jsonl")
    assert "6 tasks on 6 paths" in said
    tasks = [json.loads(line) for line in (tmp_path / "tasks.jsonl").read_text().splitlines()]
    assert all(text in task["instruction"] for task in tasks for text in task["subtasks"])
    said = flywheel("collect tasks.jsonl data --parallel 4")
    source = EpisodeSource(tmp_path / "data")
    assert len(source) == 6 and "6 accepted" in said
    assert sorted(source[k].instruction for k in range(6)) == sorted(task["instruction"] for task in tasks)
    card = json.loads((tmp_path / "data" / "card.json").read_text())
    assert card["source"] == {"script": 6} and card["annotator"] == {
        "checkpoints: exact": 6,
        "instruction: template": 6,
    }
    assert "written" in flywheel("export unigui data out")
    assert "kept" in (again := flywheel("import unigui out back")), again
    back = EpisodeSource(tmp_path / "back")
    by_text = {e.instruction: e for e in (back[k] for k in range(len(back)))}
    for k in range(6):
        episode = source[k]
        found = by_text[episode.instruction]
        assert [turn.action for turn in found.turns] == [turn.action for turn in episode.turns]
        assert [turn.response_ids for turn in found.turns] == [turn.response_ids for turn in episode.turns]
        assert [turn.prompt_ids for turn in found.turns] == [turn.prompt_ids for turn in episode.turns]
    assert "6 written" in flywheel("export agentnet data agentnet/all.jsonl")


def test_collected_trajectories_become_interleaved_ones(flywheel, tmp_path, chromium):
    flywheel("tasks --app shop --count 60 --longest 4 --out every.jsonl")
    tasks = [json.loads(line) for line in (tmp_path / "every.jsonl").read_text().splitlines()]
    wanted = [t for t in tasks if t["path"][:2] in (["add", "remove"], ["buy", "remove"])][:1]
    (tmp_path / "few.jsonl").write_text("".join(json.dumps(task) + "\n" for task in wanted))
    flywheel("collect few.jsonl data")
    said = flywheel("tools data out")
    every, few = EpisodeSource(tmp_path / "out" / "all"), EpisodeSource(tmp_path / "out" / "critical")
    assert "tools: 100.0% of 1" in said and "interleaved:" in said and len(every) > len(few) > 0
    assert all(every[k].success and every[k].instruction == wanted[0]["instruction"] for k in range(len(every)))
    samples = [turn.use for k in range(len(few)) for turn in few[k].turns]
    assert 0 < sum(samples) < len(samples)
    assert all(turn.state_hash for turn in every[0].turns)
    library = [json.loads(line) for line in (tmp_path / "out" / "tools.jsonl").read_text().splitlines()]
    assert {tool["granularity"] for tool in library} >= {"coarse"} and all(t["made_by"] == "exact" for t in library)
    assert "exists already" in flywheel("tools data out", code=2)


def test_a_policy_collects_and_leaves_the_rest_to_people(flywheel, tmp_path, chromium):
    """The shipped base has never seen a task: most stays unsolved."""
    flywheel("tasks --app orders --count 3 --longest 1 --out tasks.jsonl")
    lines = (tmp_path / "tasks.jsonl").read_text().splitlines()
    said = ""
    try:
        said = flywheel(f"collect tasks.jsonl data --policy {BASE} --attempts 2 --people left.jsonl")
    except AssertionError as nothing:  # not one was solved: there is nothing to store, which is an error that says so
        assert "no episode was written" in str(nothing)
    people = [Item.from_dict(json.loads(line)) for line in (tmp_path / "left.jsonl").read_text().splitlines()]
    assert people and len(people) <= len(lines) and all(item.attempt == 2 for item in people)
    assert "accepted" in said or not (tmp_path / "data").exists()


def test_graphs_as_files(flywheel, tmp_path):
    shown = flywheel("tasks --app orders --show")
    document = yaml.safe_load(shown)
    assert document["app"] == "orders" and "star" in document["subtasks"]
    document["entities"] = {"star": ["cup", "tree"]}
    document |= {"start": ["star"], "subtasks": {"star": document["subtasks"]["star"] | {"after": []}}}
    (tmp_path / "graph.yaml").write_text(yaml.safe_dump(document))
    assert read_graph(tmp_path / "graph.yaml").paths(2) == [("star",)]
    assert "4 tasks on 1 paths" in flywheel("tasks --graph graph.yaml --count 4 --out made.jsonl")
    document["subtasks"]["star"]["after"] = ["star"]
    (tmp_path / "graph.yaml").write_text(yaml.safe_dump(document))
    assert "cycle" in flywheel("tasks --graph graph.yaml --out other.jsonl", code=2)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("", "tasks, collect, record, tools, knowledge, thoughts, grounding, import, export"),
        ("spin", "'spin'"),
        ("tasks", "--graph FILE, or --app"),
        ("tasks --app notes", "'notes'"),
        ("tasks --graph none.yaml", "none.yaml"),
        ("tasks --app orders --out taken.jsonl", "exists already"),
        ("collect none.jsonl out", "none.jsonl"),
        ("collect taken.jsonl out", "JSON lines"),
        ("import unigui nowhere out", "no task.json"),
        ("import agentnet nowhere out", "no file"),
        ("import androidcontrol nowhere out", "no AndroidControl"),
        ("import other nowhere out", "other"),
        ("export unigui nowhere out", "no dataset"),
        ("record out", "name a --task"),
        ("record out --task orders/fly", "orders/fly"),
    ],
)
def test_mistakes_are_one_line(flywheel, tmp_path, words, says):
    (tmp_path / "taken.jsonl").write_text("{torn")
    line = flywheel(words, code=2)
    assert line.startswith("gui-rl: ") and says in line and "\n" not in line
    assert not (tmp_path / "out").exists()
