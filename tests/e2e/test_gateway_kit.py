"""The example gateway over real sockets: what happens to calls is in the right counter of its page.

The gateway runs in a real uvicorn, in front of an engine whose answers the tests decide; every number is read from its
``/metrics`` through the adapter that reads gateways in production.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import httpx
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from llmvitals.instrument import Gateway, Middleware, Refused
from llmvitals.simulator.scenarios import scenario
from llmvitals.simulator.serve import Served
from llmvitals.telemetry.gateways.contract import KIND
from support.gateway import PATH, Running, body, example, serve
from support.gateway_calls import has, held, looping, raw
from support.gateway_pages import unknown
from support.upstream import Plan, Upstream
from support.waiting import wait_for

TENANT, SESSION, USER = "x-tenant", "x-session", "x-user-request"


@pytest.fixture
def engine() -> Iterator[Upstream]:
    with Upstream() as upstream:
        yield upstream


@pytest.fixture(autouse=True)
def no_error_in_the_log(caplog) -> Iterator[None]:
    """What a client or an engine does is no fault of the gateway's: it throws nothing at its server."""
    yield
    assert [record.getMessage() for record in caplog.get_records("call") if record.levelname == "ERROR"] == []


# -- the page ---------------------------------------------------------------------------------------------------------
def test_a_gateway_without_a_call_shows_what_it_has_at_0_and_nothing_that_is_not_the_contracts(engine):
    with serve(engine.url) as gateway:
        text = gateway.text()
        for name in ("calls_total", "user_requests_total", "disconnects_total", "connect_errors_total"):
            assert gateway.shows(name) == 0, name
        for name, label, values in (
            ("queue_dropped_total", "reason", ("full", "ttl", "left")),
            ("streams_cut_total", "reason", ("timeout", "upstream")),
            ("upstream_requests_total", "upstream", ("engine-0",)),
            ("breaker_open", "upstream", ("engine-0",)),
        ):
            assert [gateway.shows(name, **{label: value}) for value in values] == [0.0] * len(values), name
        assert gateway.shows("upstream_up", upstream="engine-0") == 1
        assert (gateway.shows("queue_limit"), gateway.shows("concurrency_limit")) == (64, 32)
        assert gateway.shows("token_limit") == 500_000
        assert gateway.shows("small_model_calls_total") is None
    assert unknown(text, KIND) == set()


def test_a_call_is_counted_once_in_each_family(engine):
    engine.usual = Plan(tokens=4)
    with serve(engine.url) as gateway:
        assert gateway.ask("one two three", stream=True, headers={TENANT: "search"}).status_code == 200
        wait_for(lambda: gateway.shows("requests_total", status="200", tenant="search") == 1)
        assert gateway.shows("calls_total") == 1
        assert gateway.shows("upstream_requests_total", upstream="engine-0", status="200") == 1
        assert gateway.shows("tokens_total", tenant="search") == 3 + 4
        assert gateway.shows("prompt_tokens_total") == 3
        for name in ("queue", "ttft", "tpot", "request", "upstream", "overhead"):
            assert gateway.shows(f"{name}_seconds_count") == 1, name
        assert gateway.shows("calls_running") == 0
        assert gateway.shows("disconnects_total") == 0


# -- streams ----------------------------------------------------------------------------------------------------------
def test_a_piece_is_at_the_client_before_the_next_is_made(engine):
    plan = Plan(tokens=3, allowed=0)
    engine.next.append(plan)
    with serve(engine.url) as gateway, gateway.client.stream("POST", PATH, json=body("hi", stream=True)) as answer:
        pieces = answer.iter_raw()
        assert answer.headers["content-type"].startswith("text/event-stream")
        for n in (1, 2, 3):
            plan.allowed = n
            assert b"word" in next(pieces)
            assert engine.asked[0].sent == n
        assert b"[DONE]" in b"".join(pieces)


