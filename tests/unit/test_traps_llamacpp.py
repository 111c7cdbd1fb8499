"""Traps of llama.cpp's page: six digits, sums without counts, averages called counters, cached tokens left out."""

from __future__ import annotations

import pytest

from llmvitals.errors import UnreachableError
from llmvitals.telemetry.ingest import Ingest, RawPage
from support.page_text import gap, read, values


def page(**given: str) -> str:
    shown = {
        "requests_processing": "1",
        "tokens_predicted_total": "4000",
        "tokens_predicted_seconds_total": "100",
    } | given
    return "".join(f"llamacpp:{name} {value}\n" for name, value in shown.items())


def test_t8_names_with_an_underscore_are_read_as_well() -> None:
    assert values(read(page().replace("llamacpp:", "llamacpp_")), "llm_requests_running") == [1.0]


@pytest.mark.parametrize(
    ("printed", "made"), [("999999", 999999.0), ("1.23457e+06", 1234570.0), ("9.87654e+07", 98765400.0)]
)
def test_t40_six_digits_are_taken_while_a_step_is_small(printed: str, made: float) -> None:
    assert values(read(page(tokens_predicted_total=printed)), "llm_generation_tokens_total") == [made]


@pytest.mark.parametrize("printed", ["1e+08", "1.23457e+09"])
def test_t40_a_total_that_moves_in_steps_is_a_gap_and_no_stall(printed: str) -> None:
    snapshot = read(page(tokens_predicted_total=printed))
    assert not values(snapshot, "llm_generation_tokens_total")
    assert not values(snapshot, "llm_request_inter_token_seconds_sum"), "a sum without its count is no mean"
    for family in ("llm_generation_tokens_total", "llm_request_inter_token_seconds"):
        kind, reason = gap(snapshot, family)
        assert kind == "unsupported"
        assert "six digits" in reason


def test_t40_prompt_tokens_go_with_what_they_are_added_from() -> None:
    snapshot = read(page(prompt_tokens_total="2e+08", prompt_tokens_cached_total="500"))
    for family in ("llm_prompt_tokens_total", "llm_prefix_cache_hit_tokens_total", "llm_prompt_tokens_by_source_total"):
        assert not values(snapshot, family)
        assert "six digits" in gap(snapshot, family)[1]
    assert values(snapshot, "llm_prompt_tokens_cached_total") == [500.0]


def test_t41_prompt_tokens_leave_cached_ones_out() -> None:
    alone = read(page(prompt_tokens_total="700"))
    assert not values(alone, "llm_prompt_tokens_total")
    assert "cached" in gap(alone, "llm_prompt_tokens_total")[1]
    assert values(alone, "llm_prompt_tokens_by_source_total", source="local_compute") == [700.0]
    both = read(page(prompt_tokens_total="700", prompt_tokens_cached_total="300"))
    assert values(both, "llm_prompt_tokens_total") == [1000.0]
    assert values(both, "llm_prefix_cache_query_tokens_total") == [1000.0]
    assert values(both, "llm_prefix_cache_hit_tokens_total") == [300.0]


def test_t41_speeds_that_depend_on_who_scrapes_are_not_taken() -> None:
    slow, fast = (read(page(predicted_tokens_seconds=v, prompt_tokens_seconds=v)) for v in ("1", "5000"))
    assert slow.samples == fast.samples


def test_t41_the_kv_cache_is_shown_by_early_releases_alone() -> None:
    assert values(read(page(kv_cache_usage_ratio="0.5")), "llm_kv_usage_ratio") == [0.5]
    assert gap(read(page()), "llm_kv_usage_ratio")[0] == "unsupported"


def test_t10_a_maximum_and_an_average_that_are_called_counters_are_not_taken() -> None:
    before, after = (read(page(n_tokens_max=a, n_busy_slots_per_decode=b)) for a, b in (("10", "1"), ("9000", "3.5")))
    assert before.samples == after.samples


def test_seconds_of_output_over_tokens_are_a_mean_without_buckets() -> None:
    snapshot = read(page())
    assert values(snapshot, "llm_request_inter_token_seconds_sum") == [100.0]
    assert values(snapshot, "llm_request_inter_token_seconds_count") == [4000.0]
    assert not values(snapshot, "llm_request_inter_token_seconds_bucket")


def test_seconds_of_prompts_have_no_count_and_make_no_time_per_request() -> None:
    snapshot = read(page(prompt_seconds_total="50"))
    assert not [s for s in snapshot.samples if s.name.startswith("llm_request_prefill_seconds")]
    assert gap(snapshot, "llm_request_prefill_seconds")[0] == "unsupported"


@pytest.mark.parametrize(("status", "words"), [(400, "?model="), (501, "--metrics")])
def test_t42_a_router_and_a_server_without_metrics_say_what_to_do(status: int, words: str) -> None:
    with pytest.raises(UnreachableError) as refused:
        Ingest(instance="i", kind="llamacpp").read(RawPage(10.0, 0.01, status, b'{"error":{"message":"no"}}'))
    assert words in refused.value.remedy


def test_t42_no_label_says_the_model() -> None:
    (series,) = [s for s in read(page()).samples if s.name == "llm_requests_running"]
    assert dict(series.labels) == {"engine": "llamacpp", "instance": "i", "rank": "0"}
