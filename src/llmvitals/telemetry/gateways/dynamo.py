"""NVIDIA Dynamo's front end, 0.8 to 1.6: calls, times and tokens as it saw them.

Its ``queued_requests`` lasts until the first token, prefill included, so it is no queue. Models are written in lower case
on the series of calls and as they are called on the gauges of models; both are joined here. Those gauges hold what the first
worker said of itself, which its own page says better. ``DYN_METRICS_PREFIX`` may rename all series.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from llmvitals.schema import Origin
from llmvitals.series import Series
from llmvitals.telemetry.mapping import Derived, Parts, Row, Unused
from llmvitals.telemetry.simple import added, gateway, source

KIND = "dynamo"
PREFIX = "dynamo_frontend_"

TOKENS, PROMPTS = "llm_gateway_tokens_total", "llm_gateway_prompt_tokens_total"
MODELS = "models"

_LATER = "a release after 0.8"
_STATUSES: tuple[tuple[str, str], ...] = (
    ("validation", "4xx"),
    ("not_found", "404"),
    ("overload", "503"),
    ("unavailable", "503"),
    ("cancelled", "499"),
    ("response_timeout", "504"),
    ("internal", "500"),
    ("not_implemented", "501"),
)
"""What an ``error_type`` is as an HTTP status. Overload is answered 503 or, from 2026 on, 529: refused for lack of room."""


def _calls(told: str, **only: str) -> Row:
    return Row(
        "dynamo_frontend_requests",
        "llm_gateway_requests_total",
        fixed=(("status", told),),
        only=tuple((name, frozenset({value})) for name, value in only.items()),
        late=True,
        note="counted when a call has ended; error_type tells statuses apart after 0.8; models that nobody serves left out",
    )


ROWS: tuple[Row, ...] = (
    *added(
        (
            _calls("2xx", status="success"),
            *(_calls(status, status="error", error_type=kind) for kind, status in _STATUSES),
            _calls("error"),
            Row("dynamo_frontend_requests_started", "llm_gateway_calls_total", needs=_LATER),
            Row(
                "dynamo_frontend_model_migration",
                "llm_gateway_retries_total",
                fixed=(("by", "gateway"),),
                late=True,
                note="calls that moved to another worker when theirs was lost",
            ),
            Row(
                "dynamo_frontend_model_cancellation",
                "llm_gateway_disconnects_total",
                needs=_LATER,
                note="calls cancelled",
            ),
            Row("dynamo_frontend_time_to_first_token_seconds", "llm_gateway_ttft_seconds", late=True),
            Row("dynamo_frontend_inter_token_latency_seconds", "llm_gateway_tpot_seconds", late=True, note="per gap"),
            Row("dynamo_frontend_request_duration_seconds", "llm_gateway_request_seconds", late=True),
            Row(
                "dynamo_frontend_input_sequence_tokens_sum",
                PROMPTS,
                late=True,
                note="the sum of the prompts' lengths",
            ),
            Row("dynamo_frontend_output_tokens", TOKENS, late=True, note="as they come; prompt tokens are added"),
            Row("dynamo_frontend_active_requests", "llm_gateway_calls_running", late=True),
        )
    ),
    Row(
        "dynamo_frontend_inflight_requests",
        "llm_gateway_calls_running",
        late=True,
        fallback=True,
        note="the older name of active_requests",
    ),
    Row("dynamo_frontend_model_context_length", special=MODELS),
    Row("dynamo_frontend_model_migration_limit", special=MODELS),
)

_FIRST = "what the first worker said of itself; the engine's own page says it"
_LAST = "of the last call of a worker only"
_ROUTER = "of its router alone, a part of what the front end adds"

UNUSED: tuple[Unused, ...] = (
    Unused("dynamo_frontend_queued_requests", "from arrival to the first token, prefill included: no queue"),
    Unused("dynamo_frontend_disconnected_clients", "a gauge that is called no total; cancelled calls are counted"),
    Unused("dynamo_frontend_input_sequence_tokens", "its sum is taken; the engine shows the lengths of prompts"),
    Unused("dynamo_frontend_output_sequence_tokens", "the engine shows the lengths of answers"),
    Unused("dynamo_frontend_cached_tokens", "the engine's own page says what its cache held"),
    *(
        Unused(f"dynamo_frontend_model_{name}", _FIRST)
        for name in (
            "context_length",
            "kv_cache_block_size",
            "max_num_batched_tokens",
            "max_num_seqs",
            "migration_limit",
            "total_kv_blocks",
        )
    ),
    Unused("dynamo_frontend_model_rejection", "these are among the calls that ended in error (overload)"),
    Unused("dynamo_frontend_model_migration_max_seq_len_exceeded", "calls that were too long to move"),
    Unused("dynamo_frontend_model_ready", "whether any worker can take calls, not which"),
    Unused("dynamo_frontend_worker_last_*", _LAST),
    Unused("dynamo_frontend_worker_active_*", "the front end's estimate of what a worker holds; its own page says it"),
    Unused("dynamo_frontend_lora_*", "gauges of adapter placement at one tick, whatever they are called"),
    Unused("dynamo_frontend_router_*", _ROUTER),
    Unused("dynamo_frontend_tokenizer_*", "of tokenizing alone"),
    Unused("dynamo_router_*", _ROUTER),
    Unused("dynamo_component_router_*", _ROUTER),
    Unused("dynamo_component_*", "of Dynamo's runtime, not of calls"),
    Unused("kvbm_*", "blocks of Dynamo's KV manager, whose size the page does not show"),
)

CANNOT: Mapping[str, str] = {
    "llm_gateway_queue_waiting": "queued_requests counts until the first token, prefill included; no queue is shown",
    "llm_gateway_queue_limit": "it has no queue of its own with a limit",
    "llm_gateway_queue_seconds": "the wait before a worker takes a call is not timed",
    "llm_gateway_queue_dropped_total": "it has no queue of its own; calls refused for lack of room are answered 503 or 529",
    "llm_gateway_overhead_seconds": "its router's share is timed, not the whole of what it adds",
    "llm_gateway_upstream_up": "workers come and go by discovery, and none is shown as down",
    "llm_gateway_upstream_seconds": "workers time calls on their own pages",
    "llm_gateway_upstream_requests_total": "workers count calls on their own pages",
    "llm_gateway_cache_hits_total": "it keeps no answers",
    "llm_gateway_breaker_open": "it has no circuit breaker",
}

_OWN_PREFIX = re.compile(rb"(?m)^(?:# TYPE )?([A-Za-z_]\w*?)_disconnected_clients\b")


def document(body: bytes) -> bytes | None:
    """A page whose prefix ``DYN_METRICS_PREFIX`` replaced, under the usual names; None for any other."""
    if b"_disconnected_clients" not in body or b"\ndynamo_frontend_disconnected_clients" in body:
        return None
    found = _OWN_PREFIX.search(body)
    if found is None or found[1] + b"_" == PREFIX.encode() or found[1] + b"_model_" not in body:
        return None
    return re.sub(rb"(?m)^(# (?:TYPE|HELP) )?" + re.escape(found[1]) + b"_", rb"\1" + PREFIX.encode(), body)


def _derive(parts: Parts) -> None:
    """One spelling of each model, then the tokens of prompts and answers together."""
    called = [entry.series.label("model") for entry, _ in parts.specials if entry.row.special == MODELS]
    spelled: dict[str, str] = {}
    for name in called:
        lower = name.lower()
        spelled[lower] = name if spelled.get(lower, name) == name else lower  # two models that differ in case alone
    for series in list(parts.samples):
        name = series.label("model")
        if spelled.get(name, name) != name:
            labels = {**dict(series.labels), "model": spelled[name]}
            parts.samples[Series(series.name, tuple(sorted(labels.items())))] = parts.samples.pop(series)
    for series in [s for s in parts.samples if s.name == PROMPTS]:
        tokens = Series(TOKENS, series.labels)
        if tokens in parts.samples:
            parts.samples[tokens] += parts.samples[series]


ADAPTER = source(
    KIND,
    "NVIDIA Dynamo front end",
    ROWS,
    claims=(PREFIX.encode(),),
    versions="0.8-1.6",
    none_found="Point at the front end's HTTP port, 8000 by default.",
    origin=Origin.GATEWAY,
    identity=gateway(KIND, model="model"),
    derive=_derive,
    derived=(Derived(TOKENS, "dynamo_frontend_output_tokens", "", "prompt and generated tokens added"),),
    cannot=CANNOT,
    unused=UNUSED,
    rank=30,
    document=document,
)
