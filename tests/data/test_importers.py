"""Public trajectories: fixtures in the documented shapes, what is kept and what is dropped, and the way back."""

import dataclasses
import gzip
import io
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from env_servers.protocol.actions import ACTIONS, Call, validate_call
from gui_rl.data.example import encode, framed
from gui_rl.data.importers import agentnet, androidcontrol, import_all, unigui
from gui_rl.data.samples import supervised, with_ids
from gui_rl.data.schema import TurnRecord
from gui_rl.data.store import EpisodeSource, episode_writer
from gui_rl.errors import UserError
from gui_rl.prompt.context import ContextConfig
from gui_rl.prompt.parse import parse_response
from gui_rl.prompt.tokenizer import Tokenizer

HERE = Path(__file__).resolve().parent


def picture(seed, form="PNG", size=(96, 64)):
    stream = io.BytesIO()
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), np.uint8)
    Image.fromarray(pixels).save(stream, form)
    return stream.getvalue()


def taken(found):
    kept, said = [], []
    counts = import_all(found, kept.append, said.append)
    return kept, counts, said


# --- Uni-GUI ---------------------------------------------------------------------------------------------------------
def unigui_task(root, name, plans, form="PNG", device="mobile", **changes):
    folder = root / name
    folder.mkdir(parents=True)
    query = "Set the brightness to the lowest."
    data = []
    for number, plan in enumerate(plans):
        suffix = ".png" if form == "PNG" else ".jpg"
        (folder / f"screenshot_step{number}{suffix}").write_bytes(picture(number, form))
        data.append(
            {
                "step": number + 1,
                "query": query,
                "thought": f"Thought {number}.\nMore.",
                "action": f"Do {number}.",
                "pixel": [96, 64],
                "plan": plan,
                "bbox": [[10, 20], [30, 40]] if "coordinate" in str(plan) else [],
                "screenshot": f"screenshot_step{number}.png",
                "code": "{}",
                "is_use": number != 1,
                "is_reviewed": False,
                "is_delete": False,
                "train_test": "train",
                "raw_thought": "raw",
            }  # fmt: skip
        )
    document = {
        "task": "MobileWorld", "app": "settings", "screen_resolution": [96, 64], "query": query, "episode_id": name,
        "is_delete": False, "is_mock": False, "device": device, "verified": False, "task_completed": True, "data": data,
    }  # fmt: skip
    steps = changes.pop("steps", {})
    for number, fields in steps.items():
        data[number] |= fields
    (folder / "task.json").write_text(json.dumps(document | changes))
    return folder


def mobile(action, **arguments):
    return {"name": "mobile_use", "arguments": {"action": action, **arguments}}


PLANS = [
    mobile("click", coordinate=[850, 821]),
    mobile("swipe", coordinate=[500, 762], coordinate2=[500, 381]),
    mobile("system_button", button="Back"),
    mobile("terminate", status="success"),
]


def test_unigui_is_read(tmp_path):
    unigui_task(tmp_path, "a", PLANS)
    unigui_task(tmp_path, "b", PLANS, form="JPEG")
    kept, counts, _ = taken(unigui.read(tmp_path))
    assert counts == {"kept": 2, "steps": 8}
    first, second = kept
    assert first.id == "Uni-GUI:a" and first.device == "mobile" and first.task == "settings" and first.success
    assert first.source == "imported" and first.origin == "Uni-GUI" and first.screen_size == (96, 64)
    assert [turn.action for turn in first.turns] == PLANS
    assert first.turns[0].target_box == (10, 20, 30, 40) and first.turns[2].target_box is None
    assert [turn.use for turn in first.turns] == [True, False, True, True]
    assert first.turns[0].thought == "Thought 0.\nMore." and first.turns[0].conclusion == "Do 0."
    for turn in first.turns:
        said = parse_response(turn.text, "mobile")
        assert said.failure is None and said.call.to_json() == turn.action and said.conclusion == turn.conclusion
    assert first.turns[0].screenshot == picture(0)
    decoded = np.asarray(Image.open(io.BytesIO(second.turns[0].screenshot)))
    np.testing.assert_array_equal(decoded, np.asarray(Image.open(io.BytesIO(picture(0, "JPEG")))))
    with pytest.raises(UserError, match=r"no task\.json"):
        list(unigui.read(tmp_path / "nowhere"))


