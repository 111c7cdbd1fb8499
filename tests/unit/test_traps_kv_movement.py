"""KV that moves: transfers between engines, slower tiers, and what companions count; each confusion with a small page."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.page_text import gap, read, values

SHARED = Path(os.environ.get("LLMVITALS_SHARED", Path(__file__).parents[3] / "shared"))

ONE = 'engine="0",model_name="m"'
RANK = 'engine_type="{role}",model_name="m",moe_ep_rank="0",pp_rank="0",tp_rank="{tp}"'
PART = 'dynamo_component="{part}",dynamo_endpoint="{end}",dynamo_namespace="dynamo",model="m"'


def vllm(name: str, value: float, more: str = "") -> str:
    return f"vllm:{name}{{{ONE}{more}}} {value}\n"


def sglang(name: str, value: float, *, role: str = "unified", tp: int = 0) -> str:
    return f"sglang:{name}{{{RANK.format(role=role, tp=tp)}}} {value}\n"


RUNS = vllm("num_requests_running", 1) + vllm("prefix_cache_queries_total", 5)


# -- vLLM ------------------------------------------------------------------------------------------------------------
def test_mooncake_s_store_look_ups_are_no_transfers() -> None:
    page = RUNS + "".join(
        vllm("mooncake_store_operation_time_seconds_count", count, f',operation="{operation}",status="ok"')
        + vllm("mooncake_store_operation_bytes_total", count * 10, f',operation="{operation}",status="ok"')
        for operation, count in (("load_get", 3), ("save_put", 4), ("lookup_exists", 500), ("save_exists", 600))
    )
    snapshot = read(page)
    assert values(snapshot, "llm_kv_transfer_seconds_count", connector="mooncake-store") == [7.0]
    assert values(snapshot, "llm_kv_offload_bytes_total", direction="load") == [30.0]
    assert values(snapshot, "llm_kv_offload_bytes_total", direction="store") == [40.0]


def test_two_tiers_of_one_engine_are_added() -> None:
    page = RUNS + vllm("kv_offload_load_bytes_total", 100) + vllm("hisparse_host_to_device_bytes_total", 11)
    page += vllm("mooncake_store_operation_bytes_total", 1000, ',operation="load_get",status="ok"')
    assert values(read(page), "llm_kv_offload_bytes_total", direction="load") == [1111.0]


def test_umbp_s_plain_counters_make_a_mean_and_no_buckets() -> None:
    page = RUNS + vllm("umbp_transfer_bytes_total", 6000) + vllm("umbp_transfer_completed_total", 3)
    snapshot = read(page + vllm("umbp_transfer_failed_total", 2))
    assert values(snapshot, "llm_kv_transfer_bytes_sum", connector="umbp") == [6000.0]
    assert values(snapshot, "llm_kv_transfer_bytes_count", connector="umbp") == [3.0]
    assert not values(snapshot, "llm_kv_transfer_bytes_bucket")
    assert values(snapshot, "llm_kv_transfer_failures_total", connector="umbp") == [2.0]


def test_t2_hisparse_s_perc_is_a_ratio_and_stands_in_for_the_offload_tier() -> None:
    host = vllm("hisparse_host_cache_usage_perc", 0.4)
    assert values(read(RUNS + host), "llm_kv_offload_usage_ratio") == [0.4]
    both = read(RUNS + host + vllm("kv_offload_cpu_cache_usage_perc", 0.7))
    assert values(both, "llm_kv_offload_usage_ratio") == [0.7]


def test_blocks_of_the_simple_tier_become_a_share_of_its_capacity() -> None:
    info = vllm("simple_kv_offload_info", 1, ',backend="cpu",capacity_blocks="400",lazy_offload="False"')
    used = vllm("simple_kv_offload_used_blocks", 100)
    assert values(read(RUNS + info + used), "llm_kv_offload_usage_ratio") == [0.25]


@pytest.mark.parametrize("capacity", ["0", "None", "50"])
def test_a_simple_tier_without_a_capacity_that_fits_is_a_gap(capacity: str) -> None:
    info = vllm("simple_kv_offload_info", 1, f',backend="cpu",capacity_blocks="{capacity}",lazy_offload="False"')
    snapshot = read(RUNS + info + vllm("simple_kv_offload_used_blocks", 100))
    assert not values(snapshot, "llm_kv_offload_usage_ratio")
    assert gap(snapshot, "llm_kv_offload_usage_ratio")[0] == "missing"


# -- SGLang ----------------------------------------------------------------------------------------------------------
def test_transfers_that_could_not_be_set_up_have_failed_too() -> None:
    page = sglang("num_running_reqs", 1) + sglang("num_queue_reqs", 0)
    page += sglang("num_transfer_failed_reqs_total", 2) + sglang("num_bootstrap_failed_reqs_total", 3)
    assert values(read(page), "llm_kv_transfer_failures_total") == [5.0]


def test_t24_what_every_rank_repeats_is_not_added() -> None:
    page = sglang("num_running_reqs", 1) + sglang("num_queue_reqs", 0)
    page += "".join(sglang("num_transfer_failed_reqs_total", 2, tp=tp) for tp in (0, 1, 2))
    page += "".join(sglang("storage_prefetch_hit_tokens_total", 640, tp=tp) for tp in (0, 1))
    snapshot = read(page)
    assert values(snapshot, "llm_kv_transfer_failures_total") == [2.0]
    assert values(snapshot, "llm_external_prefix_cache_hit_tokens_total") == [640.0]


def test_t25_a_gauge_of_the_last_transfer_is_no_histogram() -> None:
    page = sglang("num_running_reqs", 1) + sglang("num_queue_reqs", 0) + sglang("kv_transfer_latency_ms", 12)
    assert not [s for s in read(page).samples if s.name.startswith("llm_kv_transfer_seconds")]


def test_t25_milliseconds_and_mib_become_seconds_and_bytes() -> None:
    page = sglang("num_running_reqs", 1) + sglang("num_queue_reqs", 0)
    page += sglang("kv_transfer_latency_ms_sum", 1500) + sglang("kv_transfer_latency_ms_count", 3)
    page += sglang("kv_transfer_total_mb_sum", 2) + sglang("kv_transfer_total_mb_count", 3)
    snapshot = read(page)
    assert values(snapshot, "llm_kv_transfer_seconds_sum") == [pytest.approx(1.5)]
    assert values(snapshot, "llm_kv_transfer_seconds_count") == [3.0]
    assert values(snapshot, "llm_kv_transfer_bytes_sum") == [2.0 * 1024 * 1024]


# -- companions ------------------------------------------------------------------------------------------------------
def test_lmcache_s_counters_are_not_taken_since_they_grow_on_an_idle_server() -> None:
    pages = [
        RUNS + f'lmcache:num_hit_tokens_total{{worker_id="0"}} {hits}\n' + vllm("prompt_tokens_total", 5000)
        for hits in (1000, 2000, 3000)
    ]
    first, *later = (read(page).samples for page in pages)
    assert all(page == first for page in later), "nothing moves while the server is idle"


def test_the_stored_page_of_it_changes_nothing_either() -> None:
    folder = SHARED / "incidents" / "inputs"
    if not folder.exists():
        pytest.skip("no stored pages: set LLMVITALS_SHARED")
    read_all = [read((folder / f"IN17-scrape{n}.prom").read_text(encoding="utf-8")).samples for n in (1, 2, 3)]
    assert read_all[0] == read_all[1] == read_all[2]


def test_a_copy_of_the_engine_s_numbers_is_counted_once() -> None:
    copies = (
        'dynamo_component_kvstats_gpu_cache_usage_percent{dynamo_component="backend"} 0.9\n'
        'dynamo_component_gpu_cache_usage_percent{dynamo_component="backend"} 0.9\n'
        f"dynamo_component_inflight_requests{{{PART.format(part='backend', end='generate')}}} 40\n"
    )
    snapshot = read(RUNS + vllm("kv_cache_usage_perc", 0.3) + copies)
    assert values(snapshot, "llm_kv_usage_ratio") == [0.3]
    assert values(snapshot, "llm_requests_running") == [1.0]


def test_cancellations_of_a_dynamo_worker_are_requests_given_up() -> None:
    page = RUNS + "".join(
        f"dynamo_component_cancellation_total{{{PART.format(part='backend', end=end)}}} {n}\n"
        for end, n in (("generate", 6), ("load_lora", 90))
    )
    assert values(read(page), "llm_requests_aborted_total", model="m") == [6.0]


# -- roles -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("label", "role"), [("unified", "both"), ("prefill", "prefill"), ("decode", "decode")])
def test_sglang_tells_its_role(label: str, role: str) -> None:
    snapshot = read(sglang("num_running_reqs", 1, role=label) + sglang("num_queue_reqs", 0, role=label))
    assert values(snapshot, "llm_engine_role", role=role, model="m") == [1.0]
    assert len(values(snapshot, "llm_engine_role")) == 1


def test_an_engine_type_that_is_not_known_is_no_role() -> None:
    snapshot = read(sglang("num_running_reqs", 1, role="encode") + sglang("num_queue_reqs", 0, role="encode"))
    assert not values(snapshot, "llm_engine_role")


@pytest.mark.parametrize("part", ["prefill", "decode"])
def test_a_dynamo_worker_tells_vllm_s_role_by_its_component(part: str) -> None:
    page = RUNS + f"dynamo_component_requests_total{{{PART.format(part=part, end='generate')}}} 120\n"
    assert values(read(page), "llm_engine_role", role=part, model="m") == [1.0], "1, whatever the counter says"


def test_a_component_called_backend_tells_no_role() -> None:
    page = "# TYPE dynamo_component_requests_total counter\n" + RUNS
    page += f"dynamo_component_requests_total{{{PART.format(part='backend', end='generate')}}} 120\n"
    snapshot = read(page)
    assert not values(snapshot, "llm_engine_role")
    assert "neither prefill nor decode" in gap(snapshot, "llm_engine_role")[1]


def test_vllm_s_own_page_tells_none() -> None:
    assert gap(read(RUNS), "llm_engine_role")[0] == "unsupported"
