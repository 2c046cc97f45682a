"""Grounding data: pages with exact boxes, desktops of windows, mined clicks and tutorials, infeasible queries."""

import asyncio
import dataclasses
import io
import json
from collections import Counter

import numpy as np
import pytest
from PIL import Image

from env_servers.browser import Browser
from env_servers.protocol.actions import to_pixels
from gui_rl.commands.grounding import GroundingOptions, grounding
from gui_rl.data.samples import supervised
from gui_rl.data.schema import Episode, Turn
from gui_rl.data.store import EpisodeSource, write_episodes
from gui_rl.errors import UserError
from gui_rl.flywheel import mining, shots, windows
from gui_rl.flywheel.annotator import Answer, Exact
from gui_rl.flywheel.pages import PAGE, page_of, synthesise, wrong_boxes
from gui_rl.flywheel.shots import Element, Query, Shot


@pytest.fixture(scope="module")
def drawn(chromium):
    """Six shots, the counts, and what the page says about the boxes of seed 1, right and shifted."""

    async def draw():
        counts = Counter()
        async with Browser(chromium) as browser:
            found = [shot async for shot in synthesise(browser, range(6), counts)]
            screen = await browser.lease(PAGE)
            await screen.load(page_of(1))
            right = found[1].elements
            shifted = [dataclasses.replace(e, box=windows.moved(e.box, 4, 0)) for e in right]
            verdicts = await wrong_boxes(screen, right), await wrong_boxes(screen, shifted)
            occluded = page_of(1)
            await screen.load(occluded | {"body": occluded["body"] + '<div class="shade"></div>'})
            covered = await screen.elements()
        return found, counts, verdicts, covered

    return asyncio.run(draw())


def test_boxes_are_those_of_the_page(drawn):
    found, counts, (right, shifted), covered = drawn
    assert counts["shots"] == len(found) == 6 and counts["targets"] == sum(len(s.elements) for s in found)
    assert right == [] and len(shifted) == len(found[1].elements)
    assert all(element["bad"] for element in covered)  # a sheet over everything leaves no target
    for shot in found:
        assert Image.open(io.BytesIO(shot.png)).size == (shot.width, shot.height) == (1280, 800)
        assert len({e.name for e in shot.elements}) == len(shot.elements)
        assert all(windows.within(e.box, (0, 0, 1280, 800)) for e in shot.elements)


def test_pages_differ_by_seed_and_are_the_same_for_one():
    assert page_of(3) == page_of(3) != page_of(4) and page_of(3, 1) != page_of(3)


def test_queries_of_every_way_point_into_their_boxes(drawn):
    ways = Counter()
    for shot in drawn[0]:
        for query in shots.queries_of(shot, 8, np.random.default_rng(0)):
            ways[query.way] += 1
            episode = shots.episode_of("synthesis", shot, query, 0, {})
            x, y = to_pixels(*episode.turns[0].action["arguments"]["coordinate"], *episode.screen_size)
            x0, y0, x1, y1 = shots.box_of(episode)
            assert x0 <= x <= x1 and y0 <= y <= y1
            assert shots.box_of(episode) == pytest.approx(query.element.box)
    assert set(ways) == set(shots.WAYS)


def place(name, x, y, **more):
    return Element(name, (x, y, x + 20, y + 20), text=name, **more)


def test_a_neighbour_is_the_nearest_one_and_beyond_doubt():
    a, b, c = place("a", 0, 0), place("b", 24, 0), place("c", 48, 0)
    shot = Shot("s", b"", 100, 100, (a, b, c))
    assert shots.neighbour(shot, a, "right of") is b and shots.neighbour(shot, c, "left of") is b
    assert shots.neighbour(shot, a, "below") is None and shots.neighbour(shot, a, "left of") is None
    hidden = dataclasses.replace(shot, obstacles=(Element("x", (21, 0, 23, 20)),))
    assert shots.neighbour(hidden, a, "right of") is None
    twins = dataclasses.replace(shot, elements=(a, place("d", 24, -8), place("e", 26, 8)))
    assert shots.neighbour(twins, a, "right of") is None


