"""Task graphs: files, validity, coverage, slots, composition and rewriting."""

import asyncio
import itertools
import json
import random

import pytest
import yaml

from env_servers.suites.virtual import registry
from env_servers.suites.virtual.app import START, paths
from gui_rl.errors import UserError
from gui_rl.flywheel import tasks
from gui_rl.flywheel.annotator import Answer, Exact

NOTES = {
    "app": "notes",
    "device": "mobile",
    "entities": {"note": ["apple", "pear", "plum"], "person": ["Ann", "Bob"]},
    "start": ["open"],
    "terminal": ["share", "delete"],
    "subtasks": {
        "open": {"text": "Open the {note}."},
        "share": {"text": "Share it with {person}.", "after": ["open"]},
        "delete": {"text": "Delete the {old}.", "after": ["open", "share"], "slots": {"old": "note"}},
    },
}


def changed(**changes):
    document = json.loads(json.dumps(NOTES))
    for path, value in changes.items():
        *parents, last = path.split("__")
        place = document
        for name in parents:
            place = place[name]
        if value is None:
            del place[last]
        else:
            place[last] = value
    return document


def test_files_in_yaml_and_json(tmp_path):
    for name, text in (("notes.yaml", yaml.safe_dump(NOTES)), ("notes.json", json.dumps(NOTES))):
        (tmp_path / name).write_text(text)
        graph = tasks.read_graph(tmp_path / name)
        assert sorted(graph.paths(3)) == [("open", "delete"), ("open", "share"), ("open", "share", "delete")]
        assert graph.to_document() == NOTES
    (tmp_path / "torn.yaml").write_text("app: [")
    with pytest.raises(UserError, match=r"torn\.yaml"):
        tasks.read_graph(tmp_path / "torn.yaml")
    with pytest.raises(UserError, match="no such file|No such file"):
        tasks.read_graph(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("document", "match"),
    [
        (changed(subtasks__open__after=["delete"]), "cycle"),
        (changed(subtasks__share__after=["nowhere"]), "comes after unknown"),
        (changed(start=[]), "can not be reached"),
        (changed(subtasks__lonely={"text": "Alone."}), "can not be reached"),
        (changed(terminal=["share"]), "no terminal subtask can be reached from .'delete'"),
        (changed(terminal=["nowhere"]), "terminal names unknown"),
        (changed(start=["open", "nowhere"]), "start names unknown"),
        (changed(entities__person=None), "slot 'person' has no entities 'person'"),
        (changed(entities__person=[]), "lists of values"),
        (changed(entities=None), "need entities"),
        (changed(subtasks__open__text="Open {"), "no template"),
        (changed(subtasks__open__text="Open {0}."), "a slot is a name"),
        (changed(subtasks__open__colour="red"), "unknown fields"),
        (changed(device="watch"), "device 'watch'"),
        (changed(device=None), "needs device"),
        (changed(size=3), "unknown fields"),
        ([1], "needs"),
        (changed(subtasks__share__after="open"), "need a list"),
    ],
)
def test_graphs_that_are_not_valid(document, match):
    with pytest.raises(UserError, match=match):
        tasks.graph_from(document)


@pytest.mark.parametrize("name", sorted(registry))
def test_the_graph_of_an_app_is_the_app_s(name):
    app = registry[name]
    graph = tasks.graph_from(tasks.graph_of(app).to_document() | {"entities": {"_": ["x"]}} | _tables(app))
    assert set(graph.paths(3)) == set(paths(app, 3))
    again = tasks.apply(tasks.graph_of(app), app)
    assert again.subtasks == app.subtasks and again.tasks() == app.tasks()


def _tables(app):
    slots = {slot for subtask in app.subtasks for slot in tasks.slots_of(subtask.text)}
    return {"entities": {slot: ["x", "y"] for slot in slots}}


def test_a_file_changes_order_and_words_of_an_app_and_keeps_its_predicates():
    app = registry["orders"]
    mark = tasks.Vertex("mark", "Put a mark on the {mark}.", ("star",))
    graph = tasks.Graph("orders", "mobile", (tasks.Vertex("star", "Star the {star}.", (START,)), mark))
    made = tasks.apply(graph, app)
    assert {path for path in paths(made, 3)} == {("star",), ("star", "mark")}
    state = app.initial(4)
    slots = made.slots(4, ("star", "mark"), state)
    assert not made.by_id["mark"].checkpoint(state, slots)
    assert made.by_id["mark"].text.format(**slots) == f"Put a mark on the {slots['mark']}."
    with pytest.raises(UserError, match="no subtask 'fly'"):
        tasks.apply(tasks.Graph("orders", "mobile", (tasks.Vertex("fly", "Fly.", (START,)),)), app)
    with pytest.raises(UserError, match="fills no slot"):
        tasks.apply(tasks.Graph("orders", "mobile", (tasks.Vertex("star", "Star {cup}.", (START,)),)), app)


