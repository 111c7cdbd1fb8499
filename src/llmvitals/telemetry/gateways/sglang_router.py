"""sglang-router 0.3: calls by status, and its workers.

Its answers are counted without their route, so that a health check or a list of models is among them. What succeeded is therefore
taken from the count of timed calls, which are the successful ones; errors are those of every route.
"""

from __future__ import annotations

from dataclasses import replace

from llmvitals.schema import Origin
from llmvitals.telemetry.gateways.smg_rows import CANNOT, SHARED, UNUSED
from llmvitals.telemetry.gateways.workers import with_retries
from llmvitals.telemetry.mapping import Row, Unused
from llmvitals.telemetry.simple import added, gateway, source

KIND = "sglang-router"

_ERRORS = frozenset(str(status) for status in range(400, 600))
_IN_HAND, _LOAD = "smg_worker_requests_active", "the policies cache_aware and manual"
_QUEUE = "it shows nothing of its queue; what it refuses is among the answers (429)"

ROWS: tuple[Row, ...] = added(
    (
        Row(
            "smg_router_request_duration_seconds_count",
            "llm_gateway_requests_total",
            fixed=(("status", "2xx"),),
            late=True,
            note="successful calls alone are timed",
        ),
        Row(
            "smg_http_responses",
            "llm_gateway_requests_total",
            labels=(("status", "status_code"),),
            only=(("status_code", _ERRORS),),
            late=True,
            note="errors of every route: it does not tell them apart",
        ),
        *(replace(row, needs=_LOAD, late=False) if row.source == _IN_HAND else row for row in SHARED),
    )
)

ADAPTER = source(
    KIND,
    "sglang-router",
    ROWS,
    claims=(b"smg_",),
    versions="0.3",
    none_found="Point at the router's --prometheus-port, 29000 by default.",
    origin=Origin.GATEWAY,
    identity=gateway(KIND),
    derive=with_retries,
    unused=(
        Unused("smg_router_request_duration_seconds", "its count is taken: streams are timed until their head"),
        *UNUSED,
    ),
    rank=26,
    cannot={
        **CANNOT,
        "llm_gateway_queue_waiting": _QUEUE,
        "llm_gateway_queue_limit": _QUEUE,
        "llm_gateway_queue_dropped_total": _QUEUE,
        "llm_gateway_queue_seconds": _QUEUE,
    },
)
