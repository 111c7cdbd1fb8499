"""What SGLang's page says only in several series at once: queues, tokens as they are made, prefix lookups, pools."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from llmvitals.gaps import GapKind
from llmvitals.series import Series
from llmvitals.telemetry.mapping import Derived, Entry, FamilyGap, Parts

WAITING, REASON = "llm_requests_waiting", "llm_requests_waiting_by_reason"
MADE, PROMPTS, CACHED = "llm_generation_tokens_total", "llm_prompt_tokens_total", "llm_prompt_tokens_cached_total"
ENDED, E2E = "llm_requests_finished_total", "llm_request_e2e_seconds"
GAPS = "llm_request_inter_token_seconds"
QUERY, HIT = "llm_prefix_cache_query_tokens_total", "llm_prefix_cache_hit_tokens_total"
HTTP, REJECTED = "llm_http_requests_total", "llm_requests_rejected_total"
SLOTS = "llm_lora_slots"
CAPACITY, BLOCKS, BLOCK = "llm_kv_capacity_tokens", "llm_kv_blocks", "llm_kv_block_tokens"
HOST = "llm_kv_offload_usage_ratio"

PREFILLS, DECODES = "engine:prefill", "engine:decode"
"""Marks of pages of servers that only prefill, or only decode."""

REFRESH_SECONDS = 30.0
"""An idle scheduler writes its gauges again after so long (0.4 to 0.5.23); until then they show its last busy moment."""

DERIVED: tuple[Derived, ...] = (
    Derived(
        HIT,
        "sglang:prefill_effective_tokens_total",
        "0.4.4+",
        "its hits; before 0.5.18 realtime_tokens_total of prefill_cache, before 0.5.7 cached_tokens_total of ended requests",
    ),
    Derived("llm_engine_role", "engine_type", "0.4.4+", "a label: prefill and decode as they are, unified is both"),
)

# What a queue's requests wait for.
_QUEUES: Mapping[str, str] = {
    "sglang:num_queue_reqs": "capacity",
    "sglang:num_grammar_queue_reqs": "deferred",
    "sglang:num_prefill_bootstrap_queue_reqs": "kv_transfer",
    "sglang:num_prefill_prealloc_queue_reqs": "kv_transfer",
    "sglang:num_decode_transfer_queue_reqs": "kv_transfer",
    "sglang:num_decode_prealloc_queue_reqs": "capacity",
}
_GRAMMAR = "sglang:num_grammar_queue_reqs"
_OLD_GAPS = "sglang:time_per_output_token_seconds"
_ROLES: Mapping[str, str] = {"unified": "both", "prefill": "prefill", "decode": "decode"}

_IDENTITY = frozenset({"model", "rank", "engine"})

Owner = tuple[tuple[str, str], ...]
Told = dict[Owner, dict[str, float]]


def _order(source: Mapping[str, str]) -> tuple[int, ...]:
    """Tensor- and pipeline-parallel ranks repeat each other's numbers: the first of a data-parallel rank speaks."""
    texts = (source.get("pp_rank", "0"), source.get("tp_rank", "0"))
    return tuple(int(text) if text.isdecimal() else 0 for text in texts)


def _gather(parts: Parts, special: str, key: Callable[[Entry], str], *, ranked: bool = True) -> Told:
    """Values of the entries of one kind by whose they are and by ``key``; added where they are not of ranks."""
    first: dict[tuple[Owner, str, str], tuple[tuple[int, ...], float]] = {}
    for entry, value in parts.specials:
        if entry.row.special != special or not 0.0 <= value < math.inf:
            continue
        owner = tuple(identity(entry.series).items())
        place, order = (owner, key(entry), entry.row.source), _order(entry.source)
        if place not in first or (ranked and order < first[place][0]):
            first[place] = order, value
        elif not ranked:
            first[place] = order, first[place][1] + value
    told: Told = {}
    for (owner, name, _), (_, value) in first.items():
        mine = told.setdefault(owner, {})
        mine[name] = mine.get(name, 0.0) + value
    return told


def identity(series: Series) -> dict[str, str]:
    """Whose number a canonical sample is, less what the whole page shares."""
    return {name: value for name, value in series.labels if name in _IDENTITY}


def _mode(entry: Entry) -> str:
    return entry.source.get("mode", "")


def queues(parts: Parts) -> None:
    """Who waits, and for what: the scheduler's queues, added up."""
    told = _gather(parts, "queue", lambda entry: _QUEUES[entry.row.source])
    reasons = _GRAMMAR in parts.marks
    if any(series.name == SLOTS for series in parts.samples):
        reasons = False
        why = "requests that wait for an adapter stand in the same queue as those that wait for capacity"
        parts.gaps.append(FamilyGap(REASON, GapKind.UNSUPPORTED, why))
    for owner, by_reason in told.items():
        labels = dict(owner)
        if "capacity" in by_reason:
            parts.put(WAITING, sum(by_reason.values()), labels)
        if reasons:
            for reason, value in by_reason.items():
                parts.put(REASON, value, {**labels, "reason": reason})


