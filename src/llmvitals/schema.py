"""The canonical families: name, kind, unit, labels, help. Engines map onto them, signals read them; nobody else meets.

Base units only (seconds, bytes, tokens, ratios 0-1). Counters end in ``_total`` and stay cumulative. Histograms keep the
source's own ``le``. Every engine family also carries the identity labels of :data:`IDENTITY`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache


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


class Origin(StrEnum):
    """Which kind of telemetry shows a family. An engine's own page shows the families of ENGINE."""

    ENGINE = "engine"
    GPU = "gpu"
    HOST = "host"
    GATEWAY = "gateway"
    PROBE = "probe"  # small requests of our own, timed from outside
    SPANS = "spans"  # requests told one by one, by traces
    TARGET = "target"  # the target itself, as whoever scrapes it saw it


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
    _c("llm_requests_aborted_total", "", U, "Requests given up while they waited or ran, as the engine counts them."),
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
    _g("llm_engine_role", "", E, "1; prefill or decode where a server does only that, else both.", "role"),
    _g("llm_model_bytes", "bytes", E, "Memory that the loaded model takes, wherever it lies."),
    _g("llm_model_vram_bytes", "bytes", E, "The part of it that lies in GPU memory."),
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
    _g("llm_gpu_sm_clock_max_hertz", "hertz", E, "Highest SM clock of the card.", "gpu", "index", "join"),
    _g("llm_gpu_power_limit_watts", "watts", E, "Enforced power limit.", "gpu", "index", "join"),
    _c("llm_gpu_throttle_seconds_total", "seconds", E, "Time clocks were held down.", "gpu", "index", "join", "reason"),
    _c(
        "llm_gpu_xid_events_total",
        "",
        E,
        "XID errors of the driver, counted as they came.",
        "gpu",
        "index",
        "join",
        "xid",
    ),
    _c("llm_gpu_ecc_uncorrected_total", "", E, "Uncorrectable memory errors.", "gpu", "index", "join"),
    _g("llm_gpu_row_remap_pending", "", E, "1 while a row remap waits for a reset.", "gpu", "index", "join"),
    _g("llm_gpu_memory_other_bytes", "bytes", E, "Framebuffer of other processes.", "gpu", "index", "join"),
    _g("llm_gpu_nvlink_bytes_per_second", "bytes/second", E, "NVLink traffic, both ways.", "gpu", "index", "join"),
    _g("llm_gpu_pcie_bytes_per_second", "bytes/second", E, "PCIe traffic, both ways.", "gpu", "index", "join"),
    _g(
        "llm_gpu_link_limit_bytes_per_second",
        "bytes/second",
        E,
        "What its link to its peers can carry, both ways.",
        "gpu",
        "index",
        "join",
        "link",
    ),
    _g("llm_gpu_info", "", E, "1; what the card is.", "gpu", "index", "join", "product", "mig_profile", "driver"),
    _g("llm_gpu_pod", "", E, "1; the pod that holds the GPU.", "gpu", "index", "join", "namespace", "pod", "container"),
    _g("llm_gpu_memory_total_bytes", "bytes", E, "Framebuffer of the card or the slice.", "gpu", "index", "join"),
    _g("llm_gpu_memory_temperature_celsius", "celsius", E, "Temperature of the memory.", "gpu", "index", "join"),
    _g("llm_gpu_memory_clock_hertz", "hertz", E, "Memory clock.", "gpu", "index", "join"),
    _c("llm_gpu_energy_joules_total", "joules", E, "Energy drawn.", "gpu", "index", "join"),
    _c("llm_gpu_ecc_corrected_total", "", E, "Corrected memory errors.", "gpu", "index", "join"),
    _c("llm_gpu_link_errors_total", "", E, "Replays and errors of its links.", "gpu", "index", "join", "link"),
    _g(
        "llm_gpu_peer_link",
        "",
        E,
        "1; the link to a peer: NV<lanes>, PIX, PXB, PHB, NODE or SYS, as nvidia-smi topo -m calls it.",
        "gpu",
        "index",
        "join",
        "peer",
        "link",
    ),
    _g(
        "llm_gpu_process_memory_bytes",
        "bytes",
        E,
        "Framebuffer of one process; owner: engine, other, or unknown while nobody knows whose it is.",
        "gpu",
        "index",
        "join",
        "pid",
        "owner",
    ),
    _g(
        "llm_tensor_parallel_size",
        "",
        E,
        "GPUs that share each layer of one replica; source: settings, arguments (of its process) or gpus (joined to it).",
        "source",
    ),
    # -- the host under the engine (`process`: api or engine) --
    _g(
        "llm_host_info",
        "",
        E,
        "1; where the engine's processes are; join: how they were found.",
        "join",
        "node",
        "namespace",
        "pod",
        "container",
    ),
    _g("llm_host_busiest_thread_cores", "cores", E, "CPU of the busiest thread, over the last interval.", "process"),
    _g("llm_host_cpu_cores", "cores", E, "CPU that the process used, over the last interval.", "process"),
    _g("llm_host_thread_cores", "cores", E, "CPU of a busy thread, over the last interval.", "process", "thread"),
    _g("llm_host_resident_bytes", "bytes", E, "Resident memory.", "process"),
    _g("llm_host_process_start_time_seconds", "seconds", E, "Unix time at which the process started.", "process"),
    _g("llm_host_memory_bytes", "bytes", E, "Memory of the engine's container, page cache left out."),
    _g("llm_host_memory_limit_bytes", "bytes", E, "Memory that the engine's container may use."),
    _g("llm_host_ready", "", E, "1 while the engine's pod is ready, else 0."),
    _g("llm_host_started_time_seconds", "seconds", E, "Unix time at which the engine's container started."),
    _g("llm_host_ready_time_seconds", "seconds", E, "Unix time since which the engine's pod is ready."),
    _g("llm_host_cpu_limit_cores", "cores", E, "CPU that the process may use (quota or affinity).", "process"),
    _c("llm_host_cpu_throttled_seconds_total", "seconds", E, "Time the process was held by its CPU quota.", "process"),
    _g("llm_host_open_fds", "", E, "Open file descriptors.", "process"),
    _g("llm_host_max_fds", "", E, "File descriptor limit.", "process"),
    _g("llm_host_sockets", "", E, "TCP sockets by state.", "state"),
    _g("llm_host_ephemeral_ports", "", E, "Ephemeral ports that the host may use."),
    _g("llm_host_ephemeral_ports_used", "", E, "Ephemeral ports in use, TIME_WAIT included."),
    _c("llm_host_restarts_total", "", E, "Restarts of the engine's container by what ended it.", "reason"),
    # -- the gateway in front (`gateway`: its name; `tenant`, `size`: small or large prompts, split at 1,024 tokens) --
    _c("llm_gateway_calls_total", "", Q, "Model calls that came in, retries included.", "gateway"),
    _c("llm_gateway_user_requests_total", "", Q, "Requests of users, before fan-out.", "gateway"),
    _c(
        "llm_gateway_requests_total",
        "",
        Q,
        "Model calls answered, by HTTP status (or its class; ok, error or answered where only that is known).",
        "gateway",
        "tenant",
        "status",
    ),
    _c(
        "llm_gateway_retries_total",
        "",
        Q,
        "Model calls that repeat a failed one; by: gateway where it tries again itself, else its clients do.",
        "gateway",
        "tenant",
        "by",
    ),
    _c("llm_gateway_disconnects_total", "", Q, "Clients that left before their answer ended.", "gateway"),
    _g("llm_gateway_queue_waiting", "", Q, "Calls waiting in the gateway.", "gateway"),
    _g(
        "llm_gateway_queue_limit",
        "",
        Q,
        "Most calls that may wait in the gateway; absent where nothing bounds it.",
        "gateway",
    ),
    _c(
        "llm_gateway_queue_dropped_total",
        "",
        Q,
        "Calls that the gateway's queue gave up: full, ttl, or left (their clients went away).",
        "gateway",
        "reason",
    ),
    _h("llm_gateway_queue_seconds", "seconds", Q, "Wait in the gateway's queue.", "gateway", "tenant"),
    _h("llm_gateway_ttft_seconds", "seconds", U, "Call to first token, as the gateway saw it.", "gateway", "size"),
    _c("llm_gateway_tokens_total", "tokens", Q, "Prompt and generated tokens, by tenant.", "gateway", "tenant"),
    _g(
        "llm_gateway_tenant_weight",
        "",
        Q,
        "The share that a tenant was given; absent means equal shares.",
        "gateway",
        "tenant",
    ),
    _g(
        "llm_gateway_breaker_open",
        "",
        Q,
        "1 while the circuit breaker refuses calls (to an upstream, where it is one's).",
        "gateway",
        "upstream",
    ),
    _c("llm_gateway_exact_repeats_total", "", Q, "Calls equal to an earlier one, word for word.", "gateway"),
    _c(
        "llm_gateway_cache_hits_total",
        "",
        Q,
        "Calls answered from the response cache; 0 where there is none.",
        "gateway",
    ),
    _c("llm_gateway_prompt_tokens_total", "tokens", Q, "Prompt tokens of the calls sent on.", "gateway"),
    _c(
        "llm_gateway_shared_prefix_tokens_total",
        "tokens",
        Q,
        "Prompt tokens inside text that earlier prompts share, what varies (date, user, request id) set aside.",
        "gateway",
    ),
    _g("llm_gateway_session_calls_peak", "", Q, "Most calls of one session in the last minute.", "gateway"),
    _g("llm_gateway_session_calls_median", "", Q, "Calls of the median session in the last minute.", "gateway"),
    _g(
        "llm_gateway_session_repeats_peak",
        "",
        Q,
        "Most repeats of one tool with the same arguments by one session in the last minute.",
        "gateway",
    ),
    _g("llm_gateway_planned_calls", "", Q, "Model calls that a user request was planned to make.", "gateway"),
    _c("llm_gateway_connect_errors_total", "", Q, "Connections to the engine that could not be made.", "gateway"),
    _c("llm_gateway_streams_cut_total", "", Q, "Streams that the proxy ended, by reason.", "gateway", "reason"),
    _g("llm_gateway_connections", "", Q, "Connections open at the gateway.", "gateway"),
    _g("llm_gateway_connection_limit", "", Q, "Connections that the gateway may hold.", "gateway"),
    _g("llm_gateway_calls_running", "", Q, "Calls in the gateway's hands: sent on and not answered yet.", "gateway"),
    _h("llm_gateway_request_seconds", "seconds", U, "Call to the end of its answer, as the gateway saw it.", "gateway"),
    _h("llm_gateway_tpot_seconds", "seconds", U, "Time per output token, as the gateway saw it.", "gateway"),
    _h("llm_gateway_overhead_seconds", "seconds", Q, "What the gateway itself added to a call.", "gateway"),
    _h("llm_gateway_upstream_seconds", "seconds", E, "Time an upstream took for a call.", "gateway", "upstream"),
    _g("llm_gateway_upstream_up", "", Q, "1 while the gateway holds an upstream fit for calls.", "gateway", "upstream"),
    _c(
        "llm_gateway_upstream_requests_total",
        "",
        Q,
        "Calls that an upstream answered, by HTTP status or class; ok or error where only that is known.",
        "gateway",
        "upstream",
        "status",
    ),
    _g(
        "llm_gateway_concurrency_limit",
        "",
        Q,
        "Calls that may run at once; moves where the limit is adaptive (CoDel, gradient).",
        "gateway",
    ),
    _g("llm_gateway_tenant_sequences", "", Q, "Sequences of a tenant that run or wait.", "gateway", "tenant"),
    _g("llm_gateway_reserved_tokens", "tokens", Q, "Tokens set aside for calls in hand.", "gateway", "tenant"),
    _g("llm_gateway_token_limit", "tokens", Q, "Tokens that may be set aside at once.", "gateway"),
    _c("llm_gateway_semantic_cache_hits_total", "", Q, "Calls answered from an answer to a similar prompt.", "gateway"),
    _c("llm_gateway_semantic_cache_checked_total", "", Q, "Such answers whose fitness was checked.", "gateway"),
    _c("llm_gateway_semantic_cache_wrong_total", "", Q, "Checked ones that did not fit the prompt.", "gateway"),
    _c("llm_gateway_small_model_calls_total", "", Q, "Calls that were sent to the small model.", "gateway"),
    # -- small requests of our own, timed from outside --
    _c("llm_probe_requests_total", "", U, "Probes by how they ended: ok, or what went wrong.", "outcome"),
    _h("llm_probe_ttft_seconds", "seconds", U, "Time to the first token of a probe."),
    _h("llm_probe_tpot_seconds", "seconds", U, "Time per output token of a probe, after the first."),
    _h("llm_probe_e2e_seconds", "seconds", U, "A probe from its start to its last token."),
    # -- requests told one by one; vantage: who timed them (engine, or gateway: as its callers saw them) ------------------
    _c(
        "llm_slo_requests_total",
        "",
        U,
        "Requests that ended, by whether they met every threshold of their class: yes, no (errors and refusals too), unknown.",
        "slo_class",
        "vantage",
        "met",
    ),
    _c(
        "llm_slo_missed_total",
        "",
        U,
        "Requests that missed a threshold of their class, by which: ttft, tpot, e2e, or failed; one may miss several.",
        "slo_class",
        "vantage",
        "objective",
    ),
    _g("llm_slo_objective_ratio", "", U, "Share of a class' requests that must meet its thresholds.", "slo_class"),
    _g(
        "llm_slo_threshold_seconds",
        "seconds",
        U,
        "The thresholds of a class: ttft, tpot, e2e.",
        "slo_class",
        "objective",
    ),
    _c(
        "llm_span_requests_total",
        "",
        U,
        "Requests that spans told of, by how they ended: ok, error, refused, client-error, left.",
        "slo_class",
        "vantage",
        "ended",
    ),
    _h(
        "llm_span_ttft_seconds",
        "seconds",
        U,
        "Time to the first token, request by request; size: of the prompt, small below 1,024 tokens.",
        "slo_class",
        "vantage",
        "size",
    ),
    _h("llm_span_tpot_seconds", "seconds", U, "Time per output token after the first.", "slo_class", "vantage"),
    _h("llm_span_e2e_seconds", "seconds", U, "Arrival to last token.", "slo_class", "vantage"),
    _h("llm_span_queue_seconds", "seconds", Q, "Wait in the engine's queue, request by request.", "slo_class"),
    _h("llm_span_prefill_seconds", "seconds", E, "Prefill, request by request.", "slo_class"),
    _h("llm_span_decode_seconds", "seconds", E, "Decode, request by request.", "slo_class"),
    _h(
        "llm_span_frontend_seconds",
        "seconds",
        U,
        "What a request took around the engine: the span of its caller (parent: gateway, client) less the engine's time.",
        "slo_class",
        "parent",
    ),
    _c(
        "llm_span_tokens_total",
        "tokens",
        E,
        "Tokens of requests; kind: prompt, output.",
        "slo_class",
        "vantage",
        "kind",
    ),
    _g(
        "llm_span_last_end_seconds",
        "seconds",
        M,
        "Unix time at which the newest request that spans told of had ended.",
        "vantage",
    ),
    _g(
        "llm_span_senders", "", M, "Processes whose spans are taken to be this target's, by how that was found.", "join"
    ),
    # -- the target itself ----------------------------------------------------------------------------------------
    _g("llm_target_up", "", M, "1 when the target gave a readable page, else 0."),
    _g("llm_target_answer_seconds", "seconds", M, "Time the target took to answer with its metrics page."),
    _g("llm_target_status", "", M, "HTTP status of the target's answer; 0 when there was none."),
    _g("llm_target_report_age_seconds", "seconds", M, "How old the target's gauges may be while nothing runs."),
    _g("llm_target_first_token_at_end", "", M, "1 where first tokens are counted when their request has ended."),
    _g("llm_target_info", "", M, "1; the labels say which engine and version range the page speaks.", "version"),
    _g("llm_family_gap", "", M, "1 for each family the target cannot give, and why.", "family", "gap", "reason"),
)

BY_NAME: dict[str, Family] = {family.name: family for family in FAMILIES}

LARGE_PROMPT_TOKENS = 1024
"""Prompts from here on have the label ``size`` large, all others small."""

_ORIGINS: tuple[tuple[str, Origin], ...] = (
    ("llm_gpu_memory_utilization_setting", Origin.ENGINE),
    ("llm_gpu_", Origin.GPU),
    ("llm_tensor_parallel_size", Origin.GPU),
    ("llm_host_", Origin.HOST),
    ("llm_gateway_", Origin.GATEWAY),
    ("llm_probe_", Origin.PROBE),
    ("llm_span_", Origin.SPANS),
    ("llm_slo_", Origin.SPANS),
    ("llm_target_", Origin.TARGET),
    ("llm_family_gap", Origin.TARGET),
    ("llm_", Origin.ENGINE),
)

_SUFFIXES = ("_bucket", "_sum", "_count")


@lru_cache(maxsize=4096)
def origin_of(name: str) -> Origin:
    """Which kind of telemetry shows a family or one of its samples, by its prefix."""
    return next((origin for prefix, origin in _ORIGINS if name.startswith(prefix)), Origin.ENGINE)


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
