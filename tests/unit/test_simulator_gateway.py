"""The simulated gateway: nothing is lost in it, its limits hold, and its telemetry says what passed through."""

import math
import time
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import llmvitals.signals
from llmvitals.schema import FAMILIES, Family, Kind, Origin, family_of, origin_of
from llmvitals.simulator.config import EngineConfig
from llmvitals.simulator.gateway_families import samples
from llmvitals.simulator.setup import Faults, Gateway, Host, Setup
from llmvitals.simulator.workload import Lengths, Stream, Workload
from llmvitals.simulator.world import World
from support.stations import Station

CHAT = Stream("chat", rate=12.0, prompt=Lengths(100), output=Lengths(40), max_tokens=60)
SMALL = EngineConfig(max_num_seqs=8)
SIGNAL_SOURCES = [path.read_text() for path in Path(llmvitals.signals.__path__[0]).rglob("*.py")]


def world(*streams, gateway=None, engine=SMALL, seed=1, **parts) -> World:
    return World(Setup(engine, Workload(streams, seed), gateway=gateway or Gateway(), **parts))


def figures(here: World) -> dict[tuple[str, ...], float]:
    """Samples by family and label values, identity left out."""
    found = {}
    for key, value in samples(here, {"instance": "sim", "model": "m"}).items():
        own = [v for k, v in key.labels if k not in {"instance", "model", "gateway"}]
        found[key.name.removeprefix("llm_gateway_"), *own] = value
    return found


def total(found, name: str, *labels: str) -> float:
    return sum(v for key, v in found.items() if key[0] == name and set(labels) <= set(key[1:]))


# -- nothing is lost --------------------------------------------------------------------------------------------------
gateways = st.builds(
    Gateway,
    concurrency=st.sampled_from((0, 2, 6)),
    queue_limit=st.sampled_from((None, 0, 3)),
    ttl=st.sampled_from((math.inf, 0.5, 3.0)),
    read_timeout=st.sampled_from((math.inf, 0.3, 2.0)),
    cancel_seconds=st.sampled_from((0.0, 1.0, math.inf)),
    breaker_ratio=st.sampled_from((1.0, 0.2)),
    breaker_seconds=st.just(3.0),
    response_cache=st.booleans(),
    keep_alive=st.booleans(),
    connection_limit=st.sampled_from((65_536, 8)),
    ephemeral_ports=st.sampled_from((28_232, 30)),
    weights=st.sampled_from(((), (("a", 3.0), ("b", 1.0)))),
)
kinds = st.builds(
    Stream,
    end=st.just(20.0),
    rate=st.sampled_from((1.0, 6.0)),
    clients=st.integers(0, 3),
    tenant=st.sampled_from(("a", "b", "c")),
    prompt=st.just(Lengths(600, 1.0)),
    timeout=st.sampled_from((math.inf, 0.7, 2.0)),
    retries=st.integers(0, 2),
    leaves=st.sampled_from((0.0, 0.5)),
    fan_out=st.sampled_from((1.0, 2.0)),
    repeats=st.sampled_from((0.0, 0.6)),
)


