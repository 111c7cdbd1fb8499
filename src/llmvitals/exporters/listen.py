"""What the page and the receivers of traces share: an address to listen on, and an HTTP server that bounds its clients."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from llmvitals.errors import SettingsError
from llmvitals.exporters import guard
from llmvitals.exporters.crowd import Crowd
from llmvitals.exporters.guard import GuardedProtocol
from llmvitals.exporters.web_config import Web

START_SECONDS = 5.0
"""How long whoever starts a server waits for it to listen."""

DRAIN_SECONDS = 5
"""How long answers under way may take once the exporter is told to end."""

POLL_SECONDS = 0.02
"""Between two looks at whether all answers have gone out."""

TURNS = 4
"""Of the event loop, at the end, in which what was cut off ends by itself."""

_LAST_PORT = 65535


def bound(listen: str, *, key: str, example: str) -> socket.socket:
    """A socket bound to ``host:port``. Raises :class:`SettingsError` naming the settings' ``key`` when it cannot be had."""
    host, colon, port = listen.rpartition(":")
    try:
        if not colon or not 0 <= int(port) <= _LAST_PORT:
            raise ValueError(port)
        wanted = host.strip("[]") or None  # ":9464" listens on every interface, as in Prometheus' own tools
        found = socket.getaddrinfo(wanted, int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        # With the protocol named, asyncio turns Nagle's delay off: answers on kept connections are 40 ms quicker.
        made = socket.socket(found[0], socket.SOCK_STREAM, socket.IPPROTO_TCP)
    except (ValueError, OSError):
        raise SettingsError(
            "is not an address to listen on", place=f"{key}: {listen}", remedy=f"Write it like {example}."
        ) from None
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(found[4])
    except OSError as error:
        made.close()
        raise unusable(f"{key}: {listen}", error.strerror or "no reason given") from None
    made.setblocking(False)
    return made


def unusable(place: str, why: str) -> SettingsError:
    """What is said of an address that the system does not give us."""
    return SettingsError(
        f"cannot be used ({why})", place=place, remedy="Choose another port, or end what listens there."
    )


def shown(address: tuple[Any, ...]) -> str:
    """A bound address as a client of this machine reaches it."""
    host, port = address[:2]
    name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"{name}:{port}"


class Server(uvicorn.Server):
    """The ASGI server with a door of ours (:mod:`~llmvitals.exporters.crowd`), and an end that comes in time."""

    def __init__(
        self, config: uvicorn.Config, crowd: Callable[[socket.socket, Callable[[], GuardedProtocol]], Crowd]
    ) -> None:
        super().__init__(config)
        self._made = crowd
        self.crowd: Crowd | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen."""
        assert sockets

        def protocol() -> GuardedProtocol:
            made = self.config.http_protocol_class
            one: GuardedProtocol = made(  # type: ignore[assignment,call-arg]
                config=self.config, server_state=self.server_state, app_state=self.lifespan.state
            )
            return one

        self.crowd = self._made(sockets[0], protocol)
        self.crowd.open()
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let nobody in, finish the answers under way within :data:`DRAIN_SECONDS`, then end what is left."""
        assert self.crowd is not None
        until = time.monotonic() + DRAIN_SECONDS
        self.crowd.close()
        for connection in tuple(self.server_state.connections):
            connection.shutdown()
        while self.server_state.connections and time.monotonic() < until:
            await asyncio.sleep(POLL_SECONDS)
        self.crowd.cut_all()
        for _ in range(TURNS):  # who waits for a peer learns that it is gone; what is left waits for a thread
            await asyncio.sleep(0)
        for task in tuple(self.server_state.tasks):
            task.cancel()


def server(
    app: ASGIApp,
    web: Callable[[], Web],
    *,
    bodies: bool = False,
    refused: guard.Refused = lambda _: None,
    cut: Callable[[], None] = lambda: None,
) -> Server:
    """An HTTP server over ``app``. ``web`` gives the web configuration in use.

    ``bodies``: whether requests may have one; then those that are on their way are cut last when the house is full. ``refused`` is
    told of requests that ``app`` never saw, ``cut`` of connections that were ended to make room.
    """
    logging.getLogger("uvicorn.error").setLevel(
        logging.ERROR
    )  # its warnings are lines that any client can have us write

    async def ended(scope: Scope, receive: Receive, send: Send) -> None:
        with suppress(asyncio.CancelledError):  # at the end, and no fault
            await app(scope, receive, send)

    config = uvicorn.Config(
        ended,
        http=partial(GuardedProtocol, bodies=bodies, web=web, refused=refused),  # type: ignore[arg-type]
        loop="asyncio",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=guard.KEEP_ALIVE_SECONDS,
    )
    config.load()
    context = _renewable(web)
    return Server(config, partial(Crowd, context=context, patient=bodies, cut=cut))


def together(*calls: Callable[[], object]) -> None:
    """Run all of these at once, each in a thread, until all are done: ends that wait for somebody wait side by side."""
    threads = [threading.Thread(target=call, daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def in_a_thread(running: uvicorn.Server, made: socket.socket, *, name: str) -> threading.Thread:
    """Run a server on a bound socket in a thread of its own; comes back once it answers, or was not ready in time."""
    thread = threading.Thread(target=lambda: running.run(sockets=[made]), name=name, daemon=True)
    thread.start()
    until = time.monotonic() + START_SECONDS
    while not running.started and thread.is_alive() and time.monotonic() < until:
        time.sleep(0.005)
    return thread


def _renewable(web: Callable[[], Web]) -> ssl.SSLContext | None:
    """The TLS context of a server: each handshake takes certificate and client CAs from the configuration then in use.

    The listening socket cannot be given another context, and loading new files into one that other threads shake hands
    with is not safe; a handshake may switch to another one at its first message, whether or not it names a server.
    """
    context = web().context
    if context is not None:

        def switch(connection: ssl.SSLObject, name: str | None, first: ssl.SSLContext) -> None:
            connection.context = web().context or first

        context.sni_callback = switch
    return context
