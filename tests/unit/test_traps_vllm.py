"""Each trap of vLLM's pages with a small page of its own: what would be misread, and what it must become."""

from __future__ import annotations

import pytest

from support.page_text import gap, read, values

ONE = '{engine="0",model_name="m"}'
V0 = '{model_name="m"}'
CACHE = 'vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="101"} 1.0\n'


def histogram(name: str, labels: str, *, count: int, total: float) -> str:
    inner = labels.strip("{}")
    return (
        f"# TYPE {name} histogram\n"
        f'{name}_bucket{{{inner},le="0.1"}} {count - 1}\n'
        f'{name}_bucket{{{inner},le="+Inf"}} {count}\n'
        f"{name}_sum{labels} {total}\n{name}_count{labels} {count}\n"
    )


def test_t1_two_names_of_inter_token_latency_are_never_added() -> None:
    both = histogram("vllm:time_per_output_token_seconds", ONE, count=40, total=2.0)
    both += histogram("vllm:inter_token_latency_seconds", ONE, count=40, total=2.0)
    snapshot = read(both)
    assert values(snapshot, "llm_request_inter_token_seconds_count") == [40.0]
    assert values(snapshot, "llm_request_inter_token_seconds_sum") == [2.0]


def test_t1_the_old_name_alone_still_speaks() -> None:
    snapshot = read(histogram("vllm:time_per_output_token_seconds", V0, count=7, total=0.7))
    assert values(snapshot, "llm_request_inter_token_seconds_count") == [7.0]


def test_t1_the_order_of_the_two_names_does_not_matter() -> None:
    new = histogram("vllm:inter_token_latency_seconds", ONE, count=41, total=2.5)
    old = histogram("vllm:time_per_output_token_seconds", ONE, count=40, total=2.0)
    for page in (new + old, old + new):
        assert values(read(page), "llm_request_inter_token_seconds_sum") == [2.5]


def test_t1_per_request_time_is_another_family() -> None:
    page = histogram("vllm:inter_token_latency_seconds", ONE, count=40, total=2.0)
    page += histogram("vllm:request_time_per_output_token_seconds", ONE, count=4, total=0.3)
    snapshot = read(page)
    assert values(snapshot, "llm_request_tpot_seconds_sum") == [0.3]
    assert values(snapshot, "llm_request_inter_token_seconds_sum") == [2.0]


@pytest.mark.parametrize(
    ("source", "family"),
    [
        ("vllm:kv_cache_usage_perc", "llm_kv_usage_ratio"),
        ("vllm:gpu_cache_usage_perc", "llm_kv_usage_ratio"),
        ("vllm:cpu_cache_usage_perc", "llm_kv_cpu_usage_ratio"),
        ("vllm:kv_offload_cpu_cache_usage_perc", "llm_kv_offload_usage_ratio"),
    ],
)
def test_t2_perc_is_a_ratio_and_is_not_scaled(source: str, family: str) -> None:
    assert values(read(f"{source}{ONE} 0.75\n"), family) == [0.75]
    full = read(f"{source}{ONE} 75\nvllm:num_requests_running{ONE} 1\n")
    assert values(full, family) == []
    assert gap(full, family)[0] == "missing"


BLOCKS_HELP = "# HELP vllm:gpu_prefix_cache_queries_total Made: how many blocks were asked for.\n"
TOKENS_HELP = "# HELP vllm:gpu_prefix_cache_queries_total Made: how many tokens were asked for.\n"


def prefix_page(queries: int, hits: int, prompts: int, help_line: str = "") -> str:
    return (
        f"{help_line}# TYPE vllm:gpu_prefix_cache_queries_total counter\n"
        f"vllm:gpu_prefix_cache_queries_total{ONE} {queries}\n"
        f"# TYPE vllm:gpu_prefix_cache_hits_total counter\n"
        f"vllm:gpu_prefix_cache_hits_total{ONE} {hits}\n"
        f"# TYPE vllm:num_preemptions_total counter\nvllm:num_preemptions_total{ONE} 0\n"
        f"# TYPE vllm:prompt_tokens_total counter\nvllm:prompt_tokens_total{ONE} {prompts}\n" + CACHE
    )


