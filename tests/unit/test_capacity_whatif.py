"""What-if: a change moves the simulated numbers the way it must, within its time, and says what it did not play."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from llmvitals.capacity.report import Question, checked, stored_as
from llmvitals.capacity.speed import machine
from llmvitals.capacity.whatif import SIMULATED_SECONDS, Load, Promise, Side, play
from llmvitals.errors import SettingsError
from llmvitals.simulator.hardware import GPUS
from llmvitals.sources.model_config import model_of
from support import model_configs as known

LLAMA = model_of(known.LLAMA_70B, place="c")
MACHINE = machine(
    LLAMA, GPUS["H100-80GB"], stored_as(LLAMA, checked(Question(weight_dtype="fp8"))), context=1700, tensor_parallel=2
)
SIDE = Side(MACHINE, 199_730)
FULL = Load(rate=4.5, prompt=1500, output=400)


def test_more_calls_than_a_replica_keeps_up_with_and_another_replica():
    before, after = play(SIDE, FULL), play(replace(SIDE, replicas=2), FULL)
    assert before.growing
    assert not after.growing
    assert before.preemptions > 0 == after.preemptions
    assert before.kv_peak > 0.99 > after.kv_peak
    assert after.ttft_p95 < 1 < before.ttft_p95
    assert after.goodput_low > before.goodput_high


def test_a_seat_limit_below_the_pool_ends_preemption():
    before, after = play(SIDE, FULL), play(replace(SIDE, max_num_seqs=64), FULL)
    assert after.preemptions == 0
    assert after.running <= 64
    assert after.kv_peak < 0.9
    assert before.running > 64


def test_a_pool_twice_the_size_holds_what_was_thrown_out():
    load = replace(FULL, rate=4.0)
    before, after = play(SIDE, load), play(replace(SIDE, pool_tokens=2 * SIDE.pool_tokens), load)
    assert before.preemptions > after.preemptions
    assert before.kv_peak > after.kv_peak


def test_light_load_is_served_whole_and_the_interval_is_narrow():
    found = play(SIDE, replace(FULL, rate=1.0), Promise(ttft=2.0, tpot=0.05))
    assert found.goodput_low <= found.goodput_high
    assert found.goodput_low == pytest.approx(1.0, rel=0.15)
    assert found.waiting == 0
    assert not found.ttft_bound
    assert not found.cut


def test_the_same_question_has_the_same_answer():
    assert play(SIDE, replace(FULL, rate=1.0)) == play(SIDE, replace(FULL, rate=1.0))


def test_it_takes_no_longer_than_it_may_and_says_what_it_left_out():
    busy = Load(rate=400, prompt=300, output=300)
    began = time.process_time()
    found = play(Side(MACHINE, 2_000_000, max_num_seqs=1024, max_num_batched_tokens=8192), busy, cpu_seconds=0.5)
    assert time.process_time() - began < 5
    assert found.cut
    assert found.seconds < SIMULATED_SECONDS


def test_too_few_requests_are_no_percentile():
    assert play(SIDE, replace(FULL, rate=0.01)).ttft_p95 is None


@pytest.mark.parametrize(
    ("side", "load", "says"),
    [
        (SIDE, replace(FULL, rate=0), "calls per second is 0"),
        (SIDE, replace(FULL, prompt=-1), "prompt tokens is -1"),
        (SIDE, replace(FULL, output=float("nan")), "output tokens is nan"),
        (replace(SIDE, replicas=0), FULL, "replicas is 0"),
        (replace(SIDE, max_num_seqs=0), FULL, "max_num_seqs is 0"),
        (replace(SIDE, pool_tokens=2000), FULL, "does not hold two requests"),
    ],
)
def test_what_no_engine_starts_with_is_one_line(side, load, says):
    with pytest.raises(SettingsError, match=says):
        play(side, load)
