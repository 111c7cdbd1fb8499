"""Who listens on a port: the socket in its namespace's table, and the process whose descriptors hold it.

Going through the descriptors of every process is the dear part. It is done for a socket that nobody is known to hold, twice in
a row where nobody is found. Once a minute those who may have joined a known holder are looked at: workers that were forked later,
and whoever is in its container.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from llmvitals.telemetry.host.files import AS_ROOT, link, names, text_of
from llmvitals.telemetry.host.forwards import behind, local_addresses
from llmvitals.telemetry.host.kin import relatives
from llmvitals.telemetry.host.sockets import Listening, listening
from llmvitals.telemetry.host.spaces import Spaces
from llmvitals.telemetry.identity.model import Process

AGAIN_SECONDS = 60.0
TRIES = 3
"""Processes of a namespace through which its sockets are asked for, should they end meanwhile."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that answers on ``port``: its descriptor ``link`` has to point to ``target``, the socket.

    ``address``: the one listened on, '' for every. ``space``: the network namespace that the port is asked for in.
    """

    port: int
    address: str
    process: Process
    space: str
    link: str
    target: str


@dataclass(frozen=True, slots=True)
class _Wish:
    """A socket whose holder is looked for, and the port that it answers."""

    port: int
    address: str
    space: str
    inside: str  # the namespace of the socket itself: another one behind a forwarder

    @classmethod
    def direct(cls, socket: Listening, space: str) -> _Wish:
        return cls(socket.port, socket.address, space, space)


_Wishes = dict[str, list[_Wish]]


class Holders:
    """Finds and remembers who holds which port. ``clock``: monotonic seconds."""

    def __init__(self, root: str, spaces: Spaces, clock: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._spaces = spaces
        self._clock = clock
        self._space_of: dict[int, tuple[float, str]] = {}
        self._held: dict[int, tuple[Holder, ...]] = {}
        self._forwarders: dict[int, tuple[Holder, ...]] = {}
        self._looked: dict[int, float] = {}
        self._unheld: dict[int, str] = {}
        self._settled: frozenset[int] = frozenset()
        self.hidden = 0

    def of(self, ports: frozenset[int], table: Mapping[int, Process]) -> tuple[Holder, ...]:
        """The holders of these ports, those that are reached in the reader's own namespace first."""
        now = self._clock()
        self._held = {port: self._still(self._held.get(port, ()), table) for port in ports}
        self._forwarders = {port: self._still(self._forwarders.get(port, ()), table) for port in ports}
        self._unheld = {port: why for port, why in self._unheld.items() if port in ports}
        self._settled &= ports
        due = frozenset(
            port
            for port in ports
            if now - self._looked.get(port, -AGAIN_SECONDS) >= AGAIN_SECONDS
            or not (self._held[port] or port in self._settled)
        )
        if due:
            before = frozenset(self._unheld)
            self._look(due, table, now)
            # who was born after ``table`` was read holds a socket and is not in it: that takes a second look to tell apart
            self._settled = (self._settled - due) | (before & due & frozenset(self._unheld))
        own = self._spaces.of("self")
        found = (holder for port in ports for holder in self._held[port])
        return tuple(sorted(found, key=lambda h: (h.port, h.space != own, h.process.pid)))

    @property
    def unheld(self) -> frozenset[int]:
        """The ports on which somebody listens who cannot be told."""
        return frozenset(self._unheld)

    @property
    def why(self) -> tuple[str, ...]:
        """Why that is, port by port."""
        return tuple(self._unheld[port] for port in sorted(self._unheld))

    def _still(self, holders: Iterable[Holder], table: Mapping[int, Process]) -> tuple[Holder, ...]:
        return tuple(
            h
            for h in holders
            if (now := table.get(h.process.pid)) is not None
            and now.started == h.process.started
            and link(h.link) == h.target
        )

    def _look(self, due: frozenset[int], table: Mapping[int, Process], now: float) -> None:
        places = self._places(table)
        opened: dict[str, tuple[Listening, ...]] = {}
        for space, pids in places.items():
            tables = next((some for pid in pids[:TRIES] if (some := self._spaces.tables(space, pid))), ())
            opened[space] = listening(*tables)
        wishes: _Wishes = {}
        for space, sockets in opened.items():
            for socket in sockets:
                if socket.port in due:
                    wishes.setdefault(f"socket:[{socket.inode}]", []).append(_Wish.direct(socket, space))
        known = {h.target: h.process for port in due for h in (*self._held[port], *self._forwarders.get(port, ()))}
        fresh = {target: some for target, some in wishes.items() if target not in known}
        joined = relatives(known.values(), table) if known else ()
        found = (*self._holding(joined, wishes, table), *(self._take(fresh, places, table) if fresh else ()))
        direct = tuple(h for h in found if behind(h.process) is None)
        inner = self._inner([h for h in found if behind(h.process) is not None], opened, places)
        through = self._take(inner, places, table) if inner else ()
        for port in due:
            self._held[port] = tuple(h for h in (*direct, *through) if h.port == port)
            self._unheld.pop(port, None)
            self._forwarders[port] = tuple(h for h in found if h.port == port and behind(h.process) is not None)
            forwarder = next(iter(self._forwarders[port]), None)
            if any(w.port == port for some in wishes.values() for w in some):
                self._looked[port] = now
                if not self._held[port]:
                    self._unheld[port] = _unheld(port, forwarder)

    def _inner(
        self,
        forwarders: Iterable[Holder],
        opened: Mapping[str, tuple[Listening, ...]],
        places: Mapping[str, list[int]],
    ) -> _Wishes:
        """The sockets that forwarders hand their connections to."""
        wishes: _Wishes = {}
        for holder in forwarders:
            to = behind(holder.process)
            for space, sockets in opened.items():
                inside = [s for s in sockets if to is not None and s.port == to.port]
                if not inside or to is None or to.address not in self._addresses(places[space]):
                    continue
                for socket in inside:
                    wish = _Wish(holder.port, holder.address, holder.space, space)
                    wishes.setdefault(f"socket:[{socket.inode}]", []).append(wish)
        return wishes

    def _addresses(self, pids: list[int]) -> frozenset[str]:
        texts = (text_of(f"{self._root}/{pid}/net/fib_trie") for pid in pids[:TRIES])
        return local_addresses(next((text for text in texts if text), ""))

    def _take(
        self, wishes: _Wishes, places: Mapping[str, list[int]], table: Mapping[int, Process]
    ) -> tuple[Holder, ...]:
        """Those that hold a wished socket: looked for in its namespace, and elsewhere when nobody there holds it."""
        near = {pid for space in {w.inside for some in wishes.values() for w in some} for pid in places[space]}
        found = tuple(self._holding(near, wishes, table))
        held = {h.target for h in found}
        left = {target: some for target, some in wishes.items() if target not in held}
        if left:  # whoever made the socket may have handed it to a process elsewhere
            found += tuple(self._holding(table.keys() - near, left, table))
        return found

    def _holding(self, pids: Iterable[int], wishes: _Wishes, table: Mapping[int, Process]) -> Iterator[Holder]:
        for pid in pids:
            seen = set()
            folder = f"{self._root}/{pid}/fd"
            for descriptor, target in ((path, link(path)) for path in (f"{folder}/{name}" for name in names(folder))):
                if target in wishes and target not in seen:
                    seen.add(target)
                    for w in wishes[target]:
                        yield Holder(w.port, w.address, table[pid], w.space, descriptor, target)

    def _places(self, table: Mapping[int, Process]) -> dict[str, list[int]]:
        """Processes by network namespace. A process hardly ever moves to another one once it runs."""
        known, places = self._space_of, dict[str, list[int]]()
        self._space_of = {}
        for pid, process in table.items():
            before = known.get(pid)
            if before is None or before[0] != process.started or not before[1]:
                before = (process.started, self._spaces.of(pid))
            self._space_of[pid] = before
            if before[1]:
                places.setdefault(before[1], []).append(pid)
        self.hidden = len(table) - sum(map(len, places.values()))
        return places


def _unheld(port: int, forwarder: Holder | None) -> str:
    if forwarder is None:
        return f"who listens on port {port} cannot be seen: {AS_ROOT}"
    return (
        f"port {port} is held by {forwarder.process.name}, which hands it into a container, and who listens there "
        "cannot be seen yet"
    )
