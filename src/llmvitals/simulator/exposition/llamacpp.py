"""The engine's metrics page as llama.cpp's server writes it with ``--metrics``: no labels, no histogram.

Numbers go through a C++ stream and have six significant digits. Prompt tokens count with the first token of a request, cached
ones apart; generated tokens when its slot is given back. ``n_tokens_max`` is called a counter and is a maximum. A slot is a
seat; what finds none is deferred.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from llmvitals.simulator.engine import Engine
from llmvitals.simulator.exposition.text import COUNTER, GAUGE, scalar


def stream(value: float) -> str:
    """A number as a C++ stream writes it by default."""
    return f"{value:.6g}"


def _computed(engine: Engine) -> float:
    c = engine.counters
    return c.prompt_tokens - c.cached_tokens - c.received_tokens


def _rate(tokens: float, seconds: float) -> float:
    return tokens / seconds if seconds else 0.0


SCALARS: Mapping[str, tuple[str, str, Callable[[Engine], float]]] = {
    "prompt_tokens_total": (COUNTER, "Prompt tokens processed.", _computed),
    "prompt_tokens_cached_total": (COUNTER, "Prompt tokens used again.", lambda e: e.counters.cached_tokens),
    "prompt_seconds_total": (COUNTER, "Time for prompts.", lambda e: e.counters.prompt_seconds),
    "tokens_predicted_total": (COUNTER, "Generated tokens.", lambda e: e.counters.request_generated.sum),
    "tokens_predicted_seconds_total": (COUNTER, "Time for generated tokens.", lambda e: e.counters.decode.sum),
    "n_decode_total": (COUNTER, "Calls of llama_decode().", lambda e: e.counters.steps),
    "n_tokens_max": (COUNTER, "The longest sequence.", lambda e: e.counters.most_tokens),
    "n_busy_slots_per_decode": (
        GAUGE,
        "Busy slots per call, mean.",
        lambda e: _rate(e.counters.generated_tokens, e.counters.steps),
    ),
    "prompt_tokens_seconds": (
        GAUGE,
        "Prompt tokens per second, since the start.",
        lambda e: _rate(_computed(e), e.counters.prompt_seconds),
    ),
    "predicted_tokens_seconds": (
        GAUGE,
        "Generated tokens per second, since the start.",
        lambda e: _rate(e.counters.request_generated.sum, e.counters.decode.sum),
    ),
    "requests_processing": (GAUGE, "Requests in a slot.", lambda e: e.gauges.running),
    "requests_deferred": (GAUGE, "Requests without a slot.", lambda e: e.gauges.waiting),
}

DRAFTS: Mapping[str, tuple[str, Callable[[Engine], float]]] = {
    "spec_decode_num_drafts_total": ("Drafts.", lambda e: e.counters.drafts),
    "spec_decode_num_draft_tokens_total": ("Drafted tokens.", lambda e: e.counters.draft_tokens),
    "spec_decode_num_accepted_tokens_total": ("Accepted tokens.", lambda e: e.counters.accepted_tokens),
}


def page(engine: Engine, origin: float, uptime: float) -> Iterator[str]:
    """The page's lines. ``origin`` and ``uptime`` are on no such page."""
    for name, (kind, text, read) in SCALARS.items():
        yield from scalar(f"llamacpp:{name}", kind, text, [((), read(engine))], number=stream)
    if engine.config.speculation is not None:
        for name, (text, read) in DRAFTS.items():
            yield from scalar(f"llamacpp:{name}", COUNTER, text, [((), read(engine))], number=stream)
