"""Evaluation of a checkpoint with everything on this machine: an environment server, the engine, the episodes."""

from __future__ import annotations

import asyncio
from pathlib import Path

from env_servers.server import ServerConfig, running_server
from gui_rl.evaluate.suites import Score, evaluate, evaluation_specs, tasks_of
from gui_rl.rollout import policy
from gui_rl.rollout.agents import PolicyAgent, Prompts
from gui_rl.rollout.engine import Engine, engine_config
from gui_rl.rollout.env_client import EnvClient
from gui_rl.rollout.sampler import SamplingParams


def evaluate_checkpoint(
    checkpoint: Path, suite: str, longest: int | None, episodes: int, temperature: float
) -> dict[str, Score]:
    """Scores by family of a policy's folder (`gui_rl.rollout.policy`).

    Raises UserError for a folder that holds no policy, an unknown suite, or no Chromium.
    """
    loaded = policy.load(checkpoint)

    async def run(url: str, token: str) -> dict[str, Score]:
        config = engine_config(loaded.context)
        engine = Engine(loaded.cfg, loaded.params, loaded.tokenizer, config)
        agent = PolicyAgent(engine, Prompts(loaded.tokenizer, loaded.context), SamplingParams(temperature))
        async with EnvClient(url, token) as client:
            specs = evaluation_specs(await tasks_of(client, suite, longest), episodes, "eval")
            scores, _ = await evaluate(client, agent, specs)
        await engine.close()
        return scores

    with running_server(ServerConfig(port=0)) as server:
        return asyncio.run(run(server.url, server.token))