@pytest.mark.parametrize(
    ("page", "queries", "hits"),
    [
        (prefix_page(50, 20, 0, BLOCKS_HELP), 800.0, 320.0),  # 50 and 20 blocks of 16 tokens
        (prefix_page(50, 20, 0, TOKENS_HELP), 50.0, 20.0),
        (prefix_page(50, 20, 810), 800.0, 320.0),  # no help: 50 lookups against 810 prompt tokens are blocks
        (prefix_page(800, 320, 810), 800.0, 320.0),  # no help: 800 against 810 are tokens
        (prefix_page(0, 0, 0), 0.0, 0.0),
    ],
)
def test_t3_old_prefix_counters_become_tokens(page: str, queries: float, hits: float) -> None:
    snapshot = read(page)
    assert values(snapshot, "llm_prefix_cache_query_tokens_total") == [queries]
    assert values(snapshot, "llm_prefix_cache_hit_tokens_total") == [hits]


def test_t3_a_unit_that_nothing_tells_is_a_gap_not_a_guess() -> None:
    snapshot = read(prefix_page(50, 20, 0))
    assert values(snapshot, "llm_prefix_cache_query_tokens_total") == []
    assert gap(snapshot, "llm_prefix_cache_query_tokens_total")[0] == "missing"


def test_t3_before_the_engine_label_the_unit_is_blocks() -> None:
    page = prefix_page(800, 320, 810).replace('engine="0",', "")
    assert values(read(page), "llm_prefix_cache_query_tokens_total") == [12800.0]


def test_t3_the_new_counters_win_over_the_old_ones() -> None:
    page = prefix_page(50, 20, 0, BLOCKS_HELP)
    page += f"# TYPE vllm:prefix_cache_queries_total counter\nvllm:prefix_cache_queries_total{ONE} 777\n"
    assert values(read(page), "llm_prefix_cache_query_tokens_total") == [777.0]


def test_t4_request_success_keeps_every_reason_and_is_not_called_success() -> None:
    page = "".join(
        f'vllm:request_success_total{{engine="0",finished_reason="{reason}",model_name="m"}} {n}\n'
        for reason, n in (("stop", 5), ("length", 3), ("abort", 2), ("error", 1), ("repetition", 4))
    )
    snapshot = read(page)
    found = {s.label("reason"): v for s, v in snapshot.samples.items() if s.name == "llm_requests_finished_total"}
    assert found == {"stop": 5.0, "length": 3.0, "abort": 2.0, "error": 1.0, "repetition": 4.0}


def dp_page(ranks: int, *, blocks: int, size: int | None) -> str:
    tokens = f',kv_cache_max_concurrency="4.0",kv_cache_size_tokens="{size}"' if size else ""
    return "# TYPE vllm:prefix_cache_queries_total counter\n" + "".join(
        f'vllm:prefix_cache_queries_total{{engine="{rank}",model_name="m"}} 0\n'
        f'vllm:cache_config_info{{block_size="16",engine="{rank}",num_gpu_blocks="{blocks}"{tokens}}} 1.0\n'
        for rank in range(ranks)
    )


def test_t5_blocks_summed_over_ranks_are_divided_again() -> None:
    snapshot = read(dp_page(4, blocks=400, size=None))  # 100 blocks each, one of them the null block
    assert values(snapshot, "llm_kv_blocks") == [99.0] * 4
    assert values(snapshot, "llm_kv_capacity_tokens") == [1584.0] * 4  # 99 x 16
    assert gap(snapshot, "llm_max_model_tokens")[0] == "unsupported"


def test_t5_tokens_per_rank_are_not_divided_and_lose_the_null_block() -> None:
    snapshot = read(dp_page(2, blocks=200, size=1600))
    assert values(snapshot, "llm_kv_capacity_tokens", rank="1") == [1584.0]  # 1600 - 16
    assert values(snapshot, "llm_kv_blocks", rank="1") == [99.0]
    assert values(snapshot, "llm_max_model_tokens", rank="0") == [400.0]  # 1600 / 4


def test_t5_hybrid_models_say_their_tokens_apart_from_their_blocks() -> None:
    page = dp_page(1, blocks=1000, size=4096)
    snapshot = read(page)
    assert values(snapshot, "llm_kv_capacity_tokens") == [4080.0]  # not 999 x 16
    assert values(snapshot, "llm_kv_blocks") == [999.0]


