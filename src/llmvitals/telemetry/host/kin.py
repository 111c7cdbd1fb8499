"""Which processes may share a socket with others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from llmvitals.telemetry.identity.model import Process

INIT = 1
"""The parent of all services and of every orphan: to have it in common says nothing."""


def relatives(holders: Iterable[Process], table: Mapping[int, Process]) -> frozenset[int]:
    """Processes that may have got a socket from one of these: parents, siblings, descendants, all of its container."""
    children: dict[int, list[int]] = {}
    containers: dict[str, list[int]] = {}
    for pid, process in table.items():
        children.setdefault(process.parent, []).append(pid)
        containers.setdefault(process.container, []).append(pid)
    found: set[int] = set()
    for holder in holders:
        found.update((holder.pid, holder.parent))
        found.update(children.get(holder.parent, ()) if holder.parent != INIT else ())
        found.update(containers.get(holder.container, ()) if holder.container else ())
        found.update(_below(holder.pid, children))
    return frozenset(found & table.keys())


def _below(pid: int, children: Mapping[int, list[int]]) -> set[int]:
    found: set[int] = set()
    below = [pid]
    while below:
        below = [child for parent in below for child in children.get(parent, ()) if child not in found]
        found.update(below)
    return found
