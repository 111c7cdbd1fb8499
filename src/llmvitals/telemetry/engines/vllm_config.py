"""What vLLM says in labels instead of values: the cache configuration and the LoRA adapters, and one unit that moved."""

from __future__ import annotations

import math
from collections.abc import Mapping

from llmvitals.gaps import GapKind
from llmvitals.telemetry.mapping import Derived, FamilyGap, Parts

_CACHE = "vllm:cache_config_info"
_LORA = "vllm:lora_requests_info"
_OFFLOAD = "llm_kv_offload_usage_ratio"

DERIVED: tuple[Derived, ...] = (
    Derived(
        "llm_kv_capacity_tokens",
        _CACHE,
        "0.4+",
        "kv_cache_size_tokens (0.24+) less one block, else num_gpu_blocks x block_size per rank, less V1's null block",
    ),
    Derived(
        "llm_kv_blocks", _CACHE, "0.4+", "num_gpu_blocks, divided by the ranks it was summed over, less V1's null block"
    ),
    Derived("llm_kv_block_tokens", _CACHE, "0.4+", "block_size"),
    Derived("llm_max_model_tokens", _CACHE, "0.24+", "kv_cache_size_tokens / kv_cache_max_concurrency"),
    Derived("llm_prefix_caching_enabled", _CACHE, "0.4+", "enable_prefix_caching"),
    Derived("llm_gpu_memory_utilization_setting", _CACHE, "0.4+", "gpu_memory_utilization"),
    Derived("llm_lora_slots", _LORA, "0.6.4+", "max_lora of the newest label set"),
    Derived("llm_lora_running_adapters", _LORA, "0.6.4+", "running_lora_adapters of the newest label set"),
    Derived(
        "llm_lora_waiting_adapters", _LORA, "0.6.4+", "waiting_lora_adapters of the newest label set that do not run"
    ),
)


def _gap(parts: Parts, source: str, kind: GapKind, reason: str, *, but: frozenset[str] = frozenset()) -> None:
    parts.gaps.extend(FamilyGap(d.family, kind, reason) for d in DERIVED if d.source == source and d.family not in but)


def _float(text: str) -> float:
    """A label's number; NaN for None, empty or text."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def replica(source: Mapping[str, str]) -> str:
    """Which of several servers on one page a series is of: Ray's page shows all replicas of its node; empty elsewhere.

    vLLM's logger for Ray writes ``ReplicaId``; before it did, Ray's own label of the process tells them apart.
    """
    return source.get("ReplicaId") or source.get("WorkerId") or ""


def rank(source: Mapping[str, str]) -> str:
    """Data-parallel rank, behind its replica where there are several: their numbers are added, never overwritten."""
    one, number = replica(source), source.get("engine") or "0"
    return number if not one else one if number == "0" else f"{one}/{number}"


def _owner(parts: Parts, source: Mapping[str, str]) -> dict[str, str]:
    """Identity of a series that names no model: the page's model where it is the only one."""
    labels = {"engine": "vllm", "rank": rank(source)}
    if len(parts.models) == 1:
        labels["model"] = parts.models[0]
    return labels


def cache_config(parts: Parts) -> None:
    """Capacity, block size and settings of each rank, from the labels of ``cache_config_info``.

    ``num_gpu_blocks`` is summed over data-parallel ranks and repeated for each of them; ``kv_cache_size_tokens`` is per
    rank. Both count V1's null block, which no request can hold.
    """
    infos = [entry.source for entry, value in parts.specials if entry.row.special == "cache" and value >= 1.0]
    if not infos:
        _gap(parts, _CACHE, GapKind.UNSUPPORTED, "this page has no vllm:cache_config_info")
        return
    null = 1.0 if parts.marks & {"vllm:gpu_prefix_cache_queries", "vllm:prefix_cache_queries"} else 0.0
    for info in infos:
        ranks = len({other.get("engine", "0") for other in infos if replica(other) == replica(info)})
        given = _cache_values(info, ranks, null)
        owner = _owner(parts, info)
        for derived in DERIVED:
            if derived.source != _CACHE:
                continue
            value = given.get(derived.family, math.nan)
            if math.isfinite(value) and value >= 0.0:
                parts.put(derived.family, value, owner)
            else:
                kind = GapKind.UNSUPPORTED if derived.family == "llm_max_model_tokens" else GapKind.MISSING
                reason = f"cache_config_info does not say it ({derived.how})"
                parts.gaps.append(FamilyGap(derived.family, kind, reason))


def _cache_values(info: Mapping[str, str], ranks: int, null: float) -> dict[str, float]:
    block = _float(info.get("block_size", ""))
    blocks = _float(info.get("num_gpu_blocks", "")) / ranks - null
    size = _float(info.get("kv_cache_size_tokens", ""))
    seats = _float(info.get("kv_cache_max_concurrency", ""))
    return {
        "llm_kv_capacity_tokens": size - null * block if math.isfinite(size) else blocks * block,
        "llm_kv_blocks": blocks,
        "llm_kv_block_tokens": block,
        "llm_max_model_tokens": float(round(size / seats)) if seats > 0 and math.isfinite(size) else math.nan,
        "llm_prefix_caching_enabled": {"True": 1.0, "False": 0.0}.get(info.get("enable_prefix_caching", ""), math.nan),
        "llm_gpu_memory_utilization_setting": _float(info.get("gpu_memory_utilization", "")),
    }


