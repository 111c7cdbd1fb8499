"""The engine's metrics page as Triton writes it with the TensorRT-LLM backend and ``histogram_latencies`` switched on.

Times are sums in microseconds of requests that have ended, but for first responses: a histogram in milliseconds. The backend
is decoupled and takes every request at once, so that Triton's own queue is empty and the real one is inside the backend
(``nv_trt_llm_request_metrics``), whose wait therefore counts as its computing. Tokens are nowhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from llmvitals.simulator.engine import Engine, Gauges
from llmvitals.simulator.exposition.text import COUNTER, GAUGE, Labels, Samples, histogram, plain, scalar

MODEL = "tensorrt_llm"
MICRO, MILLI = 1e6, 1e3


def _us(seconds: Callable[[Engine], float]) -> Callable[[Engine], Samples]:
    return lambda engine: [((), round(seconds(engine) * MICRO))]


def _one(value: Callable[[Engine], float]) -> Callable[[Engine], Samples]:
    return lambda engine: [((), value(engine))]


def _inside(engine: Engine) -> float:
    """Seconds that ended requests spent in the backend."""
    return engine.counters.queue.sum + engine.counters.inference.sum


def _failures(engine: Engine) -> Samples:
    c = engine.counters
    told = {
        "REJECTED": c.rejected,
        "CANCELED": c.aborted,
        "BACKEND": max(0, c.http["5xx"] - c.rejected),
        "OTHER": c.http["4xx"],
    }
    return [((("reason", reason),), count) for reason, count in told.items()]


COUNTERS: Mapping[str, tuple[str, Callable[[Engine], Samples]]] = {
    "nv_inference_request_success": ("Requests that went well.", _one(lambda e: e.counters.e2e.count)),
    "nv_inference_request_failure": ("Requests that failed, by reason.", _failures),
    "nv_inference_count": ("Inferences.", _one(lambda e: e.counters.e2e.count)),
    "nv_inference_exec_count": ("Batches that the model was called with.", _one(lambda e: e.arrived)),
    "nv_inference_request_duration_us": ("Whole requests.", _us(lambda e: e.counters.e2e.sum)),
    "nv_inference_queue_duration_us": (
        "Triton's own queue.",
        _us(lambda e: max(0.0, e.counters.e2e.sum - _inside(e))),
    ),
    "nv_inference_compute_input_duration_us": ("Input.", _us(lambda e: 0.0)),
    "nv_inference_compute_infer_duration_us": ("Time in the backend.", _us(_inside)),
    "nv_inference_compute_output_duration_us": ("Output.", _us(lambda e: 0.0)),
}

# One family for unlike things, told apart by a label; g: the last iteration as it began.
BACKEND: Mapping[str, tuple[str, Mapping[str, Callable[[Engine, Gauges], float]]]] = {
    "nv_trt_llm_request_metrics": (
        "request_type",
        {
            "waiting": lambda e, g: g.waiting,
            "context": lambda e, g: len(e.state.prompts),
            "scheduled": lambda e, g: g.running,
            "max": lambda e, g: e.config.max_num_seqs,
            "active": lambda e, g: g.running,
        },
    ),
    "nv_trt_llm_kv_cache_block_metrics": (
        "kv_cache_block_type",
        {
            "fraction": lambda e, g: g.usage,
            "tokens_per": lambda e, g: e.config.block_tokens,
            "used": lambda e, g: round(g.usage * e.config.blocks),
            "free": lambda e, g: e.config.blocks - round(g.usage * e.config.blocks),
            "max": lambda e, g: e.config.blocks,
        },
    ),
    "nv_trt_llm_inflight_batcher_metrics": (
        "inflight_batcher_specific_metric",
        {
            "micro_batch_id": lambda e, g: 0,
            "generation_requests": lambda e, g: e.state.decoding.count,
            "total_context_tokens": lambda e, g: sum(s.tokens - s.computed for s in e.state.prompts),
        },
    ),
    "nv_trt_llm_general_metrics": (
        "general_type",
        {
            "iteration_counter": lambda e, g: e.counters.steps,
        },
    ),
}


def page(engine: Engine, origin: float, uptime: float) -> Iterator[str]:
    """The page's lines. ``uptime`` is on no such page."""
    own: Labels = (("model", MODEL), ("version", "1"))
    for name, (text, read) in COUNTERS.items():
        yield from scalar(name, COUNTER, text, read(engine), own, number=plain)
    pending = "nv_inference_pending_request_count"
    yield from scalar(pending, GAUGE, "Requests that no backend has taken yet.", [((), 0)], own, number=plain)
    first = engine.counters.first_token
    name = "nv_inference_first_response_histogram_ms"
    yield from histogram(name, "Request to first response.", first, own, number=plain, scale=MILLI)
    for name, (label, parts) in BACKEND.items():
        samples: Samples = [(((label, key),), read_(engine, engine.reports.last)) for key, read_ in parts.items()]
        yield from scalar(name, GAUGE, "Statistics of the backend.", samples, own, number=plain)
