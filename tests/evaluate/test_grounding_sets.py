"""Grounding evaluation: files in the documented shapes, closed forms for areas and hits, Zoom-In, resumption."""

import asyncio
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from env_servers.protocol.actions import FUNCTIONS, Call, from_pixels
from gui_rl.errors import UserError
from gui_rl.evaluate.grounding import (
    OWN,
    Answer,
    GroundingEvalOptions,
    Item,
    ask,
    hit,
    read_items,
    run,
    score,
    share,
    show,
    summary,
    window,
    zoomed,
)  # fmt: skip
from gui_rl.prompt.context import ContextConfig
from gui_rl.prompt.response import response_text
from gui_rl.prompt.tokenizer import Tokenizer
from gui_rl.rollout.agents import Prompts, Reply

V2 = {
    "img_filename": "a.png",
    "bbox": [10, 20, 30, 40],
    "instruction": "close",
    "data_type": "icon",
    "data_source": "ios",
}
PRO = {
    "img_filename": "vscode/a.png", "bbox": [10, 20, 40, 60], "instruction": "close", "instruction_cn": "", "id": "p0",
    "application": "vscode", "platform": "macos", "img_size": [200, 100], "ui_type": "text", "group": "Dev",
}  # fmt: skip
G = {
    "id": "g0", "image_path": "a.png", "image_size": [200, 100], "instruction": "close", "box_type": "bbox",
    "box_coordinates": [10, 20, 30, 40], "GUI_types": ["Icon"],
}  # fmt: skip
L2 = {
    "index": 7, "image_path": "a.png", "image_size": [200, 100], "instruction": "close", "bbox": [0.05, 0.2, 0.2, 0.6],
    "platform": "os_android", "app_name": "x", "grounding_type": "basic", "data_type": "icon",
}  # fmt: skip
PLACES = {
    "screenspot-v2": ("screenspot_mobile_v2.json", "screenspotv2_image/a.png", V2, ("icon", "ios", "mobile")),
    "screenspot-pro": ("annotations/vscode_macos.json", "images/vscode/a.png", PRO, ("text", "Dev", "desktop")),
    "osworld-g": ("OSWorld-G.json", "images/a.png", G, ("", "bbox", "desktop")),
    "mmbench-gui-l2": (
        "L2_annotations.json", "offline_images/os_android/a.png", L2, ("icon", "os_android basic", "mobile"),
    ),
}  # fmt: skip


def put(folder: Path, form: str, *rows) -> Path:
    name, image, row, _ = PLACES[form]
    for path in (folder / name, folder / image):
        path.parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps(list(rows) or [row]))
    Image.new("RGB", (200, 100)).save(folder / image)
    return folder / name


@pytest.mark.parametrize("form", PLACES)
def test_every_form_gives_the_same_box(tmp_path, form):
    path = put(tmp_path, form)
    found, (item,) = read_items(path)
    assert found == form and item.target == pytest.approx((10, 20, 40, 60)) and item.instruction == "close"
    assert (item.kind, item.group, item.device) == PLACES[form][3]
    if form == "screenspot-pro":
        assert read_items(path.parent)[1] == [item]


def test_polygons_and_refusals(tmp_path):
    polygon = G | {"box_type": "polygon", "box_coordinates": [0, 0, 10, 0, 0, 10]}
    path = put(tmp_path, "osworld-g", polygon, G | {"box_type": "refusal", "box_coordinates": [-1] * 4})
    assert [item.target for item in read_items(path)[1]] == [(0, 0, 10, 0, 0, 10), None]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (G | {"box_type": "circle"}, "record 0.*circle"),
        (G | {"box_coordinates": [1, 2, 0, 4]}, "empty box"),
        (G | {"box_type": "polygon", "box_coordinates": [1, 2, 3, 4]}, "polygon of 4"),
        (G | {"image_path": "gone.png"}, "record 0: no image.*gone.png"),
        ({k: v for k, v in G.items() if k != "instruction"}, "record 0.*instruction"),
        ({"x": 1}, "--form"),
    ],
)
def test_bad_records_are_named(tmp_path, row, says):
    with pytest.raises(UserError, match=says):
        read_items(put(tmp_path, "osworld-g", row))


def test_bad_files_are_named(tmp_path):
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(UserError, match="a.json: not a JSON file"):
        read_items(tmp_path / "a.json")
    with pytest.raises(UserError, match="no .json file"):
        read_items(tmp_path / "nowhere.d" if (tmp_path / "nowhere.d").mkdir() else tmp_path / "nowhere.d")


