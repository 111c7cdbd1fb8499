"""What the engine works on: shares, lengths at real edges, who left, wasted work, time outside the engine."""

from __future__ import annotations

import math

import pytest

from llmvitals.gaps import GapKind
from llmvitals.series import Window
from llmvitals.signals.reading import Standing
from support.made import Server, read, run, value, without


def served(*parts: dict[str, float], pages: int = 6) -> Window:
    """All parts are served in each interval."""

    def each(server: Server, _: int) -> None:
        for part in parts:
            server.serve(**part)

    return run(pages, each)


# -- shares and lengths -----------------------------------------------------------------------------------------------
def test_prompt_share_is_prefills_part_of_the_computed_tokens():
    assert value(served({"n": 1, "prompt": 300, "output": 100}), "prompt_share_ratio") == pytest.approx(0.75)
    # 200 of the 300 come from the cache: 100 of 200
    hits = served({"n": 1, "prompt": 300, "output": 100, "hits": 200})
    assert value(hits, "prompt_share_ratio") == pytest.approx(0.5)


def test_quantiles_of_prompts_are_the_lower_edges_of_their_buckets():
    window = served({"n": 8, "prompt": 150}, {"n": 2, "prompt": 1500})
    assert value(window, "prompt_p10_tokens") == 100  # in 100..200
    assert value(window, "prompt_p95_tokens") == 1000  # in 1000..2000
    assert read(window, "prompt_p95_tokens").standing is Standing.LOWER
    assert value(window, "prompt_spread") == 5.0  # 1000 over 200, the median's upper edge


def test_gaps_between_tokens_at_real_edges():
    # 98 gaps of 30 ms, two of 300 ms and more: p99 in 0.2..0.3
    window = served({"n": 1, "output": 99, "gap": 0.03}, {"n": 1, "output": 3, "gap": 0.25})
    assert value(window, "itl_median_low_seconds") == 0.025
    assert value(window, "itl_median_high_seconds") == 0.05
    assert value(window, "itl_p99_low_seconds") == 0.2
    assert value(window, "itl_spread") == pytest.approx(4.0)  # 0.2 over 0.05


def test_a_median_in_the_open_bucket_is_at_least_the_last_edge():
    found = read(served({"n": 2, "output": 50, "gap": 100.0}), "itl_median_high_seconds")
    assert (found.value, found.standing) == (80, Standing.LOWER)


def test_time_per_token_of_requests_at_real_edges():
    window = served({"n": 3, "tpot": 0.06})
    assert value(window, "tpot_median_low_seconds") == 0.05
    assert value(window, "tpot_median_high_seconds") == 0.075


def test_spread_of_output_lengths():
    window = served({"n": 98, "output": 40}, {"n": 2, "output": 1500})
    assert value(window, "generation_spread") == 20.0  # 1000 over 50
    assert value(window, "generation_p90_tokens") == 50


def test_variation_of_prompt_lengths_from_the_means_between_pages():
    # four intervals of one prompt each: 100, 300, 100, 300: mean 200, each 100 away: sqrt(10000) / 200
    server = Server()
    server.page()
    for i in range(4):
        server.serve(1, prompt=100 if i % 2 else 300)
        server.page()
    assert value(server.window(), "prompt_length_cv") == pytest.approx(0.5)


def test_means_of_several_prompts_are_scaled_back_to_single_ones():
    # means of n = 4 prompts 50 away from 200: 4 x 50^2 = 10000 as above
    server = Server()
    server.page()
    for i in range(4):
        server.serve(4, prompt=150 if i % 2 else 250)
        server.page()
    assert value(server.window(), "prompt_length_cv") == pytest.approx(0.5)


def test_two_intervals_are_no_variation():
    found = read(served({"n": 1}, pages=2), "prompt_length_cv")
    assert found.gap is not None
    assert found.gap.kind is GapKind.NO_TRAFFIC


# -- max_tokens -------------------------------------------------------------------------------------------------------
def test_requests_without_max_tokens_lie_in_the_open_bucket():
    window = served({"n": 9, "max_tokens": 200}, {"n": 1, "max_tokens": 8000})  # the last edge is 5,000
    assert value(window, "open_max_tokens_requests") == 6
    assert value(window, "open_max_tokens_ratio") == pytest.approx(0.1)


