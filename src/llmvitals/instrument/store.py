"""What the kit has counted: families of the contract by their labels, nothing of OpenTelemetry.

Counters and histograms begin at 0 as they are claimed; gauges are asked for as the page is read. One lock guards all of
it: calls may run in several event loops and threads.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from llmvitals.schema import BY_NAME, Kind

Labels = tuple[tuple[str, str], ...]
NONE: Labels = ()
Point = tuple[Labels, float]
Points = Iterable[Point]


@dataclass(slots=True)
class Distribution:
    """One classic histogram: counts by bucket (not cumulative; the last one is above every edge) and the sum."""

    counts: list[int]
    sum: float = 0.0


@dataclass(slots=True)
class Store:
    """``edges``: upper edges of the buckets by histogram family, rising."""

    edges: Mapping[str, tuple[float, ...]]
    counters: dict[str, dict[Labels, float]] = field(default_factory=dict)
    histograms: dict[str, dict[Labels, Distribution]] = field(default_factory=dict)
    gauges: dict[str, list[Callable[[], Points]]] = field(default_factory=dict)
    withheld: dict[str, Callable[[], bool]] = field(default_factory=dict)
    watchers: list[Callable[[str, Labels, float], None]] = field(default_factory=list)
    _untold: deque[tuple[str, Labels, float]] = field(default_factory=deque)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def claim(self, family: str, *labels: Labels) -> None:
        """Show a counter or histogram from now on, 0 with each of ``labels`` (without any: one series)."""
        with self.lock:
            if BY_NAME[family].kind is Kind.HISTOGRAM:
                here = self.histograms.setdefault(family, {})
                for each in labels or (NONE,):
                    here.setdefault(each, self._empty(family))
            else:
                counts = self.counters.setdefault(family, {})
                for each in labels or (NONE,):
                    counts.setdefault(each, 0.0)

    def unclaim(self, family: str, labels: Labels = NONE) -> None:
        """Take one series back that was claimed and never counted: it has other labels after all."""
        with self.lock:
            counts = self.counters.get(family, {})
            if counts.get(labels) == 0:
                del counts[labels]
            here = self.histograms.get(family, {})
            if labels in here and not any(here[labels].counts):
                del here[labels]

    def gauge(self, family: str, points: Callable[[], Points]) -> None:
        """Show an amount, asked for at each reading; several callers' points stand together."""
        with self.lock:
            self.gauges.setdefault(family, []).append(points)

    def add(self, family: str, n: float = 1, labels: Labels = NONE) -> None:
        """Count. A family that was never claimed is claimed by it."""
        with self.lock:
            counts = self.counters.setdefault(family, {})
            counts[labels] = counts.get(labels, 0.0) + n

    def observe(self, family: str, value: float, labels: Labels = NONE) -> None:
        """One more observation; a value at an edge lies in the bucket that ends there."""
        edges = self.edges[family]
        with self.lock:
            here = self.histograms.setdefault(family, {})
            found = here.get(labels)
            if found is None:
                found = here[labels] = self._empty(family)
            found.counts[bisect_left(edges, value)] += 1
            found.sum += value
        if self.watchers:
            self._untold.append((family, labels, value))

    def tell(self) -> None:
        """Pass observations on to who watches. Call it without the lock: a reader of theirs may ask for amounts meanwhile."""
        while self._untold:
            try:
                seen = self._untold.popleft()
            except IndexError:  # another thread was quicker
                return
            for watcher in self.watchers:
                watcher(*seen)

    def forget(self, label: tuple[str, str]) -> None:
        """Take every counter and histogram with this label from the page."""
        with self.lock:
            for families in (self.counters, self.histograms):
                for here in families.values():
                    for labels in [labels for labels in here if label in labels]:
                        del here[labels]

    def shown(self, family: str) -> bool:
        """Whether the family's numbers may be shown now."""
        check = self.withheld.get(family)
        return check is None or not check()

    def _empty(self, family: str) -> Distribution:
        return Distribution([0] * (len(self.edges[family]) + 1))
