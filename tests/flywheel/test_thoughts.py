"""Thoughts and roles of trajectories that are played in the real worlds: exact ones, and an annotator's."""

import asyncio
import dataclasses
import json
import re
from collections import Counter

import pytest

from env_servers.protocol.messages import Known
from env_servers.server import running_server
from gui_rl.data.samples import by_role, supervised, turn_sample, with_ids
from gui_rl.data.schema import Episode, Turn, TurnRecord
from gui_rl.data.store import EpisodeSource, write_episodes
from gui_rl.flywheel import knowledge, role_data
from gui_rl.flywheel.annotator import AnnotatorError, Answer, RubbishError
from gui_rl.flywheel.thoughts import exact, verdict, with_thoughts
from gui_rl.flywheel.witness import noted, witness
from gui_rl.prompt.context import TINY_CONTEXT, ContextConfig
from gui_rl.prompt.parse import parse_response
from gui_rl.prompt.tokenizer import Tokenizer
from gui_rl.rollout.agents import Prompts, Reply, ScriptAgent
from gui_rl.rollout.env_client import EnvClient
from gui_rl.rollout.episode import Spec, play_all

TOKENIZER = Tokenizer.load("gui-tiny")
TINY, WIDE = Prompts(TOKENIZER, TINY_CONTEXT), Prompts(TOKENIZER, ContextConfig(history_turns=1))
NARROW = Prompts(TOKENIZER, dataclasses.replace(TINY_CONTEXT, max_prompt_tokens=None))
SHORT = ("virtual", "shop/add+checkout")
CARRIED = (("memory", "memos_mobile/look+meanwhile+put_number"), ("memory", "memos_web/colour+put_thing"))
RELAY = ("relay", "relay/desktop-mobile-thing")
MEMORY = (("apps", "mail/tell"), ("apps", "search/code"), ("apps", "search/cheaper"))


class Lost(ScriptAgent):
    """The script, which first presses where nothing is."""

    async def act(self, view):
        reply = await super().act(view)
        if view.history:
            return reply
        text = re.sub(r'"coordinate": \[\d+, \d+\]', '"coordinate": [999, 0]', reply.text)
        return dataclasses.replace(reply, text=text, response_ids=TOKENIZER.encode(text))


@dataclasses.dataclass(frozen=True)
class Saying:
    """Says the responses of an episode again, as a thinking policy would."""

    episode: Episode
    source: str = "policy"
    prompts: Prompts = Prompts(TOKENIZER, dataclasses.replace(TINY_CONTEXT, thinking=True))

    async def act(self, view):
        turn = self.episode.turns[len(view.history)]
        return Reply(turn.text, self.prompts.of(view), turn.response_ids, thinking=True)


@pytest.fixture(scope="module")
def played(chromium):
    """By task: the episode and what was witnessed; under "lost" that of an agent that makes a mistake, under "again"
    the thoughts of the first, played."""

    async def run(server):
        async with EnvClient(server.url, server.token) as client:
            specs = [Spec(suite, task, 3) for suite, task in (SHORT, *MEMORY, *CARRIED, RELAY)]
            episodes = await play_all(client, ScriptAgent(WIDE), specs, script=True, keep_final=True)
            (lost,) = await play_all(client, Lost(WIDE), [Spec(*SHORT, 5)], script=True, keep_final=True)
            found = {episode.task: (episode, await witness(client, episode)) for episode in episodes}
            found["lost"] = (lost, await witness(client, lost))
            made = await with_thoughts(exact(True), found[SHORT[1]][0], TINY, found[SHORT[1]][1])
            (again,) = await play_all(client, Saying(made), [Spec(*SHORT, 3)])
            found["again"] = (again, made)
            broken = dataclasses.replace(episodes[0], seed=4)
            with pytest.raises(AnnotatorError, match="another screen"):
                await witness(client, broken)
            return found

    with running_server() as server:
        return asyncio.run(run(server))


def thinking(played, task, prompts, brief=False):
    episode, witnessed = played[task]
    return asyncio.run(with_thoughts(exact(brief), episode, prompts, witnessed))


