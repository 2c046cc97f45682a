"""What a step costs, counted by hand: arithmetic and memory traffic, from parameter specs and the shapes of a batch.

In: a model config and a `Workload`. Out: FLOPs (a multiply-add is two) and bytes. Pure functions of integers; matrix
products and attention are counted, element-wise work is not. The compiler's own count is no use here, since it counts
the body of a scan over layers once.
"""

import math
from dataclasses import dataclass

import jax

from gui_rl.model.config import ModelConfig
from gui_rl.model.params import ParamSpec, is_spec, map_specs, param_specs

FORWARD, BACKWARD = 1, 2  # a matrix product's backward pass is two products of the same size
FLASH_BACKWARD = 2.5  # a tiled attention's: five products, of which the scores are made anew, against two


@dataclass(frozen=True)
class Workload:
    """Shapes of one step over all chips.

    Attributes:
      rows, length: rows and their tokens.
      patches: image patches a row.
      image_patches: patches of one image, which are all that a patch needs to see.
      tiled: attention in tiles (a kernel), which skips what lies after a query's tile.
    """

    rows: int
    length: int
    patches: int
    image_patches: int = 0
    tiled: bool = True

    @property
    def tokens(self) -> int:
        """Tokens of a step."""
        return self.rows * self.length


@dataclass(frozen=True)
class Flops:
    """FLOPs of one forward pass: products with weights, and attention (scores and mixing)."""

    decoder: float
    head: float
    vision: float
    attention: float
    vision_attention: float

    @property
    def weights(self) -> float:
        """Those of products with weights."""
        return self.decoder + self.head + self.vision

    @property
    def total(self) -> float:
        """All of them."""
        return self.weights + self.attention + self.vision_attention


def products(cfg: ModelConfig, work: Workload) -> dict[str, tuple[int, float, int]]:
    """For every matrix: (its inputs + outputs, times that it is applied in a forward pass, its weights used each time).

    Stacked matrices count once a layer; of a layer's experts, those count that a token is sent to. A tied embedding
    is the head; an untied one is a table, like the learned positions, and no product.
    """
    found = {}
    patches = work.rows * work.patches
    merged = patches // cfg.vision.merge_unit

    def visit(path: str, spec: ParamSpec) -> None:
        own = [size for size, axis in zip(spec.shape, spec.logical_axes, strict=True) if axis not in STACKED]
        table = path.startswith("vision/positions") or (path == "text/embed" and not cfg.tie_word_embeddings)
        if len(own) != 2 or table:
            return
        times = {"text": work.tokens, "vision": patches}[path.split("/")[0]]
        if path.startswith(("vision/merger", "vision/deepstack")):
            times = merged
        stack = math.prod(spec.shape) // math.prod(own)
        if "experts" in spec.logical_axes:
            stack = stack * cfg.text.num_experts_per_tok // cfg.text.num_experts
        found[path] = (sum(own), times * stack, math.prod(own))

    map_specs(visit, param_specs(cfg))
    return found


STACKED = ("layers", "experts")


def forward_flops(cfg: ModelConfig, work: Workload, *, needed: bool) -> Flops:
    """One forward pass.

    With `needed`, attention counts only pairs that see each other: half the square of a row, and each image by itself.
    Otherwise, what is executed: tiles skip the half after the diagonal, but not what lies in other segments.
    """
    text, vision = cfg.text, cfg.vision
    sums = {"decoder": 0.0, "head": 0.0, "vision": 0.0}
    for path, (_, times, weights) in products(cfg, work).items():
        part = "vision" if path.startswith("vision") else "decoder" if "layers" in path else "head"
        sums[part] += 2.0 * times * weights
    pairs = work.length**2 / 2 if needed or work.tiled else work.length**2
    seen = min(work.image_patches or work.patches, work.patches) if needed else work.patches
    per_pair = 4.0 * work.rows  # two products for scores and mixing, two FLOPs each
    return Flops(
        **sums,
        attention=per_pair * pairs * text.num_attention_heads * text.head_dim * text.num_hidden_layers,
        vision_attention=per_pair * work.patches * seen * vision.hidden_size * vision.depth,
    )