def test_what_is_dropped_is_counted_by_reason_and_the_rest_goes_on(tmp_path):
    unigui_task(tmp_path, "good", PLANS)
    unigui_task(tmp_path, "gap", PLANS, steps={2: {"step": 5}})
    unigui_task(tmp_path, "twice", PLANS, steps={2: {"step": 2}})
    unigui_task(tmp_path, "strange", [mobile("teleport", coordinate=[1, 2]), *PLANS])
    unigui_task(tmp_path, "off", [mobile("click", coordinate=[1001, 2]), *PLANS])
    unigui_task(tmp_path, "long", [PLANS[2]] * 40 + PLANS[-1:])
    unigui_task(tmp_path, "longest", [PLANS[2]] * 39 + PLANS[-1:])
    unigui_task(tmp_path, "other", PLANS, steps={1: {"query": "Something else."}})
    unigui_task(tmp_path, "failed", PLANS, task_completed=False)
    unigui_task(tmp_path, "deleted", PLANS, is_delete=True)
    (unigui_task(tmp_path, "blind", PLANS) / "screenshot_step1.png").unlink()
    (unigui_task(tmp_path, "torn", PLANS) / "screenshot_step1.png").write_bytes(picture(1)[:300])
    (unigui_task(tmp_path, "broken", PLANS) / "task.json").write_text('{"data": [')
    unigui_task(tmp_path, "watch", PLANS, device="watch")
    unigui_task(tmp_path, "planless", PLANS, steps={0: {"plan": None}})
    kept, counts, said = taken(unigui.read(tmp_path))
    assert [episode.id for episode in kept] == ["Uni-GUI:good", "Uni-GUI:longest"]
    assert counts == Counter(
        {
            "kept": 2,
            "steps": 44,
            "steps not contiguous": 2,
            "unmappable action": 3,
            "more than 40 steps": 1,
            "inconsistent query": 1,
            "sub-tasks not done": 1,
            "marked as deleted": 1,
            "missing image": 2,
            "broken record": 2,
        }  # fmt: skip
    )
    assert len(said) == 13 and any("strange step 1: unknown_action" in line and "teleport" in line for line in said)
    assert any("off step 1: out_of_range" in line for line in said)


def test_unigui_and_back(tmp_path):
    unigui_task(tmp_path / "in", "a", PLANS)
    kept, _, _ = taken(unigui.read(tmp_path / "in"))
    web = dataclasses.replace(kept[0], device="web")
    assert unigui.export([kept[0], web], tmp_path / "out") == {"written": 1, "device": 1}
    again, counts, _ = taken(unigui.read(tmp_path / "out"))
    assert again == kept and counts["kept"] == 1
    with pytest.raises(UserError, match="exists already"):
        unigui.export(kept, tmp_path / "out")


# --- AgentNet --------------------------------------------------------------------------------------------------------
def examples(device):
    """A call of every action of a family, with and without what is optional."""
    values = {
        "coordinate": [123, 987], "text": "it's \"x\"\n\u2603", "keys": ["ctrl", "c"], "pixels": -5, "time": 2.5,
        "status": "failure",
    }  # fmt: skip
    for spec in ACTIONS[device]:
        for names in dict.fromkeys((spec.required, spec.required + spec.optional)):
            yield {"action": spec.name, **{name: values[name] for name in names}}


@pytest.mark.parametrize("arguments", [a for a in examples("desktop") if a["action"] != "interact"], ids=str)
def test_every_desktop_action_survives_its_code(arguments):
    assert agentnet.from_code(agentnet.to_code(arguments)) == Call("computer_use", arguments)


def test_every_grid_point_survives_its_code():
    for value in range(1001):
        call = {"action": "left_click", "coordinate": [value, 1000 - value]}
        assert agentnet.from_code(agentnet.to_code(call)).arguments == call


@pytest.mark.parametrize(
    ("code", "arguments"),
    [
        ("pyautogui.click(x=0.02, y=0.503)", {"action": "left_click", "coordinate": [20, 503]}),
        ("pyautogui.click(0.5, 0.25, button='right')", {"action": "right_click", "coordinate": [500, 250]}),
        ("pyautogui.click(x=0.5, y=0.25, clicks=3)", {"action": "triple_click", "coordinate": [500, 250]}),
        ("pyautogui.press('enter')", {"action": "key", "keys": ["enter"]}),
        ("pyautogui.press(keys='enter')", {"action": "key", "keys": ["enter"]}),
        ("pyautogui.hotkey(['ctrl', 'u'])", {"action": "key", "keys": ["ctrl", "u"]}),
        ("pyautogui.hotkey('ctrl', 'u')", {"action": "key", "keys": ["ctrl", "u"]}),
        ("import pyautogui\npyautogui.write(message='cd ~/x')", {"action": "type", "text": "cd ~/x"}),
        ("pyautogui.scroll(-10)", {"action": "scroll", "pixels": -10}),
        ("pyautogui.dragTo(x=0.1, y=0.2, button='left')", {"action": "left_click_drag", "coordinate": [100, 200]}),
        ("computer.terminate(status='success')", {"action": "terminate", "status": "success"}),
        ("computer.wait()", {"action": "wait", "time": 1.0}),
        ("time.sleep(3)", {"action": "wait", "time": 3}),
    ],
)
def test_code_as_it_is_found(code, arguments):
    call = agentnet.from_code(code)
    assert call.arguments == arguments and validate_call(call, "desktop") is None