def test_thoughts_are_responses_of_the_thinking_form(played, tmp_path):
    made = thinking(played, SHORT[1], TINY, brief=True)
    assert made.made_by["thought"] == "exact" and made.success
    for turn, before in zip(made.turns, played[SHORT[1]][0].turns, strict=True):
        parsed = parse_response(turn.text, made.device, made.tools, thinking=True)
        assert parsed.failure is None and parsed.thought == turn.thought and parsed.conclusion == turn.conclusion
        assert {"name": parsed.call.name, "arguments": dict(parsed.call.arguments)} == before.action
        assert TOKENIZER.decode(turn.prompt_ids).endswith("<think>\n")
        assert TOKENIZER.decode(turn.response_ids) == turn.text + "<|im_end|>"
        assert turn.response_ids.count(TOKENIZER.control("</think>")) == 1
        assert len(turn.response_ids) <= 48  # a small policy's budget
    add, check = played[SHORT[1]][1].seen[0].known.subtasks
    thoughts = [turn.thought for turn in made.turns]
    assert thoughts == [f"Next: {add}", f"Next: {check}", f"Next: {check}", "All is done."]
    write_episodes(tmp_path / "store", [made])
    source = EpisodeSource(tmp_path / "store")
    assert source[0] == made
    sample = supervised(source.turn(1))
    assert TOKENIZER.decode(sample.branches[0].ids).startswith(f"Next: {check}\n</think>")
    assert sample.branches[0].ce_weight.min() == 1.0


def test_thoughts_play_as_they_were_written(played):
    again, made = played["again"]
    assert again.success and not any(turn.parse_error for turn in again.turns)
    for name in ("text", "thought", "conclusion", "action", "prompt_ids", "response_ids"):
        assert [getattr(turn, name) for turn in again.turns] == [getattr(turn, name) for turn in made.turns]


@pytest.mark.parametrize(("suite", "task"), MEMORY)
def test_the_memory_holds_what_a_later_step_needs(played, suite, task):
    """The value is not in the instruction and not on the later screen; every thought in between has it."""
    episode, witnessed = played[task]
    assert episode.success
    made = thinking(played, task, WIDE)
    if task == "search/cheaper":
        values = re.findall(r"(\d+) euros", " ".join(note for notes in witnessed.noted for note in notes))
        assert len(set(values)) == 2
        value, used = values[0], len(episode.turns) - 2
        assert episode.turns[used].action["arguments"]["action"] == "answer"
    else:
        used = next(t.index for t in episode.turns if t.action["arguments"].get("action") == "type" and t.index > 1)
        value = episode.turns[used].action["arguments"]["text"]
    first = next(index for index, notes in enumerate(witnessed.noted) if any(value in note for note in notes))
    assert value not in episode.instruction and first < used
    assert value not in str(witnessed.seen[used].known.facts) and value in str(witnessed.seen[first].known.facts)
    assert all(value not in turn.thought for turn in made.turns[:first])
    assert all(value in turn.thought for turn in made.turns[first : used + 1])
    # a policy whose context keeps no earlier turn whole reads it in its own conclusions
    narrow = thinking(played, task, NARROW, brief=True)
    assert value in narrow.turns[first].conclusion
    assert value in TOKENIZER.decode(narrow.turns[used].prompt_ids)
    assert value not in TOKENIZER.decode(narrow.turns[first].prompt_ids)


@pytest.mark.parametrize(("suite", "task"), CARRIED)
def test_a_tiny_policy_knows_a_value_by_its_thoughts_alone(played, suite, task):
    """gui-tiny's own context: the value is in the prompt of the turn that uses it with thoughts, and not without."""
    episode, witnessed = played[task]
    plain = with_ids(strip(episode), TOKENIZER, TINY_CONTEXT)
    made = thinking(played, task, TINY, brief=True)
    used = len(episode.turns) - 2  # the last before the end
    first = next(index for index, notes in enumerate(witnessed.noted) if notes)
    assert used - first >= 3
    kind = task.rsplit("_", 1)[1]
    (note,) = [note for note in witnessed.noted[first] if kind in note]
    value = note.removesuffix(".").split()[-1]
    assert value not in TOKENIZER.decode(plain.turns[used].prompt_ids).split("Previous actions:")[1]
    assert note in TOKENIZER.decode(made.turns[used].prompt_ids) and note in made.turns[used].thought
    assert plain.turns[used].image_turns == made.turns[used].image_turns == (used,)
    assert max(len(turn.prompt_ids) for turn in made.turns) <= TINY_CONTEXT.max_prompt_tokens
    assert max(len(turn.response_ids) for turn in made.turns) <= 96


def strip(episode):
    """As a script without a policy would have left it: no ids."""
    bare = {"prompt_ids": (), "response_ids": (), "image_grids": (), "image_turns": ()}
    return dataclasses.replace(episode, turns=tuple(dataclasses.replace(turn, **bare) for turn in episode.turns))


