"""Network namespaces: which one a process is in, and its sockets, read once per cycle however many engines share it."""

from __future__ import annotations

from llmvitals.telemetry.host.files import link, read, text_of
from llmvitals.telemetry.host.sockets import Ports, Sockets, port_range, sockets

_TABLES = ("tcp", "tcp6")
_PORTS = "sys/net/ipv4"


class Spaces:
    """The namespaces of the processes under ``root``. :meth:`forget` begins a new cycle."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._tables: dict[str, tuple[bytes, ...]] = {}
        self._sockets: dict[str, Sockets] = {}
        self._ephemeral: Ports | None = None

    def forget(self) -> None:
        """What was read belongs to a cycle that is over."""
        self._tables.clear()
        self._sockets.clear()
        self._ephemeral = None

    def of(self, pid: int | str) -> str:
        """A name of the namespace that a process is in; '' when this may not be seen."""
        return link(f"{self._root}/{pid}/ns/net")

    def tables(self, space: str, pid: int) -> tuple[bytes, ...]:
        """The socket tables of ``space``, through a process that is in it; empty when it has gone."""
        known = self._tables.get(space) if space else None
        if known:
            return known
        found = []
        for name in _TABLES:
            try:
                found.append(read(f"{self._root}/{pid}/net/{name}"))
            except OSError:  # no IPv6 here, or the process has gone
                continue
        if space:
            self._tables[space] = tuple(found)
        return tuple(found)

    def sockets(self, space: str, pid: int) -> Sockets | None:
        """The sockets of ``space``, through a process that is in it; None when they cannot be read."""
        known = self._sockets.get(space) if space else None
        if known is not None:
            return known
        tables = self.tables(space, pid)
        if not tables:
            return None
        found = sockets(*tables)
        if space:
            self._sockets[space] = found
            self._tables.pop(space, None)  # megabytes on a busy machine, and listeners were looked for before
        return found

    def ephemeral(self) -> Ports:
        """The ephemeral ports of the reader's own namespace.

        ``/proc/sys/net`` shows each reader its own namespace, whatever process or mount it is reached through, so that nothing
        is known of another one's range: a new namespace begins with the kernel's default, not with the host's setting.
        """
        if self._ephemeral is None:
            self._ephemeral = port_range(
                text_of(f"{self._root}/{_PORTS}/ip_local_port_range"),
                text_of(f"{self._root}/{_PORTS}/ip_local_reserved_ports"),
            )
        return self._ephemeral