def test_a_desktop_shows_its_targets_where_it_says(drawn):
    layouts, sizes = set(), set()
    for seed in range(12):
        desktop = windows.compose(drawn[0][:5], seed)
        layouts.add(desktop.id.split("/")[1])
        sizes.add((desktop.width, desktop.height))
        picture = np.asarray(Image.open(io.BytesIO(desktop.png)).convert("RGB"))
        assert picture.shape[:2] == (desktop.height, desktop.width) and desktop.elements
        pages = [np.asarray(Image.open(io.BytesIO(s.png)).convert("RGB")) for s in drawn[0][:5]]
        for element in desktop.elements[::17]:  # the target's pixels are those of one of the pages, nothing over them
            name = element.name.rpartition(" in the ")[0]
            fits = []
            for page, source in zip(pages, drawn[0][:5], strict=True):
                for box in (e.box for e in source.elements if e.name == name):
                    dx, dy = round(element.box[0] - box[0]), round(element.box[1] - box[1])
                    x0, y0, x1, y1 = (int(v) for v in box)
                    fits.append(np.array_equal(page[y0:y1, x0:x1], picture[y0 + dy : y1 + dy, x0 + dx : x1 + dx]))
            assert any(fits), element
    assert len(layouts) == 3 and (3840, 2160) in sizes


def trajectory(*turns):
    return Episode("e", "virtual", "t", 0, "desktop", "Do it.", (200, 100), turns, "success", source="script")


def click(index, sentence, at, box, screen=b"one"):
    action = {"name": "computer_use", "arguments": {"action": "left_click", "coordinate": at}}
    return Turn(index, screen, conclusion=sentence, action=action, target_box=box)


def io_png(width, height):
    file = io.BytesIO()
    Image.new("RGB", (width, height)).save(file, "PNG")
    return file.getvalue()


def test_mining_keeps_unique_small_boxes():
    counts = Counter()
    found = list(
        mining.mine(
            [
                trajectory(
                    click(0, "Click a.", [100, 100], (50, 50, 150, 150)),
                    click(1, "Click a.", [100, 100], (50, 50, 150, 150)),
                    click(2, "Click b.", [100, 100], (50, 50, 150, 150)),
                    click(3, "Click b.", [300, 300], (250, 250, 350, 350)),
                    click(4, "Click c.", [500, 500], (0, 0, 1000, 1000)),
                    click(5, "Click d.", [500, 500], (0, 0, 100, 100)),
                    click(6, "Click e.", [500, 500], None),
                    dataclasses.replace(click(7, "Click f.", [10, 10], (0, 0, 100, 100)), use=False),
                )
            ],
            counts,
        )
    )
    assert [(e.instruction, shots.box_of(e)) for e in found] == [("Click a.", (10, 5, 30, 15))]
    assert counts == {
        "kept": 1, "repeated": 1, "not unique": 2, "covers the screen": 1, "click outside the box": 1,
        "no box or sentence": 1, "no click": 1,
    }  # fmt: skip


TUTORIALS = {
    "a.md": '# Use\nTo save the file, click **Save**. Click "Export" to export the data. Save your file.\n',
    "a.html": "<h1>Use</h1><p>To save the file, click <b>Save</b>.</p><ul><li>Press the <kbd>Export</kbd> button to "
    "export the data.</ul><script>Click 'x' to y</script>",
    "a.srt": '1\n00:00:01,000 --> 00:00:02,000\nTo save the file,\n\n2\n00:00:02,000 --> 00:00:03,000\nclick "Save". '
    'Tap "Export" to export the data.\n',
}


@pytest.mark.parametrize("name", TUTORIALS)
def test_the_rule_reads_what_a_tutorial_says(tmp_path, name):
    (tmp_path / name).write_text(TUTORIALS[name])
    pairs = mining.pairs_by_rule(tmp_path / name)
    assert [(pair.question, pair.place) for pair in pairs] == [
        ("Where do you click to save the file?", "Save"), ("Where do you click to export the data?", "Export"),
    ]  # fmt: skip
    shot = Shot("s", b"png", 100, 100, (place("Export", 0, 0), Element("the Save icon", (50, 50, 60, 60), "icon")))
    assert [e.instruction for e in mining.located(pairs, [shot])] == [pair.question for pair in pairs]


def test_tutorials_that_cannot_be_read(tmp_path):
    with pytest.raises(UserError, match="a.pdf: a tutorial is"):
        (tmp_path / "a.pdf").write_text("")
        mining.sentences(tmp_path / "a.pdf")
    with pytest.raises(UserError, match="gone.md"):
        mining.sentences(tmp_path / "gone.md")


