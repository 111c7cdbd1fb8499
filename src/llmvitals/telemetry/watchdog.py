"""A time limit on a call over HTTP that holds, whatever the server does.

A socket's own timeout is per read, so a server that drips its status line, its headers or the length of a chunk, or that
sends ``100 Continue`` without end, outlives it. A watchdog shuts the socket down once the time is over.
"""

from __future__ import annotations

import contextlib
import contextvars
import socket
import threading
from collections.abc import Iterator
from typing import Any, TypeVar

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool


class Watchdog:
    """Shuts down the socket in use once the deadline is over. ``fired``: it had to. ``fresh``: the call has connected anew,
    so what it uses is not a connection that was kept from an earlier call.
    """

    def __init__(self) -> None:
        self.connection: HTTPConnection | None = None
        self.connected: socket.socket | None = None
        self.fired = False
        self.fresh = False

    def fire(self) -> None:
        """End whatever the connection waits for."""
        self.fired = True
        # a connection lets go of its socket when an answer ends with it; who reads that answer still waits on it
        sock = (self.connection.sock if self.connection is not None else None) or self.connected
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)


_RUNNING: contextvars.ContextVar[Watchdog | None] = contextvars.ContextVar("watchdog", default=None)


_Pools = TypeVar("_Pools", bound=urllib3.PoolManager)


class _Watched(HTTPConnection):
    """A connection that tells the watchdog of the running call which socket it uses."""

    def connect(self) -> None:
        super().connect()
        _watch(self, fresh=True)

    def request(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401  # the library's own
        _watch(self)
        super().request(*args, **kwargs)


class _WatchedTls(_Watched, HTTPSConnection):
    """The same over TLS."""


def _watch(connection: HTTPConnection, *, fresh: bool = False) -> None:
    watchdog = _RUNNING.get()
    if watchdog is not None:
        watchdog.connection, watchdog.connected = connection, connection.sock
        watchdog.fresh = watchdog.fresh or fresh


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Watched


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _WatchedTls


def watched_pools(**settings: Any) -> urllib3.PoolManager:  # noqa: ANN401  # the library's own
    """Pools whose connections heed the watchdog of the call that runs; ``settings`` are those of ``PoolManager``."""
    return heed(urllib3.PoolManager(**settings))


def heed(pools: _Pools) -> _Pools:
    """The same pools; what they connect from now on heeds the watchdog of the call that runs."""
    pools.pool_classes_by_scheme = {"http": _Pool, "https": _TlsPool}
    return pools


@contextlib.contextmanager
def watchdog(seconds: float) -> Iterator[Watchdog]:
    """What this thread calls in the block is cut off after so many seconds."""
    dog = Watchdog()
    timer = threading.Timer(seconds, dog.fire)
    timer.daemon = True
    timer.start()
    token = _RUNNING.set(dog)
    try:
        yield dog
    finally:
        timer.cancel()
        _RUNNING.reset(token)
