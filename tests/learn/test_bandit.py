"""Gradients on a categorical by Monte Carlo, and a bandit of three arms for every algorithm: `fill`, `make_teach`,
`composed` and `project_conflicts` as a run uses them, with three logits in the policy's place."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gui_rl.data.batch import Batch
from gui_rl.data.schema import Episode, Turn
from gui_rl.learn.batch import global_weights
from gui_rl.learn.buffer import BufferState
from gui_rl.learn.losses import LossConfig, composed
from gui_rl.learn.online import MRPOConfig, fill, loss_config
from gui_rl.learn.optim import project_conflicts
from gui_rl.learn.teachers import PAPER, SAMPLED, Marked, Teaching, make_teach
from gui_rl.model.forward import full_reverse_kl
from gui_rl.rollout.groups import Pool

STREAMS = ("ce_weight", "pg_weight", "kl_weight", "advantage", "behaviour_logp", "teacher_logp")
WIDTH = 64  # tokens of a step's row
STUDENT, TEACHER = np.array([0.5, -0.2, 0.1]), np.array([-0.6, 0.3, 0.9])


def softmax(logits):
    return np.exp(logits - np.logaddexp.reduce(logits))


def batch_of(tokens, **streams):
    """A batch `[1, T]` of single actions."""
    values = {name: np.asarray([streams.get(name, np.zeros(len(tokens)))], np.float32) for name in STREAMS}
    return Batch(inputs=None, targets=np.asarray([tokens], np.int32), **values)


@functools.cache
def gradient_of(config):
    """`(logits, teacher's logits, batch, denominators) -> gradient` of the composed loss."""

    def loss(logits, teacher, batch, weights):
        exact = jnp.broadcast_to(full_reverse_kl(logits, teacher), batch.targets.shape)
        divergence = exact if config.kl_estimator == "full" else None
        return composed(jax.nn.log_softmax(logits)[batch.targets], batch, weights, config, divergence)[0]

    return jax.jit(jax.grad(loss))


def by_action(config, student, teacher, **streams):
    """The gradient of each action's loss, `[3, 3]`; everything sampled from the student itself."""
    mine, theirs = np.log(softmax(student)), np.log(softmax(teacher))
    rows = []
    for action in range(3):
        own = {name: [float(values[action])] for name, values in streams.items()}
        batch = batch_of([action], behaviour_logp=[mine[action]], teacher_logp=[theirs[action]], **own)
        weights = global_weights(jax.tree.map(lambda leaf: leaf[None], batch))
        rows.append(gradient_of(config)(jnp.asarray(student, jnp.float32), jnp.asarray(teacher), batch, weights))
    return np.asarray(rows, np.float64)


def sampled_mean(rows, student, count=20_000):
    """Mean and standard error, per component, of the gradients of `count` actions that are drawn from the student."""
    drawn = rows[np.random.default_rng(0).choice(3, count, p=softmax(student))]
    return drawn.mean(0), drawn.std(0, ddof=1) / np.sqrt(count)


def reverse(student, teacher):
    p, d = softmax(student), np.log(softmax(student)) - np.log(softmax(teacher))
    return p * (d - p @ d)


def forward(student, teacher):
    return softmax(student) - softmax(teacher)


ESTIMATORS = {
    ("k2", "loss"): reverse, ("k3", "loss"): forward, ("k1", "advantage"): reverse, ("k1", "ratio"): reverse,
    ("k3", "ratio"): reverse, ("full", "loss"): reverse,
}  # fmt: skip
"""Every choice that is a divergence's gradient, and which divergence that is."""


@pytest.mark.parametrize("anchor", ["behaviour", "current"])
@pytest.mark.parametrize("choice", ESTIMATORS)
def test_each_estimator_s_gradient_is_the_analytic_one(choice, anchor):
    config = LossConfig(kl_estimator=choice[0], kl_placement=choice[1], anchor=anchor)
    for teacher in (TEACHER, STUDENT):  # a teacher that is the student teaches nothing
        mean, error = sampled_mean(by_action(config, STUDENT, teacher, kl_weight=np.ones(3)), STUDENT)
        want = ESTIMATORS[choice](STUDENT, teacher)
        assert (np.abs(mean - want) <= 3 * error + 1e-6).all(), (mean, want, error)
        if teacher is STUDENT:
            np.testing.assert_allclose(want, 0, atol=1e-12)
        else:
            assert np.abs(want).max() > 10 * error.max()  # precise enough to tell the two divergences apart


def test_the_two_divergences_are_told_apart():
    """k3 in the loss is not the reverse KL, k2 in the loss not the forward one: beyond ten standard errors."""
    for estimator, other in (("k3", reverse), ("k2", forward)):
        rows = by_action(LossConfig(kl_estimator=estimator), STUDENT, TEACHER, kl_weight=np.ones(3))
        mean, error = sampled_mean(rows, STUDENT)
        assert np.max(np.abs(mean - other(STUDENT, TEACHER)) / error) > 10


@pytest.mark.parametrize("anchor", ["behaviour", "current"])
def test_the_policy_gradient_is_that_of_the_expected_reward(anchor):
    rewards, p = np.array([1.0, -0.5, 0.2]), softmax(STUDENT)
    streams = {"pg_weight": np.ones(3), "advantage": rewards - p @ rewards}
    mean, error = sampled_mean(by_action(LossConfig(anchor=anchor), STUDENT, TEACHER, **streams), STUDENT)
    assert (np.abs(mean + p * (rewards - p @ rewards)) <= 3 * error + 1e-6).all()


# --- the bandit ------------------------------------------------------------------------------------------------------
class Categorical:
    """A teacher of three logits."""

    exact = True

    def __init__(self, logits):
        self.logp = np.log(softmax(np.asarray(logits, np.float64))).astype(np.float32)

    def mark(self, samples):
        return [Marked(self.logp[sample.branches[0].ids]) for sample in samples]


