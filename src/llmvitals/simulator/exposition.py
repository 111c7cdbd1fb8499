"""The engine's metrics page as vLLM V1 0.32 writes it: same families, labels, order of samples and bucket bounds.

Gauges are those of the end of the last step. ``_created`` series are there because the real page has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate

from llmvitals.simulator.counters import Counters, Histogram
from llmvitals.simulator.engine import Engine

Labels = tuple[tuple[str, str], ...]
Samples = list[tuple[Labels, float]]

HANDLER: Labels = (("handler", "/v1/completions"),)


@dataclass(frozen=True, slots=True)
class Simple:
    """A counter or gauge family; ``read`` gives its samples beside the engine's own labels (None: no such labels)."""

    name: str
    kind: str
    help: str
    read: Callable[[Engine], Samples]
    labelled: str = "engine"  # engine: engine and model_name; model: model_name only; none


@dataclass(frozen=True, slots=True)
class Bucketed:
    """A histogram family read from one field of the engine's counters."""

    name: str
    help: str
    read: Callable[[Counters], Histogram]


def _one(value: Callable[[Engine], float]) -> Callable[[Engine], Samples]:
    return lambda engine: [((), value(engine))]


def _by(label: str, values: Callable[[Engine], dict[str, float]]) -> Callable[[Engine], Samples]:
    return lambda engine: [(((label, key),), value) for key, value in values(engine).items()]


def _sources(engine: Engine) -> dict[str, float]:
    c = engine.counters
    return {
        "local_compute": c.prompt_tokens - c.cached_tokens,
        "local_cache_hit": c.cached_tokens,
        "external_kv_transfer": 0,
    }


_C, _G = "counter", "gauge"

