"""Advantages of a group of trajectories, and the weights that say what a mean is taken over.

In: one reward per trajectory of a group (the group key is the source task and its seed), numbers of turns and tokens.
Out: one advantage per turn, one weight per token. Everything is host-side numpy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float

Aggregation = Literal["token", "turn", "trajectory"]


class GroupAdvantages(NamedTuple):
    """Advantages of one group.

    Attributes:
      baseline: mean reward over the trajectories (weighted where weights are given).
      per_trajectory: `[N]` advantages.
      per_turn: for each trajectory, the `[turns]` advantages of its turns (one turn each where none are given).
      constant: whether all raw outcomes of the group are equal.
    """

    baseline: float
    per_trajectory: Float[np.ndarray, " N"]
    per_turn: tuple[Float[np.ndarray, " turns"], ...]
    constant: bool


def group_advantages(
    rewards: Sequence[float],
    turns: Sequence[int] | None = None,
    *,
    outcomes: Sequence[float] | None = None,
    weights: Sequence[float] | None = None,
    normalise: bool = False,
    std_floor: float = 1e-2,
) -> GroupAdvantages:
    """Reward minus the group's mean over *trajectories*, fanned out to turns (GRPO without the division by std).

    Args:
      rewards: one total reward per trajectory, shaping included.
      turns: number of turns of each trajectory.
      outcomes: the raw outcomes, by which the group counts as constant or not; the rewards where not given. Shaping
        terms differ inside an all-success group, which is constant all the same.
      weights: weight of each trajectory in the baseline (the buffer's Horvitz-Thompson weights); all 1 where not given.
      normalise: divide by the standard deviation (ToolCUA's single-turn RL); a constant group is left undivided.
      std_floor: least standard deviation to divide by.
    Raises:
      ValueError: for an empty group, numbers that are not finite, or lengths that differ.
    """
    reward = np.asarray(rewards, np.float64)
    if reward.ndim != 1 or not reward.size:
        raise ValueError("a group needs at least one trajectory's reward")
    if not np.isfinite(reward).all():
        raise ValueError(f"rewards must be finite, not {list(rewards)}")
    counts = _same_length("turns", turns, reward.size, 1, np.int64)
    raw = reward if outcomes is None else _same_length("outcomes", outcomes, reward.size, 0.0, np.float64)
    weight = _same_length("weights", weights, reward.size, 1.0, np.float64)
    if (counts < 0).any() or (weight < 0).any() or not weight.sum() > 0:
        raise ValueError("turns and weights must not be negative, and some weight must be positive")
    baseline = float(np.average(reward, weights=weight))
    # Equal rewards have no advantage at all, not one of the size of a rounding error.
    advantage = reward - baseline if reward.max() > reward.min() else np.zeros_like(reward)
    constant = bool(raw.max() - raw.min() == 0)
    if normalise and not constant:
        advantage = advantage / max(float(np.sqrt(np.average(advantage**2, weights=weight))), std_floor)
    per_turn = tuple(np.full(count, value) for count, value in zip(counts, advantage, strict=True))
    return GroupAdvantages(baseline, advantage, per_turn, constant)


def aggregation_weights(
    tokens: Sequence[int], trajectory: Sequence[int], aggregation: Aggregation = "token"
) -> Float[np.ndarray, " turns"]:
    """Weight of every token of each turn, such that the batch's global weighted mean is the mean that is asked for.

    Args:
      tokens: number of response tokens of each turn.
      trajectory: which trajectory each turn belongs to.
      aggregation: "token": every token counts the same (default of UI-MOPD and DAPO); "turn": every turn counts the
        same, whatever its length; "trajectory": every trajectory does, whatever its turns and their lengths.
    Raises:
      ValueError: for an unknown aggregation, an empty turn or lengths that differ.
    """
    count, owner = np.asarray(tokens, np.float64), np.asarray(trajectory, np.int64)
    if count.shape != owner.shape:
        raise ValueError(f"{count.size} turns but {owner.size} trajectory numbers")
    if (count <= 0).any():
        raise ValueError("every turn needs at least one response token")
    if aggregation == "token":
        return np.ones_like(count)
    if aggregation == "turn":
        return 1.0 / count
    if aggregation == "trajectory":
        _, inverse = np.unique(owner, return_inverse=True)
        return 1.0 / np.bincount(inverse, weights=count)[inverse]
    raise ValueError(f"unknown aggregation {aggregation!r}: choose 'token', 'turn' or 'trajectory'")


def _same_length(name: str, values, size: int, default, dtype) -> np.ndarray:
    """The values as an array of `size` entries, or `size` times the default where there are none."""
    array = np.full(size, default, dtype) if values is None else np.asarray(values, dtype)
    if array.shape != (size,):
        raise ValueError(f"{name}: {array.size} entries for {size} trajectories")
    return array