def played(logits, config, rewards, random, number, pools, families):
    """Pools of one-step episodes; the arm decides the chance of success."""
    p, out = softmax(logits), []
    for index in range(pools):
        episodes = []
        for copy in range(config.group * config.oversample):
            arm = int(random.choice(3, p=p))
            won = bool(random.random() < rewards[arm])
            turn = Turn(0, b"", (0,), response_ids=(arm,), behaviour_logp=(float(np.log(p[arm])),))
            name = f"{number}-{index}-{copy}"
            device = families[index % len(families)]
            episodes.append(
                Episode(name, "bandit", "arms", number, device, "", (1, 1), (turn,), "success" if won else "fail", won)
            )
        out.append(Pool(f"bandit/{index}/{number}", tuple(episodes), 0))
    return out


def learned(config, rewards, teacher=None, steps=50, rate=3.0, start=(0.3, 0.0, -0.3)):
    """The policy's logits after so many steps."""
    families = ("mobile", "desktop") if config.phases == "project" else ("web",)
    logits, random, buffer = np.asarray(start, np.float64), np.random.default_rng(1), BufferState()
    gradient = gradient_of(loss_config(config))
    for number in range(steps):
        filled = fill(played(logits, config, rewards, random, number, 4, families), buffer, config, number)
        buffer = filled.buffer
        if not filled.samples:
            continue
        if config.teaching is not None:
            # the teacher of the moment: the student itself where none is given
            now = Categorical(logits if teacher is None else teacher)
            filled = make_teach({"web": now}, config.teaching)(filled)
        branches = [sample.branches[0] for sample in filled.samples]
        parts = []
        for family in families:
            mine = [b for b, of in zip(branches, filled.families, strict=True) if of == family]
            pad = np.zeros(WIDTH - len(mine))
            streams = {name: np.append([getattr(b, name)[0] for b in mine], pad) for name in STREAMS}
            parts.append(batch_of(np.append([b.ids[0] for b in mine], pad), **streams))
        weights = global_weights(jax.tree.map(lambda *leaves: np.stack(leaves), *parts))
        there = np.asarray(logits if teacher is None else teacher, np.float32)
        grads = [gradient(np.asarray(logits, np.float32), there, part, weights) for part in parts]
        if len(families) == 1:
            logits = logits - rate * np.asarray(grads[0])
        else:
            projected, _ = project_conflicts({"w": jnp.stack(grads)}, jax.random.key(number))
            logits = logits - rate * np.asarray(projected["w"])
    return logits


PLAIN = MRPOConfig(group=4, oversample=1, parse_penalty=0.0)
RL = {
    "GRPO": PLAIN,
    "GRPO, on policy": dataclasses.replace(PLAIN, max_lag=0),
    "MRPO": dataclasses.replace(PLAIN, oversample=4),
    "MRPO, Horvitz-Thompson": dataclasses.replace(PLAIN, oversample=4, swap_weights="horvitz_thompson"),
    "MRPO, pool baseline": dataclasses.replace(PLAIN, oversample=4, baseline="pool"),
    "MRPO, projection": dataclasses.replace(PLAIN, oversample=4, phases="project"),
}
OPD = {
    "exact": Teaching(threshold=None), "k2": dataclasses.replace(SAMPLED, threshold=None),
    "k3 in the loss": Teaching(estimator="k3", threshold=None),
    "k1 as advantage": Teaching(estimator="k1", placement="advantage", threshold=None),
    "k1, ratio": Teaching(estimator="k1", placement="ratio", threshold=None),
    "k3, ratio": Teaching(estimator="k3", placement="ratio", threshold=None),
}  # fmt: skip
ARMS, BEST = (0.1, 0.4, 0.9), (-2.0, 0.0, 3.0)
"""Chances of success of the arms, and a teacher that knows the best one."""


@pytest.mark.parametrize("name", RL)
def test_reinforcement_learning_finds_the_best_arm(name):
    assert softmax(learned(RL[name], ARMS))[2] > 0.9


@pytest.mark.parametrize("won", [0.0, 1.0])
@pytest.mark.parametrize("name", RL)
def test_a_constant_reward_moves_nothing(name, won):
    np.testing.assert_array_equal(learned(RL[name], (won,) * 3, steps=5), (0.3, 0.0, -0.3))


@pytest.mark.parametrize("name", OPD)
def test_distillation_alone_ends_at_the_teacher(name):
    """All groups fail: there is no reward to learn from, and the teacher's term alone is left."""
    config = dataclasses.replace(PLAIN, teaching=OPD[name])
    found = softmax(learned(config, (0.0,) * 3, BEST, steps=80, rate=2.0))
    np.testing.assert_allclose(found, softmax(np.asarray(BEST)), atol=0.04)


@pytest.mark.parametrize("name", ["exact", "k2", "k3 in the loss", "k1 as advantage", "k3, ratio"])
def test_with_a_constant_reward_and_itself_as_the_teacher_nothing_moves(name):
    config = dataclasses.replace(PLAIN, teaching=OPD[name])
    np.testing.assert_allclose(learned(config, (0.0,) * 3, None, steps=5), (0.3, 0.0, -0.3), atol=1e-5)


@pytest.mark.parametrize("teaching", [Teaching(scale=0.3), dataclasses.replace(SAMPLED, scale=0.3), PAPER])
def test_reward_and_teacher_together_find_the_best_arm(teaching):
    """UI-MOPD, masked where the group's mean reward exceeds tau; its teacher is right about the best arm."""
    assert softmax(learned(dataclasses.replace(PLAIN, oversample=2, teaching=teaching), ARMS, BEST))[2] > 0.85
