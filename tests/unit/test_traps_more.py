"""Traps that concern several sources, or that only real pages showed: one test each, named by what would be misread."""

from __future__ import annotations

import pytest

from llmvitals.series import Snapshot
from llmvitals.telemetry.ingest import Ingest, RawPage
from support.page_text import gap, values

CARD = 'gpu="0",UUID="GPU-1",modelName="H100",hostname="h"'


def read(text: str, ingest: Ingest | None = None, t: float = 10.0) -> Snapshot:
    return (ingest or Ingest(instance="i")).read(RawPage(t, 0.01, 200, text.encode()))


# -- T44: Dynamo -------------------------------------------------------------------------------------------------------
def test_t44_a_target_under_a_prefix_of_its_own_is_read_scrape_after_scrape() -> None:
    page = (
        '{p}_requests_total{{model="m",status="success"}} {n}\n'
        '{p}_model_max_num_seqs{{model="m"}} 8\n'
        "{p}_disconnected_clients 0\n"
    )
    target = Ingest(instance="i")
    for n in (3, 7):
        found = read(page.format(p="edge", n=n), target)
        assert values(found, "llm_gateway_requests_total", model="m", status="2xx") == [float(n)]
        assert found.samples == read(page.format(p="dynamo_frontend", n=n)).samples


def test_pools_of_data_parallel_ranks_stay_apart_and_none_overwrites_another() -> None:
    page = "".join(
        f'dynamo_component_{name}{{dp_rank="{rank}",dynamo_component="backend",model="m"}} {value}\n'
        for name, told in (("gpu_cache_usage_percent", (0.9, 0.1)), ("total_blocks", (1000, 1000)))
        for rank, value in enumerate(told)
    )
    found = read(page)
    assert [values(found, "llm_kv_usage_ratio", rank=rank) for rank in "01"] == [[0.9], [0.1]]
    assert [values(found, "llm_kv_blocks", rank=rank) for rank in "01"] == [[1000.0], [1000.0]]


# -- T45: the endpoint picker ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("old", ["llm_d_epp_running_requests", "inference_objective_running_requests"])
def test_t45_a_name_that_changed_with_or_without_its_prefix_counts_once(old: str) -> None:
    page = f'{old}{{model_name="m"}} 6\nllm_d_epp_request_running{{model_name="m"}} 6\n'
    assert values(read(page), "llm_gateway_calls_running") == [6.0]


def test_t45_tokens_under_two_names_of_one_prefix_count_once() -> None:
    page = "".join(
        f'llm_d_epp_{name}_tokens_{part}{{model_name="m"}} {value}\n'
        for name in ("request_input", "input", "request_output", "output")
        for part, value in (("sum", 100), ("count", 4))
    )
    assert values(read(page), "llm_gateway_tokens_total") == [200.0]
    assert values(read(page), "llm_gateway_prompt_tokens_total") == [100.0]


# -- T52, T55: dcgm-exporter -------------------------------------------------------------------------------------------
def test_t52_a_resident_kernel_is_not_the_activity_of_the_card() -> None:
    found = read(f"DCGM_FI_DEV_GPU_UTIL{{{CARD}}} 100\nDCGM_FI_DEV_SM_CLOCK{{{CARD}}} 1980\n")
    assert values(found, "llm_gpu_busy_ratio") == [1.0]
    for family in ("llm_gpu_engine_active_ratio", "llm_gpu_sm_active_ratio", "llm_gpu_tensor_active_ratio"):
        assert values(found, family) == []
        assert gap(found, family)[0] == "unsupported"


def test_t55_a_split_card_has_no_utilisation_and_no_verdict_waits_for_it() -> None:
    slices = "".join(
        f'DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{CARD},GPU_I_PROFILE="1g.5gb",GPU_I_ID="{n}"}} {v}\n'
        for n, v in ((7, 1), (9, 0))
    )
    found = read(slices)
    assert values(found, "llm_gpu_engine_active_ratio", gpu="GPU-1/7") == [1.0]
    assert values(found, "llm_gpu_engine_active_ratio", gpu="GPU-1/9") == [0.0]
    assert gap(found, "llm_gpu_busy_ratio")[0] == "unsupported"
    assert "not split into MIG" in gap(found, "llm_gpu_busy_ratio")[1]


@pytest.mark.parametrize(
    ("family", "kind", "field"),
    [
        ("llm_gpu_power_watts", "missing", "DCGM_FI_DEV_POWER_USAGE"),  # every list has it: not its name of DCGM 4.6
        ("llm_gpu_memory_reserved_bytes", "unsupported", "DCGM_FI_DEV_FB_RESERVED"),  # lists of 3.x have it not
    ],
)
def test_a_gap_names_the_field_that_lists_have(family: str, kind: str, field: str) -> None:
    told = gap(read(f"DCGM_FI_DEV_GPU_TEMP{{{CARD}}} 40\n"), family)
    assert told[0] == kind
    assert told[1].startswith(f"{field} is not among")


def test_t55_of_a_split_card_nvidia_smi_tells_no_remapped_rows() -> None:
    page = 'nvidia_smi_power_draw_watts{uuid="1"} 300\nnvidia_smi_gpu_info{uuid="1",index="0"} 1\n'
    kind, why = gap(read(page), "llm_gpu_row_remap_pending")
    assert kind == "unsupported"
    assert "not split into MIG" in why


# -- gaps whose reason is true of the very page ------------------------------------------------------------------------
def test_a_dynamo_worker_that_counts_no_cancellations_is_not_said_to_be_absent() -> None:
    page = (
        'dynamo_component_requests_total{dynamo_component="backend",dynamo_endpoint="generate"} 5\n'
        'dynamo_component_request_duration_seconds_count{dynamo_component="backend",dynamo_endpoint="generate"} 5\n'
        'dynamo_component_request_duration_seconds_sum{dynamo_component="backend",dynamo_endpoint="generate"} 2\n'
    )
    assert gap(read(page), "llm_requests_aborted_total") == (
        "unsupported",
        "it shows only with a Dynamo worker around the engine, of a release after 0.8",
    )


def test_a_router_whose_policy_counts_no_calls_in_hand_is_not_waiting_for_a_call() -> None:
    page = (
        'smg_router_request_duration_seconds_count{model="m"} 30\n'
        'smg_http_requests_total{method="POST",path="/v1/chat/completions"} 30\n'
        'smg_worker_health{worker="http://a:1"} 1\n'
    )
    assert gap(read(page), "llm_gateway_calls_running") == (
        "unsupported",
        "it shows only with the policies cache_aware and manual",
    )
    held = read(page + 'smg_worker_requests_active{worker="http://a:1"} 3\n')
    assert values(held, "llm_gateway_calls_running") == [3.0]


def test_what_a_router_could_pass_on_is_answered_and_not_well() -> None:
    """The production-stack router calls an engine's 429 and 500 a success where it could pass them on."""
    labels = 'model="m",server="http://a:1",status="success"'
    page = (
        'vllm:healthy_pods_total{server="http://a:1"} 1\n'
        f'vllm:request_latency_seconds_bucket{{{labels},le="+Inf"}} 8\n'
        f"vllm:request_latency_seconds_count{{{labels}}} 8\nvllm:request_latency_seconds_sum{{{labels}}} 2\n"
    )
    found = read(page)
    for family in ("llm_gateway_requests_total", "llm_gateway_upstream_requests_total"):
        assert values(found, family, status="answered") == [8.0]
        assert values(found, family, status="ok") == []
