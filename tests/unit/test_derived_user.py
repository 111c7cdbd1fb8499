"""What users got: breaches at real edges, the harm test, goodput as an interval, refusals; worked by hand."""

from __future__ import annotations

import msgspec
import pytest

from llmvitals.gaps import GapKind
from llmvitals.schema import family_of
from llmvitals.series import Snapshot, Window, series
from llmvitals.settings import Settings, Slo
from support.made import START, Server, read, run, value, without

EDGE = msgspec.structs.replace(Settings(), slo=Slo(ttft_seconds=2.5, tpot_seconds=0.05))


def served(*parts: dict[str, float], pages: int = 6, gauges: dict[str, float] | None = None) -> Window:
    """All parts are served in one interval; then nothing happens any more."""

    def each(server: Server, i: int) -> None:
        if i == 1:
            for part in parts:
                server.serve(**part)
        server.gauges(**(gauges or {}))

    return run(pages, each)


# -- breaches and harm ------------------------------------------------------------------------------------------------
def test_a_breach_is_definite_only_beyond_the_edge_above_the_threshold():
    # the threshold of 2 s lies inside 1..2.5: 2.2 s may be either, 3 s is none of it
    window = served({"n": 90, "ttft": 0.1}, {"n": 6, "ttft": 2.2}, {"n": 4, "ttft": 3.0})
    assert value(window, "ttft_breach_ratio") == pytest.approx(0.04)
    assert value(window, "ttft_breach_ratio", EDGE) == pytest.approx(0.04)  # 2.5 is an edge: 4 of 100 lie above


def test_harm_is_the_chance_of_so_many_breaches():
    window = served({"n": 9, "ttft": 0.1}, {"n": 1, "ttft": 3.0})
    assert value(window, "ttft_harm_p") == pytest.approx(1 - 0.95**10)  # one or more of ten
    assert value(window, "tpot_harm_p") == 1.0  # none
    assert value(window, "harm_p") == pytest.approx(1 - 0.95**10)  # the smaller of the two


def test_all_late_is_harm():
    window = served({"n": 10, "ttft": 3.0})
    assert value(window, "ttft_harm_p") == pytest.approx(0.05**10)


def test_the_objective_is_a_setting():
    loose = msgspec.structs.replace(Settings(), slo=Slo(objective=0.5))
    assert value(served({"n": 10, "ttft": 3.0}), "ttft_harm_p", loose) == pytest.approx(1 / 1024)


def test_tpot_counts_requests_and_not_gaps():
    window = served({"n": 18, "tpot": 0.02}, {"n": 2, "tpot": 0.09, "output": 1000})
    assert value(window, "tpot_breach_ratio") == pytest.approx(0.1)  # 2 of 20, whatever their 1,998 gaps
    # P(2 or more of 20) = 1 - 0.95^20 - 20 x 0.05 x 0.95^19
    assert value(window, "tpot_harm_p") == pytest.approx(1 - 0.95**20 - 0.95**19)


def test_requests_that_wait_longer_than_the_threshold_are_breaches_already():
    server = Server()
    for done, running, waiting in ((0, 0, 0), (10, 4, 0), (10, 4, 6), (10, 4, 9)):
        server.first(max(0, done + running) if done and not waiting else 0)
        if done and not waiting:
            server.finish(10)
        server.gauges(running=running, waiting=waiting)
        server.page()
    # by the page before (5 s ago, over 2 s) 10 + 4 + 6 had arrived; 14 got their first token: 6 are overdue
    window = server.window()
    assert value(window, "ttft_breach_ratio") == pytest.approx(6 / 20)
    assert value(window, "ttft_harm_p") < 1e-3


def test_an_engine_without_time_per_request_speaks_only_when_most_gaps_are_slow():
    def old(slow: int, fast: int) -> Window:
        window = served({"n": 1, "gap": 0.3, "output": slow + 1}, {"n": 1, "gap": 0.02, "output": fast + 1})
        bare = without(window, "llm_request_tpot_seconds")
        told = series(
            "llm_family_gap", family="llm_request_tpot_seconds", gap="unsupported", instance="made", reason="too old"
        )
        return Window.of(Snapshot(s.t, {**s.samples, told: 1.0}) for s in bare.snapshots)

    assert value(old(60, 40), "tpot_harm_p") == 0.0
    assert value(old(40, 60), "tpot_harm_p") == 1.0


def test_a_family_that_is_missing_is_not_read_from_another():
    window = without(served({"n": 10, "tpot": 0.09}), "llm_request_tpot_seconds")
    for signal in ("tpot_harm_p", "tpot_breach_ratio", "tpot_median_low_seconds", "tpot_median_high_seconds"):
        found = read(window, signal)
        assert found.gap is not None, signal
        assert found.gap.kind is GapKind.MISSING


