"""The tasks of several programs without the programs: goals, near-misses, moves, what a session begins with."""

import copy
import random

import pytest

from env_servers.protocol.actions import Call, validate_call
from env_servers.suites import instantiate, tasks
from env_servers.suites.apps.mail.tasks import outcome
from env_servers.suites.libreoffice.case import HAND, NAMES, script
from env_servers.suites.office import KINDS
from env_servers.suites.office.case import SCREEN
from env_servers.suites.virtual.gestures import Element

SEEDS = (0, 1_000_000)
FEASIBLE = [name for name, kind in KINDS.items() if kind.feasible]


def sent(web, fact):
    """The mail app's state once this reply has been sent, or this file saved."""
    what, _, rest = fact.partition(":")
    if what == "saved":
        web["saved"].append(rest)
        return
    kind, who, to, _, text = rest.split(":", 4)
    about = next(mail["id"] for mail in web["mails"] if mail["from"] == who)
    more = {
        "kind": kind,
        "about": about,
        "to": to,
        "subject": "Re: it",
        "lines": [text],
        "folder": "Sent",
        "from": "Me",
    }
    web["mails"].insert(0, {**web["mails"][0], **more, "id": 1000 + len(web["mails"])})


def played(instance, **more):
    """A state at the end: all right, unless said otherwise."""
    job = instance.case
    end = job.before if job.after is None else job.after
    state = {"document": end, "saved": end, "answer": "", "acted": 0}
    state |= {"place": job.place or instance.initial["file"], "files": job.beside if job.files is None else job.files}
    if instance.initial["web"]:
        state["web"] = copy.deepcopy(instance.initial["web"]["state"])
        for fact in job.told:
            sent(state["web"], fact)
    return {**state, **more}


def verdict(instance, state, declared="success"):
    complete = all(checkpoint(state) for checkpoint in instance.checkpoints)
    return instance.succeeded(state, declared, complete)


def misses(instance):
    """What is not quite right, by what it is."""
    job, right = instance.case, played(instance)
    if job.after is not None:
        yield "did it but did not save", {"saved": job.before}
        yield "saved, then changed", {"document": job.before}
    if job.place:
        yield "the file was left where it was", {"place": instance.initial["file"]}
        yield "the file lies elsewhere", {"place": f"x/{job.place}"}
        yield "the file is gone", {"place": "", "saved": None}
    if job.files is not None:
        yield "the files are as they were", {"files": job.beside}
        yield "a file is empty", {"files": dict.fromkeys(job.files or {"x": ""}, "")}
    yield "a file more", {"files": {**right["files"], "more.txt": "x"}}
    if instance.initial["web"]:
        began = instance.initial["web"]["state"]
        if job.told:
            yield "nothing was sent", {"web": began}
            twice, wrong = copy.deepcopy(right["web"]), copy.deepcopy(began)
            for fact in job.told:
                sent(twice, f"{fact}!" if fact.startswith("saved") else fact)
                sent(wrong, f"{fact}1")
            yield "it was sent twice, or more was saved", {"web": twice}
            yield "something else was sent", {"web": wrong}
        moved = copy.deepcopy(right["web"])
        moved["mails"][-1]["folder"] = "Elsewhere"
        yield "another mail was moved", {"web": moved}
        yield "the mail app was closed", {"web": None}
    changed = copy.deepcopy(right["document"])
    changed["more"] = 1
    yield "the document has one thing more", {"document": changed}


@pytest.mark.parametrize("name", FEASIBLE)
def test_the_goal_is_met_by_the_right_end_and_by_no_near_miss(name):
    for seed in SEEDS:
        instance = instantiate("office", name, seed)
        right = played(instance)
        assert verdict(instance, right) and not verdict(instance, right, declared="failure")
        began = played(instance, document=instance.case.before, saved=instance.case.before)
        began |= {"place": instance.initial["file"], "files": instance.case.beside}
        if instance.initial["web"]:
            began["web"] = instance.initial["web"]["state"]
        assert not verdict(instance, began), "nothing done"
        assert not all(checkpoint(began) for checkpoint in instance.checkpoints)
        assert not any(checkpoint(began) for checkpoint in instance.checkpoints), "met from the beginning"
        tried = dict(misses(instance))
        found = []
        for what, given in tried.items():
            state = {key: value for key, value in {**right, **given}.items() if key != "web" or value is not None}
            found += [what] if verdict(instance, state) else []
        assert len(tried) >= 3 and found == []


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if not kind.feasible])
def test_what_cannot_be_done_is_solved_by_saying_so_with_nothing_changed(name):
    instance = instantiate("office", name, 3)
    assert verdict(instance, played(instance), declared="failure")
    assert not verdict(instance, played(instance))
    for _, given in misses(instance):
        state = {key: value for key, value in {**played(instance), **given}.items() if value is not None}
        assert not verdict(instance, state, declared="failure")
    assert instance.move({"acted": 0}, [], [], []).call == HAND.give_up().call


def test_every_program_has_tasks_and_no_task_has_one_program_alone():
    programs = {name: kind.make(random.Random(1)).programs for name, kind in KINDS.items()}
    assert {one for some in programs.values() for one in some} == {"files", "terminal", "editor", "mail"}
    assert all(programs.values()) and len(FEASIBLE) >= 12 and len(FEASIBLE) < len(KINDS)
    assert {task.tool_beneficial for task in tasks("office").values()} == {1, -1}
    assert all(set(some) <= set(KINDS[name].task.tags) for name, some in programs.items())


@pytest.mark.parametrize("name", FEASIBLE)
def test_every_move_of_a_script_is_a_valid_call_and_every_tool_is_offered(name):
    instance = instantiate("office", name, 11)
    offered = [tool.name for tool in instance.tools]
    assert set(KINDS[name].offered) <= set(offered)
    for tools in ([], offered):
        moves = script(instance.case.way, instance.app, tools)
        named = [Element(word, (10, 10, 30, 20)) for move in moves if isinstance(move, tuple) for word in move[1:]]
        for k in range(len(moves) + 1):
            call = instance.move({"acted": k}, named, [], tools).call
            assert call["name"] in offered or validate_call(Call(**call), "desktop") is None
        assert len(moves) < instance.task.max_steps


def test_the_same_seed_begins_the_same_and_another_seed_otherwise():
    for name in ("files/delete", "terminal/grep", "mail/both"):
        one, again, other = (instantiate("office", name, seed) for seed in (5, 5, 6))
        assert one.initial == again.initial and one.instruction == again.instruction
        assert one.initial["data"] != other.initial["data"]
        assert one.page == other.page == SCREEN and one.initial["file"] in NAMES.values()
    with pytest.raises(ValueError, match="no split"):
        instantiate("office", "files/move", 10**9)


def test_a_mail_that_asks_says_so_and_its_answer_is_one_fact_more():
    instance = instantiate("office", "mail/both", 2)
    web = instance.initial["web"]["state"]
    end = copy.deepcopy(web)
    (fact,) = instance.case.told
    sent(end, fact)
    assert {key: value for key, value in outcome(end).items() if key not in outcome(web)} == {fact: 1}
    asking = next(mail for mail in web["mails"] if "total" in " ".join(mail["lines"]))
    assert asking["from"] in instance.instruction and asking["folder"] == "Inbox"
