"""Whether the target serves and can be trusted: dead, frozen, restarted, just started, contradicting itself."""

from __future__ import annotations

import pytest

from llmvitals.gaps import GapKind
from llmvitals.series import Window
from llmvitals.signals.reading import Standing
from llmvitals.signals.window import scopes
from llmvitals.telemetry.ingest import Ingest, RawPage
from support.hostile import vllm_page
from support.made import START, Server, healthy, read, run, value, without


# -- pages ------------------------------------------------------------------------------------------------------------
def test_failed_pages_at_the_end_after_good_ones():
    server = Server()
    server.fail()
    for _ in range(4):
        server.page()
    for _ in range(3):
        server.fail()
    window = server.window()
    assert value(window, "dead_tail_pages") == 3
    assert value(window, "failed_scrape_ratio") == 0.5  # 4 of 8
    assert value(window, "pages") == 4
    assert value(window, "window_seconds") == 15  # from the first to the last readable one


def test_a_target_that_never_answered_is_not_dead_but_unknown():
    server = Server()
    for _ in range(6):
        server.fail()
    found = read(server.window(), "dead_tail_pages")
    assert found.gap is not None
    assert found.gap.kind is GapKind.MISSING
    assert value(server.window(), "failed_scrape_ratio") == 1.0


def test_a_page_that_came_back_ends_the_tail():
    server = Server()
    server.page()
    server.fail()
    server.fail()
    server.page()
    assert value(server.window(), "dead_tail_pages") == 0


def test_an_empty_window_has_no_share_of_failed_pages():
    assert read(Window.of([]), "failed_scrape_ratio").gap is not None
    assert read(Window.of([]), "dead_tail_pages").gap is not None


# -- stalls -----------------------------------------------------------------------------------------------------------
def frozen(pages: int, *, running: float = 0, waiting: float = 0, fds: float = 0, refused: int = 0) -> Window:
    """Traffic for 10 s, then so many further pages on which nothing moves but ``fds`` more descriptors each."""
    server = Server()
    server.page()
    server.serve(10)
    server.page()
    server.serve(10)
    server.gauges(running=running, waiting=waiting)
    server.page()
    for i in range(1, pages + 1):
        server.set("llm_process_open_fds", 50 + i * fds)
        if refused:
            server.count("llm_http_requests_total", refused, status="4xx", handler="/v1/completions")
        server.count("llm_process_cpu_seconds_total", 0.1)
        server.page()
    return server.window()


def test_a_page_that_stands_still_while_requests_run_is_a_stall():
    assert value(frozen(4, running=3), "stalled_seconds") == 20  # four intervals of 5 s
    assert value(frozen(4, waiting=1), "stalled_seconds") == 20


def test_an_empty_engine_whose_connections_pile_up_is_a_stall():
    assert value(frozen(4, fds=2), "stalled_seconds") == 20  # 8 more descriptors, at least 5


def test_a_few_descriptors_more_are_no_stall():
    assert value(frozen(4, fds=1), "stalled_seconds") == 0  # 4 more


def test_an_idle_engine_whose_front_end_answers_is_not_stalled():
    # connections climb as above, but every page shows three more refused requests: the API process is at work
    assert value(frozen(4, fds=2, refused=3), "stalled_seconds") == 0


def test_an_idle_engine_does_not_stall():
    assert value(frozen(8), "stalled_seconds") == 0


def test_an_engine_that_moves_does_not_stall():
    assert value(run(10, healthy), "stalled_seconds") == 0


def stalling(*moves: int) -> Window:
    """Two requests run; a first token comes before each page that moves."""
    server = Server()
    server.gauges(running=2)
    for move in moves:
        server.first(move)
        server.page()
    return server.window()


def test_the_stall_that_lasts_counts_and_not_the_longer_one_before():
    assert value(stalling(1, 0, 0, 0, 1, 0, 0), "stalled_seconds") == 10  # two intervals at the end against three


def test_a_stall_that_has_passed_is_none():
    assert value(stalling(1, 0, 0, 1, 0, 0, 0, 1), "stalled_seconds") == 0


def test_one_page_shows_no_stall():
    server = Server()
    server.page()
    found = read(server.window(), "stalled_seconds")
    assert found.gap is not None
    assert found.gap.kind is GapKind.TOO_SHORT


@pytest.mark.parametrize("family", ["llm_requests_running", "llm_requests_waiting", "llm_process_open_fds"])
def test_a_page_that_never_moves_says_nothing_where_work_would_not_show(family):
    window = run(8, lambda s, _: s.gauges())
    assert value(window, "stalled_seconds") == 0
    found = read(without(window, family), "stalled_seconds")
    assert found.gap is not None
    assert found.gap.series == family


def test_gauges_alone_do_not_stall():
    counters = ("llm_request_ttft_seconds", "llm_generation_tokens_total")
    window = without(run(8, lambda s, _: s.gauges(running=5)), *counters)
    assert read(window, "stalled_seconds").gap is not None


# -- restarts and age -------------------------------------------------------------------------------------------------
def restarted() -> Server:
    server = Server(age=1000)
    for _ in range(3):
        server.serve(20)
        server.page()
    server.restart()
    for _ in range(3):
        server.serve(5)
        server.page()
    return server


def test_a_restart_is_seen_by_the_start_time():
    window = restarted().window()
    assert value(window, "restarts") == 1
    # the process began with the third page, and the first page of its own came an interval later
    assert value(window, "uptime_seconds") == 5


