"""Short ways to say a number or a gap."""

from __future__ import annotations

from llmvitals.gaps import Gap, GapKind
from llmvitals.signals.context import Context
from llmvitals.signals.measure import Hist
from llmvitals.signals.reading import Reading, Standing


def number(value: float, standing: Standing = Standing.EXACT, note: str = "") -> Reading:
    """A known number."""
    return Reading(value, standing=standing, note=note)


def absent(kind: GapKind, why: str, series: str = "") -> Reading:
    """No number, and why."""
    return Reading(None, gap=Gap(kind, why, series))


def missing(c: Context, family: str) -> Reading:
    """No number because a family is not there, in the source's own words where it gave some."""
    return Reading(None, gap=c.gap(family))


def no_traffic(what: str) -> Reading:
    """No number because nothing of the kind happened in the window."""
    return absent(GapKind.NO_TRAFFIC, f"no {what} in the window")


STALL_SHARE = 0.5
"""A page that took this share of the TTFT threshold to come: the API process was stalled, and so were its clients."""


def longest_answer(c: Context) -> float:
    """Longest time in which the API process answered with its page (seconds)."""
    return max(c.answers, default=0.0)


def spread(h: Hist | None, c: Context, family: str, high_q: float, low_q: float) -> Reading:
    """How many times the high quantile exceeds the low one, at least: lower edge over upper edge, never interpolated."""
    if h is None:
        return missing(c, family)
    high, low = h.bucket(high_q), h.bucket(low_q)
    if high is None or low is None:
        return no_traffic("observations")
    return number(high[0] / low[1], Standing.LOWER, f"bucket {high[0]:g}.. over ..{low[1]:g}")
