"""Network addresses as text in one form, whoever wrote them."""

from __future__ import annotations

import ipaddress

LOOPBACK_NAMES = frozenset({"localhost", "ip6-localhost", "localhost.localdomain"})


def address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address without brackets and zone, an IPv4 one that came over IPv6 as IPv4; None for a name."""
    try:
        found = ipaddress.ip_address(text.strip("[]").partition("%")[0])
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return mapped or found


def is_loopback(host: str) -> bool:
    """Whether an address, or one of the names that every machine has for itself, leads to this machine alone."""
    found = address(host)
    return host.lower() in LOOPBACK_NAMES if found is None else found.is_loopback