def test_t5_v0_has_no_null_block() -> None:
    page = f'vllm:num_requests_swapped{V0} 0\nvllm:cache_config_info{{block_size="16",num_gpu_blocks="100"}} 1.0\n'
    assert values(read(page), "llm_kv_capacity_tokens") == [1600.0]


def test_t5_blocks_not_yet_known_are_a_gap() -> None:
    snapshot = read(
        f'vllm:num_requests_running{ONE} 0\nvllm:cache_config_info{{block_size="16",engine="0",num_gpu_blocks="None"}} 1\n'
    )
    assert values(snapshot, "llm_kv_capacity_tokens") == []
    assert gap(snapshot, "llm_kv_capacity_tokens")[0] == "missing"


def test_t6_series_without_a_model_get_the_pages_only_one() -> None:
    page = f"vllm:generation_tokens_total{ONE} 5\n{CACHE}" + (
        'vllm:lora_requests_info{max_lora="2",running_lora_adapters="a",waiting_lora_adapters=""} 1.7e9\n'
        'vllm:admission_rejections_total{model_name="m",reason="max_num_queued_reqs"} 3\n'
        'http_requests_total{handler="/v1/completions",method="POST",status="2xx"} 8\nprocess_open_fds 9\n'
    )
    snapshot = read(page)
    assert values(snapshot, "llm_kv_block_tokens", model="m", rank="0") == [16.0]
    assert values(snapshot, "llm_lora_slots", model="m") == [2.0]
    assert values(snapshot, "llm_requests_rejected_total", model="m", rank="0") == [3.0]
    assert values(snapshot, "llm_http_requests_total", model="") == [8.0]
    assert values(snapshot, "llm_process_open_fds", model="") == [9.0]


def test_t6_with_two_models_nothing_is_guessed() -> None:
    page = "".join(f'vllm:generation_tokens_total{{engine="0",model_name="{m}"}} 5\n' for m in ("a", "b")) + CACHE
    assert values(read(page), "llm_kv_block_tokens", model="") == [16.0]


def test_t6_the_newest_adapter_set_wins() -> None:
    page = "# TYPE vllm:lora_requests_info gauge\n" + "".join(
        f'vllm:lora_requests_info{{max_lora="4",running_lora_adapters="{run}",waiting_lora_adapters="{wait}"}} {t}\n'
        for run, wait, t in (("a,b", "c,a", 1700000009), ("a", "", 1700000003), ("", "", 1700000008))
    )
    snapshot = read(page)
    assert values(snapshot, "llm_lora_running_adapters") == [2.0]
    assert values(snapshot, "llm_lora_waiting_adapters") == [1.0]  # c: a runs already


def test_t6_times_added_up_by_several_api_servers_still_order() -> None:
    page = (
        'vllm:lora_requests_info{max_lora="1",running_lora_adapters="a",waiting_lora_adapters="b"} 3.4e+09\n'
        'vllm:lora_requests_info{max_lora="1",running_lora_adapters="",waiting_lora_adapters=""} 1.7e+09\n'
    )
    assert values(read(page), "llm_lora_waiting_adapters") == [1.0]


def test_t6_no_slots_means_no_adapters_to_wait_for() -> None:
    page = (
        f"vllm:num_requests_running{V0} 1\n"
        'vllm:lora_requests_info{max_lora="0",running_lora_adapters="",waiting_lora_adapters=""} 1.7e9\n'
    )
    snapshot = read(page)
    assert values(snapshot, "llm_lora_slots") == []
    assert gap(snapshot, "llm_lora_slots")[0] == "unsupported"


def test_t7_several_api_servers_show_neither_process_nor_early_gauges() -> None:
    page = (
        "# TYPE vllm:generation_tokens counter\n"
        f"vllm:generation_tokens_total{ONE} 0\n"
        f"# TYPE vllm:prefix_cache_queries counter\nvllm:prefix_cache_queries_total{ONE} 0\n"
        f"# TYPE vllm:prompt_tokens_by_source counter\n"
        f'vllm:prompt_tokens_by_source_total{{engine="0",model_name="m",source="local_compute"}} 0\n'
    )
    snapshot = read(page)
    assert values(snapshot, "llm_requests_running") == []
    assert gap(snapshot, "llm_requests_running")[0] == "no-traffic"
    assert gap(snapshot, "llm_process_open_fds") == ("unsupported", "it shows only with a single Python API server")


