"""Pre-training screens and queries: boxes from the page, isolated branches, weights on the right digits."""

import io
import re

import numpy as np
import pytest
from PIL import Image

from env_servers.suites.virtual.app import SEEDS
from gui_rl.errors import UserError
from gui_rl.flywheel.grounding import POINTING, QueryWriter, jitter, load_pixels, visual_labels
from gui_rl.flywheel.screens import SIZES, Screen, ScreenFile, kinds, write_screens
from gui_rl.prompt.context import TINY_CONTEXT
from gui_rl.prompt.images import prepare
from gui_rl.prompt.parse import parse_response
from gui_rl.prompt.render import decode_response
from gui_rl.prompt.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def writer():
    return QueryWriter(Tokenizer.load("gui-tiny"), TINY_CONTEXT)


@pytest.fixture(scope="module")
def screens(chromium, tmp_path_factory):
    """Two screens of every kind, drawn by Chromium and read back from a file."""
    path = tmp_path_factory.mktemp("screens") / "all.array_record"
    write_screens(path, [(kind, index) for kind in kinds() for index in (3, 4)])
    assert not list(path.parent.glob("*.partial"))
    return list(ScreenFile(path))


def blank(device="web", elements=(("fish", (40.0, 40.0, 64.0, 64.0)),), facts=(), effects=()):
    width, height = SIZES[device]
    out = io.BytesIO()
    Image.new("RGB", (width, height), "white").save(out, "PNG")
    return Screen("blank/0", device, out.getvalue(), width, height, tuple(elements), tuple(facts), tuple(effects))


def test_screens_come_from_the_pretraining_seeds_and_show_their_elements(screens):
    assert len(screens) == 2 * len(kinds())
    for screen in screens:
        seed = int(screen.id.rsplit("/", 1)[1])
        assert seed in SEEDS["pretrain"] and seed not in SEEDS["evaluation"]
        pixels = load_pixels(screen)
        assert pixels.shape == (screen.height, screen.width, 3) == (*SIZES[screen.device][::-1], 3)
        for name, (x0, y0, x1, y1) in screen.elements:
            assert name and 0 <= x0 < x1 <= screen.width and 0 <= y0 < y1 <= screen.height
            inside = pixels[int(y0) : int(y1), int(x0) : int(x1)].reshape(-1, 3)
            assert len(np.unique(inside, axis=0)) > 1  # something is drawn there


def test_effects_are_answers_that_a_press_changes(screens):
    apps = [screen for screen in screens if screen.facts]
    assert {screen.device for screen in apps if screen.effects} == set(SIZES)
    for screen in apps:
        for element, question, answer in screen.effects:
            assert answer != dict(screen.facts)[question]
            name = screen.elements[element][0]
            if question in ("Which tab is open?", "Which view is open?"):
                assert answer == name  # pressing a tab or a view's button opens what it is called
            if question == "Which chip is on?":
                assert answer in (name.removesuffix(" chip"), "none")


def test_the_index_of_a_screen_must_be_a_pretraining_seed(tmp_path):
    with pytest.raises(UserError, match="pre-training seeds"):
        write_screens(tmp_path / "x", [("shop", len(SEEDS["pretrain"]))])
    with pytest.raises(UserError, match="no kind"):
        write_screens(tmp_path / "x", [("nothing", 0)])
    assert not (tmp_path / "x").exists()
    with pytest.raises(UserError, match="no such file"):
        ScreenFile(tmp_path / "x")


def test_a_pointing_query_answers_with_the_middle_of_the_box(writer):
    screen = blank()
    query = writer.point(screen, 0, np.random.default_rng(0))
    said = parse_response(decode_response(writer.tokenizer, query.response), "web")
    assert said.call.arguments == {"action": "click", "coordinate": [325, 406]}  # (52, 52) of 160 x 128
    assert said.conclusion == "Click the fish."


@pytest.mark.parametrize("device", POINTING)
def test_every_way_of_pointing_is_a_valid_call(writer, device):
    rng = np.random.default_rng(1)
    sentences = set()
    for _ in range(60):
        query = writer.point(blank(device), 0, rng)
        said = parse_response(decode_response(writer.tokenizer, query.response), device)
        assert said.failure is None
        sentences.add(said.conclusion)
    assert sentences == {sentence.format("fish") for sentence, _ in POINTING[device]}


