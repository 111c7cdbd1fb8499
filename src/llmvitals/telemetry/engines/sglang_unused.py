"""SGLang's series that are known and not taken, with the reason of each."""

from __future__ import annotations

from llmvitals.telemetry.mapping import Unused

_DP = "how data-parallel ranks work together; each rank's own numbers are taken"
_STEPS = "time of the scheduler's and the GPU's steps, not of requests"
_GRAMMAR = "grammars of structured output; those that wait for one are in the queue"
_HICACHE = "between host memory and storage; bytes to and from the GPU are taken"
_TOKENS = "the same movement in tokens, repeated by each rank; its bytes are taken"
_STARTUP = "of the start, which is over"
_POOLS = "tokens of a pool; the usage of the fullest one is taken"
_LAST = "of the last report only"
_GB = "memory in GB, as measured once"
_SETTING = "a setting, no measurement"
_KEYS = "routing keys, not requests"
_PLACING = "only tells releases apart"

UNUSED: tuple[Unused, ...] = (
    Unused("sglang:diffusion_*", "SGLang's image and video server, not a language model"),
    Unused("sglang:encoder_*", "the encoder server of multimodal models; its users see the language server's times"),
    Unused("sglang:dp_attention_*", _DP),
    Unused("sglang:dp_cooperation_*", _DP),
    Unused("sglang:eplb_*", "how evenly experts are used"),
    Unused("sglang:func_latency_seconds", "timers of single functions"),
    Unused(
        "sglang:per_stage_req_latency_seconds", "a prompt in several chunks is timed chunk by chunk, never as a whole"
    ),
    Unused("sglang:forward_execution_seconds", _STEPS),
    Unused("sglang:gpu_execution_seconds", _STEPS),
    Unused("sglang:gpu_overlap_wait_seconds", _STEPS),
    Unused("sglang:scheduler_stage_seconds", _STEPS),
    Unused("sglang:scheduler_idle_seconds", _STEPS),
    Unused("sglang:scheduler_process_cpu_seconds", "the scheduler's CPU; that of the process that answers is taken"),
    Unused("sglang:fwd_occupancy", "percent of the time in the forward pass, of the last report"),
    Unused("sglang:gen_throughput", "a mean over the last log interval; rates follow from the token counters"),
    Unused("sglang:get_loads_duration_seconds", "of the page that tells loads, no request"),
    Unused("sglang:utilization", "a load against a configured limit; it stays 0 in newer releases"),
    Unused("sglang:max_running_requests_under_SLO", _SETTING),
    Unused("sglang:avg_request_queue_latency", "a mean; the histogram of queue times came with 0.5.2"),
    Unused("sglang:time_to_first_token_seconds_offline_batch", "of offline batches, for which nobody waits"),
    Unused("sglang:num_running_reqs_offline_batch", "of offline batches, which are among the running requests"),
    Unused("sglang:num_so_requests", "structured output among the requests"),
    Unused("sglang:num_grammar_*", _GRAMMAR),
    Unused("sglang:num_grammar", _GRAMMAR),
    Unused("sglang:grammar_*", _GRAMMAR),
    Unused("sglang:http_requests", "received, not answered; the answers by status are taken"),
    Unused("sglang:http_requests_active", "over all endpoints, the metrics page among them"),
    Unused("sglang:num_paused_reqs", "paused by a weight update, as of the last report"),
    Unused("sglang:num_retracted_reqs", "retractions since the last report, in a gauge; the total is taken"),
    Unused("sglang:num_retracted_input_tokens", "tokens of retracted requests; retractions are taken"),
    Unused("sglang:num_retracted_output_tokens", "tokens of retracted requests; retractions are taken"),
    Unused("sglang:decode_sum_seq_lens", _LAST),
    Unused("sglang:is_cuda_graph", _LAST),
    Unused("sglang:new_token_ratio", _LAST),
    Unused("sglang:cuda_graph_passes", _PLACING),
    Unused("sglang:prefill_delayer_*", "how long the scheduler holds prefill back; it is in the queue time"),
    Unused("sglang:routing_key*", _KEYS),
    Unused("sglang:num_unique_running_routing_keys", _KEYS),
    Unused("sglang:num_streaming_sessions", "sessions, not requests"),
    Unused("sglang:streaming_session_held_tokens", _POOLS),
    # -- pools ----------------------------------------------------------------------------------------------------
    Unused("sglang:num_used_tokens", _POOLS),
    Unused("sglang:kv_available_tokens", _POOLS),
    Unused("sglang:kv_evictable_tokens", _POOLS),
    Unused("sglang:kv_used_tokens", _POOLS),
    Unused("sglang:full_token_usage", _POOLS),
    Unused("sglang:pending_prealloc_token_usage", "KV set aside for requests whose KV is on its way"),
    Unused("sglang:prealloc_*_token_usage", "KV set aside for requests whose KV is on its way"),
    Unused("sglang:evicted_tokens", "what the prefix cache let go; its hits are taken"),
    Unused("sglang:eviction_duration_seconds", "time of the prefix cache's own work"),
    Unused("sglang:lora_pool_utilization", "used slots over slots, which are both taken"),
    Unused("sglang:spec_accept_length", _LAST),
    Unused("sglang:spec_accept_rate", _LAST),
    Unused("sglang:spec_block_accept_length", _LAST),
    Unused("sglang:spec_cap_length", _SETTING),
    Unused("sglang:spec_num_draft_tokens", _SETTING),
    Unused("sglang:spec_num_steps", _SETTING),
    # -- KV transfer and offload ----------------------------------------------------------------------------------
    Unused("sglang:kv_transfer_speed_gb_s", "bytes over time, which are both taken; GB/s"),
    Unused("sglang:kv_transfer_bootstrap_ms", "before the transfer, whose own time is taken; ms"),
    Unused("sglang:kv_transfer_alloc_ms", "before the transfer, whose own time is taken; ms"),
    Unused("sglang:num_prefill_infight_queue_reqs", "requests that are prefilled and whose KV is being sent"),
    Unused("sglang:num_prefill_inflight_queue_reqs", "requests that are prefilled and whose KV is being sent"),
    Unused("sglang:num_prefill_retries", "prefills begun again after a failed transfer, which is counted"),
    Unused("sglang:num_decode_host_receive_*", "KV that arrives in host memory first"),
    Unused("sglang:num_decode_deferred_kv_release_reqs", "failed requests that hold KV a little longer"),
    Unused("sglang:decode_deferred_kv_release*", "failed requests that hold KV a little longer"),
    Unused("sglang:failed_session_recoveries", "sessions of the transfer library, not transfers"),
    Unused("sglang:load_back_tokens", _TOKENS),
    Unused("sglang:load_back_duration_seconds", "time of each copy; its bytes are taken"),
    Unused("sglang:hicache_backup_tokens", _TOKENS),
    Unused("sglang:hicache_backup_duration_seconds", "time of each copy; its bytes are taken"),
    Unused(
        "sglang:hicache_backup_dropped_tokens", "KV that found no room on the host: it is not kept, no request fails"
    ),
    Unused("sglang:hicache_dropped_tokens", "KV that found no room on the host: it is not kept, no request fails"),
    Unused("sglang:hicache_host_mamba_*", "states of hybrid models, no tokens"),
    Unused("sglang:hicache_prefetch_aux_alloc_failed_tokens", _HICACHE),
    Unused("sglang:prefetch*", _HICACHE),
    Unused("sglang:backup*", _HICACHE),
    Unused("sglang:storage_prefetch_deferred_tokens", _HICACHE),
    Unused("sglang:storage_prefetch_unfulfilled_tokens", _HICACHE),
    # -- start and memory -----------------------------------------------------------------------------------------
    Unused("sglang:engine_load_weights_time", _STARTUP),
    Unused("sglang:engine_startup_time", _STARTUP),
    Unused("sglang:startup_*", _STARTUP),
    Unused("sglang:weight_load_duration_seconds", "of the last weight update, an operator's own work"),
    Unused("sglang:weight_memory_usage_gb", _GB),
    Unused("sglang:graph_memory_usage_gb", _GB),
    Unused("sglang:kv_cache_memory_usage_gb", _GB),
)
