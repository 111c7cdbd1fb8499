"""Time limits and request limits in front of the application.

The ASGI server bounds idle keep-alive connections only. Here a connection also ends when its request does not arrive
whole in time (a client that drips headers or a body), and when its answer is not read (a client that never drains).
"""

from __future__ import annotations

import asyncio
from collections import Counter

import h11
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_SECONDS = 10.0
"""A request must have arrived whole within this time of its first byte (of the connection, for the first request)."""

ANSWER_SECONDS = 30.0
"""An answer that stays unread this long ends the connection; Prometheus itself gives up after 10 s by default."""

KEEP_ALIVE_SECONDS = 75
"""Longer than a scrape interval of one minute, so that a Prometheus keeps its connection."""

FAREWELL_SECONDS = 0.5
"""At the end, a TLS peer has this long to answer the farewell; a scraper's idle connection never does."""

HEADER_BYTES = 16 * 1024
CONNECTIONS = 512

METHODS = ("GET", "HEAD")


class GuardedProtocol(H11Protocol):
    """HTTP/1.1 of the ASGI server with absolute limits for the request's arrival and the answer's departure."""

    _arriving: asyncio.TimerHandle | None = None
    _leaving: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as the server's own
        """Start the clock of the first request."""
        super().connection_made(transport)
        self._watch(arriving=True)

    def data_received(self, data: bytes) -> None:
        """Start the clock at a request's first byte, stop it when the request is whole."""
        super().data_received(data)
        state = self.conn.their_state
        self._watch(arriving=state is h11.SEND_BODY or (state is h11.IDLE and bool(self.conn.trailing_data[0])))

    def pause_writing(self) -> None:
        """The peer does not read: start the clock of the answer."""
        super().pause_writing()
        self._leaving = self._leaving or self.loop.call_later(ANSWER_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """The peer reads again."""
        super().resume_writing()
        self._leaving = _stop(self._leaving)

    def shutdown(self) -> None:
        """End when the answer under way is out; at once where there is none."""
        super().shutdown()
        if self.transport.is_closing() and self.transport.get_extra_info("sslcontext") is not None:
            self.loop.call_later(FAREWELL_SECONDS, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """Leave no timer behind."""
        self._arriving, self._leaving = _stop(self._arriving), _stop(self._leaving)
        super().connection_lost(exc)

    def _watch(self, *, arriving: bool) -> None:
        if not arriving:
            self._arriving = _stop(self._arriving)
        elif self._arriving is None:
            self._arriving = self.loop.call_later(REQUEST_SECONDS, self.transport.abort)


def _stop(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    """Cancel a timer; what is left of it is None."""
    if timer is not None:
        timer.cancel()
    return None


class Limits:
    """ASGI middleware: reading only, no body, and a count of answers by (path, status code) for known paths."""

    def __init__(self, app: ASGIApp, *, paths: frozenset[str], requests: Counter[tuple[str, str]]) -> None:
        self._app = app
        self._paths = paths
        self._requests = requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 405 and 413 here, and hand everything else on."""
        if scope["type"] != "http":
            return
        path = scope["path"] if scope["path"] in self._paths else "other"

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._requests[path, str(message["status"])] += 1
            await send(message)

        await (self._refusal(scope) or self._app)(scope, receive, counted)

    @staticmethod
    def _refusal(scope: Scope) -> ASGIApp | None:
        headers = Headers(scope=scope)
        closing = {"connection": "close"}
        if scope["method"] not in METHODS:
            return PlainTextResponse("Only GET and HEAD.\n", 405, headers={"allow": ", ".join(METHODS), **closing})
        if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
            return PlainTextResponse("A request has no body here.\n", 413, headers=closing)
        return None
