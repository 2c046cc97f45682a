"""Progress: bars where there is a terminal, plain lines where there is none, both with rate and remaining time."""

import io

import pytest
from rich.console import Console

from gui_rl.report.progress import Progress, board, duration_text, rate_text


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def plain():
    output, clock = io.StringIO(), Clock()
    return Progress(Console(file=output, width=100), clock), output, clock


def test_without_a_terminal_a_line_every_ten_seconds():
    progress, output, clock = plain()
    with progress, progress.stage("SFT", total=100, unit="step") as stage:
        for step in range(40):  # half a second each: twenty seconds
            clock.now += 0.5
            stage.advance(loss=1 / (step + 1))
    assert output.getvalue().splitlines() == [
        "SFT: started",
        "SFT: 20/100, 2 step/s, 0:40 left, loss 0.05",
        "SFT: 40/100, 2 step/s, 0:30 left, loss 0.025",
        "SFT: done, 40/100 in 0:20, 2 step/s, 0:30 left, loss 0.025",
    ]


def test_a_resumed_stage_counts_only_fresh_work_in_its_rate():
    progress, output, clock = plain()
    with progress, progress.stage("RL", total=60, unit="step", done=40) as stage:
        clock.now += 30
        stage.advance(10)
    assert "RL: 50/60, 3 s/step, 0:30 left" in output.getvalue()


def test_unknown_total_and_notes():
    progress, output, clock = plain()
    with progress, progress.stage("collect", unit="episode") as stage:
        clock.now += 10
        stage.advance(30)
        progress.note("[kept] 12 of 30")
    text = output.getvalue()
    assert "collect: 30 episodes, 3 episode/s" in text and "[kept] 12 of 30" in text and "left" not in text


def test_a_failure_is_shown_and_passed_on():
    progress, output, _ = plain()
    with pytest.raises(KeyError), progress, progress.stage("SFT", total=3) as stage:
        stage.advance()
        raise KeyError("x")
    assert "SFT: stopped, 1/3 in 0:00" in output.getvalue()


def test_in_a_terminal_a_bar():
    output, clock = io.StringIO(), Clock()
    progress = Progress(Console(file=output, force_terminal=True, width=120), clock)
    with progress, progress.stage("SFT", total=4, unit="step") as stage:
        for _ in range(2):
            clock.now += 1
            stage.advance(loss=0.5)
    text = output.getvalue()
    assert "SFT" in text and "2/4" in text and "━" in text and "done in 0:02" in text and "loss 0.5" in text


def test_a_step_of_online_training_shows_its_headline():
    progress, output, _ = plain()
    metrics = {"success": 0.5, "success/web": 0.25, "staleness": 1.5, "utilisation": 0.93, "seconds_train": 3.0}
    with progress, progress.stage("MRPO", total=3) as stage:
        stage.advance(metrics=metrics)
    assert "success 0.5, web 0.25, lag 1.5, busy 0.93" in output.getvalue()
    assert "seconds_train" not in output.getvalue()


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (61.4, "1:01"), (3599.6, "1:00:00"), (7384, "2:03:04")])
def test_durations(seconds, text):
    assert duration_text(seconds) == text


@pytest.mark.parametrize(("rate", "text"), [(12.34, "12.3 step/s"), (1.0, "1 step/s"), (0.25, "4 s/step")])
def test_rates(rate, text):
    assert rate_text(rate, "step") == text


STEP = {
    "success": 0.5, "success/web": 0.25, "reward": 0.7, "reward/outcome": 0.5, "reward/tool": 0.2, "groups_kept": 3.0,
    "groups_swapped": 2.0, "groups_empty": 1.0, "kl": 0.04, "kl/mobile": 0.03, "kl_tokens/mobile": 90.0,
    "entropy": 0.8, "agreement_1pct": 0.99, "utilisation": 0.93, "tokens_per_s": 1200.0, "staleness": 1.5,
    "compile_count": 7.0, "gradient_cosine/all/mobile-web": -0.1, "gradient_cosine/text/layers/0/mobile-web": 0.3,
}  # fmt: skip


def test_the_board_has_a_row_for_each_kind_of_figure():
    assert board(STEP) == {
        "success": {"success": 0.5, "web": 0.25},
        "reward": {"reward": 0.7, "outcome": 0.5, "tool": 0.2},
        "groups": {"kept": 3, "swapped": 2, "empty": 1},
        "teachers": {"kl": 0.04, "mobile": 0.03},
        "policy": {"entropy": 0.8, "agreement_1pct": 0.99},
        "rollout": {"utilisation": 0.93, "tokens_per_s": 1200, "staleness": 1.5},
        "programs": {"compile_count": 7},
        "gradients": {"mobile-web": -0.1},
    }
    assert board({}) == {}


def test_in_a_terminal_the_board_is_below_the_bar_until_the_stage_ends():
    output = io.StringIO()
    progress = Progress(Console(file=output, force_terminal=True, width=120, height=30), Clock())
    with progress:
        with progress.stage("MRPO", total=3) as stage:
            stage.advance(metrics=STEP)
            progress._bars.refresh()
            shown = output.getvalue()
        output.truncate(0)
        progress._bars.refresh()
    assert "swapped 2" in shown and "mobile-web -0.1" in shown and "compile_count 7" in shown
    assert "swapped" not in output.getvalue() and "MRPO" in output.getvalue()
