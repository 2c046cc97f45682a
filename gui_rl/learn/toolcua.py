"""ToolCUA's three stages (2605.12481, sections 2.3 and 2.4), as fillings of the one batch.

In: D_all and D_critical (`flywheel.interleave`, `flywheel.plans.critical`), or the episodes of a pool. Out: samples
with advantages, rewards by component, and what to log.
1. Warm-up is supervised fine-tuning on D_all (`learn.sft`): nothing of its own is needed.
2. Single-turn RL on D_critical: at every stored step where GUI and tools meet, a group of responses is sampled; each is
   rewarded for deciding as the trajectory did (GUI or tool) and for the action itself; A = (r - mean) / std. No
   environment is needed: the states are those that were recorded.
3. Online RL: R = R_fmt + R_acc + lambda R_tool + beta R_length (`path_rewards`), the reward "path" of `learn.mrpo`.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from env_servers.protocol.actions import FUNCTIONS
from gui_rl.data.packing import Sample
from gui_rl.data.samples import BatchShape, micro_batches, record_sample
from gui_rl.data.schema import Episode, Turn, TurnRecord
from gui_rl.learn import checkpoint
from gui_rl.learn.advantages import group_advantages
from gui_rl.learn.rewards import LengthForm, tool_efficient_path
from gui_rl.learn.state import TrainState
from gui_rl.learn.step import TrainStep, place
from gui_rl.model.config import ModelConfig
from gui_rl.prompt.images import as_seen
from gui_rl.prompt.parse import parse_response
from gui_rl.prompt.render import Prompt, check_placeholders, decode_response
from gui_rl.prompt.tokenizer import Tokenizer
from gui_rl.rollout.sampler import Completion, Sampler, SamplingParams


# --- single-turn RL on critical steps -------------------------------------------------------------------------------
@dataclasses.dataclass(frozen=True)
class SwitchConfig:
    """Settings of single-turn RL. The paper states the group (32), the batch (128), the learning rate (1e-6), and that
    the reward is for the decision and the action; how they are weighed is not stated: that is ours.

    Attributes:
      steps: optimisation steps.
      group: responses sampled at a critical step.
      batch: critical steps an optimisation step.
      decision: reward of deciding between GUI and tool as the trajectory did; 1 - `decision` is the action's.
      reach: how far from a recorded point (on the 0-1000 grid) a click may be where the target's box is unknown.
      std_floor: least standard deviation to divide by.
      thinking: responses begin with the reasoning (`ContextConfig.thinking`).
      sampling: temperature and length of a response.
      checkpoint_every: steps between checkpoints; one is always made at the end.
      seed: of the order of the critical steps and of the draws.
      shape: rows of a micro-batch.
    """

    steps: int = 40
    group: int = 32
    batch: int = 128
    decision: float = 0.5
    reach: float = 140.0
    std_floor: float = 1e-2
    thinking: bool = False
    sampling: SamplingParams = SamplingParams()
    checkpoint_every: int = 10
    seed: int = 0
    shape: BatchShape = BatchShape()


def action_match(said: Mapping[str, Any], wanted: Turn, reach: float = 140.0) -> float:
    """How far an action agrees with a turn's, in [0, 1].

    A tool: half for its name, half for the share of its arguments (of either call) that are equal. A GUI action: 0 for
    another action; a point agrees inside the target's box, or, where that is unknown, within `reach` of the recorded
    one; texts agree up to case and outer spaces; the score is the share of the arguments that agree.
    """
    name, arguments = said["name"], said["arguments"]
    other = wanted.action["arguments"]
    if name != wanted.action["name"] or arguments.get("action") != other.get("action"):
        return 0.0
    names = sorted((arguments.keys() | other.keys()) - {"action"})
    agreeing = [
        _agree(key, arguments.get(key), other.get(key), wanted.target_box if key == "coordinate" else None, reach)
        for key in names
    ]
    share = sum(agreeing) / len(agreeing) if agreeing else 1.0
    return share if name in FUNCTIONS.values() else 0.5 + 0.5 * share


def _agree(name: str, said: Any, wanted: Any, box: Sequence[float] | None, reach: float) -> bool:
    if said is None or wanted is None:
        return False
    if name.startswith("coordinate"):
        if box is not None:
            return box[0] <= said[0] <= box[2] and box[1] <= said[1] <= box[3]
        return math.dist(said, wanted) <= reach
    if isinstance(said, str) and isinstance(wanted, str):
        return said.strip().casefold() == wanted.strip().casefold()
    return said == wanted


def switch_reward(said: Mapping[str, Any] | None, wanted: Turn, config: SwitchConfig) -> float:
    """Reward of a response at a critical step, in [0, 1]: 0 without a valid call or with the other decision.

    Args:
      said: the response's action; None where it held no valid call.
      wanted: the stored turn.
      config: settings.
    """
    if said is None or (said["name"] in FUNCTIONS.values()) != (wanted.action["name"] in FUNCTIONS.values()):
        return 0.0
    return config.decision + (1 - config.decision) * action_match(said, wanted, config.reach)


def stored_prompt(record: TurnRecord, image_id: int) -> Prompt:
    """The prompt of a stored turn, to be answered again; its ids are the stored ones (R7).

    Raises ValueError where the ids and the images contradict each other.
    """
    name = f"{record.episode.id} turn {record.turn.index}"
    images = [as_seen(*seen, name=name) for seen in zip(record.screens, record.turn.image_grids, strict=True)]
    ids = list(record.turn.prompt_ids)
    check_placeholders(ids, images, image_id, name)
    places = np.flatnonzero(np.asarray(ids) == image_id)
    ends = np.cumsum([image.tokens for image in images], dtype=int)
    spans = [
        (int(places[end - image.tokens]), int(places[end - 1]) + 1) for image, end in zip(images, ends, strict=True)
    ]
    return Prompt(ids, images, spans, 0)


class Answered(NamedTuple):
    """What was made of a step's responses: samples (none of constant groups) and what to log."""

    samples: list[Sample]
    metrics: dict[str, float]


