"""vLLM's series that are known and not taken, with the reason of each."""

from __future__ import annotations

from llmvitals.telemetry.mapping import Unused

_OLD_RATE = "a mean over the engine's own log interval; rates follow from the token counters"
_STEP_MS = "V0's time inside the model, in ms; no stage of a request"
_DRAFTS = "a mean since start; the counters of draft and accepted tokens say it for any window"
_PLACING = "only tells releases apart"
_TIERS = "inside the offload tiers; what crosses the GPU's edge is counted by the load and store bytes"
_OPS = "an operator's own work on the server, no request"
_HALVES = "an earlier or finer count of what the bytes and the failures already say"
_BLOCKS = "blocks, whose size in bytes the page does not show"
_SPARSE = "blocks of HiSparse's host pool, which are no KV blocks of the GPU pool"
_HTTP = "the HTTP layer's own, over all handlers"

# What Ray names on a node's page begin with, behind "ray_"; not "vllm_", so that a new series of vLLM's is seen.
_RAY = (
    "actor",
    "autoscaler",
    "cluster",
    "component",
    "core_worker",
    "cpu",
    "dashboard",
    "data",
    "event",
    "finished",
    "gcs",
    "gpu",
    "grpc",
    "health",
    "internal",
    "io",
    "job",
    "llm",
    "local",
    "mem",
    "memory",
    "node",
    "object",
    "operation",
    "operator",
    "placement",
    "process",
    "pull",
    "push",
    "raylet",
    "resources",
    "running",
    "scheduler",
    "serve",
    "spill",
    "sglang",
    "task",
    "total",
    "train",
    "tune",
    "unintentional",
    "worker",
)

UNUSED: tuple[Unused, ...] = (
    Unused("vllm:avg_prompt_throughput_toks_per_s", _OLD_RATE),
    Unused("vllm:avg_generation_throughput_toks_per_s", _OLD_RATE),
    Unused("vllm:cpu_prefix_cache_hit_rate", "V0's host cache, as a ratio since start; the GPU's is taken"),
    Unused("vllm:model_execute_time_milliseconds", _STEP_MS),
    Unused("vllm:model_forward_time_milliseconds", _STEP_MS),
    Unused("vllm:request_params_best_of", _PLACING),
    Unused("vllm:tokens", _PLACING),
    Unused("vllm:prompt_tokens_cached_by_source", "its sum is prompt_tokens_cached; its parts are in by_source"),
    Unused("vllm:spec_decode_draft_acceptance_rate", _DRAFTS),
    Unused("vllm:spec_decode_efficiency", _DRAFTS),
    Unused("vllm:spec_decode_num_emitted_tokens", "V0 only: accepted tokens and one more for each step"),
    Unused("vllm:num_requests_kv_fetch_by_stage", "they stand among the deferred requests already"),
    Unused("vllm:watermark_requests", "finished requests once more, by whether a watermark was put in"),
    Unused("vllm:tool_call_parser_invocations", "one for each piece of a stream, so no count of tool calls"),
    Unused("vllm:websocket_*", "the realtime API's sockets, no requests"),
    Unused("vllm:rl_weight_update_*", _OPS),
    Unused("vllm:sleep_mode_*", _OPS),
    # -- KV transfer and offload ----------------------------------------------------------------------------------
    Unused("vllm:nixl_post_time_seconds", "time to hand a transfer over; the transfer's own time is taken"),
    Unused("vllm:nixl_num_descriptors", _HALVES),
    Unused("vllm:nixl_num_failed_notifications", "a message about a transfer, not the transfer"),
    Unused("vllm:nixl_num_kv_expired_reqs", "KV that nobody fetched in time: nothing was transferred"),
    Unused("vllm:nixl_num_notifications_after_expiry", "a message about a transfer, not the transfer"),
    Unused("vllm:mooncake_num_descriptors", _HALVES),
    Unused("vllm:mooncake_num_kv_expired_reqs", "KV that nobody fetched in time: nothing was transferred"),
    Unused("vllm:mooncake_store_operation", "look-ups are among them; loads and stores are timed"),
    Unused("vllm:mooncake_store_operation_keys", _HALVES),
    Unused("vllm:mooncake_store_operation_failed_keys", "keys, of which one operation holds many"),
    Unused("vllm:umbp_transfer_submitted", _HALVES),
    Unused("vllm:kv_offload_total_time", "busy seconds of the copies, which run beside each other"),
    Unused("vllm:kv_offload_load_time", "busy seconds of the copies, which run beside each other"),
    Unused("vllm:kv_offload_store_time", "busy seconds of the copies, which run beside each other"),
    Unused("vllm:kv_offload_size", _HALVES),
    Unused("vllm:kv_offload_load_size", _HALVES),
    Unused("vllm:kv_offload_store_size", _HALVES),
    Unused("vllm:kv_offload_lookup_*", "time of the offload tier's own look-ups"),
    Unused("vllm:kv_offload_allocation_failure", "a store that found no room: the KV is not kept, no request fails"),
    Unused("vllm:kv_offload_stores_skipped", "stores that were not needed"),
    Unused("vllm:kv_offload_cpu_cache_read_usage_perc", "a part of kv_offload_cpu_cache_usage_perc"),
    Unused("vllm:kv_offload_cpu_cache_write_usage_perc", "a part of kv_offload_cpu_cache_usage_perc"),
    Unused("vllm:kv_offload_cpu_allocation_size", "chunks, whose size the page does not show"),
    Unused("vllm:kv_offload_config_info", "settings, no measurement"),
    Unused("vllm:model_config_info", "settings, no measurement"),
    Unused("vllm:kv_offload_tiering_*", _TIERS),
    Unused("vllm:simple_kv_offload_load_blocks", _BLOCKS),
    Unused("vllm:simple_kv_offload_pending_store_blocks", _BLOCKS),
    Unused("vllm:simple_kv_offload_save_outcomes", _BLOCKS),
    Unused("vllm:hisparse_cache_*", _SPARSE),
    Unused("vllm:hisparse_host_block_*", _SPARSE),
    Unused("vllm:hisparse_pending_page_transfers", _SPARSE),
    Unused("vllm:hisparse_*", "counters of 0.30 and 0.31, whose names changed with 0.32"),
    # -- beside vLLM's own ----------------------------------------------------------------------------------------
    Unused("http_request_duration_seconds", "three edges (0.1, 0.5, 1 s), and of a stream the whole answer"),
    Unused("http_request_duration_highr_seconds", "all handlers in one, the metrics page among them"),
    Unused("http_request_size_bytes", _HTTP),
    Unused("http_response_size_bytes", _HTTP),
    *(Unused(f"ray_{part}*", "Ray's own: its cluster, its proxies, its tasks") for part in _RAY),
    Unused("autoscaler_*", "Ray's own: its cluster, its proxies, its tasks"),
)