@settings(max_examples=150, deadline=None)
@given(gateways, st.lists(kinds, min_size=1, max_size=2), st.integers(0, 3))
def test_every_call_ends_exactly_once_and_what_came_was_answered_or_is_open(config, streams, seed):
    here = Station(*streams, gateway=config, seconds=0.8, seed=seed)
    gateway, clients = here.gateway, here.clients
    here.clock.at(6.0, lambda: setattr(here.server, "outcome", "error"))
    here.clock.at(9.0, lambda: setattr(here.server, "up", False))
    here.clock.at(11.0, lambda: setattr(here.server, "up", True))
    here.clock.at(12.0, lambda: setattr(here.server, "outcome", "ok"))
    for tick in range(1, 50):
        here.run(tick * 0.5)
        assert clients.sent == len(clients.log) + len(clients.open)
        assert clients.sent == sum(gateway.book.answered.values()) + gateway.open_calls
        assert gateway.open_calls == len(clients.open)
        assert here.server.busy == gateway.open_upstream == gateway.connections - gateway.open_calls
        if config.concurrency:
            assert gateway.open_upstream <= config.concurrency
            assert gateway.waiting <= (math.inf if config.queue_limit is None else config.queue_limit)
        else:
            assert gateway.waiting == 0
        assert gateway.connections <= config.connection_limit
        assert gateway.ports_used <= config.ephemeral_ports
    here.run(400.0)
    ended = [answer.request.number for answer in clients.log]
    assert len(ended) == len(set(ended)) == clients.sent
    assert gateway.open_calls == gateway.open_upstream == gateway.waiting == here.server.busy == 0
    by_outcome = here.outcomes()
    statuses = {s: sum(n for (_, status), n in gateway.book.answered.items() if status == s) for s in ("200", "499")}
    assert statuses["200"] == by_outcome.get("ok", 0)
    assert statuses["499"] == by_outcome.get("timeout", 0) + by_outcome.get("left", 0) == gateway.book.disconnects
    assert sum(gateway.book.retries.values()) == clients.retries
    assert gateway.book.user_requests == clients.user_requests


# -- the queue --------------------------------------------------------------------------------------------------------
def test_a_full_queue_refuses_and_a_bounded_wait_drops():
    """2 at once, 1 s each: 2/s are served of 6/s; the rest is refused at a length of 10 or dropped after 1.5 s."""
    here = Station(Stream(rate=6.0), gateway=Gateway(concurrency=2, queue_limit=10), seconds=1.0).run(300.0)
    outcomes = here.outcomes()
    assert outcomes["ok"] / 300.0 == pytest.approx(2.0, rel=0.02)
    assert outcomes["rejected"] == here.gateway.book.dropped["full"] == here.gateway.book.answered["default", "429"]
    late = [a.ended - a.sent for a in here.clients.log if a.outcome == "ok" and a.sent > 30.0]
    assert max(late) <= 10 / 2 + 1.0 + 1.0  # ten before it, two at a time, then its own second

    here = Station(Stream(rate=6.0), gateway=Gateway(concurrency=2, ttl=1.5), seconds=1.0).run(300.0)
    assert (
        here.outcomes()["dropped"] == here.gateway.book.dropped["ttl"] == here.gateway.book.answered["default", "504"]
    )
    assert all(a.ended - a.sent == pytest.approx(1.5) for a in here.clients.log if a.outcome == "dropped")
    waits = here.gateway.book.queue_seconds["default"]
    assert waits.counts[-1] == 0
    assert waits.sum <= 1.5 * waits.count


def test_an_unbounded_queue_grows_by_what_is_not_served():
    here = Station(Stream(rate=6.0), gateway=Gateway(concurrency=2), seconds=1.0).run(300.0)
    assert here.gateway.waiting == pytest.approx((6.0 - 2.0) * 300.0, rel=0.1)
    assert set(here.outcomes()) == {"ok"}


def shares(*, weights) -> dict[str, float]:
    """Calls answered by tenant while a's 20 calls/s and b's 4 stand before room for 4/s."""
    streams = (Stream("a", rate=20.0, tenant="a"), Stream("b", rate=4.0, tenant="b"))
    here = Station(*streams, gateway=Gateway(concurrency=4, weights=weights), seconds=1.0).run(300.0)
    served = [a.tenant for a in here.clients.log]
    return {tenant: served.count(tenant) / len(served) for tenant in ("a", "b")}


def test_without_weights_a_loud_tenant_takes_what_it_sends_and_with_them_its_weight():
    assert shares(weights=())["a"] == pytest.approx(20 / 24, abs=0.05)
    assert shares(weights=(("a", 1.0), ("b", 1.0)))["a"] == pytest.approx(0.5, abs=0.03)
    assert shares(weights=(("a", 1.0), ("b", 3.0)))["a"] == pytest.approx(0.25, abs=0.03)


