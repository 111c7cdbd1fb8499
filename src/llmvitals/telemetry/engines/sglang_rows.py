"""SGLang's series, 0.3.6 to 0.5.23, and the canonical families they become: one row each.

Spans are releases in which the series was found. SGLang counts over processes, so that no series is on the page before
it was touched once: ``late`` rows may never be. The front end (tokenizer manager) counts requests, by whether they
stream and by labels of the operator's, which are added; the scheduler counts and samples its own state, rank by rank.
"""

from __future__ import annotations

from llmvitals.telemetry.mapping import Row

LENGTHS = "--collect-tokens-histogram"
MFU = "--enable-mfu-metrics"
LORA = "--enable-lora"
SPEC = "speculative decoding"
DISAGGREGATED = "prefill and decode on servers of their own"
HICACHE = "--enable-hierarchical-cache"
STORAGE = "--hicache-storage-backend"

# Endpoints that serve inference. Everything else that is answered (models, health, tokenize, metrics) is no request.
ENDPOINTS = frozenset(
    {
        "/generate",
        "/v1/completions",
        "/v1/chat/completions",
        "/v1/responses",
        "/v1/messages",
        "/v1/embeddings",
        "/v1/classify",
        "/v1/score",
        "/v1/rerank",
        "/v1/audio/transcriptions",
        "/classify",
        "/encode",
        "/api/chat",
        "/api/generate",
        "/invocations",
    }
)
_METHODS = frozenset({"", "GET", "POST", "PUT", "PATCH", "DELETE"})
_REFUSED = "503"
_CLASSES = tuple(
    (f"{first}xx", frozenset(str(first * 100 + i) for i in range(100)) - {_REFUSED}) for first in (2, 4, 5)
)
_MIB = 1024.0 * 1024.0

