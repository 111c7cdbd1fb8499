"""The engine's metrics page as vLLM V1 0.32 writes it: same families, labels, order of samples and bucket bounds.

Gauges are those of the end of the last step. ``_created`` series are there because the real page has them.
"""

from __future__ import annotations

from collections.abc import Iterator

from llmvitals.simulator.engine import Engine
from llmvitals.simulator.exposition.api_process import http, process
from llmvitals.simulator.exposition.text import (
    COUNTER,
    GAUGE,
    Bucketed,
    Labels,
    Simple,
    by,
    head,
    histogram,
    one,
    simple,
    spell,
)


def _sources(engine: Engine) -> dict[str, float]:
    c = engine.counters
    return {
        "local_compute": c.prompt_tokens - c.cached_tokens - c.received_tokens,
        "local_cache_hit": c.cached_tokens,
        "external_kv_transfer": c.received_tokens,
    }


def speculates(engine: Engine) -> bool:
    """Whether speculative decoding is on."""
    return engine.config.speculation is not None


def _receives(engine: Engine) -> bool:
    return engine.config.transfer is not None


def _positions(engine: Engine) -> dict[str, float]:
    speculation = engine.config.speculation
    taken = engine.counters.accepted_per_position
    return {str(place): taken.get(place, 0) for place in range(speculation.tokens if speculation else 0)}


SIMPLE: tuple[Simple, ...] = (
    Simple("vllm:estimated_flops_per_gpu", COUNTER, "FLOPs per GPU; needs a flag.", one(lambda e: 0)),
    Simple("vllm:estimated_read_bytes_per_gpu", COUNTER, "Bytes read per GPU; needs a flag.", one(lambda e: 0)),
    Simple("vllm:estimated_write_bytes_per_gpu", COUNTER, "Bytes written per GPU; needs a flag.", one(lambda e: 0)),
    Simple("vllm:num_requests_running", GAUGE, "Requests in the batch.", one(lambda e: e.gauges.running)),
    Simple("vllm:num_requests_waiting", GAUGE, "Requests in the queue.", one(lambda e: e.gauges.waiting)),
    Simple(
        "vllm:num_requests_waiting_by_reason",
        GAUGE,
        "Requests in the queue by what holds them.",
        by("reason", lambda e: {"capacity": e.gauges.waiting - e.gauges.deferred, "deferred": e.gauges.deferred}),
    ),
    Simple(
        "vllm:engine_sleep_state",
        GAUGE,
        "1 for the state the engine is in.",
        by("sleep_state", lambda e: {"awake": 1, "weights_offloaded": 0, "discard_all": 0}),
    ),
    Simple("vllm:kv_cache_usage_perc", GAUGE, "Share of KV blocks in use, 0 to 1.", one(lambda e: e.gauges.usage)),
    Simple("vllm:prefix_cache_queries", COUNTER, "Prompt tokens looked up.", one(lambda e: e.counters.query_tokens)),
    Simple("vllm:prefix_cache_hits", COUNTER, "Prompt tokens found.", one(lambda e: e.counters.hit_tokens)),
    Simple("vllm:external_prefix_cache_queries", COUNTER, "Tokens looked up elsewhere.", one(lambda e: 0)),
    Simple("vllm:external_prefix_cache_hits", COUNTER, "Tokens found elsewhere.", one(lambda e: 0)),
    Simple("vllm:mm_cache_queries", COUNTER, "Media items looked up.", one(lambda e: 0)),
    Simple("vllm:mm_cache_hits", COUNTER, "Media items found.", one(lambda e: 0)),
    Simple(
        "vllm:num_preemptions", COUNTER, "Evictions, told with the next output.", one(lambda e: e.counters.preemptions)
    ),
    Simple(
        "vllm:prompt_tokens", COUNTER, "Prompt tokens, at the first output.", one(lambda e: e.counters.prompt_tokens)
    ),
    Simple("vllm:prompt_tokens_by_source", COUNTER, "Prompt tokens by origin of their KV.", by("source", _sources)),
    Simple(
        "vllm:prompt_tokens_cached", COUNTER, "Prompt tokens from a cache.", one(lambda e: e.counters.cached_tokens)
    ),
    Simple(
        "vllm:prompt_tokens_cached_by_source",
        COUNTER,
        "Prompt tokens from a cache by where it is.",
        by(
            "source",
            lambda e: {
                "device": e.counters.cached_tokens,
                **dict.fromkeys(("host", "p2p", "disk", "external_unspecified"), 0),
            },
        ),
    ),
    Simple("vllm:generation_tokens", COUNTER, "Generated tokens.", one(lambda e: e.counters.generated_tokens)),
    Simple(
        "vllm:request_success",
        COUNTER,
        "Ended sequences by reason.",
        by("finished_reason", lambda e: dict[str, float](e.counters.finished)),
    ),
    Simple(
        "vllm:admission_rejections",
        COUNTER,
        "Requests refused at the door.",
        by("reason", lambda e: {"max_num_queued_reqs": e.counters.rejected, "max_num_queued_tokens": 0}),
        labelled="model",
    ),
    Simple("vllm:spec_decode_num_drafts", COUNTER, "Drafts.", one(lambda e: e.counters.drafts), when=speculates),
    Simple(
        "vllm:spec_decode_num_draft_tokens",
        COUNTER,
        "Drafted tokens.",
        one(lambda e: e.counters.draft_tokens),
        when=speculates,
    ),
    Simple(
        "vllm:spec_decode_num_accepted_tokens",
        COUNTER,
        "Accepted drafted tokens.",
        one(lambda e: e.counters.accepted_tokens),
        when=speculates,
    ),
    Simple(
        "vllm:spec_decode_num_accepted_tokens_per_pos",
        COUNTER,
        "Accepted drafted tokens by position.",
        by("position", _positions),
        when=speculates,
    ),
    Simple(
        "vllm:nixl_num_failed_transfers",
        COUNTER,
        "Failed KV transfers.",
        one(lambda e: e.counters.kv_transfer_failures),
        when=_receives,
    ),
)

