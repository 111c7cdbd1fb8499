"""What the gateway kit costs a call: CPU of this process, with it and without, of a stream of 200 pieces for a prompt of some
2,000 characters.

The application and its engine are stand-ins in memory, so that nothing but the kit and httpx is in the numbers; sockets, the
server and the engine's work come on top of both sides.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
from opentelemetry.sdk.trace import TracerProvider

from bench import Bench, Measured
from llmvitals.instrument import Gateway, Middleware

PATH = "/v1/chat/completions"
PIECES = [b'data: {"choices": [{"index": 0, "delta": {"content": "word "}}]}\n\n'] * 200
LAST = b'data: {"choices": [], "usage": {"prompt_tokens": 500, "completion_tokens": 200}}\n\ndata: [DONE]\n\n'
HEADERS = [(b"content-type", b"text/event-stream")]
CALLS, ROUNDS = 300, 7
SHORT_CALLS, SHORT_ROUNDS = 100, 2

App = Callable[[Any, Any, Any], Any]


class _Body(httpx.AsyncByteStream):
    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in PIECES:
            yield piece
        yield LAST


class _Engine(httpx.AsyncBaseTransport):
    async def handle_async_request(self, _: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers=HEADERS, stream=_Body())


async def _canned(_: Any, receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
    for piece in (*PIECES, LAST):
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def _relay(transport: httpx.AsyncBaseTransport) -> App:
    client = httpx.AsyncClient(transport=transport, base_url="http://engine")

    async def app(_: Any, receive: Any, send: Any) -> None:
        message = await receive()
        async with client.stream("POST", PATH, content=message["body"]) as answer:
            await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
            async for piece in answer.aiter_raw():
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})

    return app


def _watched(app: App, kit: Gateway) -> App:
    return Middleware(
        app,
        kit=kit,
        tenant=lambda scope: scope["headers"][0][1].decode(),
        session=lambda scope: scope["headers"][1][1].decode(),
    )


def _whole() -> App:
    kit = Gateway("bench", token_limit=10**9, tracer_provider=TracerProvider())
    queue, relay = kit.queue(limit=64, ttl=2.0, concurrency=32), _relay(kit.transport("engine", _Engine()))

    async def app(scope: Any, receive: Any, send: Any) -> None:
        async with queue.enter():
            kit.reserve()
            await relay(scope, receive, send)

    return _watched(app, kit)


async def _ask(app: App, i: int) -> None:
    content = f"some words of a prompt, number {i} of all " * 50
    body = json.dumps({"model": "m", "stream": True, "messages": [{"role": "user", "content": content}]}).encode()
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        return messages.pop() if messages else await asyncio.Event().wait()

    async def send(_: Any) -> None:
        pass

    headers = [(b"x-tenant", b"tenant-%d" % (i % 20)), (b"x-session", b"session-%d" % (i % 50))]
    await app({"type": "http", "method": "POST", "path": PATH, "headers": headers}, receive, send)


async def _cpu(make: Callable[[], App], calls: int) -> float:
    """Microseconds of CPU for a call, after as many to warm up as a sixth of them."""
    app = make()
    for i in range(calls // 6):
        await _ask(app, -i)
    began = time.process_time()
    for i in range(calls):
        await _ask(app, i)
    return (time.process_time() - began) / calls * 1e6


def run(short: bool) -> list[Measured]:
    """The best of some rounds in turn, as whatever else the machine does only ever adds."""
    sides: tuple[tuple[str, Callable[[], App], Callable[[], App]], ...] = (
        (
            "CPU of a call: the middleware around a canned answer",
            lambda: _watched(_canned, Gateway("bench")),
            lambda: _canned,
        ),
        (
            "CPU of a call: middleware, span, queue, budget and transport around a relay by httpx",
            _whole,
            lambda: _relay(_Engine()),
        ),
    )
    calls, rounds = (SHORT_CALLS, SHORT_ROUNDS) if short else (CALLS, ROUNDS)
    rows = []
    for what, ours, theirs in sides:
        taken = [(asyncio.run(_cpu(ours, calls)), asyncio.run(_cpu(theirs, calls))) for _ in range(rounds)]
        rows.append(Measured(what, *(min(side) for side in zip(*taken, strict=True)), "us", math.inf))
    return rows


BENCH = Bench("gateway", run)
