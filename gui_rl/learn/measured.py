"""What a step of online training reports of its rollouts. In: pools, places, the sampler. Out: numbers by name.

success, success/FAMILY      share of scored episodes that succeeded
reward/COMPONENT, reward     means over scored episodes
groups_kept|swapped|empty|short, groups_again, groups_dropped, refilled   numbers of pools
staleness, staleness_max     policy versions between a turn's first token and the step that trains on it
turns_across_versions        share of turns that new weights reached in the middle
utilisation                  share of the places that were occupied, since the last step
tokens_per_s                 sampled, since the last step
compile_count                programs of the sampler so far
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gui_rl.data.schema import Episode
from gui_rl.rollout.episode import Places
from gui_rl.rollout.groups import Pool


def rollout_metrics(
    pools: Sequence[Pool], rewards: Sequence[Mapping[str, float]], number: int | None = None
) -> dict[str, float]:
    """Success, rewards, turns, failures, faults and staleness of a step's pools.

    Args:
      pools: of the step.
      rewards: of each episode, in the order of the pools, by component.
      number: the version that is trained; staleness is counted from the newest sample where None.
    """
    episodes = [episode for pool in pools for episode in pool.episodes]
    turns = [turn for episode in episodes for turn in episode.turns]
    out: dict[str, Any] = {"episodes": len(episodes), "faults": sum(pool.faults for pool in pools), "turns": len(turns)}
    if episodes:
        out["success"] = _mean(episodes, lambda episode: episode.success)
        for family in sorted({episode.device for episode in episodes}):
            mine = [episode for episode in episodes if episode.device == family]
            out[f"success/{family}"] = _mean(mine, lambda episode: episode.success)
        out["progress"] = _mean(episodes, lambda episode: episode.progress / max(episode.total, 1))
        out["episode_turns"] = _mean(episodes, lambda episode: len(episode.turns))
        for outcome in ("step_limit", "policy_timeout"):
            out[outcome] = _mean(episodes, lambda episode, outcome=outcome: episode.outcome == outcome)
    if rewards:
        out |= {f"reward/{name}": float(np.mean([parts[name] for parts in rewards])) for name in rewards[0]}
        out["reward"] = float(np.mean([sum(parts.values()) for parts in rewards]))
    rates = [np.mean(pool.outcomes) for pool in pools if pool.episodes]
    if rates:
        out["pool_success_std"] = float(np.std(rates))
    if turns:
        out["parse_errors"] = float(np.mean([turn.parse_error is not None for turn in turns]))
        newest = max(turn.policy_version for turn in turns) if number is None else number
        lags = [newest - turn.policy_version for turn in turns]
        out["staleness"], out["staleness_max"] = float(np.mean(lags)), float(max(lags))
        out["turns_across_versions"] = float(np.mean([len(turn.policy_spans) > 1 for turn in turns]))
    return {name: float(value) for name, value in out.items()}


class Meter:
    """How busy places and sampler were from one step to the next."""

    def __init__(self, places: Places, sampler: Any):
        self._places, self._sampler = places, sampler
        self._before = self._now()

    def since_last(self) -> dict[str, float]:
        """The rates since the last call, or since the beginning."""
        before, self._before = self._before, self._now()
        seconds = max(self._before["seconds"] - before["seconds"], 1e-9)
        occupied = self._before["occupied"] - before["occupied"]
        out = {"utilisation": occupied / seconds / self._places.count}
        if hasattr(self._sampler, "tokens_sampled"):  # samplers in this process count; remote ones do so over there
            out["tokens_per_s"] = (self._before["tokens"] - before["tokens"]) / seconds
            out["compile_count"] = float(self._sampler.compile_count)
        return out

    def _now(self) -> dict[str, float]:
        tokens = getattr(self._sampler, "tokens_sampled", 0)
        return {"seconds": time.monotonic(), "occupied": self._places.occupied_s, "tokens": tokens}


def _mean(episodes: Sequence[Episode], value) -> float:
    return float(np.mean([value(episode) for episode in episodes]))
