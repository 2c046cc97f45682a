"""Ways through a recorded trajectory: by tools, by coarser tools, by both GUI and tools (ToolCUA, section 2.2).

In: solved GUI trajectories, and for each the tool call that does each of its sub-tasks. Out: `Plan`s: the same way to
the goal by tools, by GUI steps, or by both, each with the tools that it offers.
1. `choose` filters trajectories and balances them over the apps.
2. `tool_plan`: every sub-task that a tool can do becomes a tool step, bound to the recorded state in which that
   sub-task was done (next-state grounding); the rest stays a span of the recorded GUI steps.
3. `merged`: neighbouring tool steps become one call of a coarser tool, level by level, bottom-up.
4. `interleaved`: a random subset of the tools is given up for the recorded GUI steps and is no longer on offer.
5. `boundaries`: the steps at which a trajectory changes between GUI and tools: D_critical.
Here nothing acts; `flywheel.interleave` carries the plans out and keeps those that reach the goal.
"""

from __future__ import annotations

import dataclasses
import hashlib
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from env_servers.errors import UserError as ServerError
from env_servers.protocol.actions import FUNCTIONS
from env_servers.protocol.messages import Composite, CompositeCall
from env_servers.suites import instantiate
from gui_rl.data.schema import Episode, Turn
from gui_rl.errors import UserError

LONGEST_NAME = 80
"""Of a composite that is named after its members."""