def test_a_large_max_tokens_of_their_own_is_not_open():
    assert value(served({"n": 5, "max_tokens": 5000}), "open_max_tokens_requests") == 0


# -- those who left ---------------------------------------------------------------------------------------------------
def leaving(*, left: float, refused_after_200: float = 0, refused: float = 0) -> Window:
    def each(server: Server, _: int) -> None:
        server.serve(2, output=100)
        server.first(left)  # one token, then they are gone
        server.gaps(left * 199, 0.02)
        server.answer(left + refused_after_200)
        server.answer(refused, "5xx")
        server.count("llm_requests_rejected_total", refused + refused_after_200, reason="max_num_queued_reqs")

    return run(5, each)


def test_aborts_are_2xx_answers_that_neither_finished_nor_were_refused():
    window = leaving(left=6)
    assert value(window, "aborted_requests") == 30
    assert value(window, "aborted_ratio") == pytest.approx(0.75)  # 30 of 30 + 10
    assert read(window, "aborted_requests").standing is Standing.ESTIMATE


def test_streams_refused_after_their_200_did_not_leave():
    window = leaving(left=6, refused_after_200=2, refused=3)
    assert value(window, "aborted_requests") == 30
    assert value(window, "rejected_requests") == 25


def test_wasted_decode_is_the_share_of_tokens_that_no_finished_request_holds():
    # per interval 2 x 100 delivered, 6 x 200 for nobody: 1200 of 1400
    found = read(leaving(left=6), "wasted_decode_ratio")
    assert found.value == pytest.approx(6 / 7)
    assert found.standing is Standing.UPPER


def test_nobody_left_nothing_is_wasted_however_much_is_under_way():
    def each(server: Server, _: int) -> None:
        server.serve(2)
        server.first(5)
        server.gaps(500, 0.02)

    assert value(run(5, each), "wasted_decode_ratio") == 0.0


@pytest.mark.parametrize("family", ["llm_http_requests_total", "llm_request_n_param"])
def test_without_both_layers_nobody_can_be_said_to_have_left(family):
    window = without(leaving(left=6), family)
    for signal in ("aborted_requests", "aborted_ratio", "wasted_decode_ratio"):
        assert read(window, signal).gap is not None, signal


def test_waste_needs_both_counts_of_tokens():
    for family in ("llm_generation_tokens_total", "llm_request_generation_tokens"):
        assert read(without(leaving(left=6), family), "wasted_decode_ratio").gap is not None


# -- the process in front ---------------------------------------------------------------------------------------------
def test_residual_is_what_lies_outside_queue_and_engine():
    window = served({"n": 5, "queue": 0.5, "front": 0.3, "ttft": 0.9})
    assert value(window, "frontend_residual_seconds") == pytest.approx(0.3)
    assert value(window, "residual_share_ratio") == pytest.approx(0.3 / 0.9)


def test_residual_of_the_last_third_tells_whether_it_is_still_there():
    def each(server: Server, i: int) -> None:
        server.serve(5, front=3.0 if i <= 3 else 0.1)

    window = run(9, each)
    assert value(window, "frontend_residual_seconds") == pytest.approx((3 * 3.0 + 6 * 0.1) / 9)
    assert value(window, "frontend_residual_late_seconds") == pytest.approx(0.1)


def test_residual_without_finished_requests_is_a_gap():
    window = run(6, lambda s, _: s.first(3))
    for signal in ("frontend_residual_seconds", "frontend_residual_late_seconds", "residual_share_ratio"):
        found = read(window, signal)
        assert found.gap is not None
        assert found.gap.kind is GapKind.NO_TRAFFIC


def test_the_pages_answer_time_is_its_median():
    server = Server()
    for took in (0.02, 0.03, 4.5, 0.03, 0.05):
        server.page(took=took)
    assert value(server.window(), "page_answer_seconds") == 0.03


def test_cores_of_the_api_process():
    def each(server: Server, _: int) -> None:
        server.count("llm_process_cpu_seconds_total", 4.25)  # beside the 0.25 of every page: 4.5 in 5 s

    assert value(run(6, each), "api_cpu_cores") == pytest.approx(0.9)


