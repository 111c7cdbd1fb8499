"""The arithmetic of Prometheus 2 on one series' points, so that a number computed in memory equals the one queried.

Source: Prometheus 2.42, ``promql/functions.go`` and ``promql/quantile.go`` (behaviour, re-told here). Times are whole
milliseconds, as in Prometheus; values are IEEE floats, so NaN and infinities follow its rules too.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence

from llmvitals.signals.algebra import Op

NAN = math.nan
EXTRAPOLATION_LIMIT = 1.1
"""A range edge further away than this many mean sample distances is not extrapolated to (``extrapolatedRate``)."""

Points = Sequence[tuple[int, float]]
"""(milliseconds, value) in order of time."""


def divide(part: float, whole: float) -> float:
    """IEEE division: x/0 is an infinity, 0/0 is NaN, instead of an exception."""
    if whole == 0.0:
        return NAN if part == 0.0 or math.isnan(part) else math.copysign(math.inf, part) * math.copysign(1.0, whole)
    return part / whole


OPERATORS: dict[Op, Callable[[float, float], float]] = {
    Op.ADD: operator.add,
    Op.SUB: operator.sub,
    Op.MUL: operator.mul,
    Op.DIV: divide,
}


def increase(points: Points, start: int, end: int) -> float:
    """Growth of one counter over [start, end] as ``increase()`` gives it; needs two points or more.

    Every fall is a reset and adds the value before it. The growth between the first and last point is then extended
    to the range's edges: wholly where an edge is nearer than 1.1 mean sample distances, else by half a distance, and
    at the start never to before the moment at which the counter would have been 0.
    """
    growth = _growth(points)
    return growth * _extension(points, start, end, growth)


def rate(points: Points, start: int, end: int) -> float:
    """:func:`increase` per second of the range, as ``rate()`` gives it."""
    growth = _growth(points)
    return growth * divide(_extension(points, start, end, growth), (end - start) / 1000)


def _growth(points: Points) -> float:
    growth, before = points[-1][1] - points[0][1], 0.0
    for _, value in points:
        if value < before:
            growth += before
        before = value
    return growth


def _extension(points: Points, start: int, end: int, growth: float) -> float:
    (first_t, first), (last_t, _) = points[0], points[-1]
    sampled = (last_t - first_t) / 1000
    step = sampled / (len(points) - 1)
    to_start, to_end = (first_t - start) / 1000, (end - last_t) / 1000
    if growth > 0 and first >= 0:
        to_start = min(to_start, sampled * (first / growth))
    limit = step * EXTRAPOLATION_LIMIT
    covered = sampled + sum(edge if edge < limit else step / 2 for edge in (to_start, to_end))
    return divide(covered, sampled)


def largest(values: Sequence[float]) -> float:
    """The maximum; NaN only where every value is NaN."""
    return max((v for v in values if not math.isnan(v)), default=NAN)


def smallest(values: Sequence[float]) -> float:
    """The minimum; NaN only where every value is NaN."""
    return min((v for v in values if not math.isnan(v)), default=NAN)


def average(values: Sequence[float]) -> float:
    """The arithmetic mean; NaN is contagious."""
    return sum(values) / len(values)


def quantile(q: float, values: Sequence[float]) -> float:
    """Quantile of plain values, interpolated between neighbours; NaN values sort first (``quantile_over_time``)."""
    if not 0 <= q <= 1:
        return math.copysign(math.inf, q) if not math.isnan(q) else NAN
    ordered = sorted(values, key=lambda v: (not math.isnan(v), v))
    rank = q * (len(ordered) - 1)
    lower = math.floor(rank)
    upper = min(len(ordered) - 1, lower + 1)
    weight = rank - lower
    return ordered[lower] * (1 - weight) + ordered[upper] * weight


def slope(points: Points) -> float:
    """Least-squares slope per second (``deriv``); needs two points or more."""
    if all(value == points[0][1] for _, value in points):
        return NAN if math.isinf(points[0][1]) else 0.0
    n = len(points)
    xs = [(t - points[0][0]) / 1000 for t, _ in points]
    ys = [value for _, value in points]
    sum_x, sum_y = sum(xs), sum(ys)
    covariance = sum(x * y for x, y in zip(xs, ys, strict=True)) - sum_x * sum_y / n
    return divide(covariance, sum(x * x for x in xs) - sum_x * sum_x / n)


def bucket_quantile(q: float, buckets: Sequence[tuple[float, float]]) -> tuple[float, float, float]:
    """Quantile of a histogram from (upper bound, cumulative count), with the edges of the bucket it fell into.

    As ``histogram_quantile`` of 2.42: NaN without a ``+Inf`` bucket, with fewer than two buckets, or without
    observations; a count below its predecessor is lifted to it; in the ``+Inf`` bucket the last finite bound comes
    (its upper edge is then infinite); the first bucket starts at 0 unless its bound is 0 or less.
    """
    if len(buckets) < 2 or not math.isinf(buckets[-1][0]):
        return NAN, NAN, NAN
    counts = _monotonic([count for _, count in buckets])
    rank = q * counts[-1]
    if counts[-1] == 0:
        return NAN, NAN, NAN
    found = _first_reaching(counts[:-1], rank)
    if found == len(buckets) - 1:
        return buckets[-2][0], buckets[-2][0], math.inf
    high = buckets[found][0]
    if found == 0:
        return (high, -math.inf, high) if high <= 0 else (high * divide(rank, counts[0]), 0.0, high)
    low, below = buckets[found - 1][0], counts[found - 1]
    return low + (high - low) * divide(rank - below, counts[found] - below), low, high


def _monotonic(counts: list[float]) -> list[float]:
    highest = counts[0]
    for i, count in enumerate(counts):
        if count > highest:
            highest = count
        elif count < highest:
            counts[i] = highest
    return counts


def _first_reaching(counts: Sequence[float], rank: float) -> int:
    """Binary search as Go's ``sort.Search`` does it: with a NaN among the counts the steps matter."""
    low, high = 0, len(counts)
    while low < high:
        middle = (low + high) // 2
        if counts[middle] >= rank:
            high = middle
        else:
            low = middle + 1
    return low
