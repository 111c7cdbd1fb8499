"""What other programs write beside an engine's own series on one page: Dynamo's worker runtime, its KV manager, LMCache.

The engine speaks for itself; of its companions only that is taken which the engine does not say. LMCache's counters are
not taken at all: it adds its running totals to them at each log, so that they grow on an idle server and can exceed the
prompts (LMCache issue 524); what it found stands in the engine's own counters of the external cache.
"""

from __future__ import annotations

from dataclasses import replace

from llmvitals.gaps import GapKind
from llmvitals.telemetry.mapping import FamilyGap, Parts, Row, Unused

WORKER = "a Dynamo worker around the engine"
LATER_WORKER = f"{WORKER}, of a release after 0.8"
GENERATE = ("dynamo_endpoint", frozenset({"generate"}))
"""A worker has endpoints besides: clearing its cache, loading adapters. They are no requests."""

ROLES = frozenset({"prefill", "decode"})
"""Dynamo's names of components that do only that; one called backend decodes, and may prefill as well."""

_COMPONENT_ROWS: tuple[Row, ...] = (
    Row(
        "dynamo_component_cancellation",
        "llm_requests_aborted_total",
        needs=LATER_WORKER,
        labels=(("model", "model"),),
        only=(GENERATE,),
        add=True,
        note="cancellations that reached the worker",
    ),
    Row(
        "dynamo_component_requests_total",
        "llm_engine_role",
        needs=WORKER,
        labels=(("model", "model"), ("role", "dynamo_component")),
        only=(GENERATE, ("dynamo_component", ROLES)),
        special="role",
        note="where the component is called prefill or decode",
    ),
)

_COPY = "Dynamo's copy of what the engine's own series say"
_BYTES = "bytes between Dynamo's front end and the worker"
_HANDLER = "of Dynamo's handler around the engine; the engine's own requests are taken"
_ROUTER = "of Dynamo's router, not of the engine"
_LMCACHE = "grows on an idle server, by the running totals; the engine's own counters say what an external cache held"

UNUSED: tuple[Unused, ...] = (
    Unused("dynamo_component_kvstats_*", _COPY),
    Unused("dynamo_component_gpu_cache_usage_percent", _COPY),
    Unused("dynamo_component_total_blocks", _COPY),
    Unused("dynamo_component_inflight_requests", "requests in the worker's hands, whether they run or wait"),
    Unused("dynamo_component_requests", _HANDLER),
    Unused("dynamo_component_request_duration_seconds", _HANDLER),
    Unused("dynamo_component_errors", _HANDLER),
    Unused("dynamo_component_cancellation", _HANDLER),
    Unused("dynamo_component_request_bytes", _BYTES),
    Unused("dynamo_component_response_bytes", _BYTES),
    Unused("dynamo_component_uptime_seconds", "how long Dynamo's runtime is up, not the engine"),
    Unused("dynamo_component_model_load_time_seconds", "of the start, which is over"),
    Unused("dynamo_component_kv_cache_event*", _ROUTER),
    Unused("dynamo_component_router_*", _ROUTER),
    Unused("dynamo_work_handler_*", _HANDLER),
    Unused("dynamo_rejection_request", _HANDLER),
    Unused("dynamo_request_queue*", _HANDLER),
    Unused("dynamo_engine_request*", _HANDLER),
    Unused("kvbm_*", "blocks of Dynamo's KV manager, whose size the page does not show"),
    Unused("lmcache:*", _LMCACHE),
    Unused("lmcache_*", _LMCACHE),
)
"""Known and not taken, on any engine's page."""


def component_rows(*, v0: str = "", v1: str = "", span: str = "") -> tuple[Row, ...]:
    """Rows for an engine that does not say these things itself; its releases are given as its own rows give them."""
    return tuple(replace(row, v0=v0, v1=v1, span=span) for row in _COMPONENT_ROWS)


def roles(parts: Parts) -> None:
    """``llm_engine_role`` of a worker whose component tells it."""
    told = [entry.series for entry, _ in parts.specials if entry.row.special == "role"]
    for series in told:
        parts.samples[series] = 1.0
    if not told and "dynamo_component_requests" in parts.marks:
        reason = "Dynamo calls the component neither prefill nor decode: it decodes, and may prefill as well"
        parts.gaps.append(FamilyGap("llm_engine_role", GapKind.UNSUPPORTED, reason))
