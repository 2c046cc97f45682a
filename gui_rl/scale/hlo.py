"""What a compiled program sends between chips, read from its HLO text.

In: the text of an optimised, partitioned program. Out: bytes that one device receives, by kind of collective. Loops
count as often as they turn: the compiler's own cost analysis counts a loop's body once.
"""

import math
import re
from collections import defaultdict
from dataclasses import dataclass, field

KINDS = ("all-gather", "all-reduce", "reduce-scatter", "all-to-all", "ragged-all-to-all", "collective-permute")
BYTES = {"pred": 1, "bf16": 2}  # the other types' names end in their bits

NO_CALLS = {"reduce", "sort", "scatter", "map", "reduce-window", "select-and-scatter", "async-update", "async-done"}

_HEADER = re.compile(r"^(ENTRY )?%?([\w.-]+) \(.*\{$")
_INSTRUCTION = re.compile(r"^\s+(ROOT )?%?([\w.-]+) = (.*)$")
_OPERATION = re.compile(r"(?<=[\])} ])([a-z][a-z0-9-]*)\(")
_ARRAY = re.compile(r"\b([a-z]\w*)\[([\d,]*)\]")
_CALLED = re.compile(r"(?:calls|to_apply|body|condition|true_computation|false_computation)=%?([\w.-]+)")
_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
_MESH_GROUPS = re.compile(r"replica_groups=mesh\[([^\]]*)\] \{([^}]*)\}")
_IOTA_GROUPS = re.compile(r"replica_groups=\[(\d+),(\d+)\]")
_LISTED_GROUPS = re.compile(r"replica_groups=\{\{([\d,]*)\}")


@dataclass
class _Computation:
    sent: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    calls: list[tuple[str, str]] = field(default_factory=list)  # (how, name of the called computation)
    loops: list[tuple[str, str, int]] = field(default_factory=list)  # (body, condition, turns if it is written there)
    choices: list[list[str]] = field(default_factory=list)
    constants: dict[str, int] = field(default_factory=dict)
    root: str = ""
    scatters: bool = False  # an all-reduce of which a device keeps one part


def collective_bytes(text: str) -> tuple[dict[str, float], int]:
    """Bytes that a device receives in one run of the program, by kind of collective.

    With n devices in a group, the ring algorithms receive: all-gather (n-1)/n of the result, reduce-scatter (n-1)/n of
    the operand, all-reduce twice that, all-to-all (n-1)/n of it, a permutation all of it. Of the sides of a conditional
    the one that sends more counts.

    Returns:
      (bytes by kind, number of loops whose turns could not be read; those are counted once).
    """
    computations, entry = _parse(text)
    unknown = 0
    totals: dict[str, dict[str, float]] = {}

    def total(name: str) -> dict[str, float]:
        nonlocal unknown
        if name in totals or name not in computations:
            return totals.get(name, {})
        computation = computations[name]
        found = defaultdict(float, computation.sent)
        for called in computation.calls:
            _add(found, total(called[1]), 1)
        for sides in computation.choices:
            _add(found, max(map(total, sides), key=lambda side: sum(side.values())), 1)
        for body, condition, turns in computation.loops:
            turns = turns or _turns(computations.get(condition))
            inside = total(body)
            unknown += turns is None and bool(inside)
            _add(found, inside, turns or 1)
        totals[name] = found
        return found

    return {kind: size for kind, size in total(entry).items() if size}, unknown


def _add(found: dict[str, float], more: dict[str, float], times: int) -> None:
    for kind, size in more.items():
        found[kind] += times * size


def _parse(text: str) -> tuple[dict[str, _Computation], str]:
    computations, entry, current = {}, "", _Computation()
    for line in text.splitlines():
        if header := _HEADER.match(line):
            # The TPU compiler writes a reduce-scatter as a fusion of an all-reduce and a slice, under this name.
            current = computations[header[2]] = _Computation(scatters=header[2].startswith("all-reduce-scatter"))
            entry = header[2] if header[1] else entry
        elif instruction := _INSTRUCTION.match(line):
            _read(current, instruction[2], instruction[3], is_root=bool(instruction[1]))
    return computations, entry