def test_cores_count_from_the_restart():
    server = Server()
    for _ in range(3):
        server.count("llm_process_cpu_seconds_total", 100)
        server.page()
    server.restart()
    for _ in range(3):
        server.page()
    assert value(server.window(), "api_cpu_cores") == pytest.approx(0.05)


# -- adapters ---------------------------------------------------------------------------------------------------------
def adapters(rows: list[tuple[float, float]], *, slots: float = 1) -> Window:
    server = Server()
    for busy, waiting in rows:
        server.set("llm_lora_slots", slots)
        server.set("llm_lora_running_adapters", busy)
        server.gauges(running=2, waiting=waiting, deferred=waiting)
        server.page()
    return server.window()


def test_adapter_slots_are_short_where_all_are_taken_while_somebody_waits():
    assert value(adapters([(1, 0), (1, 3), (1, 2), (0, 1), (1, 4)]), "adapters_short_ratio") == 0.75
    assert value(adapters([(1, 2)] * 5, slots=2), "adapters_short_ratio") == 0.0


def test_without_adapters_there_is_no_shortage_and_no_0():
    found = read(served({"n": 1}), "adapters_short_ratio")
    assert found.gap is not None
    assert found.gap.series == "llm_lora_slots"


def test_adapters_do_not_need_first_tokens_to_be_counted():
    # an empty family of first tokens once made pages of unequal number meet
    window = without(adapters([(1, 0), (1, 3), (1, 2)]), "llm_request_ttft_seconds")
    assert value(window, "adapters_short_ratio") == 1.0


def test_drafts_and_transfers():
    def each(server: Server, _: int) -> None:
        server.count("llm_spec_draft_tokens_total", 100)
        server.count("llm_spec_accepted_tokens_total", 35)
        server.observe("llm_kv_transfer_seconds", 0.4, 3, connector="nixl")
        server.count("llm_kv_transfer_failures_total", 1, connector="nixl")
        server.serve(1)

    server = Server()
    each(server, 0)
    window = run(6, each, server)
    assert value(window, "draft_acceptance_ratio") == pytest.approx(0.35)
    assert value(window, "kv_transfer_mean_seconds") == pytest.approx(0.4)
    assert value(window, "kv_transfer_failures") == pytest.approx(6)
    assert math.isfinite(value(window, "iteration_tokens_mean") or 0.0)


@pytest.mark.parametrize(
    ("signal", "family"),
    [
        ("prompt_share_ratio", "llm_request_prompt_tokens"),
        ("prompt_share_ratio", "llm_request_generation_tokens"),
        ("prompt_p10_tokens", "llm_request_prompt_tokens"),
        ("prompt_p95_tokens", "llm_request_prompt_tokens"),
        ("prompt_spread", "llm_request_prompt_tokens"),
        ("prompt_length_cv", "llm_request_prompt_tokens"),
        ("itl_median_low_seconds", "llm_request_inter_token_seconds"),
        ("itl_median_high_seconds", "llm_request_inter_token_seconds"),
        ("itl_p99_low_seconds", "llm_request_inter_token_seconds"),
        ("itl_spread", "llm_request_inter_token_seconds"),
        ("tpot_median_low_seconds", "llm_request_tpot_seconds"),
        ("generation_spread", "llm_request_generation_tokens"),
        ("generation_p90_tokens", "llm_request_generation_tokens"),
        ("open_max_tokens_ratio", "llm_request_max_tokens_param"),
        ("open_max_tokens_requests", "llm_request_max_tokens_param"),
        ("frontend_residual_seconds", "llm_request_e2e_seconds"),
        ("frontend_residual_seconds", "llm_request_queue_seconds"),
        ("frontend_residual_seconds", "llm_request_inference_seconds"),
        ("frontend_residual_late_seconds", "llm_request_queue_seconds"),
        ("residual_share_ratio", "llm_request_queue_seconds"),
        ("residual_share_ratio", "llm_request_ttft_seconds"),
        ("page_answer_seconds", "llm_target_answer_seconds"),
        ("api_cpu_cores", "llm_process_cpu_seconds_total"),
    ],
)
def test_without_its_family_a_signal_is_a_gap_that_names_it(signal, family):
    found = read(without(served({"n": 3}), family), signal)
    assert found.gap is not None
    assert found.gap.series == family