def test_a_fair_queue_never_leaves_room_empty_for_a_tenant_that_is_not_there():
    here = Station(Stream("a", rate=20.0, tenant="a"), gateway=Gateway(concurrency=4, weights=(("a", 1.0), ("b", 9.0))))
    here.run(100.0)
    assert len(here.clients.log) == pytest.approx(400, abs=10)


def test_a_tenant_that_was_away_gets_no_credit_for_it():
    """a is served alone for 100 s; when b comes with an equal weight they share, and b does not catch up first."""
    streams = (Stream("a", rate=20.0, tenant="a"), Stream("b", start=100.0, rate=20.0, tenant="b"))
    here = Station(*streams, gateway=Gateway(concurrency=4, weights=(("a", 1.0), ("b", 1.0))), seconds=1.0).run(140.0)
    late = [a.tenant for a in here.clients.log if a.ended > 105.0]
    assert late.count("b") / len(late) == pytest.approx(0.5, abs=0.05)


# -- breaker, timeouts, cancellation ----------------------------------------------------------------------------------
def test_the_breaker_opens_on_errors_stays_open_and_closes_on_a_call_that_succeeds():
    config = Gateway(breaker_ratio=0.5, breaker_seconds=10.0)
    here = Station(Stream(rate=10.0), gateway=config, seconds=0.1).run(29.0)
    assert not here.gateway.breaker.open
    here.server.outcome = "error"
    here.run(65.0)  # half of the last 30 s is an error after some 15 s
    assert here.gateway.breaker.open
    refused = [a for a in here.clients.log if a.outcome == "rejected"]
    assert refused
    # One probe every 10 s and nothing else while it is open.
    probes = [at for at, _ in here.server.came if at > refused[0].ended]
    assert 1 <= len(probes) <= 4
    assert all(b - a >= 10.0 for a, b in pairwise(probes))
    here.server.outcome = "ok"
    here.run(80.0)
    assert not here.gateway.breaker.open
    assert here.clients.log[-1].outcome == "ok"
    assert here.gateway.book.answered["default", "503"] == here.outcomes()["rejected"]


def test_a_probe_whose_client_leaves_does_not_keep_the_breaker_open():
    config = Gateway(breaker_ratio=0.5, breaker_seconds=10.0)
    here = Station(Stream(rate=10.0, timeout=0.5), gateway=config, seconds=0.1)
    here.server.outcome = "error"
    here.run(10.0)
    assert here.gateway.breaker.open
    here.server.outcome, here.server.seconds = "ok", 1.0  # whoever probes is gone before the answer
    here.run(25.0)
    assert here.gateway.breaker.open
    here.server.seconds = 0.1
    here.run(30.0)
    assert not here.gateway.breaker.open


def test_a_breaker_does_not_open_on_a_handful_of_errors_nor_below_its_ratio():
    few = Station(Stream(rate=0.3), gateway=Gateway(breaker_ratio=0.2), seconds=0.1)
    few.server.outcome = "error"
    few.run(200.0)
    assert not few.gateway.breaker.open  # 9 results in 30 s
    some = Station(Stream(rate=10.0), gateway=Gateway(breaker_ratio=0.5), seconds=0.1)
    for second in range(200):  # every fourth second fails
        some.clock.at(second, lambda s=second: setattr(some.server, "outcome", "error" if s % 4 == 0 else "ok"))
    some.run(200.0)
    assert "rejected" not in some.outcomes()


def test_a_read_timeout_cuts_what_takes_longer_and_the_engine_is_told():
    here = Station(Stream(rate=2.0), gateway=Gateway(read_timeout=1.5), seconds=2.0).run(100.0)
    assert set(here.outcomes()) == {"cut"}
    assert all(a.ended - a.sent == pytest.approx(1.5) and a.first is not None for a in here.clients.log)
    assert here.gateway.book.cut["timeout"] == len(here.server.cancelled) == len(here.clients.log)


