"""What holds a request back, what throws it out and what speeds it up: each with numbers worked out by hand."""

from dataclasses import replace

import pytest

from llmvitals.errors import SettingsError
from llmvitals.simulator import engine as engine_module
from llmvitals.simulator.config import EngineConfig, Preemption, Speculation, Transfer
from llmvitals.simulator.roofline import GPU_8B, step_cost
from llmvitals.simulator.sequence import Sequence
from llmvitals.simulator.setup import Faults, Slow
from llmvitals.simulator.workload import Lengths, Stream
from support.engines import IDEAL, PLAIN, at_once, finished, world

MACHINE = replace(PLAIN, kv_bytes_per_token=1e-9)
"""10 ms a step, and 1 ms a token where a step computes more than ten."""

CONFIG = EngineConfig(machine=MACHINE, prefix_caching=False)


def mean(histogram):
    return histogram.sum / histogram.count


# -- speculative decoding -------------------------------------------------------------------------------------------
def drafting(
    acceptance: float, tokens: int = 3, cost: float = 0.1, count: int = 40, machine=MACHINE, output: int = 400
):
    config = EngineConfig(machine=machine, speculation=Speculation(tokens, acceptance, cost))
    return world(config, at_once(count, prompt=Lengths(20), output=Lengths(output)))


def test_each_draft_is_accepted_while_all_before_it_were():
    here = drafting(0.7)
    here.advance(600.0)
    counters = here.engine.counters
    assert finished(here) == 40
    assert counters.draft_tokens == 3 * counters.drafts
    positions = [counters.accepted_per_position[i] / counters.drafts for i in range(3)]
    assert positions == [pytest.approx(0.7**n, abs=0.02) for n in (1, 2, 3)]
    assert counters.accepted_tokens == sum(counters.accepted_per_position.values())
    # Leviathan et al. 2023, equation 1: (1 - 0.7^4) / (1 - 0.7) = 2.533 tokens a turn; what exceeds an answer's end is cut.
    assert (counters.generated_tokens - 40) / counters.drafts == pytest.approx(2.533, rel=0.02)
    assert counters.generated_tokens == 40 * 400


def test_gaps_are_one_a_turn_and_tokens_are_faster_than_gaps():
    here = drafting(0.9)
    here.advance(600.0)
    counters = here.engine.counters
    assert counters.token_gap.count == counters.drafts < counters.generated_tokens / 2
    assert mean(counters.per_token) < 0.5 * mean(counters.token_gap)


def test_nothing_accepted_is_plain_decoding_at_the_price_of_the_drafts():
    here, plain = drafting(0.0, tokens=4, count=1), world(CONFIG, at_once(1, prompt=Lengths(20), output=Lengths(400)))
    for one in (here, plain):
        one.advance(600.0)
    assert here.engine.counters.accepted_tokens == 0
    assert here.engine.counters.steps == plain.engine.counters.steps == 400
    # A turn of 10 ms and 4 drafts of a tenth of one each.
    assert mean(plain.engine.counters.token_gap) == pytest.approx(0.010)
    assert mean(here.engine.counters.token_gap) == pytest.approx(0.014)


def test_drafts_pay_while_memory_is_the_limit_and_not_where_arithmetic_is():
    def rate(count: int, speculation: Speculation | None) -> float:
        config = EngineConfig(machine=GPU_8B, max_num_seqs=512, speculation=speculation, max_num_batched_tokens=8192)
        here = world(config, Stream(clients=count, prompt=Lengths(20), output=Lengths(200)))
        here.advance(30.0)
        return here.engine.counters.generated_tokens / 30.0

    good = Speculation(4, 0.8, 0.05)
    assert rate(2, good) > 1.8 * rate(2, None)
    assert rate(400, replace(good, acceptance=0.2)) < rate(400, None)


def test_drafts_need_room_in_the_pool_like_other_tokens():
    config = EngineConfig(
        machine=MACHINE, block_tokens=4, blocks=30, max_model_len=100, speculation=Speculation(5, 0.6), max_num_seqs=8
    )
    here = world(config, Stream(clients=8, end=5.0, prompt=Lengths(8, 0.5), output=Lengths(30, 0.5)))
    for tick in range(1, 3000):
        here.advance(tick * 0.01)
        state = here.engine.state
        assert sum(len(s.blocks) for s in state.running) >= state.pool.held
        for sequence in state.running:
            assert len(sequence.blocks) * 4 >= sequence.computed
    assert here.engine.counters.preemptions > 0
    here.advance(500.0)
    assert (here.engine.in_flight, here.engine.state.pool.held) == (0, 0)


