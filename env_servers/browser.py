"""Real Chromium pages: one browser process, a pool of pages for every kind of page, screenshots through CDP.

In: page kinds (HTML, size in css px, touch or mouse) and state JSON. Out: `Screen`s that are leased to one user at a
time; a screen loads a state, takes real input (see `inputs.py`) and gives back its state JSON and its pixels.

A page is loaded once; afterwards only its state is replaced (`window.app.load`), unless its kind asks for a fresh
document each time. Pages of one size share a browser context (fixed viewport, device pixel ratio 1, reduced motion, no
network). Each has a window of its own, since pages behind others in one are drawn once a second. A page is replaced
after `RECYCLE_AFTER` leases. No page is used whose browser has died: the next lease starts a new one.

Settled means: `window.app.settled()`, where a page has it, has resolved (the pages of the virtual suite change
synchronously and need none), and Chromium has drawn a frame of the document as it is then, which taking a picture does.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
from collections.abc import Awaitable, Mapping
from typing import Any, TypeVar

from playwright.async_api import Browser as Chromium
from playwright.async_api import BrowserContext, CDPSession, Page, Playwright, async_playwright
from playwright.async_api import Error as PlaywrightError

from . import orphans
from .errors import UserError
from .inputs import OFF_SCREEN, perform
from .screens import ScreenError, ScreenLost, View, png_size
from .suites.suite import PageKind

__all__ = ["Browser", "BrowserLost", "PageError", "PageKind", "Screen", "View", "find_chromium", "png_size"]

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--disable-checker-imaging",  # images are decoded before they are drawn: equal states give equal pixels
    "--disable-partial-raster",  # a frame is drawn whole, whatever frames came before it
    "--disable-background-networking",
    "--disable-domain-reliability",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--font-render-hinting=none",
    # The address bar's lists, two hidden pages in every window (13 MB and a quarter of a second of work each time); and
    # all that Playwright turns off, since the last switch of this name is the one that counts.
    "--disable-features=WebUIOmniboxPopup,WebUIOmniboxFullPopup,WebUIOmniboxAimPopup,"
    "AvoidUnnecessaryBeforeUnloadCheckSync,DestroyProfileOnBrowserClose,HttpsUpgrades,HttpsFirstBalancedModeAutoEnable,"
    "LensOverlay,MediaRouter,PaintHolding,ThirdPartyStoragePartitioning,AvoidCorsURLLoaderRestartOnRedirect,"
    "TcpPortRandomizationWin,OptimizationHints,NetworkTimeServiceQuerying,AimEnabled,PreconnectToSearch,"
    "msForceBrowserSignIn,msEdgeUpdateLaunchServicesPreferredVersion",
)
RECYCLE_AFTER = 500  # leases of one page
COLLECT_AFTER = (
    10  # leases of a page, its garbage is collected: by itself Chromium waits until a page has twice the memory
)
IDLE_PAGES = 128  # kept of all kinds together: those used last
PAGE_TIMEOUT_S = 30.0  # of one exchange with a page: a page that takes longer is lost
OPEN_S, CLOSE_S = 30.0, 15.0  # for a page to open or close, which the browser's own process does: else it is killed

T = TypeVar("T")


class BrowserLost(ScreenLost):
    """The page, its renderer or the whole browser has died, or does not reply."""


class PageError(ScreenError):
    """The page's own code threw."""


def find_chromium() -> str:
    """The browser's executable: $GUI_RL_CHROMIUM, else the first of `NAMES` on PATH; UserError when there is none."""
    named = os.environ.get("GUI_RL_CHROMIUM")
    for name in [named] if named else NAMES:
        if path := shutil.which(name):
            return path
    if named:
        raise UserError(f"GUI_RL_CHROMIUM names {named!r}, which cannot be run: correct or unset it")
    raise UserError(
        "no Chromium was found: `apt-get install chromium`, or name one with GUI_RL_CHROMIUM=/path/to/chromium"
    )


