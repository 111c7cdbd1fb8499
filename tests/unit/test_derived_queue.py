"""The queue's signals against small windows whose numbers are worked out in comments."""

from __future__ import annotations

import math

import pytest

from llmvitals.gaps import GapKind
from llmvitals.series import Snapshot, Window
from llmvitals.signals.reading import Standing
from support.made import Server, read, run, value, without


def queue_of(rows: list[tuple[float, float, float]], *, took: float = 0.0, kv: float = 0.3) -> Server:
    """A page per (finished so far, running, waiting); everything that runs has its first token."""
    server, before_done, before_first = Server(), 0.0, 0.0
    for done, running, waiting in rows:
        server.first(max(0.0, done + running - before_first))
        before_first = max(before_first, done + running)
        server.finish(done - before_done)
        before_done = done
        server.gauges(running=running, waiting=waiting, kv=kv)
        server.page(took=took)
    return server


# -- age of the oldest waiting request --------------------------------------------------------------------------------
ROWS = [(0, 2, 0), (2, 2, 1), (4, 2, 3), (6, 2, 4), (8, 2, 4)]


def test_queue_age_is_the_time_since_the_oldest_must_have_arrived():
    # now 8 + 2 have been served: the oldest waiting is the 11th. Arrived by page: 2, 5, 9, 12: the third after the first,
    # at 15 s of 20 s: 5 s old at least.
    found = read(queue_of(ROWS).window(), "queue_age_seconds")
    assert (found.value, found.standing, found.note) == (5.0, Standing.LOWER, "")


def test_queue_age_is_less_by_the_pages_own_answer_time():
    assert value(queue_of(ROWS, took=0.4).window(), "queue_age_seconds") == pytest.approx(4.6)


def test_queue_age_is_never_negative():
    assert value(queue_of(ROWS, took=9.0).window(), "queue_age_seconds") == 0.0


def test_queue_age_reaches_the_windows_start_and_says_so():
    found = read(queue_of([(0, 2, 3), (0, 2, 3), (0, 2, 3)]).window(), "queue_age_seconds")
    assert (found.value, found.note) == (10.0, "older than the window")  # two intervals of 5 s


def test_queue_age_of_an_empty_queue_is_0():
    assert value(queue_of([(0, 2, 0), (4, 2, 0)]).window(), "queue_age_seconds") == 0.0


def test_once_preemptions_moved_the_age_counts_from_those_without_a_first_token():
    # one of the two running is thrown out at the last page: done 4, running 1, waiting 2, first tokens 6.
    server = queue_of([(0, 2, 0), (2, 2, 0), (4, 2, 1)])
    server.count("llm_preemptions_total", 1)
    server.gauges(running=1, waiting=2, kv=0.99)
    server.page()
    # 4 + 1 served would make the 6th the oldest: arrived at the second page but one (4 + 2 + 1 = 7): 10 s old? It had
    # its first token. The 7th (6 first tokens + 1) had arrived when 4 + 2 + 1 = 7 were in: one page ago, 5 s - 30 ms.
    assert value(server.window(), "queue_age_seconds") == pytest.approx(5.0 - 0.03)


def test_clients_that_left_do_not_make_the_queue_older():
    server = queue_of([(0, 2, 3), (2, 2, 3), (4, 2, 3)])
    # both waiting clients that came first give up; two others take their place
    server.answer(2)
    server.finish(2)
    server.first(2)
    server.page()
    # served now 6 + 2, left 2: the 11th is the oldest. Arrived by page: 5, 7, 9, then 6 + 2 + 3 + 2 = 13: this page, 0 s.
    assert value(server.window(), "queue_age_seconds") == 0.0
    # without the HTTP counters the 9th would be the oldest, 5 s old: too old
    gone = value(without(server.window(), "llm_http_requests_total"), "queue_age_seconds")
    assert gone == pytest.approx(5.0 - 0.03)


