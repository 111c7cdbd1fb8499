"""Counters of promises kept and missed, from a page's histograms: what burn rates over hours are made of.

A histogram is cumulative, so the requests beyond the edge at or above a threshold are a counter as well: they certainly
missed it. What lies between the threshold and that edge counts as kept, so that no alert is ever raised by what nobody can know.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from llmvitals.remembered import remembered
from llmvitals.series import Labels, Series, Snapshot
from llmvitals.settings import Settings, Slo
from llmvitals.signals.edges import edge_spellings
from llmvitals.signals.promised import of_model

JUDGED = "llm_promise_requests_total"
MISSED = "llm_promise_missed_total"


@dataclass(frozen=True, slots=True, eq=False)
class _Promise:
    """What is promised of the requests that a histogram counts. ``threshold``: seconds, from what was promised."""

    objective: str
    family: str
    threshold: Callable[[Slo], float]


_PROMISES: tuple[_Promise, ...] = (
    _Promise("ttft", "llm_request_ttft_seconds", lambda slo: slo.ttft_seconds),
    _Promise("tpot", "llm_request_tpot_seconds", lambda slo: slo.tpot_seconds),
)
_BUCKETS = {f"{one.family}_bucket": one for one in _PROMISES}
_COUNTS = {f"{one.family}_count": one for one in _PROMISES}


@dataclass(slots=True)
class _Seen:
    """One histogram as it is collected. ``below``: upper edge in seconds to the requests up to it; ``count``: all of them."""

    below: dict[float, float] = field(default_factory=dict)
    count: float = math.nan


def counters(snapshot: Snapshot, settings: Settings) -> dict[Series, float]:
    """Both counters of each histogram on a page that was promised something; labels: the histogram's own, ``objective``
    (ttft, tpot), and on the second ``edge``, the edge in seconds beyond which it counts.

    The edge is the smallest at or above the threshold of that model. Neither counter is there where only the open bucket lies above
    it, for then nothing is certain, nor where the histogram contradicts itself. They start anew when the histogram does; another
    threshold has another ``edge``, and so a series of its own instead of a jump.
    """
    seen: dict[tuple[_Promise, Labels], _Seen] = {}
    for key, value in snapshot.samples.items():
        if (promise := _BUCKETS.get(key.name)) is not None:
            labels, edge = _apart(key.labels)
            below = seen.setdefault((promise, labels), _Seen()).below
            below[edge] = max(value, below.get(edge, value))  # of one edge in two spellings what accuses less
        elif (promise := _COUNTS.get(key.name)) is not None:
            seen.setdefault((promise, key.labels), _Seen()).count = value
    told: dict[Series, float] = {}
    for (promise, labels), one in seen.items():
        threshold = promise.threshold(of_model(settings, dict(labels).get("model", "")).slo)
        edge = min((edge for edge in one.below if threshold <= edge < math.inf), default=math.inf)
        # The open bucket before the count: where a page is read between two updates, buckets agree with each other.
        count = one.below.get(math.inf, one.count)
        if edge < math.inf and 0.0 <= one.below[edge] <= count < math.inf:  # none of it true of NaN
            judged, missed = _keys(promise.objective, labels, edge)
            told[judged], told[missed] = count, count - one.below[edge]
    return told


@remembered(1 << 15)
def _apart(labels: Labels) -> tuple[Labels, float]:
    """A bucket's labels without its edge, and the edge; one that is no number is none that any threshold finds."""
    rest = tuple(pair for pair in labels if pair[0] != "le")
    try:
        return rest, float(dict(labels).get("le", ""))
    except ValueError:
        return rest, math.nan


@remembered(1 << 12)
def _keys(objective: str, labels: Labels, edge: float) -> tuple[Series, Series]:
    judged = (*labels, ("objective", objective))
    missed = (*judged, ("edge", edge_spellings(edge)[0]))
    return Series(JUDGED, tuple(sorted(judged))), Series(MISSED, tuple(sorted(missed)))