def test_two_devices_each_have_their_own_prompts(played, tmp_path):
    episode, witnessed = played[RELAY[1]]
    assert episode.success and episode.device == "desktop" and episode.screen_size == (160, 128)
    devices = [episode.device_of(turn) for turn in episode.turns]
    assert devices == ["desktop"] * 3 + ["mobile"] * 3
    for prompts in (NARROW, WIDE):
        made = with_ids(strip(episode), TOKENIZER, prompts.context)
        for turn, device in zip(made.turns, devices, strict=True):
            function = {"desktop": "computer_use", "mobile": "mobile_use"}[device]
            assert f'"{function}"' in TOKENIZER.decode(turn.prompt_ids).split("</tools>\n\nFor each")[0]
    value = witnessed.noted[2][0].removesuffix(".").split()[-1]
    made = thinking(played, RELAY[1], NARROW, brief=True)
    assert f"The thing is {value}." in TOKENIZER.decode(made.turns[4].prompt_ids)
    write_episodes(tmp_path / "store", [made])
    assert EpisodeSource(tmp_path / "store")[0] == made


def test_notes_need_a_later_use():
    def known(*facts):
        return Known(facts=facts, outcome={}, subtasks=[], met=[], holds=[], strayed=[])

    def turn(index, **arguments):
        return Turn(index, b"", action={"name": "f", "arguments": arguments})

    seen = [known(("How much?", "7 euros")), known(("How many?", "7"), ("Who?", "Ann")), known(("Which?", "no"))]
    ends = [
        (
            {"text": "7"},
            "Send it.",
            ((), ("How many? 7.",), ()),
        ),  # the last screen that shows it, the exact value first
        ({"text": "7"}, "Type 7.", ((), (), ())),  # the instruction says it
        ({"text": "8"}, "Send it.", ((), (), ())),  # no screen shows it
        ({"text": "no"}, "Send it.", ((), (), ())),  # this screen shows it
        ({"coordinate": [7, 7]}, "Send it.", ((), (), ())),
    ]
    for arguments, instruction, wanted in ends:
        turns = (turn(0, action="click"), turn(1, action="click"), turn(2, **arguments))
        episode = Episode("e", "s", "t", 0, "web", instruction, (1, 1), turns, "success")
        assert noted(episode, seen) == wanted


def test_a_mistake_is_reflected_on(played):
    episode, witnessed = played["lost"]
    assert verdict(witnessed, 0) == (False, "It did nothing.")
    assert all(verdict(witnessed, step)[0] for step in range(1, len(episode.turns) - 1))
    made = thinking(played, "lost", TINY, brief=True)
    assert made.turns[1].thought.startswith("It did nothing. Next: ") and "nothing" not in made.turns[2].thought


def test_step_questions_and_changes_are_true_of_the_states(played):
    episode, witnessed = played[SHORT[1]]
    add, check = witnessed.seen[0].known.subtasks
    pairs = list(knowledge.step_pairs(witnessed))
    done = [pair.answer for pair in pairs if pair.question.endswith(knowledge.DONE)]
    following = [pair.answer for pair in pairs if pair.question.endswith(knowledge.NEXT)]
    assert done == ["nothing", add, add, f"{add} {check}"] and following == [add, check, check, "nothing"]
    elements = [pair.answer for pair in pairs if pair.question.endswith(knowledge.ELEMENT)]
    assert [f"Click the {name}." for name in elements] == [turn.conclusion for turn in episode.turns[:3]]
    counts = Counter()
    changes = asyncio.run(knowledge.world_pairs(knowledge.EXACT, episode, counts, witnessed))
    assert counts == {"world": 3} and {pair.annotator for pair in changes} == {"exact"}
    assert "none -> 1." in changes[0].answer and "Which page is open? cart." in changes[1].answer
    assert "paid: false -> true." in changes[2].answer
    lost, seen = played["lost"]
    (first, *_) = asyncio.run(knowledge.world_pairs(knowledge.EXACT, lost, Counter(), seen))
    assert first.answer == "Nothing is different." and '"coordinate": [999, 0]' in first.question
    made = knowledge.pair_episode(changes[1], 0, TINY)
    assert made.made_by == {"answer": "exact"} and made.turns[0].image_turns == (0,)
    assert turn_sample(made, 0, ce_weight=1.0).tokens == len(made.turns[0].prompt_ids) + len(made.turns[0].response_ids)


