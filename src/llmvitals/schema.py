"""The canonical families: name, kind, unit, labels, help. Engines map onto them, signals read them; nobody else meets.

Base units only (seconds, bytes, tokens, ratios 0-1). Counters end in ``_total`` and stay cumulative. Histograms keep the
source's own ``le``. Every engine family also carries the identity labels of :data:`IDENTITY`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """Prometheus metric types."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


class Layer(StrEnum):
    """The three layers of the product, plus what is known about the telemetry itself."""

    USER = "user"  # what the user experiences
    QUEUE = "queue"  # queue and admission
    ENGINE = "engine"  # engine and hardware
    META = "meta"  # the target and the exporter


IDENTITY: tuple[str, ...] = ("instance", "model", "engine", "rank")
"""Labels that say whose number it is: target, model, kind of engine, data-parallel rank."""

SCOPE: tuple[str, ...] = ("instance", "model")
"""Labels that signals keep; everything else is summed away."""


@dataclass(frozen=True, slots=True)
class Family:
    """One canonical family. ``labels``: those beside the identity; ``unit``: base unit, '' for a plain count."""

    name: str
    kind: Kind
    unit: str
    layer: Layer
    help: str
    labels: tuple[str, ...] = ()


def _g(name: str, unit: str, layer: Layer, help: str, *labels: str) -> Family:
    return Family(name, Kind.GAUGE, unit, layer, help, labels)


def _c(name: str, unit: str, layer: Layer, help: str, *labels: str) -> Family:
    return Family(name, Kind.COUNTER, unit, layer, help, labels)


def _h(name: str, unit: str, layer: Layer, help: str, *labels: str) -> Family:
    return Family(name, Kind.HISTOGRAM, unit, layer, help, labels)


U, Q, E, M = Layer.USER, Layer.QUEUE, Layer.ENGINE, Layer.META

