"""The endpoint picker of llm-d and of the Gateway API Inference Extension: flow control, refusals, times and tokens.

It is asked by a proxy (Envoy) for each call, so what stands here are the calls that reached it. Its names changed four
times, and some releases show old and new ones at once: of each thing only the newest name on the page counts. The pool's
means over pods (queue, KV use, running requests) are no sums, and the engines' own pages say all of it.

How a call ended is known where the picker refused it itself. Of calls that were sent on it counts that they were answered,
whatever the status, and beside that those whose status was not 200: taking one from the other could make a counter fall
while both are being counted, so that calls are "answered" and failures are told of the upstream.
"""

from __future__ import annotations

from collections.abc import Mapping

from llmvitals.gaps import GapKind
from llmvitals.schema import Origin
from llmvitals.series import Series
from llmvitals.telemetry import simple
from llmvitals.telemetry.gateways.epp_rows import CANNOT, DERIVED, FLOW, GENERATIONS, ROWS, UNUSED
from llmvitals.telemetry.mapping import Entry, FamilyGap, Parts

KIND = "llm-d-epp"

_STATUS: Mapping[str, str] = {
    "BadRequest": "400",
    "Unauthorized": "401",
    "Forbidden": "403",
    "NotFound": "404",
    "BadConfiguration": "404",
    "PreconditionFailed": "412",
    "ResourceExhausted": "429",
    "InferencePoolResourceExhausted": "429",
    "Internal": "500",
    "ServiceUnavailable": "503",
}
"""The picker's own errors, and the HTTP status with which each is answered."""

_AGE: Mapping[str, int] = {row.source: place for place, row in enumerate(ROWS)}
_UPSTREAM_FAILED = "ModelServerError"
_OTHER = "error"

_REASONS: Mapping[str, str] = {
    "RejectedCapacity": "full",
    "RejectedOther": "other",
    "EvictedTTL": "ttl",
    "EvictedContextCancelled": "left",
    "EvictedOther": "other",
}
"""Outcomes of flow control under which a call was given up."""

_CAME, _CALLS = "llm_gateway_calls_total", "llm_gateway_requests_total"
_DROPPED, _QUEUE = "llm_gateway_queue_dropped_total", "llm_gateway_queue_seconds"
_WAITING = "llm_gateway_queue_waiting"
_TOKENS, _PROMPT = "llm_gateway_tokens_total", "llm_gateway_prompt_tokens_total"
_UPSTREAM = "llm_gateway_upstream_requests_total"


def _derive(parts: Parts) -> None:
    by = _newest(simple.sound(parts))
    if any(gap.family == _CALLS for gap in parts.gaps):  # calls that came in are those sent on and those refused
        parts.gaps.append(FamilyGap(_CAME, GapKind.MISSING, simple.SHORT))
    for entry, value in by.get("add", ()):
        _add(parts, entry.series.name, entry, value)
    for entry, value in by.get("ready", ()):
        parts.samples[entry.series] = float(value > 0)
    for entry, value in by.get("sent", ()):
        _add(parts, _CAME, entry, value)
    for entry, value in by.get("duration", ()):
        _add(parts, entry.series.name, entry, value, without=("tenant",))
        if entry.series.name.endswith("_count"):
            _add(parts, _CALLS, entry, value, {"status": "answered"})
    for entry, value in by.get("error", ()):
        _error(parts, entry, value)
    for entry, value in (*by.get("input", ()), *by.get("output", ())):
        _add(parts, _TOKENS, entry, value)
    for entry, value in by.get("input", ()):
        _add(parts, _PROMPT, entry, value, without=("tenant",))
    _flow_control(parts, by)


def _newest(specials: list[tuple[Entry, float]]) -> dict[str, list[tuple[Entry, float]]]:
    """What is left to work out, by its use; of each thing only what stands under the newest of its names.

    Rows of one thing stand in the order of their age, the newest first: a name may have changed without its prefix.
    """
    found: dict[tuple[str, str], dict[int, list[tuple[Entry, float]]]] = {}
    for entry, value in specials:
        thing = entry.row.special, entry.row.family
        found.setdefault(thing, {}).setdefault(_AGE[entry.row.source], []).append((entry, value))
    by: dict[str, list[tuple[Entry, float]]] = {}
    for (use, _), ages in found.items():
        by.setdefault(use, []).extend(ages[min(ages)])
    return by


def _add(
    parts: Parts,
    name: str,
    entry: Entry,
    value: float,
    labels: Mapping[str, str] | None = None,
    without: tuple[str, ...] = (),
) -> None:
    own = {k: v for k, v in entry.series.labels if k not in without} | dict(labels or {})
    series = Series(name, tuple(sorted(own.items())))
    parts.samples[series] = parts.samples.get(series, 0.0) + value


def _error(parts: Parts, entry: Entry, value: float) -> None:
    code = entry.source.get("error_code", "")
    if code == _UPSTREAM_FAILED:
        _add(parts, _UPSTREAM, entry, value, {"status": _OTHER}, without=("tenant",))
        return
    _add(parts, _CALLS, entry, value, {"status": _STATUS.get(code, _OTHER)})
    if code in _STATUS:
        _add(parts, _CAME, entry, value, without=("tenant",))


def _flow_control(parts: Parts, by: Mapping[str, list[tuple[Entry, float]]]) -> None:
    """Waits of every call that left the queue, and the ones given up, by reason; where there is a queue, 0 of each."""
    for entry, value in by.get("queue", ()):
        outcome = entry.source.get("outcome", "")
        _add(parts, entry.series.name, entry, value)
        if entry.series.name.endswith("_count") and outcome in _REASONS:
            _add(parts, _DROPPED, entry, value, {"reason": _REASONS[outcome]}, without=("tenant",))
    queued = {series.label("model") for series in parts.samples if series.name.startswith((_QUEUE, _WAITING))}
    if not queued:
        parts.gaps.append(FamilyGap(_DROPPED, GapKind.UNSUPPORTED, f"it shows only with {FLOW}"))
    for model in queued:
        named = {"gateway": KIND, **({"model": model} if model else {})}
        for reason in ("full", "ttl", "left"):
            series = Series(_DROPPED, tuple(sorted({**parts.identity, **named, "reason": reason}.items())))
            parts.samples.setdefault(series, 0.0)


ADAPTER = simple.source(
    KIND,
    "llm-d endpoint picker (Gateway API Inference Extension)",
    ROWS,
    claims=tuple(prefix.encode() for prefix in (*GENERATIONS, "llm_d_inference_scheduler_")),
    versions="0.3-1.5, llm-d 0.8",
    none_found="Point at the endpoint picker's own metrics port (9090).",
    origin=Origin.GATEWAY,
    identity=simple.gateway(KIND, model="model_name"),
    derive=_derive,
    derived=DERIVED,
    cannot=CANNOT,
    unused=UNUSED,
)