def lora(parts: Parts) -> None:
    """Slots and adapters from the newest label set of each server's ``lora_requests_info``, whose value is a time.

    Old label sets never leave the page. With several API servers the times of one set add up, so the largest still
    belongs to a set that was seen last by some of them. An adapter in both lists counts as running.
    """
    sets = [(value, entry.source) for entry, value in parts.specials if entry.row.special == "lora" and value >= 0.0]
    if not sets:
        _gap(parts, _LORA, GapKind.UNSUPPORTED, "it shows only with --enable-lora")
        return
    for server in sorted({replica(source) for _, source in sets}):
        _, newest = max(((t, s) for t, s in sets if replica(s) == server), key=lambda pair: pair[0])
        _adapters(parts, newest)


def _adapters(parts: Parts, newest: Mapping[str, str]) -> None:
    """What one server's newest label set says."""
    slots = _float(newest.get("max_lora", ""))
    if slots == 0.0:
        _gap(parts, _LORA, GapKind.UNSUPPORTED, "no adapter slots are configured (max_lora 0)")
        return
    running = _names(newest.get("running_lora_adapters", ""))
    waiting = _names(newest.get("waiting_lora_adapters", "")) - running
    owner = _owner(parts, {name: value for name, value in newest.items() if name != "engine"})
    if math.isfinite(slots):
        parts.put("llm_lora_slots", slots, owner)
    else:
        parts.gaps.append(FamilyGap("llm_lora_slots", GapKind.UNSUPPORTED, "this front end does not say max_lora"))
    parts.put("llm_lora_running_adapters", float(len(running)), owner)
    parts.put("llm_lora_waiting_adapters", float(len(waiting)), owner)


def _names(text: str) -> set[str]:
    return {name.strip() for name in text.split(",") if name.strip()}


def offload(parts: Parts) -> None:
    """Usage of the simple offload tier: used blocks over the capacity that its info series names."""
    entries = [(entry.source, value) for entry, value in parts.specials if entry.row.special == "simple"]
    pools = {rank(source): _float(source["capacity_blocks"]) for source, _ in entries if "capacity_blocks" in source}
    shown = {series.label("rank") for series in parts.samples if series.name == _OFFLOAD}
    for source, used in entries:
        if "capacity_blocks" in source or rank(source) in shown:
            continue
        share = used / (pools.get(rank(source)) or math.nan)
        if 0.0 <= share <= 1.0:
            parts.put(_OFFLOAD, share, _owner(parts, source))
        else:
            reason = "simple_kv_offload_info names no capacity that holds the used blocks"
            parts.gaps.append(FamilyGap(_OFFLOAD, GapKind.MISSING, reason))


# What only releases with the token unit show, and what every release from 0.8.3 on shows beside these counters.
_TOKENS = frozenset({"unit:tokens", "vllm:kv_cache_usage_perc"})
_SINCE_083 = frozenset({"vllm:num_preemptions", "label:engine"})


def prefix_counters(parts: Parts) -> None:
    """The prefix counters of 0.7.3-0.11, in tokens: their unit was blocks up to 0.8.5, with the same name after.

    The help text says which, and so do series that came or went with a release. Without them the page's own prompt
    tokens decide: lookups in tokens are about as many as prompt tokens, lookups in blocks fewer by the block size.
    """
    old = [(entry, value) for entry, value in parts.specials if entry.row.special == "prefix"]
    if not old or any(entry.series in parts.samples for entry, _ in old):
        return
    block = next((v for s, v in parts.samples.items() if s.name == "llm_kv_block_tokens"), math.nan)
    factor = _prefix_factor(parts, [(e.row.family, v) for e, v in old], block)
    for entry, value in old:
        scaled = value * factor
        if 0.0 <= scaled < math.inf:
            parts.samples[entry.series] = scaled
        else:
            reason = "the old prefix counters may be blocks or tokens, and nothing on the page tells"
            parts.gaps.append(FamilyGap(entry.row.family, GapKind.MISSING, reason))


def _prefix_factor(parts: Parts, old: list[tuple[str, float]], block: float) -> float:
    if parts.marks & _TOKENS:
        return 1.0
    if "unit:blocks" in parts.marks or not parts.marks >= _SINCE_083:
        return block
    looked_up = sum(value for family, value in old if family == "llm_prefix_cache_query_tokens_total")
    prompts = sum(v for s, v in parts.samples.items() if s.name == "llm_prompt_tokens_total")
    if looked_up == 0.0:
        return 1.0
    if not prompts or not math.isfinite(block):
        return math.nan
    return 1.0 if looked_up * math.sqrt(block) > prompts else block
