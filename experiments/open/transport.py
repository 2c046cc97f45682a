"""Token-ID transport on and off: what is lost where a response is sent as text and tokenised again.

The SFT policy plays, and the trainer scores what it said. With transport the trainer has the ids that were sampled;
without, the ids of the text. Errors are against the log-probabilities of sampling, under the same weights: what is left
with transport is the arithmetic of two programs, what is more without it comes from other tokens.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from experiments import table
from experiments.bench import Made
from experiments.lab import Lab
from experiments.parts import number, short_tasks, started
from experiments.table import Arm, Outcome, Sizes
from gui_rl.data.samples import turn_sample
from gui_rl.data.schema import Episode
from gui_rl.learn.teachers import LocalTeacher
from gui_rl.prompt.render import decode_response, encode_response

PORTION = 256


async def errors(lab: Lab, policy: Made, data: Made, transported: bool) -> Made:
    """Numbers: share of responses with other ids, and errors of their log-probabilities (nats)."""

    async def make(folder: Path) -> dict[str, Any]:
        params, source = lab.params(policy), data.data
        scorer = LocalTeacher(lab.cfg, params, lab.mesh)
        turns = [(episode, t) for episode in (source[n] for n in range(len(source))) for t in episode.turns]
        other = whole = tokens = 0.0
        wrong: list[float] = []
        with lab.progress.stage("score", len(turns), "response") as stage:
            for first in range(0, len(turns), PORTION):
                part = turns[first : first + PORTION]
                sent = [list(turn.response_ids) if transported else again(lab, turn.response_ids) for _, turn in part]
                samples = [sample(episode, turn.index, ids) for (episode, turn), ids in zip(part, sent, strict=True)]
                for (_, turn), ids, marked in zip(part, sent, scorer.mark(samples), strict=True):
                    same = ids == list(turn.response_ids)
                    other += not same
                    wrong.append(abs(float(marked.logp.sum()) - float(np.sum(turn.behaviour_logp))))
                    whole += len(turn.response_ids)
                    if same:
                        tokens += float(np.abs(marked.logp - np.asarray(turn.behaviour_logp)).sum())
                stage.advance(len(part))
        return {
            "other ids": other / len(turns), "error": float(np.mean(wrong)), "largest": float(np.max(wrong)),
            "ratio off": float(np.mean(np.array(wrong) > 0.2)), "error a token": tokens / max(whole, 1.0),
        }  # fmt: skip

    return await lab.stage("transport", {"transported": transported}, {"policy": policy, "data": data}, make)


def again(lab: Lab, ids: tuple[int, ...]) -> list[int]:
    """The ids of a response's text."""
    return list(encode_response(lab.tokenizer, decode_response(lab.tokenizer, ids)))


def sample(episode: Episode, index: int, ids: list[int]) -> Any:
    """The sample of a turn with these response ids."""
    turns = list(episode.turns)
    turns[index] = dataclasses.replace(turns[index], response_ids=tuple(ids), behaviour_logp=())
    return turn_sample(dataclasses.replace(episode, turns=tuple(turns)), index)


def sent(transported: bool) -> Arm:
    """What the trainer computes of responses that came as ids, or as text."""

    async def arm(lab: Lab, seed: int, sizes: Sizes) -> Outcome:
        policy = await started(lab, seed, sizes)
        data = await lab.collect(await short_tasks(lab, sizes), sizes.evaluation, seed, agent=policy, keep="scored")
        return (await errors(lab, policy, data, transported)).numbers

    return arm


TABLE = table.Table(
    name="open/transport",
    title="token-ID transport on and off",
    source="GUI-Owl-1.5, section 2.4.3 (not measured there)",
    says=(
        "The paper transports token ids so that log π is of what was sampled. `other ids` is how often text does not "
        "give them back, `error` what that does to the log-probability of a response (nats), `ratio off` how often the "
        "importance ratio is wrong by more than the clip range of 0.2."
    ),
    equal="the responses",
    arms={"token ids": sent(True), "text, tokenised again": sent(False)},
    columns={
        "other ids": number("other ids", True), "error": number("error"), "largest": number("largest"),
        "ratio off": number("ratio off", True), "error a token, same ids": number("error a token"),
    },
    differences=[("text, tokenised again", "token ids")],
)  # fmt: skip
Config, main = table.Config, TABLE.main
