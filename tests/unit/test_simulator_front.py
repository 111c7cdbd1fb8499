"""The API process as a queueing station, and a world in which processes stall, end and start again."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmvitals.simulator.clock import Clock
from llmvitals.simulator.config import EngineConfig, Preemption, Speculation, Transfer
from llmvitals.simulator.setup import Faults, Front, Gateway, Restart, Slow
from llmvitals.simulator.workload import Lengths, Stream
from llmvitals.simulator.world import World
from support.engines import IDEAL, PLAIN, at_once, finished, world

CONFIG = EngineConfig(machine=replace(PLAIN, kv_bytes_per_token=1e-9), prefix_caching=False)
SHORT = Stream(prompt=Lengths(5), output=Lengths(2))


def mean(values) -> float:
    values = list(values)
    return sum(values) / len(values)


# -- the clock ------------------------------------------------------------------------------------------------------
def test_events_happen_in_the_order_of_their_moments_and_then_of_their_making():
    clock, seen = Clock(), []
    for moment, name in ((2.0, "c"), (1.0, "a"), (2.0, "d"), (1.0, "b")):
        clock.at(moment, lambda name=name: seen.append((clock.now, name)))
    clock.at(1.5, lambda: clock.at(0.0, lambda: seen.append((clock.now, "late"))))  # too late: at once
    clock.run(1.9)
    assert (seen, clock.now) == ([(1.0, "a"), (1.0, "b"), (1.5, "late")], 1.9)
    clock.run(2.0)
    assert seen[3:] == [(2.0, "c"), (2.0, "d")]


# -- one event loop -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("load", [0.4, 0.8])
def test_requests_wait_for_the_api_process_as_in_md1(load):
    seconds = 0.02
    stream = replace(SHORT, rate=load / seconds)
    here = world(replace(CONFIG, max_num_seqs=128), stream, front=replace(IDEAL, request_seconds=seconds))
    waits, receive = [], here.front.receive

    def arrives(call):
        receive(call)
        waits.append(call.arrived - call.sent)

    here.front.receive = arrives
    here.advance(600.0)
    # M/D/1 (Kleinrock 1975, section 5.6): load x service / (2 (1 - load)); the tokens go out at no cost.
    assert mean(waits) == pytest.approx(load * seconds / (2 * (1 - load)), rel=0.15)
    assert here.engine.counters.process_seconds == pytest.approx(load * 600.0, rel=0.02)


def test_a_full_api_process_delays_what_only_its_own_clock_sees():
    stream = Stream(clients=16, prompt=Lengths(10), output=Lengths(50))
    free, full = (world(CONFIG, stream, front=replace(IDEAL, output_token_seconds=cost)) for cost in (0.0, 0.002))
    delays = {free: 0.0, full: 0.0}
    for here in (free, full):
        for tick in range(1, 601):
            here.advance(tick * 0.1)
            delays[here] = max(delays[here], here.front.page_delay())
    idle, busy = free.engine.counters, full.engine.counters
    # 16 tokens of 2 ms a step of 16 ms: it hands out half of what the engine makes, and falls ever further behind.
    assert busy.e2e.sum / busy.e2e.count > 1.5 * idle.e2e.sum / idle.e2e.count
    for name in ("inference", "decode", "queue"):
        mine, other = getattr(busy, name), getattr(idle, name)
        assert mine.sum / mine.count <= 1.1 * other.sum / other.count
    assert busy.token_gap.sum / busy.token_gap.count == pytest.approx(0.0155, abs=0.001)  # the engine's own clock
    assert mean(a.tpot for a in full.clients.log) > 1.5 * mean(a.tpot for a in free.clients.log)
    assert delays[full] > 0.3
    assert delays[free] == 0.0


def test_a_starved_process_is_slower_and_more_of_them_carry_more():
    stream = replace(SHORT, rate=40.0)
    slow = Front(request_seconds=0.02, prompt_token_seconds=0.0, output_token_seconds=0.0, cores=0.5)

    def waits(front: Front) -> float:
        here = world(CONFIG, stream, front=front)
        here.advance(100.0)
        return mean(a.first - a.sent for a in here.clients.log)

    assert waits(replace(slow, cores=1.0)) < 0.15
    assert waits(slow) > 5.0  # 40 x 20 ms on half a core: more than it can
    assert waits(replace(slow, processes=4)) < 0.15


def test_the_page_waits_for_what_stands_before_it():
    front = Front(request_seconds=0.5, prompt_token_seconds=0.0, output_token_seconds=0.0, page_seconds=0.01)
    here = world(CONFIG, at_once(6, prompt=Lengths(5), output=Lengths(1)), front=front)
    here.advance(1.0)
    # Six requests of half a second have begun; two are through.
    assert here.front.page_delay() == pytest.approx(2.01)
    here.advance(60.0)
    assert here.front.page_delay() == pytest.approx(0.01)


def test_a_stalled_api_process_does_its_backlog_afterwards():
    front = replace(IDEAL, request_seconds=0.1)
    here = world(CONFIG, replace(SHORT, rate=5.0, end=20.0), front=front, faults=Faults(front_stalls=((5.0, 9.0),)))
    here.advance(6.0)
    assert here.front.page_delay() > 3.0
    here.advance(60.0)
    log = here.clients.log
    assert not any(5.1 < a.ended < 9.0 for a in log)
    # It could do 10 a second and 5 came: the backlog of 4 s is gone after another 4.
    assert max(a.first - a.sent for a in log if a.sent < 9.0) > 3.5
    assert mean(a.first - a.sent for a in log if a.sent > 15.0) < 0.5
    assert here.engine.counters.queue.sum == pytest.approx(0.0, abs=0.5)


def test_what_stood_before_a_stall_is_done_after_it():
    here = world(
        CONFIG,
        at_once(20, prompt=Lengths(5), output=Lengths(1)),
        front=replace(IDEAL, request_seconds=0.1),
        faults=Faults(front_stalls=((0.5, 2.5),)),
    )
    here.advance(0.5)
    assert here.front.page_delay() == pytest.approx(1.5 + 2.0)
    here.advance(60.0)
    # Five were through when it stalled; the rest come two seconds later than they would have.
    ends = sorted(a.first for a in here.clients.log)
    assert not any(0.6 < end < 2.5 for end in ends)
    assert ends[-1] == pytest.approx(2.0 + 2.0 + 0.010, abs=0.011)


# -- what goes wrong --------------------------------------------------------------------------------------------------
BUSY = Stream(rate=10.0, end=40.0, prompt=Lengths(10), output=Lengths(30))


def test_a_stalled_engine_shows_the_same_page_and_its_stall_in_first_tokens_only():
    here = world(CONFIG, replace(BUSY, rate=4.0), faults=Faults(stalls=((10.0, 25.0),)))
    here.advance(10.5)
    gauges, steps = here.engine.gauges, here.engine.counters.steps
    here.advance(24.9)
    assert (here.engine.gauges, here.engine.counters.steps) == (gauges, steps)
    assert here.up
    here.advance(100.0)
    counters = here.engine.counters
    assert finished(here) == len(here.clients.log) == here.clients.sent
    assert counters.first_token.sum / counters.first_token.count > 2.0
    assert counters.queue.sum / counters.queue.count < 0.1
    assert counters.prefill.sum / counters.prefill.count < 1.0


def test_a_restart_breaks_what_is_under_way_and_begins_at_zero():
    faults = Faults(restarts=(Restart(10.0, 20.0),), first_step_seconds=2.0)
    here = world(CONFIG, BUSY, faults=faults, uptime=600.0)
    here.advance(9.99)
    old, flying = here.engine, here.engine.in_flight
    assert (here.started, flying > 0) == (-600.0, True)
    here.advance(15.0)
    assert not here.up
    steps = old.counters.steps
    assert [r.down for r in here.restarts] == [10.0]
    here.advance(100.0)
    assert here.up
    assert here.engine is not old
    assert old.counters.steps == steps
    assert here.started == 10.0
    assert sum(a.tokens for a in here.clients.log if a.ended <= 10.0) == old.counters.generated_tokens
    outcomes = [(a.sent, a.outcome) for a in here.clients.log]
    assert {outcome for sent, outcome in outcomes if 10.0 <= sent < 20.0} == {"error"}
    assert sum(outcome == "error" for sent, outcome in outcomes if sent < 10.0) == flying
    assert {outcome for sent, outcome in outcomes if sent >= 20.0} == {"ok"}
    assert here.engine.counters.first_token.count == sum(outcome == "ok" for sent, outcome in outcomes if sent >= 20.0)
    # Each process' first step costs two seconds more.
    after = [a for a in here.clients.log if a.sent >= 20.0]
    assert min(after, key=lambda a: a.sent).first - 20.0 > 2.0
    assert mean(a.first - a.sent for a in after if a.sent > 30.0) < 0.1


def test_what_has_died_stays_dead_and_clients_see_it():
    here = world(CONFIG, BUSY, Stream(clients=4, prompt=Lengths(5), output=Lengths(5)), faults=Faults(dies_at=10.0))
    here.advance(12.0)
    assert (here.up, here.engine.in_flight, here.front.calls) == (False, 0, {})
    assert {a.outcome for a in here.clients.log if a.ended >= 10.0} == {"error"}


def test_an_engine_that_fails_answers_5xx_and_computes_nothing():
    here = world(CONFIG, BUSY, faults=Faults(failing=((10.0, 20.0),)))
    here.advance(100.0)
    failed = [a for a in here.clients.log if a.outcome == "error"]
    assert len(failed) == here.engine.counters.http["5xx"] > 50
    assert all(10.0 <= a.sent < 20.0 and a.tokens == 0 for a in failed)
    assert here.engine.arrived == here.clients.sent - len(failed)


def test_a_slowed_gpu_is_slow_for_its_time_only():
    here = world(
        CONFIG, Stream(clients=1, prompt=Lengths(10), output=Lengths(10)), faults=Faults(slow=(Slow(10, 20, 0.25),))
    )
    here.advance(30.0)
    held = [a.tpot for a in here.clients.log if 10.1 < a.sent < 19.0]
    free = [a.tpot for a in here.clients.log if a.ended < 10.0 or a.sent > 20.1]
    assert mean(held) == pytest.approx(4 * mean(free), rel=0.01)


# -- everything at once -----------------------------------------------------------------------------------------------
streams = st.builds(
    Stream,
    start=st.sampled_from((0.0, 1.5)),
    end=st.just(4.0),
    rate=st.sampled_from((0.0, 4.0, 25.0)),
    clients=st.integers(0, 6),
    prompt=st.builds(Lengths, st.integers(1, 250), st.sampled_from((0.0, 0.8))),
    output=st.builds(Lengths, st.integers(1, 80), st.sampled_from((0.0, 0.8))),
    max_tokens=st.sampled_from((None, 1, 40)),
    prefix_tokens=st.sampled_from((0, 60)),
    adapters=st.sampled_from((0, 3)),
    schemas=st.sampled_from((0, 2)),
    schema_seconds=st.sampled_from((0.05, 1.0)),
    timeout=st.sampled_from((math.inf, 0.3, 2.0)),
    retries=st.integers(0, 2),
    backoff=st.just(0.2),
    leaves=st.sampled_from((0.0, 0.5)),
    repeats=st.sampled_from((0.0, 0.5)),
    fan_out=st.sampled_from((1.0, 2.5)),
)
configs = st.builds(
    EngineConfig,
    machine=st.just(PLAIN),
    block_tokens=st.sampled_from((4, 4, 16)),
    blocks=st.integers(130, 200),
    max_num_seqs=st.integers(1, 32),
    max_num_batched_tokens=st.sampled_from((32, 512)),
    max_model_len=st.just(520),
    prefix_caching=st.booleans(),
    reserve_full_prompt=st.booleans(),
    chunked_prefill=st.booleans(),
    preemption=st.sampled_from(tuple(Preemption)),
    swap_bandwidth=st.just(1e6),
    max_queued=st.sampled_from((None, None, None, 0, 5)),
    max_loras=st.integers(1, 2),
    grammar_workers=st.integers(1, 2),
    speculation=st.sampled_from((None, Speculation(3, 0.6))),
    transfer=st.sampled_from((None, Transfer(1e6, failures=0.3, timeout=0.5))),
    default_max_tokens=st.sampled_from((None, 20)),
)
faults = st.builds(
    Faults,
    stalls=st.sampled_from(((), ((1.0, 2.0),))),
    front_stalls=st.sampled_from(((), ((2.5, 3.0),))),
    failing=st.sampled_from(((), ((0.5, 0.7),))),
    restarts=st.sampled_from(((), (Restart(2.0, 2.8),))),
    dies_at=st.sampled_from((math.inf, 3.5)),
    first_step_seconds=st.sampled_from((0.0, 0.3)),
    slow=st.sampled_from(((), (Slow(1.0, 3.0, 0.5),))),
)
fronts = st.sampled_from((IDEAL, Front(), Front(request_seconds=0.03, output_token_seconds=0.001, cores=0.7)))
gateways = st.sampled_from((None, None, Gateway(concurrency=3, queue_limit=4, ttl=1.0, cancel_seconds=0.2)))


def check(here: World) -> None:
    """What must be true of the engine at any moment."""
    engine, config = here.engine, here.engine.config
    state, pool = engine.state, engine.state.pool
    if not engine.alive:
        return
    held = [block for sequence in state.running for block in sequence.blocks]
    assert pool.held == sum(b is None for b in held) + len({b for b in held if b is not None})
    assert 0 <= pool.held <= config.blocks
    assert len(state.running) <= config.max_num_seqs
    assert len(set(map(id, state.running))) == len(state.running)
    assert state.decoding.count == sum(s.decoding for s in state.running)
    assert set(map(id, state.prompts)) | {id(s) for s in state.running if s.decoding} == set(map(id, state.running))
    for sequence in state.running:
        state.decoding.settle(sequence)
        assert len(sequence.blocks) * config.block_tokens >= sequence.computed >= 0
        assert sequence.generated <= sequence.limit
        if sequence.decoding:
            assert sequence.computed == sequence.tokens - 1
    assert state.decoding.context == sum(s.computed for s in state.running if s.decoding)
    assert all(not s.blocks and not s.decoding and (s.swapped or not s.computed) for s in state.waiting)
    assert state.swapped == sum(s.swapped for s in state.waiting)
    assert sum(state.adapters.values()) == sum(s.adapter >= 0 for s in state.running)
    assert len(state.adapters) <= config.max_loras
    gauges = engine.gauges
    assert min(gauges.running, gauges.waiting, gauges.deferred, gauges.swapped) >= 0
    assert gauges.deferred <= gauges.waiting
    assert 0.0 <= gauges.usage <= 1.0


@settings(max_examples=200, deadline=None)
@given(configs, st.lists(streams, min_size=1, max_size=3), fronts, gateways, faults, st.integers(0, 5))
def test_every_call_ends_once_or_is_open_whatever_happens(config, kinds, front, gateway, wrong, seed):
    here = world(config, *kinds, seed=seed, front=front, gateway=gateway, faults=wrong)
    for tick in range(1, 120):
        here.advance(tick * 0.0497)
        check(here)
        assert len(here.clients.log) + len(here.clients.open) == here.clients.sent
    here.advance(2000.0)
    assert not here.clients.open
    assert not here.front.calls
    numbers = [answer.request.number for answer in here.clients.log]
    assert len(numbers) == len(set(numbers)) == here.clients.sent
    for answer in here.clients.log:
        assert answer.ended >= answer.sent
        assert answer.first is None or answer.sent <= answer.first <= answer.ended
        assert answer.tokens >= 0
        if answer.outcome == "ok":
            assert 1 <= answer.tokens <= answer.request.output
    engine, counters = here.engine, here.engine.counters
    check(here)
    assert engine.in_flight == 0
    if engine.alive:
        assert (engine.state.pool.held, engine.state.decoding.count, engine.holding.count) == (0, 0, 0)
        assert not engine.state.running
        assert not engine.state.waiting
        assert counters.first_token.count >= finished(here)
        assert counters.request_generated.sum <= counters.generated_tokens
        assert counters.request_prompt.sum <= counters.prompt_tokens
        assert counters.request_preemptions.sum <= counters.preemptions
    assert min(counters.http.values()) >= 0
    assert counters.busy_seconds >= max(counters.memory_seconds, counters.compute_seconds) * 0.999


@settings(max_examples=25, deadline=None)
@given(configs, st.lists(streams, min_size=1, max_size=2), faults, st.integers(0, 5))
def test_numbers_do_not_depend_on_how_time_is_advanced(config, kinds, wrong, seed):
    leap, walk = (world(config, *kinds, seed=seed, faults=wrong) for _ in range(2))
    leap.advance(5.0)
    for tick in range(1, 501):
        walk.advance(tick * 0.01)
    assert leap.clients.log == walk.clients.log
    assert leap.engine.counters == walk.engine.counters
    assert leap.engine.gauges == walk.engine.gauges
