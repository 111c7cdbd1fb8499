"""Each trap of trtllm-serve's pages and documents, and of its orchestrator's page: what would be misread, what it becomes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from llmvitals.errors import PageError
from support.page_text import gap, read, values

SHARED = Path(os.environ.get("LLMVITALS_SHARED", Path(__file__).parents[3] / "shared"))

OWN = 'engine_type="trtllm",model_name="m"'
FIRST = ("request_success", "e2e_request_latency_seconds", "time_to_first_token_seconds")


def family(name: str, kind: str, *samples: tuple[str, object], prefix: str = "trtllm_") -> str:
    lines = [f"# TYPE {prefix}{name} {kind}"]
    lines += [f"{prefix}{name}{{{OWN}{',' if extra else ''}{extra}}} {value}" for extra, value in samples]
    return "\n".join(lines) + "\n"


def histogram(name: str, *, edge: str, below: float, count: float, total: float, prefix: str = "trtllm_") -> str:
    own = f"{prefix}{name}"
    return (
        f"# TYPE {own} histogram\n{own}_sum{{{OWN}}} {total}\n"
        f'{own}_bucket{{{OWN},le="{edge}"}} {below}\n{own}_bucket{{{OWN},le="+Inf"}} {count}\n{own}_count{{{OWN}}} {count}\n'
    )


def ended(count: float = 8, prefix: str = "trtllm_") -> str:
    """What every release counts of requests that have ended."""
    return (
        family("request_success_total", "counter", ('finished_reason="stop"', count), prefix=prefix)
        + histogram("e2e_request_latency_seconds", edge="1.5", below=3, count=count, total=16, prefix=prefix)
        + histogram("time_to_first_token_seconds", edge="0.25", below=6, count=count, total=1.5, prefix=prefix)
    )


TOKENS = family("prompt_tokens_total", "counter", ("", 4000)) + family("generation_tokens_total", "counter", ("", 900))


def gauge(name: str, value: object, pid: str = "7") -> str:
    return family(name, "gauge", (f'pid="{pid}"', value))


# -- T34: the path ---------------------------------------------------------------------------------------------------
ITERATION = {
    "iter": 5,
    "iterLatencyMS": 12.5,
    "numActiveRequests": 3,
    "gpuMemUsage": 1,
    "kvCacheStats": {"maxNumBlocks": 9},
}


@pytest.mark.parametrize(
    ("body", "thing"),
    [
        (json.dumps([ITERATION]), "list of its latest iterations"),
        (json.dumps([ITERATION] * 400, indent=2), "list of its latest iterations"),
        ("  []\n", "empty JSON list"),
        (json.dumps([{"request_id": 1, "perf_metrics": {"timing_metrics": {"arrival_time": 1.0}}}]), "single requests"),
        (json.dumps([{"ctx_server": "a", "ctx_perf_metrics": None}]), "single requests"),
    ],
)
def test_t34_the_json_of_metrics_is_explained_with_path_and_settings(body: str, thing: str) -> None:
    with pytest.raises(PageError) as raised:
        read(body)
    assert thing in raised.value.thing
    assert raised.value.place == "i"
    for wanted in ("/prometheus/metrics", "return_perf_metrics: true", "enable_iter_perf_stats: true"):
        assert wanted in raised.value.remedy


@pytest.mark.parametrize("body", ['{"detail": "Not Found"}', '[{"a": 1}]', "[[]"])
def test_t34_other_json_is_not_blamed_on_it(body: str) -> None:
    with pytest.raises(PageError) as raised:
        read(body)
    assert "trtllm" not in raised.value.thing


def test_t34_without_iteration_statistics_the_gauges_are_a_setting_away() -> None:
    snapshot = read(ended() + TOKENS)
    for name in ("llm_requests_running", "llm_requests_waiting", "llm_kv_usage_ratio", "llm_kv_capacity_tokens"):
        kind, reason = gap(snapshot, name)
        assert (kind, "enable_iter_perf_stats: true" in reason) == ("unsupported", True)


# -- T35: names by release -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("prefix", ["", "trtllm:", "trtllm_"])
def test_t35_the_same_families_under_three_prefixes(prefix: str) -> None:
    snapshot = read(ended(prefix=prefix))
    assert values(snapshot, "llm_requests_finished_total", reason="stop", model="m") == [8.0]
    assert values(snapshot, "llm_request_e2e_seconds_sum") == [16.0]
    assert values(snapshot, "llm_request_ttft_seconds_bucket", le="0.25") == [6.0]
    (info,) = [s for s in snapshot.samples if s.name == "llm_target_info"]
    assert info.label("engine") == "trtllm"


def test_t35_names_without_a_prefix_are_its_own_only_with_its_labels() -> None:
    page = ended(prefix="").replace(f"{OWN},", 'app="other",').replace(f"{{{OWN}}}", '{app="other"}')
    with pytest.raises(PageError, match="no engine"):
        read(page)


def test_t35_a_neighbour_s_series_of_the_same_bare_name_are_not_taken() -> None:
    other = '# TYPE time_to_first_token_seconds histogram\ntime_to_first_token_seconds_count{app="other"} 99\n'
    assert values(read(ended() + other), "llm_request_ttft_seconds_count") == [8.0]


def test_t35_names_of_a_step_in_between_stand_in_and_never_add() -> None:
    step = gauge("num_active_requests", 6) + gauge("server_queue_length", 2)
    assert values(read(ended() + step), "llm_requests_running") == [6.0]
    assert values(read(ended() + step), "llm_requests_waiting") == [2.0]
    both = step + gauge("num_requests_running", 5) + gauge("num_requests_waiting", 1)
    assert values(read(ended() + both), "llm_requests_running") == [5.0]
    assert values(read(ended() + both), "llm_requests_waiting") == [1.0]


def test_t35_cached_tokens_of_single_requests_are_no_total() -> None:
    page = ended() + TOKENS + histogram("prompt_cached_tokens", edge="64", below=5, count=8, total=700)
    assert not values(read(page), "llm_prompt_tokens_cached_total")


def test_t35_older_pages_lack_what_came_later_and_nothing_of_it_is_missing() -> None:
    snapshot = read(ended(prefix=""))
    kinds = {s.label("family"): s.label("gap") for s in snapshot.samples if s.name == "llm_family_gap"}
    assert "missing" not in kinds.values()
    for name in ("llm_prompt_tokens_total", "llm_prefix_cache_hit_tokens_total", "llm_requests_rejected_total"):
        assert kinds[name] == "unsupported"


# -- T36: when and what is counted -----------------------------------------------------------------------------------
def test_t36_first_tokens_are_counted_at_the_end_and_the_page_says_so() -> None:
    assert values(read(ended()), "llm_target_first_token_at_end") == [1.0]


def test_t36_time_per_token_is_a_mean_per_request_and_no_gap_between_tokens() -> None:
    page = ended() + histogram("time_per_output_token_seconds", edge="0.025", below=5, count=7, total=0.14)
    snapshot = read(page)
    assert values(snapshot, "llm_request_tpot_seconds_count") == [7.0]
    assert not values(snapshot, "llm_request_inter_token_seconds_count")
    assert gap(snapshot, "llm_request_inter_token_seconds")[0] == "unsupported"


def test_t36_reuse_is_taken_in_tokens_never_in_blocks() -> None:
    blocks = family("kv_cache_reused_blocks_total", "counter", ("", 55)) + family(
        "kv_cache_missed_blocks_total", "counter", ("", 77)
    )
    cached = family("prompt_cached_tokens_total", "counter", ("", 1600))
    snapshot = read(ended() + TOKENS + blocks + cached)
    assert values(snapshot, "llm_prefix_cache_query_tokens_total") == [4000.0]
    assert values(snapshot, "llm_prefix_cache_hit_tokens_total") == [1600.0]
    assert not {55.0, 77.0, 132.0} & set(snapshot.samples.values())
    without = read(ended() + TOKENS + blocks)
    assert gap(without, "llm_prefix_cache_hit_tokens_total")[0] == "no-traffic"
    assert gap(without, "llm_prompt_tokens_cached_total")[0] == "no-traffic"


def test_t36_two_counts_of_speculation_are_not_added() -> None:
    page = (
        family("spec_decode_num_draft_tokens_total", "counter", ("", 500))
        + family("spec_decode_num_accepted_tokens_total", "counter", ("", 300))
        + family("spec_decode_drafted_tokens_total", "counter", ('token_position="0"', 90), ('token_position="1"', 80))
        + family("spec_decode_accepted_tokens_total", "counter", ('token_position="0"', 70), ('token_position="1"', 40))
    )
    snapshot = read(ended() + page)
    assert values(snapshot, "llm_spec_draft_tokens_total") == [500.0]
    assert values(snapshot, "llm_spec_accepted_tokens_total") == [300.0]
    assert values(snapshot, "llm_spec_accepted_tokens_by_position_total", position="1") == [40.0]


def test_t36_errors_by_code_are_refusals_or_failures_and_never_a_share_of_answers() -> None:
    codes = [("400", 9), ("422", 11), ("429", 3), ("500", 2), ("503", 4)]
    page = family("request_error_total", "counter", *((f'http_code="{code}"', n) for code, n in codes))
    snapshot = read(ended() + TOKENS + page)
    assert values(snapshot, "llm_requests_rejected_total") == [3.0, 4.0]
    assert values(snapshot, "llm_requests_finished_total", reason="error") == [2.0]
    assert gap(snapshot, "llm_http_requests_total")[0] == "unsupported"
    assert not {9.0, 11.0} & set(snapshot.samples.values())
    assert values(read(ended() + TOKENS), "llm_requests_rejected_total") == [0.0]


# -- T10, T37: gauges ------------------------------------------------------------------------------------------------
def test_t10_prompt_tokens_of_one_iteration_are_no_counter_despite_their_name() -> None:
    assert not values(read(ended() + gauge("total_context_tokens", 640)), "llm_prompt_tokens_total")


def test_t37_gauges_of_several_processes_are_not_added_and_their_pid_is_no_label() -> None:
    samples = (('pid="7"', 12), ('pid="9"', 12))
    snapshot = read(ended() + family("num_requests_running", "gauge", *samples))
    assert values(snapshot, "llm_requests_running") == [12.0]
    (series,) = [s for s in snapshot.samples if s.name == "llm_requests_running"]
    assert series.label("pid") == ""


def test_t37_a_frozen_gauge_of_an_idle_engine_is_told_as_old() -> None:
    assert values(read(ended() + gauge("num_requests_running", 3)), "llm_target_report_age_seconds")[0] >= 3600.0
    assert not values(read(ended()), "llm_target_report_age_seconds")


def test_t37_paused_requests_of_one_iteration_are_no_preemptions() -> None:
    snapshot = read(ended() + gauge("num_paused_requests", 3))
    assert gap(snapshot, "llm_preemptions_total")[0] == "unsupported"


def test_t2_shares_are_taken_as_they_stand_and_percent_is_refused() -> None:
    assert values(read(ended() + gauge("kv_cache_utilization", 0.42)), "llm_kv_usage_ratio") == [0.42]
    assert gap(read(ended() + gauge("kv_cache_utilization", 42)), "llm_kv_usage_ratio")[0] == "missing"


def test_capacity_is_blocks_times_their_size() -> None:
    snapshot = read(ended() + gauge("kv_cache_max_blocks", 1000) + gauge("kv_cache_tokens_per_block", 32))
    assert values(snapshot, "llm_kv_capacity_tokens") == [32000.0]
    assert values(snapshot, "llm_kv_blocks") == [1000.0]


@pytest.mark.parametrize(("label", "value"), [("True", 1.0), ("False", 0.0)])
def test_settings_are_read_from_labels(label: str, value: float) -> None:
    page = family(
        "kv_cache_config_info", "gauge", (f'enable_block_reuse="{label}",free_gpu_memory_fraction="0.9"', 1.0)
    )
    page += family("model_config_info", "gauge", ('max_model_len="8192"', 1.0))
    snapshot = read(ended() + page)
    assert values(snapshot, "llm_prefix_caching_enabled") == [value]
    assert values(snapshot, "llm_max_model_tokens") == [8192.0]
    assert not values(snapshot, "llm_gpu_memory_utilization_setting")


def test_a_setting_that_is_no_number_is_not_made_one() -> None:
    page = ended() + family("model_config_info", "gauge", ('max_model_len="None"', 1.0))
    assert not values(read(page), "llm_max_model_tokens")


def test_a_model_that_nobody_named_is_no_model() -> None:
    (series,) = [
        s for s in read(ended().replace('"m"', '"undefined"')).samples if s.name == "llm_requests_finished_total"
    ]
    assert series.label("model") == ""


# -- T38: the orchestrator -------------------------------------------------------------------------------------------
def plain(name: str, value: object) -> str:
    return f"# TYPE {name}_total counter\n{name}_total {value}\n"


def latency(name: str, *, edge: str, below: float, count: float, total: float) -> str:
    return (
        f'# TYPE {name} histogram\n{name}_sum {total}\n{name}_bucket{{le="{edge}"}} {below}\n'
        f'{name}_bucket{{le="+Inf"}} {count}\n{name}_count {count}\n'
    )


ORCHESTRATOR = (
    plain("total_requests", 40)
    + plain("total_responses", 36)
    + plain("ctx_total_requests", 39)
    + plain("ctx_completed_requests", 38)
    + plain("ctx_error_requests", 2)
    + plain("ctx_retry_requests", 5)
    + plain("gen_completed_requests", 36)
    + plain("gen_error_requests", 0)
    + plain("gen_retry_requests", 1)
)


def test_t38_the_orchestrator_is_a_gateway_and_what_ended_includes_what_failed() -> None:
    snapshot = read(ORCHESTRATOR)
    assert values(snapshot, "llm_gateway_calls_total", gateway="trtllm-disagg") == [40.0]
    assert values(snapshot, "llm_gateway_upstream_requests_total", upstream="ctx", status="2xx") == [36.0]
    assert values(snapshot, "llm_gateway_upstream_requests_total", upstream="ctx", status="error") == [2.0]
    assert values(snapshot, "llm_gateway_retries_total") == [6.0]
    assert not [s for s in snapshot.samples if s.name.startswith(("llm_request_", "llm_requests_"))]


def test_t38_what_it_calls_first_token_leaves_the_prefill_out_and_per_token_is_the_gap() -> None:
    page = latency("gen_first_token_latency_seconds", edge="0.1", below=30, count=36, total=2)
    page += latency("gen_per_token_latency_seconds", edge="0.02", below=900, count=1000, total=19)
    page += latency("ctx_complete_latency_seconds", edge="0.5", below=30, count=38, total=15)
    snapshot = read(ORCHESTRATOR + page)
    assert gap(snapshot, "llm_gateway_ttft_seconds")[0] == "unsupported"
    assert not values(snapshot, "llm_gateway_ttft_seconds_count")
    assert values(snapshot, "llm_gateway_tpot_seconds_bucket", le="0.02") == [900.0]
    assert values(snapshot, "llm_gateway_upstream_seconds_sum", upstream="ctx") == [15.0]


# -- a real page -----------------------------------------------------------------------------------------------------
def test_a_real_page_of_a_worker_behind_dynamo() -> None:
    place = SHARED / "reference" / "pages" / "dynamo" / "trtllm-2026-01.prom"
    if not place.exists():
        pytest.skip(f"no recorded page at {place}; LLMVITALS_SHARED locates the recordings")
    snapshot = read(place.read_text())
    assert values(snapshot, "llm_requests_finished_total", reason="length") == [2.0]
    assert values(snapshot, "llm_request_ttft_seconds_bucket", le="0.04") == [1.0]
    assert values(snapshot, "llm_request_queue_seconds_sum") == [0.01181500032544136]
    assert {s.label("engine") for s in snapshot.samples if s.name.startswith("llm_request")} == {"trtllm"}
    assert not [s for s in snapshot.samples if s.name == "llm_family_gap" and s.label("gap") == "missing"]
