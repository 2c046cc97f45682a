"""Corrections by teachers: verdicts by hand, and the rates that figure 4 shows."""

import pytest

from experiments.mopd.corrections import rates, verdict

TARGET = {"name": "mobile_use", "arguments": {"action": "click", "coordinate": [500, 500]}}
BOX = (450, 450, 550, 550)


def click(x, y):
    return {"name": "mobile_use", "arguments": {"action": "click", "coordinate": [x, y]}}


@pytest.mark.parametrize(
    ("student", "teacher", "expected"),
    [
        (click(10, 10), click(460, 540), "useful"),
        (None, click(460, 540), "useful"),
        (click(460, 540), click(10, 10), "harmful"),
        (click(460, 540), None, "harmful"),
        (click(455, 455), click(545, 545), "agree"),  # both right, whatever the coordinates
        (click(10, 10), click(10, 10), "agree"),
        (click(10, 10), click(20, 20), "neither"),
    ],
)
def test_a_correction_is_judged_by_the_target(student, teacher, expected):
    assert verdict(student, teacher, TARGET, BOX) == {
        "disagree": expected != "agree", "useful": expected == "useful", "harmful": expected == "harmful",
    }  # fmt: skip


def test_rates_are_of_disagreements_and_a_routed_teacher_is_that_of_the_state():
    useful = {"disagree": True, "useful": True, "harmful": False}
    harmful = {"disagree": True, "useful": False, "harmful": True}
    neither, agree = useful | {"useful": False}, {"disagree": False, "useful": False, "harmful": False}
    states = [
        {"device": "mobile", "mobile": useful, "desktop": harmful},
        {"device": "mobile", "mobile": agree, "desktop": neither},
        {"device": "desktop", "mobile": neither, "desktop": useful},
    ]
    assert rates(states, "mobile") == {"useful": 1 / 2, "harmful": 0}
    assert rates(states, "desktop") == {"useful": 1 / 3, "harmful": 1 / 3}
    assert rates(states, "routed") == {"useful": 1, "harmful": 0}
    assert rates(states[1:2], "mobile") == {"useful": 0, "harmful": 0}