@pytest.mark.parametrize(
    "code",
    [
        "", "pyautogui.click(", "os.system('rm -rf /')", "pyautogui.keyDown('a')", "pyautogui.press('a', presses=3)",
        "pyautogui.click(x=a, y=b)", "pyautogui.moveTo(0.1, 0.2)\npyautogui.click()", "__import__('os').getcwd()",
        "pyautogui.dragTo(x=0.1, y=0.2, button='right')", "x = 1", "pyautogui.click(x=[1], y=0.2)",
    ],
)  # fmt: skip
def test_code_without_a_counterpart(code):
    assert agentnet.from_code(code) is None


def agentnet_file(root, lines):
    (root / "images").mkdir(parents=True)
    for number in range(3):
        (root / "images" / f"{number}.png").write_bytes(picture(number))
    path = root / "agentnet.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + "\n")
    return path


def agentnet_line(identity, codes, **changes):
    values = [
        {"code": code, "observation": "o", "thought": f"t{k}", "action": f"Do {k}.", "last_step_correct": k != 1,
         "last_step_redundant": False, "reflection": "r"}
        for k, code in enumerate(codes)
    ]  # fmt: skip
    traj = [{"index": k, "image": f"{k}.png", "value": value} for k, value in enumerate(values)]
    return {
        "task_id": identity, "instruction": "raw words", "natural_language_task": "Open the file.", "traj": traj,
        "task_completed": True, "alignment_score": 8, "efficiency_score": 7, "task_difficulty": 3,
    } | changes  # fmt: skip


CODES = ["pyautogui.click(x=0.018, y=0.491)", "pyautogui.scroll(-10)", "computer.terminate(status='success')"]


def test_agentnet_is_read_cleaned_and_written_back(tmp_path):
    lines = [
        agentnet_line("a", CODES), "{broken", agentnet_line("b", ["pyautogui.keyDown('x')"]), "",
        agentnet_line("c", CODES, task_completed=False), agentnet_line("d", CODES, traj=[]), {"task_id": "e"},
        agentnet_line("f", [*CODES, CODES[0]]),
    ]  # fmt: skip
    kept, counts, _ = taken(agentnet.read(agentnet_file(tmp_path / "in", lines)))
    assert counts == {
        "kept": 1, "steps": 3, "broken record": 2, "unmappable action": 1, "sub-tasks not done": 1,
        "steps not contiguous": 1, "missing image": 1,
    }  # fmt: skip
    (episode,) = kept
    assert episode.instruction == "Open the file." and episode.device == "desktop" and episode.licence == "MIT"
    assert episode.turns[0].action["arguments"] == {"action": "left_click", "coordinate": [18, 491]}
    assert [turn.use for turn in episode.turns] == [True, False, True]
    phone = dataclasses.replace(episode, device="mobile")
    assert agentnet.export([episode, phone], tmp_path / "out" / "x.jsonl") == {"written": 1, "device": 1}
    again, _, _ = taken(agentnet.read(tmp_path / "out" / "x.jsonl"))
    assert again == kept
    with pytest.raises(UserError, match="no file"):
        list(agentnet.read(tmp_path / "none.jsonl"))


# --- AndroidControl --------------------------------------------------------------------------------------------------
def android_example(identity, actions, size=(108, 240), **changes):
    screens = [picture(number, size=size) for number in range(len(actions) + 1)]
    features = {
        "episode_id": np.array([identity]), "goal": [b"Set an alarm for 7."], "screenshots": screens,
        "screenshot_widths": np.full(len(screens), size[0]), "screenshot_heights": np.full(len(screens), size[1]),
        "accessibility_trees": [b"tree"] * len(screens), "actions": [json.dumps(a).encode() for a in actions],
        "step_instructions": [f"Step {number}".encode() for number in range(len(actions))],
    }  # fmt: skip
    return encode(features | changes)


ANDROID = [
    {"action_type": "open_app", "app_name": "Clock"},
    {"action_type": "click", "x": 54, "y": 120},
    {"action_type": "long_press", "x": 107, "y": 239},
    {"action_type": "scroll", "direction": "down"},
    {"action_type": "input_text", "text": "7"},
    {"action_type": "navigate_back"},
    {"action_type": "navigate_home"},
    {"action_type": "wait"},
]


