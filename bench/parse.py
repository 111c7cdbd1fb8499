"""Bytes of a page to canonical samples, against the client library's parser alone on the same page.

Both are process CPU, the median of repeats taken in turn, in steady state: ours has seen the page before with other
numbers, as a scrape loop has. The pages: one made here in the shape of a busy vLLM (about 600 lines), and a recorded one
where ``LLMVITALS_SHARED`` (default ``../shared``) holds recordings.
"""

from __future__ import annotations

import gzip
import os
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from bench import Bench, Measured
from llmvitals.telemetry.ingest import Ingest, RawPage

BAR = 0.1  # a tenth of the parser's CPU

_SECONDS = (
    0.001,
    0.005,
    0.01,
    0.02,
    0.04,
    0.06,
    0.08,
    0.1,
    0.25,
    0.5,
    0.75,
    1.0,
    2.5,
    5.0,
    7.5,
    10.0,
    20.0,
    40.0,
    80.0,
)
_TOKENS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0)
_HISTOGRAMS: tuple[tuple[str, tuple[float, ...]], ...] = (
    *((name, _SECONDS) for name in (
        "time_to_first_token_seconds", "inter_token_latency_seconds", "request_time_per_output_token_seconds",
        "e2e_request_latency_seconds", "request_queue_time_seconds", "request_inference_time_seconds",
        "request_prefill_time_seconds", "request_decode_time_seconds",
    )),
    *((name, _TOKENS) for name in (
        "request_prompt_tokens", "request_generation_tokens", "request_max_num_generation_tokens",
        "request_params_max_tokens", "request_params_n", "iteration_tokens_total", "request_num_preemptions",
        "request_prefill_kv_computed_tokens",
    )),
)  # fmt: skip
_COUNTERS = (
    "num_preemptions", "prompt_tokens", "generation_tokens", "prefix_cache_queries", "prefix_cache_hits",
    "external_prefix_cache_queries", "external_prefix_cache_hits", "mm_cache_queries", "mm_cache_hits",
    "prompt_tokens_cached", "estimated_flops_per_gpu", "estimated_read_bytes_per_gpu", "estimated_write_bytes_per_gpu",
)  # fmt: skip
_GAUGES = ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc")
_UNWANTED = 60  # lines of the client library's own collectors and of other handlers' sizes


def made_page(step: int) -> bytes:
    """A made page; ``step`` moves its numbers and nothing else."""
    return ("\n".join(_lines(step)) + "\n").encode()


def _lines(step: int) -> Iterator[str]:
    own = 'engine="0",model_name="made/model-7b-instruct"'
    for number in range(_UNWANTED):
        yield f'python_gc_objects_collected_total{{generation="{number}"}} {1000.0 + step}'
    for name in _GAUGES:
        yield from (f"# HELP vllm:{name} Made.", f"# TYPE vllm:{name} gauge")
        yield f"vllm:{name}{{{own}}} {0.25 + step % 3 / 8}"
    for name in _COUNTERS:
        yield from (f"# HELP vllm:{name}_total Made.", f"# TYPE vllm:{name}_total counter")
        yield f"vllm:{name}_total{{{own}}} {1e5 + 37.0 * step}"
        yield from (f"# HELP vllm:{name}_created Made.", f"# TYPE vllm:{name}_created gauge")
        yield f"vllm:{name}_created{{{own}}} 1.7959559249298396e+09"
    for name, edges in _HISTOGRAMS:
        yield from (f"# HELP vllm:{name} Made.", f"# TYPE vllm:{name} histogram")
        for place, edge in enumerate((*edges, "+Inf")):
            yield f'vllm:{name}_bucket{{engine="0",le="{edge}",model_name="made/model-7b-instruct"}} {(place + 1.0) * step}'
        yield f"vllm:{name}_count{{{own}}} {(len(edges) + 1.0) * step}"
        yield f"vllm:{name}_sum{{{own}}} {1.5 * step}"
        yield from (f"# HELP vllm:{name}_created Made.", f"# TYPE vllm:{name}_created gauge")
        yield f"vllm:{name}_created{{{own}}} 1.7959559249298396e+09"
    for status in ("2xx", "4xx"):
        yield f'http_requests_total{{handler="/v1/chat/completions",method="POST",status="{status}"}} {step}'
    yield f'vllm:cache_config_info{{block_size="16",engine="0",num_gpu_blocks="8193",{_CONFIG}}} 1.0'


_CONFIG = ",".join(f'setting_{n}="value {n}"' for n in range(36))


def cpu_seconds(work: Callable[[], object]) -> float:
    """Process CPU of one call."""
    began = time.process_time()
    work()
    return time.process_time() - began


def compare(what: str, pages: list[bytes], repeats: int) -> Measured:
    """Both costs for one page in turn, so that a busy machine weighs on both."""
    ingest = Ingest(instance="bench", kind="vllm")
    for body in pages:
        ingest.read(RawPage(0.0, 0.0, 200, body))
    ours, theirs = [], []
    for number in range(repeats):
        body = pages[number % len(pages)]
        text = body.decode()
        ours.append(cpu_seconds(lambda body=body: ingest.read(RawPage(0.0, 0.0, 200, body))))
        theirs.append(cpu_seconds(lambda text=text: list(text_string_to_metric_families(text))))
    kib = len(pages[0]) / 1024
    lines = pages[0].count(b"\n")
    return Measured(
        f"{what} ({lines} lines, {kib:.0f} KiB) to canonical samples, against the client library's parser",
        statistics.median(ours) * 1e3,
        statistics.median(theirs) * 1e3,
        "ms CPU",
        BAR,
    )


def recorded_pages() -> list[bytes]:
    """Two pages of one recording; none where there are no recordings."""
    root = Path(os.environ.get("LLMVITALS_SHARED") or Path(__file__).resolve().parents[2] / "shared")
    files = sorted((root / "captures" / "healthy").glob("*.prom.gz"))[:2]
    return [gzip.decompress(file.read_bytes()) for file in files]


def run(short: bool) -> list[Measured]:
    """The made page, and the recorded one where there is one."""
    repeats = 20 if short else 100
    rows = [compare("made page", [made_page(step) for step in (1, 2, 3)], repeats)]
    pages = recorded_pages()
    if pages:
        rows.append(compare("recorded page", pages, repeats))
    return rows


BENCH = Bench("parse", run)