def test_weights_lie_on_the_digits_of_coordinates_and_the_words_of_answers(writer):
    ask, rng = "Which page is open?", np.random.default_rng(0)
    screen = blank(facts=((ask, "cart"),), effects=((0, ask, "fish"),))
    queries = [
        writer.point(screen, 0, rng),
        writer.name(screen, 0, rng),
        writer.fact(screen, 0),
        writer.effect(screen, 0),
    ]
    assert "Click the fish. Which page is open?" in writer.tokenizer.decode(queries[3].prompt)
    sample = writer.sample(screen, prepare(load_pixels(screen)), queries)
    for query, branch in zip(queries, sample.branches, strict=True):
        weight = branch.ce_weight
        assert not weight[: len(query.prompt)].any()  # what is asked is never learnt
        answer = dict(enumerate(weight[len(query.prompt) :]))
        text = [writer.tokenizer.decode([token]) for token in query.response]
        if query.kind == "point":
            digits = [answer[i].item() for i, piece in enumerate(text) if piece.isdigit()]
            assert digits == pytest.approx([3, 1, 0.1, 3, 1, 0.1])
            assert all(answer[i] == pytest.approx(0.1) for i, piece in enumerate(text) if not piece.isdigit())
        elif query.kind == "absent":
            assert [answer[0], answer[1]] == pytest.approx([0.5, 0.1])
        else:
            value = getattr(writer.weights, query.kind)
            assert all(answer[i] == value for i in range(len(text) - 1)) and answer[len(text) - 1] == pytest.approx(0.1)


def test_what_is_not_there_is_refused(writer, screens):
    for screen in screens:
        shown = {name for name, _ in screen.elements}
        for number in range(3):
            query = writer.absent(screen, number)
            name = re.findall(r" the (.*?)\.", writer.tokenizer.decode(query.prompt))[-1]
            assert name not in shown
            call = parse_response(decode_response(writer.tokenizer, query.response), screen.device).call
            assert call.arguments == {"action": "terminate", "status": "failure"}


def test_queries_of_one_screen_are_different_and_limited(writer, screens):
    rng = np.random.default_rng(0)
    for screen in screens:
        queries = writer.draw(screen, 5, rng)
        most = 2 * len(screen.elements) + min(len(screen.facts), 2) + min(len(screen.effects), 2)
        assert len(queries) == min(5, most)
        assert len({(query.kind, tuple(query.prompt)) for query in queries}) == len(queries)


def test_a_shifted_screenshot_takes_its_boxes_along(writer):
    rng = np.random.default_rng(0)
    pixels = np.zeros((128, 160, 3), np.uint8)
    pixels[40:64, 40:64] = 255
    moved = set()
    for _ in range(40):
        screen, shifted = jitter(blank(), pixels, 3, rng)
        x0, y0, x1, y1 = (int(side) for side in screen.elements[0][1])
        moved.add((x0 - 40, y0 - 40))
        white = np.argwhere(shifted[..., 0] == 255)
        assert white.min(0).tolist() == [y0, x0] and (white.max(0) + 1).tolist() == [y1, x1]
    assert len(moved) > 20
    edge = blank(elements=(("fish", (4.0, 4.0, 29.0, 29.0)),))  # its centre would leave the coordinates of three digits
    kept = [jitter(edge, pixels, 3, rng)[0].elements[0][1] for _ in range(40)]
    assert all((x0 + x1) / 2 >= 16 and (y0 + y1) / 2 >= 12.8 for x0, y0, x1, y1 in kept)


def test_visual_labels_name_the_cell_that_shows_an_element():
    screen = blank(elements=(("fish", (66.0, 34.0, 90.0, 58.0)), ("cup", (24.0, 100.0, 40.0, 124.0))))
    index, share = visual_labels(screen)  # 160 x 128: cells of 32 px, five to a row
    assert index.reshape(4, 5).tolist() == [[-1] * 5, [-1, -1, 0, -1, -1], [-1] * 5, [1, 1, -1, -1, -1]]
    assert share.reshape(4, 5)[1, 2] == pytest.approx(1.0)
    assert share.reshape(4, 5)[3, :2].tolist() == pytest.approx([0.5, 0.5])