BUCKETED: tuple[Bucketed, ...] = (
    Bucketed("vllm:request_prompt_tokens", "Prompt tokens of ended requests.", lambda c: c.request_prompt),
    Bucketed("vllm:request_generation_tokens", "Tokens of ended sequences.", lambda c: c.request_generated),
    Bucketed("vllm:iteration_tokens_total", "Tokens per step with an output.", lambda c: c.iteration),
    Bucketed("vllm:request_max_num_generation_tokens", "Longest sequence.", lambda c: c.request_generated),
    Bucketed("vllm:request_params_n", "Sequences asked for.", lambda c: c.n),
    Bucketed("vllm:request_params_max_tokens", "Tokens asked for.", lambda c: c.request_max_tokens),
    Bucketed("vllm:time_to_first_token_seconds", "Arrival to first token.", lambda c: c.first_token),
    Bucketed("vllm:inter_token_latency_seconds", "Gap between two outputs.", lambda c: c.token_gap),
    Bucketed("vllm:request_time_per_output_token_seconds", "Mean gap of ended requests.", lambda c: c.per_token),
    Bucketed("vllm:e2e_request_latency_seconds", "Arrival to last token.", lambda c: c.e2e),
    Bucketed("vllm:request_queue_time_seconds", "Queued to first scheduled.", lambda c: c.queue),
    Bucketed("vllm:request_inference_time_seconds", "First scheduled to last token.", lambda c: c.inference),
    Bucketed("vllm:request_prefill_time_seconds", "First scheduled to first token.", lambda c: c.prefill),
    Bucketed("vllm:request_decode_time_seconds", "First to last token.", lambda c: c.decode),
    Bucketed("vllm:request_num_preemptions", "Evictions of ended requests.", lambda c: c.request_preemptions),
    Bucketed("vllm:request_prefill_kv_computed_tokens", "Prompt less cache hits.", lambda c: c.request_computed),
    Bucketed("vllm:nixl_xfer_time_seconds", "Time of a KV transfer.", lambda c: c.kv_transfer, when=_receives),
    Bucketed("vllm:nixl_bytes_transferred", "Bytes of a KV transfer.", lambda c: c.kv_transfer_bytes, when=_receives),
)


def page(engine: Engine, origin: float, uptime: float) -> Iterator[str]:
    """The page's lines. ``origin``: unix seconds of simulated time 0, at which the process was ``uptime`` old."""
    created = origin - uptime
    model = ("model_name", engine.config.model)
    own: dict[str, Labels] = {"engine": (("engine", "0"), model), "model": (model,)}
    yield from process(engine, created)
    for family in SIMPLE:
        if family.when(engine):
            yield from simple(family, family.read(engine), own[family.labelled], created=created)
    for counted in BUCKETED:
        if counted.when(engine):
            told = counted.read(engine.counters)
            yield from histogram(counted.name, counted.help, told, own["engine"], created=created)
    yield from _config(engine)
    yield from adapters(engine, origin)
    yield from http(engine, created)


def _config(engine: Engine) -> Iterator[str]:
    """``cache_config_info``: it has no model_name, counts the null block, and so does kv_cache_size_tokens."""
    config = engine.config
    tokens = (config.blocks + 1) * config.block_tokens
    labels: Labels = (
        ("block_size", str(config.block_tokens)),
        ("cache_dtype", "auto"),
        ("enable_prefix_caching", str(config.prefix_caching)),
        ("engine", "0"),
        ("gpu_memory_utilization", repr(config.gpu_memory_utilization)),
        ("kv_cache_max_concurrency", repr(tokens / config.max_model_len)),
        ("kv_cache_memory_bytes", str(round(tokens * config.machine.kv_bytes_per_token))),
        ("kv_cache_size_tokens", str(tokens)),
        ("num_cpu_blocks", "None"),
        ("num_gpu_blocks", str(config.blocks + 1)),
        ("num_gpu_blocks_override", "None"),
        ("prefix_caching_hash_algo", "sha256"),
        ("sliding_window", "None"),
    )
    yield from head("vllm:cache_config_info", GAUGE, "The cache's settings as labels.")
    yield f"vllm:cache_config_info{spell(labels)} 1.0"


def adapters(engine: Engine, origin: float) -> Iterator[str]:
    """``lora_requests_info``: a series for each set of adapters that was ever seen, its value the time it was last."""
    if not engine.adapter_sets:
        return
    yield from head("vllm:lora_requests_info", GAUGE, "Adapters in use, and when they were.")
    for (running, waiting), moment in engine.adapter_sets.items():
        labels: Labels = (
            ("max_lora", str(engine.config.max_loras)),
            ("running_lora_adapters", ",".join(f"adapter-{i}" for i in running)),
            ("waiting_lora_adapters", ",".join(f"adapter-{i}" for i in waiting)),
        )
        yield f"vllm:lora_requests_info{spell(labels)} {origin + moment!r}"
