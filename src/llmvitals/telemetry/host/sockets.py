"""TCP sockets of a network namespace, from ``/proc/PID/net/tcp`` and ``tcp6``. Pure functions: no text makes one fail.

Format: proc_pid_net(5). The tables of a busy proxy have tens of thousands of rows, so rows are taken apart by one expression.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address

from llmvitals.telemetry.host.proc import numbers

STATES: tuple[str, ...] = (
    "established",
    "syn_sent",
    "syn_recv",
    "fin_wait1",
    "fin_wait2",
    "time_wait",
    "close",
    "close_wait",
    "last_ack",
    "listen",
    "closing",
)
"""TCP states in the kernel's own order (include/net/tcp_states.h), the first being 1."""

PORTS = 65536
_LISTEN = b"0A"
_ROW = re.compile(rb"^ *\d+: [0-9A-F]+:([0-9A-F]{4}) [0-9A-F]+:[0-9A-F]{4} ([0-9A-F]{2}) ", re.MULTILINE)
_LISTENING = re.compile(
    rb"^ *\d+: ([0-9A-F]{8}|[0-9A-F]{32}):([0-9A-F]{4}) [0-9A-F]+:[0-9A-F]{4} 0A \S+ \S+ \S+ +\d+ +\d+ (\d{1,20})(?!\d)",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Listening:
    """A socket that listens. ``address``: '' for every address; ``inode``: what the links of ``/proc/PID/fd`` name."""

    port: int
    address: str
    inode: int


@dataclass(frozen=True, slots=True)
class Sockets:
    """All TCP sockets of a namespace. ``states``: number by state; ``ports``: local ports that something else than a
    listener (or a connection it took) holds, TIME_WAIT included.
    """

    states: dict[str, int] = field(default_factory=lambda: dict.fromkeys(STATES, 0))
    ports: frozenset[int] = frozenset()


def sockets(*tables: bytes) -> Sockets:
    """Count the sockets of both tables of a namespace."""
    rows: Counter[tuple[bytes, bytes]] = Counter()
    for table in tables:
        rows.update(_ROW.findall(table))
    states = dict.fromkeys(STATES, 0)
    listened: set[bytes] = set()
    for (port, state), count in rows.items():
        place = int(state, 16) - 1
        if 0 <= place < len(STATES):
            states[STATES[place]] += count
        if state == _LISTEN:
            listened.add(port)
    return Sockets(states, frozenset(int(port, 16) for port in {port for port, _ in rows} - listened))


def listening(*tables: bytes) -> tuple[Listening, ...]:
    """The sockets that listen, in the order of the tables."""
    return tuple(
        Listening(int(port, 16), _address(address.decode("ascii")), int(inode))
        for table in tables
        for address, port, inode in _LISTENING.findall(table)
    )


@dataclass(frozen=True, slots=True)
class Ports:
    """A range of ports less the ``reserved`` ones that lie in it. As a set of 28,000 numbers it would take 3 MiB."""

    whole: range = range(0)
    reserved: frozenset[int] = frozenset()

    def __len__(self) -> int:
        return len(self.whole) - len(self.reserved)

    def used(self, ports: Iterable[int]) -> int:
        """How many of these ports are among them."""
        return sum(port in self.whole and port not in self.reserved for port in ports)


def port_range(text: str, reserved: str = "") -> Ports:
    """The ports of ``ip_local_port_range``, less those of ``ip_local_reserved_ports``; empty when it is no range."""
    words = text.split()
    if len(words) != 2 or not all(word.isascii() and word.isdigit() and len(word) < 8 for word in words):
        return Ports()
    whole = range(int(words[0]), min(int(words[1]) + 1, PORTS))
    return Ports(whole, frozenset(port for port in numbers(reserved, most=PORTS) if port in whole))


def _address(digits: str) -> str:
    """An address as text: the kernel prints it in words of 32 bits, each in the machine's own order."""
    words = (int(digits[i : i + 8], 16).to_bytes(4, sys.byteorder) for i in range(0, len(digits), 8))
    address = ip_address(b"".join(words))
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return "" if address.is_unspecified else str(address)