def test_androidcontrol_is_read(tmp_path):
    records = [
        android_example(7, ANDROID),
        android_example(8, [{"action_type": "type", "x": 1, "y": 2, "text": "no counterpart"}]),
        android_example(9, ANDROID[:2], step_instructions=[b"only one"]),
        android_example(10, [{"action_type": "click", "x": 500, "y": 2}]),
        b"no example at all",
        android_example(11, ANDROID[:1]),
    ]
    path = tmp_path / "android_control-00000-of-00020"
    path.write_bytes(gzip.compress(b"".join(map(framed, records))))
    kept, counts, said = taken(androidcontrol.read(tmp_path))
    assert counts == {"kept": 2, "steps": 11, "unmappable action": 1, "broken record": 3}, said
    episode = kept[0]
    assert [turn.action["arguments"] for turn in episode.turns] == [
        {"action": "open", "text": "Clock"},
        {"action": "click", "coordinate": [500, 500]},
        {"action": "long_press", "coordinate": [991, 996]},
        {"action": "swipe", "coordinate": [500, 700], "coordinate2": [500, 300]},
        {"action": "type", "text": "7"},
        {"action": "system_button", "button": "Back"},
        {"action": "system_button", "button": "Home"},
        {"action": "wait", "time": 2.0},
        {"action": "terminate", "status": "success"},
    ]
    assert [turn.screenshot for turn in episode.turns] == [picture(number, size=(108, 240)) for number in range(9)]
    assert episode.instruction == "Set an alarm for 7." and episode.turns[1].conclusion == "Step 1"
    assert episode.id == "AndroidControl:7" and episode.screen_size == (108, 240)


def test_a_file_cut_short_gives_what_came_before(tmp_path):
    path = tmp_path / "android_control-00001"
    content = b"".join(framed(android_example(number, ANDROID[:2])) for number in range(3))
    path.write_bytes(content[:-10])
    kept, counts, said = taken(androidcontrol.read(path))
    assert len(kept) == 2 and counts["broken record"] == 1 and "record 2" in said[0]
    with pytest.raises(UserError, match="no AndroidControl"):
        list(androidcontrol.read(tmp_path / "none"))


FULL = """
import resource, sys
from pathlib import Path
sys.path[:0] = sys.argv[2:]
from gui_rl.data.importers import agentnet, import_all, unigui
from test_importers import CODES, agentnet_file, agentnet_line
root, kept = Path(sys.argv[1]), []
import_all(agentnet.read(agentnet_file(root / "in", [agentnet_line(str(n), CODES) for n in range(40)])), kept.append)
resource.setrlimit(resource.RLIMIT_FSIZE, (15_000, 15_000))
for form, target in ((agentnet, root / "net" / "x.jsonl"), (unigui, root / "uni")):
    try:
        print(form.export(kept * (form is agentnet) or [k for k in kept[:1]], target))
    except OSError as error:
        print("OSError", error.errno)
"""


def test_an_export_to_a_full_disk_leaves_nothing_half_written(tmp_path):
    """Files may not grow over 15 kB: AgentNet's one file does, Uni-GUI's screenshots do."""
    command = [sys.executable, "-c", FULL, str(tmp_path), str(HERE), str(HERE.parents[1])]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout.split("\n")[:2] == ["OSError 27", "OSError 27"], done.stdout + done.stderr
    assert not list((tmp_path / "net").iterdir()) and not list((tmp_path / "uni").iterdir())


# --- into the store --------------------------------------------------------------------------------------------------
def test_imported_trajectories_become_samples(tmp_path):
    unigui_task(tmp_path / "in", "a", PLANS)
    unigui_task(tmp_path / "in", "b", PLANS, task_completed=False)
    tokenizer = Tokenizer.load("gui-tiny")
    context = ContextConfig(history_turns=1, thinking=True)
    with episode_writer(tmp_path / "data") as writer:
        counts = import_all(unigui.read(tmp_path / "in"), lambda e: writer.add(with_ids(e, tokenizer, context)))
        for reason in counts.keys() - {"kept", "steps"}:
            writer.drop(reason, counts[reason])
    card = json.loads((tmp_path / "data" / "card.json").read_text())
    assert card["dropped"] == {"sub-tasks not done": 1} and card["samples"] == 3 and card["origin"] == {"Uni-GUI": 1}
    record = EpisodeSource(tmp_path / "data").turn(2)
    assert isinstance(record, TurnRecord) and len(record.screens) == 2
    response = tokenizer.decode(record.turn.response_ids)
    assert response.startswith("Thought 2.\nMore.\n</think>\n\nAction: Do 2.")
    assert tokenizer.control("</think>") in record.turn.response_ids
    assert parse_response(record.turn.text, "mobile", thinking=True).call.to_json() == PLANS[2]
    sample = supervised(record)
    assert (sample.ids == tokenizer.image_id).sum() == sum(image.tokens for image in sample.images)
    assert sample.branches[0].ce_weight.sum() == len(record.turn.response_ids)
