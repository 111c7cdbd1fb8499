"""What Triton shows of the models that it serves, and its TensorRT-LLM backend of itself.

``special`` says how a value becomes one: ``base`` is Triton's own account of a model, which may be all zero; ``wait`` its
queue and computing, of which the backend's queue is a part; ``engine`` what the backend says.
"""

from __future__ import annotations

from llmvitals.telemetry.mapping import Row, Unused

FINISHED, REJECTED, ABORTED = "llm_requests_finished_total", "llm_requests_rejected_total", "llm_requests_aborted_total"
E2E, QUEUE, INFERENCE = "llm_request_e2e_seconds", "llm_request_queue_seconds", "llm_request_inference_seconds"
RUNNING, WAITING = "llm_requests_running", "llm_requests_waiting"
USAGE, BLOCKS, BLOCK = "llm_kv_usage_ratio", "llm_kv_blocks", "llm_kv_block_tokens"
TTFT, PROMPT, MADE = "llm_request_ttft_seconds", "llm_request_prompt_tokens", "llm_request_generation_tokens"

_US = 1e-6
_MS = 1e-3

BACKEND = "the TensorRT-LLM backend"
_HISTOGRAM = "--metrics-config histogram_latencies=true, Triton 24.11 or later, and a decoupled model"
TOKENS = "a TensorRT-LLM backend that counts tokens (nv_llm_input_token_len)"
REASONS = "a Triton whose failures carry a reason"

_SUMS = "a sum of microseconds and a count, no buckets"
_DONE = "counted when a request has ended"


def _failed(reasons: tuple[str, ...], family: str, note: str, *, needs: str = "", **fixed: str) -> Row:
    kinds = (("reason", frozenset(reasons)),)
    return Row(
        "nv_inference_request_failure",
        family,
        only=kinds,
        fixed=tuple(fixed.items()),
        special="base",
        needs=needs,
        note=note,
    )


def _backend(name: str, label: str, value: str, family: str, note: str = "", part: str = "", **fixed: str) -> Row:
    """One label value of a family that puts unlike things side by side."""
    return Row(
        f"nv_trt_llm_{name}_metrics",
        family,
        only=((label, frozenset({value})),),
        fixed=tuple(fixed.items()),
        part=part,
        scale=_MS if part == "_sum" else 1.0,
        special="engine",
        needs=BACKEND,
        note=note,
    )


ROWS: tuple[Row, ...] = (
    Row("nv_inference_request_success", FINISHED, special="base", note="no reason is told"),
    _failed(("BACKEND", "OTHER", ""), FINISHED, "failures have the reason error", reason="error"),
    _failed(("REJECTED",), REJECTED, "failures by reason", needs=REASONS, reason="rejected"),
    _failed(("CANCELED",), ABORTED, "failures by reason", needs=REASONS),
    Row("nv_inference_request_duration_us", E2E, part="_sum", scale=_US, special="base", note=f"{_SUMS}; {_DONE}"),
    Row(
        "nv_inference_queue_duration_us",
        QUEUE,
        part="_sum",
        scale=_US,
        special="wait",
        note=f"{_SUMS}; not where a backend has its own queue",
    ),
    Row(
        "nv_inference_compute_infer_duration_us",
        INFERENCE,
        part="_sum",
        scale=_US,
        special="wait",
        note=f"{_SUMS}; not where a backend has its own queue",
    ),
    Row("nv_inference_pending_request_count", WAITING, special="base", note="in front of the backend"),
    _backend("request", "request_type", "waiting", WAITING, "those in the backend's queue are added"),
    _backend("request", "request_type", "active", RUNNING, "active: admitted by the backend, as of its last iteration"),
    Row("nv_inference_first_response_histogram_ms", TTFT, scale=_MS, special="hist", needs=_HISTOGRAM, note="ms"),
    Row(  # the documentation's sample has buckets without _bucket
        "nv_inference_first_response_histogram_ms",
        TTFT,
        part="_bucket",
        scale=_MS,
        special="hist",
        needs=_HISTOGRAM,
        note="of a request that is not streamed it is the whole answer",
    ),
    *(
        Row(
            f"nv_llm_{way}_token_len",
            family,
            only=(("response_metric_type", frozenset({f"total_{way}_tokens"})),),
            special="hist",
            needs=TOKENS,
            note=_DONE,
        )
        for way, family in (("input", PROMPT), ("output", MADE))
    ),
    _backend("kv_cache_block", "kv_cache_block_type", "fraction", USAGE, "used over all; worked out where not told"),
    _backend("kv_cache_block", "kv_cache_block_type", "max", BLOCKS),
    _backend("kv_cache_block", "kv_cache_block_type", "tokens_per", BLOCK),
    _backend("kv_cache_block", "kv_cache_block_type", "used", ""),
    _backend(
        "general",
        "general_type",
        "iteration_counter",
        "llm_iteration_tokens",
        "iterations only, a gauge that counts: their tokens are not told",
        "_count",
    ),
    _backend(
        "disaggregated_serving",
        "disaggregated_serving_type",
        "kv_cache_transfer_ms",
        "llm_kv_transfer_seconds",
        "a sum of milliseconds and a count, no buckets",
        "_sum",
        connector="disaggregated",
    ),
    _backend(
        "disaggregated_serving",
        "disaggregated_serving_type",
        "request_count",
        "llm_kv_transfer_seconds",
        "",
        "_count",
        connector="disaggregated",
    ),
    # -- no family of their own: whether a model is counted at all, and whether the backend speaks for it --
    Row("nv_trt_llm_v1_metrics", special="seen", needs=BACKEND),
    *(
        Row(name, special="base")
        for name in (
            "nv_inference_count",
            "nv_inference_exec_count",
            "nv_inference_compute_input_duration_us",
            "nv_inference_compute_output_duration_us",
        )
    ),
)

_SUMMARY = "quantiles of a sliding window; the sums are in the counters of microseconds"
_GPU = "a GPU's own exporter says it, so that nothing is counted twice"
_HOST = "the host's own"

UNUSED: tuple[Unused, ...] = (
    Unused("nv_inference_*_summary_us", _SUMMARY),
    Unused("nv_first_response_histogram_ms", "what the documentation calls nv_inference_first_response_histogram_ms"),
    Unused("nv_trt_llm_request_metrics", "max is a limit; context and scheduled are parts of active in one iteration"),
    Unused("nv_trt_llm_kv_cache_block_metrics", "free is what the rest leaves; reused counts blocks, not tokens"),
    Unused("nv_trt_llm_inflight_batcher_metrics", "of a single iteration"),
    Unused("nv_trt_llm_v1_metrics", "of a single iteration of static batching: says only that the backend is there"),
    Unused("nv_trt_llm_runtime_memory_metrics", "the engine's own account; a GPU's memory is its exporter's"),
    Unused("nv_trt_llm_general_metrics", "the moment of the last iteration"),
    Unused("nv_trt_llm_*_statistics", "earlier names of the same"),
    Unused("nv_cache_*", "the response cache, not the KV cache"),
    Unused("nv_gpu_*", _GPU),
    Unused("nv_energy_consumption", _GPU),
    Unused("nv_cpu_*", _HOST),
    Unused("nv_pinned_memory_pool_*", _HOST),
    Unused("nv_model_load_duration_secs", "of the start, which is over"),
)
