"""Who counts as one client."""

from __future__ import annotations

import ipaddress

_V6_NETWORK = 64


def network(address: str) -> str:
    """Whose connection this is: an address, or of IPv6 the network of 64 bits in which one host has them all."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(ipaddress.ip_network((found, _V6_NETWORK), strict=False))
    return address
