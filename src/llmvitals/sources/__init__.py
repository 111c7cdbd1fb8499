"""Where snapshots come from: live scrapes, recordings, page files, PromQL endpoints, and our own exporter."""

from __future__ import annotations

from dataclasses import dataclass

from llmvitals.series import Snapshot


@dataclass(frozen=True, slots=True)
class Observed:
    """What was seen of one target. ``kind``: its engine (or ``dcgm``); ``snapshots``: in order of time.

    ``engines``: of a service, the targets that it is made of.
    """

    name: str
    kind: str
    snapshots: tuple[Snapshot, ...]
    engines: tuple[str, ...] = ()