_STATE = "async function () { if (this.app.settled) await this.app.settled(); return JSON.stringify(this.app.state()) }"
_RESET = """function (state) {
  document.activeElement?.blur(); getSelection()?.removeAllRanges(); scrollTo(0, 0); return this.app.load(state);
}"""
# A frame round each box and its number in the corner, outside the body and deaf to input, for one picture only.
_MARK = """function (boxes) {
  const layer = document.createElement("div");
  layer.id = "marks";
  layer.style.cssText = "position: fixed; inset: 0; z-index: 2147483647; pointer-events: none; overflow: hidden";
  boxes.forEach(([x0, y0, x1, y1], k) => {
    const colour = ["#b91c1c", "#1d4ed8", "#15803d", "#7e22ce", "#b45309", "#0f766e"][k % 6];
    const frame = document.createElement("div");
    frame.style.cssText = `position: absolute; box-sizing: border-box; border: 1px solid ${colour}; left: ${x0}px; ` +
      `top: ${y0}px; width: ${x1 - x0}px; height: ${y1 - y0}px`;
    const tag = document.createElement("div");
    tag.textContent = k + 1;
    tag.style.cssText = `position: absolute; left: 0; top: 0; padding: 0 1px; background: ${colour}; color: #ffffff; ` +
      "font: bold 9px/10px 'DejaVu Sans', sans-serif";
    frame.append(tag);
    layer.append(frame);
  });
  document.documentElement.append(layer);
}"""
_UNMARK = "function () { document.getElementById('marks').remove() }"


class Screen:
    """One page on lease. Methods raise BrowserLost when the browser is gone, PageError when the page's code throws."""

    def __init__(
        self, kind: PageKind, page: Page, cdp: CDPSession, browser: Chromium, timeout_s: float = PAGE_TIMEOUT_S
    ) -> None:
        self.kind, self.page, self.browser, self.timeout_s, self.leases = kind, page, browser, timeout_s, 0
        self.pointer: tuple[int, int] = OFF_SCREEN
        self.touched_at = 0.0  # event time of the last touch, seconds since the epoch
        self.usable = True
        self.marks: list[dict[str, Any]] = []  # of the last view, label 1 first
        self._cdp, self._window, self._loads = cdp, "", 0
        self._deadline: asyncio.Timeout | None = None
        page.on("crash", self._crashed)

    def _crashed(self, _: Page) -> None:
        """The page's renderer has died: whoever waits for it need wait no longer."""
        self.usable = False
        if self._deadline is not None and not self._deadline.expired():
            with contextlib.suppress(RuntimeError):  # nobody is waiting
                self._deadline.reschedule(asyncio.get_running_loop().time())

    async def open(self) -> None:
        """Load the document anew: nothing is left of what was done on it."""
        kind = self.kind
        await self.exchange(self.page.goto(kind.url) if kind.url else self.page.set_content(kind.html))
        if kind.after:
            await self.send("Runtime.evaluate", expression=kind.after)
        self._window = (await self.send("Runtime.evaluate", expression="globalThis"))["result"]["objectId"]
        self._loads = 0

    async def exchange(self, work: Awaitable[T]) -> T:
        """Await one or several messages to the page; a lost browser and a lost reply are BrowserLost."""
        try:
            async with asyncio.timeout(self.timeout_s if self.usable else 0) as self._deadline:
                return await work
        except TimeoutError:
            reason = f"did not reply within {self.timeout_s:g} s" if self.usable else "has crashed"
            self.usable = False
            raise BrowserLost(f"the page {self.kind.name!r} {reason}") from None
        except PlaywrightError as error:
            self.usable = False
            raise BrowserLost(str(error).splitlines()[0]) from error

    async def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One message of the Chrome DevTools protocol."""
        return await self.exchange(self._cdp.send(method, parameters))

    async def send_all(self, *messages: tuple[str, dict[str, Any]]) -> None:
        """Several messages, handled by the browser in this order, without waiting for each reply in between."""
        await self.exchange(asyncio.gather(*(self._cdp.send(method, parameters) for method, parameters in messages)))

    async def call(self, function: str, *arguments: Any) -> Any:
        """Call a JavaScript function with `this` = window; arguments travel as data, never as source (R5)."""
        reply = await self.send(
            "Runtime.callFunctionOn",
            functionDeclaration=function,
            objectId=self._window,
            arguments=[{"value": argument} for argument in arguments],
            awaitPromise=True,
            returnByValue=True,
        )
        if thrown := reply.get("exceptionDetails"):
            described = thrown.get("exception", {}).get("description") or thrown.get("text", "unknown error")
            raise PageError(f"{self.kind.name}: {described.splitlines()[0]}")
        return reply["result"].get("value")

    async def load(self, state: Mapping[str, Any]) -> None:
        """Show `state`: pointer off the screen, nothing focused or selected, scrolled to the top."""
        if self.kind.reload and self._loads:
            await self.open()
        self._loads += 1
        if not self.kind.touch:
            await self.send("Input.dispatchMouseEvent", type="mouseMoved", x=OFF_SCREEN[0], y=OFF_SCREEN[1])
        self.pointer = OFF_SCREEN
        await self.call(_RESET, state)

    async def state(self) -> dict[str, Any]:
        """The state JSON, once the page says that it is settled (`window.app.settled`, where it has one)."""
        return json.loads(await self.call(_STATE))

    async def view(self, marks: bool = False) -> View:
        """State and pixels, with numbered marks if asked. Taking the picture makes Chromium draw a frame of the present
        document first."""
        state = await self.state()
        self.marks = await self.elements() if marks else []
        if marks:
            await self.call(_MARK, [element["box"] for element in self.marks])
        shot = (await self.send("Page.captureScreenshot", format="png", optimizeForSpeed=True))["data"]
        if marks:
            await self.call(_UNMARK)
        return View(shot, *png_size(shot), state, self.marks)

    async def elements(self) -> list[dict[str, Any]]:
        """Visible interactive elements as the page reports them: {"name", "box": [x0, y0, x1, y1]} in css px."""
        return await self.call("function () { return this.app.elements() }")

    async def perform(self, device: str, arguments: Mapping[str, Any]) -> None:
        """Carry out one valid GUI call; see `inputs.perform`."""
        await perform(self, device, arguments)

    async def tool(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Result of a tool of the app: {"success", "result", "error_message"}."""
        return await self.call("function (name, args) { return this.app.tool(name, args) }", name, arguments)


