"""Mooncake: the store's master (memory, keys, calls) and TENT, its transfer engine (bytes, requests, times in us).

Neither serves requests of users. The master's memory is a slower tier of KV; what TENT reads and writes are KV transfers,
kept apart by direction, added over transports.
"""

from __future__ import annotations

from collections.abc import Mapping

from llmvitals.gaps import GapKind
from llmvitals.telemetry.mapping import FamilyGap, Parts, Row, Unused
from llmvitals.telemetry.simple import source

KIND = "mooncake"

USAGE = "llm_kv_offload_usage_ratio"
USED, CAPACITY = "master_allocated_bytes", "master_total_capacity_bytes"
TENT, MASTER = "TENT's page", "the master's page"

ROWS: tuple[Row, ...] = (
    Row(USED, USAGE, needs=MASTER, special="memory", note=f"over {CAPACITY}"),
    Row(CAPACITY, special="memory"),
    *(
        row
        for way in ("read", "write")
        for row in (
            Row(
                f"tent_{way}_latency_us",
                "llm_kv_transfer_seconds",
                needs=TENT,
                scale=1e-6,
                add=True,
                fixed=(("connector", f"tent-{way}"),),
                note="transports added",
            ),
            Row(
                f"tent_{way}_bytes",
                "llm_kv_transfer_bytes",
                needs=TENT,
                add=True,
                part="_sum",
                fixed=(("connector", f"tent-{way}"),),
                note="without buckets: a mean per request",
            ),
            Row(
                f"tent_{way}_requests",
                "llm_kv_transfer_bytes",
                needs=TENT,
                add=True,
                part="_count",
                fixed=(("connector", f"tent-{way}"),),
            ),
            Row(
                f"tent_{way}_failures",
                "llm_kv_transfer_failures_total",
                needs=TENT,
                add=True,
                fixed=(("connector", f"tent-{way}"),),
            ),
        )
    ),
)

_CALLS = "calls to the master, which moves no KV itself"
_KEYS = "keys, whose size the page does not show"
UNUSED: tuple[Unused, ...] = (
    Unused("master_*_requests", _CALLS),
    Unused("master_*_failures", _CALLS),
    Unused("master_batch_*", _CALLS),
    Unused("master_*_items", _CALLS),
    Unused("master_*_partial_successes", _CALLS),
    Unused("master_*key_count", _KEYS),
    Unused("master_*_evictions", "what the store let go to make room, as attempts"),
    Unused("master_evicted_size_bytes", "what the store let go to make room; its fill is taken"),
    Unused("master_active_clients", "clients of the store, no users"),
    Unused("master_promotion_*", "between the store's own tiers"),
    Unused("master_*", "of the master itself"),
    Unused("tent_transport_failover", "requests that changed their transport and went on"),
)

_STORE = "Mooncake keeps and moves KV; it serves no requests"
CANNOT: Mapping[str, str] = dict.fromkeys(
    (
        "llm_requests_running",
        "llm_requests_waiting",
        "llm_requests_finished_total",
        "llm_request_ttft_seconds",
        "llm_request_e2e_seconds",
        "llm_request_queue_seconds",
        "llm_generation_tokens_total",
        "llm_prompt_tokens_total",
        "llm_kv_usage_ratio",
        "llm_preemptions_total",
    ),
    _STORE,
)


def _derive(parts: Parts) -> None:
    """The store's fill: allocated bytes over the capacity of all its segments."""
    told = {entry.row.source: value for entry, value in parts.specials if entry.row.special == "memory"}
    if USED not in told:
        return
    capacity = told.get(CAPACITY, 0.0)
    if 0.0 <= told[USED] <= capacity and capacity > 0.0:
        parts.put(USAGE, told[USED] / capacity, {"engine": KIND, "rank": "0"})
    else:
        reason = f"{CAPACITY} is absent, or 0 before a segment is mounted"
        parts.gaps.append(FamilyGap(USAGE, GapKind.NO_TRAFFIC, reason))


ADAPTER = source(
    KIND,
    "Mooncake",
    ROWS,
    claims=(
        b"master_allocated_bytes",
        b"master_total_capacity_bytes",
        b"tent_read_",
        b"tent_write_",
        b"tent_transport_",
    ),
    versions="2026",
    none_found="Point at the master's metrics port, 9003 by default, or at TENT's.",
    derive=_derive,
    cannot=CANNOT,
    unused=UNUSED,
)
