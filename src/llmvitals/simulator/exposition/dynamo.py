"""The metrics page of NVIDIA Dynamo's front end (0.8.1), as if it stood where the simulated API process stands.

It is a gateway: first tokens and gaps count as they come, the rest of a request when it has ended. ``queued_requests`` are
those without a first token, whose prompts may be under way. ``disconnected_clients`` is called a gauge. What was never touched is
not there; the settings are those of the worker that registered first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from llmvitals.simulator.counters import Counters, Histogram
from llmvitals.simulator.engine import Engine
from llmvitals.simulator.exposition.text import COUNTER, GAUGE, Labels, Samples, histogram, plain, scalar

REQUEST: Labels = (("endpoint", "completions"), ("request_type", "stream"))


def _ended(engine: Engine) -> Samples:
    c = engine.counters
    told = {"success": c.e2e.count, "error": c.http["4xx"] + c.http["5xx"]}
    return [((*REQUEST, ("status", status)), count) for status, count in told.items() if count]


# There from the first request on.
GAUGES: Mapping[str, tuple[str, Callable[[Engine], float]]] = {
    "inflight_requests": ("Requests in flight.", lambda e: e.outlet.held),
    "queued_requests": ("Requests without a first token.", lambda e: e.outlet.unanswered),
}

SETTINGS: Mapping[str, Callable[[Engine], float]] = {
    "context_length": lambda e: e.config.max_model_len,
    "kv_cache_block_size": lambda e: e.config.block_tokens,
    "max_num_batched_tokens": lambda e: e.config.max_num_batched_tokens,
    "max_num_seqs": lambda e: e.config.max_num_seqs,
    "migration_limit": lambda e: 0,
    "total_kv_blocks": lambda e: e.config.blocks,
}

HISTOGRAMS: Mapping[str, tuple[str, Callable[[Counters], Histogram]]] = {
    "time_to_first_token_seconds": ("Request to first token.", lambda c: c.first_token),
    "inter_token_latency_seconds": ("Gap between two tokens.", lambda c: c.token_gap),
    "request_duration_seconds": ("Whole request.", lambda c: c.e2e),
    "input_sequence_tokens": ("Prompt tokens.", lambda c: c.request_prompt),
    "output_sequence_tokens": ("Generated tokens.", lambda c: c.request_generated),
}


def page(engine: Engine, origin: float, uptime: float) -> Iterator[str]:
    """The page's lines. ``origin`` and ``uptime`` are on no such page."""
    own, c = (("model", engine.config.model.lower()),), engine.counters
    left = "dynamo_frontend_disconnected_clients"
    yield from scalar(left, GAUGE, "Clients that have left.", [((), c.aborted)], number=plain)
    for name, read in SETTINGS.items():
        samples: Samples = [((("model", engine.config.model),), read(engine))]
        yield from scalar(f"dynamo_frontend_model_{name}", GAUGE, "Of the first worker.", samples, number=plain)
    if engine.arrived:
        for name, (text, shown) in GAUGES.items():
            yield from scalar(f"dynamo_frontend_{name}", GAUGE, text, [((), shown(engine))], own, number=plain)
    text = "Requests that have ended."
    yield from scalar("dynamo_frontend_requests_total", COUNTER, text, _ended(engine), own, number=plain)
    if c.generated_tokens:
        tokens: Samples = [((), c.generated_tokens)]
        yield from scalar("dynamo_frontend_output_tokens_total", COUNTER, "Tokens.", tokens, own, number=plain)
    for name, (text, counted) in HISTOGRAMS.items():
        told = counted(c)
        if told.count:
            yield from histogram(f"dynamo_frontend_{name}", text, told, own, number=plain)