class Says:
    """Gives one answer."""

    def __init__(self, value):
        self.name, self.value = f"says {value}", value

    async def ask(self, question):
        return Answer(json.dumps(self.value), self.name)


def test_an_annotator_cannot_name_a_place_that_the_text_does_not(tmp_path):
    (tmp_path / "a.md").write_text(TUTORIALS["a.md"])
    counts = Counter()
    said = Says([{"question": "Where?", "place": "Save"}, {"question": "Where?", "place": "Delete"}])
    (pair,) = asyncio.run(mining.pairs_by_annotator(said, tmp_path / "a.md", counts))
    assert (pair.place, pair.made_by, counts["place not in the text"]) == ("Save", said.name, 1)
    assert asyncio.run(mining.pairs_by_annotator(Says("rubbish"), tmp_path / "a.md", counts)) == []
    assert counts["no answer"] == 1


def test_infeasible_queries_need_every_judge():
    save, load = place("Save", 0, 0), place("Load", 0, 0)
    shot, exact = Shot("s", b"png", 100, 100, (save,)), Exact({"infeasible": mining.possible})
    queries = [Query("text", "Click Save.", save), Query("text", "Click Load.", load), Query("position", "Left", load)]

    def kept(*judges):
        counts = Counter()
        found = asyncio.run(mining.infeasible([shot], queries, judges, np.random.default_rng(0), counts))
        return [e.instruction for e in found], dict(counts), found

    texts, counts, (episode,) = kept(exact, Says({"possible": False}))
    assert (texts, counts) == (["Click Load."], {"possible": 1, "kept": 1})
    assert episode.turns[0].action["arguments"] == {"action": "terminate", "status": "failure"}
    assert episode.made_by["consensus"] == "exact, says {'possible': False}" and shots.box_of(episode) is None
    under = dataclasses.replace(shot, elements=(), obstacles=(load,))
    assert mining.possible(mining.Paired(queries[1], under)) == {"possible": True}
    assert kept(exact, Says({"possible": True}))[1] == {"possible": 2}
    assert kept(Says("rubbish"))[1] == {"no answer": 2}
    with pytest.raises(UserError, match="at least one judge"):
        kept()


def test_a_contact_sheet_is_never_empty(tmp_path, drawn):
    with pytest.raises(UserError, match="nothing to show"):
        shots.contact_sheet(tmp_path / "a.png", [])
    query = shots.queries_of(drawn[0][0], 1, np.random.default_rng(0))[0]
    shots.contact_sheet(tmp_path / "a.png", [shots.episode_of("synthesis", drawn[0][0], query, 0, {})])
    assert Image.open(tmp_path / "a.png").size == (1440, 330)


def test_the_command_stores_training_samples_of_every_kind(tmp_path, chromium, capsys):
    (tmp_path / "a.md").write_text(TUTORIALS["a.md"])
    clicks = [click(0, "Click a.", [100, 100], (50, 50, 150, 150), io_png(200, 100))]
    write_episodes(tmp_path / "played", [trajectory(*clicks)])
    grounding(
        GroundingOptions(
            tmp_path / "out", count=4, windows=1, queries=4, infeasible=8,
            trajectories=(tmp_path / "played",), tutorials=(tmp_path / "a.md",),
        )
    )  # fmt: skip
    source = EpisodeSource(tmp_path / "out")
    card = json.loads((tmp_path / "out" / "card.json").read_text())
    assert card["suite"]["grounding-synthesis"] >= 12 and card["suite"]["grounding-windows"] == 4
    assert card["suite"]["grounding-trajectories"] == 1 and card["suite"]["grounding-infeasible"] > 0
    assert sum(card["suite"].values()) == len(source) == card["samples"]
    sample = supervised(source.turn(0))
    assert len(sample.branches) == 1 and sample.images[0].source_size == (1280, 800)
    for kind in card["suite"]:
        assert (tmp_path / f"out-{kind.removeprefix('grounding-')}.png").is_file()
    assert len((tmp_path / "out-tutorials.jsonl").read_text().splitlines()) == 2
    assert "synthesis/text" in capsys.readouterr().out
