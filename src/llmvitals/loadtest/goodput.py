"""How many requests of a run kept both promises: exactly, or between two bounds, and with what sampling noise.

From percentiles alone the requests that keep both promises are bounded by those that keep each: of m, at least a + b - m
and at most min(a, b) (Frechet 1935). A failed request keeps none.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from llmvitals.loadtest.model import Percentiles, Request, Run, Span

Z = 1.96
"""Standard errors on each side of an interval that holds in 95 of 100 tests."""

Count = tuple[int, int]
"""At least, at most."""


@dataclass(frozen=True, slots=True)
class Promises:
    """What users were promised (seconds)."""

    ttft: float
    tpot: float


@dataclass(frozen=True, slots=True)
class Kept:
    """Of ``ended`` requests, how many kept each promise and both."""

    ended: int
    ttft: Count
    tpot: Count
    both: Count

    @property
    def exact(self) -> bool:
        """Whether the file settles how many kept both."""
        return self.both[0] == self.both[1]


def kept(run: Run, promises: Promises) -> Kept:
    """The requests of a run that kept the promises."""
    if run.requests is not None:
        ended = [one for one in run.requests if not one.failed]
        return Kept(
            run.ended,
            _count(ended, lambda one: _within(one.ttft, promises.ttft)),
            _count(ended, lambda one: _within(one.tpot, promises.tpot)),
            _count(ended, lambda one: _both(one, promises)),
        )
    ttft = at_most(run.ttft, run.succeeded, promises.ttft)
    tpot = at_most(run.tpot, run.succeeded, promises.tpot)
    both = max(0, ttft[0] + tpot[0] - run.succeeded), min(ttft[1], tpot[1])
    return Kept(run.ended, ttft, tpot, both)


def _within(span: Span, bound: float) -> tuple[bool, bool]:
    """Whether a time surely, and whether it possibly, lies within a bound."""
    return span[1] <= bound, span[0] <= bound


def _both(one: Request, promises: Promises) -> tuple[bool, bool]:
    first, pace = _within(one.ttft, promises.ttft), _within(one.tpot, promises.tpot)
    return first[0] and pace[0], first[1] and pace[1]


def _count(requests: list[Request], ask: Callable[[Request], tuple[bool, bool]]) -> Count:
    answers = [ask(one) for one in requests]
    return sum(sure for sure, _ in answers), sum(possible for _, possible in answers)


def at_most(measure: Percentiles, n: int, bound: float) -> Count:
    """Of n values, at least and at most how many lie at or below ``bound``.

    Percentiles are taken as interpolated between two neighbours (numpy's default) or as the nearest rank, whichever says less.
    """
    least, most = 0, n
    for q, value in measure.points:
        if value <= bound:
            least = max(least, min(math.floor((n - 1) * q + 1e-9) + 1, math.ceil(n * q - 1e-9)))
        else:
            most = min(most, max(math.ceil((n - 1) * q - 1e-9), math.ceil(n * q - 1e-9) - 1))
    if measure.high is not None and measure.high <= bound:
        least = n
    if measure.low is not None and measure.low > bound:
        most = 0
    return max(0, min(least, most)), max(0, most)


def wilson(good: int, n: int) -> tuple[float, float]:
    """The share that ``good`` of n stands for, with its 95 % interval (Wilson 1927, "Probable inference")."""
    if n == 0:
        return 0.0, 1.0
    share, grown = good / n, Z * Z / n
    middle = (share + grown / 2) / (1 + grown)
    half = Z * math.sqrt(share * (1 - share) / n + grown / (4 * n)) / (1 + grown)
    return (0.0 if good == 0 else max(0.0, middle - half)), (1.0 if good == n else min(1.0, middle + half))
