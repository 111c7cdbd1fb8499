"""What derived signals measure on a window: sums per page, growth of counters, histograms of the window's observations.

Unlike the algebra these count exactly what happened between the first and the last page: nothing is extrapolated to the
window's edges, and a series born inside the window (vLLM's HTTP series appear with their first request) counts from 0 when
an earlier page of the same process lacked it.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from llmvitals.series import Track, Window


@dataclass(frozen=True, slots=True)
class Line:
    """One number per page: ``times`` (unix seconds) and ``values``, in order of time."""

    times: tuple[float, ...]
    values: tuple[float, ...]

    @property
    def last(self) -> float:
        """The newest value."""
        return self.values[-1]

    def after(self, moment: float) -> Line:
        """The part at or after a moment."""
        kept = [(t, v) for t, v in zip(self.times, self.values, strict=True) if t >= moment]
        return Line(tuple(t for t, _ in kept), tuple(v for _, v in kept))


@dataclass(frozen=True, slots=True)
class Hist:
    """A histogram of what happened in the window: finite ``edges`` ascending, cumulative ``counts`` at them, all in
    base units.

    ``total`` counts the observations, ``sum`` adds them up.
    """

    edges: tuple[float, ...]
    counts: tuple[float, ...]
    total: float
    sum: float

    @property
    def mean(self) -> float | None:
        """Mean observation; None without observations."""
        return self.sum / self.total if self.total > 0 else None

    def at_most(self, bound: float) -> tuple[float, float]:
        """Observations surely at or below ``bound``, and at most so many: counts at the real edges below and above it."""
        i = bisect_left(self.edges, bound)
        for edge, count in zip(self.edges[max(0, i - 1) : i + 1], self.counts[max(0, i - 1) : i + 1], strict=True):
            if math.isclose(edge, bound, rel_tol=1e-9):
                return count, count
        above = self.counts[i] if i < len(self.edges) else self.total
        return (self.counts[i - 1] if i > 0 else 0.0), above

    def bucket(self, q: float) -> tuple[float, float] | None:
        """The real edges around quantile ``q``: (lower, upper), upper ``inf`` in the open bucket; None when empty."""
        if self.total <= 0:
            return None
        i = bisect_left(self.counts, q * self.total)
        if i >= len(self.edges):
            return (self.edges[-1] if self.edges else 0.0), math.inf
        return (self.edges[i - 1] if i > 0 else 0.0), self.edges[i]

    def quantile(self, q: float) -> float | None:
        """Quantile ``q`` interpolated inside its bucket (estimate); in the open bucket its lower edge; None when empty."""
        found = self.bucket(q)
        if found is None:
            return None
        low, high = found
        if math.isinf(high):
            return low
        i = self.edges.index(high)
        below = self.counts[i - 1] if i > 0 else 0.0
        return low + (high - low) * (q * self.total - below) / (self.counts[i] - below)

    @property
    def open_count(self) -> float:
        """Observations above the last finite edge."""
        return self.total - (self.counts[-1] if self.counts else 0.0)


def line(window: Window, name: str, match: Mapping[str, str] | None = None, *, peak: bool = False) -> Line | None:
    """Sum (or with ``peak`` the maximum) over the series of a name, page by page; None when the name is absent."""
    return total(window.tracks(name, match), peak=peak)


def total(tracks: tuple[Track, ...], *, peak: bool = False) -> Line | None:
    """Sum (or with ``peak`` the maximum) over series, page by page; None when there is none."""
    if not tracks:
        return None
    merged: dict[float, float] = {}
    for track in tracks:
        for t, v in zip(track.times, track.values, strict=True):
            if t not in merged:
                merged[t] = v
            else:
                merged[t] = max(merged[t], v) if peak else merged[t] + v
    moments = tuple(sorted(merged))
    return Line(moments, tuple(merged[t] for t in moments))


def beside(*lines: Line) -> Iterator[tuple[float, ...]]:
    """The values of several numbers on the pages that show them all, in order of time: a page may lack one of them."""
    known = [dict(zip(one.times, one.values, strict=True)) for one in lines]
    for t in lines[0].times:
        if all(t in one for one in known):
            yield tuple(one[t] for one in known)


def track_growth(track: Track, *, born_after: float | None) -> float:
    """By how much one counter grew: steps added up, a step down counted as a restart from 0.

    ``born_after``: the moment of an earlier page that lacked the series; its first value then counts whole.
    """
    total = track.values[0] if born_after is not None and track.times[0] > born_after else 0.0
    for before, now in zip(track.values, track.values[1:], strict=False):
        total += now - before if now >= before else now
    return total


def growth(window: Window, name: str, match: Mapping[str, str] | None = None) -> float | None:
    """By how much the counters of a name grew in the window; None when the name is absent."""
    tracks = window.tracks(name, match)
    if not tracks:
        return None
    return sum(grown for _, grown in _each(tracks, window))


def growth_by(window: Window, name: str, label: str, match: Mapping[str, str] | None = None) -> dict[str, float] | None:
    """By how much the counters of a name grew in the window, for each value of a label; None when the name is absent."""
    tracks = window.tracks(name, match)
    if not tracks:
        return None
    found: dict[str, float] = {}
    for track, grown in _each(tracks, window):
        value = track.label(label)
        found[value] = found.get(value, 0.0) + grown
    return found


def _each(tracks: tuple[Track, ...], window: Window) -> Iterator[tuple[Track, float]]:
    """Every series of a family with its growth; one that comes later than the first page was born in the window.

    But a page that shows the family for one rank or model and not for another hid that one: its past is not ours.
    """
    first = window.snapshots[0].t
    shown = {(t.label("model"), t.label("rank")) for t in tracks if t.times[0] == first}
    for track in tracks:
        born = not shown or (track.label("model"), track.label("rank")) in shown
        yield track, track_growth(track, born_after=first if born else None)


def hist(window: Window, family: str, keep: Callable[[Track], bool] | None = None) -> Hist | None:
    """The histogram of a family's observations in the window, its buckets summed over all series, or those to ``keep``.

    None when the family is absent, or not whole: without its sum no mean could be told from 0.
    """
    buckets, totals = window.tracks(f"{family}_bucket"), window.tracks(f"{family}_sum")
    if not buckets or not totals:
        return None
    summed = sum(grown for track, grown in _each(totals, window) if keep is None or keep(track))
    sums: dict[float, float] = {}
    for track, grown in _each(buckets, window):
        if keep is not None and not keep(track):
            continue
        edge = float(track.label("le", "nan"))
        sums[edge] = sums.get(edge, 0.0) + grown
    edges = tuple(sorted(e for e in sums if math.isfinite(e)))
    running, counts = 0.0, []
    for edge in edges:  # a scrape can catch buckets between two updates: keep them monotone
        running = max(running, sums[edge])
        counts.append(running)
    total = sums.get(math.inf, running)
    return Hist(edges, tuple(counts), max(total, running), summed)


def totals(window: Window, family: str) -> Hist | None:
    """Number and sum of a family's observations in the window, with its buckets or without: enough for a mean, and for
    nothing else. None where either is absent.
    """
    whole = hist(window, family)
    if whole is not None:
        return whole
    summed, number = growth(window, f"{family}_sum"), growth(window, f"{family}_count")
    return None if summed is None or number is None else Hist((), (), number, summed)


def steps(line_: Line) -> tuple[float, ...]:
    """Growth between neighbouring pages, a step down counted as a restart from 0."""
    return tuple(b - a if b >= a else b for a, b in zip(line_.values, line_.values[1:], strict=False))


def percentile(values: tuple[float, ...], q: float) -> float:
    """Quantile ``q`` (0-1) of plain values, nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, math.ceil(q * len(ordered)) - 1))]


