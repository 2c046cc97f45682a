"""Tools and interleaved trajectories by an annotator, on a made-up trajectory with pictures."""

import asyncio
import contextlib
import dataclasses
import io
import json

import pytest
from PIL import Image

from gui_rl import cli
from gui_rl.commands import toolcua
from gui_rl.data.samples import with_ids
from gui_rl.data.schema import Episode, Turn
from gui_rl.data.store import EpisodeSource, write_episodes
from gui_rl.flywheel.annotator import Answer, Exact
from gui_rl.flywheel.plans import Span, boundaries, is_tool
from gui_rl.flywheel.synthesis import synthesise, written_plan, written_tools
from gui_rl.prompt.context import ContextConfig
from gui_rl.prompt.parse import parse_response
from gui_rl.prompt.tokenizer import Tokenizer


def png(shade):
    file = io.BytesIO()
    Image.new("RGB", (64, 64), (shade, shade, shade)).save(file, "png")
    return file.getvalue()


def click(x):
    return {"name": "browser_use", "arguments": {"action": "click", "coordinate": [x, x]}}


END = {"name": "browser_use", "arguments": {"action": "terminate", "status": "success"}}
ACTIONS = [click(10 * k) for k in range(6)] + [END]
EPISODE = Episode(
    "e", "imported", "mail/settings", 0, "web", "Open the settings and sign out.", (64, 64),
    tuple(Turn(k, png(20 * k), text=f"Step {k}.", conclusion=f"Step {k}.", action=a) for k, a in enumerate(ACTIONS)),
    "success", source="imported",
)  # fmt: skip


def tool(name, **fields):
    schema = {"type": "object", "properties": {"page": {"type": "string"}}, "required": ["page"]}
    return {
        "name": name, "description": f"Does {name}.", "parameters": schema, "category": "navigation",
        "granularity": "fine", "returns": {"properties": {"success": {}, "result": {}, "error_message": {}}}, **fields,
    }  # fmt: skip


WRITTEN = {
    "tools": [tool("mail_open"), tool("signOut"), tool("mail_read"), tool("x", description=""), tool("mail_open")]
}


def steps(facts):
    """Steps 1-2 by a tool, 3 by none, 4-5 by another, 6 by a third."""
    at = facts[1]
    if at == 2:
        return {"tool": None}
    name, until = {0: ("mail_open", 2), 3: ("mail_sign_out", 5), 5: ("mail_read", 6)}.get(at, ("mail_read", at + 1))
    return {"tool": name, "arguments": {"page": str(at)}, "until": until, "text": f"Do {name}.", "result": at}


def annotator(**functions):
    return Exact({"tools": lambda _: WRITTEN, "tool_step": steps, "ground": lambda _: {"grounded": True}, **functions})


def test_tools_are_checked_repaired_and_counted():
    tools, counts = asyncio.run(written_tools(annotator(), EPISODE, "mail"))
    assert [t.name for t in tools] == ["mail_open", "mail_sign_out", "mail_read"]
    assert counts == {"repaired": 1, "past_repair": 1, "twice": 1} and {t.made_by for t in tools} == {"exact"}


def test_tool_steps_are_bound_to_later_recorded_screens():
    tools, _ = asyncio.run(written_tools(annotator(), EPISODE, "mail"))
    asked = []

    def ground(facts):
        asked.append((facts[1].start, facts[1].end))
        return {"grounded": facts[1].start != 3}

    plan, counts = asyncio.run(written_plan(annotator(ground=ground), EPISODE, tools))
    spans = [(isinstance(part, Span), part.start, part.end) for part in plan.parts]
    # what is not grounded stays a recorded step, and the next question begins after it
    assert spans == [(False, 0, 2), (True, 2, 3), (True, 3, 4), (False, 4, 5), (False, 5, 6), (True, 6, 7)]
    assert asked[:2] == [(0, 2), (3, 5)] and counts == {"grounded": 3, "ungrounded": 1}


