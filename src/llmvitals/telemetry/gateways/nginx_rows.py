"""NGINX's series by exporter, and the canonical families they become.

Sources of the names: nginx-prometheus-exporter 0.11 (a page that was read); the documentation of
prometheus-nginxlog-exporter (default namespace), nginx-module-vts and nginx-vts-exporter, nginx-lua-prometheus (the
example that most configurations keep), and the ingress controller of Kubernetes.
"""

from __future__ import annotations

from dataclasses import replace

from llmvitals.telemetry import simple
from llmvitals.telemetry.mapping import Derived, Row, Unused

ALL_HOSTS = "*"
"""The server zone under which the vts module adds all others up."""

STATUS_PAGE = "NGINX's status page (stub_status)"
LOG = "an exporter of the access log, or the vts or Lua module"
_CODES = frozenset(str(code) for code in range(100, 600))
_CLASSES = frozenset(f"{first}xx" for first in range(1, 6))
_CALL = ("method", frozenset({"POST", ""}))
_SELF = "the request for the status page itself is left out"

_UPSTREAM = (("upstream", "upstream"), ("upstream", "upstream_addr"), ("upstream", "service"))


def _by_status(source: str, *, call: bool = True, label: str = "status") -> Row:
    only = ((label, _CODES), *((_CALL,) if call else ()))
    return Row(source, "llm_gateway_requests_total", labels=(("status", label),), only=only, needs=LOG)


def _by_class(source: str) -> Row:
    labels = (("status", "code"),)
    return Row(
        source, "llm_gateway_requests_total", labels=labels, only=(("code", _CLASSES),), special="host", needs=LOG
    )


def _upstream_class(source: str) -> Row:
    labels = (("upstream", "backend"), ("status", "code"))
    only = (("code", _CLASSES), ("filter", frozenset({""})))
    return Row(source, "llm_gateway_upstream_requests_total", labels=labels, only=only, needs=LOG)


def _running(source: str, *only: tuple[str, str]) -> Row:
    held = tuple((label, frozenset({value})) for label, value in only)
    return Row(source, "llm_gateway_calls_running", only=held, offset=-1.0, needs=STATUS_PAGE, note=_SELF)


def _connections(source: str, *only: tuple[str, str]) -> Row:
    held = tuple((label, frozenset({value})) for label, value in only)
    return Row(
        source, "llm_gateway_connections", only=held, needs=STATUS_PAGE, note="idle ones that are kept alive included"
    )


def _came(source: str, *only: tuple[str, frozenset[str]], typed: str = "") -> Row:
    note = "every request of the server, its status page's own included"
    return Row(source, "llm_gateway_calls_total", only=only, needs=STATUS_PAGE, note=note, typed=typed)


_ADDED: tuple[Row, ...] = (
    # -- the access log -------------------------------------------------------------------------------------------
    _by_status("nginx_http_response_count"),
    Row("nginx_http_response_time_seconds_hist", "llm_gateway_request_seconds", only=(_CALL,), needs=LOG),
    Row(
        "nginx_http_upstream_time_seconds_hist",
        "llm_gateway_upstream_seconds",
        labels=_UPSTREAM,
        only=(_CALL,),
        needs=LOG,
    ),
    # -- the Lua module: the same name with a status as the status page's without one ---------------------------------
    _by_status("nginx_http_requests", call=False),
    Row("nginx_http_request_duration_seconds", "llm_gateway_request_seconds", needs=LOG),
    # -- the ingress controller ---------------------------------------------------------------------------------------
    _by_status("nginx_ingress_controller_requests"),
    Row("nginx_ingress_controller_request_duration_seconds", "llm_gateway_request_seconds", only=(_CALL,), needs=LOG),
    Row(
        "nginx_ingress_controller_response_duration_seconds",
        "llm_gateway_upstream_seconds",
        labels=_UPSTREAM,
        only=(_CALL,),
        needs=LOG,
    ),
    # -- the vts module and its exporter ------------------------------------------------------------------------------
    _by_class("nginx_vts_server_requests"),
    _by_class("nginx_server_requests"),
    Row(
        "nginx_vts_server_request_duration_seconds",
        "llm_gateway_request_seconds",
        special="host",
        needs=f"{LOG}; of the vts module its histogram buckets",
    ),
    _upstream_class("nginx_vts_upstream_requests"),
    _upstream_class("nginx_upstream_requests"),
    Row(
        "nginx_vts_upstream_response_duration_seconds",
        "llm_gateway_upstream_seconds",
        labels=(("upstream", "backend"),),
        needs=LOG,
    ),
)

