"""Counters of promises kept and missed, from a page's histograms: what burn rates over hours are made of.

A histogram is cumulative, so the requests beyond the edge at or above a threshold are a counter as well: they certainly missed it. What lies
between the threshold and that edge counts as kept, so that no alert is ever raised by what nobody can know.
"""

from __future__ import annotations

from llmvitals.series import Series, Snapshot
from llmvitals.settings import Settings

JUDGED = "llm_promise_requests_total"
MISSED = "llm_promise_missed_total"


def counters(snapshot: Snapshot, settings: Settings) -> dict[Series, float]:
    """Both counters of each histogram on a page that was promised something; labels: the histogram's own, ``objective`` (ttft, tpot), and
    on the second ``edge``, the edge in seconds beyond which it counts.
    """
    raise NotImplementedError
