"""Charts as SVG text. In: numbers with labels. Out: <svg> elements to put into a page.

A chart is drawn in about its final size in pixels and scales with its container. Colours are names ("mobile", "rl",
...): the page's style sheet defines `--NAME` for light and dark. Every text goes through `html.escape`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 372
HEIGHT = 210
LEFT, RIGHT, TOP, BOTTOM = 40, 10, 26, 26
BARE_TOP = 10  # where no segment has a title
GAP = 10


@dataclass(frozen=True)
class Series:
    """A line. Points are (x, y) in data units; a y of None breaks it."""

    label: str
    points: tuple[tuple[float, float | None], ...]
    colour: str
    dots: bool = False
    dashed: bool = False


@dataclass(frozen=True)
class Band:
    """A shaded stretch of the x axis."""

    start: float
    stop: float
    colour: str
    label: str


@dataclass(frozen=True)
class Segment:
    """A stretch of training with its own x axis, for example the SFT steps or the RL steps."""

    title: str
    series: tuple[Series, ...]
    bands: tuple[Band, ...] = ()
    share: float = 1.0


def percent(value: float) -> str:
    """0.416 -> "42%"."""
    return f"{100 * value:.0f}%"


def compact(value: float) -> str:
    """A number in at most about five characters: 12345 -> "12k", 0.0421 -> "0.042"."""
    if value and abs(value) >= 1e5 or 0 < abs(value) < 1e-3:
        return f"{value:.1e}".replace("e+0", "e").replace("e-0", "e-")
    if abs(value) >= 1e4:
        return f"{value / 1e3:.0f}k"
    return f"{value:.3g}"


def ticks(low: float, high: float, count: int = 4) -> list[float]:
    """About `count` round values from `low` to `high`, at steps of 1, 2 or 5 times a power of ten."""
    span = high - low
    if span <= 0:
        return [low]
    step = 10.0 ** math.floor(math.log10(span / count))
    step = next(step * factor for factor in (1, 2, 5, 10) if span / (step * factor) <= count)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(index * step, 12) for index in range(first, last + 1)]


def line_chart(
    segments: Sequence[Segment],
    label: str,
    y_range: tuple[float, float] | None = None,
    y_text: Callable[[float], str] = compact,
    height: int = HEIGHT,
) -> str:
    """Lines over one or more segments side by side with a common y axis.

    Args:
        segments: stretches of training; each gets a width by its `share`.
        label: what is shown, read out by screen readers.
        y_range: limits of the y axis; from the data when None.
        y_text: how a y value is written.
        height: in pixels of the drawing.
    """
    low, high = y_range or _range([y for s in segments for line in s.series for _, y in line.points if y is not None])
    top, bottom = (TOP if any(segment.title for segment in segments) else BARE_TOP), height - BOTTOM

    def place_y(y: float) -> float:
        return bottom - (min(max(y, low), high) - low) / (high - low) * (bottom - top)

    parts = []
    for tick in ticks(low, high):
        y = place_y(tick)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(
            f'<text class="tick" x="{LEFT - 6}" y="{y + 3.5:.1f}" text-anchor="end">{escape(y_text(tick))}</text>'
        )
    usable = WIDTH - LEFT - RIGHT - GAP * (len(segments) - 1)
    total_share = sum(segment.share for segment in segments)
    left = float(LEFT)
    for segment in segments:
        right = left + usable * segment.share / total_share
        parts += _segment(segment, left, right, top, bottom, place_y, y_text)
        left = right + GAP
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}">'
        + "".join(parts)
        + "</svg>"
    )


def _segment(segment: Segment, left: float, right: float, top: float, bottom: float, place_y, y_text) -> list[str]:
    xs = [x for line in segment.series for x, _ in line.points]
    xs += [edge for band in segment.bands for edge in (band.start, band.stop)]
    first, last = (min(xs), max(xs)) if xs else (0.0, 1.0)
    span = (last - first) or 1.0

    def place_x(x: float) -> float:
        return left + (x - first) / span * (right - left)

    parts = []
    for band in segment.bands:
        x0, x1 = place_x(band.start), place_x(band.stop)
        parts.append(
            f'<rect x="{x0:.1f}" y="{top}" width="{max(x1 - x0, 0.5):.1f}" height="{bottom - top}"'
            f' fill="var(--{band.colour})" opacity="0.16"><title>{escape(band.label)}</title></rect>'
            f'<rect x="{x0:.1f}" y="{bottom}" width="{max(x1 - x0, 0.5):.1f}" height="4" fill="var(--{band.colour})"/>'
        )
    parts.append(f'<line class="axis" x1="{left:.1f}" x2="{right:.1f}" y1="{bottom}" y2="{bottom}"/>')
    if segment.title:
        parts.append(f'<text class="segment" x="{left:.1f}" y="{top - 10}">{escape(segment.title)}</text>')
    for tick in ticks(first, last, count=max(2, round((right - left) / 55))):
        x = place_x(tick)
        anchor = "end" if x > right - 8 else "start" if x < left + 8 else "middle"
        parts.append(
            f'<text class="tick" x="{x:.1f}" y="{bottom + 18}" text-anchor="{anchor}">{escape(compact(tick))}</text>'
        )
    for line in segment.series:
        parts += _line(line, place_x, place_y, y_text)
    return parts


def _line(line: Series, place_x, place_y, y_text) -> list[str]:
    runs: list[list[tuple[float, float]]] = [[]]
    for x, y in line.points:
        if y is None:
            runs.append([])
        else:
            runs[-1].append((x, y))
    dash = ' stroke-dasharray="3 3"' if line.dashed else ""
    parts = []
    for run in runs:
        if len(run) > 1:
            path = " ".join(f"{place_x(x):.1f},{place_y(y):.1f}" for x, y in run)
            parts.append(f'<polyline class="line" points="{path}" stroke="var(--{line.colour})"{dash}/>')
        for x, y in run if line.dots or len(run) == 1 else ():
            hint = escape(f"{line.label}: {y_text(y)} at step {compact(x)}")
            parts.append(
                f'<circle cx="{place_x(x):.1f}" cy="{place_y(y):.1f}" r="3" fill="var(--{line.colour})">'
                f"<title>{hint}</title></circle>"
            )
    return parts


def stacked_chart(
    xs: Sequence[float], layers: Sequence[tuple[str, str, Sequence[float]]], label: str, width: int = 480
) -> str:
    """Shares that add up to one at every x, as bars: one bar an x.

    Args:
        xs: positions, ascending.
        layers: (label, colour, shares) from the bottom up; each has as many shares as there are xs.
        label: what is shown, read out by screen readers.
        width: in pixels of the drawing.
    """
    bottom = HEIGHT - BOTTOM
    slot = (width - LEFT - RIGHT) / max(len(xs), 1)
    parts = []
    for tick in (0.0, 0.5, 1.0):
        y = bottom - tick * (bottom - BARE_TOP)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{width - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick" x="{LEFT - 6}" y="{y + 3.5:.1f}" text-anchor="end">{percent(tick)}</text>')
    every = max(1, math.ceil(len(xs) / 6))
    for index, x in enumerate(xs):
        y = float(bottom)
        at = LEFT + index * slot
        for name, colour, shares in layers:
            size = min(max(shares[index], 0.0), 1.0) * (bottom - BARE_TOP)
            y -= size
            hint = escape(f"step {compact(x)}: {name} {percent(shares[index])}")
            parts.append(
                f'<rect x="{at:.2f}" y="{y:.2f}" width="{slot * 0.9:.2f}" height="{size:.2f}" fill="var(--{colour})">'
                f"<title>{hint}</title></rect>"
            )
        if index % every == 0:
            parts.append(
                f'<text class="tick" x="{at + slot * 0.45:.1f}" y="{bottom + 18}" text-anchor="middle">'
                f"{escape(compact(x))}</text>"
            )
    return (
        f'<svg class="chart" viewBox="0 0 {width} {HEIGHT}" role="img" aria-label="{escape(label)}">'
        + "".join(parts)
        + "</svg>"
    )


def _range(values: list[float]) -> tuple[float, float]:
    """Axis limits around the values: from zero when they are near it, never empty."""
    if not values:
        return 0.0, 1.0
    low, high = min(values), max(values)
    if low >= 0 and low < 0.5 * high:
        low = 0.0
    margin = 0.06 * (high - low) or 0.5 * abs(high) or 1.0
    return (low if low == 0.0 else low - margin), high + margin