def test_a_client_that_leaves_in_the_middle_of_a_stream_is_counted_and_its_call_at_the_engine_given_up(engine):
    engine.next.append(Plan(tokens=100, allowed=1))
    with serve(engine.url) as gateway:
        client = raw(gateway.port, body("tell me", stream=True))
        has(client, b"word")
        assert gateway.shows("calls_running") == 1
        client.close()
        wait_for(lambda: engine.asked[0].ended == "left", "the cancellation at the engine")
        wait_for(lambda: gateway.shows("requests_total", status="499") == 1)
        assert gateway.shows("disconnects_total") == 1
        assert gateway.shows("streams_cut_total") == 0
        assert gateway.shows("calls_running") == 0
        assert gateway.ask().status_code == 200, "its place is free again"
    assert engine.asked[0].sent == 1


def test_a_client_that_leaves_before_the_first_token_is_noticed_while_the_engine_is_silent(engine):
    engine.next.append(Plan(answering=False))
    with serve(engine.url) as gateway:
        client = raw(gateway.port, body("tell me", stream=True))
        wait_for(lambda: engine.asked, "the call at the engine")
        client.close()
        wait_for(lambda: engine.asked[0].ended == "left", "the cancellation at the engine")
        wait_for(lambda: gateway.shows("requests_total", status="499") == 1)
        assert gateway.shows("disconnects_total") == 1
        assert gateway.shows("upstream_requests_total", upstream="engine-0") == 0, "it never answered"


@pytest.mark.parametrize("begun", [True, False])
def test_two_lines_of_a_gateway_are_enough_to_notice_it(engine, begun):
    """No queue, no breaker, answers passed on as they come, refusals answered as frameworks do."""
    kit = Gateway("small")
    client = httpx.AsyncClient(base_url=engine.url, transport=kit.transport("e", httpx.AsyncHTTPTransport()))

    async def complete(request: Request) -> StreamingResponse:
        asked = client.build_request("POST", PATH, content=await request.body())
        answer = await client.send(asked, stream=True)
        return StreamingResponse(answer.aiter_raw(), answer.status_code, media_type=answer.headers["content-type"])

    routes = [Route(PATH, complete, methods=["POST"]), Route("/metrics", kit.metrics_app())]
    answers = {Refused: lambda _, refused: Response(status_code=refused.status)}
    app = Starlette(routes=routes, exception_handlers=answers)
    engine.next.append(Plan(tokens=9, allowed=1, answering=begun))
    with Running(Middleware(app, kit=kit), kit) as gateway:
        leaving = raw(gateway.port, body("tell me", stream=True))
        wait_for(lambda: engine.asked, "the call at the engine")
        if begun:
            has(leaving, b"word")
        leaving.close()
        wait_for(lambda: engine.asked[0].ended == "left", "the cancellation at the engine")
        wait_for(lambda: gateway.shows("requests_total", status="499") == 1)
        assert gateway.shows("disconnects_total") == 1


@pytest.mark.parametrize("stream", [True, False])
def test_an_engine_that_breaks_off_is_told_from_a_client_that_left(engine, stream):
    engine.next.append(Plan(tokens=9, cut_after=2))
    with serve(engine.url) as gateway:
        answer = gateway.ask(stream=stream)
        if stream:
            assert answer.text.count('"delta"') == 2
            assert "broke off" in answer.text
            assert "[DONE]" not in answer.text
            wait_for(lambda: gateway.shows("streams_cut_total", reason="upstream") == 1)
        else:
            assert answer.status_code == 502
        wait_for(lambda: gateway.shows("requests_total", status="200" if stream else "502") == 1)
        assert gateway.shows("disconnects_total") == 0
        assert gateway.shows("streams_cut_total", reason="timeout") == 0


def test_a_stream_that_falls_silent_is_cut_by_the_gateways_own_clock(engine):
    engine.next.append(Plan(tokens=9, allowed=1))
    with serve(engine.url, silence=0.2) as gateway:
        assert "broke off" in gateway.ask(stream=True).text
        wait_for(lambda: gateway.shows("streams_cut_total", reason="timeout") == 1)
        assert gateway.shows("streams_cut_total", reason="upstream") == 0


