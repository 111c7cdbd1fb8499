"""What trtllm-serve shows, by release. Everything but gauges is counted when a request has ended, zeros left out."""

from __future__ import annotations

from dataclasses import replace

from llmvitals.telemetry import companions
from llmvitals.telemetry.mapping import Row, Unused

FINISHED, REJECTED = "llm_requests_finished_total", "llm_requests_rejected_total"
CACHED = "llm_prompt_tokens_cached_total"

NEWER = "a release after 1.3.0rc9"
ITERATIONS = "enable_iter_perf_stats: true and a release after 1.3.0rc9"
_ITERATIONS_RC9 = "enable_iter_perf_stats: true and 1.3.0rc9 or later"
SPEC = "speculative decoding and a release after 1.3.0rc9"

_AT_END = "counted when a request has ended; a time of 0 is left out"
_POLLED = "of the last iteration that was polled; it stands while the engine is idle"
_ERRORS = "HTTP errors by code"


def _code(codes: str, family: str, note: str) -> Row:
    taken = frozenset(codes.split())
    return Row(
        "trtllm_request_error",
        family,
        only=(("http_code", taken),),
        labels=(("reason", "http_code"),) if family == REJECTED else (),
        fixed=() if family == REJECTED else (("reason", "error"),),
        add=True,
        late=True,
        needs=NEWER,
        note=f"{_ERRORS}: {note}",
    )


_FIRST: tuple[Row, ...] = (
    Row(
        "trtllm_request_success",
        FINISHED,
        late=True,
        labels=(("reason", "finished_reason"),),
        note="of /v1 requests; those whose clients left are in no counter",
    ),
    Row("trtllm_e2e_request_latency_seconds", "llm_request_e2e_seconds", late=True, note=_AT_END),
    Row("trtllm_time_to_first_token_seconds", "llm_request_ttft_seconds", late=True, note=_AT_END),
    Row(
        "trtllm_time_per_output_token_seconds",
        "llm_request_tpot_seconds",
        late=True,
        note="one mean per request, not gaps between tokens",
    ),
    Row(
        "trtllm_request_queue_time_seconds",
        "llm_request_queue_seconds",
        late=True,
        note="counted when a request has ended; to 1.3.0rc9 without the requests that did not wait at all",
    ),
)
"""What 1.1.0rc5 shows, without a prefix; later releases call it the same behind ``trtllm_``."""

_LATER: tuple[Row, ...] = (
    Row("trtllm_request_prefill_time_seconds", "llm_request_prefill_seconds", needs=NEWER, note=_AT_END),
    Row("trtllm_request_decode_time_seconds", "llm_request_decode_seconds", needs=NEWER, note=_AT_END),
    Row("trtllm_request_inference_time_seconds", "llm_request_inference_seconds", needs=NEWER, note=_AT_END),
    Row("trtllm_prompt_tokens", "llm_prompt_tokens_total", needs=NEWER, note=_AT_END),
    Row("trtllm_generation_tokens", "llm_generation_tokens_total", needs=NEWER, note=_AT_END),
    Row("trtllm_prompt_cached_tokens", CACHED, needs=NEWER, late=True, note="not shown before the first hit"),
    _code("500 501 502 504", FINISHED, "5xx have the reason error"),
    _code("429 503", REJECTED, "429 and 503; refused input (other 4xx) is left out"),
    Row("trtllm_kv_cache_utilization", "llm_kv_usage_ratio", needs=_ITERATIONS_RC9, note=_POLLED),
    Row(
        "trtllm_kv_cache_hit_rate",
        "llm_prefix_cache_reported_hit_ratio",
        needs=_ITERATIONS_RC9,
        note="of blocks, since the start",
    ),
    Row(
        "trtllm_num_requests_running",
        "llm_requests_running",
        needs=ITERATIONS,
        note=f"active requests {_POLLED}",
    ),
    Row("trtllm_num_active_requests", "llm_requests_running", needs=ITERATIONS, fallback=True),
    Row("trtllm_num_requests_waiting", "llm_requests_waiting", needs=ITERATIONS, note=_POLLED),
    Row("trtllm_server_queue_length", "llm_requests_waiting", needs=ITERATIONS, fallback=True),
    Row("trtllm_kv_cache_max_blocks", "llm_kv_blocks", needs=ITERATIONS),
    Row("trtllm_kv_cache_tokens_per_block", "llm_kv_block_tokens", needs=ITERATIONS),
    Row(
        "trtllm_kv_cache_onboard_bytes",
        "llm_kv_offload_bytes_total",
        needs=f"a host cache, {ITERATIONS}",
        fixed=(("direction", "load"),),
    ),
    Row(
        "trtllm_kv_cache_offload_bytes",
        "llm_kv_offload_bytes_total",
        needs=f"a host cache, {ITERATIONS}",
        fixed=(("direction", "store"),),
    ),
    Row("trtllm_kv_cache_host_utilization", "llm_kv_offload_usage_ratio", needs=f"a host cache, {ITERATIONS}"),
    Row("trtllm_spec_decode_num_draft_tokens", "llm_spec_draft_tokens_total", needs=SPEC, note="as iterations run"),
    Row(
        "trtllm_spec_decode_num_accepted_tokens", "llm_spec_accepted_tokens_total", needs=SPEC, note="as iterations run"
    ),
    Row(
        "trtllm_spec_decode_accepted_tokens",
        "llm_spec_accepted_tokens_by_position_total",
        needs=SPEC,
        labels=(("position", "token_position"),),
        note="counted when a request has ended: no part of the total beside it",
    ),
    Row("trtllm_model_config_info", "llm_max_model_tokens", needs=NEWER, special="max_model_len"),
    *(
        Row(
            name,
            "llm_prefix_caching_enabled",
            needs=NEWER,
            special="enable_block_reuse",
            note="label enable_block_reuse",
        )
        for name in ("trtllm_kv_cache_config_info", "trtllm_cache_config_info")
    ),
)