# -- whole prompts, as V0 computes them -------------------------------------------------------------------------------
def longest_gap(**changes) -> float:
    config = replace(CONFIG, **{"max_num_batched_tokens": 190, "max_num_seqs": 64, **changes})
    here = world(
        config,
        at_once(1, prompt=Lengths(10), output=Lengths(300)),
        at_once(1, start=1.0, prompt=Lengths(2000), output=Lengths(2)),
    )
    here.advance(600.0)
    gaps = here.engine.counters.token_gap
    return gaps.bounds[max(i for i, n in enumerate(gaps.counts) if n)]


def test_running_streams_stall_for_a_whole_prompt_where_it_is_not_chunked():
    # 2,000 tokens are 2 s of kernels; in chunks of 189 beside the running one, 0.19 s a step.
    assert longest_gap() == 0.2
    assert longest_gap(chunked_prefill=False) == 2.5


def test_without_chunks_no_step_mixes_prompts_and_decoding(monkeypatch):
    planned = []
    plan = engine_module.schedule
    monkeypatch.setattr(engine_module, "schedule", lambda state, now: planned.append(plan(state, now)) or planned[-1])
    stream = Stream(rate=8.0, end=20.0, prompt=Lengths(60, 0.5), output=Lengths(30, 0.5))
    for chunked in (True, False):
        planned.clear()
        here = world(replace(CONFIG, chunked_prefill=chunked, max_num_batched_tokens=256), stream)
        here.advance(300.0)
        assert here.engine.in_flight == 0
        assert any(step.turn and step.chunks for step in planned) == chunked
        whole = [count for step in planned for _, count in step.chunks]
        assert sum(whole) == here.engine.counters.prompt_tokens
        assert (len(whole) == finished(here)) == (not chunked or max(whole) <= 256)


def test_a_step_computes_no_more_than_its_budget_and_admits_nobody_where_it_throws_somebody_out(monkeypatch):
    tokens, both = [], []
    plan = engine_module.schedule

    def watched(state, now):
        step = plan(state, now)
        tokens.append(sum(count for _, count in step.chunks) + step.turn * state.decoding.tokens)
        both.append(bool(step.preempted and step.fresh))
        return step

    monkeypatch.setattr(engine_module, "schedule", watched)
    config = replace(CONFIG, max_num_batched_tokens=64, max_num_seqs=32, block_tokens=4, blocks=300, max_model_len=1000)
    config = replace(config, reserve_full_prompt=False)
    here = world(config, Stream(rate=8.0, end=20.0, prompt=Lengths(60, 0.5), output=Lengths(60, 0.5)))
    here.advance(300.0)
    assert here.engine.counters.preemptions > 10
    assert max(tokens) == 64
    assert not any(both)


def test_a_prompt_longer_than_any_step_gets_one_of_its_own():
    here = world(
        replace(CONFIG, chunked_prefill=False, max_num_batched_tokens=128),
        at_once(3, prompt=Lengths(500), output=Lengths(1)),
    )
    here.advance(10.0)
    assert (finished(here), here.engine.counters.steps) == (3, 3)


# -- preemption -----------------------------------------------------------------------------------------------------
def crowded(kind: Preemption, prompt: int, output: int, bandwidth: float) -> float:
    """When the second of two requests ends whose prompts fit into the pool and whose answers do not."""
    blocks = (2 * prompt + output) // 16
    config = EngineConfig(
        blocks=blocks, max_model_len=blocks * 16, prefix_caching=False, preemption=kind, swap_bandwidth=bandwidth
    )
    here = world(config, at_once(2, prompt=Lengths(prompt), output=Lengths(output), ignore_eos=True))
    here.advance(200.0)
    assert (finished(here), here.engine.counters.preemptions) == (2, 1)
    return max(answer.ended for answer in here.clients.log)


def test_long_contexts_are_cheaper_moved_than_computed_again_and_short_ones_are_not():
    # 12,200 tokens: 440 ms to compute (45 % of 989 TFLOP/s), 64 ms each way over 25 GB/s.
    again, moved = (crowded(kind, 12_000, 400, 2.5e10) for kind in Preemption)
    assert again - moved == pytest.approx(0.440 - 2 * 0.064, abs=0.05)
    # 164 tokens: 6 ms to compute, 21 ms each way over 1 GB/s.
    again, moved = (crowded(kind, 64, 200, 1e9) for kind in Preemption)
    assert moved - again == pytest.approx(2 * 0.021 - 0.006, abs=0.01)