def test_queue_age_is_withheld_when_clients_left_and_nothing_counts_them():
    server = queue_of([(0, 2, 3), (2, 2, 3)])
    server.count("llm_requests_finished_total", 1, reason="abort")
    server.page()
    found = read(without(server.window(), "llm_http_requests_total"), "queue_age_seconds")
    assert found.gap is not None
    assert (found.gap.kind, found.gap.series) == (GapKind.MISSING, "llm_http_requests_total")


def test_queue_age_reads_only_pages_since_the_restart():
    server = queue_of([(0, 2, 30), (2, 2, 30), (4, 2, 30)])
    server.restart()
    server.first(2)
    server.gauges(running=2, waiting=1)
    server.page(took=0.0)
    server.gauges(running=2, waiting=2)
    server.page(took=0.0)
    # the third to arrive since the restart was there on the page before: 5 s
    assert value(server.window(), "queue_age_seconds") == 5.0


# -- who waits again --------------------------------------------------------------------------------------------------
def test_preempted_waiting_is_first_tokens_less_finished_less_running():
    server = queue_of([(0, 8, 0), (3, 8, 4)])
    server.count("llm_preemptions_total", 3)
    server.gauges(running=5, waiting=7, kv=1.0)
    server.page()
    # first tokens 3 + 8 = 11, finished 3, running 5: 3 of the 7 were running before
    assert value(server.window(), "preempted_waiting") == 3.0
    assert value(server.window(), "preempted_waiting_peak") == 3.0


def test_preempted_waiting_is_seen_before_the_engine_counts_it_once_the_pool_was_full():
    server = queue_of([(0, 8, 0), (3, 8, 4)])
    server.gauges(running=5, waiting=7, kv=0.95)
    server.page()
    assert value(server.window(), "preempted_waiting") == 3.0


def test_with_a_pool_that_never_filled_nobody_was_preempted():
    server = queue_of([(0, 8, 0), (3, 8, 4)])
    server.gauges(running=5, waiting=7, kv=0.6)
    server.page()
    assert value(server.window(), "preempted_waiting") == 0.0


def test_clients_that_left_are_not_preempted():
    server = queue_of([(0, 8, 0), (3, 8, 4)])
    server.count("llm_preemptions_total", 1)
    server.answer(2)  # two of the running left: 2xx without a finished request
    server.gauges(running=5, waiting=7, kv=1.0)
    server.page()
    assert value(server.window(), "preempted_waiting") == 1.0


def test_preempted_waiting_never_exceeds_the_queue():
    server = queue_of([(0, 8, 0), (3, 8, 4)])
    server.count("llm_preemptions_total", 6)
    server.gauges(running=1, waiting=2, kv=1.0)
    server.page()
    assert value(server.window(), "preempted_waiting") == 2.0


@pytest.mark.parametrize("family", ["llm_preemptions_total", "llm_requests_running", "llm_requests_finished_total"])
def test_preempted_waiting_is_a_gap_without_its_counters(family):
    server = queue_of([(0, 8, 0), (3, 8, 4)])
    server.count("llm_preemptions_total", 1)
    server.page()
    assert read(without(server.window(), family), "preempted_waiting").gap is not None


def test_without_http_counters_those_who_left_and_those_preempted_cannot_be_told_apart():
    server = queue_of([(0, 8, 0), (3, 8, 4)])
    server.count("llm_preemptions_total", 1)
    server.gauges(running=5, waiting=7, kv=1.0)
    server.page()
    found = read(without(server.window(), "llm_http_requests_total"), "preempted_waiting")
    assert found.gap is not None
    assert found.gap.series == "llm_http_requests_total"


# -- wait ahead -------------------------------------------------------------------------------------------------------
def test_wait_ahead_is_the_queue_over_the_rate_of_first_tokens():
    # first tokens 2, 4, 6, 8, 10 over 20 s: 0.4/s; 4 wait: 10 s
    assert value(queue_of(ROWS).window(), "wait_ahead_seconds") == pytest.approx(10.0)