def test_hits_and_areas_have_closed_forms():
    box, triangle = (10, 20, 40, 60), (0, 0, 10, 0, 0, 10)
    assert hit(box, 10, 20) and hit(box, 40, 60) and not hit(box, 40.1, 60)
    assert hit(triangle, 2, 2) and hit(triangle, 5, 5) and hit(triangle, 0, 0) and not hit(triangle, 5.1, 5)
    assert share(box, 200, 100) == 30 * 40 / 20000 and share(triangle, 10, 10) == 0.5
    points = np.random.default_rng(0).uniform(0, 10, (4000, 2))
    arrow = (0, 0, 10, 5, 0, 10, 3, 5)  # not convex: the big triangle less a small one
    assert np.mean([hit(arrow, x, y) for x, y in points]) == pytest.approx(share(arrow, 10, 10), abs=0.03)
    assert share(arrow, 10, 10) == pytest.approx((50 - 15) / 100)


def test_a_window_lies_within_the_image():
    assert window((100, 50), (200, 100), 0.5) == (50, 25, 150, 75)
    assert window((0, 99), (200, 100), 0.5) == (0, 50, 100, 100)


class Aims:
    """Gives the answers of a list, and remembers what it was asked."""

    def __init__(self, *answers):
        self.prompts, self.seen, self.answers = Prompts(Tokenizer.load("gui-tiny"), ContextConfig()), [], list(answers)

    async def act(self, view):
        self.seen.append(view.episode)
        call = self.answers.pop(0)
        text = call if isinstance(call, str) else response_text("Go.", Call(FUNCTIONS["desktop"], call))
        return Reply(text, None, ())


def at(x, y, size=(200, 100)):
    return {"action": "left_click", "coordinate": list(from_pixels(x, y, *size))}


ITEM = Item("i", Path("a.png"), "close", (10, 20, 40, 60), "icon", "g")
IMAGE = Image.new("RGB", (200, 100))
NO = {"action": "terminate", "status": "failure"}


def test_one_call():
    def answer(said):
        return asyncio.run(ask(Aims(said), ITEM, IMAGE, 10**6))

    assert answer(at(30, 40)) == Answer((30, 40))
    assert answer(NO) == Answer(None, True)
    assert answer("rubbish").failure == "no_call"
    assert answer({"action": "terminate", "status": "success"}) == Answer(None, failure="no_point")
    assert answer({"action": "wait", "time": 1}) == Answer(None, failure="no_point")


def test_zoom_in_asks_twice_and_maps_back():
    def answer(*said):
        policy = Aims(*said)
        return asyncio.run(zoomed(policy, ITEM, IMAGE, 10**6, 0.5)), policy.seen

    # The cut is 100 x 50 round (100, 50), that is from (50, 25); its middle is the middle of the enlarged image.
    assert answer(at(100, 50), at(100, 50)) == (Answer((100, 50)), ["i/0", "i/1"])
    assert answer(at(100, 50), at(20, 10))[0] == Answer((60, 30))
    assert answer(at(0, 0), at(20, 10))[0] == Answer((10, 5))
    assert answer(at(100, 50), NO)[0] == Answer((100, 50))
    assert answer(NO) == (Answer(None, True), ["i/0"])


def test_scores_and_summary():
    gone = Item("r", Path("a.png"), "close", None)
    records = [
        score(ITEM, Answer((10, 20)), (200, 100)), score(ITEM, Answer((9, 20)), (200, 100)),
        score(gone, Answer(None, True), (200, 100)), score(gone, Answer(None, failure="no_call"), (200, 100)),
    ]  # fmt: skip
    found = summary(records)
    assert {cell: (row["right"], row["items"]) for cell, row in found.items()} == {
        "all": (2, 4), "pointing": (1, 2), "refusal": (1, 2), "kind: icon": (1, 2), "group: g": (1, 2),
    }  # fmt: skip
    assert found["pointing"]["chance"] == 0.06 and found["all"]["no_call"] == 1


def test_the_own_set_is_whole_and_its_targets_are_on_its_images():
    form, items = read_items(OWN)
    assert form == "osworld-g" and {item.kind for item in items} == {"text", "icon", ""}
    assert any(item.target is None for item in items)
    for item in items:
        if item.target is not None:
            width, height = Image.open(item.image).size
            assert 0 <= item.target[0] < item.target[2] <= width and 0 <= item.target[1] < item.target[3] <= height


def test_a_killed_evaluation_goes_on(tmp_path, capsys):
    options = GroundingEvalOptions("random", out=tmp_path / "out")
    found = run(options)
    path = tmp_path / "out" / "records.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    assert len(lines) == len(read_items(OWN)[1]) == found["all"]["items"]
    path.write_text("".join(lines[:5]) + lines[5][:20])
    assert run(options) == found  # what chance says belongs to the item
    assert path.read_text().splitlines()[:5] == [line.strip() for line in lines[:5]]
    show(found)
    assert "pointing" in capsys.readouterr().out
    with pytest.raises(UserError, match="other options"):
        run(GroundingEvalOptions("random", zoom=0.5, out=tmp_path / "out"))
    for wrong, says in (({"zoom": 1.0}, "--zoom"), ({"policy": "script"}, "no script"), ({"policy": "gone"}, "gone")):
        with pytest.raises(UserError, match=says):
            run(GroundingEvalOptions(**({"policy": "random"} | wrong), out=tmp_path / "other"))
