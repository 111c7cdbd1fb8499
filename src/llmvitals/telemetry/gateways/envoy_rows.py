"""Envoy's series and the canonical families they become. ``special`` rows are worked out in ``envoy.py``."""

from __future__ import annotations

from llmvitals.telemetry import simple
from llmvitals.telemetry.mapping import Derived, Row, Unused

_MS = 1e-3
_CODES = frozenset(str(code) for code in range(100, 600))
_CLASSES = frozenset("12345")
_UPSTREAM = (("upstream", "envoy_cluster_name"), ("upstream", "cluster_name"))
_TRACKED = "track_remaining in the circuit breakers' thresholds"
_ADAPTIVE = "the adaptive concurrency filter"
_AT_HEADERS = "counted when the head of the answer goes out"


def _coded(source: str, family: str, special: str) -> tuple[Row, ...]:
    """Answers of a cluster by exact status, in Envoy's spelling of the labels and in Istio's."""
    return tuple(
        Row(
            source,
            family,
            labels=(*_UPSTREAM, ("status", label)),
            only=((label, _CODES),),
            special=special,
            late=True,
            note="codes that Envoy answers for a cluster (503, 504) included",
        )
        for label in ("envoy_response_code", "response_code")
    )


def _classes(source: str) -> tuple[Row, ...]:
    return tuple(
        Row(
            source,
            "llm_gateway_requests_total",
            labels=(("status", label),),
            only=((label, _CLASSES),),
            special="class",
            late=True,
            note=_AT_HEADERS,
        )
        for label in ("envoy_response_code_class", "response_code_class")
    )


def _refused(source: str, status: str) -> Row:
    return Row(source, "llm_gateway_requests_total", fixed=(("status", status),), special="refused", late=True)


def _cut(source: str, note: str = "") -> Row:
    fixed = (("reason", "timeout"),)
    return Row(source, "llm_gateway_streams_cut_total", fixed=fixed, late=True, note=note)


ROWS: tuple[Row, ...] = simple.added(
    (
        # -- downstream: the calls ----------------------------------------------------------------------------------
        Row("envoy_http_downstream_rq", "llm_gateway_calls_total", late=True),
        *_classes("envoy_http_downstream_rq_xx"),
        _refused("envoy_http_local_rate_limit_enforced", "429"),
        _refused("envoy_http_no_route", "404"),
        _refused("envoy_http_adaptive_concurrency_gradient_controller_rq_blocked", "503"),
        _refused("envoy_http_downstream_rq_overload_close", "503"),
        Row("envoy_http_downstream_rq_time", "llm_gateway_request_seconds", scale=_MS, late=True),
        Row("envoy_http_downstream_cx_active", "llm_gateway_connections", late=True),
        Row(
            "envoy_http_downstream_cx_destroy_remote_active_rq",
            "llm_gateway_disconnects_total",
            late=True,
            note="connections, of which one over HTTP/2 may hold several calls; who hangs up on an error's body is counted too",
        ),
        _cut("envoy_http_downstream_rq_idle_timeout"),
        Row("envoy_http_downstream_cx_total", special="downstream"),
        # -- clusters: the upstreams --------------------------------------------------------------------------------
        *_coded("envoy_cluster_upstream_rq", "llm_gateway_upstream_requests_total", "answer"),
        *_coded("envoy_cluster_retry_upstream_rq", "llm_gateway_upstream_requests_total", "retried"),
        Row("envoy_cluster_upstream_rq_time", "llm_gateway_upstream_seconds", labels=_UPSTREAM, scale=_MS, late=True),
        Row("envoy_cluster_membership_healthy", "llm_gateway_upstream_up", labels=_UPSTREAM, special="healthy"),
        Row(
            "envoy_cluster_upstream_rq_retry",
            "llm_gateway_retries_total",
            fixed=(("by", "gateway"),),
            late=True,
        ),
        Row(
            "envoy_cluster_upstream_cx_connect_fail",
            "llm_gateway_connect_errors_total",
            late=True,
            note="timeouts of connecting included",
        ),
        _cut("envoy_cluster_upstream_rq_timeout", "the route's timeout (15 s unless set), per try or in all"),
        _cut("envoy_cluster_upstream_rq_per_try_timeout"),
        _cut("envoy_cluster_upstream_rq_max_duration_reached"),
        Row("envoy_cluster_upstream_rq_active", "llm_gateway_calls_running", special="running", late=True),
        Row(
            "envoy_cluster_upstream_rq_pending_active",
            "llm_gateway_queue_waiting",
            special="waiting",
            late=True,
            note="calls that wait for a connection to an upstream",
        ),
        Row(
            "envoy_cluster_upstream_rq_pending_overflow",
            "llm_gateway_queue_dropped_total",
            fixed=(("reason", "full"),),
            late=True,
            note="a circuit breaker was full",
        ),
        Row(
            "envoy_cluster_circuit_breakers_default_remaining_pending",
            "llm_gateway_queue_limit",
            special="waiting room",
            needs=_TRACKED,
        ),
        Row(
            "envoy_cluster_circuit_breakers_default_remaining_rq",
            "llm_gateway_concurrency_limit",
            special="running room",
            needs=f"{_ADAPTIVE} or {_TRACKED}",
        ),
        Row(
            "envoy_http_adaptive_concurrency_gradient_controller_concurrency_limit",
            "llm_gateway_concurrency_limit",
            needs=_ADAPTIVE,
        ),
        *(
            Row(
                f"envoy_cluster_circuit_breakers_{priority}_{what}_open",
                "llm_gateway_breaker_open",
                labels=_UPSTREAM,
                special="breaker",
                late=True,
            )
            for priority in ("default", "high")
            for what in ("rq", "rq_pending")
        ),
        Row("envoy_cluster_upstream_cx_total", special="cluster"),
    )
)

