"""The engine's metrics page as SGLang 0.5.23 writes it, with --enable-metrics.

It comes from several processes, which is why it shows no process and no series that was never touched. The front end
counts requests when they have ended, those included whose client left while they ran; the scheduler counts tokens as they
are made, and writes its gauges now and then (:mod:`reports`). HTTP answers count when they begin: a stream with its first
token. Two simplifications: a prompt's tokens count with its first token and not with each of its chunks, and the gaps of
speculative decoding are one per step, as in vLLM, and not one per token.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate

from llmvitals.simulator.counters import Counters, Histogram
from llmvitals.simulator.engine import Engine, Gauges
from llmvitals.simulator.exposition.text import COUNTER, GAUGE, Labels, Samples, spell

ENDPOINT: Labels = (("endpoint", "/v1/completions"), ("method", "POST"))
_STREAMS: Labels = (("is_streaming", "true"),)


def _whole(c: Counters) -> Histogram:
    return c.e2e + c.left_e2e


def _prompts(c: Counters) -> Histogram:
    return c.request_prompt + c.left_prompt


def _outputs(c: Counters) -> Histogram:
    return c.request_generated + c.left_generated


# The scheduler's gauges, from what it reported; an idle one reports zeros.
GAUGES: Mapping[str, Callable[[Engine, Gauges], float]] = {
    "num_running_reqs": lambda e, g: g.running,
    "num_queue_reqs": lambda e, g: g.waiting - g.held,
    "num_grammar_queue_reqs": lambda e, g: 0 if e.config.transfer else g.held,
    "num_prefill_bootstrap_queue_reqs": lambda e, g: 0,
    "num_prefill_inflight_queue_reqs": lambda e, g: 0,
    "num_decode_prealloc_queue_reqs": lambda e, g: 0,
    "num_decode_transfer_queue_reqs": lambda e, g: g.held if e.config.transfer else 0,
    "token_usage": lambda e, g: round(g.usage, 2),
    "full_token_usage": lambda e, g: round(g.usage, 2),
    "swa_token_usage": lambda e, g: 0,
    "mamba_usage": lambda e, g: 0,
    "num_used_tokens": lambda e, g: round(g.usage * e.config.pool_tokens),
    "kv_used_tokens": lambda e, g: round(g.usage * e.config.pool_tokens),
    **{
        f"{pool}_{part}_tokens": lambda e, g: 0
        for pool in ("swa", "mamba")
        for part in ("available", "evictable", "used")
    },
    "cache_hit_rate": lambda e, g: e.reports.hits,
    "spec_accept_length": lambda e, g: 1 + e.counters.accepted_tokens / e.counters.drafts if e.counters.drafts else 0,
    "spec_num_steps": lambda e, g: e.config.speculation.tokens if e.config.speculation else 0,
    "spec_num_draft_tokens": lambda e, g: e.config.speculation.tokens + 1 if e.config.speculation else 0,
    "spec_cap_length": lambda e, g: 0,
    "new_token_ratio": lambda e, g: 0.7,
    "utilization": lambda e, g: 0,
    "is_cuda_graph": lambda e, g: 1,
}

# What it says once, at its start.
CONSTANTS: Mapping[str, Callable[[Engine], float]] = {
    "max_total_num_tokens": lambda e: e.config.pool_tokens,
    "page_size": lambda e: e.config.block_tokens,
    "num_pages": lambda e: e.config.blocks,
    "context_len": lambda e: e.config.max_model_len,
}

# Counters, and whose labels they have; absent while 0.
COUNTERS: Mapping[str, tuple[str, Callable[[Engine], Samples]]] = {
    "prompt_tokens": ("front", lambda e: [(_STREAMS, _prompts(e.counters).sum)]),
    "generation_tokens": ("front", lambda e: [(_STREAMS, _outputs(e.counters).sum)]),
    "num_requests": ("front", lambda e: [(_STREAMS, _whole(e.counters).count)]),
    "num_aborted_requests": ("front", lambda e: [((), e.counters.aborted)]),
    "cached_tokens": ("front", lambda e: [((("cache_source", "device"),), e.counters.cached_tokens)]),
    "spec_verify_calls": ("front", lambda e: [((), e.counters.drafts)]),
    "num_retracted_requests": ("scheduler", lambda e: [((), e.counters.evicted)]),
    "num_transfer_failed_reqs": ("scheduler", lambda e: [((), e.counters.kv_transfer_failures)]),
    "cuda_graph_passes": ("scheduler", lambda e: [((("mode", "decode_cuda_graph"),), e.counters.steps)]),
    "scheduler_idle_seconds": ("scheduler", lambda e: [((), max(0.0, e.clock.now - e.counters.busy_seconds))]),
    "realtime_tokens": ("scheduler", lambda e: [((("mode", mode),), v) for mode, v in _realtime(e.counters).items()]),
    "process_cpu_seconds": ("component", lambda e: [((), e.counters.process_seconds)]),
    "http_responses": ("endpoint", lambda e: [((("status_code", c),), v) for c, v in _answers(e.counters).items()]),
}

HISTOGRAMS: Mapping[str, tuple[str, Callable[[Counters], Histogram]]] = {
    "time_to_first_token_seconds": ("stream", lambda c: c.first_token),
    "inter_token_latency_seconds": ("front", lambda c: c.token_gap),
    "request_time_per_output_token_seconds": ("stream", lambda c: c.per_token),
    "e2e_request_latency_seconds": ("stream", _whole),
    "prompt_tokens_histogram": ("front", _prompts),
    "uncached_prompt_tokens_histogram": ("front", lambda c: c.request_computed),
    "generation_tokens_histogram": ("front", _outputs),
    "queue_time_seconds": ("scheduler", lambda c: c.waited),
}


def _realtime(c: Counters) -> dict[str, float]:
    return {
        "prefill_compute": c.prompt_tokens - c.cached_tokens - c.received_tokens,
        "prefill_cache": c.cached_tokens,
        "decode": c.generated_tokens - c.first_token.count,
    }


def _answers(c: Counters) -> dict[str, float]:
    return {"200": c.first_token.count, "400": c.http["4xx"], "500": c.http["5xx"] - c.rejected, "503": c.rejected}


def page(engine: Engine, origin: float, uptime: float) -> Iterator[str]:
    """The page's lines. ``origin`` and ``uptime`` are on no SGLang page."""
    kind = "decode" if engine.config.transfer else "unified"
    front: Labels = (("model_name", engine.config.model), ("engine_type", kind))
    scheduler: Labels = (*front, ("tp_rank", "0"), ("pp_rank", "0"), ("moe_ep_rank", "0"))
    own: dict[str, Labels] = {
        "front": front,
        "stream": (*front, *_STREAMS),
        "scheduler": scheduler,
        "component": (("component", "tokenizer"),),
        "endpoint": ENDPOINT,
    }
    yield from _gauges(engine, scheduler)
    for name, (whose, counted) in COUNTERS.items():
        yield from _family(
            f"{name}_total", COUNTER, [(labels, v) for labels, v in counted(engine) if v > 0], own[whose]
        )
    yield from _prefilled(engine, scheduler)
    for name, (whose, read) in HISTOGRAMS.items():
        yield from _histogram(f"sglang:{name}", read(engine.counters), own[whose])


