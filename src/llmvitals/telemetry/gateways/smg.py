"""smg 1.x (the model gateway that grew out of sglang-router): calls by status, its queue, and its workers.

Its queue is that of the concurrency limit (``smg_admission_*``) or of the priority scheduler (``smg_scheduler_*``), never both. The
depth and the refusals of the first are not shown before somebody waited; a limit that is in force shows calls in hand, and
then their absence is 0.
"""

from __future__ import annotations

from llmvitals.schema import Origin
from llmvitals.telemetry.gateways.smg_rows import CANNOT, HEAD, PATHS, SHARED, UNUSED
from llmvitals.telemetry.gateways.workers import of_workers
from llmvitals.telemetry.mapping import Parts, Row, Unused
from llmvitals.telemetry.simple import added, gateway, source

KIND = "smg"

_LIMITED = "--max-concurrent-requests"
_SCHEDULER = "the priority scheduler"
_ADMISSION = "admission"
_GAVE_UP = (("full", "full"), ("timeout", "ttl"))
_SCHEDULED = (("rejected_queue_full", "full"), ("rejected_queue_timeout", "ttl"), ("client_cancelled", "left"))

ROWS: tuple[Row, ...] = added(
    (
        Row(
            "smg_http_responses",
            "llm_gateway_requests_total",
            labels=(("status", "status_code"),),
            only=(("path", PATHS),),
            late=True,
            note="routes of inference, counted at the answer's head",
        ),
        *SHARED,
        Row("smg_admission_queue_depth", "llm_gateway_queue_waiting", needs=_LIMITED, note="0 until somebody waited"),
        Row("smg_scheduler_queue_depth", "llm_gateway_queue_waiting", needs=_SCHEDULER, note="all classes together"),
        Row("smg_scheduler_queue_size_limit", "llm_gateway_queue_limit", needs=_SCHEDULER, note="all classes together"),
        *(
            Row(
                "smg_admission_queue_rejected",
                "llm_gateway_queue_dropped_total",
                fixed=(("reason", reason),),
                only=(("reason", frozenset({theirs})),),
                needs=_LIMITED,
                note="0 until the first one; refusals for too much media left out",
            )
            for theirs, reason in _GAVE_UP
        ),
        *(
            Row(
                "smg_scheduler_admit",
                "llm_gateway_queue_dropped_total",
                fixed=(("reason", reason),),
                only=(("outcome", frozenset({theirs})),),
                needs=_SCHEDULER,
            )
            for theirs, reason in _SCHEDULED
        ),
        Row(
            "smg_scheduler_queue_wait_seconds",
            "llm_gateway_queue_seconds",
            needs=_SCHEDULER,
            note="a summary: sum and count alone, those that gave up included",
        ),
        Row(
            "smg_fair_share_reserved_output_tokens",
            "llm_gateway_reserved_tokens",
            labels=(("tenant", "tenant"),),
            needs=_SCHEDULER,
            note="output tokens",
        ),
        Row("smg_admission_inflight", special=_ADMISSION),
    )
)


def _derive(parts: Parts) -> None:
    of_workers(parts)
    admitted = [entry.series.labels for entry, _ in parts.specials if entry.row.special == _ADMISSION]
    for labels in admitted[:1]:
        told = {(s.name, s.label("reason")) for s in parts.samples}
        if ("llm_gateway_queue_waiting", "") not in told:
            parts.put("llm_gateway_queue_waiting", 0.0, dict(labels))
        for _, reason in _GAVE_UP:
            if ("llm_gateway_queue_dropped_total", reason) not in told:
                parts.put("llm_gateway_queue_dropped_total", 0.0, {**dict(labels), "reason": reason})


ADAPTER = source(
    KIND,
    "smg",
    ROWS,
    claims=(b"smg_tokio_", b"smg_allocator_", b"smg_tokenizer_", b"smg_admission_", b"smg_scheduler_", b"smg_engine_"),
    versions="1.x",
    none_found="Point at the gateway's --prometheus-port, 29000 by default.",
    origin=Origin.GATEWAY,
    identity=gateway(KIND),
    derive=_derive,
    unused=(
        Unused("smg_router_request_duration_seconds", HEAD),
        *UNUSED,
        Unused("smg_engine_*", "what the workers say of themselves: their own pages say it"),
        Unused("smg_worker_requests", "calls sent to a worker; its breaker's outcomes say how they ended"),
        Unused("smg_worker_http2", "how it speaks to a worker"),
        Unused("smg_worker_overload_*", "refusals for overload are among the answers (503)"),
        Unused("smg_workers_overloaded", "workers that it leaves out for their load"),
        Unused("smg_worker_liveness_fallback", "workers taken although none is ready"),
        Unused("smg_worker_cb_health_readmissions", "the breaker's state says it"),
        Unused("smg_router_upstream_send_retries", "sent again on a fresh connection before any answer"),
        Unused("smg_router_request_body_path", "how request bodies are passed on"),
        Unused("smg_router_request_buffers_released_early_bytes", "how request bodies are passed on"),
        Unused("smg_scheduler_*", "classes of its scheduler"),
        Unused("smg_fair_share_*", "its ledger of output tokens"),
        Unused("smg_capacity_credit_*", "its ledger of capacity"),
        Unused("smg_pd_*", "the prefill and the decode half of one call"),
        Unused("smg_mm_*", "media of requests"),
        Unused("smg_kv_event_*", "its subscription to the workers' KV events"),
        Unused("smg_cache_*", "its prefix tree, not a cache of answers"),
        Unused("smg_routing_key_source", "keys of sticky routing"),
        Unused("smg_rl_*", "control of training"),
        Unused("smg_tokio_*", "its own runtime"),
        Unused("smg_allocator_*", "its own memory"),
        Unused("smg_tokenizer_*", "its own tokenizer"),
        Unused("smg_detokenize_*", "its own tokenizer"),
        Unused("smg_history_memory_records", "its store of responses"),
        Unused("smg_log_dropped_lines", "its own log"),
    ),
    rank=24,
    cannot=CANNOT,
)
