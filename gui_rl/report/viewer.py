"""`gui-rl view RUN`: a run's trajectories in a browser, or one of them as a file to be read alone.

In: runs/NAME/trajectories. Out: a page on loopback, behind a token that is in the address which is printed. The page
(assets/viewer.*) lists and filters episodes, steps through one, and shows its group's members side by side. What comes
from outside (instructions, responses, tool results) travels as JSON and is shown as text.
"""

from __future__ import annotations

import base64
import dataclasses
import hmac
import json
import math
import secrets
from pathlib import Path
from string import Template
from typing import Any

import tyro
from aiohttp import web

from gui_rl.data.schema import Episode, Turn
from gui_rl.data.trajectory_files import FOLDER, Entry, list_trajectories, read_trajectory
from gui_rl.errors import UserError
from gui_rl.prompt.tokenizer import Tokenizer
from gui_rl.report.trajectories import call_text, marks

_ASSETS = Path(__file__).parent / "assets"
_COOKIE = "gui_rl_view"
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; img-src 'self' data:; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


@dataclasses.dataclass(frozen=True)
class ViewOptions:
    """Look at the trajectories of a run.

    Attributes:
      run: the run's folder.
      port: on loopback; 0 takes a free one.
      tokenizer: vocabulary that the token ids belong to: a packaged name, a file or a folder.
      export: write this episode (its id, or its file's name) as one HTML file, and end.
      out: where the export goes; EPISODE.html where not given.
    """

    run: tyro.conf.Positional[Path]
    port: int = 8780
    tokenizer: str = "gui-tiny"
    export: str = ""
    out: Path | None = None


def main(options: ViewOptions) -> None:
    """Serves the page until Ctrl-C, or exports one episode. Raises UserError for a run without trajectories."""
    viewer = Viewer(options.run, Tokenizer.load(options.tokenizer))
    if options.export:
        entry = next((one for one in viewer.entries if options.export in (one.id, one.file)), None)
        if entry is None:
            raise UserError(f"{options.run} holds no episode {options.export!r}; the page lists them")
        out = options.out or Path(f"{entry.file}.html")
        out.write_text(viewer.export(entry.file), encoding="utf-8")
        print(out)
        return
    token = secrets.token_urlsafe(16)

    def said(*_: Any) -> None:
        print(f"{len(viewer.entries)} episodes of {options.run}; Ctrl-C ends", flush=True)

    try:
        sock = _listen(options.port)
    except OSError as error:
        raise UserError(f"port {options.port} cannot be used ({error.strerror}): choose another with --port") from None
    print(f"http://127.0.0.1:{sock.getsockname()[1]}/?token={token}", flush=True)
    web.run_app(viewer.app(token), sock=sock, print=said)


def _listen(port: int):
    import socket

    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", port))
    return sock


