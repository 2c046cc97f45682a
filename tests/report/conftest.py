"""A run's folder with plausible numbers and drawn screenshots, as a training run would leave it."""

import io
import json
import math
from pathlib import Path

import pytest
from PIL import Image, ImageDraw

from gui_rl.data.schema import Episode, Turn
from gui_rl.data.trajectory_files import write_trajectory
from gui_rl.report.metrics import RunLog

SCREENS = {"mobile": (128, 160), "desktop": (160, 128), "web": (160, 128)}
FUNCTIONS = {"mobile": "mobile_use", "desktop": "computer_use", "web": "browser_use"}
SUCCESS = {  # family -> policy -> (sampled, greedy)
    "mobile": {"random": (0.017, None), "script": (1.0, None), "sft": (0.433, 0.483), "rl": (0.717, 0.75)},
    "desktop": {"random": (0.0, None), "script": (1.0, None), "sft": (0.35, 0.417), "rl": (0.55, 0.6)},
    "web": {"random": (0.05, None), "script": (1.0, None), "sft": (0.5, 0.517), "rl": (0.783, 0.817)},
}
HOSTILE = 'Star the <img src=x onerror="document.title=1"> & "apple" <script>document.title="owned"</script>'


def score(rate: float, greedy: float | None = None, episodes: int = 60) -> dict:
    half = 1.96 * math.sqrt(max(rate * (1 - rate), 0.004) / episodes)
    value = {"success": rate, "low": max(0.0, rate - half), "high": min(1.0, rate + half), "episodes": episodes}
    return value | ({"greedy": score(greedy)} if greedy is not None else {})


@pytest.fixture
def finished_run(tmp_path: Path) -> Path:
    return make_run(tmp_path / "tiny-run")


def make_run(path: Path) -> Path:
    families = list(SCREENS)
    with RunLog(path, wandb_mode="disabled") as log:
        for step in range(0, 401, 10):
            metrics = {"loss": 0.12 + 2.4 * math.exp(-step / 90) + 0.03 * math.sin(step), "memory_gb": 1.9 + step / 2e3}
            metrics["samples_per_s"] = 61 + math.sin(step / 7)
            if step % 100 == 0:
                metrics |= {f"eval/{f}/success": SUCCESS[f]["sft"][0] * (1 - math.exp(-step / 130)) for f in families}
            log.log("sft", step, metrics)
        for step in range(1, 61):
            phase = families[(step - 1) // 10 % 3]
            kept = 0.5 + 0.2 * math.sin(step / 5)
            metrics = {
                "loss": 0.05 * math.sin(step / 3),
                "rollout/success": 0.4 + 0.3 * step / 60 + 0.06 * math.sin(step * 1.7),
                "groups/kept": kept,
                "groups/swapped": 0.6 * (1 - kept),
                "groups/empty": 0.4 * (1 - kept),
                "seconds/rollout": 4.1,
                "seconds/train": 2.3,
                "memory_gb": 2.9 + 0.002 * step,
                "entropy": 0.7 - 0.004 * step if step != 30 else math.nan,
                "tito_mismatch_rate": 0.0,
                "agreement_tight": 0.9 - 0.001 * step,
                "agreement_1pct": 0.97,
                "agreement_5pct": 1.0,
            }
            if step % 10 == 0:
                for f in families:
                    first, last = SUCCESS[f]["sft"][0], SUCCESS[f]["rl"][0]
                    metrics[f"eval/{f}/success"] = first + (last - first) * (step / 60) ** 0.8
            log.log("rl", step, metrics, phase=phase)
    write(path / "config.json", {"name": "tiny-run", "sft": {"steps": 400}, "rl": {"steps": 60, "pool": 16}})
    write(
        path / "manifest.json",
        {
            "started": "2026-01-02T03:04:05+00:00",
            "config": {},
            "seeds": {"model": 0, "evaluation": {"start": 1000000, "stop": 1000060, "step": 1}},
            "versions": {"gui-rl": "0.1.0", "jax": "0.10.2"},
            "python": "3.11.2",
            "machine": {"platform": "Linux", "cores": 2, "memory_gb": 24.0, "accelerators": ["cpu"]},
            "font": {"asked": "DejaVu Sans", "family": "DejaVu Sans", "file": "DejaVuSans.ttf", "sha256": "00"},
            "chromium": "Chromium 1.2.3",
            "revision": {"commit": "0123456789abcdef", "dirty": False},
            "resumes": [],
        },
    )
    write(
        path / "result.json",
        {
            "minutes": 13.4,
            "peak_memory_gb": 3.1,
            "groups": {"kept": 0.512, "swapped": 0.293, "empty": 0.195},
            "seconds": {"collect": 48.0, "sft": 171.0, "rl": 402.0, "evaluate": 163.0, "report": 1.4},
            "families": {f: {p: score(*rates) for p, rates in SUCCESS[f].items()} for f in families},
        },
    )
    for family in families:
        for number in range(3):
            write_trajectory(path, make_episode(family, number))
    return path


def write(path: Path, value: dict) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")


def draw_screen(size: tuple[int, int], step: int) -> bytes:
    image = Image.new("RGB", size, "#f3efe6")
    draw = ImageDraw.Draw(image)
    draw.rectangle((0, 0, size[0], 22), fill="#33506b")
    for index in range(6):
        x, y = 14 + index % 3 * 40, 34 + index // 3 * 44
        draw.rounded_rectangle((x, y, x + 26, y + 26), 6, fill=("#d9483b", "#2f8f5b", "#d79a1e")[(index + step) % 3])
    png = io.BytesIO()
    image.save(png, "PNG")
    return png.getvalue()


def make_episode(family: str, number: int) -> Episode:
    """Number 0 succeeds under a hostile instruction, 1 fails with a response that does not parse, 2 is scripted."""
    size, success = SCREENS[family], number != 1
    calls = [
        {"action": "click", "coordinate": [210, 293]},
        {"action": "type", "text": "pear"},
        {"action": "swipe", "coordinate": [520, 800], "coordinate2": [520, 330]},
        {"action": "double_click", "coordinate": [760, 560]},
        {"action": "terminate", "status": "success" if success else "failure"},
    ]
    turns = []
    for index, arguments in enumerate(calls):
        failed = number == 1 and index == 3
        turns.append(
            Turn(
                index=index,
                screenshot=draw_screen(size, index),
                text='Action: open it.\n<tool_call>\n{"name": ' if failed else "Action: open it.",
                thought="The pear is the second thing of the list." if index == 0 else None,
                conclusion=f"Open the <b>pear</b>, part {index}.",
                action=None if failed else {"name": FUNCTIONS[family], "arguments": arguments},
                parse_error="bad_json" if failed else None,
                tool_result='{"success": true, "result": "<ok>"}' if index == 1 else None,
                target_box=(110, 212, 313, 375) if index == 0 else None,
            )
        )
    return Episode(
        id=f"{family}-{number}",
        suite="virtual",
        task=f"{family}.star_item",
        seed=1_000_000 + number,
        device=family,
        instruction=HOSTILE if number == 0 else "Star the pear, then open the cart.",
        screen_size=size,
        turns=tuple(turns),
        outcome="success" if success else "step_limit",
        score=float(success),
        progress=3 if success else 1,
        total=3,
        source="script" if number == 2 else "policy",
        policy_version=-1 if number == 2 else 60,
    )