_PLAIN: tuple[Row, ...] = (
    Row("nginx_up", special="up"),
    Row("nginx_parse_errors_total", special="log"),
    Row("nginx_metric_errors_total", special="log"),
    _came("nginx_http_requests", ("status", frozenset({""}))),
    _came("nginx_vts_main_connections", ("status", frozenset({"requests"})), typed="gauge"),  # among connections
    _came("nginx_server_connections", ("status", frozenset({"requests"})), typed="gauge"),
    _came("nginx_ingress_controller_nginx_process_requests"),
    _connections("nginx_connections_active"),
    _connections("nginx_vts_main_connections", ("status", "active")),
    _connections("nginx_server_connections", ("status", "active")),
    _connections("nginx_ingress_controller_nginx_process_connections", ("state", "active")),
    _running("nginx_connections_writing"),
    _running("nginx_vts_main_connections", ("status", "writing")),
    _running("nginx_server_connections", ("status", "writing")),
    _running("nginx_ingress_controller_nginx_process_connections", ("state", "writing")),
    _running("nginx_http_connections", ("state", "writing")),
)

ROWS: tuple[Row, ...] = (*(replace(row, add=not row.special) for row in simple.added(_ADDED)), *_PLAIN)

DERIVED: tuple[Derived, ...] = (
    Derived("llm_gateway_disconnects_total", "nginx_http_response_count_total", "", "calls that ended with status 499"),
)

_TOKENS = "NGINX sees requests, not tokens"
_NO_QUEUE = "NGINX has no queue: a call is sent on or refused"
_TENANT = "NGINX does not tell tenants apart"
CANNOT: dict[str, str] = {
    "llm_gateway_queue_waiting": f"{_NO_QUEUE}; waiting connections are idle ones",
    "llm_gateway_queue_limit": _NO_QUEUE,
    "llm_gateway_queue_dropped_total": _NO_QUEUE,
    "llm_gateway_queue_seconds": _NO_QUEUE,
    "llm_gateway_tokens_total": _TOKENS,
    "llm_gateway_prompt_tokens_total": _TOKENS,
    "llm_gateway_ttft_seconds": "NGINX times whole answers, not their first token",
    "llm_gateway_tpot_seconds": _TOKENS,
    "llm_gateway_retries_total": "attempts of proxy_next_upstream are in the log's upstream fields only",
    "llm_gateway_connection_limit": "worker_connections is configuration and not on the page",
    "llm_gateway_connect_errors_total": "connections that failed are in the error log; their calls end with 502 or 504",
    "llm_gateway_streams_cut_total": "streams that proxy_read_timeout ended are in the error log only",
    "llm_gateway_upstream_up": "members that max_fails took out are in the error log only",
    "llm_gateway_tenant_sequences": _TENANT,
    "llm_gateway_tenant_weight": _TENANT,
}

_SUMMARY = "a summary: its quantiles cannot be added or compared with a limit"
_MEAN = "a mean since the module was loaded, which no histogram is made from"
UNUSED: tuple[Unused, ...] = (
    Unused("nginx_connections_accepted", "connections, not calls"),
    Unused("nginx_connections_handled", "connections, not calls"),
    Unused("nginx_connections_reading", "connections whose request is being read"),
    Unused("nginx_connections_waiting", "idle connections that are kept alive, not a queue"),
    Unused("nginxexporter_build_info", "the exporter's own"),
    Unused("nginx_exporter_build_info", "the exporter's own"),
    Unused("nginx_http_response_time_seconds", _SUMMARY),
    Unused("nginx_http_upstream_time_seconds", _SUMMARY),
    Unused("nginx_http_upstream_connect_time_seconds*", "time to connect, which no family holds"),
    Unused("nginx_http_response_size_bytes*", "sizes of answers"),
    Unused("nginx_http_request_size_bytes*", "sizes of requests"),
    Unused("nginx_vts_server_request_seconds", _MEAN),
    Unused("nginx_vts_upstream_request_seconds", _MEAN),
    Unused("nginx_vts_upstream_response_seconds", _MEAN),
    Unused(
        "nginx_vts_upstream_request_duration_seconds", "the client's side is in it; the upstream's own time is taken"
    ),
    Unused("nginx_vts_filter_*", "the same requests by a filter"),
    Unused("nginx_vts_*", "bytes, caches and the module's own"),
    Unused("nginx_server_*", "bytes, caches and means"),
    Unused("nginx_upstream_*", "bytes and means"),
    Unused("nginx_cache_*", "caches of files"),
    Unused("nginx_filter_*", "the same requests by a filter"),
    Unused("nginx_ingress_controller_*", "bytes, sizes, configuration and certificates"),
)