FAMILIES: tuple[Family, ...] = (
    # -- user experience ------------------------------------------------------------------------------------------
    _h("llm_request_ttft_seconds", "seconds", U, "Time from arrival to the first token, counted at the first token."),
    _h("llm_request_inter_token_seconds", "seconds", U, "Gap between two engine outputs of one request."),
    _h("llm_request_tpot_seconds", "seconds", U, "Mean time per output token of a finished request, after the first."),
    _h("llm_request_e2e_seconds", "seconds", U, "Arrival to last token of a finished request."),
    _c("llm_requests_finished_total", "", U, "Finished sequences by the engine's own reason.", "reason"),
    _c("llm_requests_corrupted_total", "", U, "Requests whose output held NaN logits."),
    _c("llm_http_requests_total", "", U, "HTTP requests answered by the API server.", "status", "handler"),
    # -- queue and admission --------------------------------------------------------------------------------------
    _h("llm_request_queue_seconds", "seconds", Q, "Arrival at the engine to first scheduling, of finished requests."),
    _g("llm_requests_running", "", Q, "Requests in the running batch."),
    _g("llm_requests_waiting", "", Q, "Requests in the waiting queue, preempted ones included."),
    _g("llm_requests_waiting_by_reason", "", Q, "Waiting requests by what they wait for.", "reason"),
    _g("llm_requests_swapped", "", Q, "Requests swapped out to host memory."),
    _c("llm_requests_rejected_total", "", Q, "Requests refused at admission.", "reason"),
    _c("llm_preemptions_total", "", Q, "Running requests that were evicted to make room."),
    _h("llm_request_preemptions", "", Q, "Preemptions suffered by a finished request."),
    # -- engine ---------------------------------------------------------------------------------------------------
    _h("llm_request_prefill_seconds", "seconds", E, "First scheduling to first token, of finished requests."),
    _h("llm_request_decode_seconds", "seconds", E, "First to last token, of finished requests."),
    _h("llm_request_inference_seconds", "seconds", E, "First scheduling to last token, of finished requests."),
    _h("llm_request_prompt_tokens", "tokens", E, "Prompt tokens of a finished request."),
    _h("llm_request_computed_prompt_tokens", "tokens", E, "Prompt tokens computed, cache hits left out, per request."),
    _h("llm_request_generation_tokens", "tokens", E, "Generated tokens of a finished sequence."),
    _h("llm_request_max_generation_tokens", "tokens", E, "Longest sequence of a finished request."),
    _h("llm_request_max_tokens_param", "tokens", E, "max_tokens that requests asked for, resolved by the engine."),
    _h("llm_request_n_param", "", E, "Parallel samples (n) per parent request."),
    _h("llm_iteration_tokens", "tokens", E, "Tokens handled in one engine step."),
    _c("llm_prompt_tokens_total", "tokens", E, "Prompt tokens of started requests, cached ones included."),
    _c("llm_prompt_tokens_by_source_total", "tokens", E, "Prompt tokens by where their KV came from.", "source"),
    _c("llm_prompt_tokens_cached_total", "tokens", E, "Prompt tokens served from a cache."),
    _c("llm_prompt_tokens_recomputed_total", "tokens", E, "Prompt tokens computed again after a preemption."),
    _c("llm_generation_tokens_total", "tokens", E, "Generated tokens, counted per step."),
    _g("llm_kv_usage_ratio", "ratio", E, "Share of KV blocks held by running requests."),
    _g("llm_kv_cpu_usage_ratio", "ratio", E, "Share of the host KV pool in use."),
    _g("llm_kv_capacity_tokens", "tokens", E, "Tokens that fit into the KV pool of one rank."),
    _g("llm_kv_blocks", "", E, "Usable KV blocks of one rank."),
    _g("llm_kv_block_tokens", "tokens", E, "Tokens per KV block."),
    _g("llm_max_model_tokens", "tokens", E, "The longest context the engine accepts (max_model_len)."),
    _g("llm_prefix_caching_enabled", "", E, "1 when prefix caching is on in the configuration, 0 when off."),
    _g("llm_gpu_memory_utilization_setting", "ratio", E, "The engine's gpu_memory_utilization setting."),
    _c("llm_prefix_cache_query_tokens_total", "tokens", E, "Prompt tokens looked up in the prefix cache."),
    _c("llm_prefix_cache_hit_tokens_total", "tokens", E, "Prompt tokens found in the prefix cache."),
    _g("llm_prefix_cache_reported_hit_ratio", "ratio", E, "Hit ratio as old engines compute it themselves."),
    _c("llm_external_prefix_cache_query_tokens_total", "tokens", E, "Tokens looked up in an external KV store."),
    _c("llm_external_prefix_cache_hit_tokens_total", "tokens", E, "Tokens found in an external KV store."),
    _c("llm_multimodal_cache_queries_total", "", E, "Lookups in the multimodal input cache."),
    _c("llm_multimodal_cache_hits_total", "", E, "Hits in the multimodal input cache."),
    _c("llm_spec_drafts_total", "", E, "Speculative drafts made."),
    _c("llm_spec_draft_tokens_total", "tokens", E, "Draft tokens proposed."),
    _c("llm_spec_accepted_tokens_total", "tokens", E, "Draft tokens accepted."),
    _c("llm_spec_accepted_tokens_by_position_total", "tokens", E, "Draft tokens accepted by position.", "position"),
    _g("llm_lora_slots", "", E, "Adapters that may run at once (max_loras)."),
    _g("llm_lora_running_adapters", "", E, "Adapters in the running batch."),
    _g("llm_lora_waiting_adapters", "", E, "Adapters that waiting requests need and that are not running."),
    _g("llm_engine_asleep", "", E, "1 while the engine sleeps (weights offloaded or discarded)."),
    _h("llm_kv_transfer_seconds", "seconds", E, "Time of one KV transfer between engines.", "connector"),
    _h("llm_kv_transfer_bytes", "bytes", E, "Bytes of one KV transfer.", "connector"),
    _c("llm_kv_transfer_failures_total", "", E, "Failed KV transfers.", "connector"),
    _c("llm_kv_offload_bytes_total", "bytes", E, "KV bytes moved to or from a slower tier.", "direction"),
    _g("llm_kv_offload_usage_ratio", "ratio", E, "Share of the offload tier in use."),
    _h("llm_kv_block_lifetime_seconds", "seconds", E, "Lifetime of sampled KV blocks."),
    _h("llm_kv_block_idle_before_evict_seconds", "seconds", E, "Idle time of sampled KV blocks before eviction."),
    _h("llm_kv_block_reuse_gap_seconds", "seconds", E, "Time between two uses of a sampled KV block."),
    _c("llm_estimated_flops_total", "", E, "Floating-point operations per GPU, as the engine estimates them."),
    _c("llm_estimated_read_bytes_total", "bytes", E, "Bytes read per GPU, as the engine estimates them."),
    _c("llm_estimated_write_bytes_total", "bytes", E, "Bytes written per GPU, as the engine estimates them."),
    _c("llm_process_cpu_seconds_total", "seconds", E, "CPU time of the API server process."),
    _g("llm_process_start_time_seconds", "seconds", E, "Unix time at which the API server process started."),
    _g("llm_process_resident_bytes", "bytes", E, "Resident memory of the API server process."),
    _g("llm_process_open_fds", "", E, "Open file descriptors of the API server process."),
    _g("llm_process_max_fds", "", E, "File descriptor limit of the API server process."),
    # -- GPU (joined to the engine; `gpu` is the UUID, `index` its number, `join` how the match was made) --
    _g("llm_gpu_engine_active_ratio", "ratio", E, "Time share of an active engine.", "gpu", "index", "join"),
    _g("llm_gpu_sm_active_ratio", "ratio", E, "Share of SM cycles with a resident warp.", "gpu", "index", "join"),
    _g("llm_gpu_tensor_active_ratio", "ratio", E, "Cycles with an active tensor pipe.", "gpu", "index", "join"),
    _g("llm_gpu_dram_active_ratio", "ratio", E, "Cycles in which memory moved data.", "gpu", "index", "join"),
    _g("llm_gpu_busy_ratio", "ratio", E, "Time share with any kernel (utilisation).", "gpu", "index", "join"),
    _g("llm_gpu_memory_used_bytes", "bytes", E, "Framebuffer in use.", "gpu", "index", "join"),
    _g("llm_gpu_memory_free_bytes", "bytes", E, "Framebuffer free.", "gpu", "index", "join"),
    _g("llm_gpu_memory_reserved_bytes", "bytes", E, "Framebuffer reserved by the driver.", "gpu", "index", "join"),
    _g("llm_gpu_power_watts", "watts", E, "Power draw.", "gpu", "index", "join"),
    _g("llm_gpu_temperature_celsius", "celsius", E, "Core temperature.", "gpu", "index", "join"),
    _g("llm_gpu_sm_clock_hertz", "hertz", E, "SM clock.", "gpu", "index", "join"),
    # -- the target itself ----------------------------------------------------------------------------------------
    _g("llm_target_up", "", M, "1 when the target gave a readable page, else 0."),
    _g("llm_target_answer_seconds", "seconds", M, "Time the target took to answer with its metrics page."),
    _g("llm_target_status", "", M, "HTTP status of the target's answer; 0 when there was none."),
    _g("llm_target_info", "", M, "1; the labels say which engine and version range the page speaks.", "version"),
    _g("llm_family_gap", "", M, "1 for each family the target cannot give, and why.", "family", "gap", "reason"),
)

BY_NAME: dict[str, Family] = {family.name: family for family in FAMILIES}

_SUFFIXES = ("_bucket", "_sum", "_count")


def family_of(exposed: str) -> Family | None:
    """The family that an exposed sample name belongs to, or None; histogram suffixes are understood."""
    found = BY_NAME.get(exposed)
    if found is not None:
        return found
    for suffix in _SUFFIXES:
        if exposed.endswith(suffix):
            base = BY_NAME.get(exposed[: -len(suffix)])
            return base if base is not None and base.kind is Kind.HISTOGRAM else None
    return None
