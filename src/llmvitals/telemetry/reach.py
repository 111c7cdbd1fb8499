"""Which addresses are asked. Those of a machine's own link and of cloud metadata services are not: whoever makes us ask there,
by an annotation, a redirect or a name that changes its address, gets the machine's own credentials or moves within the host.

The address that is connected to counts, not the name: a name is resolved once, and what it gave is both looked at and used.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

import urllib3

Network = IPv4Network | IPv6Network

REFUSED: tuple[Network, ...] = tuple(
    map(
        ip_network,
        (
            "169.254.0.0/16",  # link-local, RFC 3927; metadata of AWS, Azure, Google Cloud, OpenStack, Oracle, and of ECS tasks
            "fe80::/10",  # link-local, RFC 4291
            "fd00:ec2::/32",  # AWS' own services for an instance: metadata (::254), pod identity (::23)
            "fd20:ce::254/128",  # Google Cloud's metadata server over IPv6
            "100.100.100.200/32",  # Alibaba Cloud's metadata
            "168.63.129.16/32",  # Azure's WireServer
            "192.0.0.192/32",  # Oracle Cloud Classic's metadata
        ),
    )
)
"""What is refused unless a target's ``access.allow_addresses`` names it."""

_TRANSLATED = ip_network("64:ff9b::/96")
"""NAT64 (RFC 6052): the last four bytes are an address of IPv4."""


class RefusedAddressError(urllib3.exceptions.HTTPError):
    """A connection that would have gone where nothing is asked."""

    def __init__(self, address: str) -> None:
        self.address = address
        super().__init__(
            f"its address {address} is link-local or a cloud's metadata service, where nothing is asked unless "
            "access.allow_addresses names it"
        )


@dataclass(frozen=True, slots=True)
class Reach:
    """Where a call may go beside the usual; ``everywhere``: where the address is the operator's own and nobody else's word."""

    allowed: tuple[Network, ...] = ()
    everywhere: bool = False

    def refuses(self, address: str) -> bool:
        """Whether nothing is asked at this address, given in digits."""
        return not self.everywhere and _refused(address, self.allowed)


USUAL = Reach()
ANYWHERE = Reach(everywhere=True)


@lru_cache(maxsize=64)
def reach_of(allowed: tuple[str, ...]) -> Reach:
    """The reach of an access that allows these networks, in the forms that the settings take."""
    return Reach(tuple(map(ip_network, allowed))) if allowed else USUAL


@lru_cache(maxsize=1024)
def _refused(address: str, allowed: tuple[Network, ...]) -> bool:
    try:
        found = _plain(address)
    except ValueError:  # no address of IP, as of a Unix socket
        return False
    return any(found in one for one in REFUSED) and not any(found in one for one in allowed)


def _plain(address: str) -> IPv4Address | IPv6Address:
    """The address without its zone; one of IPv4 that is written or translated as IPv6 as what it is."""
    found = ip_address(address.partition("%")[0])
    if isinstance(found, IPv6Address):
        if found.ipv4_mapped is not None:
            return found.ipv4_mapped
        if found.sixtofour is not None:
            return found.sixtofour
        if found in _TRANSLATED:
            return IPv4Address(found.packed[-4:])
    return found
