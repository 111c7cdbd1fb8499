"""vllm-router 0.1 (the Rust router of the vLLM project): calls by how they ended, and its workers.

It counts a call as a request only when it succeeded; one that still fails after the last retry is counted as exhausted, one that is
not tried again as an error. Its breakers take a 429 for a success. Streams are timed until their head, so no time is taken.
"""

from __future__ import annotations

from llmvitals.schema import Origin
from llmvitals.telemetry.gateways.workers import BREAKER, CALLS, HEALTH, REMOVED, with_retries
from llmvitals.telemetry.mapping import Row, Unused
from llmvitals.telemetry.simple import added, gateway, source

KIND = "vllm-router"

_HEAD = "it times a stream until its head only, and streams together with other calls"
_NOT_AGAIN = frozenset({"non_retryable_error", "request_failed"})

ROWS: tuple[Row, ...] = added(
    (
        Row(
            "vllm_router_requests",
            "llm_gateway_requests_total",
            fixed=(("status", "2xx"),),
            late=True,
            note="those that succeeded, whatever the name says",
        ),
        Row(
            "vllm_router_retries_exhausted",
            "llm_gateway_requests_total",
            fixed=(("status", "error"),),
            late=True,
            note="still 408, 429 or 5xx after the last retry",
        ),
        Row(
            "vllm_router_request_errors",
            "llm_gateway_requests_total",
            fixed=(("status", "4xx"),),
            only=(("error_type", _NOT_AGAIN),),
            late=True,
            note="failed and not tried again: 4xx but for 408 and 429",
        ),
        Row(
            "vllm_router_retries",
            "llm_gateway_retries_total",
            fixed=(("by", "gateway"),),
            late=True,
            note="its own; what clients repeat is not told apart",
        ),
        Row(
            "vllm_router_running_requests",
            "llm_gateway_calls_running",
            needs="the policy cache_aware",
            note="all workers together",
        ),
        Row(
            "vllm_router_worker_health",
            "llm_gateway_upstream_up",
            special=HEALTH,
            nothing=REMOVED,
            note="vllm_router_active_workers counts unhealthy ones too",
        ),
        Row(
            "vllm_router_cb_state",
            "llm_gateway_breaker_open",
            special=BREAKER,
            nothing=REMOVED,
            late=True,
            note="half open counts as closed",
        ),
        *(
            Row(
                "vllm_router_cb_outcomes",
                "llm_gateway_upstream_requests_total",
                fixed=(("status", status),),
                only=(("outcome", frozenset({outcome})),),
                special=CALLS,
                late=True,
                note="as the breaker counts them: error is 5xx or no answer, ok is all else, 429 too",
            )
            for outcome, status in (("success", "ok"), ("failure", "error"))
        ),
    )
)

UNUSED: tuple[Unused, ...] = (
    Unused("vllm_router_active_workers", "it counts unhealthy workers too"),
    Unused("vllm_router_processed_requests", "calls sent to a worker; its breaker's outcomes say how they ended"),
    Unused("vllm_router_policy_decisions", "calls sent to a worker, once more"),
    Unused("vllm_router_generate_duration_seconds", _HEAD),
    Unused("vllm_router_request_duration_seconds", _HEAD),
    Unused("vllm_router_retry_backoff_duration_seconds", "the pause before a retry"),
    Unused("vllm_router_cb_state_transitions", "the breaker's state says it"),
    Unused("vllm_router_worker_load", "what the workers say of themselves"),
    Unused("vllm_router_max_load", "the spread of its own load figures"),
    Unused("vllm_router_min_load", "the spread of its own load figures"),
    Unused("vllm_router_load_balancing_events", "which policy chose"),
    Unused(
        "vllm_router_cache_hits", "prompts whose prefix it had sent to the same worker before, not answers from a cache"
    ),
    Unused("vllm_router_cache_misses", "see vllm_router_cache_hits"),
    Unused("vllm_router_tree_size", "the size of its prefix tree"),
    Unused("vllm_router_agent_aware_*", "scheduling of programs, not of calls"),
    Unused("vllm_router_pd_*", "the prefill and the decode half of one call; the call is counted as any other"),
    Unused("vllm_router_discovery_*", "service discovery"),
    Unused("vllm_router_embeddings_*", "embeddings only"),
    Unused("vllm_tokenizer_*", "its own tokenizer"),
)

_QUEUE = "it shows nothing of its queue"
ADAPTER = source(
    KIND,
    "vllm-router",
    ROWS,
    claims=(b"vllm_router_",),
    versions="0.1",
    none_found="Point at the router's --prometheus-port, 29000 by default.",
    origin=Origin.GATEWAY,
    identity=gateway(KIND),
    derive=with_retries,
    unused=UNUSED,
    rank=25,
    cannot={
        "llm_gateway_calls_total": "calls are counted when they have been answered",
        "llm_gateway_queue_waiting": _QUEUE,
        "llm_gateway_queue_limit": _QUEUE,
        "llm_gateway_queue_dropped_total": _QUEUE,
        "llm_gateway_queue_seconds": _QUEUE,
        "llm_gateway_ttft_seconds": "it does not look into the streams that it passes on",
        "llm_gateway_tpot_seconds": "it does not look into the streams that it passes on",
        "llm_gateway_request_seconds": _HEAD,
        "llm_gateway_upstream_seconds": _HEAD,
        "llm_gateway_tokens_total": "it counts no tokens",
        "llm_gateway_cache_hits_total": "its cache hits are prefixes sent to the same worker, not answers",
        "llm_gateway_connect_errors_total": "a worker that could not be reached is one failure among others",
    },
)