@pytest.mark.parametrize(("cancel", "busy"), [(0.0, 0.5), (0.4, 0.9), (math.inf, 3.0)])
def test_an_engine_works_on_for_clients_that_left_until_it_hears_of_it(cancel, busy):
    """Little's law: calls that the engine holds are arrivals x the time that it holds each. Clients stay half a second."""
    here = Station(Stream(rate=10.0, timeout=0.5), gateway=Gateway(cancel_seconds=cancel), seconds=3.0)
    held = []
    for tick in range(100, 4000):
        here.run(tick * 0.1)
        held.append(here.server.busy)
    assert sum(held) / len(held) == pytest.approx(10.0 * busy, rel=0.06)
    assert here.gateway.book.disconnects == here.outcomes()["timeout"] == len(here.clients.log)
    assert bool(here.server.cancelled) == (cancel < math.inf)


def test_ghosts_hold_their_place_at_the_gateway_until_the_engine_is_done():
    here = Station(Stream(rate=10.0, timeout=0.5), gateway=Gateway(concurrency=2, cancel_seconds=math.inf), seconds=1.0)
    here.run(100.0)
    assert len(here.server.came) == pytest.approx(200, abs=5)  # two at a time, a second each
    assert here.server.busiest == 2
    assert here.gateway.book.dropped["left"] > 500
    assert here.gateway.book.disconnects == here.outcomes()["timeout"]


def test_a_client_that_leaves_while_it_waits_never_reaches_the_engine():
    here = Station(Stream(rate=10.0, patience=0.3), gateway=Gateway(concurrency=1), seconds=1.0).run(60.0)
    came = {call.request.number for _, call in here.server.came}
    stayed_away = [a for a in here.clients.log if a.request.number not in came]
    assert {a.outcome for a in stayed_away} == {"left"}
    assert len(stayed_away) == here.gateway.book.dropped["left"] > 200
    assert len(came) == here.clients.sent - len(stayed_away) - here.gateway.waiting


# -- cache and connections --------------------------------------------------------------------------------------------
def test_a_cache_answers_what_was_asked_before_and_without_one_it_is_computed_again():
    kind = Stream(rate=10.0, repeats=0.5, prompt=Lengths(300, 1.0))
    plain = Station(kind, gateway=Gateway(), seconds=0.2).run(200.0)
    cached = Station(kind, gateway=Gateway(response_cache=True), seconds=0.2).run(200.0)
    for here in (plain, cached):
        assert here.gateway.book.exact_repeats / here.clients.sent == pytest.approx(0.5, abs=0.05)
    assert plain.gateway.book.cache_hits == 0
    assert len(plain.server.came) == plain.clients.sent
    hits = [answer for answer in cached.clients.log if answer.cached]
    assert cached.gateway.book.cache_hits == len(hits) == cached.clients.sent - len(cached.server.came)
    assert len(hits) >= 0.95 * cached.gateway.book.exact_repeats  # all but those whose first is still being computed
    assert max(answer.ended - answer.sent for answer in hits) < 0.01
    assert {answer.tokens for answer in hits} == {10}


def test_without_keep_alive_ports_stand_in_time_wait_for_a_minute():
    """Little's law: 20 calls/s x 60 s."""
    here = Station(Stream(rate=20.0), gateway=Gateway(keep_alive=False), seconds=0.5).run(50.0)
    assert here.gateway.time_wait == pytest.approx(20.0 * 49.5, rel=0.1)
    seen = []
    for tick in range(100, 600, 10):
        here.run(float(tick))
        seen.append(here.gateway.time_wait)
        assert here.gateway.ports_used == here.gateway.time_wait + here.gateway.open_upstream
    assert sum(seen) / len(seen) == pytest.approx(20.0 * 60.0, rel=0.05)
    kept = Station(Stream(rate=20.0), gateway=Gateway(), seconds=0.5).run(200.0)
    assert kept.gateway.time_wait == 0
    assert kept.gateway.ports_used <= kept.server.busiest


