"""Other protocols over the same sessions: MCP (`mcp.py`), OpenEnv (`openenv.py`), AndroidWorld (`androidworld.py`),
OSWorld (`osworld.py`).

Each gives a FastAPI router.
"""

from __future__ import annotations

from starlette.requests import HTTPConnection


def bearer(connection: HTTPConnection) -> str:
    """The bearer token of a request or a WebSocket handshake, "" where there is none."""
    scheme, _, token = connection.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
