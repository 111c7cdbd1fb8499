"""TensorRT-LLM's trtllm-serve: its Prometheus page under three prefixes, and its JSON documents, which are none.

1.1 shows five families without a prefix, Dynamo up to 0.7 puts ``trtllm:`` before them, later releases ``trtllm_``. All
latencies and tokens are counted when their request has ended, the time to the first token included. The gauges come from
the last iteration that was polled: they stand while nothing runs, for as long as that lasts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from llmvitals.errors import PageError
from llmvitals.gaps import GapKind
from llmvitals.series import Series
from llmvitals.telemetry import companions
from llmvitals.telemetry.engines.trtllm_rows import CACHED, ITERATIONS, NEWER, REJECTED, ROWS, UNUSED
from llmvitals.telemetry.mapping import Derived, FamilyGap, Parts, Whose
from llmvitals.telemetry.simple import Copy, source

KIND = "trtllm"

STANDS_SECONDS = 86_400.0
"""How long gauges of the last iteration may stand on an idle engine's page: without end, told as a day."""

AT_END = "llm_target_first_token_at_end"

_PATH = "Point at /prometheus/metrics, and start it with return_perf_metrics: true"
_GAUGES = "for queue, batch and KV cache also enable_iter_perf_stats: true"

_DOCUMENTS: tuple[tuple[tuple[bytes, ...], str, str], ...] = (
    (
        (b'"iterLatencyMS"', b'"numActiveRequests"', b'"inflightBatchingStats"'),
        "this is trtllm-serve's JSON list of its latest iterations, which is emptied by whoever asks, not its metrics page",
        f"{_PATH}; {_GAUGES}.",
    ),
    (
        (b'"ctx_perf_metrics"', b'"timing_metrics"'),
        "this is trtllm-serve's JSON list of single requests, not its metrics page",
        f"{_PATH}; {_GAUGES}.",
    ),
)
"""Names that only such a document has, what it is, and what to do. Settings are those of its YAML of extra options."""

_EMPTY = "answered with an empty JSON list, as trtllm-serve's /metrics does while nothing runs"

_NOTHING = re.compile(rb"\[\s*\]\s*")
_HEAD = 16_384  # bytes of a document in which its names must stand

DERIVED: tuple[Derived, ...] = (
    Derived(
        "llm_kv_capacity_tokens", "trtllm_kv_cache_max_blocks", "", f"x kv_cache_tokens_per_block; needs {ITERATIONS}"
    ),
)

_QUERY = "prompt tokens of ended requests"
COPIES: tuple[Copy, ...] = (
    Copy(CACHED, "llm_prefix_cache_hit_tokens_total", f"cached ones among the {_QUERY}"),
    Copy("llm_prompt_tokens_total", "llm_prefix_cache_query_tokens_total", _QUERY),
)

_LENGTHS = "lengths are counted in total, not by request"
CANNOT: Mapping[str, str] = {
    "llm_request_inter_token_seconds": "time per token is told as one mean per request, not gap by gap",
    "llm_preemptions_total": "how many requests are paused is shown of one iteration, not how often it happens",
    "llm_http_requests_total": "only errors are counted by HTTP code, so that no share of answers can be told",
    "llm_request_prompt_tokens": _LENGTHS,
    "llm_request_generation_tokens": _LENGTHS,
    "llm_iteration_tokens": "only the prompt tokens of iterations are shown",
    "llm_spec_drafts_total": "tokens are counted, not drafts",
}


def _identity(labels: Mapping[str, str]) -> Whose | None:
    """The engine's own series carry ``engine_type``, whatever their prefix; a Dynamo worker's carry its component.

    Gauges carry the ``pid`` of the process that wrote them as well, which says nothing of whose they are.
    """
    if "engine_type" not in labels and "dynamo_component" not in labels:
        return None
    model = labels.get("model_name", "")
    return Whose({"engine": KIND, "rank": "0", **({"model": model} if model not in ("", "undefined") else {})})


def _derive(parts: Parts) -> None:
    for entry, value in parts.specials:
        text = entry.source.get(entry.row.special, "")
        if value < 1.0 or not text:
            continue
        if text.isdecimal():
            parts.samples[entry.series] = float(text)
        elif text.lower() in _FLAGS:
            parts.samples[entry.series] = _FLAGS[text.lower()]
    _capacity(parts)
    _newer(parts)
    names = {series.name for series in parts.samples}
    if "llm_request_ttft_seconds_count" in names:
        parts.put(AT_END, 1.0, {})
    if "llm_requests_running" in names:
        parts.put("llm_target_report_age_seconds", STANDS_SECONDS, {})
    companions.roles(parts)


_FLAGS: Mapping[str, float] = {"true": 1.0, "false": 0.0}


def _capacity(parts: Parts) -> None:
    """Tokens that fit: blocks times their size."""
    for series in [s for s in parts.samples if s.name == "llm_kv_blocks"]:
        size = parts.samples.get(Series("llm_kv_block_tokens", series.labels))
        if size:
            parts.samples[Series("llm_kv_capacity_tokens", series.labels)] = parts.samples[series] * size
    if not any(series.name == "llm_kv_blocks" for series in parts.samples):
        why = f"it shows only with {ITERATIONS}"
        parts.gaps.append(FamilyGap("llm_kv_capacity_tokens", GapKind.UNSUPPORTED, why))


def _newer(parts: Parts) -> None:
    """Counters of releases that count tokens, which are not shown before their first event."""
    owners = [s for s in parts.samples if s.name == "llm_prompt_tokens_total"]
    names = {series.name for series in parts.samples}
    if not owners:
        why = f"it shows only with {NEWER}"
        parts.gaps.extend(FamilyGap(copy.family, GapKind.UNSUPPORTED, why) for copy in COPIES)
    elif CACHED not in names:
        parts.gaps.append(FamilyGap(CACHED, GapKind.NO_TRAFFIC, "it is not shown before the first hit"))
    if REJECTED not in names:
        for owner in owners:
            parts.samples[Series(REJECTED, owner.labels)] = 0.0


def _document(body: bytes) -> bytes | None:
    """Explains the JSON of /metrics and /perf_metrics: raises :class:`PageError`. None for anything else."""
    head = body[:_HEAD].lstrip()
    if not head.startswith((b"[", b"{")):
        return None
    if _NOTHING.fullmatch(head):
        raise PageError(_EMPTY, place="", remedy=f"If it is: {_PATH[0].lower()}{_PATH[1:]}; {_GAUGES}.")
    for names, thing, remedy in _DOCUMENTS:
        if any(name in head for name in names):
            raise PageError(thing, place="", remedy=remedy)
    return None


ADAPTER = source(
    KIND,
    "TensorRT-LLM (trtllm-serve)",
    ROWS,
    claims=(
        b"trtllm_",
        b"trtllm:",
        b"request_success_total{engine_type=",  # without a prefix, these labels make it this engine's
        b"e2e_request_latency_seconds_bucket{engine_type=",
    ),
    versions="1.1-1.3 and later",
    none_found=f"{_PATH}; it shows nothing before the first request has ended.",
    path="/prometheus/metrics",
    prefixes=(("trtllm_", "trtllm_"), ("trtllm_", "trtllm:")),
    identity=_identity,
    derive=_derive,
    derived=DERIVED,
    copies=COPIES,
    cannot=CANNOT,
    unused=UNUSED,
    document=_document,
)

__all__ = ["ADAPTER", "AT_END", "CANNOT", "STANDS_SECONDS"]