# -- the queue --------------------------------------------------------------------------------------------------------
def test_a_full_queue_turns_calls_away_with_429(engine):
    with serve(engine.url, concurrency=1, waiting=0) as gateway, held(gateway, engine):
        refused = gateway.ask()
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "full")
        assert int(refused.headers["retry-after"]) >= 1
        assert gateway.shows("requests_total", status="429") == 1
        assert gateway.shows("queue_dropped_total", reason="full") == 1
        assert gateway.shows("queue_dropped_total", reason="ttl") == 0
        assert gateway.shows("calls_running") == 1
        assert len(engine.asked) == 1


def test_a_call_that_waits_too_long_is_given_up_with_503_and_never_reaches_the_engine(engine):
    with serve(engine.url, concurrency=1, ttl=0.1) as gateway, held(gateway, engine):
        refused = gateway.ask()
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "ttl")
        assert int(refused.headers["retry-after"]) >= 1
        assert gateway.shows("requests_total", status="503") == 1
        assert gateway.shows("queue_dropped_total", reason="ttl") == 1
        assert (gateway.shows("queue_seconds_sum") or 0) >= 0.1
        assert gateway.shows("queue_waiting") == 0
        assert len(engine.asked) == 1


def test_a_client_that_leaves_the_queue_never_reaches_the_engine(engine):
    with serve(engine.url, concurrency=1, ttl=30.0) as gateway:
        with held(gateway, engine):
            client = raw(gateway.port, body("never mind"))
            wait_for(lambda: gateway.shows("queue_waiting") == 1)
            client.close()
            wait_for(lambda: gateway.shows("queue_dropped_total", reason="left") == 1)
            wait_for(lambda: gateway.shows("requests_total", status="499") == 1)
            assert gateway.shows("disconnects_total") == 1
            assert gateway.shows("queue_waiting") == 0
        assert len(engine.asked) == 1


def test_whoever_waits_gets_the_place_as_it_comes_free(engine):
    with serve(engine.url, concurrency=1, ttl=30.0) as gateway, ThreadPoolExecutor(1) as pool:
        with held(gateway, engine):
            second = pool.submit(gateway.ask)
            wait_for(lambda: gateway.shows("queue_waiting") == 1)
        assert second.result().status_code == 200
        assert gateway.shows("queue_seconds_count") == 2
        assert gateway.shows("queue_seconds_bucket", le="0.01") == 1


def test_tokens_that_do_not_fit_are_refused_and_those_set_aside_are_shown_by_tenant(engine):
    with serve(engine.url, tokens=1000) as gateway:
        with held(gateway, engine, text="x" * 400, max_tokens=300, n=2, headers={TENANT: "search"}):
            assert gateway.shows("token_limit") == 1000
            reserved = gateway.shows("reserved_tokens", tenant="search")
            assert reserved is not None
            assert 2 * (100 + 300) <= reserved <= 2 * (105 + 300), "about four characters a token, for each answer"
            assert gateway.shows("tenant_sequences", tenant="search") == 2
            refused = gateway.ask("x" * 400, max_tokens=400)
            assert (refused.status_code, refused.json()["error"]["code"]) == (429, "tokens")
        wait_for(lambda: gateway.shows("reserved_tokens", tenant="search") == 0)
        assert gateway.ask("x" * 400, max_tokens=400).status_code == 200


