"""The arrival-level mode against the fine model: the same deployment, the same requests, the same figures."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, fields, replace
from statistics import fmean

import pytest

from llmvitals.simulator.coarse import Ramp
from llmvitals.simulator.config import EngineConfig, Preemption, Speculation
from llmvitals.simulator.counters import Histogram
from llmvitals.simulator.live import Live
from llmvitals.simulator.roofline import GPU_8B, Link
from llmvitals.simulator.setup import Faults, Front, Gateway, Restart, Setup, Slow
from llmvitals.simulator.workload import Lengths, Stream, Workload

CHAT = Stream(
    "chat", rate=2.0, prompt=Lengths(600, 0.8, high=4000), output=Lengths(250, 0.8, high=1500), max_tokens=1600
)


@dataclass
class Seen:
    """Means of the gauges over all pages, and where the counters stood at the end."""

    running: float
    waiting: float
    usage: float
    live: Live

    def count(self, name: str) -> float:
        value = getattr(self.live.engine.counters, name)
        return value.count if isinstance(value, Histogram) else value

    def mean(self, name: str) -> float:
        histogram = getattr(self.live.engine.counters, name)
        return histogram.sum / histogram.count


def watch(setup: Setup, *, coarse: bool, seconds: int, every: float = 5.0) -> Seen:
    live = Live(setup, coarse=coarse)
    gauges = []
    for tick in range(int(seconds / every) + 1):
        live.advance(tick * every)
        gauges.append(live.engine.gauges)
    return Seen(
        fmean(g.running for g in gauges), fmean(g.waiting for g in gauges), fmean(g.usage for g in gauges), live
    )


def both(
    *streams: Stream, seconds: int = 120, every: float = 5.0, engine: EngineConfig | None = None, **parts: object
) -> tuple[Seen, Seen]:
    setup = Setup(engine or EngineConfig(), Workload(streams, seed=11), **parts)  # type: ignore[arg-type]
    return tuple(watch(setup, coarse=coarse, seconds=seconds, every=every) for coarse in (False, True))  # type: ignore[return-value]


def alike(fine: Seen, coarse: Seen, *, within: float = 0.005) -> None:
    """Everything that grows, and the means of every histogram."""
    for field in fields(fine.live.engine.counters):
        value = getattr(fine.live.engine.counters, field.name)
        if isinstance(value, dict):
            totals = [sum(getattr(s.live.engine.counters, field.name).values()) for s in (fine, coarse)]
            assert totals[1] == pytest.approx(totals[0], rel=within), field.name
        if not isinstance(value, int | float | Histogram):
            continue
        assert coarse.count(field.name) == pytest.approx(fine.count(field.name), rel=within), field.name
        if isinstance(value, Histogram) and value.count:
            assert coarse.mean(field.name) == pytest.approx(fine.mean(field.name), rel=within, abs=2e-3), field.name
    assert coarse.running == pytest.approx(fine.running, rel=within)
    assert coarse.waiting == pytest.approx(fine.waiting, rel=within)
    assert coarse.usage == pytest.approx(fine.usage, rel=max(within, 0.01))


# -- the same figures -------------------------------------------------------------------------------------------------
def test_light_chat_is_the_same():
    fine, coarse = both(CHAT, seconds=300)
    assert fine.running > 3
    alike(fine, coarse)
    sent = [{a.request.number: (a.outcome, a.tokens) for a in seen.live.world.clients.log} for seen in (fine, coarse)]
    assert sent[0] == sent[1]


def test_a_queue_for_seats_is_the_same():
    fine, coarse = both(replace(CHAT, rate=6.0), engine=EngineConfig(max_num_seqs=8))
    assert fine.waiting > 50
    alike(fine, coarse)


@pytest.mark.parametrize("chunked", [True, False])
def test_a_full_pool_is_the_same(chunked: bool):
    documents = Stream(clients=24, ramp=2.0, prompt=Lengths(3000), output=Lengths(200), max_tokens=200)
    config = EngineConfig(blocks=1024, max_num_seqs=64, chunked_prefill=chunked, max_num_batched_tokens=4096)
    fine, coarse = both(documents, engine=config)
    assert fine.usage > 0.8
    assert fine.waiting > 15
    alike(fine, coarse)


@pytest.mark.parametrize("mode", list(Preemption))
def test_thrash_is_alike(mode: Preemption):
    answers = Stream(clients=64, ramp=4.0, prompt=Lengths(150, 0.1), output=Lengths(400, 0.1), max_tokens=512)
    config = EngineConfig(blocks=1024, max_num_seqs=64, max_model_len=2048, preemption=mode)
    fine, coarse = both(answers, seconds=200, engine=config)
    assert fine.count("preemptions") > 500
    assert coarse.count("preemptions") == pytest.approx(fine.count("preemptions"), rel=0.05)
    assert coarse.count("generated_tokens") == pytest.approx(fine.count("generated_tokens"), rel=0.02)
    assert coarse.running == pytest.approx(fine.running, rel=0.04)
    assert coarse.waiting == pytest.approx(fine.waiting, rel=0.1)
    assert coarse.usage == pytest.approx(fine.usage, rel=0.01)
    for name in ("first_token", "token_gap", "e2e", "queue"):
        assert coarse.mean(name) == pytest.approx(fine.mean(name), rel=0.05), name


def test_a_prefix_cache_under_eviction_is_alike():
    shared = replace(
        CHAT, rate=6.0, prompt=Lengths(1500, 0.3), prefix_tokens=1000, prefixes=40, output=Lengths(150, 0.5)
    )
    fine, coarse = both(shared, seconds=200, engine=EngineConfig(blocks=2048, max_num_seqs=32))
    ratio = [seen.count("hit_tokens") / seen.count("query_tokens") for seen in (fine, coarse)]
    assert 0.1 < ratio[0] < 0.6
    assert ratio[1] == pytest.approx(ratio[0], abs=0.02)
    assert coarse.mean("first_token") == pytest.approx(fine.mean("first_token"), rel=0.05)
    assert coarse.usage == pytest.approx(fine.usage, rel=0.02)


@pytest.mark.parametrize(
    "parts",
    [
        {"faults": Faults(slow=(Slow(30.3, 70.7, 0.3),))},
        {"faults": Faults(stalls=((30.3, 38.1),))},
        {"faults": Faults(restarts=(Restart(40.2, 50.0, "oom"),), first_step_seconds=3.0)},
        {"faults": Faults(front_stalls=((30.0, 36.0),))},
        {"front": Front(request_seconds=0.05, cores=0.3)},
        {"gateway": Gateway(concurrency=8, queue_limit=20, ttl=5.0)},
        {"engine": EngineConfig(machine=replace(GPU_8B, gpus=2, link=Link("NVLink 4", 450e9, 8e-6)))},
        {"engine": EngineConfig(speculation=Speculation(3, 0.7))},
        {"engine": EngineConfig(max_num_seqs=8, max_queued=10)},
    ],
    ids=["slow", "stall", "restart", "front stall", "starved front", "gateway", "two gpus", "speculation", "refusals"],
)
def test_what_goes_on_around_it_is_the_same(parts: dict[str, object]):
    fine, coarse = both(CHAT, **parts)  # type: ignore[arg-type]
    alike(fine, coarse, within=0.02)
    assert len(coarse.live.world.clients.log) == pytest.approx(len(fine.live.world.clients.log), rel=0.01)


def test_clients_that_leave_take_as_many_tokens_with_them():
    hasty = replace(CHAT, timeout=3.0, schemas=2, schema_seconds=1.0, adapters=3)
    fine, coarse = both(hasty, seconds=200, engine=EngineConfig(max_loras=2))
    alike(fine, coarse, within=0.01)
    got = [sum(a.tokens for a in seen.live.world.clients.log if a.outcome != "ok") for seen in (fine, coarse)]
    assert got[0] > 1000
    assert got[1] == pytest.approx(got[0], rel=0.01)


def test_a_full_api_process_shows_when_tokens_fill_it():
    crowd = Stream(clients=60, prompt=Lengths(100), output=Lengths(300, 0.3), max_tokens=512)
    setup = Setup(EngineConfig(max_num_seqs=64), Workload((crowd,)), Front(output_token_seconds=5e-4))
    late = []
    for live in (Live(setup), Live(setup, coarse=True)):
        standing = []
        for second in range(90):
            live.advance(float(second))
            standing.append(live.world.front.standing)
        late.append(fmean(standing[20:]))
    assert late[0] > 1.0
    assert late[1] == pytest.approx(late[0], rel=0.1)


# -- looking at it ----------------------------------------------------------------------------------------------------
def test_a_page_is_never_older_than_a_step():
    fine, coarse = both(CHAT, seconds=40, every=0.37)
    assert coarse.count("generated_tokens") == pytest.approx(fine.count("generated_tokens"), rel=1e-3)
    setup = Setup(workload=Workload((Stream(clients=1, output=Lengths(4000), max_tokens=5000),)))
    pair = Live(setup), Live(setup, coarse=True)
    for moment in (10.0, 10.25, 17.9):
        for live in pair:
            live.advance(moment)
        spoken = [live.engine.counters.generated_tokens for live in pair]
        assert spoken[0] > 500
        assert spoken[1] == pytest.approx(spoken[0], abs=1)


def test_pages_hardly_depend_on_how_often_one_asks():
    setup = Setup(workload=Workload((CHAT,), seed=2))
    often, once = (watch(setup, coarse=True, seconds=120, every=every) for every in (0.7, 120.0))
    often.live.advance(120.0)
    for name in ("generated_tokens", "steps", "finished", "arrived"):
        pair = [getattr(s.live.engine.counters, name, None) or s.live.engine.arrived for s in (often, once)]
        assert pair[0] == pair[1], name
    assert often.live.engine.gauges.running == once.live.engine.gauges.running
    pages = [seen.live.gpu_page_at(120.0).decode().splitlines() for seen in (often, once)]
    assert [line for line in pages[0] if "ENERGY" not in line] == [line for line in pages[1] if "ENERGY" not in line]


def test_turns_that_grow_evenly_are_summed_and_counted():
    ramp = Ramp(0.01, 0.001)
    assert ramp.total(4) == pytest.approx(0.010 + 0.011 + 0.012 + 0.013)
    assert [ramp.within(x, 100) for x in (0.0, 0.0099, 0.0101, 0.0459, 0.0461)] == [0, 0, 1, 3, 4]
    assert ramp.within(1e9, 100) == 100
    assert ramp.within(math.inf, 100) == 100
    level = Ramp(0.01, 0.0)
    assert [level.within(x, 50) for x in (0.0, 0.0349, 0.351, 9.0)] == [0, 3, 35, 50]


# -- speed ------------------------------------------------------------------------------------------------------------
def test_an_hour_takes_seconds_and_has_its_daily_swing():
    """A day takes about 25 s of CPU at this load; an hour, around which the bound leaves room for a slow machine, 1 s."""
    day = replace(CHAT, rate=1.5, swing=0.6, period=3600.0)
    live = Live(Setup(EngineConfig(max_num_seqs=64), Workload((day,), seed=1)), coarse=True)
    began = time.process_time()
    arrived = []
    for minute in range(61):
        live.gpu_page_at(60.0 * minute)
        arrived.append(live.engine.arrived)
    assert time.process_time() - began < 10.0
    first, second = arrived[30] - arrived[0], arrived[60] - arrived[30]
    assert first / second == pytest.approx((1 + 0.6 * 2 / math.pi) / (1 - 0.6 * 2 / math.pi), rel=0.15)
