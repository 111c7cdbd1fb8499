"""Time limits and request limits in front of the application.

The ASGI server bounds idle keep-alive connections only. Here a connection also ends when its request does not arrive
whole in time (a client that drips headers or a body), and when its answer is not read (a client that never drains).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum
from http import HTTPStatus
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from llmvitals.exporters.limits import PIECE_BYTES, SAFE
from llmvitals.exporters.request_head import METHODS, UNREADABLE, Fault, StrictConnection
from llmvitals.exporters.web_config import Web, allowed

REQUEST_SECONDS = 10.0
"""A request must have arrived whole within this time of its first byte (of the connection, for the first request)."""

STALLED_SECONDS = 30.0
"""An answer that stays unread this long ends the connection; Prometheus itself gives up after 10 s by default."""

ANSWER_SECONDS = 120.0
"""So does one that is not made and read whole in this time: a reader of some bytes a second keeps none for ever."""

KEEP_ALIVE_SECONDS = 75
"""Longer than a scrape interval of one minute, so that a Prometheus keeps its connection."""

HANDSHAKE_SECONDS = 10.0
"""A TLS handshake must be done in this time."""

FAREWELL_SECONDS = 0.5
"""At the end, a TLS peer has this long to answer the farewell; a scraper's idle connection never does."""

LINGER_SECONDS = 1.0
"""Whoever is refused while it still sends has this long to read why; bytes are thrown away meanwhile."""

LINGER_BYTES = 256 * 1024
"""What is thrown away of it at most."""

CONNECTIONS = 512
"""Of one listener, at most."""


class Stage(Enum):
    """What a connection is waiting for."""

    REQUEST = "a request, or the rest of one"
    ANSWER = "an answer that is being made"
    READER = "its reader"


Refused = Callable[[int], None]
"""Told of the status code of each request that no application saw."""


class GuardedProtocol(H11Protocol):
    """HTTP/1.1 of the ASGI server with absolute limits for the request's arrival and the answer's departure.

    ``bodies``: whether requests may have one. ``web``: whose certificates are let in. ``refused`` counts what is answered here.
    ``begun``: whether a request has begun to come. ``rests`` and ``gone`` are called when it begins to wait, and at its end.
    """

    _arriving: asyncio.TimerHandle | None = None
    _leaving: asyncio.TimerHandle | None = None
    _answering: asyncio.TimerHandle | None = None
    _thrown: int | None = None  # bytes thrown away since it was refused; None until then

    def __init__(
        self,
        *args: Any,  # noqa: ANN401  # the server's own
        bodies: bool = False,
        web: Callable[[], Web] = Web,
        refused: Refused = lambda _: None,
        **named: Any,  # noqa: ANN401
    ) -> None:
        super().__init__(*args, **named)
        self.conn = self._strict = StrictConnection(bodies=bodies)
        self._web = web
        self._refused = refused
        self.ending = False
        self.begun = False
        self.gone: Callable[[], None] = lambda: None
        self.rests: Callable[[], None] = lambda: None

    @property
    def stage(self) -> Stage:
        """What it waits for."""
        if self._leaving is not None:
            return Stage.READER
        return Stage.ANSWER if self._at_work and self.conn.their_state is not h11.SEND_BODY else Stage.REQUEST

    @property
    def _at_work(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as the server's own
        """Start the clock of the first request."""
        super().connection_made(transport)
        if self.ending or not allowed(self._web(), transport.get_extra_info("peercert")):
            transport.abort()
            return
        transport.set_write_buffer_limits(high=PIECE_BYTES)  # TLS has eight times that of its own accord
        self._watch(arriving=True)

    def data_received(self, data: bytes) -> None:
        """Start the clock at a request's first byte, stop it when the request is whole."""
        if self._thrown is not None:
            self._thrown += len(data)
            if self._thrown > LINGER_BYTES:
                self.transport.abort()
            return
        if self.transport.is_closing():
            return
        self.begun = True
        super().data_received(data)
        state = self.conn.their_state
        self._watch(arriving=state is h11.SEND_BODY or (state is h11.IDLE and bool(self.conn.trailing_data[0])))

    def handle_events(self) -> None:
        """Start the clock of an answer when its request has come, pipelined or not."""
        super().handle_events()
        if self._at_work and self.conn.their_state is not h11.SEND_BODY:
            self._answering = self._answering or self.loop.call_later(ANSWER_SECONDS, self.transport.abort)

    def send_400_response(self, msg: str) -> None:
        """Answer what is no request, or none that may be. Whoever still sends can read the answer before it is cut off."""
        fault = self._strict.fault or UNREADABLE
        self._arriving = _stop(self._arriving)
        if self._at_work and self.cycle.response_started:
            self.transport.abort()
            return
        if self._at_work:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self._refused(fault.status)
        self.transport.write(_written(fault))
        self._thrown = 0
        if self.transport.can_write_eof():
            self.transport.write_eof()
            self._arriving = self.loop.call_later(LINGER_SECONDS, self.transport.abort)
        else:
            self.transport.close()

    def eof_received(self) -> bool | None:  # type: ignore[override]  # asyncio's own: True keeps the way out open
        """Whoever says that it sends no more still gets its answer, over plain TCP (TLS has no such half)."""
        if self.stage is Stage.REQUEST or self.transport.get_extra_info("sslcontext") is not None:
            return None
        self.cycle.keep_alive = False
        return True

    def on_response_complete(self) -> None:
        """The next request has its own time."""
        self._answering = _stop(self._answering)
        self.begun = False
        self.rests()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """The peer does not read: start the clock of the answer."""
        super().pause_writing()
        self.rests()
        self._leaving = self._leaving or self.loop.call_later(STALLED_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """The peer reads again."""
        super().resume_writing()
        self._leaving = _stop(self._leaving)

    def shutdown(self) -> None:
        """End when the answer under way is out; at once where there is none, or where its request is still coming."""
        self.ending = True
        try:
            super().shutdown()
        except h11.LocalProtocolError:  # an error was told already
            self.transport.close()
        if self.transport.is_closing() and self.transport.get_extra_info("sslcontext") is not None:
            self.loop.call_later(FAREWELL_SECONDS, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """Leave no timer behind."""
        for timer in (self._arriving, self._leaving, self._answering, self.timeout_keep_alive_task):
            _stop(timer)
        self._arriving = self._leaving = self._answering = None
        super().connection_lost(exc)
        self.gone()

    def _watch(self, *, arriving: bool) -> None:
        if self._thrown is not None:
            return
        if not arriving:
            self._arriving = _stop(self._arriving)
        elif self._arriving is None:
            self._arriving = self.loop.call_later(REQUEST_SECONDS, self.transport.abort)


def _stop(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    """Cancel a timer; what is left of it is None."""
    if timer is not None:
        timer.cancel()
    return None


def _written(fault: Fault) -> bytes:
    """A refusal as bytes: nothing of the request is in it."""
    lines = [
        f"HTTP/1.1 {fault.status} {HTTPStatus(fault.status).phrase}",
        *(f"{name}: {value}" for name, value in SAFE.items()),
        "content-type: text/plain; charset=utf-8",
        f"content-length: {len(fault.why) + 1}",
        "connection: close",
        *([f"allow: {', '.join(METHODS)}"] if fault.status == HTTPStatus.METHOD_NOT_ALLOWED else []),
    ]
    return ("\r\n".join(lines) + f"\r\n\r\n{fault.why}\n").encode()