class Browser:
    """One Chromium and its pages. `async with Browser() as browser: screen = await browser.lease(kind)`."""

    def __init__(self, executable: str | None = None, timeout_s: float = PAGE_TIMEOUT_S) -> None:
        self.executable, self.timeout_s = executable or find_chromium(), timeout_s
        self.launches = 0
        self._playwright: Playwright | None = None
        self._chromium: Chromium | None = None
        self._process: orphans.Labelled | None = None
        self._contexts: dict[tuple[int, int, bool], tuple[BrowserContext, str]] = {}  # with Chromium's own id
        self._idle: list[Screen] = []  # the one used last at the end
        self._starting, self._opening, self._windows = asyncio.Lock(), asyncio.Semaphore(4), asyncio.Lock()

    async def __aenter__(self) -> Browser:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def alive(self) -> bool:
        """Whether Chromium runs and answers."""
        return self._chromium is not None and self._chromium.is_connected()

    async def start(self) -> None:
        """Launch Chromium unless it runs; reaps what a killed owner left. Raises UserError if it cannot start."""
        async with self._starting:
            if self.alive:
                return
            await self._discard()
            orphans.reap()
            self._playwright = await async_playwright().start()
            label = orphans.new_label()
            flags = [*FLAGS, label, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
            try:
                self._chromium = await self._playwright.chromium.launch(
                    executable_path=self.executable,
                    args=flags,
                    handle_sigint=False,
                    handle_sigterm=False,
                    handle_sighup=False,
                )
            except PlaywrightError as error:
                await self._discard()
                reason = str(error).strip().splitlines()[0]
                raise UserError(f"{self.executable} does not start ({reason}); try it with --headless") from error
            self._process = orphans.find(label)
            self.launches += 1

    async def stop(self) -> None:
        """Close every page and the browser. A second call does nothing."""
        async with self._starting:
            await self._discard()

    async def _discard(self) -> None:
        self._idle.clear()
        self._contexts.clear()
        chromium, playwright, self._chromium, self._playwright = self._chromium, self._playwright, None, None
        for closing in (chromium and chromium.close(), playwright and playwright.stop()):
            if closing:
                with contextlib.suppress(Exception):  # what is dead already cannot be closed
                    await asyncio.wait_for(closing, 10)
        if self._process is not None:  # closed in good order it is gone by now, and so is its profile
            leftover, self._process = self._process, None
            if orphans.find(leftover.label):
                leftover.end()
            orphans.remove(leftover.profile)

    async def lease(self, kind: PageKind) -> Screen:
        """A screen of this kind for one user, until `release`. Raises BrowserLost if the browser dies meanwhile."""
        await self.start()
        while screen := next((idle for idle in reversed(self._idle) if idle.kind == kind), None):
            self._idle.remove(screen)
            if screen.usable and screen.browser is self._chromium and not screen.page.is_closed():
                break
        else:
            async with self._opening:
                screen = await self._open(kind)
        screen.leases += 1
        return screen

    async def _open(self, kind: PageKind) -> Screen:
        chromium = self._chromium
        if chromium is None:
            raise BrowserLost("the browser has been stopped")
        try:
            async with asyncio.timeout(OPEN_S):
                page = await self._window(chromium, kind)
                if kind.before:
                    await page.add_init_script(kind.before)
                screen = Screen(kind, page, await page.context.new_cdp_session(page), chromium, self.timeout_s)
                await screen.open()
        except TimeoutError:
            self._kill()
            raise BrowserLost(f"no page {kind.name!r} within {OPEN_S:g} s") from None
        except PlaywrightError as error:
            raise BrowserLost(str(error).splitlines()[0]) from error
        return screen

    async def _window(self, chromium: Chromium, kind: PageKind) -> Page:
        """An empty page in a window of its own. One at a time: a context says only that it has a new page."""
        shape = (kind.width, kind.height, kind.touch)
        async with self._windows:
            if shape in self._contexts:
                context, known = self._contexts[shape]
                session = await chromium.new_browser_cdp_session()
                where = {"url": "about:blank", "newWindow": True, "browserContextId": known}
                async with context.expect_page() as opened:
                    await session.send("Target.createTarget", where)
                await session.detach()
                return await opened.value
            context = await chromium.new_context(
                viewport={"width": kind.width, "height": kind.height},
                device_scale_factor=1,
                has_touch=kind.touch,
                reduced_motion="reduce",
                locale="en-US",
                timezone_id="UTC",
                color_scheme="light",
                service_workers="block",
                offline=True,
            )
            page = await context.new_page()
            session = await context.new_cdp_session(page)  # left open: its end would take `offline` along
            target = (await session.send("Target.getTargetInfo"))["targetInfo"]
            self._contexts[shape] = context, target["browserContextId"]
            return page

    async def release(self, screen: Screen) -> None:
        """Give a screen back; a used-up or broken one is closed."""
        if not screen.browser.is_connected():
            return
        if screen.usable and screen.leases % COLLECT_AFTER == 0:
            with contextlib.suppress(ScreenLost):
                await screen.send("HeapProfiler.collectGarbage")
        if screen.usable and screen.leases < RECYCLE_AFTER:
            self._idle.append(screen)
            if len(self._idle) <= IDLE_PAGES:
                return
            screen = self._idle.pop(0)
        try:
            await asyncio.wait_for(screen.page.close(), CLOSE_S)
        except PlaywrightError:
            pass  # it has gone by itself
        except TimeoutError:
            if screen.browser is self._chromium:
                self._kill()

    def _kill(self) -> None:
        """End a browser that does not answer; the next lease starts a new one."""
        if self._process is not None:
            self._process.end()
