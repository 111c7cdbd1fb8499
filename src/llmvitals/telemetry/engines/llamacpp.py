"""llama.cpp's server, 2024 to 2026: busy slots, deferred requests, and totals printed with six significant digits.

It needs ``--metrics``; names carry no label, not even the model's. In router mode each model is a page of its own behind
``?model=NAME``. Totals pass through a text stream of six digits, so that they move in steps once they are large: from
where a step would falsify a window of a minute they are withheld.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from llmvitals.gaps import GapKind
from llmvitals.series import Series
from llmvitals.telemetry.mapping import Derived, FamilyGap, Parts, Row, Unused
from llmvitals.telemetry.simple import source

KIND = "llamacpp"

SPEC = "speculative decoding, in releases of 2026"
CACHED = "a release of 2026"
EARLY = "a release of early 2025 or before"

ITL = "llm_request_inter_token_seconds"
MADE, PROMPTS = "llm_generation_tokens_total", "llm_prompt_tokens_total"
COMPUTED, REUSED = "llm_prompt_tokens_by_source_total", "llm_prompt_tokens_cached_total"
QUERY, HIT = "llm_prefix_cache_query_tokens_total", "llm_prefix_cache_hit_tokens_total"

_DIGITS = "six digits: from a million on it moves in steps, from 100 million (steps of 1,000) it is withheld"

ROWS: tuple[Row, ...] = (
    Row("llamacpp:requests_processing", "llm_requests_running", note="busy slots"),
    Row("llamacpp:requests_deferred", "llm_requests_waiting", note="requests that wait for a slot"),
    Row("llamacpp:tokens_predicted", MADE, note=f"counted when a slot is released; {_DIGITS}"),
    Row(
        "llamacpp:tokens_predicted_seconds",
        ITL,
        part="_sum",
        note="over tokens_predicted: a mean per token, without buckets",
    ),
    Row("llamacpp:prompt_tokens", COMPUTED, fixed=(("source", "local_compute"),), note=f"cached left out; {_DIGITS}"),
    Row("llamacpp:prompt_tokens_cached", REUSED, needs=CACHED, note=_DIGITS),
    Row("llamacpp:kv_cache_usage_ratio", "llm_kv_usage_ratio", needs=EARLY),
    Row("llamacpp:spec_decode_num_drafts", "llm_spec_drafts_total", needs=SPEC),
    Row("llamacpp:spec_decode_num_draft_tokens", "llm_spec_draft_tokens_total", needs=SPEC),
    Row("llamacpp:spec_decode_num_accepted_tokens", "llm_spec_accepted_tokens_total", needs=SPEC),
    Row(
        "llamacpp:spec_decode_num_accepted_tokens_per_pos",
        "llm_spec_accepted_tokens_by_position_total",
        needs=SPEC,
        labels=(("position", "position"),),
    ),
)

_COARSE: Mapping[str, float] = {MADE: 1e8, COMPUTED: 1e8, REUSED: 1e8, f"{ITL}_sum": 1e7}
"""From where on six digits are too few: steps of 1,000 tokens, or of 100 seconds of decoding, in a window of a minute."""

_FOLLOWS: Mapping[str, tuple[str, ...]] = {
    MADE: (MADE, ITL),
    f"{ITL}_sum": (ITL,),
    COMPUTED: (COMPUTED, PROMPTS, QUERY, HIT),
    REUSED: (REUSED, PROMPTS, QUERY, HIT),
}
"""What cannot be given without one of them."""

_STEPS = "the server prints six digits, and the total is so large that it moves in steps; after a restart it does not"
_WHOLE = "prompt_tokens leaves cached tokens out, and this release does not count those"
_SUMS = "times are sums over all requests; no single request is timed"
_POOL = "releases since early 2025 show nothing of the KV cache"
_ONE = "the page is about slots and sums"
_PREFIX = "prompt tokens and those reused of them: each prompt is looked up in its slot's cache"

DERIVED: tuple[Derived, ...] = (
    Derived(PROMPTS, "llamacpp:prompt_tokens", "2026", "computed and cached ones added"),
    Derived(QUERY, "llamacpp:prompt_tokens", "2026", _PREFIX),
    Derived(HIT, "llamacpp:prompt_tokens_cached", "2026", _PREFIX),
)

CANNOT: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "llm_request_ttft_seconds",
            "llm_request_tpot_seconds",
            "llm_request_e2e_seconds",
            "llm_request_queue_seconds",
            "llm_request_prefill_seconds",
            "llm_request_decode_seconds",
            "llm_request_inference_seconds",
        ),
        _SUMS,
    ),
    **dict.fromkeys(("llm_kv_capacity_tokens", "llm_kv_blocks", "llm_kv_block_tokens"), _POOL),
    "llm_requests_finished_total": "requests that have ended are not counted",
    "llm_requests_aborted_total": "requests that were given up are not counted",
    "llm_preemptions_total": "a slot keeps its request to the end: nothing is evicted",
    "llm_max_model_tokens": "n_tokens_max is the longest sequence so far, not the limit",
    "llm_request_prompt_tokens": f"{_ONE}; no request's length is shown",
    "llm_request_generation_tokens": f"{_ONE}; no request's length is shown",
}

UNUSED: tuple[Unused, ...] = (
    Unused("llamacpp:prompt_seconds", "a sum over requests that nobody counts: no time per request follows from it"),
    Unused("llamacpp:prompt_tokens_seconds", "a mean since start, in older releases since the last scrape by anybody"),
    Unused(
        "llamacpp:predicted_tokens_seconds", "a mean since start, in older releases since the last scrape by anybody"
    ),
    Unused("llamacpp:n_decode", "calls of the model, each of which serves all busy slots"),
    Unused("llamacpp:n_tokens_max", "a highest value so far, called a counter"),
    Unused("llamacpp:n_busy_slots_per_decode", "a mean since start, called a counter in older releases"),
    Unused("llamacpp:kv_cache_tokens", "tokens in the KV cache, whose size the page does not show"),
)


def _derive(parts: Parts) -> None:
    """Withhold what six digits no longer say, then add up what follows from the rest."""
    coarse = [s for s, v in parts.samples.items() if v >= _COARSE.get(s.name, math.inf)]
    for series in coarse:
        del parts.samples[series]
    _per_token(parts)
    _prompts(parts)
    lost = dict.fromkeys(family for series in coarse for family in _FOLLOWS[series.name])
    told = {gap.family for gap in parts.gaps}
    parts.gaps.extend(FamilyGap(family, GapKind.UNSUPPORTED, _STEPS) for family in lost if family not in told)


def _value(parts: Parts, name: str) -> tuple[Series, float] | None:
    return next(((s, v) for s, v in parts.samples.items() if s.name == name), None)


def _owner(series: Series) -> dict[str, str]:
    return {name: series.label(name) for name in ("engine", "rank")}


def _per_token(parts: Parts) -> None:
    """A mean needs its count: the tokens beside the seconds; without one of them there is none."""
    made, seconds = _value(parts, MADE), _value(parts, f"{ITL}_sum")
    if made is not None and seconds is not None:
        parts.put(f"{ITL}_count", made[1], _owner(made[0]))
    elif seconds is not None:
        del parts.samples[seconds[0]]


def _prompts(parts: Parts) -> None:
    computed, reused = _value(parts, COMPUTED), _value(parts, REUSED)
    if computed is None:
        return
    if reused is None:
        parts.gaps.extend(FamilyGap(family, GapKind.UNSUPPORTED, _WHOLE) for family in (PROMPTS, QUERY, HIT))
        return
    owner, total = _owner(computed[0]), computed[1] + reused[1]
    parts.put(COMPUTED, reused[1], {**owner, "source": "local_cache_hit"})
    parts.put(PROMPTS, total, owner)
    parts.put(QUERY, total, owner)
    parts.put(HIT, reused[1], owner)


ADAPTER = source(
    KIND,
    "llama.cpp server",
    ROWS,
    claims=(b"llamacpp:", b"llamacpp_"),
    prefixes=(("llamacpp:", "llamacpp:"), ("llamacpp:", "llamacpp_")),
    versions="2024-2026",
    none_found="Start the server with --metrics; in router mode ask /metrics?model=NAME.",
    derive=_derive,
    derived=DERIVED,
    cannot=CANNOT,
    unused=UNUSED,
)
