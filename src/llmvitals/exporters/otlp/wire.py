"""Metrics as the values that OpenTelemetry's exporters take. Needs the extra ``otel``, from the first call on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from llmvitals.exporters.otlp.model import Bars, Metric
from llmvitals.exporters.otlp.starts import NS
from llmvitals.schema import Kind
from llmvitals.series import Exemplar

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics import Exemplar as WireExemplar
    from opentelemetry.sdk.metrics.export import HistogramDataPoint, MetricsData
    from opentelemetry.sdk.metrics.export import Metric as WireMetric

_HEX = 16


def data_of(metrics: Sequence[Metric], resource: Mapping[str, str]) -> MetricsData:
    """One export: what one resource tells. Its scope has no name, which some translators would make a label of every series."""
    from opentelemetry.sdk.metrics.export import MetricsData, ResourceMetrics, ScopeMetrics  # noqa: PLC0415  # an extra
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415  # an extra
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope  # noqa: PLC0415  # an extra

    scope = ScopeMetrics(InstrumentationScope(""), [_metric(metric) for metric in metrics], "")
    return MetricsData([ResourceMetrics(Resource(dict(resource)), [scope], "")])


def _metric(metric: Metric) -> WireMetric:
    from opentelemetry.sdk.metrics import export  # noqa: PLC0415  # an extra

    at, cumulative = metric.at, export.AggregationTemporality.CUMULATIVE
    data: export.DataT
    if metric.kind is Kind.HISTOGRAM:
        data = export.Histogram([_histogram(p, at) for p in metric.points if isinstance(p, Bars)], cumulative)
    else:
        numbers = [
            export.NumberDataPoint(dict(p.attributes), p.start, at, float(p.value))
            for p in metric.points
            if not isinstance(p, Bars)
        ]
        counts = metric.kind is Kind.COUNTER
        data = export.Sum(numbers, cumulative, is_monotonic=True) if counts else export.Gauge(numbers)
    return export.Metric(metric.name, metric.help, metric.unit, data)


def _histogram(point: Bars, at: int) -> HistogramDataPoint:
    from opentelemetry.sdk.metrics.export import HistogramDataPoint  # noqa: PLC0415  # an extra

    return HistogramDataPoint(
        attributes=dict(point.attributes),
        start_time_unix_nano=point.start,
        time_unix_nano=at,
        count=point.count,
        sum=point.total,  # type: ignore[arg-type]  # None is not sent: a page may have no sum
        bucket_counts=point.counts,
        explicit_bounds=point.bounds,
        min=None,  # type: ignore[arg-type]  # nor are these, which no page tells
        max=None,  # type: ignore[arg-type]  # the same
        exemplars=[_exemplar(seen) for seen in point.exemplars],
    )


def _exemplar(seen: Exemplar) -> WireExemplar:
    """An observation and its trace. Which span it was is not kept: zeros stand for none, as encoders ask for one."""
    from opentelemetry.sdk.metrics import Exemplar as WireExemplar  # noqa: PLC0415  # an extra

    return WireExemplar({}, float(seen.value), int(seen.t * NS), 0, int(seen.trace_id, _HEX))