def test_wait_ahead_uses_the_last_30_seconds():
    # 40 s with 100 first tokens at the start, then 1 in 5 s: over the last 30 s 6 first tokens, 6 wait
    server = Server()
    server.page()
    for i in range(1, 9):
        server.first(100 if i == 1 else 1)
        server.gauges(running=2, waiting=6)
        server.page()
    assert value(server.window(), "wait_ahead_seconds") == pytest.approx(6 / (6 / 30))


def test_those_who_had_a_first_token_are_not_ahead():
    server = queue_of([(0, 8, 0), (3, 8, 4)])
    server.count("llm_preemptions_total", 3)
    server.gauges(running=5, waiting=7, kv=1.0)
    server.page()
    # 3 of 7 wait again; first tokens 8 -> 11 over 10 s: 4 / 0.3
    assert value(server.window(), "wait_ahead_seconds") == pytest.approx(4 / 0.3)


def test_wait_ahead_is_a_gap_while_no_first_token_comes():
    found = read(queue_of([(0, 2, 5), (0, 2, 5), (0, 2, 5)]).window(), "wait_ahead_seconds")
    assert found.gap is not None
    assert (found.value, found.gap.kind) == (None, GapKind.STALE)


def test_nobody_waits_nobody_is_ahead():
    assert value(queue_of([(0, 2, 0), (1, 2, 0)]).window(), "wait_ahead_seconds") == 0.0


# -- the rest ---------------------------------------------------------------------------------------------------------
def test_waiting_tokens_is_the_queue_times_the_mean_prompt():
    assert value(queue_of(ROWS).window(), "waiting_tokens") == 4 * 200  # every made prompt has 200 tokens


def test_waiting_tokens_of_prompts_of_unknown_length_is_a_gap():
    found = read(queue_of([(0, 2, 5), (0, 2, 5)]).window(), "waiting_tokens")
    assert found.gap is not None
    assert found.gap.kind is GapKind.NO_TRAFFIC


def test_shares_and_extremes_of_the_gauges():
    window = queue_of(ROWS).window()
    assert value(window, "waiting_share_ratio") == 0.8  # four of five pages
    assert value(window, "waiting_last") == 4
    assert value(window, "running_max") == 2
    assert value(window, "turnover_ratio") == 4.0  # 8 finished, 2 at once


def test_deferred_is_a_share_of_pages_on_which_nobody_waits_for_capacity():
    server = Server()
    for waiting, deferred in ((0, 0), (3, 3), (3, 1), (2, 2), (4, 4)):
        server.gauges(running=1, waiting=waiting, deferred=deferred)
        server.page()
    assert value(server.window(), "deferred_share_ratio") == 0.75  # 3 of the 4 pages that have a queue


def test_without_a_queue_nothing_is_deferred_and_nothing_is_not():
    found = read(run(6, lambda s, _: s.gauges(running=2)), "deferred_share_ratio")
    assert found.gap is not None
    assert found.gap.kind is GapKind.NO_TRAFFIC


def batches(*rows: tuple[float, float]) -> Window:
    """A page per (running, waiting)."""
    server = Server()
    for running, waiting in rows:
        server.gauges(running=running, waiting=waiting)
        server.page()
    return server.window()


@pytest.mark.parametrize(
    ("running", "pinned"),
    [
        ((8, 8, 8, 6, 8, 7), 0.8),  # 4 of 5 pages with a queue: one seat below the top was just given up, two were not
        ((40, 34, 33, 40, 34, 40), 0.8),  # 85 % of 40 are 34
        ((4, 3, 4, 2, 3, 4), 0.8),  # one seat of four is more than 15 %, and yet just given up
        ((3, 3, 2, 3, 3, 3), 0.8),  # of three it is a third of the batch
    ],
)
def test_running_is_pinned_where_it_stands_at_its_maximum_while_somebody_waits(running, pinned):
    assert value(batches(*zip(running, (0, 1, 2, 3, 4, 5), strict=True)), "running_pinned_ratio") == pinned