SUMMED = 10_000
"""Trials up to which a binomial tail is summed term by term; beyond, that takes long and says nothing more."""


def binomial_tail(bad: int, n: int, p: float) -> float:
    """P(X >= bad) for X ~ Binomial(n, p): how likely so many breaches are when the promise is just kept.

    Beyond :data:`SUMMED` trials by the normal approximation of Peizer and Pratt (Journal of the American Statistical
    Association 63, 1968, page 1416), which costs the same for any number: the counts are the page's, and may be anything.
    """
    if bad <= 0:
        return 1.0
    if bad > n:
        return 0.0
    if n > SUMMED and 0.0 < p < 1.0:
        return _tail_of_many(bad, n, p)
    log_p, log_q = math.log(p), math.log1p(-p)
    terms = (
        math.exp(math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) + k * log_p + (n - k) * log_q)
        for k in range(bad, n + 1)
    )
    return min(1.0, math.fsum(terms))


def _tail_of_many(bad: int, n: int, p: float) -> float:
    q, few, many = 1.0 - p, bad - 1, n - bad + 1
    away = few + 2 / 3 - (n + 1 / 3) * p + 0.02 * (q / (few + 1) - p / many + (q - 0.5) / (n + 1))
    skewed = 1.0 + q * _skew((few + 0.5) / (n * p)) + p * _skew((many - 0.5) / (n * q))
    z = away * math.sqrt(max(0.0, skewed) / ((n + 1 / 6) * p * q))
    return 0.5 * math.erfc(z / math.sqrt(2.0))


def _skew(x: float) -> float:
    """Peizer and Pratt's g(x) = (1 - x^2 + 2 x ln x) / (1 - x)^2; near 1 by its series, where nothing of it would be left."""
    away = x - 1.0
    if abs(away) < 1e-3:
        return away * (-1 / 3 + away * (1 / 6 - away / 10))
    return (1.0 - x * x + 2.0 * x * math.log(x)) / (away * away)


def mann_kendall_z(values: tuple[float, ...]) -> float:
    """Mann-Kendall trend statistic, ties corrected: above 3 a rise is no chance. 0 for fewer than 4 values."""
    n = len(values)
    if n < 4:
        return 0.0
    s = sum((b > a) - (b < a) for i, a in enumerate(values) for b in values[i + 1 :])
    ties: dict[float, int] = {}
    for v in values:
        ties[v] = ties.get(v, 0) + 1
    variance = (n * (n - 1) * (2 * n + 5) - sum(c * (c - 1) * (2 * c + 5) for c in ties.values())) / 18
    if variance <= 0 or s == 0:
        return 0.0
    return (s - math.copysign(1, s)) / math.sqrt(variance)
