"""The engine's metrics page as TGI 3.3.7's router writes it: no label of a model, counters without ``_total``.

Lengths of a prompt and of what was asked for count as a request arrives, everything else about it as it ends. There is no
first-token time. A request on an OpenAI route counts twice in ``tgi_request_count``, once in ``tgi_request_success``. The time
per token is the whole time inside the engine over all tokens. A batch holds what its requests may grow to
(``tgi_batch_current_max_tokens``), and no more is admitted than the budget has. What was never touched is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from llmvitals.simulator.counters import Counters, Histogram
from llmvitals.simulator.engine import Engine
from llmvitals.simulator.exposition.text import COUNTER, GAUGE, Samples, head, histogram, plain, scalar

HANDLERS = 2
"""How often a request on /v1/* counts as received."""


def _received(engine: Engine) -> float:
    c = engine.counters
    return HANDLERS * (engine.arrived + c.rejected + c.http["4xx"])


def _failures(engine: Engine) -> Samples:
    c = engine.counters
    told = {
        "overloaded": c.rejected,
        "validation": c.http["4xx"],
        "generation": max(0, c.http["5xx"] - c.rejected),
        "dropped": c.aborted,
    }
    return [((("err", reason),), count) for reason, count in told.items() if count]


def reserved_tokens(engine: Engine) -> float:
    """Tokens that the running requests hold at their longest."""
    size = engine.config.block_tokens
    return sum(-(-(s.request.prompt + s.asked) // size) * size for s in engine.state.running)


def _touched(value: Callable[[Engine], float]) -> Callable[[Engine], Samples]:
    return lambda engine: [((), number)] if (number := value(engine)) else []


def _after_first(value: Callable[[Engine], float]) -> Callable[[Engine], Samples]:
    """A gauge that is there from the first request on."""
    return lambda engine: [((), value(engine))] if engine.arrived else []


def _batches(engine: Engine) -> Samples:
    c = engine.counters
    decodes = max(0, c.steps - c.first_token.count)
    told = {"prefill": c.first_token.count, "decode": decodes}
    return [((("method", method),), count) for method, count in told.items() if count]


SCALARS: Mapping[str, tuple[str, str, Callable[[Engine], Samples]]] = {
    "tgi_request_count": (COUNTER, "Requests that reached a handler.", _touched(_received)),
    "tgi_request_success": (COUNTER, "Requests that were answered.", _touched(lambda e: e.counters.e2e.count)),
    "tgi_request_failure": (COUNTER, "Requests that failed, by kind of error.", _failures),
    "tgi_batch_inference_count": (COUNTER, "Calls of the model.", _batches),
    "tgi_batch_inference_success": (COUNTER, "Calls of the model that went well.", _batches),
    "tgi_queue_size": (GAUGE, "Requests in the queue.", _after_first(lambda e: e.gauges.waiting)),
    "tgi_batch_current_size": (GAUGE, "Requests in the batch.", _after_first(lambda e: e.gauges.running)),
    "tgi_batch_current_max_tokens": (GAUGE, "Tokens that the batch may grow to.", _after_first(reserved_tokens)),
    "tgi_batch_max_total_tokens": (
        GAUGE,
        "Tokens that a batch may have at most.",
        lambda e: [((), e.config.pool_tokens)],
    ),
}

HISTOGRAMS: Mapping[str, tuple[str, Callable[[Counters], Histogram]]] = {
    "tgi_request_duration": ("Whole request.", lambda c: c.e2e),
    "tgi_request_queue_duration": ("Queued to batch.", lambda c: c.queue),
    "tgi_request_inference_duration": ("Batch to last token.", lambda c: c.inference),
    "tgi_request_mean_time_per_token_duration": ("Time in the batch over tokens.", lambda c: c.per_token),
    "tgi_request_generated_tokens": ("Generated tokens.", lambda c: c.request_generated),
    "tgi_request_input_length": ("Prompt tokens.", lambda c: c.came_prompt),
    "tgi_request_max_new_tokens": ("Tokens asked for.", lambda c: c.came_max_tokens),
}


def page(engine: Engine, origin: float, uptime: float) -> Iterator[str]:
    """The page's lines. ``origin`` and ``uptime`` are on no TGI page."""
    for name, (kind, text, read) in SCALARS.items():
        yield from scalar(name, kind, text, read(engine), number=plain)
    for name, (text, counted) in HISTOGRAMS.items():
        told = counted(engine.counters)
        if told.count:
            yield from histogram(name, text, told, (), number=plain)
    yield from _skipped(engine)


def _skipped(engine: Engine) -> Iterator[str]:
    """Tokens that speculation brought beyond one a step: a summary, for TGI gives it no bounds."""
    c = engine.counters
    if c.drafts:
        name = "tgi_request_skipped_tokens"
        yield from head(name, "summary", "Tokens beyond one a step.")
        mean = c.accepted_tokens / c.drafts
        for quantile in ("0", "0.5", "0.9", "0.95", "0.99", "0.999", "1"):
            yield f'{name}{{quantile="{quantile}"}} {plain(round(mean))}'
        yield f"{name}_sum {plain(c.accepted_tokens)}"
        yield f"{name}_count {plain(c.drafts)}"
