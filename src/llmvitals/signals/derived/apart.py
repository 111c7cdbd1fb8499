"""Reading telemetry that stands apart from the engine's page: GPUs, the host, the gateway.

It goes on where the engine's page does not: pages on which the engine failed count here, and a restart of the engine
ends nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from llmvitals.gaps import GapKind
from llmvitals.schema import origin_of
from llmvitals.series import Track
from llmvitals.signals.context import Context
from llmvitals.signals.derived.common import absent, missing
from llmvitals.signals.joined import measures
from llmvitals.signals.measure import track_growth
from llmvitals.signals.reading import Reading


def tracks(c: Context, name: str, **match: str) -> Iterator[Track]:
    """The series of a name over all pages, less what is no possible number."""
    for track in c.window.tracks(name, match):
        kept = [(t, v) for t, v in zip(track.times, track.values, strict=True) if 0.0 <= v < math.inf]
        if kept:
            yield Track(track.labels, tuple(t for t, _ in kept), tuple(v for _, v in kept))


def by_label(c: Context, name: str, label: str) -> dict[str, dict[float, float]]:
    """A gauge page by page (unix seconds to value) for each value of a label; where several share it, the highest."""
    found: dict[str, dict[float, float]] = {}
    for track in tracks(c, name):
        mine = found.setdefault(track.label(label), {})
        for t, v in zip(track.times, track.values, strict=True):
            mine[t] = max(v, mine.get(t, 0.0))
    return found


def total(c: Context, name: str, **match: str) -> dict[float, float]:
    """A gauge page by page (unix seconds to value), summed over its series; empty where there is none."""
    found: dict[float, float] = {}
    for track in tracks(c, name, **match):
        for t, v in zip(track.times, track.values, strict=True):
            found[t] = found.get(t, 0.0) + v
    return found


def grown(c: Context, name: str, **match: str) -> float | None:
    """By how much counters grew; None where the family is absent.

    A series that comes after its telemetry was first seen counts from 0: many are born with their first event.
    """
    if not c.window.tracks(name):
        return None
    began = first_seen(c, name)
    return sum(track_growth(track, born_after=began) for track in tracks(c, name, **match))


def first_seen(c: Context, name: str) -> float:
    """The moment of the first page that held anything of the telemetry which shows this family (unix seconds)."""
    origin = origin_of(name)
    starts = (t.times[0] for n in c.window.names() if measures(n, origin) for t in c.window.tracks(n))
    return min(starts, default=c.window.start)


def silent(c: Context, family: str) -> Reading:
    """Why a family is not there, where few sources show it: a joined page that says nothing of it raises no doubt."""
    told = missing(c, family)
    if told.gap is None or told.gap.kind is not GapKind.MISSING:
        return told
    return absent(GapKind.UNSUPPORTED, told.gap.why, family)
