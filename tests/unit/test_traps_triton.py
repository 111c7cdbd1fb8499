"""Each trap of Triton's pages with a small page of its own: what would be misread, and what it must become."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from llmvitals.series import Snapshot
from support.page_text import gap, read, values

SHARED = Path(os.environ.get("LLMVITALS_SHARED", Path(__file__).parents[3] / "shared"))

LLM = "tensorrt_llm"


def family(name: str, kind: str, *samples: tuple[str, object], model: str = LLM, version: str = "1") -> str:
    own = f'model="{model}",version="{version}"'
    lines = [f"# TYPE nv_{name} {kind}"]
    lines += [f"nv_{name}{{{own}{',' if extra else ''}{extra}}} {value}" for extra, value in samples]
    return "\n".join(lines) + "\n"


def counted(
    model: str = LLM, *, done: float = 20, us: float = 60e6, queued: float = 8e6, ran: float = 50e6, version: str = "1"
) -> str:
    """What Triton counts of any model."""
    return "".join(
        family(f"inference_{name}", "counter", ("", value), model=model, version=version)
        for name, value in (
            ("request_success", done),
            ("request_duration_us", us),
            ("queue_duration_us", queued),
            ("compute_infer_duration_us", ran),
            ("exec_count", done),
        )
    )


def failed(*reasons: tuple[str, float], model: str = LLM) -> str:
    return family("inference_request_failure", "counter", *((f'reason="{r}"', n) for r, n in reasons), model=model)


def pending(count: float, model: str = LLM) -> str:
    return family("inference_pending_request_count", "gauge", ("", count), model=model)


def requests(**kinds: object) -> str:
    return family("trt_llm_request_metrics", "gauge", *((f'request_type="{k}"', v) for k, v in kinds.items()))


def blocks(**kinds: object) -> str:
    return family(
        "trt_llm_kv_cache_block_metrics", "gauge", *((f'kv_cache_block_type="{k}"', v) for k, v in kinds.items())
    )


def iterations(count: float) -> str:
    return family("trt_llm_general_metrics", "gauge", ('general_type="iteration_counter"', count))


def first_response(
    suffix: str = "_bucket", typed: str = "inference_first_response_histogram_ms", model: str = LLM
) -> str:
    name, own = "nv_inference_first_response_histogram_ms", f'model="{model}",version="1"'
    return (
        f"# TYPE nv_{typed} histogram\n{name}_count{{{own}}} 37\n{name}_sum{{{own}}} 10771\n"
        f'{name}{suffix}{{{own}, le="100"}} 8\n{name}{suffix}{{{own}, le="2000"}} 36\n{name}{suffix}{{{own}, le="+Inf"}} 37\n'
    )


# -- T39: units ------------------------------------------------------------------------------------------------------
def test_t39_sums_of_microseconds_become_seconds_and_have_a_count() -> None:
    snapshot = read(counted("made", done=20, us=60e6, queued=8e6, ran=50e6))
    assert values(snapshot, "llm_request_e2e_seconds_sum") == [60.0]
    assert values(snapshot, "llm_request_e2e_seconds_count") == [20.0]
    assert values(snapshot, "llm_request_queue_seconds_sum") == [8.0]
    assert values(snapshot, "llm_request_inference_seconds_sum") == [50.0]
    assert values(snapshot, "llm_request_inference_seconds_count") == [20.0]
    assert not [s for s in snapshot.samples if s.name.endswith("_bucket")]


@pytest.mark.parametrize("suffix", ["_bucket", ""])
@pytest.mark.parametrize("typed", ["inference_first_response_histogram_ms", "first_response_histogram_ms"])
def test_t39_milliseconds_become_seconds_edges_included_however_the_histogram_is_spelled(
    suffix: str, typed: str
) -> None:
    snapshot = read(first_response(suffix, typed, model="made"))
    assert values(snapshot, "llm_request_ttft_seconds_bucket", le="0.1") == [8.0]
    assert values(snapshot, "llm_request_ttft_seconds_bucket", le="2") == [36.0]
    assert values(snapshot, "llm_request_ttft_seconds_bucket", le="+Inf") == [37.0]
    assert values(snapshot, "llm_request_ttft_seconds_sum") == [10.771]
    assert values(snapshot, "llm_request_ttft_seconds_count") == [37.0]


def test_t39_quantiles_of_a_summary_are_not_taken() -> None:
    page = family("inference_queue_summary_us", "summary", ('quantile="0.99"', 101))
    page += family("inference_queue_summary_us_sum", "untyped", ("", 11110))
    snapshot = read(counted("made", queued=8e6) + page)
    assert values(snapshot, "llm_request_queue_seconds_sum") == [8.0]
    assert not {101.0, 0.01111, 11110.0} & set(snapshot.samples.values())


def test_t39_joules_and_ratios_of_gpus_are_left_to_the_gpu_exporter() -> None:
    page = '# TYPE nv_gpu_utilization gauge\nnv_gpu_utilization{gpu_uuid="GPU-1"} 0.5\n'
    page += '# TYPE nv_energy_consumption counter\nnv_energy_consumption{gpu_uuid="GPU-1"} 4321\n'
    assert not [
        s for s in read(counted() + page).samples if s.name.startswith("llm_gpu_") and s.name != "llm_family_gap"
    ]


def test_kv_transfers_in_milliseconds() -> None:
    kinds = (
        ('disaggregated_serving_type="kv_cache_transfer_ms"', 2500),
        ('disaggregated_serving_type="request_count"', 10),
    )
    snapshot = read(counted() + family("trt_llm_disaggregated_serving_metrics", "counter", *kinds))
    assert values(snapshot, "llm_kv_transfer_seconds_sum") == [2.5]
    assert values(snapshot, "llm_kv_transfer_seconds_count") == [10.0]


# -- T39: a request counts in every model that takes part -------------------------------------------------------------
def test_t39_the_ensemble_and_the_models_around_the_engine_are_not_added_to_it() -> None:
    around = "".join(
        counted(m, done=25, us=90e6) for m in ("ensemble", "preprocessing", "postprocessing", "tensorrt_llm_bls")
    )
    ours, theirs = failed(("REJECTED", 2), ("CANCELED", 1)), failed(("REJECTED", 3), model="ensemble")
    snapshot = read(counted(done=20) + around + ours + theirs + pending(1) + pending(4, "ensemble"))
    assert values(snapshot, "llm_requests_finished_total") == [20.0]
    assert values(snapshot, "llm_request_e2e_seconds_sum") == [60.0]
    assert values(snapshot, "llm_requests_rejected_total") == [2.0]
    assert values(snapshot, "llm_requests_aborted_total") == [1.0]
    assert values(snapshot, "llm_requests_waiting") == [1.0]
    assert {s.label("model") for s in snapshot.samples if s.name.startswith("llm_request")} == {LLM}


def test_t39_whoever_the_backend_speaks_for_is_the_engine_whatever_its_name() -> None:
    page = counted("llama", done=9) + counted("llama_pipeline", done=11) + requests(active=2).replace(LLM, "llama")
    snapshot = read(page)
    assert values(snapshot, "llm_requests_finished_total") == [9.0]
    assert values(snapshot, "llm_requests_running", model="llama") == [2.0]


def test_t39_an_ensemble_alone_is_read() -> None:
    page = counted("ensemble", done=9) + counted("preprocessing", done=9)
    assert 9.0 in values(read(page), "llm_requests_finished_total", model="ensemble")


def test_versions_of_a_model_stand_side_by_side() -> None:
    snapshot = read(counted("made", done=4) + counted("made", done=6, version="2"))
    assert values(snapshot, "llm_requests_finished_total", rank="0") == [4.0]
    assert values(snapshot, "llm_requests_finished_total", rank="1") == [6.0]


# -- what the engine does not count ----------------------------------------------------------------------------------
BASE = (
    "llm_requests_finished_total",
    "llm_requests_rejected_total",
    "llm_requests_aborted_total",
    "llm_request_e2e_seconds",
    "llm_request_queue_seconds",
    "llm_request_inference_seconds",
)


def nothing() -> str:
    return counted(done=0, us=0, queued=0, ran=0) + failed(("REJECTED", 0), ("CANCELED", 0)) + pending(0)


def test_an_engine_that_is_counted_nowhere_is_a_gap_and_no_0() -> None:
    snapshot = read(nothing() + counted("ensemble", done=230))
    for name in (*BASE, "llm_requests_waiting"):
        kind, reason = gap(snapshot, name)
        assert kind == "unsupported"
        assert "ensemble" in reason
        assert not [s for s in snapshot.samples if s.name.startswith(name)]


def test_an_engine_that_ran_iterations_and_counted_nothing_is_a_gap_and_its_own_queue_stands() -> None:
    snapshot = read(nothing() + iterations(900) + requests(waiting=4, active=2))
    assert gap(snapshot, "llm_requests_finished_total")[0] == "unsupported"
    assert values(snapshot, "llm_requests_waiting") == [4.0]
    assert values(snapshot, "llm_requests_running") == [2.0]


def test_a_server_that_has_not_worked_yet_shows_0() -> None:
    snapshot = read(nothing() + counted("ensemble", done=0, us=0, queued=0, ran=0) + iterations(0))
    assert values(snapshot, "llm_requests_finished_total") == [0.0]
    assert values(snapshot, "llm_requests_rejected_total") == [0.0]


def test_failures_without_a_reason_are_errors_and_refusals_are_unknown() -> None:
    page = counted() + family("inference_request_failure", "counter", ("", 5))
    snapshot = read(page)
    assert values(snapshot, "llm_requests_finished_total", reason="error") == [5.0]
    assert gap(snapshot, "llm_requests_rejected_total")[0] == "unsupported"
    assert gap(snapshot, "llm_requests_aborted_total")[0] == "unsupported"


# -- the backend -----------------------------------------------------------------------------------------------------
def test_the_backend_s_queue_is_added_to_the_one_in_front_of_it_and_hides_in_what_is_called_computing() -> None:
    snapshot = read(counted() + pending(2) + requests(waiting=7, active=3))
    assert values(snapshot, "llm_requests_waiting") == [9.0]
    for name in ("llm_request_queue_seconds", "llm_request_inference_seconds"):
        assert gap(snapshot, name)[0] == "unsupported"
        assert not values(snapshot, f"{name}_sum")
    assert values(snapshot, "llm_request_e2e_seconds_sum") == [60.0]


def test_t39_unlike_things_of_one_family_are_never_added() -> None:
    snapshot = read(counted() + requests(waiting=1, context=2, scheduled=30, max=512, active=31))
    assert values(snapshot, "llm_requests_running") == [31.0]
    assert values(snapshot, "llm_requests_waiting") == [1.0]
    kv = read(counted() + blocks(fraction=0.25, tokens_per=64, used=100, free=300, max=400))
    assert values(kv, "llm_kv_usage_ratio") == [0.25]
    assert values(kv, "llm_kv_blocks") == [400.0]
    assert values(kv, "llm_kv_block_tokens") == [64.0]
    assert values(kv, "llm_kv_capacity_tokens") == [25600.0]


def test_the_share_of_blocks_follows_from_their_numbers_where_it_is_not_told() -> None:
    assert values(read(counted() + blocks(used=100, max=400)), "llm_kv_usage_ratio") == [0.25]
    assert not values(read(counted() + blocks(used=500, max=400)), "llm_kv_usage_ratio")


@pytest.mark.parametrize("fraction", [42, "NaN", -0.1])
def test_t2_a_share_that_cannot_be_is_a_gap(fraction: object) -> None:
    snapshot = read(counted() + blocks(fraction=fraction, max=400))
    assert not values(snapshot, "llm_kv_usage_ratio")
    assert gap(snapshot, "llm_kv_usage_ratio")[0] == "missing"


def test_gauges_of_the_last_iteration_are_told_as_old_and_iterations_count() -> None:
    snapshot = read(counted() + requests(active=3) + iterations(51234))
    assert values(snapshot, "llm_target_report_age_seconds")[0] >= 3600.0
    assert values(snapshot, "llm_iteration_tokens_count") == [51234.0]
    assert not values(read(counted()), "llm_target_report_age_seconds")


def test_lengths_of_requests_are_tokens_in_total_as_well() -> None:
    own, page = 'response_metric_type="total_input_tokens"', ""
    for suffix, extra, value in (
        ("_bucket", ',le="100"', 8),
        ("_bucket", ',le="+Inf"', 20),
        ("_sum", "", 5000),
        ("_count", "", 20),
    ):
        page += f'nv_llm_input_token_len{suffix}{{model="{LLM}",{own}{extra},version="1"}} {value}\n'
    snapshot = read(counted() + "# TYPE nv_llm_input_token_len histogram\n" + page)
    assert values(snapshot, "llm_request_prompt_tokens_bucket", le="100") == [8.0]
    assert values(snapshot, "llm_prompt_tokens_total") == [5000.0]
    assert gap(snapshot, "llm_generation_tokens_total")[0] == "unsupported"


# -- real pages ------------------------------------------------------------------------------------------------------
def real(*parts: str) -> Snapshot:
    place = SHARED.joinpath(*parts)
    if not place.exists():
        pytest.skip(f"no page at {place}; LLMVITALS_SHARED locates the recordings")
    return read(place.read_text())


def test_a_real_page_whose_engine_counts_nothing() -> None:
    snapshot = real("incidents", "inputs", "IN20-triton-zeros.prom")
    for name in BASE:
        assert gap(snapshot, name)[0] == "unsupported"
    assert not [s for s in snapshot.samples if s.name.startswith("llm_request")]


def test_the_documentation_s_histogram() -> None:
    snapshot = real("reference", "pages", "triton", "server-doc-histogram-summary.prom")
    assert values(snapshot, "llm_request_ttft_seconds_bucket", le="0.5", model="my_model") == [30.0]
    assert values(snapshot, "llm_request_ttft_seconds_sum") == [10.771]


def test_a_page_of_static_batching_says_of_one_iteration_only_and_nothing_is_taken() -> None:
    kinds = (('v1_specific_metric="total_generation_tokens"', 20), ('v1_specific_metric="empty_generation_slots"', 3))
    snapshot = read(family("trt_llm_v1_metrics", "gauge", *kinds))
    assert not {20.0, 3.0} & set(snapshot.samples.values())
    assert gap(snapshot, "llm_generation_tokens_total")[0] == "unsupported"
    assert gap(snapshot, "llm_requests_running")[0] == "unsupported"


def test_the_backend_s_sample() -> None:
    snapshot = real("reference", "pages", "triton", "tensorrtllm_backend-readme-inflight.prom")
    assert values(snapshot, "llm_requests_waiting") == [1.0]
    assert values(snapshot, "llm_requests_running") == [0.0]
    assert values(snapshot, "llm_kv_usage_ratio") == [0.4875]
    assert values(snapshot, "llm_kv_capacity_tokens") == [6239.0 * 64.0]