class Viewer:
    """A run's episodes, as the page asks for them."""

    def __init__(self, run: Path, tokenizer: Tokenizer):
        self.run, self.tokenizer = run, tokenizer
        self.entries: list[Entry] = list_trajectories(run)
        if not self.entries:
            raise UserError(f"{run} holds no trajectories: `gui-rl eval --keep` and runs of the quickstart store some")
        self._known = {entry.file for entry in self.entries}

    def app(self, token: str) -> web.Application:
        """The web application; every request needs the token, in the address once and as a cookie from then on."""

        @web.middleware
        async def guard(request: web.Request, handler):
            given = request.query.get("token")
            if given is not None and hmac.compare_digest(given, token):
                reply = web.Response(status=302, headers={"Location": "/"})
                reply.set_cookie(_COOKIE, token, httponly=True, samesite="Strict")
                return reply
            if not hmac.compare_digest(request.cookies.get(_COOKIE, ""), token):
                raise web.HTTPUnauthorized(text="open the address that `gui-rl view` printed")
            reply = await handler(request)
            reply.headers.update(_HEADERS)
            return reply

        app = web.Application(middlewares=[guard])
        app.router.add_get("/", self._page)
        app.router.add_get("/episodes", self._list)
        app.router.add_get("/episodes/{file}", self._episode)
        app.router.add_get("/episodes/{file}/export", self._export)
        app.router.add_get("/episodes/{file}/{step:\\d+|final}.png", self._picture)
        return app

    async def _page(self, _: web.Request) -> web.Response:
        return web.Response(text=page(self.run.resolve().name), content_type="text/html")

    async def _list(self, _: web.Request) -> web.Response:
        rows = [dataclasses.astuple(entry) for entry in self.entries]
        fields = [field.name for field in dataclasses.fields(Entry)]
        return web.json_response({"fields": fields, "rows": rows})

    async def _episode(self, request: web.Request) -> web.Response:
        return web.json_response(self.shown(self._read(request)))

    async def _export(self, request: web.Request) -> web.Response:
        file = request.match_info["file"]
        self._read(request)
        disposition = {"Content-Disposition": f'attachment; filename="{file}.html"'}
        return web.Response(text=self.export(file), content_type="text/html", headers=disposition)

    async def _picture(self, request: web.Request) -> web.Response:
        file, step = request.match_info["file"], request.match_info["step"]
        name = f"{file}-final.png" if step == "final" else f"{file}-{int(step):02}.png"
        path = self.run / FOLDER / name
        if file not in self._known or not path.is_file():
            raise web.HTTPNotFound(text=f"there is no picture {name}")
        return web.Response(body=path.read_bytes(), content_type="image/png", headers={"Cache-Control": "max-age=3600"})

    def _read(self, request: web.Request) -> Episode:
        file = request.match_info["file"]
        if file not in self._known:
            raise web.HTTPNotFound(text=f"there is no episode {file}")
        return read_trajectory(self.run, file)

    def shown(self, episode: Episode) -> dict[str, Any]:
        """What the page shows of an episode, without pictures."""
        width, height = episode.screen_size
        return {
            **dataclasses.asdict(Entry.of(episode)),
            "size": [width or 1, height or 1],
            "rewards": dict(episode.rewards),
            "checkpoints": list(episode.checkpoints),
            "final": episode.final_screenshot is not None,
            "turns": [self._turn(turn, width or 1, height or 1) for turn in episode.turns],
        }

    def _turn(self, turn: Turn, width: int, height: int) -> dict[str, Any]:
        return {
            "marks": marks(turn, width, height),
            "thought": turn.thought,
            "conclusion": turn.conclusion,
            "call": call_text(turn.action),
            "text": turn.text,
            "parse_error": turn.parse_error,
            "tool_result": turn.tool_result,
            "seconds": dict(turn.seconds),
            "policy_version": turn.policy_version,
            "tokens": [
                [self._piece(token), None if logp is None else round(math.exp(min(logp, 0.0)), 4)]
                for token, logp in zip(
                    turn.response_ids, turn.behaviour_logp or [None] * len(turn.response_ids), strict=True
                )
            ],
        }

    def _piece(self, token: int) -> str:
        try:
            return self.tokenizer.token_bytes(token).decode("utf-8", "replace")
        except (KeyError, IndexError, ValueError):  # of another vocabulary
            return f"[{token}]"

    def export(self, file: str) -> str:
        """One episode as a page that needs nothing beside it."""
        episode = read_trajectory(self.run, file)
        pictures = {str(turn.index): turn.screenshot for turn in episode.turns}
        if episode.final_screenshot is not None:
            pictures["final"] = episode.final_screenshot
        inside = self.shown(episode) | {
            "pictures": {
                step: f"data:image/png;base64,{base64.b64encode(data).decode('ascii')}"
                for step, data in pictures.items()
            }
        }
        return page(episode.id, inside)


def page(title: str, inside: dict[str, Any] | None = None) -> str:
    """The page; with one episode inside, or to be served."""
    data = json.dumps(inside).replace("<", "\\u003c")
    return Template((_ASSETS / "viewer.html").read_text(encoding="utf-8")).substitute(
        title=title.replace("&", "&amp;").replace("<", "&lt;"),
        style=(_ASSETS / "viewer.css").read_text(encoding="utf-8"),
        script=(_ASSETS / "viewer.js").read_text(encoding="utf-8"),
        data=data,
    )