def _read(computation: _Computation, name: str, rest: str, is_root: bool) -> None:
    operation = _OPERATION.search(" " + rest)
    if not operation:
        return
    kind, result = operation[1], (" " + rest)[: operation.start()]
    rest = (" " + rest)[operation.start() :]
    if is_root:
        computation.root = rest
    if kind == "constant" and (value := re.match(r"constant\((\d+)\)", rest)):
        computation.constants[name] = int(value[1])
    elif kind == "while":
        body = re.search(r"body=%?([\w.-]+)", rest)
        condition = re.search(r"condition=%?([\w.-]+)", rest)
        written = re.search(r'known_trip_count":\{"n":"(\d+)"', rest)
        computation.loops.append((body[1], condition[1], int(written[1]) if written else 0))
    elif kind == "conditional":
        sides = _BRANCHES.search(rest)
        names = sides[1].replace("%", "").split(", ") if sides else _CALLED.findall(rest)
        computation.choices.append(names)
    elif kind.removesuffix("-start") in KINDS:
        started, kind = kind.endswith("-start"), kind.removesuffix("-start")
        sizes, group = _sizes(result), _group(rest)
        if kind == "all-reduce" and computation.scatters:
            kind, sizes = "reduce-scatter", [size / max(group, 1) for size in sizes]
        computation.sent[kind] += received(kind, sizes, group, started)
    elif kind not in NO_CALLS:
        computation.calls += [(kind, called) for called in _CALLED.findall(rest)]


def received(kind: str, sizes: list[float], group: int, started: bool = False) -> float:
    """Bytes that one device receives, from the sizes of the arrays in the collective's result.

    Several arrays may travel together. An asynchronous start (of a gather or a permutation) gives its operands first,
    and then as many results. A group of 0 stands for unknown, and is taken as large.
    """
    share = 1 - 1 / group if group else 1.0
    if started and kind in ("all-gather", "collective-permute"):
        sizes = sizes[len(sizes) // 2 :]
    moved = sum(sizes)
    if kind == "collective-permute":
        return moved
    if kind == "reduce-scatter":  # a result is one part of its operand
        return share * moved * max(group, 1)
    return share * moved * (2 if kind == "all-reduce" else 1)


def _sizes(result: str) -> list[float]:
    """Bytes of the arrays in a result; of a tuple's scalars, which are a start's flags, none."""
    sizes, tuple_ = [], result.count("[") > 1
    for kind, shape in _ARRAY.findall(result):
        if tuple_ and not shape:
            continue
        bits = re.search(r"(\d+)", kind)
        if kind in BYTES or bits:
            width = BYTES.get(kind) or int(bits[1]) / 8
            sizes.append(width * math.prod(int(size) for size in shape.split(",") if size))
    return sizes


def _group(rest: str) -> int:
    """Devices in a collective's group; 0 where it is not written."""
    if mesh := _MESH_GROUPS.search(rest):
        axes = dict(re.findall(r"'([^']+)'=(\d+)", mesh[1]))
        return math.prod(int(axes[name]) for name in re.findall(r"'([^']+)'", mesh[2]) if name in axes)
    if iota := _IOTA_GROUPS.search(rest):
        return int(iota[2])
    if listed := _LISTED_GROUPS.search(rest):
        return listed[1].count(",") + 1
    return 0


def _turns(condition: _Computation | None) -> int | None:
    """How often a loop turns that counts from 0 in ones while the counter is below a constant."""
    if condition is None or "direction=LT" not in condition.root:
        return None
    named = [
        condition.constants[name] for name in re.findall(r"%([\w.-]+)", condition.root) if name in condition.constants
    ]
    return named[0] if len(named) == 1 else None
