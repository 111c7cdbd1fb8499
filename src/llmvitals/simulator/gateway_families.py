"""The canonical families that a gateway's telemetry gives, from what the simulated one saw.

What a gateway without a breaker, a cache or a bound cannot do, it shows as never done (0); only a limit that nothing sets
is absent. Queue times are of calls that left the queue, sent on or not; a gateway without a queue has none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from llmvitals.series import Series, series
from llmvitals.simulator.counters import Histogram
from llmvitals.simulator.gateway import GatewayServer
from llmvitals.simulator.gateway_book import CUT, DROPPED, STATUSES
from llmvitals.simulator.world import World

Sample = tuple[str, dict[str, str], float]
UPSTREAM = "engine"


def samples(world: World, labels: Mapping[str, str]) -> dict[Series, float]:
    """All ``llm_gateway_*`` samples at the world's present moment; none where there is no gateway.

    ``labels``: the identity labels, as ``instance`` and ``model``.
    """
    gateway = world.gateway
    if gateway is None:
        return {}
    identity = {**labels, "gateway": gateway.config.name}
    found = {series(f"llm_gateway_{name}", **identity, **own): float(value) for name, own, value in _all(gateway)}
    fit = world.up and gateway.upstream.ready  # as a health check finds it: errors do not make it unfit
    return {**found, series("llm_gateway_upstream_up", **identity, upstream=UPSTREAM): float(fit)}


def _all(gateway: GatewayServer) -> Iterator[Sample]:
    yield from _whole(gateway)
    yield from _by_tenant(gateway)
    book = gateway.book
    for reason in DROPPED:
        yield "queue_dropped_total", {"reason": reason}, book.dropped[reason]
    for reason in CUT:
        yield "streams_cut_total", {"reason": reason}, book.cut[reason]
    for size, histogram in book.first_token.items():
        yield from _histogram("ttft_seconds", {"size": size}, histogram)


def _whole(gateway: GatewayServer) -> Iterator[Sample]:
    config, book = gateway.config, gateway.book
    peak, median, repeats = gateway.last_minute.figures()
    for name, value in (
        ("user_requests_total", book.user_requests),
        ("calls_total", book.calls),
        ("disconnects_total", book.disconnects),
        ("queue_waiting", gateway.waiting),
        ("breaker_open", gateway.breaker.open),
        ("exact_repeats_total", book.exact_repeats),
        ("cache_hits_total", book.cache_hits),
        ("prompt_tokens_total", book.prompt_tokens),
        ("shared_prefix_tokens_total", book.shared_tokens),
        ("session_calls_peak", peak),
        ("session_calls_median", median),
        ("session_repeats_peak", repeats),
        ("planned_calls", config.planned_calls),
        ("connect_errors_total", book.connect_errors),
        ("connections", gateway.connections),
        ("connection_limit", config.connection_limit),
    ):
        yield name, {}, value
    if config.concurrency and config.queue_limit is not None:
        yield "queue_limit", {}, config.queue_limit


def _by_tenant(gateway: GatewayServer) -> Iterator[Sample]:
    config, book = gateway.config, gateway.book
    for tenant in book.tenants:
        own = {"tenant": tenant}
        for status in STATUSES:
            yield "requests_total", {**own, "status": status}, book.answered[tenant, status]
        yield "retries_total", own, book.retries[tenant]
        yield "tokens_total", own, book.tokens[tenant]
        if config.concurrency:
            yield from _histogram("queue_seconds", own, book.queue_seconds[tenant])
    for tenant, weight in config.weights:
        yield "tenant_weight", {"tenant": tenant}, weight


def _histogram(name: str, own: dict[str, str], histogram: Histogram) -> Iterator[Sample]:
    below = 0
    for bound, count in zip(histogram.bounds, histogram.counts, strict=False):
        below += count
        yield f"{name}_bucket", {**own, "le": str(int(bound)) if bound.is_integer() else repr(bound)}, below
    yield f"{name}_bucket", {**own, "le": "+Inf"}, histogram.count
    yield f"{name}_sum", own, histogram.sum
    yield f"{name}_count", own, histogram.count