# -- engines that fail ------------------------------------------------------------------------------------------------
def test_a_breaker_opens_after_failures_refuses_and_closes_when_the_engine_is_well(engine, monkeypatch):
    clock = SimpleNamespace(now=100.0, monotonic=lambda: clock.now)
    monkeypatch.setattr(example(), "time", clock)
    engine.next.extend([Plan(status=500), Plan(status=500), Plan(status=500)])
    with serve(engine.url, failures=2, rest=10.0) as gateway:
        assert [gateway.ask().status_code for _ in range(2)] == [500, 500]
        assert gateway.shows("breaker_open", upstream="engine-0") == 1
        assert gateway.shows("upstream_up", upstream="engine-0") == 0
        refused = gateway.ask()
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "breaker")
        assert len(engine.asked) == 2
        assert gateway.shows("upstream_requests_total", upstream="engine-0", status="500") == 2
        clock.now += 11.0
        assert gateway.ask().status_code == 500, "the trial"
        assert gateway.shows("breaker_open", upstream="engine-0") == 1
        assert gateway.ask().status_code == 503
        clock.now += 11.0
        assert [gateway.ask().status_code for _ in range(2)] == [200, 200]
        assert gateway.shows("breaker_open", upstream="engine-0") == 0
        assert gateway.shows("upstream_up", upstream="engine-0") == 1


def test_an_engine_that_is_full_opens_no_breaker(engine):
    engine.usual = Plan(status=503, headers={"retry-after": "7"})
    with serve(engine.url, failures=2) as gateway:
        answers = [gateway.ask(stream=i % 2 == 0) for i in range(4)]
        assert [(answer.status_code, answer.headers["retry-after"]) for answer in answers] == [(503, "7")] * 4
        assert gateway.shows("breaker_open", upstream="engine-0") == 0


def test_a_refused_connection_is_tried_again_elsewhere_and_both_are_counted(engine):
    with Upstream() as other, serve(engine.url, other.url) as gateway:
        engine.refuse()
        assert gateway.ask().status_code == 200
        assert gateway.shows("connect_errors_total") == 1
        assert gateway.shows("retries_total", by="gateway") == 1
        assert gateway.shows("calls_total") == 1
        assert gateway.shows("upstream_requests_total", upstream="engine-1", status="200") == 1
        assert gateway.shows("upstream_requests_total", upstream="engine-0") == 0
        other.refuse()
        assert gateway.ask().status_code == 502
        assert gateway.shows("connect_errors_total") == 3
        assert gateway.shows("requests_total", status="502") == 1


# -- who asks, and how often ------------------------------------------------------------------------------------------
def test_a_clients_retry_is_known_by_its_idempotency_key(engine):
    with serve(engine.url) as gateway:
        for key in ("a", "b", "a", "a"):
            gateway.ask(f"question {key}", headers={"idempotency-key": key, TENANT: "search"})
        assert gateway.shows("retries_total", tenant="search") == 2
        assert gateway.shows("retries_total", by="gateway") in (None, 0)
        assert gateway.shows("calls_total") == 4


def test_a_tenant_that_floods_is_told_from_those_that_wait_for_it(engine):
    with serve(engine.url, concurrency=2, ttl=30.0) as gateway, ThreadPoolExecutor(3) as pool:
        with held(gateway, engine, n=2, text="long " * 50, headers={TENANT: "flood"}):
            assert gateway.shows("tenant_sequences", tenant="flood") == 2
            quiet = [pool.submit(gateway.ask, "hi", headers={TENANT: "quiet"}) for _ in range(3)]
            wait_for(lambda: gateway.shows("queue_waiting") == 3)
            assert gateway.shows("tenant_sequences", tenant="quiet") == 3
        assert [call.result().status_code for call in quiet] == [200] * 3
        assert gateway.shows("tokens_total", tenant="flood") == 2 * (50 + 3)
        assert gateway.shows("tokens_total", tenant="quiet") == 3 * (1 + 3)
        assert gateway.shows("queue_seconds_bucket", tenant="flood", le="0.01") == 2
        assert gateway.shows("queue_seconds_bucket", tenant="quiet", le="0.01") == 0


def test_more_tenants_than_may_have_series_are_other_and_no_token_is_lost(engine):
    with serve(engine.url, kit={"tenants": 3}) as gateway:
        for i in range(20):
            gateway.ask("one two", headers={TENANT: f"team-{i}"})
        snapshot = gateway.snapshot()
        tokens = {s.label("tenant"): v for s, v in snapshot.samples.items() if s.name == "llm_gateway_tokens_total"}
        assert sum(tokens.values()) == 20 * (2 + 3)
        assert "other" in tokens
        assert len(tokens) <= 2 * 3 + 1