def test_what_is_swapped_takes_the_time_of_its_bytes_both_ways():
    # The pool holds 20 tokens: the second of two requests of 2 + 14 is thrown out with 8 tokens and comes back later.
    config = replace(CONFIG, block_tokens=1, blocks=20, max_model_len=20, preemption=Preemption.SWAP)
    config = replace(config, machine=replace(PLAIN, kv_bytes_per_token=1e-3), swap_bandwidth=1e-1)
    here = world(config, at_once(2, prompt=Lengths(2), output=Lengths(14), ignore_eos=True))
    swapped = []
    for tick in range(1, 1000):
        here.advance(tick * 0.001)
        swapped.append(here.engine.gauges.swapped)
    counters = here.engine.counters
    assert (finished(here), counters.preemptions, max(swapped), swapped[-1]) == (2, 1, 1, 0)
    # Both have 10 tokens when the pool is full; 9 of each have been computed, and a token's bytes take 10 ms one way.
    kept = 20 / 2 * 0.010
    busy = counters.steps * 0.010
    assert max(a.ended for a in here.clients.log) == pytest.approx(busy + 2 * kept, abs=1e-6)
    assert all(len(s.blocks) == 0 for s in here.engine.state.waiting)


@pytest.mark.parametrize("speculation", [None, Speculation(2, 0.0)])
@pytest.mark.parametrize("output", [10, 40])
def test_who_comes_back_for_the_turn_it_had_left_before_takes_it_once(speculation, output):
    # Both are due after the same turns, for a full block or the end. One leaves between two of them and is back before.
    here = world(replace(CONFIG, speculation=speculation), at_once(2, prompt=Lengths(16), output=Lengths(output)))
    here.advance(0.05)
    first, second = here.engine.state.running
    decoding = here.engine.state.decoding
    decoding.leave(second)
    decoding.join(second)
    decoding.leave(second)  # and once more before it has taken part
    decoding.join(second)
    for tick in range(6, 6 + output):
        here.advance(tick * 0.01)
        decoding.settle(first)
        decoding.settle(second)
        assert first.generated == second.generated
        assert first.generated + second.generated == here.engine.counters.generated_tokens
    here.advance(10.0)
    assert finished(here) == 2
    assert here.engine.counters.generated_tokens == 2 * output
    assert here.engine.counters.token_gap.count == 2 * (output - 1)


def test_who_leaves_while_swapped_out_is_gone_from_there_too():
    config = replace(CONFIG, block_tokens=1, blocks=20, max_model_len=20, preemption=Preemption.SWAP)
    here = world(config, at_once(2, prompt=Lengths(2), output=Lengths(14), ignore_eos=True, timeout=0.115))
    here.advance(0.11)
    assert here.engine.gauges.swapped == 1
    here.advance(1.0)
    assert (here.engine.gauges.swapped, here.engine.state.swapped, here.engine.in_flight) == (0, 0, 0)


# -- adapters -------------------------------------------------------------------------------------------------------
def test_adapters_without_a_slot_are_passed_over_by_who_needs_none():
    tuned = Stream("tuned", clients=8, adapters=3, prompt=Lengths(20), output=Lengths(60))
    base = Stream("base", rate=5.0, end=50.0, prompt=Lengths(20), output=Lengths(10))
    here = world(replace(CONFIG, max_loras=1, max_num_seqs=64), tuned, base)
    seen = set()
    for tick in range(1, 500):
        here.advance(tick * 0.1)
        gauges = here.engine.gauges
        assert len(gauges.running_adapters) <= 1
        assert gauges.deferred == gauges.waiting  # nobody waits for a seat or a block
        assert bool(gauges.waiting_adapters) == (gauges.deferred > 0)
        seen.update(gauges.running_adapters)
    assert seen == {0, 1, 2}  # each gets its turn
    waits = {stream: [] for stream in (0, 1)}
    for answer in here.clients.log:
        waits[answer.request.stream].append(answer.first - answer.sent)
    assert max(waits[1]) < 0.2  # no longer than the prompts of a change of adapters take
    assert max(waits[0]) > 0.5
    roomy = world(replace(CONFIG, max_loras=3, max_num_seqs=64), tuned)
    roomy.advance(50.0)
    assert roomy.engine.gauges.deferred == 0
    assert mean(roomy.engine.counters.queue) == 0.0