@pytest.mark.parametrize(
    "wrong", [{"until": 1}, {"until": 7}, {"tool": "mail_fly"}, {"arguments": {}}, {"tool": "browser_use"}, {"text": 3}]
)
def test_rubbish_leaves_the_recorded_step(wrong):
    tools, _ = asyncio.run(written_tools(annotator(), EPISODE, "mail"))
    broken = annotator(tool_step=lambda facts: {**steps(facts), **(wrong if facts[1] == 3 else {})})
    plan, counts = asyncio.run(written_plan(broken, EPISODE, tools))
    assert counts["rubbish"] == 1 and Span(3, 4, 2) in plan.parts


def test_episodes_are_made_of_recorded_screens_and_say_that_nothing_was_replayed():
    made, tools, counts = asyncio.run(synthesise(annotator(), EPISODE, "mail", variants=6))
    assert counts["made"] == len(made) > 3 and len(tools) == 3
    assert len({episode.id for episode in made}) == len(made)
    tokenizer, context = Tokenizer.load("gui-tiny"), ContextConfig(history_turns=0, screenshot_first=True)
    by_screen = {turn.screenshot: turn for turn in EPISODE.turns}
    for episode in made:
        assert episode.made_by == {"tools": "exact", "plan": "not replayed"}
        names = {tool["function"]["name"] for tool in episode.tools}
        for turn in episode.turns:
            said = parse_response(turn.text, "web", episode.tools)
            if is_tool(turn):
                assert {"name": said.call.name, "arguments": said.call.arguments} == turn.action
                assert turn.action["name"] in names and json.loads(turn.tool_result)["success"]
            else:
                assert turn.action == by_screen[turn.screenshot].action
        ready = with_ids(episode, tokenizer, context)
        assert all(turn.response_ids and turn.prompt_ids for turn in ready.turns)
    only, coarse = made[:2]
    assert [is_tool(turn) for turn in only.turns] == [True, False, True, True, False] and boundaries(only) == [1, 2]
    assert [json.loads(t.tool_result)["result"] for t in coarse.turns if is_tool(t)] == [0, [3, 5]]
    assert coarse.turns[2].action["name"] == "mail_sign_out_then_mail_read"
    for mixed in made[2:]:
        called = {turn.action["name"] for turn in mixed.turns if is_tool(turn)}
        assert called and len(mixed.turns) > len(coarse.turns) and len(mixed.tools) < len(coarse.tools)


def test_an_annotator_without_an_answer_is_counted():
    class Mumbling:
        name = "mumbling"

        async def ask(self, question):
            return Answer("hm", self.name)

    assert asyncio.run(synthesise(Mumbling(), EPISODE, "mail")) == ([], [], {"no_answer": 1})
    nothing = annotator(tool_step=lambda facts: {"tool": None})
    made, tools, counts = asyncio.run(synthesise(nothing, EPISODE, "mail"))
    assert not made and len(tools) == 3 and counts["no_tool"] == 1


def test_the_command_stores_what_an_annotator_made(tmp_path, monkeypatch, capsys):
    @contextlib.asynccontextmanager
    async def made_up(config, recorded):
        yield annotator(ground=lambda facts: {"grounded": facts[1].start != 3})

    monkeypatch.setattr(toolcua, "annotator_of", made_up)
    failed = dataclasses.replace(EPISODE, id="f", outcome="fail")
    write_episodes(tmp_path / "data", [EPISODE, failed])
    cli.main(["flywheel", "tools", str(tmp_path / "data"), str(tmp_path / "out")])
    every, few = EpisodeSource(tmp_path / "out" / "all"), EpisodeSource(tmp_path / "out" / "critical")
    assert len(every) >= len(few) > 0 and every[0].source == "imported" and every[0].turns[0].response_ids
    card = json.loads((tmp_path / "out" / "all" / "card.json").read_text())
    assert card["dropped"] == {"not_solved": 1, "past_repair": 1, "twice": 1, "ungrounded": 1}
    library = [json.loads(line) for line in (tmp_path / "out" / "tools.jsonl").read_text().splitlines()]
    assert [tool["name"] for tool in library] == ["mail_open", "mail_sign_out", "mail_read"]
    assert "from 1 of 2 trajectories" in capsys.readouterr().out