def test_calls_fail_when_no_port_is_left_and_go_on_when_some_are_free_again():
    """600 ports for a minute each carry 10 calls/s, whatever comes."""
    config = Gateway(keep_alive=False, ephemeral_ports=1000)
    here = Station(Stream(rate=20.0), gateway=config, seconds=0.1, foreign=400).run(600.0)
    outcomes = here.outcomes()
    assert outcomes["ok"] / 600.0 == pytest.approx(600 / 60.1, rel=0.1)
    assert outcomes["error"] == here.gateway.book.connect_errors == here.gateway.book.answered["default", "503"]
    assert here.gateway.ports_used <= 1000
    fine = Station(Stream(rate=20.0), gateway=replace(config, keep_alive=True), seconds=0.1, foreign=400).run(600.0)
    assert set(fine.outcomes()) == {"ok"}


def test_a_gateway_holds_no_more_connections_than_it_may():
    here = Station(Stream(rate=20.0), gateway=Gateway(connection_limit=20), seconds=1.0).run(100.0)
    assert here.server.busiest == 10  # one to the client and one to the engine
    assert here.outcomes()["error"] == here.gateway.book.connect_errors > 500


def test_a_server_without_descriptors_takes_no_new_connection():
    """44 + open calls + 2 for each answered one: 256 last for about a hundred answers, until a restart."""
    here = world(replace(CHAT, rate=5.0), host=Host(max_fds=256), faults=Faults(fd_leak=2.0))
    here.advance(60.0)
    answered = [a for a in here.clients.log if a.outcome == "ok"]
    assert len(answered) == pytest.approx((256 - 44) / 2, abs=10)
    assert here.front.open_fds >= 255
    assert here.clients.log[-1].outcome == "error"
    assert here.gateway.book.connect_errors == len(here.clients.log) - len(answered)
    direct = World(replace(here.setup, gateway=None))
    direct.advance(60.0)
    assert [a.outcome for a in direct.clients.log].count("ok") == len(answered)


# -- storms -----------------------------------------------------------------------------------------------------------
@cache
def storm(*, stalls=((40.0, 55.0),), jitter=False, budget=math.inf, cancel=math.inf) -> tuple[float, float]:
    """Goodput (answers/s) before a stall of 15 s and from 45 s after it on; 12 calls/s on a server good for some 20."""
    kind = replace(CHAT, timeout=4.0, retries=6, backoff=0.5, jitter=jitter, retry_budget=budget)
    here = world(kind, gateway=Gateway(cancel_seconds=cancel), faults=Faults(stalls=stalls))
    here.advance(140.0)
    good = [a.ended for a in here.clients.log if a.outcome == "ok"]
    return sum(10 <= t < 40 for t in good) / 30.0, sum(100 <= t < 140 for t in good) / 40.0


def test_a_storm_of_retries_outlives_its_trigger_and_dies_with_jitter_and_a_budget():
    assert storm(stalls=())[1] == pytest.approx(12.0, rel=0.15)
    before, after = storm()
    assert before == pytest.approx(12.0, rel=0.15)
    assert after < 1.0
    before, after = storm(jitter=True, budget=0.1)
    assert before == pytest.approx(12.0, rel=0.15)
    assert after == pytest.approx(12.0, rel=0.15)


def test_ghosts_make_an_engine_compute_what_nobody_reads():
    """Answers of 12 s that clients leave after 3: with cancellation a quarter of the tokens, without all of them."""
    kind = Stream(rate=0.5, prompt=Lengths(50), output=Lengths(1000), max_tokens=1000, timeout=3.0)
    told, untold = (world(kind, gateway=Gateway(cancel_seconds=s), engine=EngineConfig()) for s in (0.0, math.inf))
    for here in (told, untold):
        here.advance(120.0)
        assert {a.outcome for a in here.clients.log} == {"timeout"}
    assert untold.engine.counters.generated_tokens > 2.5 * told.engine.counters.generated_tokens
    assert sum(told.engine.counters.finished.values()) == 0
    assert sum(untold.engine.counters.finished.values()) > 30
    assert figures(told)["tokens_total", "default"] == pytest.approx(
        told.engine.counters.generated_tokens + 50 * len(told.clients.log), rel=0.05
    )