@pytest.mark.parametrize("name", sorted(registry))
def test_no_path_comes_twice_before_all_have_come(name):
    every = list(paths(registry[name], 3))
    order = list(itertools.islice(tasks.covering(every, 7), 2 * len(every)))
    assert sorted(order[: len(every)]) == sorted(every) == sorted(order[len(every) :])
    assert order[: len(every)] != every and order[: len(every)] != order[len(every) :]

    def edges(some):
        return {edge for path in some for edge in zip((START, *path), path, strict=False)}

    assert edges(order[: len(edges(every))]) == edges(every)  # each of the first paths showed a new edge
    assert order == list(itertools.islice(tasks.covering(every, 7), 2 * len(every)))


def test_tasks_of_a_file():
    graph = tasks.graph_from(NOTES)
    made = tasks.make_tasks(graph, 12, 3, seed=1)
    assert len({task.path for task in made[:3]}) == 3
    for task in made:
        for value in task.slots.values():
            assert value in task.instruction
        assert all(text.format(**task.slots) in task.instruction for text in task.subtasks)
        if "delete" in task.path:
            assert task.slots["old"] != task.slots["note"]
        assert [task.instruction.index(text) for text in task.subtasks] == sorted(
            task.instruction.index(text) for text in task.subtasks
        )
    assert len({task.instruction for task in made}) > 6
    assert made == tasks.make_tasks(graph, 12, 3, seed=1)
    few = tasks.graph_from(changed(entities__note=["apple"]))
    with pytest.raises(UserError, match="'note' are too few for the slots of open.*delete"):
        tasks.make_tasks(few, 3, 3, seed=1)


def test_tasks_of_an_app_are_those_that_its_server_plays():
    app = registry["files"]
    made = tasks.app_tasks(app, "virtual", 30, 2, 0, range(100, 200))
    known = {task.id: task for task in app.tasks()}
    for task in made:
        assert known[task.task].path == task.path and known[task.task].feasible
        assert all(text in task.instruction for text in task.subtasks)
    assert [task.seed for task in made] == list(range(100, 130))


class Saying:
    """Answers with the sentences of a list."""

    name = "saying"

    def __init__(self, *answers):
        self.answers = list(answers)

    async def ask(self, question):
        return Answer(json.dumps({"instruction": self.answers.pop(0)}), self.name)


def task():
    return tasks.MadeTask(
        "notes", "mobile", ("open", "delete"), {"note": "apple", "old": "pear", "unseen": "x1"},
        ("Open the apple.", "Delete the pear."), "Open the apple. Delete the pear.",
    )  # fmt: skip


def test_a_rewritten_instruction_keeps_every_value():
    good = "Please open the apple, and get rid of the pear."
    done, rubbish = asyncio.run(tasks.rewrite_all(Saying(good), [task()]))
    assert done[0].instruction == good and done[0].made_by == "saying" and rubbish == 0
    second = Saying("Open the apples and the pear.", good)  # "apples" is not "apple"
    assert asyncio.run(tasks.rewrite_all(second, [task()]))[0][0].instruction == good


@pytest.mark.parametrize(
    "bad", ["Open the apple.", "Open the apple, delete the pear, then the apple.", "", "Open apple\nDelete pear"]
)
def test_rubbish_changes_nothing_and_is_counted(bad):
    done, rubbish = asyncio.run(tasks.rewrite_all(Saying(bad, bad), [task()]))
    assert done == [task()] and rubbish == 1


def test_an_exact_annotator_may_rewrite_too():
    exact = Exact({"rewrite": lambda facts: {"instruction": f"Now: {facts['instruction']}"}})
    done, _ = asyncio.run(tasks.rewrite_all(exact, [task()]))
    assert done[0].instruction == "Now: Open the apple. Delete the pear." and done[0].made_by == "exact"


def test_one_sentence_is_not_embroidered():
    assert {tasks.compose(["Open the apple."], random.Random(n)) for n in range(20)} == {"Open the apple."}
    assert len({tasks.compose(["A.", "B."], random.Random(n)) for n in range(40)}) == len(tasks.JOINS)
