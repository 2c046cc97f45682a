"""What `gui-rl compile` says: a table for people, figures for files, and sizes that would fit.

In: an `Outcome`. Out: text on the terminal, and JSON in the form of every benchmark: {name, revision, machine, options,
figures: [{what, value, unit}]}.
"""

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from gui_rl.errors import UserError
from gui_rl.report.manifest import as_json, git_revision, machine, package_versions
from gui_rl.scale.chips import GIB, sizes
from gui_rl.scale.compile import CompileOptions, Estimate, Outcome, run

ASSUMPTIONS = (
    "Roofline: FLOPs and memory traffic counted by hand, collective bytes read from the compiled program. "
    '"best" hides everything behind the slowest of the three, "worst" hides nothing; both run every unit at its peak.'
)


def main(options: CompileOptions) -> None:
    """The command. Raises `UserError` (exit code 2) where the task does not fit."""
    outcome = run(options)
    Console().print(table(outcome))
    print(ASSUMPTIONS)
    if options.out is not None:
        write(outcome, options.out)
    if not outcome.fits:
        raise UserError(refusal(outcome))


def table(outcome: Outcome) -> Table:
    """One column a program."""
    made, chip = outcome.plan, outcome.plan.topology.chip
    title = f"{made.options.model} · {made.options.task} · {made.topology.name} · {outcome.rows} x {made.options.seq}"
    out = Table(title=title)
    out.add_column("")
    columns = [values(outcome, estimate) for estimate in outcome.estimates]
    for estimate in outcome.estimates:
        out.add_column(estimate.measured.name, justify="right")
    for what, (_, unit) in columns[0].items():
        out.add_row(f"{what} [{unit}]" if unit else what, *(_short(column[what][0]) for column in columns))
    out.caption = f"{outcome.chip_bytes / GIB:.1f} of {chip.hbm_bytes / GIB:.0f} GiB a chip at the worst moment"
    return out


def values(outcome: Outcome, estimate: Estimate) -> dict[str, tuple[Any, str]]:
    """The figures of one program: what -> (value, unit)."""
    chip, chips, cores = outcome.plan.topology.chip, outcome.plan.topology.chips, outcome.cores
    measured, roofline = estimate.measured, estimate.roofline
    peak = chips * chip.peak_flops
    total = cores * estimate.device_bytes
    return {
        "memory": (total / GIB, "GiB/chip"),
        "of which state, arguments": (cores * (measured.arguments + estimate.resident_besides) / GIB, "GiB/chip"),
        "of which temporaries": (cores * measured.temporaries / GIB, "GiB/chip"),
        "headroom": ((chip.hbm_bytes - total) / GIB, "GiB/chip"),
        "FLOPs needed": (estimate.needed, "FLOP"),
        "FLOPs executed": (estimate.executed, "FLOP"),
        **{
            f"received, {kind}": (cores * size / 1e9, "GB/chip") for kind, size in sorted(_all_kinds(outcome, estimate))
        },
        "compute": (roofline.compute, "s"),
        "memory traffic": (roofline.memory, "s"),
        "collectives": (roofline.collectives, "s"),
        "time, best": (roofline.overlapped, "s"),
        "time, worst": (roofline.sequential, "s"),
        "bound by": (roofline.bound, ""),
        "MFU, best": (100 * estimate.needed / peak / roofline.overlapped, "%"),
        "MFU, worst": (100 * estimate.needed / peak / roofline.sequential, "%"),
        "loops not counted": (measured.uncounted_loops, ""),
        "time to compile here": (measured.seconds, "s"),
    }


def _all_kinds(outcome: Outcome, estimate: Estimate) -> list[tuple[str, float]]:
    kinds = {kind for one in outcome.estimates for kind in one.measured.collectives}
    return [(kind, estimate.measured.collectives.get(kind, 0.0)) for kind in kinds]


def document(outcome: Outcome) -> dict[str, Any]:
    """The JSON form."""
    options = outcome.plan.options
    figures = [
        {"what": f"{estimate.measured.name}: {what}", "value": value, "unit": unit}
        for estimate in outcome.estimates
        for what, (value, unit) in values(outcome, estimate).items()
    ]
    figures.append({"what": "rows of a micro-batch", "value": outcome.rows, "unit": ""})
    figures.append({"what": "fits", "value": outcome.fits, "unit": ""})
    return {
        "name": f"compile {options.model} {options.task} {options.topology}",
        "revision": git_revision(),
        "machine": machine() | {"versions": package_versions()},
        "options": as_json(options) | {"out": None},
        "figures": figures,
    }


def write(outcome: Outcome, path: Path) -> None:
    """Writes the figures."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document(outcome), indent=1) + "\n", encoding="utf-8")


def refusal(outcome: Outcome) -> str:
    """What is wrong and which sizes would fit (estimated: state shrinks with chips, the rest with tokens a chip)."""
    options, where = outcome.plan.options, outcome.plan.topology
    alternatives = [f"--topology {name}" for name in larger(outcome)] + [f"--seq {seq}" for seq in shorter(outcome)]
    advice = f"; by estimate these would fit: {' or '.join(alternatives)}" if alternatives else ""
    return (
        f"{options.model} {options.task} with {outcome.rows} rows of {options.seq} tokens needs "
        f"{outcome.chip_bytes / GIB:.1f} GiB a chip on {where.name}, which has {where.chip.hbm_bytes / GIB:.0f}"
        f"{advice or '; neither a larger slice nor a shorter row alone would do: split layers with --tensor'}"
    )


def larger(outcome: Outcome) -> list[str]:
    """The smallest larger slice that would fit, with one row for each way that rows are split."""
    where = outcome.plan.topology
    varying = _varying(outcome)
    for size in sizes(where.chip):
        if size.chips > where.chips and outcome.fixed * where.chips / size.chips + varying <= where.chip.hbm_bytes:
            return [size.name]
    return []


def shorter(outcome: Outcome) -> list[int]:
    """The longest rows, in steps of 1024 tokens, that would fit on this slice."""
    seq, room = outcome.plan.options.seq, outcome.plan.topology.chip.hbm_bytes - outcome.fixed
    if room <= 0:
        return []
    fitting = int(seq * room / max(_varying(outcome), 1.0)) // 1024 * 1024
    return [min(fitting, (seq - 1) // 1024 * 1024)] if fitting >= 1024 else []


def _varying(outcome: Outcome) -> float:
    """Bytes on a chip that grow with its tokens; where nothing was compiled, a layer's input for every token."""
    made = outcome.plan
    text, tokens = made.cfg.text, outcome.rows * made.options.seq / made.topology.chips
    least = 2.0 * tokens * text.hidden_size * text.num_hidden_layers
    return max(outcome.chip_bytes - outcome.fixed, least)


def _short(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.2e}" if value >= 1e5 else f"{value:.3g}" if abs(value) < 100 else f"{value:.1f}"
