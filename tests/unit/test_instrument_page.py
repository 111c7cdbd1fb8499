"""The page of the kit, read by the contract's adapter: every family with the right number, 0 from the start, nothing unknown."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from llmvitals.instrument import Gateway, Middleware
from llmvitals.instrument.metrics import HISTOGRAMS, instrument_name
from llmvitals.schema import Kind
from llmvitals.settings import Slo, SloClass
from llmvitals.telemetry.gateways.contract import CONTRACT
from support.asgi import Client, Message, answering, asked, begin, more, piece, usage
from support.gateway_pages import canonical, gaps, unknown


def page(kit: Gateway) -> str:
    return kit.page.render()[0].decode()


def read(kit: Gateway) -> dict[str, float]:
    """What the adapter takes, by family and labels without the gateway's name."""
    found = {}
    for name, value in canonical(page(kit)).items():
        short = name.replace('{gateway="chat"}', "").replace('gateway="chat",', "").replace(',gateway="chat"', "")
        if short.startswith("llm_gateway"):
            found[short] = value
    return found


def full(clock: Any = lambda: 1000.0) -> Gateway:
    """A gateway that has everything."""
    kit = Gateway(
        "chat",
        token_limit=10_000,
        weights={"search": 3.0, "other": 1.0},
        planned_calls=4,
        connections=lambda: 17,
        connection_limit=100,
        clock=clock,
    )
    kit.queue(limit=64, ttl=2.0, concurrency=8)
    kit.breaker("engine-0")
    kit.upstream("engine-0").up = True
    kit.semantic_cache(checked=True)
    kit.small_model()
    return kit


def around(kit: Gateway, app: Any) -> Middleware:
    who = lambda _: "search"  # noqa: E731
    return Middleware(app, kit=kit, tenant=who, session=lambda _: "s", user_request=lambda _: "r")


def test_a_gateway_that_has_everything_shows_every_family_from_the_start() -> None:
    kit = full()
    around(kit, answering())
    shown = {name.partition("{")[0] for name in read(kit)}
    of_histograms = {f"{family.name}_count" for family in HISTOGRAMS}
    assert {family.name for family in CONTRACT if family.kind is not Kind.HISTOGRAM} | of_histograms <= shown
    assert unknown(page(kit), "gateway") == set()
    assert gaps(page(kit)) == {}


def test_series_without_a_tenant_do_not_stay_where_calls_have_one() -> None:
    by_tenant = ("requests_total", "retries_total", "tokens_total", "queue_seconds_count")
    shown = [
        name for name in read(around_it(full())) if name.removeprefix("llm_gateway_").partition("{")[0] in by_tenant
    ]
    assert len(shown) == len(by_tenant)
    assert all('tenant="other"' in name for name in shown)


def test_what_never_happened_is_0_with_every_reason() -> None:
    found = read(around_it(full()))
    counters = {name: value for name, value in found.items() if "_total" in name or "_count" in name}
    assert set(counters.values()) == {0}
    assert {f'llm_gateway_queue_dropped_total{{reason="{reason}"}}' for reason in ("full", "ttl", "left")} <= set(
        counters
    )
    assert {f'llm_gateway_streams_cut_total{{reason="{reason}"}}' for reason in ("timeout", "upstream")} <= set(
        counters
    )


def around_it(kit: Gateway) -> Gateway:
    around(kit, answering())
    return kit


def test_what_a_gateway_has_not_is_absent() -> None:
    kit = Gateway("chat", watch_prompts=False)
    Middleware(answering(), kit=kit)
    shown = {
        name.partition("{")[0].removesuffix("_count").removesuffix("_sum").removesuffix("_bucket") for name in read(kit)
    }
    counts = {"calls", "requests", "retries", "disconnects", "tokens", "prompt_tokens", "streams_cut"}
    times = {"ttft_seconds", "tpot_seconds", "request_seconds"}
    names = {*(f"{name}_total" for name in counts), *times, "calls_running"}
    assert shown == {f"llm_gateway_{name}" for name in names}
    reasons = gaps(page(kit))
    assert all(kind == "unsupported" for kind, _ in reasons.values())


