"""The contract's families as OpenTelemetry's instruments, on a meter of the kit's own or of the gateway's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from opentelemetry.metrics import CallbackOptions, Meter, Observation
from opentelemetry.metrics import Histogram as Instrument

from llmvitals.instrument.store import Labels, Point, Store
from llmvitals.schema import BY_NAME, FAMILIES, Family, Kind, Origin, origin_of

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.view import View

SCOPE = "llmvitals.instrument"
CONTRACT: tuple[Family, ...] = tuple(family for family in FAMILIES if origin_of(family.name) is Origin.GATEWAY)
SHOWN: tuple[Family, ...] = (*CONTRACT, BY_NAME["llm_family_gap"])
HISTOGRAMS: tuple[Family, ...] = tuple(family for family in CONTRACT if family.kind is Kind.HISTOGRAM)

_TO_FIRST = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
_WHOLE = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0)
_EDGES: Mapping[str, tuple[float, ...]] = {
    "llm_gateway_ttft_seconds": _TO_FIRST,
    "llm_gateway_queue_seconds": (0.01, *_TO_FIRST),
    "llm_gateway_tpot_seconds": (0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.2, 0.5, 1.0),
    "llm_gateway_request_seconds": _WHOLE,
    "llm_gateway_upstream_seconds": _WHOLE,
    "llm_gateway_overhead_seconds": (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0),
}
"""Edges with one at each usual objective: 2 s to the first token, 50 ms per token."""

_PROMISED: Mapping[str, tuple[str, ...]] = {
    "ttft": ("llm_gateway_ttft_seconds", "llm_gateway_queue_seconds"),
    "tpot": ("llm_gateway_tpot_seconds",),
    "e2e": ("llm_gateway_request_seconds",),
}
"""Histograms that are compared with an objective of this name."""


def edges(thresholds: Iterable[tuple[str, float]]) -> dict[str, tuple[float, ...]]:
    """Upper edges by histogram (seconds); each threshold, by the name of its objective (ttft, tpot, e2e), is one of them."""
    found = {family.name: set(_EDGES[family.name]) for family in HISTOGRAMS}
    for objective, seconds in thresholds:
        for name in _PROMISED[objective]:
            found[name].add(seconds)
    return {name: tuple(sorted(each)) for name, each in found.items()}


def instrument_name(family: Family) -> tuple[str, str]:
    """Name and unit of an instrument that exporters write as the family: ``_total`` and ``_seconds`` are added by them."""
    name = family.name.removesuffix("_total")
    return (name.removesuffix("_seconds"), "s") if family.unit == "seconds" else (name, "")


def views(bounds: Mapping[str, tuple[float, ...]]) -> tuple[View, ...]:
    """Views for a MeterProvider of the gateway's own, with the edges of each histogram."""
    from opentelemetry.sdk.metrics.view import ExplicitBucketHistogramAggregation, View  # noqa: PLC0415 - the SDK: only who has views

    return tuple(
        View(
            instrument_name=instrument_name(family)[0],
            meter_name=SCOPE,
            aggregation=ExplicitBucketHistogramAggregation(bounds[family.name]),
        )
        for family in HISTOGRAMS
    )


def attributes(gateway: str, labels: Labels) -> dict[str, str]:
    """Labels of a point as attributes, the gateway's name among them."""
    return {"gateway": gateway, **dict(labels)}


def points(store: Store, family: Family) -> list[Point]:
    """What a counter or gauge shows now."""
    with store.lock:
        if not store.shown(family.name):
            return []
        if family.kind is Kind.COUNTER:
            return list(store.counters.get(family.name, {}).items())
        asked = list(store.gauges.get(family.name, ()))
    return [point for ask in asked for point in ask()]


def observe(store: Store, meter: Meter, gateway: str, families: Iterable[Family]) -> None:
    """Make an observable instrument of each counter and gauge."""
    for family in families:
        name, unit = instrument_name(family)
        make = meter.create_observable_counter if family.kind is Kind.COUNTER else meter.create_observable_gauge
        make(name, [_asked(store, family, gateway)], unit, family.help)


def _asked(store: Store, family: Family, gateway: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
    def callback(_: CallbackOptions) -> Iterable[Observation]:
        return [Observation(value, attributes(gateway, labels)) for labels, value in points(store, family)]

    return callback


def record(store: Store, meter: Meter, gateway: str) -> None:
    """Have every observation of a histogram recorded on a meter of the gateway's as well; :func:`views` gives its edges."""
    made: dict[str, Instrument] = {}
    for family in HISTOGRAMS:
        name, unit = instrument_name(family)
        made[family.name] = meter.create_histogram(name, unit, family.help)

    def seen(family: str, labels: Labels, value: float) -> None:
        made[family].record(value, attributes(gateway, labels))

    store.watchers.append(seen)
