"""The engine's metrics page as vLLM's V0 engine writes it in 0.7.3: its names, labels and bounds; no ``_created`` series.

``num_gpu_blocks`` is what requests can hold: V0 has no null block. Requests swapped out are a gauge of their own and do
not wait. The prefix cache shows its own ratio over the lifetime of the process, -1 while nothing was looked up.
"""

from __future__ import annotations

from collections.abc import Iterator

from llmvitals.simulator.config import Preemption
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
from llmvitals.simulator.exposition.vllm_v1 import adapters, speculates

CPU_BLOCKS = 2048
"""V0's default --swap-space of 4 GiB in blocks of 16 tokens of an 8B model."""


def _hit_rate(engine: Engine) -> float:
    c = engine.counters
    return c.hit_tokens / c.query_tokens if c.query_tokens else -1.0


def _host_usage(engine: Engine) -> float:
    """Share of the host's blocks that hold swapped requests."""
    size = engine.config.block_tokens
    blocks = sum(-(-s.computed // size) for s in engine.state.waiting if s.swapped)
    return min(1.0, blocks / CPU_BLOCKS)


SIMPLE: tuple[Simple, ...] = (
    Simple("vllm:num_requests_running", GAUGE, "Requests in the batch.", one(lambda e: e.gauges.running)),
    Simple(
        "vllm:num_requests_waiting",
        GAUGE,
        "Requests in the queue.",
        one(lambda e: e.gauges.waiting - e.gauges.swapped),
    ),
    Simple("vllm:num_requests_swapped", GAUGE, "Requests in host memory.", one(lambda e: e.gauges.swapped)),
    Simple("vllm:gpu_cache_usage_perc", GAUGE, "Share of KV blocks in use, 0 to 1.", one(lambda e: e.gauges.usage)),
    Simple("vllm:cpu_cache_usage_perc", GAUGE, "Share of host blocks in use, 0 to 1.", one(_host_usage)),
    Simple("vllm:cpu_prefix_cache_hit_rate", GAUGE, "Hit rate of the host's blocks.", one(lambda e: -1.0)),
    Simple("vllm:gpu_prefix_cache_hit_rate", GAUGE, "Hit rate of the prefix cache.", one(_hit_rate)),
    Simple("vllm:num_preemptions", COUNTER, "Evictions.", one(lambda e: e.counters.evicted)),
    Simple("vllm:prompt_tokens", COUNTER, "Prompt tokens.", one(lambda e: e.counters.prompt_tokens)),
    Simple("vllm:generation_tokens", COUNTER, "Generated tokens.", one(lambda e: e.counters.generated_tokens)),
    Simple(
        "vllm:tokens",
        COUNTER,
        "Prompt and generated tokens.",
        one(lambda e: e.counters.prompt_tokens + e.counters.generated_tokens),
    ),
    Simple(
        "vllm:request_success",
        COUNTER,
        "Ended sequences by reason.",
        by("finished_reason", lambda e: {r: e.counters.finished[r] for r in ("stop", "length", "abort")}),
    ),
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
        "vllm:spec_decode_num_emitted_tokens",
        COUNTER,
        "Tokens that verification gave.",
        one(lambda e: e.counters.accepted_tokens + e.counters.drafts),
        when=speculates,
    ),
)

BUCKETED: tuple[Bucketed, ...] = (
    Bucketed("vllm:iteration_tokens_total", "Tokens per step.", lambda c: c.iteration),
    Bucketed("vllm:time_to_first_token_seconds", "Arrival to first token.", lambda c: c.first_token),
    Bucketed("vllm:time_per_output_token_seconds", "Gap between two outputs.", lambda c: c.token_gap),
    Bucketed("vllm:e2e_request_latency_seconds", "Arrival to last token.", lambda c: c.e2e),
    Bucketed("vllm:request_queue_time_seconds", "Queued to first scheduled.", lambda c: c.queue),
    Bucketed("vllm:time_in_queue_requests", "Queued to first scheduled.", lambda c: c.queue),
    Bucketed("vllm:request_inference_time_seconds", "First scheduled to last token.", lambda c: c.inference),
    Bucketed("vllm:request_prefill_time_seconds", "First scheduled to first token.", lambda c: c.prefill),
    Bucketed("vllm:request_decode_time_seconds", "First to last token.", lambda c: c.decode),
    Bucketed("vllm:request_prompt_tokens", "Prompt tokens of ended requests.", lambda c: c.request_prompt),
    Bucketed("vllm:request_generation_tokens", "Tokens of ended sequences.", lambda c: c.request_generated),
    Bucketed("vllm:request_max_num_generation_tokens", "Longest sequence.", lambda c: c.request_generated),
    Bucketed("vllm:request_params_n", "Sequences asked for.", lambda c: c.n),
    Bucketed("vllm:request_params_max_tokens", "Tokens asked for.", lambda c: c.request_max_tokens),
)


def page(engine: Engine, origin: float, uptime: float) -> Iterator[str]:
    """The page's lines. ``origin``: unix seconds of simulated time 0, at which the process was ``uptime`` old."""
    own: Labels = (("model_name", engine.config.model),)
    yield from process(engine, origin - uptime)
    for family in SIMPLE:
        if family.when(engine):
            yield from simple(family, family.read(engine), own)
    for counted in BUCKETED:
        yield from histogram(counted.name, counted.help, counted.read(engine.counters), own)
    yield from _config(engine)
    yield from adapters(engine, origin)
    yield from http(engine, None)


def _config(engine: Engine) -> Iterator[str]:
    config = engine.config
    swaps = config.preemption is Preemption.SWAP
    labels: Labels = (
        ("block_size", str(config.block_tokens)),
        ("cache_dtype", "auto"),
        ("cpu_offload_gb", "0"),
        ("enable_prefix_caching", str(config.prefix_caching)),
        ("gpu_memory_utilization", repr(config.gpu_memory_utilization)),
        ("num_cpu_blocks", str(CPU_BLOCKS if swaps else 0)),
        ("num_gpu_blocks", str(config.blocks)),
        ("num_gpu_blocks_override", "None"),
        ("sliding_window", "None"),
        ("swap_space_bytes", str(4 * 2**30 if swaps else 0)),
    )
    yield from head("vllm:cache_config_info", GAUGE, "The cache's settings as labels.")
    yield f"vllm:cache_config_info{spell(labels)} 1.0"