class Thinker:
    """An annotator with an answer for every purpose; keeps what it was asked."""

    name = "wise"

    def __init__(self, **answers):
        self.asked = []
        self.answers = {
            "observe": {"observation": "A shop.", "relevant": "The duck.", "remember": ["The code is RIVER96."]},
            "reflect": {"expected": True, "reflection": "It worked.", "progress": "One of two."},
            "think": {"thought": "So I press it.", "conclusion": "Press it."}, **answers,
        }  # fmt: skip

    async def ask(self, question):
        self.asked.append(question)
        answer = self.answers[question.purpose]
        return Answer(answer if isinstance(answer, str) else json.dumps(answer), self.name)


def test_an_annotator_thinks_step_by_step(played):
    episode, _ = played[SHORT[1]]
    wise = Thinker()
    made = asyncio.run(with_thoughts(wise, episode, WIDE))
    purposes = [question.purpose for question in wise.asked]
    assert purposes == ["observe", "think", *(["observe", "reflect", "think"] * 3)]
    reflect = wise.asked[3]
    assert reflect.images == (episode.turns[0].screenshot, episode.turns[1].screenshot)
    assert json.dumps(dict(episode.turns[0].action)) in reflect.text
    think = wise.asked[4].text
    for told in ("A shop.", "The duck.", "The code is RIVER96.", "It worked.", "One of two.", episode.instruction):
        assert told in think
    assert all(question.facts is None for question in wise.asked)
    assert made.made_by["thought"] == "wise" and {turn.thought for turn in made.turns} == {"So I press it."}
    assert made.turns[0].conclusion == "Press it."


@pytest.mark.parametrize(
    ("purpose", "answer"),
    [
        ("observe", "I see a shop"),
        ("observe", {"observation": "A shop.", "relevant": "", "remember": "RIVER96"}),
        ("reflect", {"expected": "yes", "reflection": "", "progress": ""}),
        ("think", {"thought": "", "conclusion": "Press it."}),
        ("think", {"thought": "So.</think>", "conclusion": "Press it."}),
        ("think", {"thought": "So.", "conclusion": "Press it.\nThen wait."}),
    ],
)
def test_rubbish_is_no_thought(played, purpose, answer):
    with pytest.raises(RubbishError, match=f"wise answered {purpose}"):
        asyncio.run(with_thoughts(Thinker(**{purpose: answer}), played[SHORT[1]][0], WIDE))


def test_what_the_roles_say_is_true_and_trains(played, tmp_path):
    episode, witnessed = played[MEMORY[1][1]]
    made = asyncio.run(role_data.with_roles(role_data.EXACT, episode, WIDE, witnessed))
    subgoals = witnessed.seen[0].known.subtasks
    assert [call.role for call in made.turns[0].calls] == ["manager"]
    assert made.turns[0].calls[0].text == "\n".join(subgoals)
    assert [call.role for call in made.turns[1].calls] == ["reflector", "notetaker", "manager"]
    assert made.turns[-1].calls[-1].text == "None" and made.turns[1].calls[0].text.startswith("SUCCESS")
    code = episode.turns[-2].action["arguments"]["text"]
    notes = [call.text for turn in made.turns for call in turn.calls if call.role == "notetaker"]
    assert [code in note for note in notes] == [False, True, True, True]
    worker = TOKENIZER.decode(made.turns[-2].prompt_ids)
    assert f"Notes: Which code is given? {code}." in worker and "Feedback: SUCCESS" in worker
    write_episodes(tmp_path / "store", [made])
    assert EpisodeSource(tmp_path / "store")[0] == made
    own, manager, reflector, notetaker = by_role(made)
    assert not any(turn.calls for turn in own.turns) and own.id == episode.id and manager.id == f"{episode.id}#manager"
    assert [turn.use for turn in reflector.turns] == [False] + [True] * (len(episode.turns) - 1)
    assert reflector.turns[2].image_turns == (1, 2) and reflector.score == episode.score
    record = TurnRecord(reflector, reflector.turns[2], tuple(episode.turns[k].screenshot for k in (1, 2)))
    assert len(supervised(record).images) == 2
    lost = asyncio.run(role_data.with_roles(role_data.EXACT, played["lost"][0], TINY, played["lost"][1]))
    assert [call.role for call in lost.turns[1].calls] == ["reflector", "manager"]  # no notes after a failure
    assert lost.turns[1].calls[0].text == "FAILURE It did nothing."
    assert "Feedback: FAILURE It did nothing." in TOKENIZER.decode(lost.turns[1].prompt_ids)