def fill_switches(
    records: Sequence[TurnRecord],
    completions: Sequence[Sequence[Completion]],
    tokenizer: Tokenizer,
    config: SwitchConfig,
) -> Answered:
    """Advantages and samples of groups of responses, one group a critical step: a pure function.

    `A = (r - mean) / max(std, floor)` within a group; a group of equal rewards says nothing and gives no sample.
    """
    samples: list[Sample] = []
    rewards: list[float] = []
    right = valid = constant = 0
    for record, group in zip(records, completions, strict=True):
        wanted, device = record.turn, record.episode.device_of(record.turn)
        mine = []
        for completion in group:
            text = decode_response(tokenizer, completion.token_ids)
            call = parse_response(text, device, record.episode.tools, config.thinking).call
            said = None if call is None else {"name": call.name, "arguments": dict(call.arguments)}
            mine.append(switch_reward(said, wanted, config))
            valid += said is not None
            right += mine[-1] >= config.decision > 0
        rewards += mine
        found = group_advantages(mine, normalise=True, std_floor=config.std_floor)
        constant += found.constant
        if found.constant:
            continue
        for completion, advantage in zip(group, found.per_trajectory, strict=True):
            answer = dataclasses.replace(wanted, response_ids=tuple(completion.token_ids))
            logp = np.asarray(completion.logprobs, np.float32)
            samples.append(
                record_sample(
                    record._replace(turn=answer), pg_weight=1.0, advantage=float(advantage), behaviour_logp=logp
                )
            )
    count = max(len(rewards), 1)
    metrics = {
        "reward": float(np.mean(rewards)) if rewards else 0.0, "decision_right": right / count,
        "valid_calls": valid / count, "groups": float(len(records)), "groups_constant": float(constant),
    }  # fmt: skip
    return Answered(samples, metrics)


