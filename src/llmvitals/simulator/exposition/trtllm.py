"""The engine's metrics page as trtllm-serve writes it at ``/prometheus/metrics`` (TensorRT-LLM, main of 2026).

Everything about a request, its first-token time and its tokens included, counts when it ends; a value of 0 is left out but for
the queue time. Gauges come from the statistics of iterations: they show the last one as it began, also once nobody runs any
more, and carry the ``pid`` of the process. The time per token is a mean per request. Reuse of KV counts in blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from llmvitals.simulator.counters import Counters, Histogram
from llmvitals.simulator.engine import Engine, Gauges
from llmvitals.simulator.exposition.text import COUNTER, GAUGE, Labels, Samples, head, histogram, scalar, spell

PID = "1"


def _cached(c: Counters) -> float:
    return c.request_prompt.sum - c.request_computed.sum


def _found(c: Counters) -> float:
    return c.hit_tokens / c.query_tokens if c.query_tokens else 0.0


def _by_reason(engine: Engine) -> Samples:
    finished = engine.counters.finished
    return [((("finished_reason", reason),), count) for reason, count in finished.items() if count]


def _errors(engine: Engine) -> Samples:
    c = engine.counters
    told = {"400": c.http["4xx"], "500": max(0, c.http["5xx"] - c.rejected), "503": c.rejected}
    return [((("http_code", code),), count) for code, count in told.items() if count]


def _one(value: Callable[[Engine], float]) -> Callable[[Engine], Samples]:
    return lambda engine: [((), value(engine))]


# Counters without their _total.
COUNTERS: Mapping[str, tuple[str, Callable[[Engine], Samples]]] = {
    "request_success": ("Requests that ended, by reason.", _by_reason),
    "request_error": ("Requests that failed, by HTTP code.", _errors),
    "prompt_tokens": ("Prompt tokens of ended requests.", _one(lambda e: e.counters.request_prompt.sum)),
    "generation_tokens": ("Tokens of ended requests.", _one(lambda e: e.counters.request_generated.sum)),
    "prompt_cached_tokens": ("Prompt tokens of ended requests from a cache.", _one(lambda e: _cached(e.counters))),
    "kv_cache_reused_blocks": (
        "KV blocks used again.",
        _one(lambda e: e.counters.hit_tokens // e.config.block_tokens),
    ),
    "kv_cache_missed_blocks": (
        "KV blocks looked for in vain.",
        _one(lambda e: (e.counters.query_tokens - e.counters.hit_tokens) // e.config.block_tokens),
    ),
    "num_requests_completed": ("Ended requests, by iteration.", _one(lambda e: e.counters.e2e.count)),
}

HISTOGRAMS: Mapping[str, tuple[str, Callable[[Counters], Histogram]]] = {
    "e2e_request_latency_seconds": ("Arrival to last token.", lambda c: c.e2e),
    "time_to_first_token_seconds": ("Arrival to first token.", lambda c: c.ended_first_token),
    "time_per_output_token_seconds": ("Mean time per token of a request.", lambda c: c.per_token),
    "request_queue_time_seconds": ("Arrival to first scheduled.", lambda c: c.queue),
    "request_prefill_time_seconds": ("First scheduled to first token.", lambda c: c.prefill),
    "request_decode_time_seconds": ("First to last token.", lambda c: c.decode),
    "request_inference_time_seconds": ("First scheduled to last token.", lambda c: c.inference),
}

# Of the last iteration; g: the state that it began with.
ITERATION: Mapping[str, Callable[[Engine, Gauges], float]] = {
    "num_requests_running": lambda e, g: g.running,
    "num_requests_waiting": lambda e, g: g.waiting,
    "num_scheduled_requests": lambda e, g: g.running,
    "num_paused_requests": lambda e, g: 0,
    "max_num_active_requests": lambda e, g: e.config.max_num_seqs,
    "kv_cache_utilization": lambda e, g: g.usage,
    "kv_cache_hit_rate": lambda e, g: _found(e.counters),
    "kv_cache_max_blocks": lambda e, g: e.config.blocks,
    "kv_cache_used_blocks": lambda e, g: round(g.usage * e.config.blocks),
    "kv_cache_free_blocks": lambda e, g: e.config.blocks - round(g.usage * e.config.blocks),
    "kv_cache_tokens_per_block": lambda e, g: e.config.block_tokens,
    "max_batch_size_static": lambda e, g: e.config.max_num_seqs,
    "max_batch_size_runtime": lambda e, g: e.config.max_num_seqs,
    "max_num_tokens_runtime": lambda e, g: e.config.max_num_batched_tokens,
}


def page(engine: Engine, origin: float, uptime: float) -> Iterator[str]:
    """The page's lines. ``origin`` and ``uptime`` are on no such page."""
    own: Labels = (("engine_type", "trtllm"), ("model_name", engine.config.model))
    for name, (text, read) in COUNTERS.items():
        yield from scalar(f"trtllm_{name}_total", COUNTER, text, read(engine), own)
    for name, (text, counted) in HISTOGRAMS.items():
        yield from histogram(f"trtllm_{name}", text, counted(engine.counters), own)
    if engine.counters.steps:  # no iteration, no statistics of one
        for name, shown in ITERATION.items():
            samples: Samples = [((("pid", PID),), shown(engine, engine.reports.last))]
            yield from scalar(f"trtllm_{name}", GAUGE, "Multiprocess metric", samples, own)
    if engine.config.speculation is not None:
        yield from _speculation(engine, own)
    yield from _config(engine, own)


def _speculation(engine: Engine, own: Labels) -> Iterator[str]:
    """Drafts as iterations count them, and once more by position."""
    c, name = engine.counters, "trtllm_spec_decode"
    yield from scalar(f"{name}_num_draft_tokens_total", COUNTER, "Drafted tokens.", [((), c.draft_tokens)], own)
    yield from scalar(f"{name}_num_accepted_tokens_total", COUNTER, "Accepted tokens.", [((), c.accepted_tokens)], own)
    taken: Samples = [((("token_position", str(p)),), n) for p, n in sorted(c.accepted_per_position.items())]
    drafted: Samples = [(labels, c.drafts) for labels, _ in taken]
    yield from scalar(f"{name}_drafted_tokens_total", COUNTER, "Drafted tokens by position.", drafted, own)
    yield from scalar(f"{name}_accepted_tokens_total", COUNTER, "Accepted tokens by position.", taken, own)


def _config(engine: Engine, own: Labels) -> Iterator[str]:
    config = engine.config
    labels: Labels = (
        *own,
        ("enable_block_reuse", str(config.prefix_caching)),
        ("free_gpu_memory_fraction", repr(config.gpu_memory_utilization)),
        ("tokens_per_block", str(config.block_tokens)),
    )
    yield from head("trtllm_kv_cache_config_info", GAUGE, "The cache's settings as labels.")
    yield f"trtllm_kv_cache_config_info{spell(labels)} 1.0"