SIMPLE: tuple[Simple, ...] = (
    Simple("vllm:estimated_flops_per_gpu", _C, "FLOPs per GPU; needs a flag.", _one(lambda e: 0)),
    Simple("vllm:estimated_read_bytes_per_gpu", _C, "Bytes read per GPU; needs a flag.", _one(lambda e: 0)),
    Simple("vllm:estimated_write_bytes_per_gpu", _C, "Bytes written per GPU; needs a flag.", _one(lambda e: 0)),
    Simple("vllm:num_requests_running", _G, "Requests in the batch.", _one(lambda e: e.gauges.running)),
    Simple("vllm:num_requests_waiting", _G, "Requests in the queue.", _one(lambda e: e.gauges.waiting)),
    Simple(
        "vllm:num_requests_waiting_by_reason",
        _G,
        "Requests in the queue by what holds them.",
        _by("reason", lambda e: {"capacity": e.gauges.waiting, "deferred": 0}),
    ),
    Simple(
        "vllm:engine_sleep_state",
        _G,
        "1 for the state the engine is in.",
        _by("sleep_state", lambda e: {"awake": 1, "weights_offloaded": 0, "discard_all": 0}),
    ),
    Simple("vllm:kv_cache_usage_perc", _G, "Share of KV blocks in use, 0 to 1.", _one(lambda e: e.gauges.usage)),
    Simple("vllm:prefix_cache_queries", _C, "Prompt tokens looked up.", _one(lambda e: e.counters.query_tokens)),
    Simple("vllm:prefix_cache_hits", _C, "Prompt tokens found.", _one(lambda e: e.counters.hit_tokens)),
    Simple("vllm:external_prefix_cache_queries", _C, "Tokens looked up elsewhere.", _one(lambda e: 0)),
    Simple("vllm:external_prefix_cache_hits", _C, "Tokens found elsewhere.", _one(lambda e: 0)),
    Simple("vllm:mm_cache_queries", _C, "Media items looked up.", _one(lambda e: 0)),
    Simple("vllm:mm_cache_hits", _C, "Media items found.", _one(lambda e: 0)),
    Simple("vllm:num_preemptions", _C, "Evictions, told with the next output.", _one(lambda e: e.counters.preemptions)),
    Simple("vllm:prompt_tokens", _C, "Prompt tokens, at the first output.", _one(lambda e: e.counters.prompt_tokens)),
    Simple("vllm:prompt_tokens_by_source", _C, "Prompt tokens by origin of their KV.", _by("source", _sources)),
    Simple("vllm:prompt_tokens_cached", _C, "Prompt tokens from a cache.", _one(lambda e: e.counters.cached_tokens)),
    Simple(
        "vllm:prompt_tokens_cached_by_source",
        _C,
        "Prompt tokens from a cache by where it is.",
        _by(
            "source",
            lambda e: {
                "device": e.counters.cached_tokens,
                **dict.fromkeys(("host", "p2p", "disk", "external_unspecified"), 0),
            },
        ),
    ),
    Simple("vllm:generation_tokens", _C, "Generated tokens.", _one(lambda e: e.counters.generated_tokens)),
    Simple(
        "vllm:request_success",
        _C,
        "Ended sequences by reason.",
        _by("finished_reason", lambda e: dict[str, float](e.counters.finished)),
    ),
    Simple(
        "vllm:admission_rejections",
        _C,
        "Requests refused at the door.",
        _by("reason", lambda e: {"max_num_queued_reqs": 0, "max_num_queued_tokens": 0}),
        labelled="model",
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
)


def page(engine: Engine, origin: float, *, uptime: float = 0.0) -> bytes:
    """The page as it stands. ``origin``: unix seconds of simulated time 0, at which the process was ``uptime`` old."""
    created = origin - uptime
    lines = [*_process(engine, created)]
    for simple in SIMPLE:
        lines.extend(_simple(engine, simple, created))
    own = _own(engine, "engine")
    for bucketed in BUCKETED:
        lines.extend(_histogram(bucketed.name, bucketed.help, bucketed.read(engine.counters), own, created))
    lines.extend(_config(engine))
    lines.extend(_http(engine, created))
    return ("\n".join(lines) + "\n").encode()


def _own(engine: Engine, labelled: str) -> Labels:
    model = ("model_name", engine.config.model)
    return {"engine": (("engine", "0"), model), "model": (model,), "none": ()}[labelled]


def _text(labels: Labels) -> str:
    if not labels:
        return ""
    escaped = (v.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n") for _, v in sorted(labels))
    names = (k for k, _ in sorted(labels))
    return "{" + ",".join(f'{k}="{v}"' for k, v in zip(names, escaped, strict=True)) + "}"


def _head(name: str, kind: str, text: str) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"


def _simple(engine: Engine, family: Simple, created: float) -> Iterator[str]:
    own = _own(engine, family.labelled)
    samples = family.read(engine)
    exposed = f"{family.name}_total" if family.kind == _C else family.name
    yield from _head(exposed, family.kind, family.help)
    for labels, value in samples:
        yield f"{exposed}{_text(own + labels)} {float(value)!r}"
    if family.kind == _C:
        yield from _head(f"{family.name}_created", _G, family.help)
        for labels, _ in samples:
            yield f"{family.name}_created{_text(own + labels)} {created!r}"


def _histogram(name: str, text: str, histogram: Histogram, labels: Labels, created: float) -> Iterator[str]:
    yield from _head(name, "histogram", text)
    edges = [repr(float(b)) for b in histogram.bounds]
    for edge, value in zip([*edges, "+Inf"], accumulate(histogram.counts), strict=True):
        yield f"{name}_bucket{_text((*labels, ('le', edge)))} {float(value)!r}"
    yield f"{name}_count{_text(labels)} {float(histogram.count)!r}"
    yield f"{name}_sum{_text(labels)} {float(histogram.sum)!r}"
    yield from _head(f"{name}_created", _G, text)
    yield f"{name}_created{_text(labels)} {created!r}"


def _process(engine: Engine, created: float) -> Iterator[str]:
    """The API server's process. Its CPU time is a plain proportion: 5 ms a request and 50 us a token."""
    c = engine.counters
    values = (
        ("process_virtual_memory_bytes", _G, "Virtual memory in bytes.", 2.1e9),
        ("process_resident_memory_bytes", _G, "Resident memory in bytes.", 7.0e8),
        ("process_start_time_seconds", _G, "Start of the process, unix seconds.", created),
        (
            "process_cpu_seconds_total",
            _C,
            "CPU time in seconds.",
            20 + 0.005 * engine.arrived + 5e-5 * c.generated_tokens,
        ),
        ("process_open_fds", _G, "Open file descriptors.", 44.0 + engine.in_flight),
        ("process_max_fds", _G, "Limit of file descriptors.", 65536.0),
    )
    yield from _head("python_info", _G, "Python platform.")
    yield 'python_info{implementation="CPython",major="3",minor="12",patchlevel="0",version="3.12.0"} 1.0'
    for name, kind, text, value in values:
        yield from _head(name, kind, text)
        yield f"{name} {float(value)!r}"


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
    yield from _head("vllm:cache_config_info", _G, "The cache's settings as labels.")
    yield f"vllm:cache_config_info{_text(labels)} 1.0"


def _http(engine: Engine, created: float) -> Iterator[str]:
    """The API server's own counters: a request appears when its answer has ended; absent before the first one."""
    c = engine.counters
    method = ("method", "POST")
    answered = c.http
    seen = {status: count for status, count in answered.items() if count}
    yield from _head("http_requests_total", _C, "Answered requests by handler, method and status class.")
    for status, count in seen.items():
        yield f"http_requests_total{_text((*HANDLER, method, ('status', status)))} {float(count)!r}"
    if seen:
        yield from _head("http_requests_created", _G, "Answered requests by handler, method and status class.")
    for status in seen:
        yield f"http_requests_created{_text((*HANDLER, method, ('status', status)))} {created!r}"
    yield from _head("http_request_size_bytes", "summary", "Length of requests by handler.")
    if seen:
        yield f"http_request_size_bytes_count{_text(HANDLER)} {float(sum(seen.values()))!r}"
        yield f"http_request_size_bytes_sum{_text(HANDLER)} {c.http_bytes_in!r}"
    yield from _histogram("http_request_duration_highr_seconds", "Answer time.", c.http_fine, (), created)
    if seen:
        labels = (*HANDLER, method)
        yield from _histogram(
            "http_request_duration_seconds", "Answer time by handler.", c.http_coarse, labels, created
        )