def recomputed(cfg: ModelConfig) -> tuple[float, float]:
    """Shares of the forward pass's (weight products, attention) that the backward pass computes again."""
    return {
        "False": (0.0, 0.0),
        "none": (0.0, 0.0),
        "dots": (0.0, 1.0),
        "attention": (1.0, 0.0),
    }.get(str(cfg.remat), (1.0, 1.0))


def train_flops(cfg: ModelConfig, work: Workload) -> tuple[float, float]:
    """(FLOPs that a train step needs: 3 forward passes; FLOPs that it executes: rematerialisation included).

    The head is always computed again, since its logits are never kept.
    """
    needed = 3 * forward_flops(cfg, work, needed=True).total
    once = forward_flops(cfg, work, needed=False)
    again_weights, again_attention = recomputed(cfg)
    weights = (once.decoder + once.vision) * (FORWARD + BACKWARD + again_weights) + once.head * 4
    backward = FLASH_BACKWARD if work.tiled else BACKWARD
    attention = (once.attention + once.vision_attention) * (FORWARD + backward + again_attention)
    return needed, weights + attention


def param_count(cfg: ModelConfig) -> int:
    """Parameters, tied ones once."""
    return sum(math.prod(spec.shape) for spec in jax.tree.leaves(param_specs(cfg), is_leaf=is_spec))


def train_traffic(cfg: ModelConfig, work: Workload, chips: int, tensor: int, state_bytes: float) -> float:
    """Bytes that one chip moves between its memory and its cores in a train step, under these assumptions:

    weights      each pass (forward, again, backward) writes the gathered 16-bit weights of a layer and reads them; the
                 gradient of each is written in 32 bits and read
    activations  every product reads its input and writes its output in 16 bits, in each of these passes and twice in
                 the backward one; element-wise work is fused into products
    head         32-bit logits are written and read four times each (loss, entropy, their gradients)
    state        parameters and moments are read and written once by the optimizer (`state_bytes` = its size on a chip)
    """
    again, _ = recomputed(cfg)
    passes = 2 + again
    weights = param_count(cfg) / tensor * (passes * 2 * 2 + 2 * 4)
    activations = sum(ends * times for ends, times, _ in products(cfg, work).values()) / chips * 2 * (passes + 1)
    logits = work.tokens * cfg.text.vocab_size / chips * 4 * 8
    return weights + activations + logits + 2 * state_bytes


def decode_flops(cfg: ModelConfig, rows: int, filled: int) -> float:
    """One token for each of `rows`, whose caches hold `filled` tokens."""
    once = forward_flops(cfg, Workload(rows, 1, 0), needed=True)
    text = cfg.text
    seen = 4.0 * rows * filled * text.num_attention_heads * text.head_dim * text.num_hidden_layers
    return once.decoder + once.head + seen


def cache_bytes(cfg: ModelConfig, rows: int, capacity: int, width: int = 2) -> int:
    """Keys and values of `rows` caches of `capacity` slots, `width` bytes a number."""
    text = cfg.text
    return 2 * width * rows * capacity * text.num_hidden_layers * text.num_key_value_heads * text.head_dim


@dataclass(frozen=True)
class Roofline:
    """Seconds of one step, if each resource alone were the limit; a step takes between the longest and their sum."""

    compute: float
    memory: float
    collectives: float

    @property
    def overlapped(self) -> float:
        """Everything hidden behind the slowest: no program is faster."""
        return max(self.compute, self.memory, self.collectives)

    @property
    def sequential(self) -> float:
        """Nothing hidden."""
        return self.compute + self.memory + self.collectives

    @property
    def bound(self) -> str:
        """What limits the step."""
        times = {"compute": self.compute, "memory": self.memory, "collectives": self.collectives}
        return max(times, key=times.get)
