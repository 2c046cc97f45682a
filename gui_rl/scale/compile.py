"""`gui-rl compile`: will this task of this model fit that slice, and how fast could it be? Nothing runs there.

In: `CompileOptions`. Out: a table, a JSON file if one is named, and an exit code.
1. Names and sizes are checked (`plan`); mistakes end here, before anything is computed.
2. The task's programs are compiled for the described slice (`gui_rl.scale.aot`): memory and collectives are measured.
3. FLOPs and memory traffic are counted by hand (`gui_rl.scale.arithmetic`); with the chip's facts they give a roofline.
4. What does not fit is refused, with sizes that would (`gui_rl.scale.report`).
"""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax

from gui_rl.errors import UserError
from gui_rl.learn import optim
from gui_rl.learn.losses import PAPER_MOPD, LossConfig
from gui_rl.learn.state import make_mesh
from gui_rl.model.config import ModelConfig, preset
from gui_rl.model.layout import Layout
from gui_rl.model.params import ShardingRules
from gui_rl.scale import aot, arithmetic
from gui_rl.scale.arithmetic import Roofline, Workload
from gui_rl.scale.chips import Topology, topology

TASKS = ("sft", "rl", "sample")
OPTIMIZERS = ("adamw", "muon")
SCREENSHOT = 4000  # patches of one 1280x800 screenshot
SAMPLER_RULES = ShardingRules(embed=None, vision_embed=None, merge_in=None)
"""Sampling reads all weights for every token: they are split over `tensor` alone, and never gathered."""


@dataclass(frozen=True)
class CompileOptions:
    """Compile a task of a model for a slice of TPUs that is not there: memory, FLOPs, estimated step time.

    Attributes:
      model: a preset.
      topology: the slice, like v5p:4x4x4 or v6e:8x16.
      task: sft, rl (the same step with the policy-gradient stream; scoring by teachers), or sample (prefill, decoding).
      seq: tokens in a row.
      patches: image patches in a row; -1 takes 2 * seq, so that half of the tokens are visual.
      rows: rows of a micro-batch over all chips; 0 takes one for each way that rows are split (8 for sampling).
      accumulate: micro-batches of a step.
      replica: copies of the state.
      expert: ways that experts are split.
      tensor: ways that each layer is split; 0 takes 1, and for sampling the fewest that hold the weights.
      teachers: presets of frozen teachers, which stay on the same chips and score the batch.
      optimizer: adamw or muon.
      param_dtype: of the trained parameters; moments have it too.
      new_tokens: for sampling, room for the response in the cache.
      out: where to write the figures as JSON.
    """

    model: str = "qwen3-vl-8b"
    topology: str = "v5p:4x4x4"
    task: str = "sft"
    seq: int = 8192
    patches: int = -1
    rows: int = 0
    accumulate: int = 1
    replica: int = 1
    expert: int = 1
    tensor: int = 0
    teachers: tuple[str, ...] = ()
    optimizer: str = "adamw"
    param_dtype: str = "float32"
    new_tokens: int = 512
    out: Path | None = None


@dataclass(frozen=True)
class Plan:
    """Options that make sense together."""

    options: CompileOptions
    cfg: ModelConfig
    teachers: tuple[ModelConfig, ...]
    topology: Topology
    patches: int
    tensor: int


@dataclass(frozen=True)
class Estimate:
    """One program: what the compiler measured, what was counted, and the roofline of both.

    `needed` and `executed` are FLOPs over all chips, `traffic` bytes of one chip.
    """

    measured: aot.Measured
    needed: float
    executed: float
    roofline: Roofline
    resident_besides: float = 0.0  # bytes on a device of what other programs of the task keep there

    @property
    def device_bytes(self) -> float:
        """Memory of a device while this program runs, what stays there besides it included."""
        return self.measured.total + self.resident_besides


