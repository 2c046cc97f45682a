"""Malformed actions by the thousand at a live environment server: no 5xx, no hang, and every session still works.

python -m benchmarks.env_fuzz
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from benchmarks.record import Figure, write
from env_servers.protocol.actions import ACTIONS, ARGUMENTS, FUNCTIONS
from env_servers.server import RunningServer, ServerConfig, running_server

COUNT, SEED = 5_000, 0
TIMEOUT_S = 20.0  # a reply that takes longer is a hang
SESSIONS = (
    {"task": "orders/star", "tools": True},
    {"task": "files/move", "tools": True, "distractors": 3},
    {"task": "shop/checkout", "tools": True, "marks": True},
    {"task": "shop/set", "disturb": ["popup", "slider"]},
    {"suite": "miniwob", "task": "miniwob/enter-text"},
)
STRANGE_TEXTS = (
    "", " ", "\x00", "\ud800", "\udfff\ud800", "\u202e\u0000", "a" * 20_000, "<img src=x onerror=alert(1)>", "${1+1}",
    "'; DROP TABLE x; --", "<|im_end|>", "../../../../etc/passwd", "file:///etc/passwd", "javascript:alert(1)",
    "💥" * 50, "\r\n\r\n", "ctrl+", "__proto__", "constructor", "null", "-0", "1e400", "٣", "²",
)  # fmt: skip
STRANGE_NUMBERS = (-1, 1001, 2**31, 2**63, -(2**70), 10**400, 0.5, 1e308, float("nan"), float("inf"), -0.0)


def value(rng: random.Random, depth: int = 0) -> Any:
    """Any JSON value, the strange ones first."""
    kind = rng.randrange(7 if depth < 3 else 5)
    match kind:
        case 0:
            return rng.choice(STRANGE_TEXTS)
        case 1:
            return rng.choice(STRANGE_NUMBERS)
        case 2:
            return rng.choice((None, True, False))
        case 3:
            return rng.randrange(1001)
        case 4:
            return "".join(chr(rng.randrange(0x20, 0x300)) for _ in range(rng.randrange(8)))
        case 5:
            return [value(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {str(value(rng, 3)): value(rng, depth + 1) for _ in range(rng.randrange(4))}


def _fitting(rng: random.Random, device: str, name: str) -> Any:
    """A value that an argument of this name may have."""
    argument = ARGUMENTS[device][name]
    match argument.kind:
        case "coordinate":
            return [rng.randrange(1001), rng.randrange(1001)]
        case "enum":
            return rng.choice(argument.choices)
        case "keys":
            return [rng.choice(("ctrl", "a", "F12", "enter", "alt", "tab", "Q", "²"))]
        case "label":
            return rng.randrange(9)
        case "number" | "seconds":
            return rng.choice((0, 0.01, 120))
    return rng.choice(STRANGE_TEXTS)


def action(rng: random.Random, device: str, tools: list[dict[str, Any]]) -> Any:
    """A call with something wrong in it, mostly: a valid one of which parts are replaced, left out or added."""
    if tools and rng.random() < 0.3:
        function = rng.choice(tools)["function"]
        name, arguments = function["name"], {key: value(rng) for key in function["parameters"]["properties"]}
    else:
        spec = rng.choice(ACTIONS[device])
        name = FUNCTIONS[device]
        arguments = {"action": spec.name} | {key: _fitting(rng, device, key) for key in spec.order}
    for key in list(arguments):
        if key != "action" and rng.random() < 0.3:
            arguments[key] = value(rng)
        elif rng.random() < 0.1:
            del arguments[key]
    if rng.random() < 0.2:
        arguments[str(value(rng, 3))] = value(rng)
    if "time" in arguments and isinstance(arguments["time"], float | int) and arguments["time"] > 0.01:
        arguments["time"] = 0.01  # a wait that is granted is no hang
    if rng.random() < 0.05:
        return value(rng)
    return {"name": name if rng.random() < 0.95 else value(rng), "arguments": arguments}


def body(rng: random.Random, device: str, tools: list[dict[str, Any]], episode: int, step: int) -> bytes:
    """The body of a step: often well-formed around a malformed call, sometimes not even JSON."""
    request: Any = {"episode": episode, "step": step, "action": action(rng, device, tools)}
    if rng.random() < 0.1:
        request[rng.choice(("episode", "step", "action", "parse_error", "response", "x"))] = value(rng)
    if rng.random() < 0.05:
        request["response"] = {"text": rng.choice(STRANGE_TEXTS), "token_ids": [rng.choice(STRANGE_NUMBERS)]}
    if rng.random() < 0.03:
        request = value(rng)
    text = json.dumps(request).encode()
    match rng.randrange(50):
        case 0:
            return text[: rng.randrange(len(text) + 1)]
        case 1:
            return b"\xff\xfe" + text
        case 2:
            return b"[" * 50_000
        case 3:
            return b'{"episode":1,"step":0,"action":{"name":"x","arguments":' + b'{"a":' * 3_000 + b"1" + b"}" * 3_002
        case 4:
            return text.replace(b"1", b"1" * 5_000, 1)
        case 5:
            return bytes(rng.randrange(256) for _ in range(rng.randrange(60)))
    return text


@dataclass
class Found:
    """What came back. bad: the requests that got a 5xx or nothing."""

    statuses: Counter[int] = field(default_factory=Counter)
    bad: list[str] = field(default_factory=list)
    slowest_s: float = 0.0


async def fuzz(server: RunningServer, count: int, seed: int = SEED, sessions: int = len(SESSIONS)) -> Found:
    """`count` malformed actions, spread over `sessions` sessions that play at the same time."""
    found = Found()
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
    async with aiohttp.ClientSession(server.url, timeout=timeout) as http:
        shares = [count // sessions + (k < count % sessions) for k in range(sessions)]
        players = (_play(http, server.token, found, k, share, seed) for k, share in enumerate(shares))
        await asyncio.gather(*players)
    return found


async def _play(http: aiohttp.ClientSession, token: str, found: Found, number: int, share: int, seed: int) -> None:
    rng = random.Random(f"{seed}:{number}")
    wanted = {"seed": number, **SESSIONS[number % len(SESSIONS)]}
    async with http.post("/v1/sessions", json=wanted, headers={"Authorization": f"Bearer {token}"}) as reply:
        assert reply.status == 201, await reply.text()
        (lease,) = await reply.json()
    path, headers = f"/v1/sessions/{lease['session']}", {"Authorization": f"Bearer {lease['token']}"}
    json_headers = {**headers, "Content-Type": "application/json"}

    async def ask(method: str, what: str, data: bytes | None = None) -> tuple[int, bytes]:
        started = time.perf_counter()
        try:
            async with http.request(method, path + what, data=data, headers=json_headers if data else headers) as reply:
                status, content = reply.status, await reply.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            status, content = 0, repr(error).encode()
        found.slowest_s = max(found.slowest_s, time.perf_counter() - started)
        if status == 0 or status >= 500:
            found.bad.append(f"{method} {what} {data[:300] if data else ''!r} -> {status} {content[:300]!r}")
        return status, content

    episode, step = 0, 0
    for _ in range(share):
        if not episode:
            _, content = await ask("POST", "/reset")
            episode, step = json.loads(content)["episode"], 0
        status, content = await ask("POST", "/step", body(rng, lease["device"], lease["tools"], episode, step))
        found.statuses[status] += 1
        step += status == 200
        if status == 200 and (json.loads(content)["terminated"] or json.loads(content)["truncated"]) or status == 409:
            for method, what in (("POST", "/evaluate"), ("GET", "/episode"), ("GET", "/screenshot")):
                await ask(method, what)
            episode = 0
    for method, what in (("POST", "/reset"), ("GET", "/episode"), ("POST", "/evaluate"), ("DELETE", "")):
        await ask(method, what)


def main() -> None:
    """Throws `COUNT` actions; writes results/env_fuzz.json."""
    with running_server(ServerConfig(port=0)) as server:
        found = asyncio.run(fuzz(server, COUNT, sessions=2 * len(SESSIONS)))
    print(*found.bad[:20], sep="\n")
    note = ", ".join(f"{status}: {times}" for status, times in sorted(found.statuses.items()))
    write(
        "env_fuzz",
        [
            Figure("malformed actions answered by 5xx or not at all", len(found.bad), f"of {COUNT}", note=note),
            Figure("slowest answer", found.slowest_s, "s"),
        ],
    )


if __name__ == "__main__":
    main()