# -- what the telemetry shows -----------------------------------------------------------------------------------------
BUSY = (
    replace(CHAT, rate=6.0, tenant="a", repeats=0.2, fan_out=2.0, timeout=3.0, retries=2, leaves=0.1, sessions=20),
    Stream("documents", rate=0.3, tenant="b", prompt=Lengths(1500, 0.2), output=Lengths(30), prefix_tokens=1000),
    Stream(
        "agent", clients=1, sessions=1, loops=True, tenant="b", prompt=Lengths(200), output=Lengths(10), max_tokens=10
    ),
)
FULL = Gateway("edge", 12, 20, ttl=2.0, breaker_ratio=0.6, weights=(("a", 2.0), ("b", 1.0)), planned_calls=2.0)


def test_every_gateway_family_is_there_and_is_what_the_schema_says():
    here = world(*BUSY, gateway=FULL)
    here.advance(30.0)
    found = samples(here, {"instance": "sim", "model": "m"})
    named = {}
    for key in found:
        family = family_of(key.name)
        assert family is not None, key
        named[family.name] = family
        own = {k for k, _ in key.labels} - {"le"}
        assert {"instance", "model", "gateway"} <= own <= {"instance", "model", *family.labels}
        assert key.label("gateway") == "edge"
        assert (key.name.endswith("_bucket")) == bool(key.label("le"))
    assert {family.name for family in FAMILIES if origin_of(family.name) is Origin.GATEWAY and read(family)} <= set(
        named
    )


def read(family: Family) -> bool:
    """Whether a signal reads the family."""
    return any(family.name in source for source in SIGNAL_SOURCES)


def test_counters_and_buckets_never_go_back_not_even_when_the_server_restarts():
    here = world(*BUSY, gateway=FULL, faults=Faults(failing=((20.0, 25.0),), stalls=((30.0, 40.0),), dies_at=50.0))
    before: dict = {}
    for tick in range(1, 40):
        here.advance(tick * 1.5)
        now = samples(here, {"instance": "sim", "model": "m"})
        for key, value in before.items():
            family = family_of(key.name)
            if family.kind is not Kind.GAUGE:
                assert now[key] >= value, key
        before = now
    found = figures(here)
    for name in ("ttft_seconds", "queue_seconds"):
        for own in ("small", "large") if name == "ttft_seconds" else ("a", "b"):
            buckets = [v for key, v in found.items() if key[0] == f"{name}_bucket" and own in key]
            assert buckets == sorted(buckets)
            assert buckets[-1] == found[f"{name}_count", own]


def test_the_telemetry_counts_what_clients_lived_through():
    here = world(*BUSY, gateway=FULL)
    here.advance(60.0)
    found, log = figures(here), here.clients.log
    answers = [a.outcome for a in log]
    assert total(found, "requests_total") == len(log)
    assert total(found, "requests_total", "200") == answers.count("ok")
    assert total(found, "requests_total", "b") == sum(a.tenant == "b" for a in log)
    assert total(found, "requests_total", "499") == answers.count("timeout") + answers.count("left")
    assert total(found, "requests_total", "504") == answers.count("dropped")
    assert total(found, "retries_total", "a") == here.clients.retries
    assert found["user_requests_total",] == here.clients.user_requests
    assert total(found, "ttft_seconds_count", "large") == pytest.approx(
        sum(a.request.prompt >= 1024 for a in log), abs=3
    )
    assert found["queue_limit",] == 20
    assert found["tenant_weight", "a"] == 2.0
    assert found["planned_calls",] == 2.0
    served = sum(a.request.prompt + a.tokens for a in log if a.tenant == "b" and a.outcome == "ok")
    assert found["tokens_total", "b"] == pytest.approx(served, rel=0.02)


