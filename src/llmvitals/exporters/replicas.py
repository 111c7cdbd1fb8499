"""The replicas of the newest cycle side by side, as ``/replicas`` shows them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from llmvitals.exporters.cycle import Cycle
from llmvitals.series import Snapshot
from llmvitals.settings import Settings
from llmvitals.triage.replica import Fleet, Replica, encode, is_replica, limits_of, replica, whole


def document(cycle: Cycle, settings: Settings) -> dict[str, Any]:
    """The JSON of :func:`llmvitals.triage.replica.encode`. A service is no replica: its engines are."""
    told = (scoped.verdict for scoped in cycle.scopes)
    services = tuple(whole(verdict) for verdict in told if verdict is not None and verdict.scope.get("engines"))
    return encode(Fleet(cycle.ended, cycle.window_seconds, limits_of(settings), tuple(_replicas(cycle)), services))


def _replicas(cycle: Cycle) -> Iterator[Replica]:
    pages: dict[str, Snapshot] = {}
    for snapshot in cycle.snapshots:
        for name in {key.label("instance") for key in snapshot.samples}:
            pages[name] = snapshot
    for scoped in cycle.scopes:
        page = pages.get(scoped.instance)
        if page is not None and is_replica((page,)):
            yield replica(scoped.instance, scoped.model, (page,), scoped.readings, scoped.verdict)
