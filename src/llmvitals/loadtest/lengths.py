"""Lengths of live requests, from an engine's histograms: counts between real edges, and draws that keep them.

Within a bucket only its edges are known. Drawn lengths spread evenly over a part of each bucket, the same part in all of them,
chosen so that their mean is the one that the engine counted.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from llmvitals.signals.measure import Hist


@dataclass(frozen=True, slots=True)
class Lengths:
    """``edges``: upper edges of the buckets (tokens), ``counts``: requests of each bucket alone, the open one last."""

    edges: tuple[float, ...]
    counts: tuple[float, ...]
    mean: float

    @classmethod
    def of(cls, found: Hist) -> Lengths | None:
        """Those of a histogram; None where it counted nothing."""
        if found.total <= 0 or found.mean is None or not found.edges:
            return None
        below = (0.0, *found.counts, found.total)
        return cls(found.edges, tuple(b - a for a, b in pairwise(below)), found.mean)

    @property
    def total(self) -> float:
        """Requests."""
        return sum(self.counts)

    @property
    def beyond(self) -> float:
        """Share of requests that are longer than the last edge; how much longer is not known."""
        return self.counts[-1] / self.total

    @property
    def longest(self) -> float:
        """The highest edge that requests lie below, or the last one where some lie beyond."""
        held = [edge for edge, count in zip(self.edges, self.counts, strict=False) if count > 0]
        return self.edges[-1] if self.beyond > 0 else held[-1]

    def _buckets(self) -> Iterator[tuple[float, float, float]]:
        """(lowest, highest, count) of the buckets that hold any, in whole tokens; the open one at its lowest."""
        lowest = 1.0
        for edge, count in zip((*self.edges, self.edges[-1] + 1), self.counts, strict=True):
            highest = max(lowest, math.floor(edge))
            if count > 0:
                yield lowest, highest, count
            lowest = highest + 1

    def draw(self, n: int, rng: random.Random) -> tuple[int, ...]:
        """``n`` lengths in an order of chance; of each bucket as many as its share, give or take one."""
        buckets = list(self._buckets())
        tail = self._tail(buckets)
        part = self._part(buckets, tail)
        drawn: list[int] = []
        owed = 0.0
        for index, (low, high, count) in enumerate(buckets):
            owed += n * count / self.total
            many = round(owed) - len(drawn)
            if tail is not None and index == len(buckets) - 1:
                drawn += [tail] * many
                continue
            width = high - low
            first, last = low + max(0.0, 2 * part - 1) * width, low + min(1.0, 2 * part) * width
            drawn += [round(first + (last - first) * (i + 0.5) / many) for i in range(many)]
        rng.shuffle(drawn)
        return tuple(drawn)

    def _tail(self, buckets: list[tuple[float, float, float]]) -> int | None:
        """What requests beyond the last edge have on average, as far as the mean of all tells; None where there are none."""
        if self.counts[-1] <= 0:
            return None
        inside = sum((low + high) / 2 * count for low, high, count in buckets[:-1])
        return max(math.floor(self.edges[-1]) + 1, round((self.mean * self.total - inside) / self.counts[-1]))

    def _part(self, buckets: list[tuple[float, float, float]], tail: int | None) -> float:
        """Where in its bucket a length lies on average (0 to 1), so that the mean of all comes out right."""
        inside = buckets if tail is None else buckets[:-1]
        wanted = self.mean * self.total - (0.0 if tail is None else tail * self.counts[-1])
        low, width = sum(b[0] * b[2] for b in inside), sum((b[1] - b[0]) * b[2] for b in inside)
        return min(1.0, max(0.0, (wanted - low) / width)) if width > 0 else 0.5
