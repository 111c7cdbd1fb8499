"""The vLLM production-stack router: calls as they come and how they ended, under vLLM's own prefix.

It repeats names of its engines (``vllm:num_requests_running`` and others, with a ``server`` label), reads them by names that vLLM
from 0.12 on no longer has, and so shows 0: none of them is taken, the engines' own pages say it. Its page is told by the names
that only it has, and it is asked before vLLM.

What it calls a success is any answer that it could pass on, errors of an engine among them; an error is what it saw fail. Calls
that failed stay in its count of running requests for good.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from llmvitals.gaps import GapKind
from llmvitals.schema import Origin
from llmvitals.telemetry.gateways.workers import HEALTH, REMOVED, add_to, of_workers, place
from llmvitals.telemetry.mapping import Derived, FamilyGap, Parts, Row, Unused
from llmvitals.telemetry.simple import added, gateway, source

KIND = "production-stack"

_OWN = ("healthy_pods_total", "num_incoming_requests", "current_qps", "avg_decoding_length", "num_decoding_requests")
_TIMES = "vllm:request_latency_seconds"
_TIMED = "timed"
_ENDED: Mapping[str, str] = {"success": "answered", "error": "error"}
_MEANT = "its count, by status; answered: passed on, an engine's 429 or 500 at times too; error: what it saw fail"

ROWS: tuple[Row, ...] = added(
    (
        Row("vllm:num_incoming_requests", "llm_gateway_calls_total", late=True, note="those without a backend too"),
        Row(_TIMES, "llm_gateway_request_seconds", special=_TIMED, late=True, note="of what it calls a success"),
        Row(
            "vllm:healthy_pods_total",
            "llm_gateway_upstream_up",
            special=HEALTH,
            nothing=REMOVED,
            note="a gauge; with static discovery it stays 1 while an engine fails, unless health checks are on",
        ),
    )
)


def _derive(parts: Parts) -> None:
    """Workers, and what the histogram of latencies says: times of successes, and by its count how calls ended."""
    of_workers(parts, "server")
    for entry, raw in parts.specials:
        if entry.row.special != _TIMED:
            continue
        if not 0.0 <= raw < math.inf:
            parts.gaps.append(FamilyGap(entry.row.family, GapKind.MISSING, "the page holds no usable number"))
            continue
        status = _ENDED.get(entry.source.get("status", ""), "")
        ended = {"status": status} if status else {}
        if status != "error":
            add_to(parts, entry.series.name, entry, raw, {})
        if entry.series.name.endswith("_count"):
            upstream = place(entry.source.get("server", ""))
            add_to(parts, "llm_gateway_requests_total", entry, raw, ended)
            add_to(parts, "llm_gateway_upstream_requests_total", entry, raw, {**ended, "upstream": upstream})


_ENGINES = "the engines' own pages say it"
_LEAK = "calls that failed stay in it for good"
UNUSED: tuple[Unused, ...] = (
    Unused("vllm:num_requests_running", _LEAK),
    Unused("vllm:num_prefill_requests", _LEAK),
    Unused("vllm:num_decoding_requests", "calls whose first token it has seen"),
    Unused("vllm:num_requests_waiting", _ENGINES),
    Unused("vllm:num_requests_swapped", _ENGINES),
    Unused("vllm:gpu_prefix_cache_*", f"{_ENGINES}; gauges whatever the name says, 0 with vLLM from 0.12 on"),
    Unused("vllm:gpu_cache_usage_perc", _ENGINES),
    Unused("vllm:current_qps", "a rate that it works out itself"),
    Unused("vllm:avg_latency", "a running mean"),
    Unused("vllm:avg_itl", "a running mean, -1 while there is none"),
    Unused("vllm:avg_decoding_length", "a running mean, -1 while there is none"),
    Unused("vllm:input_tokens", "counted for calls that do not stream only: a part of all tokens"),
    Unused("vllm:output_tokens", "counted for calls that do not stream only: a part of all tokens"),
    Unused("vllm:request_errors", "exceptions; the count of ended calls has its errors"),
    Unused("vllm:routing_decisions", "which policy chose"),
    Unused("router_cpu_usage_percent", "the machine's, not the router's"),
    Unused("router_memory_usage_percent", "the machine's, not the router's"),
    Unused("router_disk_usage_percent", "the machine's, not the router's"),
)

ADAPTER = source(
    KIND,
    "vLLM production-stack router",
    ROWS,
    claims=tuple(f"{prefix}{name}".encode() for prefix in ("vllm:", "vllm_") for name in _OWN),
    prefixes=(("vllm:", "vllm:"), ("vllm:", "vllm_")),
    versions="0.1",
    none_found="Point at the router's own port; the engines behind it have pages of their own.",
    origin=Origin.GATEWAY,
    identity=gateway(KIND, model="model"),
    derive=_derive,
    derived=(
        Derived("llm_gateway_requests_total", _TIMES, "", _MEANT),
        Derived("llm_gateway_upstream_requests_total", _TIMES, "", _MEANT),
    ),
    unused=UNUSED,
    rank=20,
    cannot={
        "llm_gateway_calls_running": f"it shows such a number, and {_LEAK}",
        "llm_gateway_tokens_total": "it counts tokens of calls that do not stream only",
        "llm_gateway_retries_total": "it tries no call again",
        "llm_gateway_breaker_open": "it has no circuit breaker",
        "llm_gateway_queue_waiting": "it has no queue",
        "llm_gateway_queue_limit": "it has no queue",
        "llm_gateway_queue_dropped_total": "it has no queue",
        "llm_gateway_queue_seconds": "it has no queue",
        "llm_gateway_ttft_seconds": "it measures none",
        "llm_gateway_tpot_seconds": "it shows a running mean only (vllm:avg_itl)",
    },
)
