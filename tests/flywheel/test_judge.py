"""A judge's verdicts on recorded trajectories, sub-task by sub-task."""

import asyncio
import json

import pytest

from gui_rl.data.schema import Episode, Turn
from gui_rl.flywheel.annotator import Answer, RubbishError
from gui_rl.flywheel.judge import judged, subtasks_of, verified


class Judge:
    """Splits at full stops, and says for each step what a list says."""

    name = "wise"

    def __init__(self, *verdicts, subtasks=("Open it.", "Close it.")):
        self.verdicts, self.subtasks, self.asked = list(verdicts), list(subtasks), []

    async def ask(self, question):
        self.asked.append(question)
        if question.purpose == "subtasks":
            return Answer(json.dumps({"subtasks": self.subtasks}), self.name)
        number, done = self.verdicts.pop(0)
        return Answer(json.dumps({"subtask": number, "done": done}), self.name)


def episode():
    turns = tuple(Turn(k, f"screen {k}".encode(), conclusion=f"Do {k}.") for k in range(3))
    return Episode("e", "s", "t", 0, "web", "Open it. Close it.", (1, 1), turns, "success", final_screenshot=b"end")


def test_the_judge_walks_through_the_steps():
    judge = Judge((1, True), (2, False), (2, True))
    rows = asyncio.run(judged(judge, episode(), ["Open it.", "Close it."]))
    assert rows == [[True, False], [False, False], [False, True]]
    assert [question.images for question in judge.asked] == [
        (b"screen 0", b"screen 1"), (b"screen 1", b"screen 2"), (b"screen 2", b"end"),
    ]  # fmt: skip
    assert "1. Open it.\n2. Close it." in judge.asked[0].text and "Do 1." in judge.asked[1].text


@pytest.mark.parametrize(
    ("verdicts", "kept"),
    [([(1, True), (None, False), (2, True)], True), ([(1, True), (2, False), (2, False)], False)],
)
def test_a_trajectory_is_kept_where_every_sub_task_is_done(verdicts, kept):
    judge = Judge(*verdicts)
    found = asyncio.run(verified(judge, episode()))
    assert (found is not None) == kept and judge.asked[0].purpose == "subtasks"
    if kept:
        assert found.made_by == {"completed": "wise"} and found.turns == episode().turns


def test_rubbish_is_no_verdict():
    for verdict in ((3, True), (0, True), (1, "yes"), (True, True), ("1", True)):
        with pytest.raises(RubbishError, match="wise answered judge"):
            asyncio.run(judged(Judge(verdict, verdict), episode(), ["Open it.", "Close it."]))
    with pytest.raises(RubbishError, match="subtasks"):
        asyncio.run(subtasks_of(Judge(subtasks=[]), "Open it."))