async def train_switches(
    state: TrainState,
    step: TrainStep,
    sampler: Sampler,
    tokenizer: Tokenizer,
    turns: Sequence[TurnRecord],
    cfg: ModelConfig,
    config: SwitchConfig,
    mesh: Any,
    directory: Path,
    report: Callable[[int, Mapping[str, float]], Awaitable[None]],
    policy: Callable[[Any], Any] = lambda trained: trained,
) -> TrainState:
    """Single-turn RL from the state's step to `config.steps`; which steps come when is a function of the seed.

    Args:
      state: the policy; donated to the steps.
      step: from `make_train_step`.
      sampler: gets new weights after every step.
      tokenizer: the policy's.
      turns: D_critical, e.g. a `data.pipeline.TurnSource` of a store of `critical` episodes.
      cfg, config, mesh: the policy's configuration, settings, devices.
      directory: of the checkpoints.
      report: awaited after every step with its number, from 1, and its metrics.
      policy: the sampler's weights from the state's (`lora.merge`).
    Raises:
      ValueError: for an empty D_critical.
    """
    if not len(turns):
        raise ValueError("D_critical is empty: no trajectory changes between GUI and tools")
    await sampler.update_weights(policy(state.params), int(state.step))
    with checkpoint.Checkpoints(directory) as checkpoints:
        for number in range(int(state.step), config.steps):
            drawn = [turns[index] for index in _drawn(len(turns), config, number)]
            prompts = [stored_prompt(record, tokenizer.image_id) for record in drawn]
            draws = np.random.default_rng([config.seed, number]).integers(2**31, size=len(drawn) * config.group)
            every = [prompt for prompt in prompts for _ in range(config.group)]
            done = await sampler.sample(every, config.sampling, draws.tolist())
            groups = [done[k : k + config.group] for k in range(0, len(done), config.group)]
            filled = fill_switches(drawn, groups, tokenizer, config)
            metrics = dict(filled.metrics)
            if filled.samples:
                state, measured = step(state, place(micro_batches(filled.samples, cfg, config.shape), mesh))
                metrics |= {name: float(value) for name, value in measured.items()}
            else:  # every group was constant: the step passes without an update
                state = state.replace(step=state.step + 1)
            await sampler.update_weights(policy(state.params), number + 1)
            await report(number + 1, metrics)
            if number + 1 == config.steps or (number + 1) % config.checkpoint_every == 0:
                checkpoints.save(state, {})
    return state


