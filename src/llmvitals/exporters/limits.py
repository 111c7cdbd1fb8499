"""In front of every path: reading only, no body, safe headers, a count of answers; and answers that nobody holds whole."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Mapping

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from llmvitals.exporters.network import network
from llmvitals.exporters.request_head import METHODS, NO_BODY, NO_METHOD, Fault, has_body

PIECE_BYTES = 64 * 1024
"""An answer is written piece by piece as it is read: who does not read holds one piece, not a whole page of its own."""

SAFE: Mapping[str, str] = {
    "x-content-type-options": "nosniff",
    "content-security-policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
}
"""Headers of every answer, where it has none of its own and the web configuration says nothing else: no browser takes an answer
for a page, lets it load anything, or shows it within another site."""


class Turns:
    """Whose answer is made next: addresses take turns, and one answer is begun in each turn of the event loop.

    Whoever sends hundreds of requests at once waits for its own; between any two of them others connect, ask and are answered.
    """

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self._called = False

    async def wait(self, peer: str) -> None:
        """Come back when it is the turn of ``peer``."""
        loop = asyncio.get_running_loop()
        turn = loop.create_future()
        self._waiting.setdefault(peer, deque()).append(turn)
        if not self._called:
            self._called = True
            loop.call_soon(self._next, loop)
        await turn

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        while self._waiting:
            peer, mine = self._waiting.popitem(last=False)
            turn = mine.popleft()
            if mine:
                self._waiting[peer] = mine
            if not turn.done():  # else it went away meanwhile
                turn.set_result(None)
                loop.call_soon(self._next, loop)
                return
        self._called = False


class Limits:
    """ASGI middleware: reading only, no body, and a count of answers by (path, status code) for known paths."""

    def __init__(self, app: ASGIApp, *, paths: frozenset[str], requests: Counter[tuple[str, str]]) -> None:
        self._app = app
        self._paths = paths
        self._requests = requests
        self._turns = Turns()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 405 and 413 here, and hand everything else on."""
        if scope["type"] != "http":
            return
        path = scope["path"] if scope["path"] in self._paths else "other"

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._requests[path, str(message["status"])] += 1
                headers = Headers(raw=message.get("headers", []))
                missing = [(name, value) for name, value in SAFE.items() if name not in headers]
                more = [(name.encode(), value.encode()) for name, value in missing]
                await send({**message, "headers": [*message.get("headers", []), *more]})
                return
            body, last = message.get("body", b""), not message.get("more_body", False)
            rest = max(len(body) - 1, 0) // PIECE_BYTES * PIECE_BYTES
            for start in range(0, rest, PIECE_BYTES):
                await send({"type": message["type"], "body": body[start : start + PIECE_BYTES], "more_body": True})
            await send({"type": message["type"], "body": body[rest:], "more_body": not last})

        client = scope.get("client")
        await self._turns.wait(network(client[0]) if client else "")
        await (self._refusal(scope) or self._app)(scope, receive, counted)

    @staticmethod
    def _refusal(scope: Scope) -> ASGIApp | None:
        closing = {"connection": "close"}
        if scope["method"] not in METHODS:
            return _told(NO_METHOD, {"allow": ", ".join(METHODS), **closing})
        return _told(NO_BODY, closing) if has_body(scope["headers"]) else None


def _told(fault: Fault, headers: Mapping[str, str]) -> ASGIApp:
    return PlainTextResponse(f"{fault.why}\n", fault.status, headers=dict(headers))
