"""All tables of the papers at tiny scale, in one lab; then the pages of the documentation.

gui-rl run tables                    every table, three training seeds; hours. What is there is not made again
gui-rl run tables --smoke            the whole path of every table with next to nothing
gui-rl run tables --only owl/figure8b open/interference
"""

from __future__ import annotations

import asyncio
import dataclasses
import importlib
import pkgutil
import traceback
from pathlib import Path

from experiments import pages, table
from experiments.lab import Lab
from gui_rl.errors import UserError

ROOMS = ("owl", "mopd", "toolcua", "open")


@dataclasses.dataclass(frozen=True)
class Config:
    """Which tables are run.

    Attributes:
      only: their names; all where none is named.
      seeds, smoke, name: as for one table.
    """

    only: tuple[str, ...] = ()
    seeds: int = 3
    smoke: bool = False
    name: str = "lab"


def tables() -> dict[str, table.Table]:
    """All tables by name, in the order of the rooms."""
    found: dict[str, table.Table] = {}
    for room in ROOMS:
        if importlib.util.find_spec(f"experiments.{room}") is None:
            continue
        package = importlib.import_module(f"experiments.{room}")
        for module in pkgutil.iter_modules(package.__path__, f"experiments.{room}."):
            one = getattr(importlib.import_module(module.name), "TABLE", None)
            if one is not None:
                found[one.name] = one
    return found


def main(config: Config = Config(), resume: bool = False) -> None:  # noqa: B008 - frozen
    """Runs the tables; one that fails is named at the end, and the others go on."""
    known = tables()
    if unknown := sorted(set(config.only) - set(known)):
        raise UserError(f"no table is called {', '.join(unknown)}: there are {', '.join(known)}")
    one = table.Config(seeds=config.seeds, smoke=config.smoke, name=config.name)
    sizes = table.SIZES["smoke" if config.smoke else "tiny"]
    failed: list[str] = []

    async def run() -> None:
        async with Lab(one.root) as lab:
            for name in config.only or known:
                try:
                    result = await known[name].run(lab, sizes, 1 if config.smoke else config.seeds)
                except Exception:
                    traceback.print_exc()
                    failed.append(name)
                    continue
                table.show(result)
                table.keep(result, one)

    asyncio.run(run())
    pages.write(one.root if config.smoke else table.RESULTS, Path("runs/tables") if config.smoke else pages.DOCS)
    if failed:
        raise UserError(f"these tables failed, see above: {', '.join(failed)}")
