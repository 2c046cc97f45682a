"""Plans on made-up trajectories: tool steps and their grounding, merging, interleaving, boundaries; the library."""

import dataclasses
import random
from collections import Counter

import pytest

from env_servers.suites.suite import ToolSpec
from gui_rl.data.schema import Episode, Turn
from gui_rl.errors import UserError
from gui_rl.flywheel.plans import (
    Plan,
    Span,
    ToolStep,
    app_of,
    boundaries,
    choose,
    critical,
    exact_calls,
    interleaved,
    merged,
    tool_plan,
)
from gui_rl.flywheel.tools import RETURNS, Library, check_tool, repaired

TAP = {"name": "mobile_use", "arguments": {"action": "click", "coordinate": [5, 5]}}
END = {"name": "mobile_use", "arguments": {"action": "terminate", "status": "success"}}


def tool(name, **arguments):
    return {"name": f"app.{name}", "arguments": arguments}


def episode(actions, checkpoints=(), outcome="success", task="app/t", hashes=None, **fields):
    hashes = hashes or [str(k) for k in range(len(actions))]
    turns = tuple(Turn(k, b"", action=a, state_hash=h) for k, (a, h) in enumerate(zip(actions, hashes, strict=True)))
    return Episode(
        fields.pop("id", "e"), "s", task, 0, "mobile", "i", (1, 1), turns, outcome, checkpoints=checkpoints, **fields
    )


CALLS = [("A.", tool("a", x=1)), ("B.", None), ("C.", tool("c", x=2, y=3)), ("D.", tool("a", x=4))]
GUI = episode([TAP] * 9 + [END], checkpoints=(2, 3, 6, 9), total=4, progress=4)
TOOLS = ("app.a", "app.b", "app.c")


def test_every_tool_step_is_bound_to_the_state_in_which_its_subtask_was_done():
    plan = tool_plan(GUI, CALLS, TOOLS)
    assert [(type(part).__name__, part.start, part.end) for part in plan.parts] == [
        ("ToolStep", 0, 2), ("Span", 2, 3), ("ToolStep", 3, 6), ("ToolStep", 6, 9), ("Span", 9, 10),
    ]  # fmt: skip
    assert tool_plan(GUI, [(text, None) for text, _ in CALLS], TOOLS) is None
    for wrong in ((2, 3, 3, 9), (2, None, 6, 9), (0, 3, 6, 9), (2, 3, 6)):
        with pytest.raises(ValueError, match="one after the other"):
            tool_plan(dataclasses.replace(GUI, checkpoints=wrong), CALLS, TOOLS)


def test_neighbouring_tools_merge_bottom_up_and_never_across_gui_steps():
    plan = tool_plan(GUI, CALLS, TOOLS)
    coarser = merged(plan)
    assert [type(part) for part in coarser.parts] == [ToolStep, Span, ToolStep, Span]
    step = coarser.steps[1]
    assert (step.start, step.end, step.subtasks, step.texts) == (3, 9, (2, 3), ("C.", "D."))
    assert step.call == {"name": "app.c_then_a", "arguments": {"x_1": 2, "y": 3, "x_2": 4}}
    assert [c.name for c in coarser.composites] == ["app.c_then_a"] and merged(coarser) is None
    five = [(f"{k}.", tool("a", x=k)) for k in range(5)]
    plan = tool_plan(episode([TAP] * 5 + [END], checkpoints=(1, 2, 3, 4, 5)), five, TOOLS)
    sizes = []
    while plan is not None:
        sizes.append([len(step.calls) for step in plan.steps])
        assert [call["arguments"]["x"] for step in plan.steps for call in step.calls] == list(range(5))
        plan = merged(plan)
    assert sizes == [[1] * 5, [2, 2, 1], [4, 1], [5]]