ROWS: tuple[Row, ...] = (
    # -- user experience ------------------------------------------------------------------------------------------
    Row(
        "sglang:time_to_first_token_seconds",
        "llm_request_ttft_seconds",
        span="0.3.6..",
        add=True,
        note="requests that do not stream too; never on a prefill server",
    ),
    Row(
        "sglang:inter_token_latency_seconds",
        "llm_request_inter_token_seconds",
        span="0.4.4..",
        add=True,
        late=True,
        note="one observation per token: the gap between two outputs, divided by the tokens it brought",
    ),
    Row(
        "sglang:time_per_output_token_seconds",
        "llm_request_inter_token_seconds",
        span="0.3.6..0.4.3",
        late=True,
        special="old gaps",
        note="to 0.4.3: a running mean per output, so its high quantiles are smooth; in 0.4.4 of whole requests: not read",
    ),
    Row(
        "sglang:request_time_per_output_token_seconds",
        "llm_request_tpot_seconds",
        span="0.5.22..",
        add=True,
        late=True,
        note="one mean per request that ended by itself with two tokens or more",
    ),
    Row(
        "sglang:e2e_request_latency_seconds",
        "llm_request_e2e_seconds",
        span="0.3.6..",
        add=True,
        note="those given up while they ran included",
    ),
    Row(
        "sglang:num_requests",
        "llm_requests_finished_total",
        span="0.4.2..",
        add=True,
        note="no reason; those given up while they ran included; before 0.4.2 the count of e2e latencies",
    ),
    Row(
        "sglang:num_aborted_requests",
        "llm_requests_aborted_total",
        span="0.4.7..",
        add=True,
        late=True,
        note="0 until the first one",
    ),
    *(
        Row(
            "sglang:http_responses",
            "llm_http_requests_total",
            span="0.5.7..",
            labels=(("handler", "endpoint"),),
            fixed=(("status", name),),
            only=(("endpoint", ENDPOINTS), ("method", _METHODS), ("status_code", codes)),
            add=True,
            late=True,
            note="inference endpoints only, methods added; counted when the answer begins",
        )
        for name, codes in _CLASSES
    ),
    # -- queue and admission --------------------------------------------------------------------------------------
    Row(
        "sglang:http_responses",
        "llm_requests_rejected_total",
        span="0.5.7..",
        labels=(("handler", "endpoint"),),
        only=(("endpoint", ENDPOINTS), ("method", _METHODS), ("status_code", frozenset({_REFUSED}))),
        late=True,
        special="refused",
        note="answers of 503, which is what a full queue gives; 0 until the first one",
    ),
    Row(
        "sglang:queue_time_seconds",
        "llm_request_queue_seconds",
        span="0.5.3..",
        note="counted when a request is first scheduled",
    ),
    Row("sglang:queue_time_s", "llm_request_queue_seconds", span="0.5.2..0.5.2"),
    Row(
        "sglang:num_running_reqs",
        "llm_requests_running",
        span="0.3.6..",
        note="as of the last prefill, or of up to 40 decode steps ago; what a prefill brings in is not in it yet",
    ),
    Row(
        "sglang:num_queue_reqs",
        "llm_requests_waiting",
        span="0.3.6..",
        special="queue",
        note="as of the last report; from 0.4.7 those that wait for a grammar or for KV from elsewhere are added",
    ),
    Row(
        "sglang:num_grammar_queue_reqs",
        "llm_requests_waiting_by_reason",
        span="0.4.7..",
        special="queue",
        note="deferred; the queue's other requests wait for capacity",
    ),
    Row("sglang:num_prefill_bootstrap_queue_reqs", span="0.5.12..", special="queue"),
    Row("sglang:num_prefill_prealloc_queue_reqs", span="0.4.7..0.5.11", special="queue"),
    Row("sglang:num_decode_prealloc_queue_reqs", span="0.4.7..", special="queue"),
    Row("sglang:num_decode_transfer_queue_reqs", span="0.4.7..", special="queue"),
    Row(
        "sglang:num_retracted_requests",
        "llm_preemptions_total",
        span="0.5.7..",
        late=True,
        note="retractions; 0 until the first one",
    ),
    Row("sglang:total_retracted_reqs", "llm_preemptions_total", span="0.4.10..0.5.2", note="a total in a gauge"),
    Row("sglang:num_retractions", "llm_request_preemptions", span="0.5.5..0.5.10", add=True),
    # -- engine ---------------------------------------------------------------------------------------------------
    Row("sglang:prompt_tokens_histogram", "llm_request_prompt_tokens", span="0.4.7..", needs=LENGTHS, add=True),
    Row(
        "sglang:uncached_prompt_tokens_histogram",
        "llm_request_computed_prompt_tokens",
        span="0.5.12..",
        needs=LENGTHS,
        add=True,
    ),
    Row("sglang:generation_tokens_histogram", "llm_request_generation_tokens", span="0.4.7..", needs=LENGTHS, add=True),
    Row(
        "sglang:prompt_tokens",
        "llm_prompt_tokens_total",
        span="0.3.6..",
        add=True,
        note="counted when a request has ended",
    ),
    Row(
        "sglang:cached_tokens",
        "llm_prompt_tokens_cached_total",
        span="0.4.4..",
        add=True,
        late=True,
        note="counted when a request has ended; 0 until the first hit",
    ),
    Row(
        "sglang:realtime_tokens",
        "llm_generation_tokens_total",
        span="0.5.7..",
        only=(("mode", frozenset({"decode"})),),
        special="decoded",
        note="per decode step",
    ),
    Row(
        "sglang:generation_tokens",
        "llm_generation_tokens_total",
        span="0.3.6..",
        special="generated",
        note="before 0.5.7: counted when a request has ended",
    ),
    Row(
        "sglang:prefill_effective_tokens",
        "llm_prefix_cache_query_tokens_total",
        span="0.5.18..",
        special="effective",
        note="without what is computed again after a retraction",
    ),
    Row(
        "sglang:realtime_tokens",
        "llm_prefix_cache_query_tokens_total",
        span="0.5.7..",
        only=(("mode", frozenset({"prefill_compute", "prefill_cache"})),),
        special="prefilled",
        note="per prefill; before 0.5.7 the prompt tokens of ended requests",
    ),
    Row(
        "sglang:cache_hit_rate",
        "llm_prefix_cache_reported_hit_ratio",
        span="0.3.6..",
        note="of the last prefill alone, 0 after a decode report",
    ),
    Row(
        "sglang:token_usage",
        "llm_kv_usage_ratio",
        span="0.3.6..",
        note="of the fullest pool, in hundredths, as of the last report; cached tokens left out",
    ),
    Row("sglang:max_total_num_tokens", "llm_kv_capacity_tokens", span="0.5.6..", note="not for hybrid models"),
    Row("sglang:num_pages", "llm_kv_blocks", span="0.5.11..", note="not for hybrid models"),
    Row("sglang:page_size", "llm_kv_block_tokens", span="0.5.11.."),
    Row("sglang:cache_config_info", span="0.5.9..0.5.10", special="config"),
    Row("sglang:context_len", "llm_max_model_tokens", span="0.5.11.."),
    *(
        Row(f"sglang:{pool}_{part}_tokens", span="0.5.12..", special="hybrid")
        for pool in ("swa", "mamba")
        for part in ("available", "evictable", "used")
    ),
    Row("sglang:max_total_num_tokens_swa", span="0.5.17..", late=True, special="hybrid"),
    Row("sglang:swa_token_usage", span="0.5.2..", special="hybrid"),
    Row("sglang:mamba_usage", span="0.5.5..", special="hybrid"),
    Row(
        "sglang:spec_verify_calls",
        "llm_spec_drafts_total",
        span="0.5.13..",
        needs=SPEC,
        add=True,
        note="counted when a request has ended",
    ),
    Row("sglang:lora_pool_slots_total", "llm_lora_slots", span="0.5.7..", needs=LORA, note="a gauge despite its name"),
    Row("sglang:lora_pool_slots_used", "llm_lora_running_adapters", span="0.5.7..", needs=LORA),
    Row(
        "sglang:kv_transfer_latency_ms",
        "llm_kv_transfer_seconds",
        span="0.5.2..",
        needs=DISAGGREGATED,
        scale=1e-3,
        fixed=(("connector", "disaggregation"),),
        note="to 0.5.9 a gauge of the last transfer, which is not read",
    ),
    Row(
        "sglang:kv_transfer_total_mb",
        "llm_kv_transfer_bytes",
        span="0.5.7..",
        needs=DISAGGREGATED,
        scale=_MIB,
        fixed=(("connector", "disaggregation"),),
        note="to 0.5.9 a gauge of the last transfer, which is not read",
    ),
    *(
        Row(
            f"sglang:num_{what}_failed_reqs",
            "llm_kv_transfer_failures_total",
            span="0.4.7..",
            needs=DISAGGREGATED,
            fixed=(("connector", "disaggregation"),),
            add=True,
            note="those that could not be set up added",
        )
        for what in ("transfer", "bootstrap")
    ),
    Row(
        "sglang:storage_prefetch_hit_tokens",
        "llm_external_prefix_cache_hit_tokens_total",
        span="0.5.20..",
        needs=STORAGE,
        note="found in the storage behind the host tier, whether or not it could be fetched in time",
    ),
    Row(
        "sglang:load_back_bytes",
        "llm_kv_offload_bytes_total",
        span="0.5.18..",
        needs=HICACHE,
        fixed=(("direction", "load"),),
    ),
    Row(
        "sglang:hicache_backup_bytes",
        "llm_kv_offload_bytes_total",
        span="0.5.18..",
        needs=HICACHE,
        fixed=(("direction", "store"),),
    ),
    Row(
        "sglang:hicache_host_used_tokens",
        "llm_kv_offload_usage_ratio",
        span="0.5.10..",
        needs=HICACHE,
        special="host",
        note="over hicache_host_total_tokens",
    ),
    Row("sglang:hicache_host_total_tokens", span="0.5.10..", late=True, special="host"),
    Row("sglang:estimated_flops_per_gpu", "llm_estimated_flops_total", span="0.5.10..", needs=MFU),
    Row("sglang:estimated_read_bytes_per_gpu", "llm_estimated_read_bytes_total", span="0.5.10..", needs=MFU),
    Row("sglang:estimated_write_bytes_per_gpu", "llm_estimated_write_bytes_total", span="0.5.10..", needs=MFU),
    Row(
        "sglang:process_cpu_seconds",
        "llm_process_cpu_seconds_total",
        span="0.5.8..",
        only=(("component", frozenset({"tokenizer"})),),
        late=True,
        note="of the process that tokenizes and answers",
    ),
    # -- only to tell releases apart --------------------------------------------------------------------------------
    Row("sglang:spec_accept_length", span="0.4.2..", special="none"),
    Row("sglang:avg_request_queue_latency", span="0.4.6..0.5.2", special="none"),
    Row("sglang:num_retracted_reqs", span="0.5.2..", special="none"),
    Row("sglang:is_cuda_graph", span="0.5.4..", special="none"),
    Row("sglang:new_token_ratio", span="0.5.6..", special="none"),
    Row("sglang:cuda_graph_passes", span="0.5.7..", special="none"),
    Row("sglang:full_token_usage", span="0.5.10..", special="none"),
    Row("sglang:kv_used_tokens", span="0.5.11..", special="none"),
    Row("sglang:spec_num_steps", span="0.5.13..", special="none"),
    Row("sglang:spec_cap_length", span="0.5.16..", special="none"),
    Row("sglang:scheduler_idle_seconds", span="0.5.20..", special="none"),
    Row("label:engine_type", span="0.4.4..", late=True, special="none"),
    Row("label:tp_rank", span="0.5.3..", special="none"),
    Row("label:is_streaming", span="0.5.17..", special="none"),
)
