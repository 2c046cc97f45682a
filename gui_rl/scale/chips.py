"""The chips that programs are compiled for, and names of topologies.

In: a name like "v5p:4x4x4". Out: `Topology`, with the facts of its chip. Facts are Google's published ones, read in
November 2026; `source` says where.
"""

import math
import re
from dataclasses import dataclass

from gui_rl.errors import UserError

DOCS = "https://docs.cloud.google.com/tpu/docs/"


@dataclass(frozen=True)
class Chip:
    """One chip.

    Attributes:
      name: the generation.
      hbm_bytes: capacity of its memory, bytes.
      peak_flops: bfloat16 multiply-adds count as two, per second.
      hbm_bandwidth: bytes per second.
      ici_bandwidth: bytes per second that the chip can receive over all its links together (and send at once).
      dimensions: of the torus that slices are cut from.
      largest: most chips in a slice.
      source: page of these facts.
    """

    name: str
    hbm_bytes: float
    peak_flops: float
    hbm_bandwidth: float
    ici_bandwidth: float
    dimensions: int
    largest: int
    source: str


GIB = 2**30
CHIPS = {
    chip.name: chip
    for chip in (
        # 6 links of 50 GB/s each way (Jouppi et al. 2023, arXiv 2304.01433)
        Chip("v4", 32 * GIB, 275e12, 1.2e12, 300e9, 3, 4096, DOCS + "v4"),
        # 400 GB/s both ways together
        Chip("v5e", 16 * GIB, 197e12, 819e9, 200e9, 2, 256, DOCS + "v5e"),
        # 4,800 Gbit/s; "95 GB", of which the compiler gives programs 95.74 GiB
        Chip("v5p", 95 * GIB, 459e12, 2765e9, 600e9, 3, 6144, DOCS + "v5p"),
        # 800 GB/s both ways together
        Chip("v6e", 32 * GIB, 918e12, 1638e9, 400e9, 2, 256, DOCS + "v6e"),
    )
}


@dataclass(frozen=True)
class Topology:
    """A slice: so many chips of one generation in a box."""

    chip: Chip
    shape: tuple[int, ...]

    @property
    def chips(self) -> int:
        """Number of chips."""
        return math.prod(self.shape)

    @property
    def name(self) -> str:
        """As it is written on the command line, like v5p:4x4x4."""
        return f"{self.chip.name}:{'x'.join(map(str, self.shape))}"


def topology(name: str) -> Topology:
    """The topology called `name`; `UserError` says what names look like and which chips there are."""
    match = re.fullmatch(r"(\w+):(\d+(?:x\d+)*)", name)
    if not match or match[1] not in CHIPS:
        raise UserError(
            f'no topology is called "{name}": write CHIP:SHAPE like v5p:4x4x4 or v6e:8x16, where CHIP is one of '
            f"{', '.join(CHIPS)}"
        )
    chip, shape = CHIPS[match[1]], tuple(int(size) for size in match[2].split("x"))
    wanted = "AxBxC" if chip.dimensions == 3 else "AxB"
    if len(shape) != chip.dimensions:
        raise UserError(f'topology "{name}": shapes of {chip.name} are {wanted}, like {sizes(chip)[3].name}')
    # A host has 2x2 chips; along the third dimension any number of hosts.
    if any(size < 1 or size % 2 for size in shape[:2]) or min(shape) < 1 or math.prod(shape) > chip.largest:
        raise UserError(
            f'topology "{name}" has {math.prod(shape)} chips: a slice of {chip.name} is {wanted} with even A and B, at '
            f"most {chip.largest} chips, like {', '.join(size.name for size in sizes(chip))}"
        )
    return Topology(chip, shape)


def sizes(chip: Chip) -> list[Topology]:
    """Slices of a chip that double in size, from one host up: each as near to a cube (square) as it can be."""
    shape, found = [2, 2, 1] if chip.dimensions == 3 else [2, 2], []
    while math.prod(shape) <= chip.largest:
        found.append(Topology(chip, tuple(sorted(shape)) if min(shape) > 1 else tuple(shape)))
        shape[shape.index(min(shape))] *= 2
    return found
