"""A classic histogram that we count ourselves, and the samples that it is on a page."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

from llmvitals.remembered import remembered
from llmvitals.series import Exemplar, Labels, Series, series


@dataclass(slots=True)
class Histogram:
    """One histogram with the newest observation of each bucket. ``counts``: of each bucket alone, the open one last."""

    edges: tuple[float, ...]
    counts: list[int]
    newest: list[Exemplar | None]
    total: float = 0.0

    @classmethod
    def over(cls, edges: tuple[float, ...]) -> Histogram:
        """An empty one. ``edges``: inclusive upper edges, rising, without the open bucket's."""
        return cls(edges, [0] * (len(edges) + 1), [None] * (len(edges) + 1))

    def add(self, value: float, t: float = 0.0, trace_id: str = "") -> None:
        """Count one observation, made at ``t`` (unix seconds); one of no trace is nobody's exemplar."""
        at = bisect_left(self.edges, value)
        self.counts[at] += 1
        self.total += value
        before = self.newest[at]
        if trace_id and (before is None or t >= before.t):
            self.newest[at] = Exemplar(value, t, trace_id)

    def show(self, name: str, labels: Labels, samples: dict[Series, float], exemplars: dict[Series, Exemplar]) -> None:
        """Add its samples and exemplars."""
        *buckets, total, count = _keys(name, labels, self.edges)
        below = 0
        for key, own, newest in zip(buckets, self.counts, self.newest, strict=True):
            below += own
            samples[key] = float(below)
            if newest is not None:
                exemplars[key] = newest
        samples[total] = self.total
        samples[count] = float(below)


def _le(edge: float) -> str:
    """An edge as text that reads back as the same number."""
    short = f"{edge:g}"
    return short if float(short) == edge else repr(edge)


@remembered(8192)
def _keys(name: str, labels: Labels, edges: tuple[float, ...]) -> tuple[Series, ...]:
    """The series of a histogram: its buckets, the open one last, its sum, its count."""
    buckets = (series(f"{name}_bucket", **dict(labels), le=le) for le in (*map(_le, edges), "+Inf"))
    return (*buckets, Series(f"{name}_sum", labels), Series(f"{name}_count", labels))
