"""Goodput as counts and bounds, its peak, and what it suggests; held against simulated servers whose truth is known."""

import json
import random
from dataclasses import replace
from functools import cache

import pytest

from llmvitals.loadtest import texts
from llmvitals.loadtest.goodput import Promises, at_most, kept, wilson
from llmvitals.loadtest.model import Percentiles, Request, Run, exactly
from llmvitals.loadtest.read import read_contents
from llmvitals.loadtest.suggest import suggest
from llmvitals.loadtest.sweep import compared, sweeps
from llmvitals.simulator.config import EngineConfig
from support.bench import bench

PROMISES = Promises(ttft=2.0, tpot=0.05)
CV = 0.3


def run(level, good, bad=0, failed=0, *, duration=100.0, **more):
    """A test with so many requests in time, too slow a pace, and failed."""
    fine = Request(exactly(1.0), exactly(0.02), latency=2.0)
    slow = Request(exactly(1.0), exactly(0.2), latency=2.0)
    broken = Request(exactly(None), exactly(None), failed=True)
    requests = (fine,) * good + (slow,) * bad + (broken,) * failed
    return Run("t", f"{level}", duration, good + bad, failed, level, requests=requests, latency_cv=CV, **more)


def only(*runs):
    (found,) = sweeps(runs, PROMISES)
    return found


def said(notes):
    return [note.text for note in notes]


def numpy_percentile(values, q):
    """Interpolated between neighbours, as numpy does by default."""
    ordered, rank = sorted(values), q * (len(values) - 1)
    low = int(rank)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (rank - low)


def nearest_rank(values, q):
    """The smallest value that so many lie at or below, as GuideLLM's are."""
    return next(v for i, v in enumerate(sorted(values)) if (i + 1) / len(values) >= q - 1e-12)


@pytest.mark.parametrize("percentile", [numpy_percentile, nearest_rank])
def test_bounds_from_percentiles_always_hold_the_true_count(percentile):
    rng = random.Random(4)
    for _ in range(400):
        n = rng.choice((1, 2, 3, 10, 57, 200))
        values = [round(rng.lognormvariate(0, 1), rng.choice((1, 3))) for _ in range(n)]
        qs = sorted(rng.sample((0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99), rng.randint(0, 6)))
        measure = Percentiles(tuple((q, percentile(values, q)) for q in qs), min(values), max(values))
        for bound in (0.0, rng.choice(values), rng.random() * 3, 100.0):
            low, high = at_most(measure, n, bound)
            assert low <= sum(v <= bound for v in values) <= high, (values, measure, bound)


def test_without_percentiles_everything_is_possible():
    assert at_most(Percentiles(), 10, 1.0) == (0, 10)


def test_both_promises_are_bounded_by_each():
    told = Run(
        "t",
        "p",
        10.0,
        100,
        20,
        8,
        ttft=Percentiles(((0.9, 1.9), (0.95, 2.1))),
        tpot=Percentiles(((0.75, 0.04), (0.9, 0.06))),
    )
    found = kept(told, PROMISES)
    assert (found.ttft, found.tpot) == ((90, 95), (75, 90))
    assert found.both == (65, 90)  # at least 90 + 75 - 100, at most 90
    assert found.ended == 120  # failed ones kept neither
    assert not found.exact


def test_requests_are_counted_exactly_and_a_failed_one_keeps_nothing():
    found = kept(run(8, good=70, bad=20, failed=10), PROMISES)
    assert (found.both, found.ended, found.exact) == ((70, 70), 100, True)
    (point,) = only(run(8, good=70, bad=20, failed=10)).points
    assert point.bound_low == point.bound_high == pytest.approx(0.7)
    assert point.low < 0.7 < point.high
    assert texts.FAILING in said(point.notes)


def test_a_pace_that_is_only_bounded_is_neither_kept_nor_missed():
    open_pace = Request(exactly(1.0), (0.01, 0.3))
    told = replace(run(8, good=0), requests=(open_pace,) * 4, succeeded=4)
    assert kept(told, PROMISES).both == (0, 4)


def test_wilson_holds_the_share_in_most_draws():
    rng = random.Random(1)
    for share, n in ((0.95, 200), (0.5, 60), (0.99, 1000)):
        held = sum(
            low <= share <= high
            for low, high in (wilson(sum(rng.random() < share for _ in range(n)), n) for _ in range(300))
        )
        assert held >= 300 * 0.92


def test_runs_at_one_level_are_taken_together():
    (point,) = only(run(8, 100), run(8, 200, duration=200.0)).points
    assert point.kept.ended == 300
    assert point.bound_low == pytest.approx(1.0)


def test_a_peak_between_two_worse_levels():
    found = only(run(8, 1000), run(32, 3000), run(64, 500, 3000))
    assert (found.peak.low.level, found.peak.high.level) == (32, 32)
    suggested = suggest(found)
    assert suggested.seats == (32, 32)
    assert {texts.PEAK} <= set(said(found.notes))
    assert {texts.FALLS_TPOT, texts.SEATS_ASSUMED} <= set(said(suggested.notes))
    assert "between 8 and 64" in str(found.notes[0])