def test_where_no_start_time_shows_falling_counters_tell_it():
    hidden = without(restarted().window(), "llm_process_start_time_seconds", "llm_process_cpu_seconds_total")
    assert value(hidden, "restarts") == 1
    assert read(hidden, "uptime_seconds").gap is not None


def test_growth_goes_on_over_a_restart():
    # 20 + 20 after the first page, then 5 + 5 + 5
    assert value(restarted().window(), "first_tokens") is not None
    assert value(restarted().window(), "activity") == 55 + 55 + 55 * 100  # first tokens, finished, 100 tokens each


def test_a_server_that_goes_on_did_not_restart():
    assert value(run(8, healthy), "restarts") == 0
    assert value(run(8, healthy, Server(age=600)), "uptime_seconds") == 600  # as the window began, not as it ended


def test_who_was_inside_when_the_process_ended_was_cut_off():
    server = Server()
    server.serve(20)
    server.gauges(running=3, waiting=2)
    server.page()
    server.restart()
    server.page()
    found = read(server.window(), "lost_by_restarts")
    assert (found.value, found.standing) == (5.0, Standing.LOWER)  # more may have come since the last page


def test_a_process_that_goes_on_and_an_empty_one_that_ends_lose_nobody():
    assert value(run(8, healthy), "lost_by_restarts") == 0
    assert value(restarted().window(), "lost_by_restarts") == 0


@pytest.mark.parametrize("family", ["llm_requests_running", "llm_requests_waiting"])
def test_who_was_inside_is_unknown_where_the_page_does_not_say(family):
    found = read(without(restarted().window(), family), "lost_by_restarts")
    assert found.gap is not None
    assert found.gap.series == family
    assert value(without(run(8, healthy), family), "lost_by_restarts") == 0  # nobody was cut off where nothing ended


def test_a_clock_set_back_is_no_restart():
    server = Server()
    for i in range(12):
        server.serve(5)
        if i == 6:
            server.t -= 13
        server.page()
    window = server.window()
    assert window.snapshots[0].t == START
    assert value(window, "restarts") == 0
    # counters are compared in the order in which the process used its CPU: never more than what was served
    assert (value(window, "activity") or 0) <= 60 * (1 + 1 + 100)


# -- the last third ---------------------------------------------------------------------------------------------------
def test_late_breaches_are_those_of_the_last_third():
    def each(server: Server, i: int) -> None:
        server.serve(10, ttft=3.0 if i <= 6 else 0.1)

    assert value(run(9, each), "late_ttft_breaches") == 0  # of 45 s the last 15: the pages 7 to 9
    assert value(run(9, lambda s, i: s.serve(10, ttft=3.0 if i > 7 else 0.1)), "late_ttft_breaches") == 20


def test_four_first_tokens_in_the_last_third_say_nothing_and_five_do():
    found = read(run(9, lambda s, i: s.serve(2 if i == 9 else 1)), "late_ttft_breaches")  # 1 + 1 + 2
    assert found.gap is not None
    assert found.gap.kind is GapKind.NO_TRAFFIC
    assert value(run(9, lambda s, i: s.serve(2 if i >= 8 else 1, ttft=3.0)), "late_ttft_breaches") == 5


# -- nothing, failures, contradictions --------------------------------------------------------------------------------
def test_activity_of_an_idle_server_is_0_and_of_an_unknown_one_is_a_gap():
    idle = run(8, lambda s, _: s.gauges())
    assert value(idle, "activity") == 0
    assert value(without(idle, "llm_request_ttft_seconds"), "activity") is None


@pytest.mark.parametrize(("waiting", "known"), [("0", True), ("NaN", False), ("-1", False), ("many", False)])
def test_nobody_inside_is_not_said_of_a_number_that_is_none(waiting, known):
    """Counters that stand still are a server that nobody asks, or one that hangs with requests inside."""
    ingest = Ingest(instance="a", kind="vllm")
    pages = [RawPage(1000.0 + 5 * i, 0.01, 200, vllm_page(running="0", waiting=waiting)) for i in range(8)]
    ((_, window),) = scopes([ingest.snapshot(page) for page in pages]).items()
    assert value(window, "activity") == (0 if known else None)


def test_requests_inside_are_activity():
    assert value(run(8, lambda s, _: s.gauges(running=1)), "activity") == 1


def test_5xx_answers_without_a_single_first_token():
    def each(server: Server, _: int) -> None:
        server.answer(10, "5xx")

    window = run(6, each)
    assert value(window, "silent_failures") == 60
    assert value(window, "error_ratio") == 1.0


def test_5xx_answers_beside_first_tokens_are_not_silent():
    def each(server: Server, _: int) -> None:
        server.answer(10, "5xx")
        server.serve(1)

    assert value(run(6, each), "silent_failures") == 0


def test_first_tokens_that_cannot_be_seen_make_no_failure_silent():
    window = without(run(6, lambda s, _: s.answer(10, "5xx")), "llm_request_ttft_seconds")
    assert read(window, "silent_failures").gap is not None


def test_answers_that_the_engine_does_not_know():
    assert value(run(6, lambda s, _: s.answer(5)), "contradiction") == 30
    assert value(run(6, healthy), "contradiction") == 0


def test_answers_while_requests_run_are_no_contradiction():
    def each(server: Server, _: int) -> None:
        server.answer(5)
        server.gauges(running=1)

    assert value(run(6, each), "contradiction") == 0


def test_basic_families_absent_from_a_readable_page():
    window = run(6, healthy)
    assert value(window, "core_families_missing") == 0
    gone = without(window, "llm_request_ttft_seconds", "llm_requests_finished_total")
    assert value(gone, "core_families_missing") == 2
