"""The metrics page, through OpenTelemetry's Prometheus exporter.

The SDK keeps every set of attributes that it has seen for as long as the process lives, and begins a histogram with its first
observation. Tenants come and go and histograms are to be 0 from the start, so those families are handed to the exporter as
points of their own; all others are ordinary observable instruments.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    DataT,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from starlette.types import Receive, Scope, Send

from llmvitals.instrument import metrics
from llmvitals.instrument.store import Store
from llmvitals.schema import Family, Kind

_CUMULATIVE = AggregationTemporality.CUMULATIVE


def _as_points(family: Family) -> bool:
    return family.kind is Kind.HISTOGRAM or "tenant" in family.labels


class Reader(PrometheusMetricReader):
    """The exporter's reader, which adds to what the SDK gives what it cannot keep."""

    def __init__(self, store: Store, gateway: str, registry: CollectorRegistry) -> None:
        self._store = store
        self._gateway = gateway
        self._began = time.time_ns()
        super().__init__(disable_target_info=True, registry=registry)

    def _receive_metrics(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: object) -> None:
        own = [metric for family in metrics.SHOWN if _as_points(family) and (metric := self._metric(family))]
        scope = ScopeMetrics(InstrumentationScope(metrics.SCOPE), own, "")
        added = ResourceMetrics(Resource.get_empty(), [scope], "")
        super()._receive_metrics(MetricsData([*metrics_data.resource_metrics, added]), timeout_millis, **kwargs)

    def _metric(self, family: Family) -> Metric | None:
        name, unit = metrics.instrument_name(family)
        data = self._distribution(family) if family.kind is Kind.HISTOGRAM else self._numbers(family)
        return Metric(name, family.help, unit, data) if data is not None else None

    def _numbers(self, family: Family) -> DataT | None:
        moment = time.time_ns()
        found: Sequence[NumberDataPoint] = [
            NumberDataPoint(metrics.attributes(self._gateway, labels), self._began, moment, value)
            for labels, value in metrics.points(self._store, family)
        ]
        if not found:
            return None
        return Sum(found, _CUMULATIVE, is_monotonic=True) if family.kind is Kind.COUNTER else Gauge(found)

    def _distribution(self, family: Family) -> DataT | None:
        moment, edges = time.time_ns(), self._store.edges[family.name]
        with self._store.lock:
            here = self._store.histograms.get(family.name, {}) if self._store.shown(family.name) else {}
            found = [
                HistogramDataPoint(
                    metrics.attributes(self._gateway, labels),
                    self._began,
                    moment,
                    sum(each.counts),
                    each.sum,
                    list(each.counts),
                    edges,
                    min=0.0,
                    max=0.0,
                )
                for labels, each in here.items()
            ]
        return Histogram(found, _CUMULATIVE) if found else None


class Page:
    """The page of one kit, and the ASGI application that answers with it at every path."""

    def __init__(self, store: Store, gateway: str) -> None:
        self._registry = CollectorRegistry()
        self._provider = MeterProvider([Reader(store, gateway, self._registry)], shutdown_on_exit=False)
        meter = self._provider.get_meter(metrics.SCOPE)
        metrics.observe(store, meter, gateway, (family for family in metrics.SHOWN if not _as_points(family)))

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """The page and its content type, in the form that ``accept`` (the header) asks for."""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a scrape."""
        if scope["type"] != "http":
            return
        accept = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"accept"), "")
        body, content_type = self.render(accept)
        headers = [(b"content-type", content_type.encode()), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})
