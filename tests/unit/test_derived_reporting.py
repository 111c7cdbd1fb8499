"""Signals over an engine that counts aborts itself and writes its gauges now and then (SGLang), on windows made by hand."""

from __future__ import annotations

import pytest

from llmvitals.gaps import GapKind
from llmvitals.settings import Settings
from support.made import Server, changed, of_family, read, value

NONE_SUCH = ("llm_request_n_param", "llm_http_requests_total", "llm_process_open_fds", "llm_process_start_time_seconds")


def reporting(server: Server, *, age: float = 30.0) -> Server:
    """A server whose gauges may be so old, and that counts who is given up."""
    server.set("llm_target_report_age_seconds", age)
    server.count("llm_requests_aborted_total", 0)
    return server


def window(server: Server):
    return changed(server.window(), lambda k, v: None if of_family(k, NONE_SUCH) else v)


@pytest.mark.parametrize(("age", "pinned"), [(30.0, 1.0), (0.0, 0.4)])
def test_a_seat_about_to_be_taken_is_taken_where_gauges_are_written_before_prefills(age: float, pinned: float) -> None:
    server = reporting(Server(), age=age)
    server.page()
    server.serve(10, output=10)  # 2 x 8 / 10 tokens: two seats at most are between two requests
    for running in (8, 6, 6, 8, 6):
        server.gauges(running=running, waiting=5)
        server.page()
    assert value(window(server), "running_pinned_ratio") == pinned


def test_two_seats_below_the_top_are_free_seats_whenever_it_was_written() -> None:
    server = reporting(Server())
    server.serve(10, output=100)
    for running in (8, 6, 6, 6, 6):
        server.gauges(running=running, waiting=5)
        server.page()
    assert value(window(server), "running_pinned_ratio") == 0.2


@pytest.mark.parametrize(("age", "stalled"), [(30.0, 0.0), (0.0, 25.0)])
def test_a_page_that_stands_still_for_less_than_its_gauges_are_old_is_no_stall(age: float, stalled: float) -> None:
    server = reporting(Server(), age=age)
    server.serve(5)
    server.gauges(running=3)
    for _ in range(6):  # 25 s between the first and the last of them
        server.page()
    assert value(server.window(), "stalled_seconds") == stalled


def test_what_stands_still_for_longer_is_one() -> None:
    server = reporting(Server())
    server.serve(5)
    server.gauges(running=3)
    for _ in range(9):
        server.page()
    assert value(window(server), "stalled_seconds") == 40.0


def aborting() -> Server:
    """Ten requests end, six of them given up while they ran and two more while they waited."""
    server = reporting(Server())
    server.gauges(running=4, waiting=4)
    server.page()
    server.serve(10)
    server.count("llm_requests_aborted_total", 8)
    server.gauges(running=4, waiting=2)
    server.page()
    return server


def test_requests_given_up_are_those_that_the_engine_counts() -> None:
    found = window(aborting())
    assert value(found, "aborted_requests") == 8.0
    assert value(found, "aborted_ratio") == pytest.approx(8 / 18)


def test_tokens_that_nobody_received_are_not_told_where_aborted_requests_end_like_any_other() -> None:
    found = read(window(aborting()), "wasted_decode_ratio")
    assert found.gap is not None
    assert found.gap.kind is GapKind.UNSUPPORTED
    server = reporting(Server())
    server.page()
    server.serve(10)
    server.page()
    assert value(window(server), "wasted_decode_ratio") == 0.0


def test_those_given_up_are_not_counted_a_second_time_as_arrivals() -> None:
    # 10 ended, those inside went from 8 to 6, in 5 s: 8 arrived at least
    assert value(window(aborting()), "arrival_rate") == pytest.approx(8 / 5)


def test_an_abort_never_makes_the_queue_older_than_it_can_be_nor_anybody_overdue() -> None:
    server = reporting(Server())
    server.first(2)
    server.gauges(running=2, waiting=3)
    for _ in range(4):
        server.page()
    # three arrived by the first page and are waiting still; as many are given up and others take their place unseen
    quiet, late = value(window(server), "queue_age_seconds"), value(window(server), "ttft_breach_ratio")
    server.count("llm_requests_aborted_total", 3)
    server.gauges(running=2, waiting=3)
    server.page()
    assert quiet == pytest.approx(15.0, abs=0.1)
    assert late == 1.0
    assert (value(window(server), "queue_age_seconds") or 0.0) < 5.0
    assert not value(window(server), "ttft_breach_ratio")


def test_a_page_that_shows_nothing_before_the_first_request_has_no_traffic_and_is_not_broken() -> None:
    server = Server()
    server.gauges()
    for _ in range(8):
        server.page()
    hidden = ("llm_request_ttft_seconds", "llm_generation_tokens_total", "llm_requests_finished_total")

    def without(key, number):
        return None if of_family(key, hidden) else number

    fresh = changed(server.window(), without)
    assert value(fresh, "core_families_missing") == 3.0
    for shot in fresh.snapshots:
        for family in hidden:
            gap = server.key("llm_family_gap", family=family, gap="no-traffic", reason="before the first request")
            shot.samples[gap] = 1.0  # type: ignore[index]
    told = changed(fresh, lambda _, number: number)
    assert value(told, "core_families_missing") == 0.0
    assert value(told, "activity", Settings()) == 0.0