@dataclass(frozen=True)
class Outcome:
    """A plan and its programs. `fixed` and `varying` are bytes on a chip that do not, and that do, grow with its
    tokens: measured where the program compiled, else estimated."""

    plan: Plan
    rows: int
    cores: int  # devices that the compiler makes of a chip
    estimates: tuple[Estimate, ...]
    fixed: float

    @property
    def chip_bytes(self) -> float:
        """Memory of a chip under the largest of the task's programs."""
        return self.cores * max(estimate.device_bytes for estimate in self.estimates)

    @property
    def fits(self) -> bool:
        """Whether a chip has that much."""
        return self.chip_bytes <= self.plan.topology.chip.hbm_bytes


def plan(options: CompileOptions) -> Plan:
    """Checks the options. `UserError` names the option, its value and the choices."""
    cfg, where = preset(options.model), topology(options.topology)
    teachers = tuple(preset(name) for name in options.teachers)
    for name, choices in (("task", TASKS), ("optimizer", OPTIMIZERS), ("param_dtype", ("float32", "bfloat16"))):
        if getattr(options, name) not in choices:
            raise UserError(f'no {name} is called "{getattr(options, name)}": there are {", ".join(choices)}')
    if options.teachers and options.task != "rl":
        raise UserError(f"teachers score the batch of task rl, not of task {options.task}")
    for name in ("seq", "accumulate", "replica", "expert"):
        if getattr(options, name) < 1:
            raise UserError(f"{name} must be at least 1, not {getattr(options, name)}")
    patches = 2 * options.seq if options.patches < 0 else options.patches
    if patches % cfg.vision.merge_unit or patches // cfg.vision.merge_unit > options.seq:
        raise UserError(
            f"patches {patches} must be a multiple of {cfg.vision.merge_unit}, and their visual tokens must fit into "
            f"seq {options.seq}"
        )
    tensor = options.tensor or (_sampling_ways(cfg, where) if options.task == "sample" else 1)
    split = options.replica * options.expert * tensor
    if where.chips % split or cfg.text.num_key_value_heads % tensor:
        raise UserError(
            f"replica {options.replica} x expert {options.expert} x tensor {tensor} must divide the {where.chips} "
            f"chips of {where.name}, and tensor the {cfg.text.num_key_value_heads} key-value heads of {options.model}"
        )
    dtype = "bfloat16" if options.task == "sample" else options.param_dtype
    cfg = dataclasses.replace(cfg, dtype="bfloat16", param_dtype=dtype, scan_layers=True)
    return Plan(options, cfg, teachers, where, patches, tensor)


