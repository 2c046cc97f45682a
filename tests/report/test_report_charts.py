"""Charts: the drawn coordinates say what the numbers say."""

import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gui_rl.report import charts
from gui_rl.report.charts import Band, Segment, Series


def elements(svg: str, tag: str) -> list[ElementTree.Element]:
    return [element for element in ElementTree.fromstring(svg).iter() if element.tag == tag]


def polyline(svg: str) -> list[list[tuple[float, float]]]:
    return [[tuple(map(float, p.split(","))) for p in e.get("points").split()] for e in elements(svg, "polyline")]


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_ticks_are_round_and_inside(low, span):
    high = low + span
    found = charts.ticks(low, high)
    slack = 1e-6 * max(abs(low), abs(high), 1)
    assert all(low - slack <= tick <= high + slack for tick in found) and len(found) <= 6
    assert found == sorted(found)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0, 1, [0, 0.5, 1]), (0, 60, [0, 20, 40, 60]), (0, 2.4, [0, 1, 2]), (-0.05, 0.05, [-0.05, 0, 0.05])],
)
def test_ticks_by_hand(low, high, expected):
    assert charts.ticks(low, high) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (0.5, "0.5"), (12345, "12k"), (0.0421, "0.0421"), (3e-5, "3.0e-5"), (2e7, "2.0e7")]
)
def test_compact_numbers(value, text):
    assert charts.compact(value) == text


def test_a_line_is_linear_in_the_data():
    points = ((0, 0.0), (25, 0.25), (50, 0.5), (100, 1.0))
    [drawn] = polyline(charts.line_chart([Segment("", (Series("s", points, "sft"),))], "s", (0.0, 1.0)))
    (x0, y0), (x1, y1) = drawn[0], drawn[-1]
    for (x, y), (px, py) in zip(points, drawn, strict=True):
        assert px == pytest.approx(x0 + (x1 - x0) * x / 100, abs=0.11)
        assert py == pytest.approx(y0 + (y1 - y0) * y, abs=0.11)
    assert x1 > x0 and y1 < y0  # right is later, up is more


def test_a_hole_breaks_the_line_and_a_lone_point_is_a_dot():
    points = ((0, 1.0), (1, 2.0), (2, None), (3, 1.5), (4, None), (5, 1.0), (6, 1.2))
    svg = charts.line_chart([Segment("", (Series("s", points, "sft"),))], "s")
    assert [len(run) for run in polyline(svg)] == [2, 2]
    assert len(elements(svg, "circle")) == 1


def test_segments_stand_side_by_side():
    first = Segment("SFT", (Series("a", ((0, 0.1), (400, 0.4)), "sft"),))
    second = Segment("RL", (Series("b", ((1, 0.4), (60, 0.7)), "rl"),), (Band(0, 60, "web", "RL on web"),), share=2)
    svg = charts.line_chart([first, second], "both", (0.0, 1.0))
    left, right = polyline(svg)
    assert max(x for x, _ in left) < min(x for x, _ in right)
    assert [e.text for e in elements(svg, "text") if e.get("class") == "segment"] == ["SFT", "RL"]


def test_labels_are_escaped():
    svg = charts.line_chart([Segment("<b>", (Series("<i>&", ((0, 1.0),), "sft"),))], '"<&')
    assert "<b>" not in svg and "<i>" not in svg
    ElementTree.fromstring(svg)


def test_empty_and_constant_data_are_drawn():
    for points in ((), ((3, 0.0),), ((1, 2.0), (2, 2.0))):
        ElementTree.fromstring(charts.line_chart([Segment("", (Series("s", points, "sft"),))], "s"))
    ElementTree.fromstring(charts.stacked_chart([], [], "s"))


def test_stacked_shares_fill_the_height():
    layers = [("kept", "kept", [0.5, 0.2]), ("swapped", "swapped", [0.3, 0.0]), ("empty", "empty", [0.2, 0.8])]
    bars = elements(charts.stacked_chart([1, 2], layers, "groups"), "rect")
    assert len(bars) == 6
    heights = [float(bar.get("height")) for bar in bars]
    assert sum(heights[:3]) == pytest.approx(sum(heights[3:]), abs=0.05)
    assert heights[0] / sum(heights[:3]) == pytest.approx(0.5, abs=0.01)
    assert [bar.find("title").text for bar in bars[:2]] == ["step 1: kept 50%", "step 1: swapped 30%"]