@dataclasses.dataclass(frozen=True)
class ToolStep:
    """One tool call, in place of the recorded turns `start` to `end` (not included).

    calls: `{"name", "arguments"}` of the app's tools; several where the step is a call of a composite.
    texts: the sentences of the sub-tasks it does. subtasks: their indices: the checkpoints that hold afterwards.
    results: what the calls returned, where an annotator foretold it.
    The state that it leads to is bound to the recorded observation `end`.
    """

    calls: tuple[Mapping[str, Any], ...]
    texts: tuple[str, ...]
    subtasks: tuple[int, ...]
    start: int
    end: int
    results: tuple[Any, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The app's tools that it uses."""
        return tuple(call["name"] for call in self.calls)

    @property
    def composite(self) -> Composite | None:
        """The tool that makes several calls into one, where there are several: a function of the tools alone."""
        if len(self.calls) < 2:
            return None
        first = self.names[0]
        app = first.partition(".")[0] + "." if "." in first else ""
        name = "_then_".join([first, *(name.removeprefix(app) for name in self.names[1:])])
        if len(name) > LONGEST_NAME:
            which = hashlib.sha256(name.encode()).hexdigest()[:8]
            name = f"{first}_and_{len(self.names) - 1}_more_{which}"
        arguments = Counter(argument for call in self.calls for argument in call["arguments"])
        members = [
            CompositeCall(
                tool=call["name"],
                arguments={a: a if arguments[a] == 1 else f"{a}_{number}" for a in call["arguments"]},
            )
            for number, call in enumerate(self.calls, start=1)
        ]
        description = "In one call, in this order: " + ", ".join(self.names) + "."
        return Composite(name=name, description=description, calls=members)

    @property
    def call(self) -> dict[str, Any]:
        """What the step calls."""
        composite = self.composite
        if composite is None:
            return {"name": self.names[0], "arguments": dict(self.calls[0]["arguments"])}
        filled = {
            parameter: call["arguments"][argument]
            for member, call in zip(composite.calls, self.calls, strict=True)
            for argument, parameter in member.arguments.items()
        }
        return {"name": composite.name, "arguments": filled}

    @property
    def conclusion(self) -> str:
        """The sentence of the response."""
        return f"Use the tool. {' '.join(self.texts)}"


@dataclasses.dataclass(frozen=True)
class Span:
    """The recorded turns `start` to `end` (not included), done by GUI steps; `subtask`: -1 for those after the last."""

    start: int
    end: int
    subtask: int


Part = ToolStep | Span


@dataclasses.dataclass(frozen=True)
class Plan:
    """A way through a recorded trajectory.

    parts: in order. tools: the app's tools on offer, by name. composites: the coarser ones on offer.
    """

    parts: tuple[Part, ...]
    tools: tuple[str, ...]
    composites: tuple[Composite, ...] = ()

    @property
    def key(self) -> tuple[tuple[bool, int, int], ...]:
        """Equal for plans that do the same."""
        return tuple((isinstance(part, ToolStep), part.start, part.end) for part in self.parts)

    @property
    def steps(self) -> tuple[ToolStep, ...]:
        """Its tool steps."""
        return tuple(part for part in self.parts if isinstance(part, ToolStep))


def exact_calls(episode: Episode) -> list[tuple[str, dict[str, Any] | None]]:
    """(sentence, the tool call that does it or None) of each sub-task, from the world that the episode was played in.

    Raises UserError for a suite whose tasks say nothing about tools.
    """
    try:
        instance = instantiate(episode.suite, episode.task, episode.seed)
    except ServerError as error:
        raise UserError(f"episode {episode.id}: {error}") from None
    app = getattr(instance, "app", None)
    if app is None:
        raise UserError(f"episode {episode.id}: the suite {episode.suite!r} has no tools that do its sub-tasks")
    subtasks = [app.by_id[name] for name in instance.task.path]
    texts = instance.subtask_texts
    return [(text, s.tool(instance.slots) if s.tool else None) for text, s in zip(texts, subtasks, strict=True)]


def tool_plan(
    episode: Episode, calls: Sequence[tuple[str, Mapping[str, Any] | None]], tools: Sequence[str]
) -> Plan | None:
    """The trajectory with a tool step for each sub-task that a tool does; None where that is none of them.

    Args:
      episode: a solved trajectory; `checkpoints[k]` is the observation at which sub-task k was done.
      calls: (sentence, tool call or None) of each sub-task.
      tools: names of the tools on offer.
    Raises:
      ValueError: for an episode whose checkpoints were not met one after the other.
    """
    met = list(episode.checkpoints)
    if len(met) != len(calls) or any(a is None or b is None or a >= b for a, b in zip([0, *met], met, strict=False)):
        raise ValueError(f"episode {episode.id}: its sub-tasks were not done one after the other: {met}")
    parts: list[Part] = []
    for k, (start, end, (text, call)) in enumerate(zip([0, *met], met, calls, strict=False)):
        parts.append(Span(start, end, k) if call is None else ToolStep((call,), (text,), (k,), start, end))
    parts.append(Span(met[-1], len(episode.turns), -1))
    plan = Plan(tuple(parts), tuple(tools))
    return plan if plan.steps else None


def merged(plan: Plan) -> Plan | None:
    """One level up: neighbouring tool steps become one, in pairs from the left; None where no two are neighbours.

    The coarser tools are on offer beside the others.
    """
    parts: list[Part] = []
    made: dict[str, Composite] = {tool.name: tool for tool in plan.composites}
    free = True  # whether the last part may still take in its neighbour
    for part in plan.parts:
        last = parts[-1] if parts else None
        if free and isinstance(part, ToolStep) and isinstance(last, ToolStep):
            parts[-1] = ToolStep(
                (*last.calls, *part.calls), (*last.texts, *part.texts), (*last.subtasks, *part.subtasks),
                last.start, part.end, (*last.results, *part.results),
            )  # fmt: skip
            made[parts[-1].composite.name] = parts[-1].composite
            free = False
        else:
            parts.append(part)
            free = True
    if len(parts) == len(plan.parts):
        return None
    return Plan(tuple(parts), plan.tools, tuple(made.values()))


def interleaved(plan: Plan, rng: random.Random) -> Plan | None:
    """A random subset of the plan's tools replaced by the recorded GUI steps, and no longer on offer.

    A tool is given up with all its steps, or it would have to be used where it is not on offer; and with it every
    composite that would do its work. At least one tool stays; None where that is impossible.
    """
    names = sorted({step.call["name"] for step in plan.steps})
    if len(names) < 2:
        return None
    given_up = set(rng.sample(names, rng.randint(1, len(names) - 1)))
    parts: list[Part] = []
    lost: set[str] = set()
    for part in plan.parts:
        if isinstance(part, ToolStep) and part.call["name"] in given_up:
            parts.append(Span(part.start, part.end, part.subtasks[-1]))
            lost |= {part.call["name"], *part.names}
        else:
            parts.append(part)
    used = {name for part in parts if isinstance(part, ToolStep) for name in part.names}
    if lost & used:  # the same tool is a member of what is given up and of what stays
        return None
    composites = tuple(c for c in plan.composites if not lost & {c.name, *(call.tool for call in c.calls)})
    return Plan(tuple(parts), tuple(name for name in plan.tools if name not in lost), composites)


def is_tool(turn: Turn) -> bool:
    """Whether the turn called a tool."""
    return turn.action is not None and turn.action["name"] not in FUNCTIONS.values()


def ends(turn: Turn) -> bool:
    """Whether the turn ended the task."""
    return turn.action is not None and turn.action["arguments"].get("action") == "terminate"


def app_of(episode: Episode) -> str:
    """The application, as tools' names begin with it: the first part of an id of several; else "general"."""
    app, slash, _ = episode.task.partition("/")
    return (re.sub(r"[^a-z0-9]+", "_", app.lower()).strip("_") or "general") if slash else "general"


def boundaries(episode: Episode) -> list[int]:
    """The turns at which the trajectory changes from GUI to tool or back: where the policy has to decide.

    The end of a task is no such change: there is nothing to choose between.
    """
    pairs = zip(episode.turns, episode.turns[1:], strict=False)
    return [turn.index for before, turn in pairs if is_tool(before) != is_tool(turn) and not ends(turn)]


def critical(episode: Episode) -> Episode | None:
    """The trajectory with its boundaries as the only training samples; None where it has none."""
    kept = set(boundaries(episode))
    turns = tuple(dataclasses.replace(turn, use=turn.use and turn.index in kept) for turn in episode.turns)
    return dataclasses.replace(episode, turns=turns) if any(turn.use for turn in turns) else None


def choose(
    episodes: Iterable[Episode], least: int = 3, most: int = 40, balance: float = 2.0, seed: int = 0
) -> tuple[list[int], Counter[str]]:
    """Which trajectories tools are made from: (their numbers, in order; counts of the others by reason).

    Solved, by GUI steps alone, of `least` to `most` steps, every response a valid call; and of one app at most
    `balance` times as many as of the app that has fewest. The paper states that it filters by outcome and length and
    balances domains; the figures are ours.
    """
    dropped: Counter[str] = Counter()
    of_app: dict[str, list[int]] = defaultdict(list)
    for number, episode in enumerate(episodes):
        reason = _unfit(episode, least, most)
        if reason:
            dropped[reason] += 1
        else:
            of_app[app_of(episode)].append(number)
    cap = int(balance * min(map(len, of_app.values()), default=0))
    chosen = []
    for app, numbers in sorted(of_app.items()):
        random.Random(f"balance:{seed}:{app}").shuffle(numbers)
        chosen += numbers[:cap]
        dropped["balance"] += len(numbers[cap:])
    return sorted(chosen), +dropped


def _unfit(episode: Episode, least: int, most: int) -> str:
    if not episode.success or episode.remaining:
        return "not_solved"
    if any(turn.parse_error or turn.action is None for turn in episode.turns):
        return "no_call"
    if any(map(is_tool, episode.turns)):
        return "uses_tools"
    if not least <= len(episode.turns) <= most:
        return "short" if len(episode.turns) < least else "long"
    return ""