def test_a_call_that_went_well() -> None:
    kit = full()
    seen: list[dict[str, float]] = []

    async def app(scope: Message, receive: Any, send: Any) -> None:
        await receive()
        async with kit.queue().enter():
            kit.reserve()
            upstream = kit.upstream("engine-0")
            upstream.sending()
            seen.append(read(kit))
            await begin(send)
            await more(send, piece())
            await more(send, piece())
            await more(send, usage(1500, 500))
            upstream.answered(200, 0.0)
            await more(send, b"", last=True)

    asyncio.run(Client(asked("word " * 1500, max_tokens=250, n=2)).call(around(kit, app)))
    during, after = seen[0], read(kit)
    assert during["llm_gateway_calls_running"] == 1
    assert during['llm_gateway_tenant_sequences{tenant="search"}'] == 2
    assert during['llm_gateway_reserved_tokens{tenant="search"}'] == 2 * (7505 // 4 + 250)
    assert after["llm_gateway_calls_total"] == after["llm_gateway_user_requests_total"] == 1
    assert after['llm_gateway_requests_total{status="200",tenant="search"}'] == 1
    assert after['llm_gateway_tokens_total{tenant="search"}'] == 2000
    assert after['llm_gateway_tokens_total{tenant="other"}'] == 0
    assert after["llm_gateway_prompt_tokens_total"] == 1500
    assert after['llm_gateway_ttft_seconds_count{size="large"}'] == 1
    assert after['llm_gateway_ttft_seconds_bucket{le="2",size="large"}'] == 1
    assert after["llm_gateway_tpot_seconds_count"] == after["llm_gateway_request_seconds_count"] == 1
    assert after['llm_gateway_tpot_seconds_bucket{le="0.05"}'.replace("{", "{")] == 1
    assert after['llm_gateway_queue_seconds_count{tenant="search"}'] == 1
    assert after['llm_gateway_upstream_requests_total{status="200",upstream="engine-0"}'] == 1
    assert after['llm_gateway_upstream_seconds_count{upstream="engine-0"}'] == 1
    assert after["llm_gateway_overhead_seconds_count"] == 1
    assert after["llm_gateway_calls_running"] == after['llm_gateway_reserved_tokens{tenant="search"}'] == 0
    assert after["llm_gateway_session_calls_peak"] == after["llm_gateway_session_calls_median"] == 1
    assert after['llm_gateway_tenant_weight{tenant="search"}'] == 3


def test_amounts_and_what_is_told() -> None:
    kit = around_it(full())
    kit.breaker("engine-0").opened()
    kit.breaker("engine-1", state=lambda: False)
    kit.upstream("engine-1").up = lambda: False
    kit.upstream("engine-1").connect_error()
    kit.planned(6)
    kit.retried()
    cache = kit.semantic_cache(checked=True)
    for fits in (True, False, True):
        cache.hit()
        cache.checked(fits=fits)
    kit.small_model().sent()
    kit.cached()
    found = read(kit)
    assert found['llm_gateway_breaker_open{upstream="engine-0"}'] == 1
    assert found['llm_gateway_breaker_open{upstream="engine-1"}'] == 0
    assert found['llm_gateway_upstream_up{upstream="engine-0"}'] == 1
    assert found['llm_gateway_upstream_up{upstream="engine-1"}'] == 0
    assert found["llm_gateway_connect_errors_total"] == 1
    assert found["llm_gateway_planned_calls"] == 6
    assert found['llm_gateway_retries_total{by="gateway"}'] == 1
    assert found["llm_gateway_semantic_cache_hits_total"] == found["llm_gateway_semantic_cache_checked_total"] == 3
    assert found["llm_gateway_semantic_cache_wrong_total"] == found["llm_gateway_small_model_calls_total"] == 1
    assert found["llm_gateway_cache_hits_total"] == 1
    assert (found["llm_gateway_connections"], found["llm_gateway_connection_limit"]) == (17, 100)
    assert (found["llm_gateway_queue_limit"], found["llm_gateway_concurrency_limit"]) == (64, 8)
    assert found["llm_gateway_token_limit"] == 10_000


def test_a_queue_without_a_bound_shows_none() -> None:
    kit = Gateway("chat")
    kit.queue(ttl=1.0)
    assert not {name for name in read(kit) if "queue_limit" in name or "concurrency_limit" in name}


def test_a_gap_is_told_where_answers_tell_no_usage() -> None:
    kit = Gateway("chat")
    asyncio.run(Client().call(Middleware(answering(piece(), piece()), kit=kit)))
    assert not {name for name in read(kit) if "tokens_total" in name}
    kind, why = gaps(page(kit))["llm_gateway_tokens_total"]
    assert kind == "missing"
    assert "include_usage" in why


def test_thresholds_of_every_promise_are_edges() -> None:
    slo = Slo(
        ttft_seconds=3.3,
        tpot_seconds=0.033,
        classes=(SloClass(name="b", routes=("*",), ttft_seconds=7.7, e2e_seconds=44.0),),
    )
    kit = Gateway("chat", slo=slo)
    assert {0.033} <= set(kit.edges["llm_gateway_tpot_seconds"])
    assert {3.3, 7.7, 2.0} <= set(kit.edges["llm_gateway_ttft_seconds"])
    assert {3.3, 7.7} <= set(kit.edges["llm_gateway_queue_seconds"])
    assert 44.0 in kit.edges["llm_gateway_request_seconds"]
    assert all(list(edges) == sorted(set(edges)) for edges in kit.edges.values())
    kit.store.observe("llm_gateway_ttft_seconds", 3.3, (("size", "small"),))
    found = read(kit)
    assert found['llm_gateway_ttft_seconds_bucket{le="3.3",size="small"}'] == 1
    assert found['llm_gateway_ttft_seconds_bucket{le="2",size="small"}'] == 0


def test_many_tenants_make_few_series_and_lose_nothing() -> None:
    moment = [0.0]
    kit = Gateway("chat", tenants=3, clock=lambda: moment[0])
    who = [""]
    app = Middleware(answering(piece(), usage(90, 10)), kit=kit, tenant=lambda _: who[0])
    counted: dict[str, float] = {}
    total = 0.0
    for number in range(200):
        moment[0] += 7.0
        who[0] = f"t{number % 50}" if number % 4 else "t1"
        asyncio.run(Client().call(app))
        found = {k: v for k, v in read(kit).items() if k.startswith("llm_gateway_tokens_total")}
        total += sum(value - counted.get(name, 0.0) for name, value in found.items())
        counted = found
        assert len(found) <= 2 * 3 + 1
    assert total == 200 * 100
    queues = {name for name in read(kit) if name.startswith("llm_gateway_requests_total")}
    assert len(queues) <= 2 * 3 + 1


def test_upstreams_beyond_the_bound_count_together() -> None:
    kit = Gateway("chat", upstreams=2)
    for number in range(5):
        kit.upstream(f"u{number}").answered(200, 0.1)
    found = {k: v for k, v in read(kit).items() if k.startswith("llm_gateway_upstream_requests_total")}
    assert found == {
        f'llm_gateway_upstream_requests_total{{status="200",upstream="{u}"}}': n
        for u, n in (("u0", 1), ("u1", 1), ("other", 3))
    }


def test_the_application_that_answers_scrapes() -> None:
    kit = around_it(full())
    got: list[Message] = []

    async def send(message: Message) -> None:
        got.append(message)

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/metrics",
        "headers": [(b"accept", b"application/openmetrics-text; version=1.0.0")],
    }
    asyncio.run(kit.metrics_app()(scope, None, send))  # type: ignore[arg-type]
    headers = dict(got[0]["headers"])
    assert got[0]["status"] == 200
    assert b"openmetrics" in headers[b"content-type"]
    assert int(headers[b"content-length"]) == len(got[1]["body"])
    assert got[1]["body"].endswith(b"# EOF\n")
    assert unknown(got[1]["body"].decode(), "gateway") == set()