def role(parts: Parts) -> None:
    """What the server does of a request, from the label ``engine_type``; nothing where labels disagree."""
    told = {entry.source.get("engine_type", "") for entry, _ in parts.specials} & set(_ROLES)
    if len(told) != 1:
        return
    owner = {"engine": "sglang", "rank": "0", "role": _ROLES[told.pop()]}
    if len(parts.models) == 1:
        owner["model"] = parts.models[0]
    parts.put("llm_engine_role", 1.0, owner)


def ended(parts: Parts) -> None:
    """Ended requests, before they had a counter of their own: as many as end-to-end latencies were observed."""
    if any(series.name == ENDED for series in parts.samples):
        return
    for series in [s for s in parts.samples if s.name == f"{E2E}_count"]:
        parts.put(ENDED, parts.samples[series], identity(series))


def old_gaps(parts: Parts) -> None:
    """Gaps between tokens as 0.4.3 and before name them. 0.4.4 has another name for them, and shows the whole time of
    requests over their tokens under this one: it says nothing of the release.
    """
    if "label:engine_type" in parts.marks or any(series.name == f"{GAPS}_count" for series in parts.samples):
        parts.marks -= {_OLD_GAPS}
        return
    for entry, value in parts.specials:
        if entry.row.source == _OLD_GAPS and 0.0 <= value < math.inf:
            parts.samples[entry.series] = parts.samples.get(entry.series, 0.0) + value


def refusals(parts: Parts) -> None:
    """Answers of 503: refused at admission, and 5xx like any other."""
    shown = [series for series in parts.samples if series.name == HTTP]
    told = [(e, v) for e, v in parts.specials if e.row.special == "refused" and 0.0 <= v < math.inf]
    if not shown and not told:
        return
    refused = 0.0
    for entry, value in told:
        refused += value
        labels = {name: entry.series.label(name) for name in ("engine", "rank", "handler")} | {"status": "5xx"}
        there = parts.samples.get(Series(HTTP, tuple(sorted({**parts.identity, **labels}.items()))), 0.0)
        parts.put(HTTP, there + value, labels)
    owner = {"engine": "sglang", "rank": "0", "reason": "503"}
    if len(parts.models) == 1:
        owner["model"] = parts.models[0]
    parts.put(REJECTED, refused, owner)


def generated(parts: Parts) -> None:
    """Generated tokens: as they are decoded where the page counts them so, else as requests end."""
    live = _gather(parts, "decoded", _mode)
    for owner, values in (live or _gather(parts, "generated", lambda entry: "", ranked=False)).items():
        parts.put(MADE, sum(values.values()), dict(owner))


def prefix_lookups(parts: Parts) -> None:
    """Prompt tokens looked up and found: as they are prefilled where the page counts them so, else as requests end.

    A server that only decodes computes no prompt: the KV of all of them is found, since another server sent it.
    """
    if DECODES in parts.marks:
        for series in [s for s in parts.samples if s.name == PROMPTS]:
            parts.put(QUERY, parts.samples[series], identity(series))
            parts.put(HIT, parts.samples[series], identity(series))
        return
    told = _gather(parts, "effective", _mode) or _gather(parts, "prefilled", _mode)
    for owner, values in told.items():
        parts.put(QUERY, sum(values.values()), dict(owner))
        parts.put(HIT, float(sum(v for mode, v in values.items() if mode in _HITS)), dict(owner))
    if told:
        return
    for series in [s for s in parts.samples if s.name == CACHED]:
        model = series.label("model")
        asked = sum(v for s, v in parts.samples.items() if s.name == PROMPTS and s.label("model") == model)
        parts.put(QUERY, asked, identity(series))
        parts.put(HIT, parts.samples[series], identity(series))


_HITS = frozenset({"device_hit", "host_hit", "storage_hit", "prefill_cache"})


def pools(parts: Parts) -> None:
    """Blocks told in labels; and no capacity for models with several pools, whose usage is that of the fullest one."""
    ranks = [s for s in parts.samples if s.name == "llm_requests_running"]
    for entry, value in parts.specials:
        if entry.row.special == "config" and value >= 1.0:
            for series in ranks:
                for family, label in ((BLOCKS, "num_pages"), (BLOCK, "page_size")):
                    if entry.source.get(label, "").isdecimal():
                        parts.put(family, float(entry.source[label]), identity(series))
    if any(entry.row.special == "hybrid" and value > 0.0 for entry, value in parts.specials):
        for series in [s for s in parts.samples if s.name in {CAPACITY, BLOCKS}]:
            del parts.samples[series]
        reason = "the model has several pools, and usage is that of the fullest one"
        parts.gaps.extend(FamilyGap(family, GapKind.UNSUPPORTED, reason) for family in (CAPACITY, BLOCKS))


def host_tier(parts: Parts) -> None:
    """Share of the host's KV pool in use."""
    told = _gather(parts, "host", lambda entry: entry.row.source.rsplit("_", 2)[1])
    for owner, values in told.items():
        if values.get("total", 0.0) > 0.0 and "used" in values:
            parts.put(HOST, min(1.0, values["used"] / values["total"]), dict(owner))
