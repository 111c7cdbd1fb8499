"""A cycle's values as OTLP metrics. They come from the samples themselves, not from the page's text.

A gauge stays a gauge, a counter becomes a cumulative monotonic sum, a classic histogram one point with explicit bounds and the
count of each bucket by itself. Labels are attributes. What OTLP cannot say is left out and counted, never bent: NaN (no
number is no point), counters below zero, histograms whose buckets contradict each other or that have no count.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from opentelemetry.sdk.metrics import Exemplar
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    DataT,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    NumberDataPoint,
    Sum,
)
from prometheus_client.core import Metric as Own

from llmvitals.exporters import health, judge
from llmvitals.exporters.cycle import Cycle
from llmvitals.exporters.otlp.starts import NS, Starts
from llmvitals.exporters.otlp.units import unit_of
from llmvitals.exporters.page import row_of
from llmvitals.schema import BY_NAME, FAMILIES, Family, Kind, Origin, origin_of
from llmvitals.series import Exemplar as Seen
from llmvitals.series import Labels, Snapshot, series

STARTED = "llm_process_start_time_seconds"

_CUMULATIVE = AggregationTemporality.CUMULATIVE
_HEX = 16


@dataclass(slots=True)
class _Bars:
    """A histogram as it is collected. ``below``: upper edge to the number up to it; +Inf among them where it is told."""

    below: dict[float, float] = field(default_factory=dict)
    total: float | None = None
    count: float | None = None
    exemplars: list[Seen] = field(default_factory=list)


@dataclass(slots=True)
class _Told:
    """One family of all targets: plain numbers, or histograms."""

    numbers: dict[Labels, float] = field(default_factory=dict)
    bars: dict[Labels, _Bars] = field(default_factory=dict)


class Values:
    """Makes metrics of one cycle after another. ``left_out``: points of the newest that OTLP cannot say."""

    def __init__(self, starts: Starts | None = None) -> None:
        self.starts = starts or Starts()
        self.left_out = 0

    def of(self, cycle: Cycle) -> list[Metric]:
        """Everything that the page shows of the targets: canonical families, signals, verdicts, collectors."""
        self.left_out = 0
        at = int(cycle.ended * NS)
        told, process = _collected(cycle.snapshots), _process_starts(cycle.snapshots)
        made = [self._canonical(family, told[family.name], at, process) for family in FAMILIES if family.name in told]
        groups = (*judge.groups(cycle.scopes, cycle.window_seconds), *health.groups(cycle.collected, cycle.history))
        made += [_metric(g.name, Kind.GAUGE, g.unit, g.help, Gauge(self._gauges(g.samples, at))) for g in groups]
        self.starts.forget(at)
        return [metric for metric in made if metric.data.data_points]

    def own(self, families: Iterable[Own], at: float) -> list[Metric]:
        """What the exporter says of itself at ``at`` (unix seconds): gauges and counters of the client library."""
        now, made = int(at * NS), []
        for family in families:
            kind = Kind.COUNTER if family.type == "counter" else Kind.GAUGE
            name = f"{family.name}_total" if kind is Kind.COUNTER else family.name
            samples = {series("", **s.labels).labels: s.value for s in family.samples if s.name == name}
            data = self._sum(name, samples, now, {}) if kind is Kind.COUNTER else Gauge(self._gauges(samples, now))
            made.append(_metric(name, kind, "", family.documentation, data))
        return [metric for metric in made if metric.data.data_points]

    def _canonical(self, family: Family, told: _Told, at: int, process: Mapping[str, int]) -> Metric:
        started = process if origin_of(family.name) is Origin.ENGINE else {}
        data: DataT
        if family.kind is Kind.HISTOGRAM:
            data = Histogram(list(self._histograms(family.name, told.bars, at, started)), _CUMULATIVE)
        elif family.kind is Kind.COUNTER:
            data = self._sum(family.name, told.numbers, at, started)
        else:
            data = Gauge(self._gauges(told.numbers, at))
        return _metric(family.name, family.kind, family.unit, family.help, data)

    def _gauges(self, samples: Mapping[Labels, float], at: int) -> list[NumberDataPoint]:
        known = {labels: value for labels, value in samples.items() if not math.isnan(value)}
        self.left_out += len(samples) - len(known)
        return [NumberDataPoint(dict(labels), 0, at, float(value)) for labels, value in known.items()]

    def _sum(self, name: str, samples: Mapping[Labels, float], at: int, process: Mapping[str, int]) -> Sum:
        points = []
        for labels, value in samples.items():
            if not 0 <= value < math.inf:
                self.left_out += 1
                continue
            attributes = dict(labels)
            start = self.starts.of((name, labels), value, at, process.get(attributes.get("instance", ""), 0))
            points.append(NumberDataPoint(attributes, start, at, float(value)))
        return Sum(points, _CUMULATIVE, is_monotonic=True)

    def _histograms(
        self, name: str, bars: Mapping[Labels, _Bars], at: int, process: Mapping[str, int]
    ) -> Iterator[HistogramDataPoint]:
        for labels, one in bars.items():
            bounds = sorted(edge for edge in one.below if math.isfinite(edge))
            count = one.below.get(math.inf, one.count)
            counts = None if count is None else _apart([*(one.below[edge] for edge in bounds), count])
            if count is None or counts is None or (one.total is not None and not math.isfinite(one.total)):
                self.left_out += 1
                continue
            attributes = dict(labels)
            told = process.get(attributes.get("instance", ""), 0)
            yield HistogramDataPoint(
                attributes=attributes,
                start_time_unix_nano=self.starts.of((name, labels), count, at, told),
                time_unix_nano=at,
                count=int(count),
                sum=one.total,  # type: ignore[arg-type]  # None is not sent: a page may have no sum
                # One bucket of all says no more than the count: a histogram without edges has none.
                bucket_counts=counts if bounds else (),
                explicit_bounds=bounds,
                min=None,  # type: ignore[arg-type]  # nor are these, which no page tells
                max=None,  # type: ignore[arg-type]
                exemplars=[_exemplar(seen) for seen in one.exemplars],
            )


def _metric(name: str, kind: Kind, unit: str, help: str, data: DataT) -> Metric:
    return Metric(name, help, unit_of(name, kind, unit), data)


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
            bars = family.bars.setdefault(labels, _Bars())
            if part == 0:
                bars.below[edge] = value
                seen = snapshot.exemplars.get(key)
                if seen is not None:
                    bars.exemplars.append(seen)
            elif part == 1:
                bars.total = value
            else:
                bars.count = value
    return told


def _process_starts(snapshots: Iterable[Snapshot]) -> dict[str, int]:
    """When the process behind each target started, in unix nanoseconds, where its page names one such moment."""
    moments: dict[str, set[float]] = {}
    for snapshot in snapshots:
        for key, value in snapshot.samples.items():
            if key.name == STARTED and 0 < value < math.inf:
                moments.setdefault(key.label("instance"), set()).add(value)
    return {instance: int(min(found) * NS) for instance, found in moments.items() if len(found) == 1}


def _apart(below: Sequence[float]) -> list[int] | None:
    """Numbers up to each edge as the number in each bucket; None where they fall or are no whole numbers."""
    if not all(math.isfinite(value) and value == int(value) for value in below):
        return None
    counts = [int(after - before) for before, after in pairwise((0.0, *below))]
    return counts if min(counts) >= 0 else None


def _exemplar(seen: Seen) -> Exemplar:
    """An observation and its trace. Which span it was is not kept: zeros stand for none, as encoders ask for one."""
    return Exemplar({}, float(seen.value), int(seen.t * NS), 0, int(seen.trace_id, _HEX))