def test_t8_underscores_and_colons_are_one_name() -> None:
    for spelled in ("vllm:", "vllm_"):
        page = f"# TYPE {spelled}prompt_tokens counter\n{spelled}prompt_tokens_total{ONE} 12\n"
        page += f"# TYPE vllm:num_requests_running gauge\n{spelled}num_requests_running{ONE} 3\n"
        snapshot = read(page)
        assert values(snapshot, "llm_prompt_tokens_total") == [12.0]
        assert values(snapshot, "llm_requests_running") == [3.0]


def test_t8_counters_without_total_are_the_same_counters() -> None:
    assert values(read(f"vllm:prompt_tokens{ONE} 12\n"), "llm_prompt_tokens_total") == [12.0]


RUST = (
    "# HELP vllm:prompt_tokens Made.\n# TYPE vllm:prompt_tokens counter\n"
    f"vllm:prompt_tokens_total{ONE} 12\n"
    "# TYPE vllm:prefix_cache_queries counter\n"
    f"vllm:prefix_cache_queries_total{ONE} 0\n"
    "# TYPE vllm:time_to_first_token_seconds histogram\n"
    'vllm:time_to_first_token_seconds_bucket{le="0.1",engine="0",model_name="m"} 4 # {trace_id="a b"} 0.07 1700000000.5\n'
    'vllm:time_to_first_token_seconds_bucket{le="+Inf",engine="0",model_name="m"} 5\n'
    'vllm:lora_requests_info{running_lora_adapters="a",waiting_lora_adapters="b"} 1.7e9\n'
    "# EOF\n"
)


def test_t9_the_rust_front_end_speaks_openmetrics_and_says_less() -> None:
    snapshot = read(RUST)
    assert values(snapshot, "llm_prompt_tokens_total") == [12.0]
    assert values(snapshot, "llm_request_ttft_seconds_bucket", le="0.1") == [4.0]
    assert values(snapshot, "llm_kv_capacity_tokens") == []
    assert gap(snapshot, "llm_kv_capacity_tokens")[0] == "unsupported"
    assert gap(snapshot, "llm_requests_rejected_total")[0] == "unsupported"
    assert gap(snapshot, "llm_engine_asleep")[0] == "unsupported"
    assert gap(snapshot, "llm_lora_slots")[0] == "unsupported"
    assert values(snapshot, "llm_lora_waiting_adapters") == [1.0]
    (info,) = [s for s in snapshot.samples if s.name == "llm_target_info"]
    assert "Rust" in info.label("version")


def test_t10_iteration_tokens_total_is_a_histogram() -> None:
    page = histogram("vllm:iteration_tokens_total", ONE, count=9, total=300)
    snapshot = read(page)
    assert values(snapshot, "llm_iteration_tokens_sum") == [300.0]
    assert values(snapshot, "llm_iteration_tokens_count") == [9.0]
    assert values(snapshot, "llm_iteration_tokens_bucket", le="+Inf") == [9.0]


@pytest.mark.parametrize(
    ("family", "needs"),
    [
        ("llm_kv_block_lifetime_seconds", "--kv-cache-metrics"),
        ("llm_spec_drafts_total", "speculative decoding"),
        ("llm_kv_transfer_seconds", "connector"),
        ("llm_requests_corrupted_total", "VLLM_COMPUTE_NANS_IN_LOGITS"),
        ("llm_lora_slots", "--enable-lora"),
    ],
)
def test_t11_what_a_flag_would_show_is_unsupported_as_configured(family: str, needs: str) -> None:
    page = "# TYPE vllm:prefix_cache_queries_total counter\n# TYPE vllm:admission_rejections_total counter\n"
    kind, reason = gap(read(page + f"vllm:num_requests_running{ONE} 0\n"), family)
    assert kind == "unsupported"
    assert needs in reason


def test_t12_edges_come_from_the_page() -> None:
    own = ("0.25", "1.0", "2560.0", "+Inf")
    page = "".join(f'vllm:time_to_first_token_seconds_bucket{{engine="0",le="{le}",model_name="m"}} 1\n' for le in own)
    snapshot = read(page)
    edges = {s.label("le") for s in snapshot.samples if s.name == "llm_request_ttft_seconds_bucket"}
    assert edges == {"0.25", "1", "2560", "+Inf"}


