"""Metrics in exports that a collector takes: gRPC servers refuse messages beyond 4 MiB unless they are told otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from opentelemetry.sdk.metrics.export import (
    DataPointT,
    HistogramDataPoint,
    Metric,
    MetricsData,
    ResourceMetrics,
    ScopeMetrics,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

MOST_BYTES = 3 * 1024 * 1024
"""Of one export, as :func:`size_of` reckons; that is never too little, and what is beside the points fits into the rest."""

_SCOPE = InstrumentationScope("")
"""Without a name, which some translators would make a label of every series."""

_POINT_BYTES, _ATTRIBUTE_BYTES, _BUCKET_BYTES, _EXEMPLAR_BYTES, _FAMILY_BYTES = 48, 16, 16, 64, 64
_UTF8 = 4  # bytes that a character may take at most


def size_of(point: DataPointT) -> int:
    """Bytes that a point takes on the wire, rather too many: text with all its tags and lengths, numbers of eight bytes."""
    size = _POINT_BYTES
    for name, value in (point.attributes or {}).items():
        size += _ATTRIBUTE_BYTES + _bytes(name) + _bytes(str(value))
    if isinstance(point, HistogramDataPoint):
        size += _BUCKET_BYTES * (len(point.bucket_counts) + 1) + _EXEMPLAR_BYTES * len(point.exemplars)
    return size


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else _UTF8 * len(text)


@dataclass(slots=True)
class _Part:
    """An export under way: the metrics of each resource, in the order in which they came."""

    held: list[tuple[Resource, list[Metric]]] = field(default_factory=list)
    size: int = 0

    def add(self, resource: Resource, metric: Metric, points: list[DataPointT]) -> None:
        if not self.held or self.held[-1][0] is not resource:
            self.held.append((resource, []))
        data = replace(metric.data, data_points=points)  # type: ignore[arg-type]  # of the metric's own kind
        self.held[-1][1].append(replace(metric, data=data))

    def data(self) -> MetricsData:
        return MetricsData([ResourceMetrics(r, [ScopeMetrics(_SCOPE, metrics, "")], "") for r, metrics in self.held])


def parts(told: Iterable[tuple[Resource, Iterable[Metric]]], most: int = MOST_BYTES) -> Iterator[MetricsData]:
    """What each resource tells, in as few exports as fit into ``most`` bytes each. A point alone may be larger than that."""
    part = _Part()
    for resource, metrics in told:
        for metric in metrics:
            head = _FAMILY_BYTES + _bytes(metric.name) + _bytes(metric.description or "")
            points: list[DataPointT] = []
            part.size += head
            for point in metric.data.data_points:
                size = size_of(point)
                if part.size + size > most and (points or part.held):
                    if points:
                        part.add(resource, metric, points)
                    yield part.data()
                    part, points = _Part(size=head), []
                points.append(point)
                part.size += size
            if points:
                part.add(resource, metric, points)
    if part.held:
        yield part.data()