def test_an_agent_in_a_loop_stands_out_among_sessions():
    """It calls again at once; the others make a few calls a minute each. The same tool again: one call less."""
    here = world(*BUSY, engine=EngineConfig())
    here.advance(120.0)
    found = figures(here)
    agent = sum(a.request.stream == 2 and a.sent > 60.0 for a in here.clients.log)
    assert found["session_calls_peak",] == pytest.approx(agent, abs=2)
    assert found["session_repeats_peak",] == found["session_calls_peak",] - 1
    # A median over 20 sessions of 36 calls each and 18 of one call: between the two kinds.
    assert 1 <= found["session_calls_median",] < found["session_calls_peak",] / 5
    calm = world(*BUSY[:2], engine=EngineConfig())
    calm.advance(120.0)
    assert figures(calm)["session_repeats_peak",] == 0
    here.advance(120.0)
    assert figures(here) == found  # asking again changes nothing


def test_retries_make_no_busy_session_and_no_new_user_request():
    here = world(replace(CHAT, rate=1.0, retries=4, backoff=0.5), faults=Faults(failing=((0.0, 60.0),)))
    here.advance(55.0)
    found = figures(here)
    assert here.clients.retries > 3 * here.clients.user_requests
    assert found["session_calls_peak",] == 1
    assert found["exact_repeats_total",] == total(found, "retries_total") == here.clients.retries
    assert total(found, "requests_total", "500") == len(here.clients.log)


def test_shared_text_is_known_wherever_it_stands_in_the_prompt():
    kind = Stream(rate=2.0, prompt=Lengths(1200), prefix_tokens=900, prefixes=3, output=Lengths(5))
    for id_first in (False, True):
        here = world(replace(kind, id_first=id_first), engine=EngineConfig())
        here.advance(100.0)
        found = figures(here)
        calls = found["prompt_tokens_total",] / 1200
        assert found["shared_prefix_tokens_total",] == 900 * (calls - 3)
        assert (here.engine.counters.hit_tokens == 0) == id_first
    again = world(replace(kind, prefix_tokens=0, repeats=0.5), engine=EngineConfig())
    again.advance(100.0)
    found = figures(again)  # a prompt that comes again is known from end to end
    assert found["shared_prefix_tokens_total",] == 1200 * found["exact_repeats_total",] > 0
    alone = world(replace(kind, prefix_tokens=0), engine=EngineConfig())
    alone.advance(100.0)
    assert figures(alone)["shared_prefix_tokens_total",] == 0


def test_a_gateway_without_a_queue_shows_no_queue_times_and_no_limit():
    here = world(CHAT)
    here.advance(10.0)
    names = {key[0] for key in figures(here)}
    assert not {name for name in names if name.startswith("queue_seconds") or name == "queue_limit"}
    assert not samples(World(replace(here.setup, gateway=None)), {})


def test_reading_the_telemetry_is_cheap():
    here = world(*BUSY, gateway=FULL)
    here.advance(60.0)
    began = time.process_time()
    for _ in range(50):
        samples(here, {"instance": "sim", "model": "m"})
    assert (time.process_time() - began) / 50 < 0.01


def test_an_engine_that_fails_its_probe_or_is_gone_is_no_upstream_to_send_to():
    faults = Faults(unready=((5.0, 8.0),), failing=((12.0, 15.0),), dies_at=20.0)
    here, seen = world(CHAT, faults=faults), {}
    for moment in (4.0, 6.0, 10.0, 14.0, 21.0):
        here.advance(moment)
        seen[moment] = figures(here)["upstream_up", "engine"]
    assert seen == {4.0: 1.0, 6.0: 0.0, 10.0: 1.0, 14.0: 1.0, 21.0: 0.0}
