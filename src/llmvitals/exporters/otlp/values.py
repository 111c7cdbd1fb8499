"""A cycle's values as OTLP would say them. They come from the samples themselves, not from the page's text.

A gauge stays a gauge, a counter becomes a cumulative monotonic sum, a classic histogram one point with explicit bounds and the
count of each bucket by itself. Labels are attributes. What OTLP cannot say is left out and counted, never bent: NaN (no
number is no point), counters below zero, histograms whose buckets contradict each other or that have no count.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from prometheus_client.core import Metric as Own

from llmvitals.exporters import health, judge
from llmvitals.exporters.cycle import Cycle
from llmvitals.exporters.otlp.model import Bars, Metric, Number, Point
from llmvitals.exporters.otlp.starts import NS, Starts
from llmvitals.exporters.otlp.units import unit_of
from llmvitals.exporters.page import Group, row_of
from llmvitals.schema import BY_NAME, FAMILIES, Family, Kind, Origin, origin_of
from llmvitals.series import Exemplar, Labels, Snapshot, series

STARTED = "llm_process_start_time_seconds"


@dataclass(slots=True)
class _Buckets:
    """A histogram as it is collected. ``below``: upper edge to the number up to it; +Inf among them where it is told."""

    below: dict[float, float] = field(default_factory=dict)
    total: float | None = None
    count: float | None = None
    exemplars: list[Exemplar] = field(default_factory=list)


@dataclass(slots=True)
class _Told:
    """One family of all targets: plain numbers, or histograms."""

    numbers: dict[Labels, float] = field(default_factory=dict)
    buckets: dict[Labels, _Buckets] = field(default_factory=dict)


class Values:
    """Makes metrics of one cycle after another. ``left_out``: points of the newest that OTLP cannot say."""

    def __init__(self, starts: Starts | None = None) -> None:
        self.starts = starts or Starts()
        self.left_out = 0

    def of(self, cycle: Cycle) -> list[Metric]:
        """Everything that the page shows of the targets: canonical families, promises, signals, verdicts, collectors."""
        self.left_out = 0
        at = int(cycle.ended * NS)
        told, process = _collected(cycle.snapshots), _process_starts(cycle.snapshots)
        made = [self._canonical(family, told[family.name], at, process) for family in FAMILIES if family.name in told]
        for group in (
            *cycle.counted,
            *judge.groups(cycle.scopes, cycle.window_seconds),
            *health.groups(cycle.collected, cycle.history, cycle.left),
        ):
            made.append(self._plain(group, at, process))
        self.starts.forget(at)
        return [metric for metric in made if metric.points]

    def own(self, families: Iterable[Own], at: float) -> list[Metric]:
        """What the exporter says of itself at ``at`` (unix seconds): gauges and counters of the client library."""
        now, made = int(at * NS), []
        for family in families:
            kind = Kind.COUNTER if family.type == "counter" else Kind.GAUGE
            name = f"{family.name}_total" if kind is Kind.COUNTER else family.name
            samples = {series("", **s.labels).labels: s.value for s in family.samples if s.name == name}
            points = self._counters(name, samples, now, {}) if kind is Kind.COUNTER else self._gauges(samples)
            made.append(Metric(name, kind, unit_of(name, kind), family.documentation, now, points))
        return [metric for metric in made if metric.points]

    def _canonical(self, family: Family, told: _Told, at: int, process: Mapping[str, int]) -> Metric:
        started = process if origin_of(family.name) is Origin.ENGINE else {}
        points: Sequence[Point]
        if family.kind is Kind.HISTOGRAM:
            points = list(self._histograms(family.name, told.buckets, at, started))
        elif family.kind is Kind.COUNTER:
            points = self._counters(family.name, told.numbers, at, started)
        else:
            points = self._gauges(told.numbers)
        unit = unit_of(family.name, family.kind, family.unit)
        return Metric(family.name, family.kind, unit, family.help, at, points)

    def _plain(self, group: Group, at: int, process: Mapping[str, int]) -> Metric:
        """A family that is no canonical one; its counters count what engines do."""
        points: Sequence[Point]
        if group.kind is Kind.COUNTER:
            points = self._counters(group.name, group.samples, at, process)
        else:
            points = self._gauges(group.samples)
        return Metric(group.name, group.kind, unit_of(group.name, group.kind, group.unit), group.help, at, points)

    def _gauges(self, samples: Mapping[Labels, float]) -> list[Number]:
        known = [Number(labels, 0, value) for labels, value in samples.items() if not math.isnan(value)]
        self.left_out += len(samples) - len(known)
        return known

    def _counters(
        self, name: str, samples: Mapping[Labels, float], at: int, process: Mapping[str, int]
    ) -> list[Number]:
        known = [
            Number(labels, self.starts.of((name, labels), value, at, _of_instance(process, labels)), value)
            for labels, value in samples.items()
            if 0 <= value < math.inf
        ]
        self.left_out += len(samples) - len(known)
        return known

    def _histograms(
        self, name: str, told: Mapping[Labels, _Buckets], at: int, process: Mapping[str, int]
    ) -> Iterator[Bars]:
        for labels, one in told.items():
            bounds = sorted(edge for edge in one.below if math.isfinite(edge))
            count = one.below.get(math.inf, one.count)
            counts = None if count is None else _apart([*(one.below[edge] for edge in bounds), count])
            if counts is None or count is None or (one.total is not None and not math.isfinite(one.total)):
                self.left_out += 1
                continue
            start = self.starts.of((name, labels), count, at, _of_instance(process, labels))
            yield Bars(labels, start, int(count), one.total, tuple(bounds), counts, tuple(one.exemplars))


def _collected(snapshots: Iterable[Snapshot]) -> dict[str, _Told]:
    """The samples of all targets by family; those whose name is not in the schema are on no page either."""
    told: dict[str, _Told] = {}
    for snapshot in snapshots:
        for key, value in snapshot.samples.items():
            row = row_of(key)
            if row is None:
                continue
            family = told.setdefault(row.family, _Told())
            if BY_NAME[row.family].kind is not Kind.HISTOGRAM:
                family.numbers[key.labels] = value
                continue
            labels, part, edge = row.place
            buckets = family.buckets.setdefault(labels, _Buckets())
            if part == 0:
                buckets.below[edge] = value
                seen = snapshot.exemplars.get(key)
                if seen is not None:
                    buckets.exemplars.append(seen)
            elif part == 1:
                buckets.total = value
            else:
                buckets.count = value
    return told


def _process_starts(snapshots: Iterable[Snapshot]) -> dict[str, int]:
    """When the process behind each target started, in unix nanoseconds, where its page names one such moment."""
    moments: dict[str, set[float]] = {}
    for snapshot in snapshots:
        for key, value in snapshot.samples.items():
            if key.name == STARTED and 0 < value < math.inf:
                moments.setdefault(key.label("instance"), set()).add(value)
    return {instance: int(found.pop() * NS) for instance, found in moments.items() if len(found) == 1}


def _of_instance(process: Mapping[str, int], labels: Labels) -> int:
    return next((process.get(value, 0) for name, value in labels if name == "instance"), 0) if process else 0


def _apart(below: Sequence[float]) -> tuple[int, ...] | None:
    """Numbers up to each edge as the number in each bucket; None where they fall or are no whole numbers."""
    if not all(math.isfinite(value) and value == int(value) for value in below):
        return None
    counts = tuple(int(after - before) for before, after in pairwise((0.0, *below)))
    return counts if min(counts) >= 0 else None
