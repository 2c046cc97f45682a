"""Simulated environments: a client that answers like `EnvClient`, with latencies of a known distribution and no server.

In: a distribution of latencies. Out: sessions whose episodes have a length and an outcome that are functions of the
task, the seed and the policy's first response; nothing is drawn but how long a call takes. For measuring what a rollout
makes of its environments, and for sizing fleets that are not there.
"""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import hashlib
import io
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from PIL import Image

from env_servers.protocol.messages import (
    EpisodeReply,
    EvaluateReply,
    Observation,
    Response,
    Sampled,
    StepRecord,
    StepReply,
)
from gui_rl.rollout.env_client import EnvFault


@dataclasses.dataclass(frozen=True)
class Simulation:
    """What the environments are like.

    Attributes:
      mean_s: mean of the log-normal latency of a reset or a step, seconds.
      sigma: standard deviation of its logarithm; at 1.0 one call in a hundred takes more than 6 times the mean.
      shortest, longest: steps of an episode, uniform in between.
      success: share of episodes that succeed.
      faults: share of steps at which the environment crashes.
      side: of the square screenshot, pixels.
      seed: of latencies and faults.
    """

    mean_s: float = 0.04
    sigma: float = 1.0
    shortest: int = 3
    longest: int = 30
    success: float = 0.5
    faults: float = 0.0
    side: int = 64
    seed: int = 0


class SimulatedClient:
    """Stands for an `EnvClient`; a task's name begins with its device family, e.g. "web/3".

    Attributes:
      busy_s: drawn latencies of the resets and steps that are over, seconds, summed over sessions.
      calls: resets and steps that have begun.
    """

    def __init__(self, simulation: Simulation):
        self.simulation = simulation
        self.busy_s, self.calls = 0.0, 0
        self.random = np.random.default_rng(simulation.seed)
        self.screens: dict[str, str] = {}

    async def create(
        self, suite: str, task: str, seed: int, count: int = 1, *, script: bool = False, deadline: float | None = None
    ) -> list[SimulatedSession]:
        """`count` sessions at once; there is no limit to their number."""
        return [SimulatedSession(self, suite, task, seed) for _ in range(count)]

    async def wait(self) -> None:
        """One call's latency."""
        mean, sigma = self.simulation.mean_s, self.simulation.sigma
        pause = self.random.lognormal(math.log(mean) - sigma**2 / 2, sigma) if mean else 0.0
        self.calls += 1
        await asyncio.sleep(pause)
        self.busy_s += pause


class SimulatedSession:
    """One episode at a time of a simulated environment."""

    tools: tuple = ()

    def __init__(self, client: SimulatedClient, suite: str, task: str, seed: int):
        self._client, self._suite, self._task, self._seed = client, suite, task, seed
        self.device = task.split("/")[0]
        self._steps: list[StepRecord] = []
        self._length, self._won = 0, False

    async def reset(self) -> Observation:
        """The first screen."""
        await self._client.wait()
        self._steps = []
        return self._observation()

    async def step(
        self,
        action: Mapping[str, Any] | None,
        *,
        parse_error: str | None = None,
        text: str | None = None,
        token_ids: tuple[int, ...] = (),
        sampled: Sampled | None = None,
    ) -> StepReply:
        """The next screen, the same as before. Raises EnvFault("env_crash") as often as the simulation says."""
        given, simulation = list(token_ids), self._client.simulation
        if not self._steps:
            digest = hashlib.sha256(f"{self._task}/{self._seed}/{text}/{given}".encode()).digest()
            spread = simulation.longest - simulation.shortest + 1
            self._length = simulation.shortest + int.from_bytes(digest[:4], "big") % spread
            self._won = int.from_bytes(digest[4:8], "big") / 2**32 < simulation.success
        await self._client.wait()
        if self._client.random.random() < simulation.faults:
            raise EnvFault("env_crash", "simulated")
        record = StepRecord(
            step=len(self._steps), action=None, parse_error=parse_error, error=None, tool_result=None,
            response=Response(text=text or "", token_ids=given, sampled=sampled), state_hash="", held=[],
        )  # fmt: skip
        self._steps.append(record)
        ended = len(self._steps) >= self._length
        return StepReply(observation=self._observation(), terminated=ended, truncated=False)

    async def evaluate(self) -> EvaluateReply:
        """The verdict."""
        won = self._won
        return EvaluateReply(
            outcome="success" if won else "fail", score=float(won), progress=int(won), total=1, checkpoints=[None],
            steps=len(self._steps), parse_failures=0,
        )  # fmt: skip

    async def record(self) -> EpisodeReply:
        """What was sent, with the responses' token ids."""
        return EpisodeReply(
            session="simulated", episode=1, suite=self._suite, task=self._task, seed=self._seed, instruction="",
            status="terminated", steps=self._steps, device=self.device,
        )  # fmt: skip

    async def close(self) -> None:
        """Nothing is left behind."""

    def _observation(self) -> Observation:
        side = self._client.simulation.side
        if self.device not in self._client.screens:
            self._client.screens[self.device] = _png(side)
        return Observation(
            episode=1, step=len(self._steps), device=self.device, instruction=f"Do {self._task}.",
            screenshot=self._client.screens[self.device], width=side, height=side, css_width=side, css_height=side,
            device_pixel_ratio=1.0, tool_results=[], state_hash="",
        )  # fmt: skip


def _png(side: int) -> str:
    out = io.BytesIO()
    Image.new("RGB", (side, side)).save(out, "PNG")
    return base64.b64encode(out.getvalue()).decode()