def test_a_meter_provider_of_the_gateways_gets_everything_too() -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], views=Gateway("chat").views(), shutdown_on_exit=False)
    kit = Gateway("chat", meter_provider=provider)
    asyncio.run(Client().call(Middleware(answering(piece(), usage(9, 1)), kit=kit)))
    data = reader.get_metrics_data()
    assert data is not None
    found = {m.name: m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics}
    assert [p.value for p in found["llm_gateway_tokens"].data.data_points] == [10]  # type: ignore[union-attr]
    first = found["llm_gateway_ttft"].data.data_points[0]
    assert tuple(first.explicit_bounds) == kit.edges["llm_gateway_ttft_seconds"]  # type: ignore[union-attr]
    assert dict(first.attributes or {}) == {"gateway": "chat", "size": "small"}
    assert found["llm_gateway_ttft"].unit == "s"


@pytest.mark.parametrize("family", CONTRACT, ids=lambda family: family.name)
def test_every_family_has_an_instrument_that_exporters_write_as_it(family: Any) -> None:
    name, unit = instrument_name(family)
    written = f"{name}_seconds" if unit == "s" else name
    assert written + ("_total" if family.kind is Kind.COUNTER else "") == family.name


def test_refused_calls_are_on_the_page_with_their_reason() -> None:
    kit = around_it(full())
    queue = kit.queue("small", limit=0, concurrency=0)

    async def app(scope: Message, receive: Any, send: Any) -> None:
        await receive()
        async with queue.enter():
            raise AssertionError("there is no place")

    client = Client()
    asyncio.run(client.call(around(kit, app)))
    found = read(kit)
    assert client.status == 503
    assert found['llm_gateway_queue_dropped_total{reason="full"}'] == 1
    assert found['llm_gateway_requests_total{status="503",tenant="search"}'] == 1
    assert 'llm_gateway_queue_seconds_count{tenant="search"}' not in found, "it never was in the queue"


def test_who_watches_observations_is_told_while_others_may_read_the_page() -> None:
    """A reader of a provider of the gateway's holds its own lock as it asks for amounts: ours must be free then."""
    kit = full()
    free: list[bool] = []

    def lock_is_free() -> None:
        got = kit.store.lock.acquire(timeout=0.2)
        free.append(got)
        if got:
            kit.store.lock.release()

    def watcher(*_: object) -> None:
        thread = threading.Thread(target=lock_is_free)
        thread.start()
        thread.join()

    kit.store.watchers.append(watcher)
    asyncio.run(Client().call(around(kit, answering(piece(), piece(), usage(9, 2)))))
    assert len(free) == 3, "the first token, the time per token, the whole call"
    assert all(free)
