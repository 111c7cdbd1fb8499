"""How far back a seldom-scraped server must be asked: a verdict needs a number of pages, whatever their interval.

A Prometheus that scrapes once a minute holds one page of the last minute, on which nothing can be judged.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from llmvitals.sources import Observed

MOST_SECONDS = 900.0
"""Farther back than this is another situation: what is scraped every three minutes and more cannot be judged."""

WIDER = 5.0
"""So many times the window is looked at where it holds too few pages to tell how often they come."""

SLACK = 0.5
"""Scrapes jitter, and some fail: half an interval more."""

LATE = 1.5
"""A target whose newest page is older than so many intervals is gone, and must not be brought back by looking farther."""


def interval(times: Sequence[float]) -> float:
    """The usual time between pages at these moments (unix seconds, in order); 0 of less than two."""
    return statistics.median(b - a for a, b in pairwise(times)) if len(times) > 1 else 0.0


def far_enough(times: Sequence[float], seconds: float, pages: int) -> float:
    """The length of a window (seconds) that holds so many ``pages`` which come as at these moments (unix seconds, in order).

    Never less than ``seconds``, and never more than :data:`MOST_SECONDS` unless that is.
    """
    return max(seconds, min(MOST_SECONDS, interval(times) * (pages + SLACK)))


def reaching(
    ask: Callable[[float], Sequence[Observed]], seconds: float, pages: int, end: float
) -> tuple[tuple[Observed, ...], float]:
    """What is stored up to ``end`` (unix seconds), asked so far back that the target with most pages has ``pages``, and how far.

    ``ask`` is called with a number of seconds, at most three times, and once where that brings nothing at all. Where ``seconds``
    are enough, or more bring nothing, they are kept.
    """
    first = tuple(ask(seconds))
    if not first or pages <= _most(first) or seconds >= MOST_SECONDS:
        return first, seconds
    wider = min(MOST_SECONDS, seconds * WIDER)
    found = tuple(ask(wider))
    span = max((far_enough(_times(one), seconds, pages) for one in _shortest(found)), default=seconds)
    if span > wider:
        found = tuple(ask(span))
    found = tuple(_since(one, end - span) for one in there(found, end))
    return (found, span) if _most(found) > _most(first) else (first, seconds)


def there(found: Iterable[Observed], end: float) -> tuple[Observed, ...]:
    """Those that are still scraped at ``end`` (unix seconds), as far as their newest pages tell."""
    return tuple(one for one in found if _there(one, end))


def _times(one: Observed) -> list[float]:
    return [page.t for page in one.snapshots]


def _most(found: Iterable[Observed]) -> int:
    return max((len(one.snapshots) for one in found), default=0)


def _shortest(found: Sequence[Observed]) -> tuple[Observed, ...]:
    """The target whose pages come most often: who is scraped more seldom beside it does not lengthen its window."""
    known = [one for one in found if len(one.snapshots) > 1]
    return (min(known, key=lambda one: interval(_times(one))),) if known else ()


def _since(one: Observed, start: float) -> Observed:
    return replace(one, snapshots=tuple(page for page in one.snapshots if page.t >= start))


def _there(one: Observed, end: float) -> bool:
    times = _times(one)
    return bool(times) and times[-1] >= end - LATE * max(interval(times), 1.0)
