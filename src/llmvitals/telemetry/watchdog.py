"""A time limit on a call over HTTP that holds, whatever the server does.

A socket's own timeout is per read, so a server that drips its status line, its headers or the length of a chunk, or that
sends ``100 Continue`` without end, outlives it. A watchdog shuts the socket down once the time is over. What it watches connects
within its time, whatever the number of a name's addresses, and only where the call's :class:`Reach` lets it.
"""

from __future__ import annotations

import contextlib
import contextvars
import socket
import ssl
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any, TypeVar

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import ConnectTimeoutError, NameResolutionError, NewConnectionError
from urllib3.util.connection import allowed_gai_family

from llmvitals.telemetry.reach import USUAL, Reach, RefusedAddressError


class Watchdog:
    """Shuts down the socket in use once the deadline is over. ``fired``: it had to. ``fresh``: the call connects anew, or
    tried to, so what fails is not a connection that was kept from an earlier call. ``until``: the deadline, in monotonic
    seconds.
    """

    def __init__(self, until: float, reach: Reach = USUAL) -> None:
        self.until = until
        self.reach = reach
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
    """A connection that tells the watchdog of the running call which socket it uses, and goes where that call may go."""

    def _new_conn(self) -> socket.socket:
        """A socket to the first address that answers. In place of the library's, which gives each address the whole time."""
        dog = _RUNNING.get()
        try:
            found = socket.getaddrinfo(self._dns_host, self.port, allowed_gai_family(), socket.SOCK_STREAM)
        except socket.gaierror as error:
            raise NameResolutionError(self.host, self, error) from error
        except UnicodeError:
            raise urllib3.exceptions.LocationParseError(f"'{self.host}', label empty or too long") from None
        reach = dog.reach if dog is not None else USUAL
        wanted = [one for one in found if not reach.refuses(str(one[4][0]))]
        if found and not wanted:
            raise RefusedAddressError(str(found[0][4][0]))
        sys.audit("http.client.connect", self, self.host, self.port)
        failure = OSError("the name has no address")
        for family, kind, protocol, _, address in wanted:
            try:
                sock = socket.socket(family, kind, protocol)
            except OSError as error:  # no file descriptor left, or none of this family: the next address may do
                failure = error
                continue
            try:
                for option in self.socket_options or ():
                    sock.setsockopt(*option)
                sock.settimeout(self._seconds_left(dog))
                sock.connect(address)
                # agreeing on TLS has the rest of the time, not the whole again
                sock.settimeout(self._seconds_left(dog))
            except OSError as error:
                sock.close()
                failure = error
            else:
                return sock
        if isinstance(failure, TimeoutError):
            raise ConnectTimeoutError(self, f"Connection to {self.host} timed out.") from failure
        raise NewConnectionError(self, f"Failed to establish a new connection: {failure}") from failure

    def _seconds_left(self, dog: Watchdog | None) -> float | None:
        """Seconds that connecting may still take. Raises ``TimeoutError`` when they are over."""
        own = self.timeout if isinstance(self.timeout, int | float) else None
        if dog is None:
            return own
        left = dog.until - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        return left if own is None else min(left, own)

    def connect(self) -> None:
        dog = _RUNNING.get()
        if dog is not None:
            dog.connection, dog.fresh = self, True  # already: a proxy may drip, and agreeing on TLS may fail
        super().connect()
        _watch(self)

    def request(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401  # the library's own
        _watch(self)
        super().request(*args, **kwargs)


class _WatchedTls(_Watched, HTTPSConnection):
    """The same over TLS."""

    def request(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401  # the library's own
        try:
            super().request(*args, **kwargs)
        except ssl.SSLEOFError:
            # With TLS 1.3 a server refuses our certificate after we take the connection for made. Its reason is still to be
            # read when it is gone before what we send.
            self.sock.recv(1)
            raise


def _watch(connection: HTTPConnection) -> None:
    dog = _RUNNING.get()
    if dog is not None:
        dog.connection, dog.connected = connection, connection.sock


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
def watchdog(seconds: float, reach: Reach = USUAL) -> Iterator[Watchdog]:
    """What this thread calls in the block is cut off after so many seconds, and connects within ``reach`` only."""
    dog = Watchdog(time.monotonic() + seconds, reach)
    timer = threading.Timer(seconds, dog.fire)
    timer.daemon = True
    timer.start()
    token = _RUNNING.set(dog)
    try:
        yield dog
    finally:
        timer.cancel()
        _RUNNING.reset(token)
