"""Text Generation Inference 1.0 to 3.3.7: no labels, no ``_total``, and no series before its first event.

It times a request's queue and its inference, never its first token. Lengths are counted when a prompt is accepted and
when an answer has ended; the two gauges of the batch are set at every pass of the decode loop. Its KV pool is set aside at
admission for the longest answer that a request may give, so a request holds what it reserved.
"""

from __future__ import annotations

import math

from llmvitals.gaps import GapKind
from llmvitals.telemetry.mapping import FamilyGap, Parts, Row, Unused
from llmvitals.telemetry.simple import Copy, source

KIND = "tgi"

FINISHED, REJECTED, ABORTED = "llm_requests_finished_total", "llm_requests_rejected_total", "llm_requests_aborted_total"
USAGE, CAPACITY = "llm_kv_usage_ratio", "llm_kv_capacity_tokens"

_ENDED = "counted when an answer has ended"
_FIRST_PASS = "set at every pass of the decode loop; a long prefill holds it"
_RESERVED = (
    "tokens reserved for the longest answers that running requests may give, over the budget: what TGI holds, not what "
    "is filled"
)


def _ends(err: str, family: str, note: str, **fixed: str) -> Row:
    """One kind of failure; the others of the same name have rows of their own."""
    kinds = (("err", frozenset(err.split())),)
    return Row(
        "tgi_request_failure",
        family,
        only=kinds,
        fixed=tuple(fixed.items()),
        add=True,
        late=True,
        note=note,
        span="1.0..",
    )


ROWS: tuple[Row, ...] = (
    Row("tgi_request_duration", "llm_request_e2e_seconds", late=True, span="1.0..", note="validation included"),
    Row("tgi_request_success", FINISHED, late=True, span="1.0..", note="no reason is told"),
    _ends("generation incomplete", FINISHED, "failures inside the engine have the reason error", reason="error"),
    _ends(
        "overloaded", REJECTED, "over max_concurrent_requests; what validation refuses is left out", reason="overloaded"
    ),
    _ends("dropped", ABORTED, "found when the queue is served or an answer is sent"),
    Row("tgi_request_queue_duration", "llm_request_queue_seconds", late=True, span="1.0..", note=_ENDED),
    Row("tgi_request_inference_duration", "llm_request_inference_seconds", late=True, span="1.0..", note=_ENDED),
    Row("tgi_batch_current_size", "llm_requests_running", late=True, span="1.0..", note=_FIRST_PASS),
    Row("tgi_queue_size", "llm_requests_waiting", late=True, span="1.0.."),
    Row("tgi_request_input_length", "llm_request_prompt_tokens", late=True, span="1.0..", note="of accepted prompts"),
    Row("tgi_request_generated_tokens", "llm_request_generation_tokens", late=True, span="1.0..", note=_ENDED),
    Row(
        "tgi_request_max_new_tokens",
        "llm_request_max_tokens_param",
        late=True,
        span="1.0..",
        note="TGI's own default where none was asked for; the edges end at what the server allows",
    ),
    Row(
        "tgi_batch_inference_success",
        "llm_iteration_tokens",
        part="_count",
        add=True,
        late=True,
        span="1.0..",
        note="steps only (prefill and decode added): their tokens are not counted",
    ),
    Row("tgi_batch_current_max_tokens", USAGE, special="reserved", late=True, span="2.4..", note=_RESERVED),
    Row("tgi_batch_max_total_tokens", CAPACITY, late=True, span="2.4..", note="the budget that it found or was given"),
    Row(
        "tgi_request_skipped_tokens_sum",
        "llm_spec_accepted_tokens_total",
        late=True,
        span="1.4..",
        note="the sum of a summary: tokens beyond the first of each step; 0 without speculation",
    ),
)