def _gauges(engine: Engine, own: Labels) -> Iterator[str]:
    idle = engine.in_flight == 0
    if engine.reports.at > -math.inf or idle:
        there = engine.reports.shown(engine.clock.now, engine.gauges, idle=idle)
        for name, read in GAUGES.items():
            yield from _family(name, GAUGE, [((), read(engine, there))], own)
        if engine.adapter_sets:
            yield from _family("lora_pool_slots_used", GAUGE, [((), len(there.running_adapters))], own)
            yield from _family("lora_pool_slots_total", GAUGE, [((), engine.config.max_loras)], own)
    for name, told in CONSTANTS.items():
        yield from _family(name, GAUGE, [((), told(engine))], own)


def _prefilled(engine: Engine, own: Labels) -> Iterator[str]:
    """Prompt tokens by where their KV came from: the only counter that is there from the start, with all its labels."""
    told = _realtime(engine.counters)
    modes = {"input": told["prefill_compute"], "device_hit": told["prefill_cache"], "host_hit": 0, "storage_hit": 0}
    samples: Samples = [((("mode", mode),), value) for mode, value in modes.items()]
    yield from _family("prefill_effective_tokens_total", COUNTER, samples, own)


def _family(name: str, kind: str, samples: Samples, own: Labels) -> Iterator[str]:
    if samples:
        yield f"# HELP sglang:{name} Multiprocess metric"
        yield f"# TYPE sglang:{name} {kind}"
    for labels, value in samples:
        yield f"sglang:{name}{spell(own + labels)} {float(value)!r}"


def _histogram(name: str, counted: Histogram, own: Labels) -> Iterator[str]:
    if not counted.count:
        return
    yield f"# HELP {name} Multiprocess metric"
    yield f"# TYPE {name} histogram"
    yield f"{name}_sum{spell(own)} {float(counted.sum)!r}"
    for edge, value in zip([*map(repr, map(float, counted.bounds)), "+Inf"], accumulate(counted.counts), strict=True):
        yield f"{name}_bucket{spell((*own, ('le', edge)))} {float(value)!r}"
    yield f"{name}_count{spell(own)} {float(counted.count)!r}"
