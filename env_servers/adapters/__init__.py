"""Worlds that other programs run, each as a suite beside our own.

In: `KIND=URL[,URL...][?OPTION=VALUE&...]`, as `gui-rl env serve --suite` takes it; KIND names a module here. Out: a
suite called KIND. Each URL is a slot: a world has one screen, so a server of it plays one episode at a time.
A module gives `async connect(location)`, see `world.World`; options are its own.
"""

from __future__ import annotations

import asyncio
import importlib
from typing import TYPE_CHECKING

from env_servers.errors import UserError

from ..screens import ScreenError, ScreenLost
from ..suites import SUITES
from ..suites.suite import WorldKind
from .world import Location, WorldScreen

if TYPE_CHECKING:
    from .world import World

KINDS = ("androidworld", "mobileworld", "openenv", "osworld")


def register(located: str) -> World:
    """Connect to a world and list its suite; raises UserError for an unknown kind or a world that does not answer."""
    location = Location.parse(located)
    if location.kind not in KINDS:
        raise UserError(f"--suite {located}: there is no adapter {location.kind!r}, but: {', '.join(KINDS)}")
    connect = importlib.import_module(f".{location.kind}", __package__).connect
    try:
        world = asyncio.run(connect(location))
    except (ScreenLost, ScreenError, KeyError, TypeError) as error:
        raise UserError(f"{location.kind} does not answer as its server does ({error}); see docs/worlds.md") from error
    SUITES[location.kind] = world
    return world


class Worlds:
    """The screens of all registered worlds: a `screens.Source`."""

    launches = 0

    async def start(self) -> None:
        """Nothing: worlds are connected to by `register`."""

    async def stop(self) -> None:
        """Nothing: a session gives its screen back itself."""

    async def lease(self, kind: WorldKind) -> WorldScreen:
        """A screen of the kind's world; raises ScreenLost."""
        return await SUITES[kind.world].lease(kind)

    async def release(self, screen: WorldScreen) -> None:
        """Tear down what the screen's episode has set up, and free its slot."""
        await SUITES[screen.kind.world].release(screen)
