"""Who is let in, and who has to go when the house is full: nobody can keep a scraper out by holding connections.

A newcomer is always let in. When there is no room, the address that holds most connections loses the one that has waited
longest for its client (for a handshake, a request, the rest of one, or a reader). An answer that is being made is never cut.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import resource
import socket
import ssl
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain

from llmvitals.exporters import guard
from llmvitals.exporters.guard import GuardedProtocol, Stage
from llmvitals.exporters.logs import log
from llmvitals.exporters.network import network

BACKLOG = 1024
AT_ONCE = 16
"""Connections taken in one turn of the event loop, so that requests have their turns in a storm too."""

AGAIN_SECONDS = 0.1
"""Without a file descriptor left, accepting waits so long."""

TOLD_SECONDS = 60.0
"""Between two log lines about that."""

SHARE = 4
"""Of the process' file descriptors, connections of one listener may hold one in so many: targets need theirs."""

_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


@dataclass(slots=True, eq=False)
class Guest:
    """A connection. ``task`` ends with its handshake."""

    peer: str
    protocol: GuardedProtocol
    task: asyncio.Task[None] | None = field(default=None, repr=False)

    @property
    def stage(self) -> Stage:
        """What it waits for; a handshake is a request that is not there yet."""
        return Stage.REQUEST if self.protocol.transport is None else self.protocol.stage

    def cut(self) -> None:
        """End it at once, unread and unsaid."""
        if self.task is not None:
            self.task.cancel()
        if self.protocol.transport is not None:
            self.protocol.transport.abort()


class Crowd:
    """The connections of one listener. ``patient``: a request that is coming is cut only for somebody who holds far fewer.

    ``cut`` is told of each connection that had to go, or was not let in since nobody could.
    """

    def __init__(
        self,
        listening: socket.socket,
        protocol: Callable[[], GuardedProtocol],
        *,
        context: ssl.SSLContext | None,
        patient: bool = False,
        cut: Callable[[], None] = lambda: None,
    ) -> None:
        self._listening = listening
        self._protocol = protocol
        self._context = context
        self._patient = patient
        self._cut = cut
        self._held: dict[str, OrderedDict[Guest, None]] = {}  # of each address, who has waited longest first
        self._loop = asyncio.get_running_loop()
        self._told = -TOLD_SECONDS
        self._again: asyncio.TimerHandle | None = None
        self._most = room()

    def open(self) -> None:
        """Begin to let clients in."""
        self._listening.setblocking(False)
        self._listening.listen(BACKLOG)
        self._resume()

    def close(self) -> None:
        """Let nobody in any more, and end every handshake."""
        if self._again is not None:
            self._again.cancel()
        if self._listening.fileno() >= 0:
            self._loop.remove_reader(self._listening)
            self._listening.close()
        for guest in tuple(self._guests()):
            guest.protocol.ending = True
            if guest.protocol.transport is None:
                guest.cut()

    def cut_all(self) -> None:
        """End every connection."""
        for guest in tuple(self._guests()):
            guest.cut()

    def __len__(self) -> int:
        return sum(map(len, self._held.values()))

    def _guests(self) -> Iterator[Guest]:
        return chain.from_iterable(self._held.values())

    def _resume(self) -> None:
        self._again = None
        self._loop.add_reader(self._listening, self._accept)

    def _accept(self) -> None:
        for _ in range(AT_ONCE):
            try:
                connection, address = self._listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    self._exhausted(error)
                    return
                continue  # one that went away while it waited
            peer = network(address[0])
            if len(self) >= self._most and not self._make_room(peer):
                self._cut()
                connection.close()
                continue
            self._welcome(connection, peer)

    def _exhausted(self, error: OSError) -> None:
        """There is no file descriptor left: one that waits gives its own up, and the others come in a while."""
        self._loop.remove_reader(self._listening)
        self._make_room("")
        self._again = self._loop.call_later(AGAIN_SECONDS, self._resume)
        if self._loop.time() - self._told >= TOLD_SECONDS:
            self._told = self._loop.time()
            log("connections-exhausted", level=logging.ERROR, error=error.strerror, open=len(self))

    def _make_room(self, peer: str) -> bool:
        """Have one go; False where nobody can, as all are waiting for us."""
        for most in sorted(self._held, key=lambda one: -len(self._held[one])):
            for guest in self._held[most]:
                if self._may_go(guest, peer):
                    self._cut()
                    self._leave(guest)
                    guest.cut()
                    return True
        return False

    def _may_go(self, guest: Guest, peer: str) -> bool:
        stage = guest.stage
        if stage is Stage.ANSWER:
            return False
        if not self._patient or not guest.protocol.begun:
            return True
        return len(self._held[guest.peer]) > 2 * (len(self._held.get(peer, ())) + 1)

    def _welcome(self, connection: socket.socket, peer: str) -> None:
        connection.setblocking(False)
        guest = Guest(peer, self._protocol())
        mine = self._held.setdefault(peer, OrderedDict())
        mine[guest] = None
        guest.protocol.gone = lambda: self._leave(guest)
        guest.protocol.rests = lambda: mine.move_to_end(guest) if guest in mine else None
        guest.task = self._loop.create_task(self._admit(guest, connection))
        guest.task.add_done_callback(lambda _: self._admitted(guest, connection))

    async def _admit(self, guest: Guest, connection: socket.socket) -> None:
        limits = {"ssl_handshake_timeout": guard.HANDSHAKE_SECONDS, "ssl_shutdown_timeout": guard.FAREWELL_SECONDS}
        with suppress(OSError):  # TLS that failed: what there is to say of it is of no use to anybody
            await self._loop.connect_accepted_socket(
                lambda: guest.protocol, connection, ssl=self._context, **(limits if self._context else {})
            )

    def _admitted(self, guest: Guest, connection: socket.socket) -> None:
        """The handshake is over. One that was cut off before it began has nobody else who closes its socket."""
        guest.task = None
        if guest.protocol.transport is None:
            connection.close()
            self._leave(guest)

    def _leave(self, guest: Guest) -> None:
        mine = self._held.get(guest.peer)
        if mine is not None and guest in mine:
            del mine[guest]
            if not mine:
                del self._held[guest.peer]
        guest.protocol.gone = guest.protocol.rests = _nothing


def _nothing() -> None:
    """What nobody needs to be told."""


def room() -> int:
    """Connections that one listener may hold: :data:`guard.CONNECTIONS`, fewer where the process may open few files."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return guard.CONNECTIONS if soft == resource.RLIM_INFINITY else min(guard.CONNECTIONS, max(soft // SHARE, 8))