def test_levels_within_noise_are_a_range_and_the_lower_one_comes_first():
    found = only(run(8, 1000), run(32, 3000), run(48, 3010, 50), run(64, 500, 3000))
    assert (found.peak.low.level, found.peak.high.level) == (32, 48)
    assert suggest(found).seats == (32, 48)
    assert texts.SEATS_RANGE in said(suggest(found).notes)


def test_where_the_highest_level_may_be_the_peak_nothing_is_suggested():
    found = only(run(8, 1000), run(32, 3000), run(64, 3500))
    assert said(found.notes) == [texts.STILL_RISING]
    assert suggest(found).seats is None


def test_two_levels_show_no_peak():
    found = only(run(8, 1000), run(64, 10, 3000))
    assert said(found.notes) == [texts.FEW_LEVELS]
    assert suggest(found).seats is None


def test_when_no_request_is_in_time_there_is_no_peak():
    found = only(*(run(level, 0, 500) for level in (8, 16, 32)))
    assert found.peak is None
    assert said(found.notes) == [texts.NONE_GOOD]


def test_a_peak_at_the_lowest_level_is_an_upper_bound():
    assert texts.SEATS_BELOW in said(suggest(only(run(8, 3000), run(32, 900, 900), run(64, 100, 3000))).notes)


def test_a_server_that_never_held_so_many_at_once_says_nothing_of_its_seats():
    runs = (run(8, 1000), run(32, 3000), run(64, 500, 3000))
    suggested = suggest(only(*runs), seats=16)
    assert suggested.seats is None
    assert texts.SEATS_CAPPED in said(suggested.notes)
    assert suggest(only(*runs), seats=64).seats == (32, 32)
    told = only(*(replace(one, server=(("max_num_seqs", 16.0),)) for one in runs))
    assert suggest(told).seats is None


def test_the_load_is_shared_by_the_engines():
    assert suggest(only(run(8, 1000), run(32, 3000), run(64, 500, 3000)), engines=4).seats == (8, 8)


def test_few_requests_and_short_runs_are_told():
    few, short = only(run(8, 50), run(200, 400)).points
    assert texts.FEW in said(few.notes)
    assert texts.SHORT in said(short.notes)


def test_settings_of_the_server_are_held_against_each_other():
    def at(seats, *goods):
        return [
            replace(run(level, good), server=(("max_num_batched_tokens", seats),))
            for level, good in zip((8, 16, 32), goods, strict=True)
        ]

    found = sweeps([*at(2048.0, 1000, 2000, 500), *at(8192.0, 1000, 3000, 500)], PROMISES)
    assert [str(note) for note in compared(found)] == [
        "Of the settings tested, max_num_batched_tokens 8192 gives the most."
    ]
    alike = sweeps([*at(2048.0, 1000, 2000, 500), *at(8192.0, 1000, 2010, 500)], PROMISES)
    assert said(compared(alike)) == [texts.SERVERS_ALIKE]


LEVELS = (16, 32, 64, 96, 128, 192)


CONFIG = EngineConfig(max_num_seqs=256)
ran = cache(bench)


@pytest.mark.parametrize("pace", [0.020, 0.030, 0.050])
def test_the_suggestion_lies_at_the_true_peak_of_a_simulated_server(pace):
    """Six levels are tested; the truth comes from a finer walk, from what the clients of longer runs remember."""
    promises = Promises(1.0, pace)
    files = [(f"{n}.json", json.dumps(ran(n, 30.0, CONFIG).document()).encode()) for n in LEVELS]
    (found,) = sweeps(read_contents(files).runs, promises)
    low, high = suggest(found).seats

    def goodput(level):
        long = ran(level, 60.0, CONFIG)
        return long.good(promises.ttft, promises.tpot) / long.seconds

    assert max(LEVELS, key=goodput) in range(low, high + 1)
    below = max((n for n in LEVELS if n < low), default=0)
    above = min(n for n in LEVELS if n > high)
    assert below < max(range(8, 200, 16), key=goodput) < above


def test_what_is_suggested_holds_the_pace_where_more_clients_come():
    """With twice the clients and no limit on the wait, the suggested seats serve more in pace than four times as many."""
    pace = 0.03
    files = [(f"{n}.json", json.dumps(ran(n, 30.0, CONFIG).document()).encode()) for n in LEVELS]
    (found,) = sweeps(read_contents(files).runs, Promises(1.0, pace))
    seats, _ = suggest(found).seats
    served = {
        n: bench(2 * seats, 40.0, EngineConfig(max_num_seqs=n)).good(1e9, pace) for n in (seats // 2, seats, seats * 4)
    }
    assert max(served, key=served.__getitem__) == seats