_NO_TOKENS = "TGI times the queue and the inference of a request, not its tokens"
CANNOT = {
    "llm_request_ttft_seconds": "TGI times the queue and the inference of a request, not its first token",
    "llm_request_inter_token_seconds": _NO_TOKENS,
    "llm_request_tpot_seconds": "its mean time per token has the prefill inside, and divides by all tokens",
    "llm_request_prefill_seconds": "prefills are timed batch by batch, not request by request",
    "llm_request_decode_seconds": "decoding is timed batch by batch; batch_decode_duration is detokenizing",
    "llm_http_requests_total": "answers are counted by outcome, not by HTTP status",
    "llm_preemptions_total": "TGI never evicts: a request starts when its longest answer fits",
    "llm_prefix_cache_query_tokens_total": "its prefix cache (3.x) is not counted",
    "llm_prefix_cache_hit_tokens_total": "its prefix cache (3.x) is not counted",
    "llm_spec_draft_tokens_total": "only the accepted ones are counted",
    "llm_kv_blocks": "the pool is told in tokens",
    "llm_kv_block_tokens": "the pool is told in tokens",
}

UNUSED: tuple[Unused, ...] = (
    Unused("tgi_request_count", "requests to /v1 are counted twice in it"),
    Unused("tgi_request_validation_duration", "validation is inside the request's own duration"),
    Unused("tgi_request_mean_time_per_token_duration", "the prefill is inside, and it divides by all tokens"),
    Unused("tgi_request_skipped_tokens", "quantiles of a summary; its sum is taken"),
    Unused("tgi_request_raw_input_length", "prompt lengths before truncation"),
    Unused("tgi_request_failure", "err=validation and err=template: input that was refused, which is no failure"),
    Unused("tgi_batch_next_size", "requests of a new batch, not tokens"),
    Unused("tgi_batch_total_tokens", "the name under which tgi_batch_max_total_tokens is described; never set"),
    Unused("tgi_batch_inference_count", "steps that began; those that succeeded are taken"),
    Unused("tgi_batch_inference_failure", "steps, not requests; requests that failed are taken"),
    Unused("tgi_batch_inference_duration", "whole batch calls, not requests"),
    Unused("tgi_batch_forward_duration", "forward passes of batches, not requests"),
    Unused("tgi_batch_decode_duration", "detokenizing and sampling of batches, not the decode phase"),
    Unused("tgi_batch_filter_duration", "filtering and sending of batches"),
    Unused("tgi_batch_concat", "batches that were joined"),
    Unused("tgi_batch_concat_duration", "joining of batches"),
)

_BORN_AT_ZERO = ((REJECTED, "overloaded"), (ABORTED, ""))
"""Every release counts these from their first event on: once anything was answered, absent means 0."""


def _derive(parts: Parts) -> None:
    names = {series.name for series in parts.samples}
    owner = {"engine": KIND, "rank": "0"}
    if FINISHED in names:
        for family, reason in _BORN_AT_ZERO:
            if family not in names:
                parts.put(family, 0.0, {**owner, "reason": reason} if reason else owner)
    budget = max((v for s, v in parts.samples.items() if s.name == CAPACITY), default=math.nan)
    for entry, reserved in parts.specials:
        if not math.isfinite(budget):
            why = "the budget that reservations are taken from is not on the page: TGI shows it from 2.4 on"
            parts.gaps.extend(FamilyGap(family, GapKind.UNSUPPORTED, why) for family in (USAGE, CAPACITY))
        elif budget > 0.0 and 0.0 <= reserved <= budget:
            parts.samples[entry.series] = reserved / budget
        else:
            why = f"{reserved:g} tokens reserved out of {budget:g} make no ratio"
            parts.gaps.append(FamilyGap(USAGE, GapKind.MISSING, why))


_PROMPTS = "the sum of the lengths of accepted prompts"
_MADE = "the sum of the lengths of ended answers, so it moves as requests end"

ADAPTER = source(
    KIND,
    "TGI",
    ROWS,
    claims=(b"tgi_",),
    versions="1.0-3.3.7",
    none_found="Point at Text Generation Inference's API port, or at its --prometheus-port.",
    derive=_derive,
    copies=(
        Copy("llm_request_prompt_tokens_sum", "llm_prompt_tokens_total", _PROMPTS),
        Copy("llm_request_generation_tokens_sum", "llm_generation_tokens_total", _MADE),
    ),
    cannot=CANNOT,
    unused=UNUSED,
)

__all__ = ["ADAPTER", "CANNOT", "ROWS", "UNUSED"]