def test_without_requests_there_is_neither_harm_nor_health():
    window = served()
    for signal in ("ttft_harm_p", "tpot_harm_p", "harm_p", "ttft_breach_ratio", "goodput_low_ratio", "error_ratio"):
        found = read(window, signal)
        assert found.gap is not None, signal
        assert found.gap.kind is GapKind.NO_TRAFFIC, signal


# -- goodput ----------------------------------------------------------------------------------------------------------
def test_goodput_of_requests_that_began_and_ended_in_the_window():
    # 100 ended. TTFT: 90 surely in time, 6 perhaps (1..2.5 s), 4 late. TPOT: 95 in time, 5 late, others than those.
    window = served(
        {"n": 85, "ttft": 0.1},
        {"n": 5, "ttft": 0.1, "tpot": 0.09},
        {"n": 6, "ttft": 2.2},
        {"n": 4, "ttft": 3.0},
    )
    # at least 95 + 90 - 100 = 85 met both; at most the smaller of 95 and 96
    assert value(window, "goodput_low_ratio") == pytest.approx(0.85)
    assert value(window, "goodput_high_ratio") == pytest.approx(0.95)


def test_goodput_counts_refused_requests_against_it():
    server = Server()
    server.page()
    server.serve(80)
    server.count("llm_requests_rejected_total", 20, reason="max_num_queued_reqs")
    server.answer(15, "5xx")  # the other five were refused after a 200: the larger count holds
    for _ in range(5):
        server.page()
    window = server.window()
    assert value(window, "goodput_low_ratio") == pytest.approx(0.8)
    assert value(window, "goodput_high_ratio") == pytest.approx(0.8)


def test_goodput_allows_for_requests_in_flight_at_both_ends():
    server = Server()
    server.first(4)
    server.gauges(running=4)
    server.page()
    server.first(38)
    server.finish(40)
    server.gauges(running=2)
    for _ in range(5):
        server.page()
    # ended 40, first tokens 38 in time, 4 ran before, 2 are inside: lag = 38 - 40 + 4 = 2
    # low (40 + (38 - 2) - 40) / (40 + 2); high min(40, 40, 38 + 4) / 40
    window = server.window()
    assert value(window, "goodput_low_ratio") == pytest.approx(36 / 42)
    assert value(window, "goodput_high_ratio") == 1.0


def test_goodput_is_withheld_while_too_many_are_in_flight():
    window = served({"n": 50}, gauges={"running": 8, "waiting": 3})  # 11 of 50
    found = read(window, "goodput_low_ratio")
    assert found.gap is not None
    assert found.gap.kind is GapKind.CENSORED
    assert value(served({"n": 50}, gauges={"running": 8, "waiting": 2}), "goodput_low_ratio") is not None  # 20 %


def test_goodput_is_withheld_when_the_api_process_stalled():
    server = Server()
    server.page()
    server.serve(50)
    server.page(took=1.0)  # half of the threshold of 2 s
    server.page()
    found = read(server.window(), "goodput_high_ratio")
    assert found.gap is not None
    assert found.gap.kind is GapKind.CENSORED


@pytest.mark.parametrize(
    "family",
    [
        "llm_request_ttft_seconds",
        "llm_request_tpot_seconds",
        "llm_requests_running",
        "llm_requests_waiting",
    ],
)
def test_goodput_is_a_gap_without_its_families(family):
    for signal in ("goodput_low_ratio", "goodput_high_ratio"):
        assert read(without(served({"n": 50}), family), signal).gap is not None


# -- refusals ---------------------------------------------------------------------------------------------------------
def refused() -> Window:
    server = Server()
    server.page()
    server.serve(60)
    server.answer(30, "4xx")
    server.answer(10, "5xx")
    server.count("llm_requests_rejected_total", 20, reason="max_num_queued_reqs")
    for _ in range(5):
        server.page()
    return server.window()


def test_shares_of_http_answers_and_of_refused_requests():
    window = refused()
    assert value(window, "error_ratio") == pytest.approx(0.1)  # 10 of 100
    assert value(window, "client_error_ratio") == pytest.approx(0.3)
    assert value(window, "server_errors") == 10
    assert value(window, "rejected_requests") == 20
    assert value(window, "rejection_ratio") == pytest.approx(0.25)  # 20 of 60 + 20


def test_http_answers_that_no_page_counts_are_a_gap_once_requests_ended():
    window = without(refused(), "llm_http_requests_total")
    for signal in ("error_ratio", "client_error_ratio", "server_errors"):
        assert read(window, signal).gap is not None, signal


def test_http_series_are_absent_before_the_first_answer_and_that_is_0():
    window = run(6, lambda s, _: s.gauges())
    assert not any(family_of(name).name == "llm_http_requests_total" for name in window.names() if family_of(name))
    assert value(window, "server_errors") == 0.0


def test_old_engines_do_not_count_refusals():
    window = without(refused(), "llm_requests_rejected_total")
    assert read(window, "rejected_requests").gap is not None
    assert read(window, "rejection_ratio").gap is not None
    assert window.start == START
