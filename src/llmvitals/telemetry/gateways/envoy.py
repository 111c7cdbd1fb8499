"""Envoy's ``/stats/prometheus``: the calls are what came in downstream, each cluster is an upstream.

Which clusters serve models cannot be known, so that all are taken but those of the control plane and of helpers, by
their names. Statuses of answers are exact codes from 400 on: what the clusters answered in the end, and what Envoy's own
limits refused; successes are the class that went downstream. Nothing is subtracted, so that every counter only rises.
Names and meanings: Envoy's statistics reference (connection manager, cluster, circuit breakers, local rate limit,
adaptive concurrency). Counters that nothing touched are hidden when the page is asked for with ``usedonly``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from llmvitals.errors import PageError
from llmvitals.gaps import GapKind
from llmvitals.schema import Origin
from llmvitals.telemetry import simple
from llmvitals.telemetry.gateways.envoy_rows import CANNOT, DERIVED, ROWS, UNUSED
from llmvitals.telemetry.mapping import Entry, FamilyGap, Parts, Whose

KIND = "envoy"
_PAGE = "Ask for /stats/prometheus on the admin port."

_HELPERS = re.compile(
    r"(^|[-_.|])(xds|sds|ads|rtds|admin|zipkin|jaeger|otel|opentelemetry|als|accesslog|ratelimit|extproc|ext-proc|ext_proc"
    r"|extauthz|ext-authz|ext_authz)([-_.|]|$)"
    r"|^(agent|stats|prometheus_stats|eg-ready-http|blackholecluster|(inbound)?passthroughcluster.*)$",
    re.IGNORECASE,
)
"""Clusters and listeners that no call of a model goes through: control plane, telemetry, filters, Envoy's own pages."""

_CLUSTER = ("envoy_cluster_name", "cluster_name")  # the second is how Istio spells its tags
_LISTENER = ("envoy_http_conn_manager_prefix", "http_conn_manager_prefix")

_BORN: tuple[tuple[str, str, Mapping[str, str]], ...] = (
    ("downstream", "llm_gateway_disconnects_total", {}),
    ("cluster", "llm_gateway_retries_total", {"by": "gateway"}),
    ("cluster", "llm_gateway_connect_errors_total", {}),
    ("cluster", "llm_gateway_queue_dropped_total", {"reason": "full"}),
    ("cluster", "llm_gateway_streams_cut_total", {"reason": "timeout"}),
)
"""Counters that are hidden until they count, after what shows that their like is on the page: then they stand at 0."""

_ANSWERS = ("llm_gateway_requests_total", "llm_gateway_upstream_requests_total")

_By = Mapping[str, list[tuple[Entry, float]]]


def _named(source: Mapping[str, str], labels: tuple[str, str]) -> str:
    return next((source[label] for label in labels if source.get(label)), "")


def _identity(source: Mapping[str, str]) -> Whose | None:
    """Envoy as a whole; None for what belongs to a helper."""
    helper = any(_HELPERS.search(_named(source, labels)) for labels in (_CLUSTER, _LISTENER))
    return None if helper else Whose({"gateway": KIND})


def _derive(parts: Parts) -> None:
    by: dict[str, list[tuple[Entry, float]]] = {}
    for entry, value in simple.sound(parts):
        by.setdefault(entry.row.special, []).append((entry, value))
    for entry, value in (*by.get("answer", ()), *by.get("retried", ())):
        _add(parts, entry, value)
    _statuses(parts, by)
    for entry, value in by.get("healthy", ()):
        parts.samples[entry.series] = float(value > 0)
    for entry, value in by.get("breaker", ()):
        parts.samples[entry.series] = max(parts.samples.get(entry.series, 0.0), float(value > 0))
    for entry, value in (*by.get("waiting", ()), *by.get("running", ())):
        _add(parts, entry, value)
    _limit(parts, by, "llm_gateway_queue_limit", "waiting", "waiting room")
    _limit(parts, by, "llm_gateway_concurrency_limit", "running", "running room")
    _born(parts, by)


def _add(parts: Parts, entry: Entry, value: float) -> None:
    parts.samples[entry.series] = parts.samples.get(entry.series, 0.0) + value


def _statuses(parts: Parts, by: _By) -> None:
    """Calls by status: successes by class, failures by code; where clusters are not shown, all by class."""
    if any(gap.family in _ANSWERS for gap in parts.gaps):
        parts.gaps.append(FamilyGap(_ANSWERS[0], GapKind.MISSING, simple.SHORT))
        return
    exact = bool(by.get("cluster") or by.get("answer"))
    found: dict[str, float] = {}
    for entry, value in by.get("class", ()):
        status = entry.series.label("status") + "xx"
        if not exact or status < "4":
            found[status] = found.get(status, 0.0) + value
    for entry, value in (*by.get("answer", ()), *by.get("refused", ())) if exact else ():
        status = entry.series.label("status")
        if status >= "4":
            found[status] = found.get(status, 0.0) + value
    for status, value in found.items():
        parts.put("llm_gateway_requests_total", value, {"gateway": KIND, "status": status})


def _limit(parts: Parts, by: _By, family: str, used: str, room: str) -> None:
    """A limit is what is in use and what is left, where every cluster shows what is left; a filter's own goes first."""
    use = {_named(entry.source, _CLUSTER): value for entry, value in by.get(used, ())}
    left = {_named(entry.source, _CLUSTER): value for entry, value in by.get(room, ())}
    if left and use.keys() <= left.keys() and not any(series.name == family for series in parts.samples):
        parts.put(family, sum(left.values()) + sum(use.values()), {"gateway": KIND})


def _born(parts: Parts, by: _By) -> None:
    shown = {series.name for series in parts.samples}
    for anchor, family, labels in _BORN:
        if by.get(anchor) and family not in shown:
            parts.put(family, 0.0, {"gateway": KIND, **labels})


def _document(body: bytes) -> bytes | None:
    """Envoy's own text and JSON statistics, which have no types and no labels: explained, not read."""
    if body.startswith(b'{"stats":[') or b"\nserver.live: " in body:
        raise PageError("these are Envoy's statistics, but not as a metrics page", place="/stats", remedy=_PAGE)
    return None


ADAPTER = simple.source(
    KIND,
    "Envoy",
    ROWS,
    claims=(b"envoy_cluster_", b"envoy_http_", b"envoy_server_", b"envoy_listener_"),
    versions="1.x",
    none_found=_PAGE,
    origin=Origin.GATEWAY,
    identity=_identity,
    derive=_derive,
    derived=DERIVED,
    cannot=CANNOT,
    unused=UNUSED,
    document=_document,
    path="/stats/prometheus",
)