def test_who_was_passed_over_keeps_its_place():
    # Two seats. One adapter runs until 0.5 s, another one waits for its slot, and plain requests use the other seat.
    tuned = at_once(1, adapters=1, prompt=Lengths(5), output=Lengths(50))
    other = at_once(4, start=0.05, adapters=2, prompt=Lengths(5), output=Lengths(5))
    plain = at_once(60, start=0.1, prompt=Lengths(5), output=Lengths(5))
    here = world(replace(CONFIG, max_loras=1, max_num_seqs=2), tuned, other, plain)
    here.advance(60.0)
    ends = {a.request.number: a.ended for a in here.clients.log}
    waited = [ends[a.request.number] for a in here.clients.log if a.request.stream == 1 and a.request.adapter == 1]
    assert waited
    assert max(waited) < sorted(ends.values())[len(ends) // 2]  # before most of the plain ones that came after it


# -- grammars ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("workers", "moments"), [(1, (2.0, 4.0, 6.0, 8.0)), (2, (2.0, 2.0, 4.0, 4.0))])
def test_grammars_compile_once_each_on_so_many_workers(workers, moments):
    strict = [
        at_once(1, start=0.0, schemas=1, schema_seconds=2.0, prompt=Lengths(5), output=Lengths(2)) for _ in range(4)
    ]
    again = replace(strict[0], start=20.0, end=20.1, clients=3)
    plain = at_once(1, start=0.5, prompt=Lengths(5), output=Lengths(2))
    here = world(replace(CONFIG, grammar_workers=workers), *strict, plain)
    here.advance(1.9)
    assert (here.engine.gauges.waiting, here.engine.gauges.deferred) == (4, 4)
    assert finished(here) == 1  # the plain one has overtaken them
    here.advance(19.0)
    firsts = sorted(a.first for a in here.clients.log if a.request.schema >= 0)
    assert firsts == [pytest.approx(moment + 0.010, abs=0.002) for moment in moments]
    warm = world(replace(CONFIG, grammar_workers=workers), strict[0], replace(again, start=20.0))
    warm.advance(30.0)
    assert finished(warm) == 4


def test_a_known_grammar_holds_nobody():
    strict = Stream(rate=2.0, schemas=2, schema_seconds=3.0, prompt=Lengths(5), output=Lengths(2), end=100.0)
    here = world(CONFIG, strict)
    here.advance(200.0)
    late = [a.first - a.sent for a in here.clients.log if a.sent > 10.0]
    assert len(late) > 100
    assert max(late) < 0.05
    assert mean(here.engine.counters.queue) > 0.02  # the wait for a grammar is queue time


def test_who_was_held_stands_where_its_arrival_put_it():
    # One seat: A runs until 2 s; B waits for a grammar until 1 s, C has come after B; B goes first.
    config = replace(CONFIG, max_num_seqs=1)
    here = world(
        config,
        at_once(1, prompt=Lengths(5), output=Lengths(200)),
        at_once(1, start=0.1, schemas=1, schema_seconds=1.0, prompt=Lengths(5), output=Lengths(2)),
        at_once(1, start=0.2, prompt=Lengths(5), output=Lengths(2)),
    )
    here.advance(10.0)
    assert [answer.request.stream for answer in here.clients.log] == [0, 1, 2]


def test_who_was_held_does_not_pass_who_was_thrown_out():
    engine = world(CONFIG).engine
    thrown, later, held = (Sequence(None, 1, 1, -1, tokens=5, queued=moment) for moment in (5.0, 6.0, 3.0))
    thrown.preemptions = 1
    engine.state.waiting.extend((thrown, later))
    engine._ready(held)
    assert list(engine.state.waiting) == [thrown, held, later]


# -- KV from elsewhere --------------------------------------------------------------------------------------------------
def test_transfers_share_one_link_and_leave_one_token_to_compute():
    machine = replace(MACHINE, kv_bytes_per_token=1e-9)
    config = replace(CONFIG, machine=machine, transfer=Transfer(bandwidth=500e-9, latency=0.1))
    here = world(config, at_once(3, prompt=Lengths(1000), output=Lengths(1)))
    here.advance(0.5)
    assert (here.engine.gauges.waiting, here.engine.gauges.deferred) == (3, 3)
    here.advance(20.0)
    counters = here.engine.counters
    # 1,000 tokens take 2 s each, one after the other, and 0.1 s on top; the prompt itself would take 1 s.
    assert counters.kv_transfer.sum == pytest.approx(2.1 + 4.1 + 6.1)
    assert [a.first for a in here.clients.log] == [pytest.approx(t + 0.010) for t in (2.1, 4.1, 6.1)]
    assert (counters.received_tokens, counters.prompt_tokens) == (3 * 999, 3000)
    assert counters.request_computed.sum == 3


def test_a_transfer_that_fails_is_computed_here_after_its_timeout():
    config = replace(CONFIG, transfer=Transfer(bandwidth=1.0, failures=1.0, timeout=5.0), max_num_batched_tokens=2048)
    here = world(config, at_once(2, prompt=Lengths(1000), output=Lengths(1)))
    here.advance(60.0)
    counters = here.engine.counters
    assert (counters.kv_transfer_failures, counters.kv_transfer.count, counters.received_tokens) == (2, 0, 0)
    assert [a.first for a in here.clients.log] == [pytest.approx(5.0 + 2.0)] * 2


# -- refused, left --------------------------------------------------------------------------------------------------------
def test_what_exceeds_the_limit_of_requests_in_flight_is_refused():
    here = world(replace(CONFIG, max_num_seqs=1, max_queued=2), at_once(10, prompt=Lengths(5), output=Lengths(10)))
    here.advance(60.0)
    counters = here.engine.counters
    assert (counters.rejected, counters.http["5xx"], counters.http["2xx"], finished(here)) == (7, 7, 3, 3)
    assert sorted(a.outcome for a in here.clients.log) == ["ok"] * 3 + ["rejected"] * 7


@pytest.mark.parametrize("seats", [1, 4])
def test_who_leaves_is_gone_from_queue_and_batch_and_from_no_counter(seats):
    config = replace(CONFIG, max_num_seqs=seats, block_tokens=1, blocks=2000, max_model_len=300)
    stream = at_once(4, prompt=Lengths(50), output=Lengths(200), timeout=0.995)
    here = world(config, stream)
    here.advance(0.992)
    assert (here.engine.gauges.running, here.engine.gauges.waiting) == (seats, 4 - seats)
    assert here.engine.state.pool.held > 50 * seats
    generated = here.engine.counters.generated_tokens
    here.advance(60.0)
    counters = here.engine.counters
    assert (here.engine.in_flight, here.engine.state.pool.held, here.engine.gauges.usage) == (0, 0, 0.0)
    assert (here.engine.gauges.running, here.engine.gauges.waiting) == (0, 0)
    assert finished(here) == 0
    assert counters.generated_tokens == generated  # the step in flight is thrown away
    assert counters.first_token.count == seats
    assert counters.http["2xx"] == 4
    assert [a.outcome for a in here.clients.log] == ["timeout"] * 4
    assert sum(a.tokens for a in here.clients.log) == generated


def test_who_leaves_while_held_frees_the_queue():
    strict = at_once(3, schemas=3, schema_seconds=10.0, prompt=Lengths(5), output=Lengths(2), timeout=1.0)
    here = world(CONFIG, strict)
    here.advance(0.5)
    assert here.engine.gauges.deferred == 3
    here.advance(1.5)
    assert (here.engine.gauges.waiting, here.engine.holding.count, here.engine.in_flight) == (0, 0, 0)
    here.advance(60.0)
    assert here.engine.counters.steps == 0


def test_what_arrives_during_a_step_is_queued_after_it():
    here = world(
        CONFIG,
        at_once(1, prompt=Lengths(1000), output=Lengths(5)),  # a step of one second
        at_once(1, start=0.4, prompt=Lengths(5), output=Lengths(5)),
    )
    here.advance(0.9)
    assert here.engine.gauges.waiting == 0
    here.advance(5.0)
    # Its own clock starts where the engine takes it up: the 0.6 s are in its first token and not in its queue time.
    assert here.engine.counters.queue.sum == 0.0
    assert here.clients.log[-1].first - 0.4 == pytest.approx(0.6 + 0.010, abs=0.005)


def test_a_step_must_be_able_to_decode_every_seat():
    with pytest.raises(SettingsError, match=r"128 tokens cannot decode 256 sequences.*max_num_batched_tokens to 256"):
        EngineConfig(max_num_seqs=256, max_num_batched_tokens=128)


def test_kernels_that_are_held_back_make_steps_longer_and_the_host_stays_as_it_is():
    stream = at_once(1, prompt=Lengths(10), output=Lengths(300))
    config = EngineConfig(machine=GPU_8B)
    slow = world(config, stream, front=IDEAL, faults=Faults(slow=(Slow(0.0, 100.0, 0.5),)))
    slow.advance(60.0)
    one = step_cost(GPU_8B, 1, 1, 160)
    assert mean(slow.engine.counters.token_gap) == pytest.approx(one.seconds + one.kernel, rel=0.001)
