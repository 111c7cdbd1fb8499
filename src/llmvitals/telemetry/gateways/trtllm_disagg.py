"""The orchestrator of ``trtllm-serve disaggregated``: it sends a prompt to a context server, then to a generation server.

No prefix of its own, no labels: ``ctx_``, ``gen_`` and ``mme_`` (multimodal encoder) name the kind of server that a call
went to, names without them are of the orchestrator itself. Two help texts are mixed up in its source: what it observes as
``first_token`` is the time from the call of the generation server to the first piece, as ``per_token`` the gap between two.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from llmvitals.schema import Origin
from llmvitals.telemetry.mapping import Parts, Row, Unused
from llmvitals.telemetry.simple import added, gateway, source

KIND = "trtllm-disagg"

ROLES = ("ctx", "gen", "mme")
"""Context, generation and multimodal encoder servers."""

ANSWERS, SENT = "llm_gateway_requests_total", "llm_gateway_upstream_requests_total"
_ENDED, _FAILED = "completed_requests", "error_requests"


def _of(role: str) -> Iterator[Row]:
    upstream = (("upstream", role),)
    yield Row(
        f"{role}_complete_latency_seconds",
        "llm_gateway_upstream_seconds",
        fixed=upstream,
        note="one call of a server of that kind; a request needs one of each",
    )
    yield Row(
        f"{role}_{_ENDED}", SENT, fixed=(*upstream, ("status", "2xx")), special=_ENDED, note="less those that failed"
    )
    yield Row(f"{role}_{_FAILED}", SENT, fixed=(*upstream, ("status", "error")), special=_FAILED)
    yield Row(
        f"{role}_retry_requests",
        "llm_gateway_retries_total",
        fixed=(("by", "gateway"),),
        note="calls of servers, not of clients",
    )


ROWS: tuple[Row, ...] = added(
    (
        Row("total_requests", "llm_gateway_calls_total"),
        Row("total_responses", ANSWERS, fixed=(("status", "2xx"),), note="answers that began well"),
        Row("validation_exceptions", ANSWERS, fixed=(("status", "4xx"),)),
        Row("http_exceptions", ANSWERS, fixed=(("status", "error"),), note="errors that a server or the router gave"),
        Row("internal_errors", ANSWERS, fixed=(("status", "5xx"),)),
        Row("queue_latency_seconds", "llm_gateway_queue_seconds", note="arrival to the first call of a server"),
        Row("gen_per_token_latency_seconds", "llm_gateway_tpot_seconds", note="gaps between pieces of streams"),
        *(row for role in ROLES for row in _of(role)),
    )
)

UNUSED: tuple[Unused, ...] = (
    Unused("gen_first_token_latency_seconds", "begins when the generation server is called: the prefill is not in it"),
    Unused("ctx_first_token_latency_seconds", "context servers are not asked to stream"),
    Unused("mme_first_token_latency_seconds", "encoders make no tokens"),
    Unused("ctx_per_token_latency_seconds", "context servers are not asked to stream"),
    Unused("mme_per_token_latency_seconds", "encoders make no tokens"),
    Unused("ctx_total_requests", "calls that began; those that ended are taken"),
    Unused("gen_total_requests", "calls that began; those that ended are taken"),
    Unused("mme_total_requests", "calls that began; those that ended are taken"),
    Unused("stream_requests", "a part of total_requests"),
    Unused("nonstream_requests", "a part of total_requests"),
)

CANNOT = {
    "llm_gateway_ttft_seconds": "its first-token time begins when the generation server is called, after the prefill",
    "llm_gateway_request_seconds": "calls of each kind of server are timed, not the request over both",
    "llm_gateway_disconnects_total": "clients that leave are not counted",
    "llm_gateway_queue_waiting": "how long requests wait is counted, not how many do",
}


def _derive(parts: Parts) -> None:
    """Calls that went well: those that ended, which the ones that failed are among."""
    told = {
        (e.series.label("upstream"), e.row.special): (e.series, v) for e, v in parts.specials if 0.0 <= v < math.inf
    }
    for (role, what), (series, value) in told.items():
        failed = told[role, _FAILED][1] if what == _ENDED and (role, _FAILED) in told else 0.0
        parts.samples[series] = max(0.0, value - failed)


ADAPTER = source(
    KIND,
    "TensorRT-LLM disaggregated",
    ROWS,
    claims=(b"ctx_total_requests", b"gen_total_requests", b"ctx_completed_requests", b"gen_completed_requests"),
    versions="1.2 and later",
    none_found="Point at /prometheus/metrics of the orchestrator.",
    origin=Origin.GATEWAY,
    identity=gateway(KIND),
    derive=_derive,
    cannot=CANNOT,
    unused=UNUSED,
    path="/prometheus/metrics",
)

__all__ = ["ADAPTER", "CANNOT", "ROLES"]
