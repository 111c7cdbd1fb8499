"""Rows of the two gateways that speak ``smg_*``: sglang-router 0.3 and smg, which grew out of it.

Both time a streaming call until its head only, so no time of a whole call is taken. Where a metric has no buckets configured their
exporter shows a summary: its quantiles are no histogram, its sum and count are taken.
"""

from __future__ import annotations

from llmvitals.telemetry.gateways.workers import BREAKER, CALLS, HEALTH, REMOVED
from llmvitals.telemetry.mapping import Row, Unused

HEAD = "it times a stream until its head only, and streams together with other calls"
PATHS = frozenset(
    {
        "/generate",
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/responses",
        "/v1/messages",
        "/v1/embeddings",
        "/v1/classify",
        "/v1/score",
        "/v1/rerank",
        "/rerank",
        "/v1/audio/transcriptions",
    }
)
"""Routes that serve inference; what else is answered (models, health, tokenize, workers) is no call."""

# A retry of a disaggregated call is counted for its prefill and for its decode worker: once is enough.
_ONCE = frozenset({"regular", "prefill", "external", "http", "grpc"})
# With a decode server of its own the clock of smg_router_* starts when the decode request is sent; smg_pd_* has the whole.
_WHOLE = frozenset({"regular", "harmony", "external"})
_GRPC = "workers that speak gRPC"
_STREAMS = "streams through gRPC workers only"

SHARED: tuple[Row, ...] = (
    Row(
        "smg_http_requests",
        "llm_gateway_calls_total",
        only=(("path", PATHS),),
        late=True,
        note="routes of inference, counted as they come in",
    ),
    Row(
        "smg_worker_retries",
        "llm_gateway_retries_total",
        fixed=(("by", "gateway"),),
        only=(("worker_type", _ONCE),),
        late=True,
        note="its own; what clients repeat is not told apart",
    ),
    Row("smg_worker_requests_active", "llm_gateway_calls_running", late=True, note="all workers together"),
    Row(
        "smg_router_ttft_seconds",
        "llm_gateway_ttft_seconds",
        only=(("backend_type", _WHOLE),),
        needs=_GRPC,
        note=_STREAMS,
    ),
    Row(
        "smg_pd_ttft_seconds",
        "llm_gateway_ttft_seconds",
        needs=_GRPC,
        note="prefill and decode on servers of their own",
    ),
    Row(
        "smg_router_tpot_seconds",
        "llm_gateway_tpot_seconds",
        needs=_GRPC,
        note=f"{_STREAMS}; one mean per call",
    ),
    Row("smg_worker_health", "llm_gateway_upstream_up", special=HEALTH, nothing=REMOVED),
    Row(
        "smg_worker_cb_state",
        "llm_gateway_breaker_open",
        special=BREAKER,
        nothing=REMOVED,
        note="half open counts as closed",
    ),
    *(
        Row(
            "smg_worker_cb_outcomes",
            "llm_gateway_upstream_requests_total",
            fixed=(("status", status),),
            only=(("outcome", frozenset({outcome})),),
            special=CALLS,
            late=True,
            note="as the breaker counts them, tried again or not",
        )
        for outcome, status in (("success", "ok"), ("failure", "error"))
    ),
)

UNUSED: tuple[Unused, ...] = (
    Unused("smg_http_request_duration_seconds", HEAD),
    Unused("smg_router_generation_duration_seconds", "streams through gRPC workers only, from their dispatch on"),
    Unused("smg_router_stage_duration_seconds", "stages of its own pipeline"),
    Unused("smg_router_requests", "calls by model and endpoint; the gRPC router counts retries with them"),
    Unused("smg_router_request_errors", "the answers' status says it"),
    Unused("smg_router_upstream_responses", "not told by worker, and answers of its own where no worker could be had"),
    Unused("smg_router_tokens", "counted for streams through gRPC workers only: a part of all tokens"),
    Unused("smg_http_connections_active", "requests in flight on every route, whatever the name says"),
    Unused("smg_http_inflight_request_age*", "requests in flight by age, not cumulative"),
    Unused("smg_http_rate_limit", "its refusals are among the answers (429)"),
    Unused("smg_worker_pool_size", "workers by kind"),
    Unused("smg_worker_connections_active", "connections to workers by kind"),
    Unused("smg_worker_health_checks", "health says what they found"),
    Unused("smg_worker_selection", "which policy chose"),
    Unused("smg_worker_errors", "the breaker's outcomes say it by worker"),
    Unused("smg_worker_cb_transitions", "the breaker's state says it"),
    Unused("smg_worker_cb_consecutive_failures", "the breaker's state says it"),
    Unused("smg_worker_cb_consecutive_successes", "the breaker's state says it"),
    Unused("smg_worker_retries_exhausted", "the answers' status says it"),
    Unused("smg_worker_retry_backoff_seconds", "the pause before a retry (a summary on some releases)"),
    Unused("smg_worker_routing_keys_active", "keys of sticky routing"),
    Unused("smg_manual_policy_*", "branches of a routing policy"),
    Unused("smg_consistent_hashing_policy_*", "branches of a routing policy"),
    Unused("smg_prefix_hash_policy_*", "branches of a routing policy"),
    Unused("smg_discovery_*", "service discovery"),
    Unused("smg_mcp_*", "tools that it calls itself"),
    Unused("smg_db_*", "its store of responses"),
    Unused("router_mesh_*", "its own peers"),
)

CANNOT = {
    "llm_gateway_request_seconds": HEAD,
    "llm_gateway_upstream_seconds": HEAD,
    "llm_gateway_tokens_total": "it counts tokens of streams through gRPC workers only",
    "llm_gateway_disconnects_total": "a client that leaves a stream is not counted",
    "llm_gateway_cache_hits_total": "it has no cache of answers",
    "llm_gateway_connect_errors_total": "a worker that could not be reached is one failure among others",
}
