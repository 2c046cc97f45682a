"""Trajectories as HTML. In: episodes with their screenshots. Out: cards that show what the policy saw and did.

Every turn is its screenshot with the action drawn on it (ring and cross for a click, two rings for a double click or a
long press, an arrow for a drag or swipe, a dashed frame for the target where it is known) beside the thought, the
conclusion and the call. Text of episodes comes from outside (pages, instructions, a policy): all of it is escaped.
"""

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from gui_rl.data.schema import Episode, Turn
from gui_rl.report.runs import FAMILIES

GRID = 1000


def select(episodes: Iterable[Episode], per_family: int = 2) -> list[Episode]:
    """A few episodes of each family: the newest policy's first, successes and failures in turn.

    Policy episodes go before scripted ones. The order is the families', then the choice's.
    """
    chosen: list[Episode] = []
    for family in FAMILIES:
        mine = [episode for episode in episodes if episode.device == family]
        mine.sort(key=lambda episode: (episode.source != "policy", -episode.policy_version))
        good = [episode for episode in mine if episode.success]
        bad = [episode for episode in mine if not episode.success]
        shorter = min(len(good), len(bad))
        mixed = [episode for pair in zip(good, bad, strict=False) for episode in pair]
        chosen += (mixed + good[shorter:] + bad[shorter:])[:per_family]
    return chosen


def trajectory_card(episode: Episode) -> str:
    """One episode as an <article>: what was asked, how it ended, and its turns."""
    source = episode.source if episode.policy_version < 0 else f"{episode.source} at version {episode.policy_version}"
    progress = f"{episode.progress} of {episode.total} checkpoints"
    facts = " · ".join([episode.task, f"seed {episode.seed}", source, progress])
    colour = episode.device if episode.device in FAMILIES else "mix"
    tone, outcome = "good" if episode.success else "bad", episode.outcome.replace("_", " ")
    return (
        '<article class="trajectory"><header>'
        f'<span class="chip" style="--tone: var(--{colour})">{escape(episode.device)}</span>'
        f'<span class="outcome {tone}">{escape(outcome)}</span>'
        f'<span class="facts">{escape(facts)}</span>'
        f'<p class="instruction">{escape(episode.instruction)}</p></header>'
        f'<div class="turns">{"".join(_turn(turn, episode.screen_size) for turn in episode.turns)}</div></article>'
    )


def call_text(action: Mapping[str, Any] | None) -> str:
    """A call on one line: `click coordinate=[512, 300]`; MCP-style tools keep their own name."""
    if not action:
        return "no call"
    arguments = dict(action.get("arguments") or {})
    verb = arguments.pop("action", None)
    rest = " ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in arguments.items())
    return f"{verb or action.get('name')} {rest}".strip()


def _turn(turn: Turn, size: tuple[int, int]) -> str:
    lines = [f'<p class="step">Step {turn.index + 1}</p>']
    for kind, text in (("thought", turn.thought), ("conclusion", turn.conclusion)):
        if text:
            lines.append(f'<p class="{kind}">{escape(text)}</p>')
    if turn.parse_error:
        lines.append(f'<p class="outcome bad">{escape(turn.parse_error)}</p><pre>{escape(turn.text)}</pre>')
    else:
        lines.append(f"<pre>{escape(call_text(turn.action))}</pre>")
    if turn.tool_result:
        lines.append(f'<p class="tool">returned</p><pre>{escape(turn.tool_result)}</pre>')
    return f'<div class="turn">{_screen(turn, size)}<div class="said">{"".join(lines)}</div></div>'


def _screen(turn: Turn, size: tuple[int, int]) -> str:
    width, height = size
    shape = "wide" if width >= height else "tall"
    if turn.screenshot:
        data = base64.b64encode(turn.screenshot).decode("ascii")
        picture = f'<img src="data:image/png;base64,{data}" alt="screenshot of step {turn.index + 1}">'
    else:
        picture = '<div class="missing">the screenshot file is gone</div>'
    return (
        f'<div class="screen {shape}" style="aspect-ratio: {width} / {height}">{picture}'
        f'<svg viewBox="0 0 {width} {height}" aria-hidden="true">{marks(turn, width, height)}</svg></div>'
    )


def marks(turn: Turn, width: int, height: int) -> str:
    """The target's frame and the action's mark, in pixels of the screenshot; every stroke twice, to stand out."""
    radius = 0.045 * max(width, height)
    shapes = []
    if turn.target_box:
        sides = (width, height, width, height)
        x0, y0, x1, y1 = (value * side / GRID for value, side in zip(turn.target_box, sides, strict=True))
        shapes.append(f'<rect class="target" x="{x0:.1f}" y="{y0:.1f}" width="{x1 - x0:.1f}" height="{y1 - y0:.1f}"/>')
    arguments = (turn.action or {}).get("arguments") or {}
    start = _point(arguments.get("coordinate"), width, height)
    end = _point(arguments.get("coordinate2"), width, height)
    if start and end:
        shapes += [_twice(f'd="{_arrow(start, end, radius)}"'), _twice(f'd="{_ring(start, radius * 0.5)}"')]
    elif start:
        shapes.append(_twice(f'd="{_ring(start, radius)} {_cross(start, radius)}"'))
        if arguments.get("action") in ("double_click", "triple_click", "long_press"):
            shapes.append(_twice(f'd="{_ring(start, radius * 1.6)}"'))
    return "".join(shapes)


def _point(value: object, width: int, height: int) -> tuple[float, float] | None:
    if isinstance(value, Sequence) and len(value) == 2 and all(isinstance(v, (int, float)) for v in value):
        return value[0] * width / GRID, value[1] * height / GRID
    return None


def _twice(attributes: str) -> str:
    return f'<path class="halo" {attributes}/><path class="mark" {attributes}/>'


def _ring(centre: tuple[float, float], radius: float) -> str:
    x, y = centre
    return (
        f"M{x - radius:.1f},{y:.1f} a{radius:.1f},{radius:.1f} 0 1 0 {2 * radius:.1f},0"
        f" a{radius:.1f},{radius:.1f} 0 1 0 {-2 * radius:.1f},0"
    )


def _cross(centre: tuple[float, float], radius: float) -> str:
    x, y = centre
    return f"M{x - radius * 1.7:.1f},{y:.1f} h{radius * 3.4:.1f} M{x:.1f},{y - radius * 1.7:.1f} v{radius * 3.4:.1f}"


def _arrow(start: tuple[float, float], end: tuple[float, float], radius: float) -> str:
    dx, dy = end[0] - start[0], end[1] - start[1]
    length = (dx * dx + dy * dy) ** 0.5 or 1.0
    ux, uy = dx / length * radius, dy / length * radius
    left = (end[0] - 1.4 * ux - 0.9 * uy, end[1] - 1.4 * uy + 0.9 * ux)
    right = (end[0] - 1.4 * ux + 0.9 * uy, end[1] - 1.4 * uy - 0.9 * ux)
    return (
        f"M{start[0]:.1f},{start[1]:.1f} L{end[0]:.1f},{end[1]:.1f}"
        f" M{left[0]:.1f},{left[1]:.1f} L{end[0]:.1f},{end[1]:.1f} L{right[0]:.1f},{right[1]:.1f}"
    )
