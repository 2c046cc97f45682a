"""Stored turns to training samples, and samples to the micro-batches of one step.

In: `Episode`s or stored turns. Out: a `Batch` `[A, B, ...]` of static shape. A turn is a sample: its stored prompt ids
are the trunk, its stored response ids the one branch; only the screenshots are decoded anew.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax
import numpy as np

from gui_rl.data.batch import Batch, split
from gui_rl.data.packing import Branch, PackingError, Sample, assign_rows, pack
from gui_rl.data.schema import Episode, Turn, TurnRecord
from gui_rl.model.config import ModelConfig
from gui_rl.prompt import literals
from gui_rl.prompt.context import ContextConfig, HistoryTurn
from gui_rl.prompt.images import as_seen, shared
from gui_rl.prompt.render import encode_response, render
from gui_rl.prompt.tokenizer import Tokenizer


@dataclasses.dataclass(frozen=True)
class BatchShape:
    """Static shape of a step's batch.

    Attributes:
      rows: rows of a micro-batch (B).
      row_length, row_patches: tokens and image patches in a row; both doubled as often as the longest sample needs it.
      micro_batches: micro-batches of a step (A); doubled as often as a step's samples need it: few shapes occur.
    """

    rows: int = 16
    row_length: int = 192
    row_patches: int = 160
    micro_batches: int = 2


def turn_sample(episode: Episode, index: int, **streams: np.ndarray | float) -> Sample:
    """The sample of one turn; `streams` are the per-token fields of its `Branch`, e.g. `ce_weight=1.0`."""
    turn = episode.turns[index]
    screens = tuple(episode.turns[number].screenshot for number in turn.image_turns)
    return record_sample(TurnRecord(episode, turn, screens), **streams)


def record_sample(record: TurnRecord, **streams: np.ndarray | float) -> Sample:
    """`turn_sample` of a turn that was read by itself."""
    turn, name = record.turn, f"{record.episode.id} turn {record.turn.index}"
    images = tuple(as_seen(*seen, name=name) for seen in zip(record.screens, turn.image_grids, strict=True))
    if not turn.response_ids:
        raise PackingError(f"sample {name}: it has no response ids; see gui_rl.data.samples.with_ids")
    return Sample(name, turn.prompt_ids, images, (Branch(turn.response_ids, **streams),))


def supervised(record: TurnRecord) -> Sample:
    """The sample of imitation: every response token with cross-entropy weight 1."""
    return record_sample(record, ce_weight=1.0)


def with_ids(episode: Episode, tokenizer: Tokenizer, context: ContextConfig) -> Episode:
    """The episode with prompt and response ids, made once here for what was recorded without a policy (R7).

    The thought becomes part of the response where the context is that of a thinking policy. A turn that has ids keeps
    them. Raises ValueError where a prompt is over the context's limit.
    """
    history: list[HistoryTurn] = []
    turns = []
    for turn in episode.turns:
        screen = shared(turn.screenshot, name=f"{episode.id} turn {turn.index}", max_pixels=context.max_pixels)
        text = turn.text
        if context.thinking and turn.thought is not None and literals.THOUGHT_END not in text:
            text = turn.thought + literals.THOUGHT_END + text
        if not turn.response_ids:
            prompt = render(
                tokenizer, context, episode.device_of(turn), episode.tools, episode.instruction, history, screen,
                sample_id=f"{episode.id} turn {turn.index}",
            )  # fmt: skip
            first = turn.index - len(prompt.images) + 1
            turn = dataclasses.replace(
                turn,
                text=text,
                prompt_ids=tuple(prompt.ids),
                image_grids=tuple(image.grid for image in prompt.images),
                image_turns=tuple(range(first, turn.index + 1)),
                response_ids=tuple(encode_response(tokenizer, text, context.thinking)),
            )
        turns.append(turn)
        history.append(HistoryTurn(screen, text, turn.response_ids, turn.conclusion or "", turn.tool_result))
    return dataclasses.replace(episode, turns=tuple(turns))


def family_batches(
    samples: Sequence[Sample], families: Sequence[str], names: Sequence[str], cfg: ModelConfig, shape: BatchShape
) -> Batch:
    """Micro-batches of each family by itself, one family after the other: `[len(names) * A, B, ...]`.

    Args:
      samples: of a step, at least one.
      families: of each sample.
      names: the families, in order; one without samples gets micro-batches of padding.
      cfg, shape: as for `micro_batches`; all families get the largest shape that one of them needs.
    """
    parts = [[s for s, family in zip(samples, families, strict=True) if family == name] for name in names]
    found = [micro_batches(part, cfg, shape) for part in parts if part]
    shape = dataclasses.replace(
        shape,
        row_length=max(batch.targets.shape[2] for batch in found),
        row_patches=max(batch.inputs.patches.shape[2] for batch in found),
        micro_batches=max(batch.targets.shape[0] for batch in found),
    )
    batches = [micro_batches(part, cfg, shape) if part else None for part in parts]
    padding = jax.tree.map(np.zeros_like, next(batch for batch in batches if batch is not None))
    whole = [padding if batch is None else batch for batch in batches]
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *whole)


def by_role(episode: Episode) -> list[Episode]:
    """The episode without its roles' calls, then an episode for each role that was called, turn by turn beside it.

    A role's turns hold what it was asked and said there; where it was not called, or what it said was of no use, the
    turn is no sample. Outcome, score and instruction are the episode's own, so that every role is rewarded by it.
    """
    own = [dataclasses.replace(turn, calls=()) for turn in episode.turns]
    episodes = [dataclasses.replace(episode, turns=tuple(own))]
    for role in dict.fromkeys(call.role for turn in episode.turns for call in turn.calls):
        turns = []
        for turn in episode.turns:
            call = next((call for call in turn.calls if call.role == role), None)
            made = Turn(turn.index, turn.screenshot, use=False)
            if call is not None:
                made = dataclasses.replace(
                    made, prompt_ids=call.prompt_ids, image_grids=call.image_grids, image_turns=call.image_turns,
                    response_ids=call.response_ids, behaviour_logp=call.behaviour_logp, text=call.text,
                    temperature=turn.temperature, policy_version=turn.policy_version, use=not call.failure,
                )  # fmt: skip
            turns.append(made)
        made_by = {**episode.made_by, "role": role}
        episodes.append(
            dataclasses.replace(episode, id=f"{episode.id}#{role}", turns=tuple(turns), made_by=made_by, tools=())
        )
    return episodes


def micro_batches(samples: Sequence[Sample], cfg: ModelConfig, shape: BatchShape) -> Batch:
    """Packs all samples of a step into `[A, B, ...]`; rows that stay empty have weight 0.

    Raises:
      PackingError: with the sample's id, for one that contradicts itself.
    """
    longest = max(sample.tokens for sample in samples)
    while longest > shape.row_length or max(sample.patches for sample in samples) > shape.row_patches:
        shape = dataclasses.replace(shape, row_length=2 * shape.row_length, row_patches=2 * shape.row_patches)
    needed = assign_rows(samples, shape.row_length, shape.row_patches).rows
    count = shape.micro_batches
    while count * shape.rows < needed:
        count *= 2
    batch = pack(
        samples, cfg.image_token_id, shape.row_length, shape.row_patches, rows=count * shape.rows,
        merge=cfg.vision.spatial_merge_size, side=cfg.vision.position_side, patch_dim=cfg.vision.patch_values,
    )  # fmt: skip
    return split(batch, count)