ROWS: tuple[Row, ...] = (
    *_FIRST,
    *(replace(row, source=row.source.removeprefix("trtllm_")) for row in _FIRST),
    *_LATER,
    *companions.component_rows(),
)

_BLOCKS = "blocks; tokens are in prompt_cached_tokens"
_ONE = "of a single iteration"

UNUSED: tuple[Unused, ...] = (
    Unused("trtllm_prompt_cached_tokens_per_request", "its sum is the counter of cached tokens"),
    Unused("trtllm_request_error", f"{_ERRORS}: refused input (400, 404, 422) is no failure of the engine"),
    Unused("trtllm_num_requests_completed", "ended requests are taken by their reason"),
    Unused("trtllm_kv_cache_reused_blocks", _BLOCKS),
    Unused("trtllm_kv_cache_missed_blocks", _BLOCKS),
    Unused("trtllm_kv_cache_iter_*", _BLOCKS),
    Unused("trtllm_kv_cache_gen_alloc_blocks", "blocks that decoding took, not blocks in use"),
    Unused("trtllm_kv_cache_intra_device_copy_bytes", "copies inside the GPU, to no other tier"),
    Unused("trtllm_kv_cache_free_blocks", "blocks in use are taken as a share"),
    Unused("trtllm_kv_cache_used_blocks", "blocks in use are taken as a share"),
    Unused("trtllm_max_num_active_requests", "a limit"),
    Unused("trtllm_max_batch_size_*", "a limit"),
    Unused("trtllm_max_num_tokens_runtime", "a limit"),
    Unused("trtllm_num_context_requests", _ONE),
    Unused("trtllm_prefill_num_context_requests", _ONE),
    Unused("trtllm_num_generation_requests", _ONE),
    Unused("trtllm_num_scheduled_requests", _ONE),
    Unused("trtllm_num_paused_requests", f"{_ONE}: how many are paused, not how often"),
    Unused("trtllm_total_context_tokens", f"a gauge {_ONE} despite its name"),
    Unused("trtllm_prefill_batch_tokens", "prompt tokens of iterations that have some; decoded ones are left out"),
    Unused("trtllm_prefill_batch_occupancy", _ONE),
    Unused("trtllm_avg_decoded_tokens_per_iter", _ONE),
    Unused("trtllm_iteration_latency_seconds", _ONE),
    Unused("trtllm_*_memory_usage_bytes", "the engine's own account; a GPU's memory is its exporter's"),
    Unused(
        "trtllm_spec_decode_drafted_tokens", "by position, when a request has ended; no part of the total beside it"
    ),
    Unused("trtllm_spec_decode_acceptance_length", _ONE),
    Unused("trtllm_spec_decode_draft_overhead", _ONE),
    Unused("trtllm_prefill_perplexity", "what answers are like, not how they are served"),
    Unused("trtllm_generation_perplexity", "what answers are like, not how they are served"),
    Unused("trtllm_ep_*", "membership of expert-parallel ranks"),
    Unused("trtllm_parallel_config_info", "settings"),
    Unused("trtllm_speculative_config_info", "settings"),
    *companions.UNUSED,
)
