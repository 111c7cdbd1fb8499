"""Which replica is different: the ill one by name and number, and none of a fleet in which nothing is wrong."""

from __future__ import annotations

import random
import time
from dataclasses import replace

import pytest

from llmvitals.settings import Settings
from llmvitals.signals.catalogue import BY_ID
from llmvitals.triage.outliers import LEAST_PEERS, REASONS, WATCHED, outliers
from llmvitals.triage.replica import NUMBERS, Fleet, Replica, decode, encode, limits_of
from llmvitals.triage.sides import bad_side

LIMITS = limits_of(Settings())


def numbers(draw: random.Random, load: float) -> dict[str, float]:
    """One replica of which nothing is wrong: a random share of the load, and what follows from it, with noise of its own."""
    share = load * draw.lognormvariate(0.0, 0.15)
    running = max(0.0, draw.gauss(24 * share, 3))
    return {
        "arrival_rate": max(0.0, draw.gauss(6 * share, 0.6)),
        "running_max": float(round(running)),
        "token_mean_seconds": 0.012 * (1 + 0.015 * running) * draw.lognormvariate(0.0, 0.08),
        "kv_usage_high_ratio": min(1.0, max(0.0, draw.gauss(0.45 * share, 0.08))),
        "waiting_share_ratio": min(1.0, max(0.0, draw.expovariate(1 / 0.05))),
        "queue_mean_seconds": draw.expovariate(1 / 0.02),
        "preemptions_per_minute": float(draw.random() < 0.05),
        "prefix_hit_ratio": min(1.0, max(0.0, draw.gauss(0.5, 0.07))),
        "error_ratio": draw.expovariate(1 / 0.002),
        "restarts": 0.0,
        "prompt_mean_tokens": 900 * draw.lognormvariate(0.0, 0.2),
        "generation_mean_tokens": 180 * draw.lognormvariate(0.0, 0.2),
        "gpu_clock_ratio": min(1.0, draw.gauss(0.97, 0.01)),
        "gpu_throttle_ratio": max(0.0, draw.gauss(0.0, 0.01)),
        "gpu_power_cap_ratio": min(1.0, draw.expovariate(1 / 0.1)),
        "gpu_xid_errors": 0.0,
        "gpu_ecc_errors": 0.0,
        "gpu_sm_active_mean_ratio": min(1.0, max(0.0, draw.gauss(0.6 * min(share, 1.3), 0.06))),
        "page_answer_seconds": 0.005 * draw.lognormvariate(0.0, 0.5),
    }


def fleet(size: int, seed: int, **odd: float) -> Fleet:
    """A fleet of one model; the first has these numbers instead of its own."""
    draw = random.Random(seed)
    load = draw.uniform(0.1, 1.2)
    made = [Replica(f"r{i}", "m", numbers=numbers(draw, load)) for i in range(size)]
    made[0] = replace(made[0], numbers={**made[0].numbers, **odd})
    return Fleet(0.0, 60.0, LIMITS, tuple(made))


def test_of_thousands_of_fleets_in_which_nothing_is_wrong_none_has_an_odd_one():
    found = [
        (size, seed, one.signal)
        for seed in range(1200)
        for size in (5, 8, 20)
        for one in outliers(fleet(size, seed))
        if one.worse
    ]
    assert found == []


ILL = {
    "slow by heat": (
        {"token_mean_seconds": 0.09, "gpu_clock_ratio": 0.55, "gpu_throttle_ratio": 0.8},
        "gpu_throttle_ratio",
    ),
    "slow by its card's errors": ({"token_mean_seconds": 0.09, "gpu_xid_errors": 3.0}, "gpu_xid_errors"),
    "slow by low clocks": ({"token_mean_seconds": 0.09, "gpu_clock_ratio": 0.5}, "gpu_clock_ratio"),
    "slow by what it runs": ({"token_mean_seconds": 0.09, "running_max": 200.0}, "running_max"),
    "slow, and nothing tells why": ({"token_mean_seconds": 0.2, "running_max": 1.0, "prompt_mean_tokens": 500.0}, ""),
}


