"""Exact goodput is exact: what spans come to, read and counted as production does, is what the clients' own log comes to.

At the engine's vantage a request is held to the engine's own times, at a gateway's to what its client waited. The interval that
histograms allow holds the exact number in every window in which it is shown.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from llmvitals.settings import Slo, SloClass
from llmvitals.signals.derived import requests, user
from llmvitals.signals.reading import Standing
from llmvitals.simulator.config import EngineConfig, Preemption, Speculation
from llmvitals.simulator.scenarios import scenario
from llmvitals.simulator.setup import Faults, Front, Gateway, Restart, Setup, Slow
from llmvitals.simulator.workload import Lengths, Stream, Workload
from support.engines import IDEAL
from support.goodput import ENGINE, GATEWAY, Played, Timed, spy

CHAT = Stream("chat", rate=4.0, prompt=Lengths(400, 0.4), output=Lengths(120, 0.4), max_tokens=512, tenant="acme")
THRASH = scenario("preemption")
SLO = Slo(
    ttft_seconds=0.317,
    tpot_seconds=0.0193,
    classes=(
        SloClass(name="batch", tenants=("batch*",), ttft_seconds=1.7, tpot_seconds=0.11, e2e_seconds=4.1),
        SloClass(name="documents", routes=("doc*",), ttft_seconds=0.9),
    ),
)

# What is simulated: engine, streams, other parts. No field says what goes wrong.
SETUPS: dict[str, tuple[EngineConfig, tuple[Stream, ...], dict[str, object]]] = {
    "chat": (EngineConfig(), (CHAT,), {}),
    "queue": (EngineConfig(max_num_seqs=8), (replace(CHAT, rate=5.0, output=Lengths(200, 0.3)),), {}),
    "thrash": (THRASH.config, THRASH.workload.streams, {}),
    "swap": (replace(THRASH.config, preemption=Preemption.SWAP), THRASH.workload.streams, {}),
    "bursts": (EngineConfig(max_num_seqs=16), (replace(CHAT, rate=6.0, burstiness=5.0),), {}),
    "aborts": (
        EngineConfig(max_num_seqs=16),
        (replace(CHAT, rate=7.0, leaves=0.3, patience=3.0, timeout=2.5, retries=2),),
        {},
    ),
    "rejections": (EngineConfig(max_num_seqs=8, max_queued=4), (replace(CHAT, rate=7.0),), {}),
    "errors": (EngineConfig(), (CHAT,), {"faults": Faults(failing=((30.0, 40.0),), stalls=((60.0, 64.0),))}),
    "too long": (EngineConfig(), (CHAT, replace(CHAT, name="documents", prompt=Lengths(8200, 0.3), rate=1.0)), {}),
    "starved": (EngineConfig(), (replace(CHAT, rate=6.0),), {"front": Front(cores=0.06)}),
    "drafts": (EngineConfig(speculation=Speculation(3, 0.7)), (CHAT,), {}),
    "one token": (EngineConfig(), (CHAT, replace(CHAT, name="yes or no", output=Lengths(1), max_tokens=1)), {}),
}
GATEWAYS = {
    "none": None,
    "limits": Gateway(concurrency=8, queue_limit=6, ttl=2.0, read_timeout=3.0),
    "cache": Gateway(response_cache=True, cancel_seconds=1.0),
}


def setup(name: str, gateway: Gateway | None = None, *, end: float = math.inf, seed: int = 1, **more) -> Setup:
    config, streams, parts = SETUPS[name]
    other = Stream("nightly", rate=1.0, prompt=Lengths(900, 0.5), output=Lengths(150), tenant="batch-1", repeats=0.4)
    all_ = tuple(replace(stream, end=end) for stream in (*streams, other))
    return Setup(config, Workload(all_, seed), gateway=gateway, **{**parts, **more})


@pytest.fixture
def log(monkeypatch) -> list[Timed]:
    return spy(monkeypatch)


# -- drained: equal ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("gateway", GATEWAYS)
@pytest.mark.parametrize("name", SETUPS)
def test_every_request_is_in_the_class_and_on_the_side_where_the_log_has_it(name, gateway, log):
    played = Played(setup(name, GATEWAYS[gateway], end=40.0), SLO, spans_after=5.0, engine_log=log)
    played.play(45.0, every=5.0)
    played.drain()
    assert played.told(ENGINE) == played.by_engine() != {}
    assert played.told(GATEWAY) == (played.by_clients() if GATEWAYS[gateway] else {})
    counts = played.ledger.counts()
    assert (counts.dropped, counts.open, counts.other, counts.hurried) == ({}, 0, 0, 0)
    assert sum(counts.taken.values()) == counts.spans == len(log) + played.calls


@pytest.mark.parametrize("name", SETUPS)
def test_where_the_api_process_costs_nothing_the_engine_counts_what_clients_count(name, log):
    played = Played(setup(name, end=50.0, front=IDEAL), Slo(ttft_seconds=0.317, tpot_seconds=0.0193), engine_log=log)
    played.play(60.0, every=5.0)
    played.drain()
    whole = [answer for answer in played.live.world.clients.log if answer.outcome == "ok"]
    assert played.told(ENGINE) == played.by_clients(whole)


def test_set_ups_are_of_many_kinds(log):
    """Equality says nothing where all is well, or nothing is."""
    outcomes: set[str] = set()
    sides = 0
    for name in SETUPS:
        played = Played(setup(name, GATEWAYS["limits"], end=50.0), SLO)
        played.play(60.0, every=30.0)
        outcomes |= {answer.outcome for answer in played.live.world.clients.log}
        met = {(cls, met) for cls, met in played.by_clients()}
        sides += {("batch", "yes"), ("batch", "no"), ("default", "yes"), ("default", "no")} <= met
    assert outcomes >= {"ok", "left", "timeout", "error", "cut", "dropped", "rejected", "too long"}
    assert sides >= len(SETUPS) / 2


# -- under way: within what is in flight ------------------------------------------------------------------------------
@pytest.mark.parametrize("gateway", ["none", "limits"])
@pytest.mark.parametrize("name", ["queue", "thrash", "aborts", "starved"])
def test_at_any_moment_spans_lack_only_what_is_in_flight(name, gateway, log):
    played = Played(setup(name, GATEWAYS[gateway]), SLO, engine_log=log)
    for t in range(3, 60, 4):
        played.to(float(t))
        for told, truth in (
            (played.told(ENGINE), played.by_engine()),
            (played.told(GATEWAY), played.by_clients() if GATEWAYS[gateway] else {}),
        ):
            open_ = len(played.live.world.clients.open)
            for key in {*told, *truth}:
                assert 0 <= truth.get(key, 0) - told.get(key, 0) <= open_


def test_a_killed_process_takes_spans_with_it_and_that_is_counted(log):
    faults = Faults(restarts=(Restart(23.0, 30.0, "oom"),))
    played = Played(setup("chat", end=50.0, faults=faults), SLO, spans_after=5.0, engine_log=log)
    played.play(45.0, every=5.0)
    played.drain()
    assert sum(played.told(ENGINE).values()) + played.live.lost_spans == len(log)
    assert played.live.lost_spans > 0


# -- windows: the interval holds the exact number ---------------------------------------------------------------------
LIMITS = ((2.0, 0.05), (0.317, 0.0193), (0.062, 0.0112))


@pytest.mark.parametrize("name", [name for name in SETUPS if name != "starved"])
def test_the_interval_holds_what_clients_count_in_every_window(name, log):
    for ttft, tpot in LIMITS:
        log.clear()
        played = Played(setup(name, front=IDEAL), Slo(ttft_seconds=ttft, tpot_seconds=tpot), engine_log=log)
        played.play(90.0, every=5.0, scrape=True)
        shown = 0
        for c in played.windows(60.0):
            exact = played.exact(c.good.start, c.good.end)
            told = requests.slo_goodput_ratio(c)
            assert told.value == pytest.approx(exact)
            assert told.standing is Standing.EXACT
            low, high = user.goodput_low_ratio(c), user.goodput_high_ratio(c)
            assert (low.value is None) == (high.value is None)
            if low.value is not None:
                shown += 1
                assert low.value - 1e-12 <= exact <= high.value + 1e-12
        assert shown or name in {"queue"}


lengths = st.builds(Lengths, st.sampled_from((1, 4, 60, 200)), st.sampled_from((0.0, 0.6)))
streams = st.builds(
    Stream,
    rate=st.sampled_from((0.3, 2.0, 5.0)),
    burstiness=st.sampled_from((1.0, 4.0)),
    clients=st.sampled_from((0, 0, 12)),
    prompt=st.builds(Lengths, st.sampled_from((20, 300, 1500)), st.sampled_from((0.0, 0.6))),
    output=lengths,
    max_tokens=st.sampled_from((None, 1, 64)),
    leaves=st.sampled_from((0.0, 0.3)),
    patience=st.sampled_from((math.inf, 2.0)),
    timeout=st.sampled_from((math.inf, 5.0)),
    start=st.sampled_from((0.0, 20.0)),
    end=st.sampled_from((math.inf, 50.0)),
)
configs = st.builds(
    EngineConfig,
    blocks=st.sampled_from((520, 1024, 32_768)),
    max_model_len=st.just(4096),
    max_num_seqs=st.sampled_from((2, 8, 64)),
    max_queued=st.sampled_from((None, 3)),
    chunked_prefill=st.booleans(),
    dialect=st.sampled_from(("vllm", "trtllm")),
)
faults = st.sampled_from(
    (
        Faults(),
        Faults(stalls=((30.0, 36.0),)),
        Faults(slow=(Slow(20.0, 40.0, 0.3),)),
        Faults(front_stalls=((30.0, 31.5),)),
        Faults(restarts=(Restart(30.0, 36.0, "error"),)),
    )
)


@settings(max_examples=20, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(
    st.lists(streams, min_size=1, max_size=2),
    configs,
    faults,
    st.sampled_from((IDEAL, Front())),
    st.sampled_from(LIMITS),
    st.sampled_from((1.5, 5.0, 10.0)),
    st.integers(0, 9),
)
def test_no_traffic_and_no_fault_leads_the_interval_past_the_truth(of, config, fault, front, limits, every, seed):
    with pytest.MonkeyPatch.context() as patch:
        log = spy(patch)
        here = Setup(config, Workload(tuple(of), seed), front, faults=fault)
        slo = Slo(ttft_seconds=limits[0], tpot_seconds=limits[1])
        played = Played(here, slo, kind=config.dialect, spans_after=None, engine_log=log)
        played.play(60.0, every=every, scrape=True)
        for c in played.windows(30.0):
            low, high = user.goodput_low_ratio(c), user.goodput_high_ratio(c)
            if low.value is not None:
                exact = played.exact_inside(c.good.start, c.good.end)
                if low.note:  # the page counts refused ones alone
                    exact = played.exact_inside(c.good.start, c.good.end, failed=("rejected",))
                assert low.value - 1e-12 <= exact <= high.value + 1e-12


@pytest.mark.parametrize("dialect", ["sglang", "trtllm"])
def test_answers_of_one_token_count_where_no_time_per_token_counts_them(dialect, log):
    config, streams_, _ = SETUPS["rejections"]
    short = replace(CHAT, name="yes or no", output=Lengths(1), max_tokens=1)
    here = Setup(replace(config, dialect=dialect), Workload((*streams_, short), 1), IDEAL)
    played = Played(here, Slo(), kind=dialect, spans_after=None, engine_log=log)
    played.play(60.0, every=5.0, scrape=True)
    (c,) = played.windows(60.0)
    exact = played.exact(c.good.start, c.good.end)
    assert user.goodput_low_ratio(c).value <= exact <= user.goodput_high_ratio(c).value
    timed = c.hist(user.TPOT).total
    assert timed < 0.8 * len(log)  # those of one token are many, and without them the failed ones would weigh too much


def test_a_restart_inside_the_window_withholds_the_interval(log):
    faults = Faults(restarts=(Restart(30.0, 34.0, "error"),))
    played = Played(setup("chat", faults=faults), Slo(), spans_after=None, engine_log=log)
    played.play(90.0, every=5.0, scrape=True)
    withheld = {c.good.start - played.origin: user.goodput_low_ratio(c).gap for c in played.windows(30.0)}
    assert all((gap is not None) == (0.0 < start < 35.0 and start + 30.0 >= 35.0) for start, gap in withheld.items())
    assert "new process" in withheld[25.0].why