def test_composites_are_named_after_their_members():
    def name(*names):
        calls = tuple({"name": name, "arguments": {}} for name in names)
        return ToolStep(calls, ("T.",) * len(calls), (0,), 0, 1).composite.name

    assert name("app.a", "app.b", "app.a") == "app.a_then_b_then_a" and name("app_a", "app_b") == "app_a_then_app_b"
    long = [f"app.{letter * 40}" for letter in "abc"]
    assert name(*long).startswith(f"{long[0]}_and_2_more_") and name(*long) != name(*reversed(long[1:]), long[0])
    assert name(*long) != name(long[0], long[2], long[1]) and len(name(*long)) < 80


def test_interleaving_offers_no_tool_that_would_do_the_work_of_its_gui_steps():
    base = tool_plan(GUI, CALLS, TOOLS)
    seen = set()
    for number in range(60):
        plan = interleaved(base, random.Random(number))
        seen.add(plan.key)
        used = {name for step in plan.steps for name in step.names}
        replaced = {"app.a", "app.c"} - used
        assert used and replaced and not replaced & set(plan.tools) and used <= set(plan.tools)
        assert plan.parts[-1] == base.parts[-1] and "app.b" in plan.tools
        assert [part.start for part in plan.parts[1:]] == [part.end for part in plan.parts[:-1]]
    assert len(seen) == 2  # either tool, with all of its steps
    coarse = merged(base)
    for number in range(60):
        plan = interleaved(coarse, random.Random(number))
        if plan is not None:  # "a" is used by itself and inside "c_then_a": neither can be given up alone
            raise AssertionError(plan)
    only = Plan((base.parts[0], base.parts[-1]), TOOLS)
    assert interleaved(only, random.Random(0)) is None


def test_a_given_up_composite_goes_with_its_members_and_a_given_up_tool_with_its_composites():
    calls = [("A.", tool("a", x=1)), ("B.", tool("b", x=2)), ("C.", tool("c", x=3))]
    source = episode([TAP] * 6 + [END], checkpoints=(2, 4, 6))
    coarse = merged(tool_plan(source, calls, TOOLS))
    found = {}
    for number in range(40):
        plan = interleaved(coarse, random.Random(number))
        found[plan.key] = (plan.tools, tuple(c.name for c in plan.composites))
    assert found == {
        ((False, 0, 4), (True, 4, 6), (False, 6, 7)): (("app.c",), ()),
        ((True, 0, 4), (False, 4, 6), (False, 6, 7)): (("app.a", "app.b"), ("app.a_then_b",)),
    }


def test_boundaries_are_where_gui_and_tools_meet():
    mixed = episode([TAP, tool("a"), tool("a"), TAP, TAP, tool("b"), END])
    assert boundaries(mixed) == [1, 3, 5]
    kept = critical(mixed)
    assert [turn.index for turn in kept.turns if turn.use] == [1, 3, 5] and len(kept.turns) == 7
    assert critical(episode([TAP, TAP, END])) is None and critical(episode([tool("a"), END])) is None


def test_the_choice_of_trajectories_counts_what_it_drops():
    fine = [episode([TAP] * 4 + [END], id=f"e{k}", task=f"{'mail' if k < 7 else 'shop'}/t") for k in range(9)]
    bad = [
        episode([TAP] * 4, outcome="fail"),
        episode([TAP, END]),
        episode([TAP] * 50),
        episode([TAP, tool("a"), TAP, END]),
        episode([TAP, None, TAP, END]),
        dataclasses.replace(fine[0], remaining="more"),
    ]
    numbers, dropped = choose([*bad, *fine], least=3, most=40, balance=2.0, seed=1)
    chosen = Counter([*bad, *fine][n].task for n in numbers)
    assert chosen == {"mail/t": 4, "shop/t": 2}
    assert dropped == {"not_solved": 2, "short": 1, "long": 1, "uses_tools": 1, "no_call": 1, "balance": 3}
    assert numbers == choose([*bad, *fine], balance=2.0, seed=1)[0] != choose([*bad, *fine], balance=2.0, seed=2)[0]
    assert choose([]) == ([], Counter())


