"""How large a request may be: it is read before anybody's token is looked at."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .protocol.messages import Problem

MOST_BYTES = 4 * 2**20  # a step with 100,000 token ids has one


class TooLarge(Exception):
    """The body has passed the limit."""


class BodyLimit:
    """ASGI middleware: a body of more than `most` bytes is answered by 413, and not read to its end."""

    def __init__(self, app: ASGIApp, most: int = MOST_BYTES) -> None:
        self.app, self.most = app, most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, or answers that its body is too large."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        seen, begun, over = 0, False, False

        async def counted() -> Message:
            nonlocal seen, over
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self.most:
                over = True
                raise TooLarge
            return message

        async def sent(message: Message) -> None:
            nonlocal begun
            if not over:  # else it is what the app makes of `TooLarge`
                begun = True
                await send(message)

        declared = dict(scope["headers"]).get(b"content-length", b"0")
        over = declared.isdigit() and int(declared) > self.most
        if not over:
            try:
                await self.app(scope, counted, sent)
            except TooLarge:
                pass
        if over and not begun:
            detail = f"a request has at most {self.most} bytes"
            problem = Problem(title="Content Too Large", status=413, code="too_large", detail=detail)
            headers = [(b"content-type", b"application/problem+json"), (b"connection", b"close")]
            await send({"type": "http.response.start", "status": 413, "headers": headers})
            await send({"type": "http.response.body", "body": problem.model_dump_json(exclude_none=True).encode()})