DERIVED: tuple[Derived, ...] = (
    Derived(
        "llm_gateway_requests_total",
        "envoy_http_downstream_rq_xx, envoy_cluster_upstream_rq",
        "",
        "successes by class as they went out, failures by the codes of clusters and of Envoy's own limits",
    ),
)

_TOKENS = "Envoy sees requests, not tokens"
_TENANT = "Envoy does not tell tenants apart"
_CONTENT = "Envoy does not compare what calls ask"
CANNOT: dict[str, str] = {
    "llm_gateway_tokens_total": _TOKENS,
    "llm_gateway_prompt_tokens_total": _TOKENS,
    "llm_gateway_reserved_tokens": _TOKENS,
    "llm_gateway_token_limit": _TOKENS,
    "llm_gateway_ttft_seconds": "Envoy times whole answers, not their first token",
    "llm_gateway_tpot_seconds": "Envoy times whole answers, not tokens",
    "llm_gateway_queue_seconds": "Envoy does not time the wait for a connection",
    "llm_gateway_overhead_seconds": "downstream and upstream times are of different calls, so none can be taken off",
    "llm_gateway_tenant_sequences": _TENANT,
    "llm_gateway_tenant_weight": _TENANT,
    "llm_gateway_exact_repeats_total": _CONTENT,
    "llm_gateway_shared_prefix_tokens_total": _CONTENT,
    "llm_gateway_connection_limit": "limits of listeners are configuration and not on the page",
    "llm_gateway_user_requests_total": "Envoy does not know which calls belong to one request of a user",
}

_TWICE = "the same calls under another view"
UNUSED: tuple[Unused, ...] = (
    Unused("envoy_cluster_external_upstream_*", _TWICE),
    Unused("envoy_cluster_internal_upstream_*", _TWICE),
    Unused("envoy_cluster_canary_upstream_*", _TWICE),
    Unused("envoy_cluster_zone_*", _TWICE),
    Unused("envoy_cluster_upstream_rq_xx", "the codes say more than their classes"),
    Unused("envoy_cluster_upstream_rq_completed", "the codes say it"),
    Unused("envoy_cluster_retry_upstream_rq_xx", "the codes say more than their classes"),
    Unused("envoy_cluster_retry_upstream_rq_completed", "the codes say it"),
    Unused("envoy_cluster_upstream_rq_pending_total", "calls that ever asked for a connection, waiting or not"),
    Unused("envoy_cluster_upstream_rq_pending_failure_eject", "calls lost with a connection: they are among the 503s"),
    Unused("envoy_cluster_upstream_rq_retry_*", "why and how retries ended; the retries themselves are taken"),
    Unused("envoy_cluster_upstream_rq_*", "details of calls to a cluster"),
    Unused("envoy_cluster_upstream_cx_connect_ms", "time to connect, which no family holds"),
    Unused("envoy_cluster_upstream_cx_*", "connections to clusters; failed ones are taken"),
    Unused("envoy_cluster_upstream_flow_control_*", "flow control of streams"),
    Unused("envoy_cluster_outlier_detection_*", "ejected members are left out of membership_healthy"),
    Unused("envoy_cluster_health_check_*", "membership_healthy says what they found"),
    Unused("envoy_cluster_membership_*", "members of a cluster; whether one is fit is taken"),
    Unused("envoy_cluster_circuit_breakers_*", "limits on connections and retries: they refuse no call by themselves"),
    Unused("envoy_cluster_ratelimit_*", "what a rate limit service refused is among the cluster's codes"),
    Unused("envoy_cluster_manager_*", "Envoy's configuration"),
    Unused("envoy_cluster_*", "a cluster's configuration and balancing"),
    Unused(
        "envoy_http_downstream_rq_rx_reset", "streams that ended early for any reason, Envoy's own answers included"
    ),
    Unused("envoy_http_downstream_rq_*", "details of calls"),
    Unused("envoy_http_downstream_cx_*", "details of connections"),
    Unused("envoy_http_local_rate_limit_*", "what was enforced is taken"),
    Unused("envoy_http_*", "a filter's or a listener's own"),
    Unused("envoy_listener_*", "the same calls and connections by listener"),
    Unused("envoy_tcp_*", "TCP proxies"),
    Unused("envoy_tls_*", "certificates"),
    Unused("envoy_server_*", "Envoy's own state"),
    Unused("envoy_runtime_*", "runtime settings"),
    Unused("envoy_main_thread_*", "watchdog"),
    Unused("envoy_workers_*", "watchdog"),
    Unused("envoy_thread_local_*", "Envoy's configuration"),
    Unused("envoy_control_plane_*", "the control plane"),
    Unused("envoy_filesystem_*", "log files"),
    Unused("envoy_access_logs_*", "access logs"),
    Unused("envoy_dns_*", "name resolution"),
    Unused("envoy_overload_*", "pressure by resource; what was refused for it is taken"),
    Unused("envoy_*", "a filter's own"),
    Unused("istio_*", "calls by pair of workloads, which the clusters count already"),
)
