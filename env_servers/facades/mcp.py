"""The tools of a session as a server of the Model Context Protocol: streamable HTTP at /v1/sessions/{id}/mcp.

In: `tools/list` and `tools/call` with the session's own token. Out: the tools that the session offers, and results
`{"success", "result", "error_message"}`, as structured content and as JSON text.

A call is a step like any other: it counts, it is validated, it stands in the episode's record, and it ends the episode
that has used all its steps. A tool that is not on offer, or arguments that do not fit, fail, count and change nothing.
The `_meta` of a call may hold `episode`, `step` (then a re-sent call gets the stored reply and is not carried out
again) and `response` (what the policy said); without a number a call is the next step. The `_meta` of a result says
`episode`, `step` (the next one), `terminated`, `truncated` and `state_hash`. What our protocol answers with a problem
is a JSON-RPC error here, with the problem's `code` and `outcome` as its data. Episodes are begun and scored over our
protocol.

The official SDK is loaded with the first request: most servers never need it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request, Response
from pydantic import ValidationError
from starlette.types import Receive, Scope, Send

from ..leases import Refusal, Session
from ..protocol.actions import FUNCTIONS
from ..protocol.messages import StepReply, StepRequest
from ..sessions import SessionStore, failed
from . import bearer

if TYPE_CHECKING:
    from mcp.server import Server
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

REFUSED = -32000  # JSON-RPC: errors of the application
RESULT_SCHEMA = {
    "type": "object",
    "properties": {
        "success": {"type": "boolean"},
        "result": {},
        "error_message": {"type": ["string", "null"]},
    },
    "required": ["success", "result", "error_message"],
}


def router() -> APIRouter:
    """The route, and the SDK's life: from the first request to the server's end."""
    facade = _Facade()
    made = APIRouter(tags=["mcp"], lifespan=facade.lifespan)

    async def serve(session_id: str, request: Request) -> Response:
        """The session's tools over MCP's streamable HTTP transport (JSON-RPC)."""
        store: SessionStore = request.app.state.store
        request.scope["gui_rl"] = store, store.get(session_id, bearer(request))
        return _Handled(await facade.manager())

    made.add_api_route(
        "/v1/sessions/{session_id}/mcp",
        serve,
        methods=["POST"],  # no session of the transport's own: nothing to listen to, nothing to delete
        response_class=Response,
        include_in_schema=False,  # its body is MCP's own matter
    )
    return made


class _Handled(Response):
    """A request that is answered by the SDK."""

    def __init__(self, manager: StreamableHTTPSessionManager) -> None:
        super().__init__()
        self._manager = manager

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._manager.handle_request(scope, receive, send)


class _Facade:
    """The SDK's session manager, made when it is first asked for; it keeps nothing between requests."""

    def __init__(self) -> None:
        self._started: asyncio.Future[StreamableHTTPSessionManager] | None = None
        self._task: asyncio.Task[None] | None = None

    @contextlib.asynccontextmanager
    async def lifespan(self, _: Any) -> AsyncIterator[None]:
        yield
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def manager(self) -> StreamableHTTPSessionManager:
        if self._started is None:
            self._started = asyncio.get_running_loop().create_future()
            self._task = asyncio.create_task(self._run(self._started))
        return await asyncio.shield(self._started)

    async def _run(self, started: asyncio.Future[StreamableHTTPSessionManager]) -> None:
        try:
            manager = await asyncio.to_thread(_make)
            async with manager.run():
                started.set_result(manager)
                await asyncio.Event().wait()
        except Exception as error:
            if started.done():
                raise
            self._started = None  # the next request tries again
            started.set_exception(error)


def _make() -> StreamableHTTPSessionManager:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    return StreamableHTTPSessionManager(_server(), json_response=True, stateless=True)


def _server() -> Server:
    from mcp import types
    from mcp.server import Server
    from mcp.shared.exceptions import MCPError

    async def list_tools(ctx: Any, _: Any) -> types.ListToolsResult:
        _, session = ctx.request.scope["gui_rl"]
        functions = (tool["function"] for tool in session.tools)
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=function["name"],
                    description=function["description"],
                    input_schema=function["parameters"],
                    output_schema=RESULT_SCHEMA,
                )
                for function in functions
            ]
        )

    async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        store, session = ctx.request.scope["gui_rl"]
        try:
            reply = await call(store, session, params.name, params.arguments or {}, dict(params.meta or {}))
        except ValidationError as error:
            where = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
            raise MCPError(types.INVALID_PARAMS, f"_meta: {where}", {"code": "invalid_request"}) from error
        except Refusal as refusal:
            data = {"code": refusal.code, "outcome": refusal.outcome}
            raise MCPError(REFUSED, refusal.detail, data) from refusal
        result = reply.tool_result or failed(f"{reply.error}: {params.name}")
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=json.dumps(result))],
            structured_content=result,
            is_error=not result["success"],
            _meta={
                "episode": reply.observation.episode,
                "step": reply.observation.step,
                "terminated": reply.terminated,
                "truncated": reply.truncated,
                "state_hash": reply.observation.state_hash,
            },
        )

    return Server("gui_rl environment", version="1", on_list_tools=list_tools, on_call_tool=call_tool)


async def call(
    store: SessionStore, session: Session, name: str, arguments: dict[str, Any], meta: dict[str, Any]
) -> StepReply:
    """One tool call as the step that `meta` names, else as the next one. Refusals: those of `SessionStore.step`, and
    not_a_tool (422) for the family's GUI function. ValidationError for a `meta` that makes no step."""
    if name == FUNCTIONS[session.device]:
        raise Refusal(422, "not_a_tool", f"{name} is no tool: send it as a step of its own")
    known = {key: meta[key] for key in ("episode", "step", "response") if key in meta}
    while "step" not in known and (running := [s.reply for s in session.sent.values() if not s.reply.done()]):
        await asyncio.wait(running)
    here = session.episode  # None: the store says so
    place = {"episode": here.number if here else 1, "step": len(here.steps) if here else 0}
    request = StepRequest.model_validate({**place, **known, "action": {"name": name, "arguments": arguments}})
    return await store.step(session, request)