def test_two_pages_with_a_queue_pin_nothing_and_three_do():
    found = read(batches(*((8, waiting) for waiting in (0, 0, 0, 0, 1, 1))), "running_pinned_ratio")
    assert found.gap is not None
    assert found.gap.kind is GapKind.TOO_SHORT
    assert value(batches(*((8, waiting) for waiting in (0, 0, 0, 1, 1, 1))), "running_pinned_ratio") == 1.0


def test_trend_and_growth_of_the_queue():
    # waiting 0..9: z as for ten rising values; growth 9 against sqrt(9 finished + 9) = 4.243
    window = queue_of([(i, 1, i) for i in range(10)]).window()
    assert value(window, "waiting_trend_z") == pytest.approx(44 / math.sqrt(125))
    assert value(window, "waiting_growth_sigmas") == pytest.approx(9 / math.sqrt(18))


def test_arrivals_are_the_finished_those_who_left_and_those_inside():
    server = queue_of([(0, 2, 0), (10, 4, 6)])
    server.answer(3)
    server.page()
    # over 10 s: 10 finished, 3 left, inside from 2 to 10
    assert value(server.window(), "arrival_rate") == pytest.approx((10 + 3 + 8) / 10)


def test_arrivals_on_one_page_are_a_gap():
    assert value(queue_of([(0, 2, 0)]).window(), "arrival_rate") is None


def preempting(*counts: float) -> Server:
    server = Server()
    server.page()
    for count in counts:
        server.count("llm_preemptions_total", count)
        server.serve(10)
        server.page()
    return server


def test_preemptions_are_spread_over_intervals():
    window = preempting(5, 0, 1, 2, 0, 1).window()
    assert value(window, "preemption_spread_ratio") == pytest.approx(4 / 6)
    assert value(window, "preemptions_per_completion") == pytest.approx(9 / 60)
    assert value(window, "preemptions_per_minute") == pytest.approx(9 / 0.5)  # 30 s


def test_a_burst_is_no_spread():
    assert value(preempting(0, 40, 40, 0).window(), "preemption_spread_ratio") == 0.0  # two intervals


@pytest.mark.parametrize(
    ("signal", "family"),
    [
        ("queue_age_seconds", "llm_requests_waiting"),
        ("queue_age_seconds", "llm_requests_finished_total"),
        ("wait_ahead_seconds", "llm_requests_waiting"),
        ("waiting_tokens", "llm_requests_waiting"),
        ("waiting_share_ratio", "llm_requests_waiting"),
        ("waiting_last", "llm_requests_waiting"),
        ("waiting_trend_z", "llm_requests_waiting"),
        ("waiting_growth_sigmas", "llm_requests_waiting"),
        ("waiting_growth_sigmas", "llm_requests_finished_total"),
        ("running_max", "llm_requests_running"),
        ("running_pinned_ratio", "llm_requests_running"),
        ("turnover_ratio", "llm_requests_running"),
        ("turnover_ratio", "llm_requests_finished_total"),
        ("deferred_share_ratio", "llm_requests_waiting_by_reason"),
        ("arrival_rate", "llm_requests_finished_total"),
        ("arrival_rate", "llm_http_requests_total"),
        ("preemption_spread_ratio", "llm_preemptions_total"),
        ("preemptions_per_completion", "llm_preemptions_total"),
        ("preemptions_per_completion", "llm_requests_finished_total"),
        ("preemptions_per_minute", "llm_preemptions_total"),
    ],
)
def test_without_its_family_a_signal_is_a_gap_that_names_it(signal, family):
    found = read(without(queue_of(ROWS).window(), family), signal)
    assert found.gap is not None
    assert found.gap.series == family


def test_gauges_that_appear_with_the_first_step_were_0_before():
    # several API processes: running and waiting are absent until the engine's first step
    pages = queue_of([(0, 0, 0), (0, 0, 0), (4, 2, 1), (8, 2, 1)]).pages
    hidden = [
        Snapshot(s.t, {k: v for k, v in s.samples.items() if not k.name.startswith("llm_requests_w")})
        for s in pages[:2]
    ]
    window = Window.of([*hidden, *pages[2:]])
    assert value(window, "waiting_share_ratio") == 0.5  # two of four pages, not two of two