@pytest.mark.parametrize(
    ("task", "app"), [("mail/send", "mail"), ("VS Code/x", "vs_code"), ("9f3a", "general"), ("/x", "general")]
)
def test_an_app_is_what_the_task_begins_with(task, app):
    assert app_of(episode([END], task=task)) == app


def test_suites_without_tools_are_a_named_error():
    with pytest.raises(UserError, match="episode e: .*no suite 's'"):
        exact_calls(GUI)
    with pytest.raises(UserError, match="'miniwob' has no tools"):
        exact_calls(dataclasses.replace(GUI, suite="miniwob", task="miniwob/book-flight"))


GOOD = {
    "name": "mail_open_settings", "description": "Opens the settings.", "category": "navigation", "granularity": "fine",
    "parameters": {"type": "object", "properties": {"page": {"type": "string"}}, "required": ["page"]},
    "returns": RETURNS,
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"name": "Open"}, "name must be lowercase"),
        ({"name": "chrome_open"}, "must begin with mail_"),
        ({"description": " "}, "description is missing"),
        ({"parameters": {"type": "object"}}, "parameters must be"),
        ({"parameters": {"type": "object", "properties": {"page": {"type": "str"}}}}, "parameter 'page' has no JSON"),
        ({"parameters": {**GOOD["parameters"], "required": ["tab"]}}, "require 'tab'"),
        ({"category": "fun"}, "category must be one of"),
        ({"granularity": "huge"}, "granularity must be one of"),
        ({"returns": {"type": "object", "properties": {"success": {}}}}, "returns must hold"),
    ],
)
def test_the_format_check_names_the_field(change, says):
    with pytest.raises(UserError, match=says):
        check_tool({**GOOD, **change}, "mail")


def test_repair_puts_the_form_right_and_invents_nothing():
    assert repaired(GOOD, "mail") == (check_tool(GOOD, "mail"), ())
    sloppy = {
        "name": "openSettings", "description": "Opens the settings.", "category": "Navigation", "granularity": "tiny",
        "parameters": {"properties": {"page": {"type": "str"}, "deep": "bool"}, "required": ["page", "tab"]},
    }  # fmt: skip
    tool, touched = repaired(sloppy, "mail")
    assert tool.name == "mail_open_settings" and tool.category == "navigation" and tool.granularity == "fine"
    assert tool.parameters["properties"] == {"page": {"type": "string"}, "deep": {"type": "boolean"}}
    assert tool.parameters["required"] == ["page"]
    assert set(touched) == {"name", "parameters", "category", "granularity", "returns"}
    for hopeless in ("no", None, {}, {**GOOD, "description": ""}, {**GOOD, "name": "??"}, {**GOOD, "parameters": 3}):
        with pytest.raises(UserError):
            repaired(hopeless, "mail")


def test_the_library_has_a_granularity_by_what_was_replaced_and_a_category_by_what_was_done():
    specs = {name: ToolSpec.of(name, f"Does {name}.", {"x": {"type": "integer"}}) for name in TOOLS}
    calls = [("A.", tool("a", x=1)), ("B.", tool("b", x=2)), ("C.", tool("c", x=3))]
    source = episode([TAP] * 8 + [END], checkpoints=(2, 5, 8))
    base = tool_plan(source, calls, TOOLS)
    played = episode([*(call for _, call in calls), END], hashes=["0", "1", "1", "2"])
    coarse = merged(base)
    coarse_played = episode([coarse.steps[0].call, coarse.steps[1].call, END])
    tools = Library()
    tools.add(base, played)
    tools.add(coarse, coarse_played)
    found = {tool.name: tool for tool in tools.tools(specs)}
    assert {name: (tool.granularity, tool.category) for name, tool in found.items()} == {
        "app.a": ("fine", "interaction"), "app.b": ("mid", "extraction"), "app.c": ("mid", "interaction"),
        "app.a_then_b": ("coarse", "interaction"),
    }  # fmt: skip
    assert found["app.a_then_b"].members == ("app.a", "app.b")
    assert found["app.a_then_b"].parameters["required"] == ["x_1", "x_2"]
    assert found["app.a"].to_dict()["returns"] == RETURNS
