"""Processes that hold a port only to hand its connections into a container: the engine behind one listens elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

from llmvitals.telemetry.identity.model import Process

FORWARDERS = frozenset({"docker-proxy", "rootlessport", "slirp4netns", "pasta", "pasta.avx2", "gvproxy"})
"""Names of the proxies of Docker (moby, cmd/docker-proxy) and of rootless Podman."""

_TO_ADDRESS, _TO_PORT = "-container-ip", "-container-port"


@dataclass(frozen=True, slots=True)
class Behind:
    """Where a forwarder hands its connections to; '' and 0 where its command does not tell."""

    address: str = ""
    port: int = 0


def behind(process: Process) -> Behind | None:
    """Where a process forwards to; None when it is no forwarder."""
    if process.name not in FORWARDERS:
        return None
    told = {name.replace("--", "-"): value for name, value in zip(process.command, process.command[1:], strict=False)}
    port = told.get(_TO_PORT, "")
    valid = port.isascii() and port.isdigit() and len(port) < 6
    return Behind(told.get(_TO_ADDRESS, ""), int(port)) if valid else Behind()


def local_addresses(text: str) -> frozenset[str]:
    """The IPv4 addresses of a network namespace, from ``/proc/PID/net/fib_trie``."""
    found, last = set(), ""
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["|--"] and len(words) > 1:
            last = words[1]
        elif words == ["/32", "host", "LOCAL"]:
            found.add(last)
    return frozenset(found)