@pytest.mark.parametrize("name", ILL)
@pytest.mark.parametrize("size", [5, 8, 40])
def test_a_slow_one_is_found_with_its_peers_median_and_its_reason(name, size):
    ill, why = ILL[name]
    for seed in range(20):
        made = fleet(size, seed, **ill)
        slow = next(one for one in outliers(made) if one.signal == "token_mean_seconds")
        others = sorted(r.numbers["token_mean_seconds"] for r in made.replicas[1:])
        assert (slow.instance, slow.others) == ("r0", size - 1)
        assert others[0] <= slow.peers <= others[-1]
        assert slow.because == why
        assert slow.reason.startswith(REASONS[why][3]) if why else slow.reason == ""
        assert {one.instance for one in outliers(made) if one.worse} == {"r0"}


@pytest.mark.parametrize(
    "odd",
    [
        {"prefix_hit_ratio": 0.0},
        {"queue_mean_seconds": 9.0},
        {"preemptions_per_minute": 60.0},
        {"error_ratio": 0.4},
        {"gpu_xid_errors": 1.0},
        {"restarts": 2.0},
        {"page_answer_seconds": 1.0},
    ],
    ids=lambda odd: next(iter(odd)),
)
def test_each_kind_of_difference_is_found_by_its_own_signal(odd):
    (signal,) = odd
    assert ("r0", signal) in {(one.instance, one.signal) for one in outliers(fleet(8, 3, **odd))}


def test_an_idle_one_among_busy_ones_is_different_and_not_worse():
    made = fleet(12, 5, gpu_sm_active_mean_ratio=0.0, arrival_rate=0.0, running_max=0.0)
    assert all(not one.worse for one in outliers(made))


def test_two_ill_ones_do_not_hide_each_other():
    made = fleet(10, 7, token_mean_seconds=0.1)
    second = replace(made.replicas[1], numbers={**made.replicas[1].numbers, "token_mean_seconds": 0.11})
    both = replace(made, replicas=(made.replicas[0], second, *made.replicas[2:]))
    assert {"r0", "r1"} <= {one.instance for one in outliers(both) if one.signal == "token_mean_seconds"}


def test_too_few_peers_say_nothing_of_what_is_usual():
    assert outliers(fleet(LEAST_PEERS, 1, token_mean_seconds=5.0)) == ()


def test_models_are_not_compared_with_each_other_nor_with_what_is_gone():
    made = fleet(9, 2, token_mean_seconds=5.0)
    other = replace(made, replicas=(replace(made.replicas[0], model="large"), *made.replicas[1:]))
    assert not any(one.instance == "r0" for one in outliers(other))
    gone = replace(made, replicas=(replace(made.replicas[0], gone=True), *made.replicas[1:]))
    assert not any(one.instance == "r0" for one in outliers(gone))


def test_an_older_exporter_s_replicas_without_numbers_have_none_and_numbers_travel():
    made = fleet(6, 1, token_mean_seconds=5.0)
    assert outliers(decode(encode(made), place="here")) == outliers(made) != ()
    document = encode(made)
    for one in document["replicas"]:
        del one["numbers"]
    assert outliers(decode(document, place="here")) == ()


def test_a_thousand_replicas_take_less_than_a_second():
    made = fleet(1000, 4, token_mean_seconds=5.0)
    start = time.process_time()
    assert outliers(made)
    assert time.process_time() - start < 1.0


def test_what_is_watched_is_what_exporters_answer_on_the_side_that_checks_call_bad():
    names = {watched.signal for watched in WATCHED} | set(REASONS) | {why for watched in WATCHED for why in watched.why}
    assert names <= set(NUMBERS)
    assert names <= set(BY_ID)
    for watched in WATCHED:
        assert bad_side(watched.signal) in {"", watched.side}
        assert set(watched.why) <= set(REASONS)
