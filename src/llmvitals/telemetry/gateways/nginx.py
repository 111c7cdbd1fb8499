"""NGINX: its status page as text or through an exporter, and what exporters of its access log and modules usually show.

Four sorts of pages share the prefix: ``stub_status`` (nginx-prometheus-exporter, or the text itself), which counts requests
without their status; the access log (prometheus-nginxlog-exporter), with exact statuses and histograms; the vts module,
with classes of statuses; the Lua module and the Kubernetes ingress controller, with exact statuses. A model call is a
POST where the method is shown. NGINX has no queue: ``waiting`` connections are idle ones that are kept alive.
"""

from __future__ import annotations

import re

from llmvitals.errors import PageError
from llmvitals.gaps import GapKind
from llmvitals.schema import Origin
from llmvitals.telemetry import simple
from llmvitals.telemetry.gateways.nginx_rows import ALL_HOSTS, CANNOT, DERIVED, LOG, ROWS, STATUS_PAGE, UNUSED
from llmvitals.telemetry.mapping import Entry, FamilyGap, Parts

KIND = "nginx"
_REMEDY = "Point at the page of nginx-prometheus-exporter or of a log exporter, or at stub_status itself."
_CAME, _CALLS, _LEFT = "llm_gateway_calls_total", "llm_gateway_requests_total", "llm_gateway_disconnects_total"

_STUB = re.compile(
    rb"\s*Active connections:\s*(\d+)\s+server accepts handled requests[^\n]*\n\s*(\d+)\s+(\d+)\s+(\d+)[^\n]*\n"
    rb"\s*Reading:\s*(\d+)\s+Writing:\s*(\d+)\s+Waiting:\s*(\d+)\s*"
)
_STUB_NAMES = (
    "nginx_connections_active",
    "nginx_connections_accepted",
    "nginx_connections_handled",
    "nginx_http_requests_total",
    "nginx_connections_reading",
    "nginx_connections_writing",
    "nginx_connections_waiting",
)


def _document(body: bytes) -> bytes | None:
    """The text of ``stub_status`` in the exporter's names. Raises PageError where it is cut or another dialect."""
    if not body.lstrip().startswith(b"Active connections:"):
        return None
    found = _STUB.fullmatch(body)
    if found is None:
        raise PageError(
            "this starts like NGINX's stub_status and goes on otherwise", place="stub_status", remedy=_REMEDY
        )
    lines = [f"{name} {value.decode()}\n" for name, value in zip(_STUB_NAMES, found.groups(), strict=True)]
    return "".join(lines).encode()


def _derive(parts: Parts) -> None:
    hosts: dict[str, list[tuple[Entry, float]]] = {}
    for entry, value in simple.sound(parts):
        if entry.row.special == "up" and _down(parts, value):
            return
        if entry.row.special == "host":
            hosts.setdefault(entry.series.name, []).append((entry, value))
    for found in hosts.values():
        whole = [(e, v) for e, v in found if e.source.get("host") == ALL_HOSTS]
        for entry, value in whole or found:
            parts.samples[entry.series] = parts.samples.get(entry.series, 0.0) + value
    _statuses(parts, log=any(entry.row.special == "log" for entry, _ in parts.specials))
    if not any(series.name == _CAME for series in parts.samples):  # the Lua module shares the name of what came in
        parts.gaps.append(FamilyGap(_CAME, GapKind.UNSUPPORTED, f"it shows only with {STATUS_PAGE}"))


def _statuses(parts: Parts, *, log: bool) -> None:
    """Clients that left are the calls with 499 (NGINX's own status); without exact statuses, why they are not known."""
    calls = {series.label("status"): value for series, value in parts.samples.items() if series.name == _CALLS}
    if any(gap.family == _CALLS for gap in parts.gaps):  # one of them has no number: it may be the 499
        parts.gaps.append(FamilyGap(_LEFT, GapKind.MISSING, simple.SHORT))
    elif any(status.isdigit() for status in calls):
        parts.put(_LEFT, calls.get("499", 0.0), {"gateway": KIND})
    elif calls:
        parts.gaps.append(FamilyGap(_LEFT, GapKind.UNSUPPORTED, "only the exact status 499 tells, not its class"))
    elif log:
        parts.gaps.extend(
            FamilyGap(name, GapKind.NO_TRAFFIC, "no request has been logged yet") for name in (_CALLS, _LEFT)
        )
    else:
        why = f"the status page counts requests without their status; it shows only with {LOG}"
        parts.gaps.extend(FamilyGap(name, GapKind.UNSUPPORTED, why) for name in (_CALLS, _LEFT))


def _down(parts: Parts, up: float) -> bool:
    """What an exporter says of the NGINX behind it: while that is down, the target is, and nothing else is known."""
    parts.put("llm_target_up", float(up > 0), {})
    if up > 0:
        return False
    why = "the exporter answers, but NGINX behind it does not (nginx_up is 0)"
    given = {row.family for row in ROWS if row.family} | {told.family for told in DERIVED}
    parts.gaps.extend(FamilyGap(family, GapKind.MISSING, why) for family in sorted(given))
    return True


ADAPTER = simple.source(
    KIND,
    "NGINX",
    ROWS,
    claims=(b"nginx_",),
    versions="1.x",
    none_found=_REMEDY,
    origin=Origin.GATEWAY,
    identity=simple.gateway(KIND),
    derive=_derive,
    derived=DERIVED,
    cannot=CANNOT,
    unused=UNUSED,
    document=_document,
)