def test_calls_are_held_against_what_users_asked(engine):
    with serve(engine.url, kit={"planned_calls": 2}) as gateway:
        for i in range(6):
            gateway.ask(f"step {i}", headers={USER: f"request-{i // 3}"})
        assert gateway.shows("calls_total") == 6
        assert gateway.shows("user_requests_total") == 2
        assert gateway.shows("planned_calls") == 2


def test_a_session_that_loops_is_seen_by_its_calls_and_by_its_tool(engine):
    with serve(engine.url) as gateway:
        for i in range(12):
            gateway.ask(messages=looping(i), headers={SESSION: "loop"})
        for i in range(4):
            gateway.ask(f"a question of its own {i}", headers={SESSION: f"session-{i}"})
        assert gateway.shows("session_calls_peak") == 12
        assert gateway.shows("session_calls_median") == 1
        assert gateway.shows("session_repeats_peak") == 11
        assert "loop" not in gateway.text()


def test_the_same_question_again_is_a_repeat_whoever_asks(engine):
    with serve(engine.url) as gateway:
        for tenant in ("a", "b", "c"):
            gateway.ask("what is the capital of France", headers={TENANT: tenant})
        gateway.ask("what is the capital of Spain")
        assert gateway.shows("exact_repeats_total") == 2
        assert gateway.shows("cache_hits_total") == 0


# -- traces -----------------------------------------------------------------------------------------------------------
def test_the_engine_is_told_the_gateways_span_as_its_caller_not_the_clients(engine):
    kept, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    above = f"00-{'a' * 32}-{'b' * 16}-01"
    with serve(engine.url, kit={"tracer_provider": provider}) as gateway:
        gateway.ask(stream=True, headers={"traceparent": above, TENANT: "search"})
        wait_for(kept.get_finished_spans, "the span")
    (span,) = kept.get_finished_spans()
    assert span.context is not None
    assert span.parent is not None
    assert (f"{span.context.trace_id:032x}", f"{span.parent.span_id:016x}") == ("a" * 32, "b" * 16)
    assert engine.asked[0].headers["traceparent"] == f"00-{'a' * 32}-{span.context.span_id:016x}-01"
    assert span.attributes is not None
    assert span.attributes["llm.tenant"] == "search"


def test_a_body_that_is_none_is_the_clients_fault(engine):
    with serve(engine.url) as gateway:
        assert gateway.client.post(PATH, content=b"[1, 2").status_code == 400
        assert gateway.shows("requests_total", status="400") == 1
        assert engine.asked == []


# -- the simulated engine ---------------------------------------------------------------------------------------------
def test_it_stands_in_front_of_the_simulated_engine_too():
    with Served(scenario("idle").live(origin=time.time())) as simulated, serve(simulated.url) as gateway:
        answer = gateway.ask("one two three", stream=True, model="sim-8b", max_tokens=4, headers={TENANT: "search"})
        (usage,) = re.findall(r'"total_tokens":\s*(\d+)', answer.text)
        wait_for(lambda: gateway.shows("tokens_total", tenant="search") == float(usage))
        leaving = raw(gateway.port, body("count to a thousand", stream=True, model="sim-8b", max_tokens=1000))
        has(leaving, b"data:")
        leaving.close()
        wait_for(lambda: gateway.shows("disconnects_total") == 1)

        def running() -> float:
            page = httpx.get(simulated.page_url).text
            return sum(map(float, re.findall(r"^vllm:num_requests_running\S* (\S+)$", page, flags=re.M)))

        wait_for(lambda: running() == 0, "the end of the engine's work")
        page = httpx.get(simulated.page_url).text
        assert re.findall(r'^vllm:request_success_total\{.*finished_reason="length".*\} (\S+)$', page, flags=re.M) == [
            "1.0"
        ]
