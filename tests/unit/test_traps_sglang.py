"""Each trap of SGLang's pages with a small page of its own: what would be misread, and what it must become."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.page_text import gap, read, values

SHARED = Path(os.environ.get("LLMVITALS_SHARED", Path(__file__).parents[3] / "shared"))

FRONT = 'model_name="m"'
RANK = 'engine_type="unified",model_name="m",moe_ep_rank="0",pp_rank="0",tp_rank="0"'


def family(name: str, kind: str, *samples: tuple[str, float]) -> str:
    lines = [f"# TYPE sglang:{name} {kind}", *(f"sglang:{name}{{{labels}}} {value}" for labels, value in samples)]
    return "\n".join(lines) + "\n"


def histogram(name: str, labels: str, *, edge: str, below: float, count: float, total: float) -> str:
    return (
        f"# TYPE sglang:{name} histogram\n"
        f"sglang:{name}_sum{{{labels}}} {total}\n"
        f'sglang:{name}_bucket{{{labels},le="{edge}"}} {below}\n'
        f'sglang:{name}_bucket{{{labels},le="+Inf"}} {count}\n'
        f"sglang:{name}_count{{{labels}}} {count}\n"
    )


def ended(count: float = 3, prompt: float = 300, made: float = 90, labels: str = FRONT) -> str:
    """What the front end counts of requests that have ended, in every release."""
    return (
        family("prompt_tokens_total", "counter", (labels, prompt))
        + family("generation_tokens_total", "counter", (labels, made))
        + family("num_requests_total", "counter", (labels, count))
        + histogram("e2e_request_latency_seconds", labels, edge="1", below=count, count=count, total=count / 2)
    )


def gauges(running: float = 2, waiting: float = 0, labels: str = RANK) -> str:
    return family("num_running_reqs", "gauge", (labels, running)) + family("num_queue_reqs", "gauge", (labels, waiting))


def release_0_5_23(labels: str = RANK) -> str:
    """Names that place a page among the newest releases."""
    names = ("max_total_num_tokens", "page_size", "num_pages", "context_len", "spec_cap_length", "full_token_usage")
    page = "".join(family(name, "gauge", (labels, 16)) for name in names)
    return page + family("scheduler_idle_seconds_total", "counter", (labels, 5))


def test_t8_names_whose_colon_was_escaped_are_read_as_well() -> None:
    page = (ended() + gauges(4, 1)).replace("sglang:", "sglang_")
    snapshot = read(page)
    assert values(snapshot, "llm_requests_running") == [4.0]
    assert values(snapshot, "llm_prompt_tokens_total") == [300.0]


def test_t10_gauges_that_are_called_total_are_gauges() -> None:
    page = (
        gauges()
        + family("lora_pool_slots_total", "gauge", (RANK, 4))
        + family("lora_pool_slots_used", "gauge", (RANK, 3))
    )
    snapshot = read(page + family("total_retracted_reqs", "gauge", (RANK, 17)))
    assert values(snapshot, "llm_lora_slots") == [4.0]
    assert values(snapshot, "llm_lora_running_adapters") == [3.0]
    assert values(snapshot, "llm_preemptions_total") == [17.0]


def test_t20_the_page_says_how_old_its_gauges_may_be() -> None:
    snapshot = read(ended() + gauges())
    assert values(snapshot, "llm_target_report_age_seconds") == [30.0]


def test_t20_the_last_prefill_s_hit_rate_is_not_taken_for_a_count() -> None:
    snapshot = read(ended() + gauges() + family("cache_hit_rate", "gauge", (RANK, 0.4)))
    assert values(snapshot, "llm_prefix_cache_reported_hit_ratio") == [0.4]
    assert values(snapshot, "llm_prefix_cache_hit_tokens_total") == [0.0]


def test_t21_tokens_are_taken_as_they_are_made_where_the_page_has_them() -> None:
    live = family(
        "realtime_tokens_total",
        "counter",
        (f'mode="prefill_compute",{RANK}', 500),
        (f'mode="prefill_cache",{RANK}', 300),
        (f'mode="decode",{RANK}', 140),
    )
    snapshot = read(ended(made=90) + gauges() + live)
    assert values(snapshot, "llm_generation_tokens_total") == [140.0]
    assert values(snapshot, "llm_prefix_cache_query_tokens_total") == [800.0]
    assert values(snapshot, "llm_prefix_cache_hit_tokens_total") == [300.0]
    assert values(read(ended(made=90) + gauges()), "llm_generation_tokens_total") == [90.0]


def test_t21_a_rank_that_has_made_nothing_yet_does_not_get_the_whole_server_s_tokens() -> None:
    second = RANK.replace('tp_rank="0"', 'tp_rank="1"') + ',dp_rank="1"'
    live = family("realtime_tokens_total", "counter", (f'mode="decode",{second}', 140))
    snapshot = read(ended(made=90) + gauges() + live)
    assert values(snapshot, "llm_generation_tokens_total") == [140.0]


def test_t21_the_newest_counter_leaves_out_what_a_retraction_makes_compute_again() -> None:
    modes = (("input", 500), ("device_hit", 200), ("host_hit", 90), ("storage_hit", 10))
    effective = family("prefill_effective_tokens_total", "counter", *((f'mode="{m}",{RANK}', v) for m, v in modes))
    live = family("realtime_tokens_total", "counter", (f'mode="prefill_compute",{RANK}', 900))
    snapshot = read(ended() + gauges() + live + effective)
    assert values(snapshot, "llm_prefix_cache_query_tokens_total") == [800.0]
    assert values(snapshot, "llm_prefix_cache_hit_tokens_total") == [300.0]


def test_t21_before_there_were_such_counters_ended_requests_tell_the_hit_ratio() -> None:
    cached = family("cached_tokens_total", "counter", (FRONT, 120))
    snapshot = read(ended(prompt=300) + gauges() + cached)
    assert values(snapshot, "llm_prefix_cache_query_tokens_total") == [300.0]
    assert values(snapshot, "llm_prefix_cache_hit_tokens_total") == [120.0]


def test_t22_and_t26_gaps_between_tokens_keep_their_family_when_their_name_changes() -> None:
    new = read(
        ended() + gauges() + histogram("inter_token_latency_seconds", FRONT, edge="0.02", below=7, count=9, total=0.3)
    )
    assert values(new, "llm_request_inter_token_seconds_count") == [9.0]
    before = gauges(labels=FRONT)  # an engine_type is told from 0.4.4 on
    old = read(before + histogram("time_per_output_token_seconds", FRONT, edge="0.05", below=7, count=9, total=0.3))
    assert values(old, "llm_request_inter_token_seconds_sum") == [0.3]
    assert not values(old, "llm_request_tpot_seconds_count")
    newest = histogram(
        "request_time_per_output_token_seconds",
        f'{FRONT},is_streaming="true"',
        edge="0.02",
        below=1,
        count=3,
        total=0.1,
    )
    assert values(read(ended() + gauges() + newest), "llm_request_tpot_seconds_count") == [3.0]


def test_t23_a_prefill_server_has_no_first_tokens_and_says_so() -> None:
    prefill = RANK.replace("unified", "prefill")
    snapshot = read(ended() + gauges(labels=prefill) + release_0_5_23(prefill))
    kind, reason = gap(snapshot, "llm_request_ttft_seconds")
    assert (kind, "only prefills" in reason) == ("unsupported", True)
    assert gap(snapshot, "llm_request_inter_token_seconds")[0] == "unsupported"
    unified = read(ended() + gauges() + release_0_5_23())
    assert gap(unified, "llm_request_ttft_seconds")[0] == "missing"


def test_t24_streams_and_whole_answers_are_added_up() -> None:
    page = gauges()
    for streams, count in (("true", 4), ("false", 6)):
        labels = f'{FRONT},is_streaming="{streams}"'
        page += histogram("time_to_first_token_seconds", labels, edge="0.1", below=count - 1, count=count, total=count)
        page += ended(count=count, prompt=100 * count, labels=labels)
    snapshot = read(page)
    assert values(snapshot, "llm_request_ttft_seconds_count") == [10.0]
    assert values(snapshot, "llm_request_ttft_seconds_bucket", le="0.1") == [8.0]
    assert values(snapshot, "llm_requests_finished_total") == [10.0]
    assert values(snapshot, "llm_prompt_tokens_total") == [1000.0]


def test_t24_labels_of_the_operator_s_own_are_added_up() -> None:
    page = gauges() + family("num_requests_total", "counter", (f'{FRONT},team="a"', 4), (f'{FRONT},team="b"', 5))
    assert values(read(page), "llm_requests_finished_total") == [9.0]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_t24_tensor_parallel_ranks_repeat_each_other_and_are_not_added(order: tuple[int, int]) -> None:
    ranks = [RANK.replace('tp_rank="0"', f'tp_rank="{i}"') for i in order]
    page = ended() + family("num_running_reqs", "gauge", *((r, 7 - i) for i, r in zip(order, ranks, strict=True)))
    page += family("num_queue_reqs", "gauge", *((r, 5 - i) for i, r in zip(order, ranks, strict=True)))
    page += family("num_retracted_requests_total", "counter", *((r, 3) for r in ranks))
    page += family("realtime_tokens_total", "counter", *((f'mode="decode",{r}', 40) for r in ranks))
    snapshot = read(page)
    assert values(snapshot, "llm_requests_running") == [7.0]
    assert values(snapshot, "llm_requests_waiting") == [5.0]
    assert values(snapshot, "llm_preemptions_total") == [3.0]
    assert values(snapshot, "llm_generation_tokens_total") == [40.0]


def test_t24_data_parallel_ranks_stay_apart_whatever_tensor_rank_they_lie_on() -> None:
    ranks = [RANK.replace('tp_rank="0"', f'tp_rank="{i}"') + f',dp_rank="{i}"' for i in (0, 1)]
    page = ended() + family("num_running_reqs", "gauge", (ranks[0], 4), (ranks[1], 9))
    page += family("num_queue_reqs", "gauge", (ranks[0], 40), (ranks[1], 0))
    snapshot = read(page)
    assert values(snapshot, "llm_requests_running", rank="1") == [9.0]
    assert values(snapshot, "llm_requests_running", rank="0") == [4.0]
    assert values(snapshot, "llm_requests_waiting") == [40.0, 0.0]


def test_t24_priorities_are_parts_of_the_total_beside_them() -> None:
    parts = [(f'{RANK},priority="{p}"', n) for p, n in (("", 9), ("0", 4), ("1", 5))]
    snapshot = read(ended() + family("num_running_reqs", "gauge", *parts) + family("num_queue_reqs", "gauge", *parts))
    assert values(snapshot, "llm_requests_running") == [9.0]
    assert values(snapshot, "llm_requests_waiting") == [9.0]


def test_t24_cached_tokens_by_where_they_lay_are_added_up() -> None:
    sources = [(f'{FRONT},cache_source="{s}"', n) for s, n in (("device", 70), ("host", 20), ("total", 10))]
    snapshot = read(ended() + gauges() + family("cached_tokens_total", "counter", *sources))
    assert values(snapshot, "llm_prompt_tokens_cached_total") == [100.0]


def test_t25_milliseconds_and_megabytes_become_base_units_edges_included() -> None:
    page = ended() + gauges() + release_0_5_23()
    page += histogram("kv_transfer_latency_ms", RANK, edge="250", below=3, count=5, total=1500)
    page += histogram("kv_transfer_total_mb", RANK, edge="100", below=5, count=5, total=64)
    snapshot = read(page)
    assert values(snapshot, "llm_kv_transfer_seconds_bucket", le="0.25") == [3.0]
    assert values(snapshot, "llm_kv_transfer_seconds_count") == [5.0]
    assert values(snapshot, "llm_kv_transfer_seconds_sum") == [1.5]
    assert values(snapshot, "llm_kv_transfer_bytes_sum") == [64 * 1024 * 1024]
    assert values(snapshot, "llm_kv_transfer_bytes_bucket", le="104857600") == [5.0]


def test_t25_the_gauge_of_that_name_is_not_read_as_a_histogram() -> None:
    snapshot = read(ended() + gauges() + family("kv_transfer_latency_ms", "gauge", (RANK, 12)))
    assert gap(snapshot, "llm_kv_transfer_seconds")[0] == "unsupported"
    assert not [s for s in snapshot.samples if s.name.startswith("llm_kv_transfer_seconds")]


def test_t25_retractions_since_the_last_report_are_not_a_total() -> None:
    snapshot = read(ended() + gauges() + family("num_retracted_reqs", "gauge", (f'pid="7",{RANK}', 5)))
    assert values(snapshot, "llm_preemptions_total") == []
    assert gap(snapshot, "llm_preemptions_total")[0] == "unsupported"


def test_t26_queue_time_under_its_short_lived_name() -> None:
    snapshot = read(ended() + gauges() + histogram("queue_time_s", RANK, edge="0.1", below=1, count=3, total=4.5))
    assert values(snapshot, "llm_request_queue_seconds_sum") == [4.5]


def test_t26_pages_of_kv_told_in_labels() -> None:
    config = '# TYPE sglang:cache_config_info gauge\nsglang:cache_config_info{num_pages="4096",page_size="16"} 1.0\n'
    snapshot = read(ended() + gauges() + config + family("full_token_usage", "gauge", (RANK, 0.5)))
    assert values(snapshot, "llm_kv_blocks", model="m") == [4096.0]
    assert values(snapshot, "llm_kv_block_tokens", model="m") == [16.0]


def test_t27_usage_is_taken_as_it_stands_and_models_with_several_pools_have_no_capacity() -> None:
    page = ended() + gauges() + release_0_5_23() + family("token_usage", "gauge", (RANK, 0.87))
    assert values(read(page), "llm_kv_capacity_tokens") == [16.0]
    hybrid = (
        page + family("swa_used_tokens", "gauge", (RANK, 5)) + family("max_total_num_tokens_swa", "gauge", (RANK, 99))
    )
    snapshot = read(hybrid)
    assert values(snapshot, "llm_kv_usage_ratio") == [0.87]
    assert not values(snapshot, "llm_kv_capacity_tokens")
    assert gap(snapshot, "llm_kv_capacity_tokens")[0] == "unsupported"


def test_t28_aborts_are_a_counter_of_their_own_and_finished_requests_have_no_reason() -> None:
    snapshot = read(ended(count=8) + gauges() + family("num_aborted_requests_total", "counter", (FRONT, 5)))
    assert values(snapshot, "llm_requests_aborted_total") == [5.0]
    (finished,) = [s for s in snapshot.samples if s.name == "llm_requests_finished_total"]
    assert finished.label("reason") == ""


def test_t28_settings_of_speculation_are_not_taken_for_its_counters() -> None:
    page = (
        ended()
        + gauges()
        + family("spec_num_draft_tokens", "gauge", (RANK, 4))
        + family("spec_num_steps", "gauge", (RANK, 3))
    )
    snapshot = read(page)
    assert gap(snapshot, "llm_spec_draft_tokens_total")[0] == "unsupported"
    assert not [series for series in snapshot.samples if series.name.startswith("llm_spec_")]


def test_t29_there_is_no_process_on_the_page_and_its_absence_has_a_reason() -> None:
    snapshot = read(ended() + gauges())
    for name in ("llm_process_start_time_seconds", "llm_process_open_fds"):
        kind, reason = gap(snapshot, name)
        assert (kind, "several processes" in reason) == ("unsupported", True)


def test_what_was_never_touched_is_not_on_the_page_and_is_0_once_the_release_is_known_to_count_it() -> None:
    before = read(gauges(running=0))
    for name in ("llm_requests_aborted_total", "llm_request_ttft_seconds", "llm_requests_finished_total"):
        assert gap(before, name)[0] == "no-traffic"
    after = read(ended() + gauges() + release_0_5_23())
    assert values(after, "llm_requests_aborted_total") == [0.0]
    assert values(after, "llm_preemptions_total") == [0.0]
    old = read(ended() + gauges(labels=FRONT))
    assert gap(old, "llm_preemptions_total")[0] == "unsupported"


def test_http_answers_are_counted_by_class_and_only_where_inference_is_served() -> None:
    rows = [
        ("/v1/completions", "200", 7),
        ("/generate", "200", 2),
        ("/v1/completions", "503", 4),
        ("/v1/completions", "400", 1),
        ("/health", "200", 99),
        ("/v1/models", "200", 50),
    ]
    page = family(
        "http_responses_total",
        "counter",
        *((f'endpoint="{e}",method="POST",status_code="{c}"', n) for e, c, n in rows),
    )
    snapshot = read(ended() + gauges() + page)
    assert sorted(values(snapshot, "llm_http_requests_total", status="2xx")) == [2.0, 7.0]
    assert values(snapshot, "llm_http_requests_total", status="5xx", handler="/v1/completions") == [4.0]
    assert values(snapshot, "llm_http_requests_total", status="4xx") == [1.0]


def test_a_full_queue_answers_503_which_is_a_refusal_and_an_error() -> None:
    rows = [("/generate", "503", 4), ("/v1/completions", "503", 2), ("/v1/completions", "500", 1)]
    page = family(
        "http_responses_total",
        "counter",
        *((f'endpoint="{e}",method="POST",status_code="{c}"', n) for e, c, n in rows),
    )
    snapshot = read(ended() + gauges() + page)
    assert values(snapshot, "llm_requests_rejected_total", model="m") == [6.0]
    assert values(snapshot, "llm_http_requests_total", status="5xx", handler="/v1/completions") == [3.0]
    assert values(snapshot, "llm_http_requests_total", status="5xx", handler="/generate") == [4.0]


def test_with_adapters_nobody_knows_who_waits_for_what() -> None:
    lora = family("lora_pool_slots_total", "gauge", (RANK, 2))
    page = ended() + gauges(waiting=4) + family("num_grammar_queue_reqs", "gauge", (RANK, 3)) + lora
    snapshot = read(page)
    assert values(snapshot, "llm_requests_waiting") == [7.0]
    assert gap(snapshot, "llm_requests_waiting_by_reason")[0] == "unsupported"


def test_a_server_that_only_decodes_computes_no_prompt() -> None:
    decode = RANK.replace("unified", "decode")
    live = family("realtime_tokens_total", "counter", (f'mode="prefill_compute",{decode}', 3))
    snapshot = read(ended(prompt=300) + gauges(labels=decode) + live)
    assert values(snapshot, "llm_prefix_cache_query_tokens_total") == [300.0]
    assert values(snapshot, "llm_prefix_cache_hit_tokens_total") == [300.0]


def test_requests_that_wait_for_a_grammar_wait_and_are_deferred() -> None:
    page = ended() + gauges(waiting=4) + family("num_grammar_queue_reqs", "gauge", (RANK, 3))
    page += family("num_decode_transfer_queue_reqs", "gauge", (RANK, 2))
    snapshot = read(page)
    assert values(snapshot, "llm_requests_waiting") == [9.0]
    assert values(snapshot, "llm_requests_waiting_by_reason", reason="deferred") == [3.0]
    assert values(snapshot, "llm_requests_waiting_by_reason", reason="capacity") == [4.0]


def test_a_real_page_under_overload() -> None:
    place = SHARED / "reference" / "pages" / "sglang" / "0.4.x-docs-overload.prom"
    if not place.exists():
        pytest.skip(f"no recorded page at {place}; LLMVITALS_SHARED locates the recordings")
    snapshot = read(place.read_text())
    assert values(snapshot, "llm_requests_running") == [162.0]
    assert values(snapshot, "llm_requests_waiting") == [2826.0]
    assert values(snapshot, "llm_kv_usage_ratio") == [0.28]
    assert values(snapshot, "llm_request_ttft_seconds_bucket", le="2.5") == [140.0]
    assert values(snapshot, "llm_requests_finished_total") == [11228.0]
    assert not [s for s in snapshot.samples if s.name == "llm_family_gap" and s.label("gap") == "missing"]


def test_a_real_page_of_a_worker_behind_another_front_end() -> None:
    place = SHARED / "reference" / "pages" / "dynamo" / "sglang-2026-01.prom"
    if not place.exists():
        pytest.skip(f"no recorded page at {place}; LLMVITALS_SHARED locates the recordings")
    snapshot = read(place.read_text())
    (info,) = [s for s in snapshot.samples if s.name == "llm_target_info"]
    assert info.label("version") == "0.5.7-0.5.8"
    assert values(snapshot, "llm_kv_capacity_tokens") == [92962.0]
    assert values(snapshot, "llm_generation_tokens_total") == [300.0]
    assert values(snapshot, "llm_request_inter_token_seconds_count") == [299.0]
    assert not [s for s in snapshot.samples if s.name == "llm_family_gap" and s.label("gap") == "missing"]


def test_t26_of_the_release_that_shows_both_names_only_the_gaps_are_taken() -> None:
    """0.4.4 shows the whole time of requests over their tokens under the old name: three requests of 2 s a token."""
    old = histogram("time_per_output_token_seconds", FRONT, edge="0.05", below=1, count=3, total=6.0)
    new = histogram("inter_token_latency_seconds", FRONT, edge="0.02", below=7, count=9, total=0.3)
    for page in (old + new, new + old):
        found = read(ended() + gauges() + page)
        assert values(found, "llm_request_inter_token_seconds_count") == [9.0]
        assert values(found, "llm_request_inter_token_seconds_sum") == [0.3]
        assert values(found, "llm_request_inter_token_seconds_bucket", le="0.05") == []
    assert values(read(ended() + gauges() + old), "llm_request_inter_token_seconds_count") == []