def _drawn(count: int, config: SwitchConfig, number: int) -> list[int]:
    """The critical steps of optimisation step `number`: all of them once, in a new order, before any comes again."""
    places = range(number * config.batch, (number + 1) * config.batch)
    orders = {p // count: np.random.default_rng([config.seed, 1, p // count]).permutation(count) for p in places}
    return [int(orders[place // count][place % count]) for place in places]


# --- online RL: the tool-efficient path reward ------------------------------------------------------------------------
@dataclasses.dataclass(frozen=True)
class PathConfig:
    """Settings of R = R_fmt + R_acc + lambda R_tool + beta R_length (section 2.4).

    Attributes:
      tool_weight, length_weight: lambda and beta. Both 0: the arm that sees accuracy alone (`ACCURACY`).
      max_steps: S_max; where a trajectory is longer, its length takes its place.
      length: form of R_length; see `rewards.LENGTHS`.
      effective: a call counts for R_tool only if it succeeded and either changed the state or returned something. The
        paper counts every call, so that an idle one earns the reward too.
    """

    tool_weight: float = 0.4
    length_weight: float = 0.2
    max_steps: int = 30
    length: LengthForm = "paper"
    effective: bool = False


ACCURACY = PathConfig(tool_weight=0.0, length_weight=0.0)
"""The arm without the path reward (figure 6)."""


class ToolCalls(NamedTuple):
    """Tool calls of a trajectory: all; those that failed; those that changed no state; those that did neither anything
    nor returned anything. What the last step changed is not recorded: it counts as a change."""

    all: int
    failed: int
    unchanged: int
    idle: int


def tool_calls(episode: Episode) -> ToolCalls:
    """Counts the tool calls of a trajectory. A turn without a state hash (an import) counts as one that changed it."""
    counts = np.zeros(4, int)
    for turn, after in zip(episode.turns, [*episode.turns[1:], None], strict=True):
        if turn.action is None or turn.action["name"] in FUNCTIONS.values():
            continue
        result = _result(turn)
        failed = not result.get("success", False)
        unchanged = bool(turn.state_hash) and after is not None and after.state_hash == turn.state_hash
        counts += [1, failed, unchanged, failed or (unchanged and result.get("result") is None)]
    return ToolCalls(*map(int, counts))


def _result(turn: Turn) -> Mapping[str, Any]:
    try:
        value = json.loads(turn.tool_result or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, Mapping) else {}


def path_rewards(
    episodes: Sequence[Episode],
    tool_beneficial: int,
    config: PathConfig = PathConfig(),  # noqa: B008 - frozen
    parse_penalty: float = 0.3,
) -> list[dict[str, float]]:
    """The reward by component of every trajectory of one group: `outcome` (R_acc), `format` (R_fmt), `tool`
    (lambda R_tool), `length` (beta R_length). Their sum is R. A pure function.

    Args:
      episodes: all scored trajectories of the group, whose mean length R_length compares with: the pool, before a
        subsample is drawn from it.
      tool_beneficial: +1 where tools help on this task, -1 where they do not.
      config: settings.
      parse_penalty: R_fmt is minus this, once a trajectory, where a response held no valid call; the paper's value is
        not stated.
    Raises:
      ValueError: for a benefit that is not +1 or -1.
    """
    if not episodes:
        return []
    steps = [len(episode.turns) for episode in episodes]
    counted = [tool_calls(episode) for episode in episodes]
    calls = [found.all - found.idle if config.effective else found.all for found in counted]
    parts = tool_efficient_path(
        [episode.success for episode in episodes], steps, calls, tool_beneficial, max(config.max_steps, max(steps)),
        form=config.length,
    )  # fmt: skip
    return [
        {
            "outcome": part.accuracy,
            "format": -parse_penalty * any(turn.parse_error for turn in episode.turns),
            "tool": config.tool_weight * part.tool,
            "length": config.length_weight * part.length,
        }
        for part, episode in zip(parts, episodes, strict=True)
    ]


def tool_metrics(
    episodes: Sequence[Episode], rewards: Sequence[Mapping[str, float]], tool_beneficial: Sequence[int]
) -> dict[str, float]:
    """TIR (`tool_invocation_rate`: successes that used tools exactly where they help), and the guard against useless
    calls: the share of the tool calls that failed, that changed no state, and that did nothing at all; of all calls,
    and of those in trajectories whose `tool` reward is positive (`rewarded`).

    A task where tools do not help rewards their absence: its trajectories have no such calls.

    Args:
      episodes, rewards, tool_beneficial: of every trajectory, its reward by component, and its task's benefit.
    """
    counted = [tool_calls(episode) for episode in episodes]
    rewarded = [found for found, parts in zip(counted, rewards, strict=True) if parts["tool"] > 0]
    fitting = [
        episode.success and (found.all > 0) == (benefit > 0)
        for episode, found, benefit in zip(episodes, counted, tool_beneficial, strict=True)
    ]
    count = max(len(counted), 1)
    metrics = {
        "tool_invocation_rate": sum(fitting) / count,
        "tool_calls_an_episode": sum(found.all for found in counted) / count,
    }
    for name, these in (("tool_calls", counted), ("tool_calls_rewarded", rewarded)):
        total = sum(found.all for found in these)
        metrics[name] = float(total)
        for kind in ("failed", "unchanged", "idle"):
            metrics[f"{name}_{kind}"] = sum(getattr(found, kind) for found in these) / max(total, 1)
    return metrics
