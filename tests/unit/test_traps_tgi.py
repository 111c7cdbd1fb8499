"""Each trap of TGI's pages with a small page of its own: what would be misread, and what it must become."""

from __future__ import annotations

import pytest

from support.page_text import gap, read, values


def histogram(name: str, *, edge: str, below: float, count: float, total: float, labels: str = "") -> str:
    head, own = (labels + ",", "{" + labels + "}") if labels else ("", "")
    return (
        f"# TYPE {name} histogram\n"
        f'{name}_bucket{{{head}le="{edge}"}} {below}\n{name}_bucket{{{head}le="+Inf"}} {count}\n'
        f"{name}_sum{own} {total}\n{name}_count{own} {count}\n"
    )


BUSY = "# TYPE tgi_queue_size gauge\ntgi_queue_size 3\n# TYPE tgi_batch_current_size gauge\ntgi_batch_current_size 5\n"
ANSWERED = "# TYPE tgi_request_success counter\ntgi_request_success 40\n"
POOL = "# TYPE tgi_batch_max_total_tokens gauge\ntgi_batch_max_total_tokens 8000\n"


def reserved(tokens: object) -> str:
    return f"# TYPE tgi_batch_current_max_tokens gauge\ntgi_batch_current_max_tokens {tokens}\n"


def test_t30_a_summary_is_no_histogram_and_its_quantiles_are_no_counts() -> None:
    page = (
        "# TYPE tgi_request_skipped_tokens summary\n"
        'tgi_request_skipped_tokens{quantile="0.5"} 2\ntgi_request_skipped_tokens{quantile="0.99"} 3\n'
        "tgi_request_skipped_tokens_sum 120\ntgi_request_skipped_tokens_count 90\n"
    )
    snapshot = read(BUSY + page)
    assert values(snapshot, "llm_spec_accepted_tokens_total") == [120.0]
    assert gap(snapshot, "llm_spec_draft_tokens_total")[0] == "unsupported"
    assert not [v for v in snapshot.samples.values() if v in (2.0, 90.0)]


def test_t31_the_mean_time_per_token_has_the_prefill_inside_and_is_not_taken_for_the_time_between_tokens() -> None:
    page = histogram("tgi_request_mean_time_per_token_duration", edge="0.05", below=10, count=40, total=3)
    snapshot = read(BUSY + ANSWERED + page)
    for family in ("llm_request_tpot_seconds", "llm_request_inter_token_seconds", "llm_request_ttft_seconds"):
        assert gap(snapshot, family)[0] == "unsupported"
        assert not values(snapshot, f"{family}_count")
    assert "prefill" in gap(snapshot, "llm_request_tpot_seconds")[1]


def test_t32_requests_to_v1_count_twice_as_received_and_once_as_answered() -> None:
    page = "# TYPE tgi_request_count counter\ntgi_request_count 86\n"
    failed = '# TYPE tgi_request_failure counter\ntgi_request_failure{err="generation"} 2\n'
    snapshot = read(BUSY + ANSWERED + failed + page)
    assert sum(values(snapshot, "llm_requests_finished_total")) == 42.0
    assert 86.0 not in snapshot.samples.values()


def test_t32_the_budget_is_read_under_the_name_that_is_set() -> None:
    other = "# HELP tgi_batch_total_tokens Maximum.\n# TYPE tgi_batch_total_tokens gauge\n"
    assert values(read(BUSY + POOL + other), "llm_kv_capacity_tokens") == [8000.0]


def test_t33_detokenizing_is_no_decode_phase() -> None:
    page = histogram("tgi_batch_decode_duration", edge="0.01", below=9, count=9, total=1, labels='method="decode"')
    assert gap(read(BUSY + page), "llm_request_decode_seconds")[0] == "unsupported"


@pytest.mark.parametrize("suffix", ["", "_total"])
def test_t33_counters_have_no_total_and_are_read_with_one_as_well(suffix: str) -> None:
    page = f"# TYPE tgi_request_success{suffix} counter\ntgi_request_success{suffix} 40\n"
    (series,) = [s for s in read(BUSY + page).samples if s.name == "llm_requests_finished_total"]
    assert dict(series.labels) == {"engine": "tgi", "instance": "i", "rank": "0"}


def test_failures_are_told_apart_and_refused_input_is_no_failure_of_the_server() -> None:
    kinds = {"overloaded": 3, "validation": 50, "template": 60, "incomplete": 1, "generation": 4, "dropped": 6}
    failed = "# TYPE tgi_request_failure counter\n"
    failed += "".join(f'tgi_request_failure{{err="{kind}"}} {count}\n' for kind, count in kinds.items())
    snapshot = read(BUSY + ANSWERED + failed)
    assert values(snapshot, "llm_requests_rejected_total") == [3.0]
    assert values(snapshot, "llm_requests_aborted_total") == [6.0]
    assert values(snapshot, "llm_requests_finished_total", reason="error") == [5.0]
    assert not {50.0, 60.0} & set(snapshot.samples.values())


def test_what_never_happened_is_0_once_something_was_answered_and_unknown_before() -> None:
    assert values(read(BUSY + ANSWERED), "llm_requests_rejected_total", reason="overloaded") == [0.0]
    assert values(read(BUSY + ANSWERED), "llm_requests_aborted_total") == [0.0]
    fresh = read(POOL)
    for family in ("llm_requests_rejected_total", "llm_requests_finished_total", "llm_request_e2e_seconds"):
        assert gap(fresh, family)[0] == "no-traffic"
        assert not values(fresh, family)


def test_kv_in_use_is_what_is_reserved_as_a_share_of_the_budget() -> None:
    assert values(read(BUSY + POOL + reserved(6000)), "llm_kv_usage_ratio") == [0.75]
    older = read(BUSY + reserved(6000))
    assert gap(older, "llm_kv_usage_ratio")[0] == gap(older, "llm_kv_capacity_tokens")[0] == "unsupported"


@pytest.mark.parametrize("tokens", [8001, "NaN", -1, "+Inf"])
def test_a_reservation_that_cannot_be_is_a_gap(tokens: object) -> None:
    snapshot = read(BUSY + POOL + reserved(tokens))
    assert not values(snapshot, "llm_kv_usage_ratio")
    assert gap(snapshot, "llm_kv_usage_ratio")[0] == "missing"


def test_a_budget_of_nothing_makes_no_share() -> None:
    snapshot = read(BUSY + POOL.replace("8000", "0") + reserved(0))
    assert not values(snapshot, "llm_kv_usage_ratio")
    assert gap(snapshot, "llm_kv_usage_ratio")[0] == "missing"


def test_tokens_are_the_sums_of_lengths_and_steps_are_both_kinds_of_calls() -> None:
    page = (
        histogram("tgi_request_input_length", edge="512", below=20, count=42, total=9000)
        + histogram("tgi_request_generated_tokens", edge="64", below=30, count=40, total=4400)
        + '# TYPE tgi_batch_inference_success counter\ntgi_batch_inference_success{method="prefill"} 11\n'
        + 'tgi_batch_inference_success{method="decode"} 500\n'
        + '# TYPE tgi_batch_inference_count counter\ntgi_batch_inference_count{method="decode"} 900\n'
    )
    snapshot = read(BUSY + page)
    assert values(snapshot, "llm_prompt_tokens_total") == [9000.0]
    assert values(snapshot, "llm_generation_tokens_total") == [4400.0]
    assert values(snapshot, "llm_request_generation_tokens_bucket", le="64") == [30.0]
    assert values(snapshot, "llm_iteration_tokens_count") == [511.0]
    assert not values(snapshot, "llm_iteration_tokens_sum")