def test_t13_finished_and_live_populations_stay_apart() -> None:
    page = histogram("vllm:time_to_first_token_seconds", ONE, count=9, total=1)
    page += histogram("vllm:e2e_request_latency_seconds", ONE, count=5, total=40)
    snapshot = read(page)
    assert values(snapshot, "llm_request_ttft_seconds_count") == [9.0]
    assert values(snapshot, "llm_request_e2e_seconds_count") == [5.0]


def test_t14_waiting_is_taken_whole_and_the_reasons_beside_it() -> None:
    page = f"vllm:num_requests_waiting{ONE} 7\n" + "".join(
        f'vllm:num_requests_waiting_by_reason{{engine="0",model_name="m",reason="{r}"}} {n}\n'
        for r, n in (("capacity", 4), ("deferred", 3))
    )
    snapshot = read(page)
    assert values(snapshot, "llm_requests_waiting") == [7.0]
    assert values(snapshot, "llm_requests_waiting_by_reason", reason="deferred") == [3.0]


def test_t15_prompt_tokens_and_their_sources_are_not_added() -> None:
    page = f"vllm:prompt_tokens_total{ONE} 100\nvllm:prompt_tokens_recomputed_total{ONE} 6\n" + "".join(
        f'vllm:prompt_tokens_by_source_total{{engine="0",model_name="m",source="{s}"}} {n}\n'
        for s, n in (("local_compute", 60), ("local_cache_hit", 40))
    )
    snapshot = read(page)
    assert values(snapshot, "llm_prompt_tokens_total") == [100.0]
    assert values(snapshot, "llm_prompt_tokens_by_source_total", source="local_cache_hit") == [40.0]
    assert values(snapshot, "llm_prompt_tokens_recomputed_total") == [6.0]


def test_t16_only_handlers_that_serve_inference_count_and_methods_are_added() -> None:
    page = f"vllm:num_requests_running{ONE} 0\n" + "".join(
        f'http_requests_total{{handler="{h}",method="{m}",status="{s}"}} {n}\n'
        for h, m, s, n in (
            ("/v1/completions", "POST", "2xx", 10),
            ("/v1/completions", "GET", "4xx", 1),
            ("/v1/completions", "POST", "4xx", 2),
            ("/v1/completions", "OPTIONS", "2xx", 50),  # a browser's preflight
            ("/v1/chat/completions", "POST", "2xx", 4),
            ("/v1/models", "GET", "2xx", 99),
            ("none", "GET", "4xx", 98),
        )
    )
    found = {
        (s.label("handler"), s.label("status")): v
        for s, v in read(page).samples.items()
        if s.name == "llm_http_requests_total"
    }
    assert found == {
        ("/v1/completions", "2xx"): 10.0,
        ("/v1/completions", "4xx"): 3.0,
        ("/v1/chat/completions", "2xx"): 4.0,
    }


def test_t17_v0_and_v1_of_one_release_say_what_each_cannot() -> None:
    v0 = read(f"# TYPE vllm:num_requests_swapped gauge\nvllm:num_requests_swapped{V0} 1\n")
    v1 = read(f"# TYPE vllm:gpu_prefix_cache_queries_total counter\nvllm:gpu_prefix_cache_queries_total{ONE} 0\n")
    assert values(v0, "llm_requests_swapped") == [1.0]
    assert gap(v0, "llm_prefix_cache_query_tokens_total")[0] == "unsupported"
    assert gap(v1, "llm_requests_swapped")[0] == "unsupported"


def test_t18_created_series_are_times_and_no_data() -> None:
    page = (
        f"# TYPE vllm:prompt_tokens_total counter\nvllm:prompt_tokens_total{ONE} 5\n"
        f"# TYPE vllm:prompt_tokens_created gauge\nvllm:prompt_tokens_created{ONE} 1.79e9\n"
        f"# TYPE vllm:iteration_tokens_total_created gauge\nvllm:iteration_tokens_total_created{ONE} 1.79e9\n"
    )
    snapshot = read(page)
    assert all(value < 1e6 for series, value in snapshot.samples.items())
    assert values(snapshot, "llm_prompt_tokens_total") == [5.0]