def run(options: CompileOptions) -> Outcome:
    """Compiles the programs of a plan. `UserError` for a bad plan, a missing compiler, or rows that do not divide."""
    made = plan(options)
    devices = aot.described_devices(made.topology)
    rules = SAMPLER_RULES if options.task == "sample" else ShardingRules()
    mesh = make_mesh(options.replica, -1, options.expert, made.tensor, devices)
    ways = Layout(mesh, rules).ways("batch")
    rows = options.rows or ways * (8 if options.task == "sample" else 1)
    if rows % ways:
        raise UserError(f"rows {rows} must be a multiple of {ways}, the ways that rows are split on {options.topology}")
    make = _sampling if options.task == "sample" else _training
    estimates, fixed = make(made, mesh, rules, rows)
    return Outcome(made, rows, len(devices) // made.topology.chips, tuple(estimates), fixed)


def _training(made: Plan, mesh: Any, rules: ShardingRules, rows: int) -> tuple[list[Estimate], float]:
    options, cfg, chip = made.options, made.cfg, made.topology.chip
    chips, devices = made.topology.chips, mesh.size
    optimizer = optim.adamw(1e-5) if options.optimizer == "adamw" else optim.muon(cfg, 1e-3, 1e-5)
    loss = PAPER_MOPD if options.teachers else LossConfig()
    batch = aot.batch_shapes(cfg, options.accumulate, rows, options.seq, made.patches)
    state = aot.resident_bytes(aot.placed_state(cfg, optimizer, mesh, rules))
    frozen = sum(aot.resident_bytes(aot.placed_params(teacher, mesh, rules)) for teacher in made.teachers)
    gradient = 4 * arithmetic.param_count(cfg) / devices * options.replica
    fixed = (state + frozen + gradient) * devices / chips
    work = Workload(rows * options.accumulate, options.seq, made.patches, SCREENSHOT)
    if fixed > chip.hbm_bytes:  # no need to compile
        step = aot.Measured("train step", exceeded=state + gradient)
    else:
        step = aot.train(cfg, loss, optimizer, mesh, rules, batch)
    needed, executed = arithmetic.train_flops(cfg, work)
    traffic = arithmetic.train_traffic(cfg, work, chips, made.tensor, state * devices / chips)
    estimates = [_estimate(made, step, needed, executed, traffic, devices, besides=frozen)]
    measured: dict[str, aot.Measured] = {}
    for name, teacher in zip(options.teachers, made.teachers, strict=True):
        own = aot.resident_bytes(aot.placed_params(teacher, mesh, rules))
        if name not in measured and not estimates[0].measured.exceeded:
            measured[name] = aot.score(f"score by {name}", teacher, mesh, rules, batch)
        program = measured.get(name, aot.Measured(f"score by {name}", exceeded=own))
        needed, executed = (arithmetic.forward_flops(teacher, work, needed=it).total for it in (True, False))
        traffic = 2 * 2 * arithmetic.param_count(teacher) / made.tensor
        besides = state + frozen - own
        estimates.append(_estimate(made, program, needed, executed, traffic, devices, besides=besides))
    return estimates, fixed


def _sampling(made: Plan, mesh: Any, rules: ShardingRules, rows: int) -> tuple[list[Estimate], float]:
    options, cfg = made.options, made.cfg
    chips, devices, capacity = made.topology.chips, mesh.size, options.seq + options.new_tokens
    inputs = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype),
        aot.batch_shapes(cfg, 1, rows, options.seq, made.patches).inputs,
    )
    weights = aot.resident_bytes(aot.placed_params(cfg, mesh, rules))
    work = Workload(rows, options.seq, made.patches, SCREENSHOT)
    needed, executed = (arithmetic.forward_flops(cfg, work, needed=it) for it in (True, False))
    first = aot.prefill(cfg, mesh, rules, inputs, capacity)
    estimates = [
        _estimate(made, first, needed.total - needed.head, executed.total - executed.head, 2 * weights, devices)
    ]
    flops = arithmetic.decode_flops(cfg, rows, options.seq)
    traffic = (weights * devices + arithmetic.cache_bytes(cfg, rows, capacity)) / chips
    step = aot.decode(cfg, mesh, rules, rows, capacity)
    return [*estimates, _estimate(made, step, flops, flops, traffic, devices)], weights * devices / chips


def _estimate(
    made: Plan,
    measured: aot.Measured,
    needed: float,
    executed: float,
    traffic: float,
    devices: int,
    besides: float = 0.0,
) -> Estimate:
    chip, chips = made.topology.chip, made.topology.chips
    received = sum(measured.collectives.values()) * devices / chips
    roofline = Roofline(
        compute=executed / chips / chip.peak_flops,
        memory=traffic / chip.hbm_bandwidth,
        collectives=received / chip.ici_bandwidth,
    )
    return Estimate(measured, needed, executed, roofline, besides)


def _sampling_ways(cfg: ModelConfig, where: Topology) -> int:
    """The fewest ways to split a layer so that 16-bit weights take at most half of a chip."""
    size = 2 * arithmetic.param_count(cfg)
    ways = [2**power for power in range(4) if cfg.text.num_key_value_heads % 2**power == 0]
    return next((way for way in ways if size / way <= where.chip.hbm_bytes / 2), ways[-1])
