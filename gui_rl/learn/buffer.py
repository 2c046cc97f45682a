"""MRPO's oversample-and-swap buffer (GUI-Owl-1.5, section 2.4.3).

In: the outcomes of a pool of k*n trajectories of one task, sampled by one policy version. Out: the n that form the
group, how they were found, and their weights.
1. A uniform subsample of n is drawn without replacement.
2. If its outcomes are all equal but the pool's are not, one random member is swapped for a random one of the opposite
   outcome ("swapped"); if it is diverse it stays ("kept").
3. If the pool itself is constant there is no group ("empty").
The swap is selection-biased: with it the rarer outcome is over-represented. The Horvitz-Thompson weights undo this, so
that the group's weighted mean equals the pool's in expectation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, Int
from scipy.special import comb

from gui_rl.rollout.groups import Ticket

Status = Literal["kept", "swapped", "empty"]
SwapWeights = Literal["none", "horvitz_thompson"]
Subsample = Literal["random", "first"]


class Group(NamedTuple):
    """A selected group: `indices` into the pool (none when empty), its status, and one weight per member."""

    indices: Int[np.ndarray, " n"]
    status: Status
    weights: Float[np.ndarray, " n"]


def select_group(
    key: Array | int,
    outcomes: Sequence[bool],
    n: int,
    swap_weights: SwapWeights = "none",
    subsample: Subsample = "random",
) -> Group:
    """Draws a group of `n` from a pool by its raw outcomes.

    Args:
      key: a JAX random key, or an integer seed; the draw is a function of it.
      outcomes: success of each trajectory in the pool, in a fixed order.
      n: size of the group.
      swap_weights: "none" weighs every member 1 (the paper); "horvitz_thompson" weighs it by `(n/N) / pi`.
      subsample: "random" draws the n; "first" takes the first n, which is the same in distribution, as the members of a
        pool are exchangeable, and lets a pool end after n where they differ already.
    Raises:
      ValueError: for a pool smaller than the group, outcomes that are not true or false, or an unknown weighting.
    """
    pool = np.asarray(outcomes)
    if not 1 <= n <= pool.size:
        raise ValueError(f"a group of {n} cannot come from a pool of {pool.size}: sample k * n trajectories first")
    if not np.isin(pool, (0, 1)).all():
        raise ValueError(f"outcomes must be raw successes (true or false), not shaped rewards: {pool.tolist()}")
    if swap_weights not in ("none", "horvitz_thompson"):
        raise ValueError(f"unknown swap_weights {swap_weights!r}: choose 'none' or 'horvitz_thompson'")
    won = pool.astype(bool)
    if won.all() or not won.any() or n == 1:
        # A single trajectory has no baseline to differ from, so it cannot form a group either.
        return Group(np.zeros(0, np.int64), "empty", np.zeros(0))
    random = np.random.default_rng(_seed(key))
    indices = np.arange(n) if subsample == "first" else random.choice(pool.size, n, replace=False)
    status: Status = "kept"
    if won[indices].all() or not won[indices].any():
        status = "swapped"
        indices[random.integers(n)] = random.choice(np.flatnonzero(won != won[indices[0]]))
    weights = np.ones(n)
    if swap_weights == "horvitz_thompson":
        inclusion = inclusion_probabilities(pool.size, n, int(won.sum()))
        weights = n / pool.size / np.where(won[indices], inclusion.success, inclusion.fail)
    return Group(indices, status, weights)


class Inclusion(NamedTuple):
    """Probability that a given success, and a given failure, of the pool is in the group."""

    success: float
    fail: float


def inclusion_probabilities(pool: int, n: int, successes: int) -> Inclusion:
    """Inclusion probabilities under subsample and swap, for a pool that is not constant.

    With `f0 = C(N-s, n) / C(N, n)` and `f1 = C(s, n) / C(N, n)`, the probabilities that the subsample holds failures or
    successes only: `pi_s = n/N + (f0 - f1) / s` and `pi_f = n/N + (f1 - f0) / (N - s)`.

    Raises:
      ValueError: for a constant pool, which gives no group.
    """
    if not 0 < successes < pool:
        raise ValueError(f"a pool of {pool} with {successes} successes is constant and gives no group")
    all_fail, all_success = collapse_probabilities(pool, n, successes)
    return Inclusion(
        n / pool + (all_fail - all_success) / successes, n / pool + (all_success - all_fail) / (pool - successes)
    )


def collapse_probabilities(pool: int, n: int, successes: int) -> tuple[float, float]:
    """Probabilities that a uniform subsample of `n` holds failures only, and successes only."""
    total = comb(pool, n, exact=True)
    return comb(pool - successes, n, exact=True) / total, comb(successes, n, exact=True) / total


def pool_diversity(p: float, n: int, k: int = 1) -> float:
    """Probability that a pool of k*n independent trajectories of success rate `p` holds both outcomes.

    `P(A) = 1 - p^(kn) - (1-p)^(kn)` (GUI-Owl-1.5, section 2.4.3).
    """
    if not 0.0 <= p <= 1.0 or n < 1 or k < 1:
        raise ValueError(f"pool_diversity needs 0 <= p <= 1, n >= 1 and k >= 1, not p={p}, n={n}, k={k}")
    return 1.0 - p ** (k * n) - (1.0 - p) ** (k * n)


@dataclass(frozen=True)
class BufferState:
    """What a run's checkpoint keeps of its groups (R39): all that was drawn, and not yet trained on, is in it.

    Attributes:
      counts: number of groups by status.
      recent: the latest outcomes of each task, oldest first.
      rounds: tickets of the rounds that were drawn and not yet trained on, by the step that they are for.
      waiting: tickets whose pool was too small for a group; they are played again in a later round.
    """

    counts: Mapping[str, int] = field(default_factory=lambda: {"kept": 0, "swapped": 0, "empty": 0})
    recent: Mapping[str, tuple[bool, ...]] = field(default_factory=dict)
    rounds: Mapping[int, tuple[Ticket, ...]] = field(default_factory=dict)
    waiting: tuple[Ticket, ...] = ()

    def record(self, status: Status) -> BufferState:
        """The state with one more group of that status."""
        return replace(self, counts={**self.counts, status: self.counts[status] + 1})

    def remember(self, task: str, outcomes: Sequence[bool], most: int) -> BufferState:
        """The state with more outcomes of a task, the latest `most` of which are kept."""
        return replace(self, recent={**self.recent, task: (*self.recent.get(task, ()), *outcomes)[-most:]})

    def begin(self, number: int, tickets: Sequence[Ticket]) -> BufferState:
        """The state with a round that takes these tickets, those among them that were waiting no longer wait."""
        waiting = tuple(ticket for ticket in self.waiting if ticket not in tickets)
        return replace(self, rounds={**self.rounds, number: tuple(tickets)}, waiting=waiting)

    def end(self, number: int, again: Sequence[Ticket] = ()) -> BufferState:
        """The state without that round; `again` are those of its tickets that are to be played once more."""
        rounds = {other: tickets for other, tickets in self.rounds.items() if other != number}
        waiting = (*self.waiting, *(ticket._replace(tries=ticket.tries + 1) for ticket in again))
        return replace(self, rounds=rounds, waiting=waiting)

    def rates(self) -> dict[str, float]:
        """Share of kept, swapped and empty groups among all groups so far (0 before the first)."""
        total = sum(self.counts.values())
        return {name: count / total if total else 0.0 for name, count in self.counts.items()}

    def to_dict(self) -> dict:
        """A JSON document of the state."""
        return {
            "counts": dict(self.counts),
            "recent": {task: list(outcomes) for task, outcomes in self.recent.items()},
            "rounds": {str(number): list(map(list, tickets)) for number, tickets in self.rounds.items()},
            "waiting": list(map(list, self.waiting)),
        }

    @classmethod
    def from_dict(cls, document: Mapping) -> BufferState:
        """The state of a document made by `to_dict`."""
        return cls(
            counts=dict(document["counts"]),
            recent={task: tuple(outcomes) for task, outcomes in document["recent"].items()},
            rounds={int(n): tuple(Ticket(*ticket) for ticket in tickets) for n, tickets in document["rounds"].items()},
            waiting=tuple(Ticket(*ticket) for ticket in document["waiting"]),
        )


def _seed(key: Array | int) -> list[int]:
    """Entropy for numpy from a JAX key (old or new style) or an integer."""
    if isinstance(key, (int, np.integer)):
        return [int(key)]
    data = jax.random.key_data(key) if jax.numpy.issubdtype(key.dtype, jax.dtypes.prng_key) else key
    return [int(word) for word in np.asarray(data).ravel()]
