"""Shares and medians with their 95 % confidence intervals, and the monotone fit of a calibration. Pure functions."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

Z = 1.959964
"""The standard normal's 97.5 % quantile."""
ONE_IN = 40
"""One in so many (2.5 %) lies beyond each end."""
RESAMPLES = 1000
"""Enough that 25 of them lie beyond each end of a percentile interval."""


@dataclass(frozen=True, slots=True)
class Share:
    """``hits`` of ``n``. Without any, nothing is known: no value, and an interval of all there is."""

    hits: int
    n: int

    @staticmethod
    def of(answers: Iterable[bool]) -> Share:
        """The share of the answers that are true."""
        given = list(answers)
        return Share(sum(given), len(given))

    @property
    def value(self) -> float | None:
        """The share itself (0 to 1), None of nothing."""
        return self.hits / self.n if self.n else None

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's score interval (E. B. Wilson, 1927): unlike the normal one it holds near 0 and 1 and for few answers."""
        if not self.n:
            return 0.0, 1.0
        half = Z * math.sqrt(self.hits * (self.n - self.hits) / self.n + Z * Z / 4) / (self.n + Z * Z)
        low, high = self.centre - half, self.centre + half
        return (low if self.hits else 0.0), (high if self.hits < self.n else 1.0)

    @property
    def centre(self) -> float:
        """The middle of Wilson's interval: the share drawn towards one half, by less the more answers there are."""
        return (self.hits + Z * Z / 2) / (self.n + Z * Z)


def resampled(groups: Sequence[Share], seed: int = 1) -> tuple[float, float] | None:
    """The 95 % interval of a share over groups whose answers depend on each other: a percentile bootstrap over the groups.

    As many groups are drawn as there are, with replacement, ``RESAMPLES`` times, and pooled (B. Efron and R. Tibshirani, An
    Introduction to the Bootstrap, 1993, section 13.3). None with fewer than two groups that have answers: they cannot differ.
    The same groups in the same order give the same interval.
    """
    given = [one for one in groups if one.n]
    if len(given) < 2:
        return None
    rng = random.Random(seed)
    drawn = (rng.choices(given, k=len(given)) for _ in range(RESAMPLES))
    shares = sorted(sum(one.hits for one in some) / sum(one.n for one in some) for some in drawn)
    beyond = RESAMPLES // ONE_IN
    return shares[beyond], shares[-1 - beyond]


@dataclass(frozen=True, slots=True)
class Median:
    """A median of ``n`` values with an interval of order statistics. ``math.inf`` stands for what never came."""

    n: int
    value: float | None
    low: float | None = None
    high: float | None = None


def median_of(values: Iterable[float | None]) -> Median:
    """The median, None counted as never (infinite), with the 95 % interval between two of the values themselves.

    The number of values below the true median is binomial(n, 1/2), whatever their distribution; the interval leaves at most
    2.5 % on each side (H. A. David, Order Statistics, section 7.1). Below six values no two of them do, and there is none.
    """
    ordered = sorted(math.inf if value is None else value for value in values)
    n = len(ordered)
    if not n:
        return Median(0, None)
    cut = _cut(n)
    ends = (ordered[cut - 1], ordered[n - cut]) if cut else (None, None)
    return Median(n, median(ordered), *ends)


def _cut(n: int) -> int:
    """The largest rank (from 1) with P(fewer than so many of n values lie below the median) <= 2.5 %; 0: none."""
    below, all_of_them, k = 0, 2**n, 0
    while True:
        below += math.comb(n, k)
        if below * ONE_IN > all_of_them:
            return k
        k += 1


def monotone(points: Sequence[tuple[float, Share]]) -> tuple[tuple[float, float], ...]:
    """The rising step function nearest to shares at their places, by pool-adjacent-violators (Ayer et al., 1955).

    ``points``: (place, share there), each with answers. Gives (place, fitted share), in order of place: neighbours that fall
    are pooled until none does.
    """
    blocks: list[tuple[list[float], int, int]] = []
    for place, share in sorted(points, key=lambda point: point[0]):
        places, hits, n = [place], share.hits, share.n
        while blocks and blocks[-1][1] * n > hits * blocks[-1][2]:
            before, more_hits, more = blocks.pop()
            places, hits, n = [*before, *places], hits + more_hits, n + more
        blocks.append((places, hits, n))
    return tuple((place, hits / n) for places, hits, n in blocks for place in places)
