"""Which resource binds now: KV read next to compute, as one answer for a scope, whatever its verdict is.

A resource binds when work is kept out or late (requests wait most of the time, or first tokens or tokens break their
objective) and the resource is at its limit. The rows are asked in order and the first that holds answers, since what comes
earlier also explains what comes later: a full pool leaves seats empty, too few seats leave compute idle. What no telemetry
shows is ``unknown`` with its reason and never a guess: plain utilisation (``GPU_UTIL``) says only that a kernel was resident
and stands for nothing here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from llmvitals.settings import Settings
from llmvitals.triage.checks import (
    GPU_IDLE,
    GPU_WAITS,
    KV_CAPPED,
    KV_FREE,
    KV_FULL,
    KV_SPENT,
    LINK_BUSY,
    NOT_QUEUED,
    QUEUED,
    THRASH,
    TPOT_HARM,
    TTFT_HARM,
)
from llmvitals.triage.judge import numbers, weigh
from llmvitals.triage.model import Limit, Readings
from llmvitals.triage.units import with_unit
from llmvitals.triage.verdict import Binding, Evidence, Resource


@dataclass(frozen=True, slots=True)
class Row:
    """A resource, the limits that must all hold, and those of which one must. ``cites``: signals whose numbers are told."""

    resource: Resource
    why: str
    when: tuple[Limit, ...]
    any_of: tuple[Limit, ...] = ()
    cites: tuple[str, ...] = ()


PRESSED: tuple[Limit, ...] = (QUEUED, TTFT_HARM, TPOT_HARM)
"""Work is kept out, or late."""

SLOW: tuple[Limit, ...] = (QUEUED, TPOT_HARM)
"""Decoding is what memory and links bind: a late first token alone has other reasons."""

TENSOR_BUSY = Limit("gpu_tensor_active_mean_ratio", ">=", 0.5)
"""Dense arithmetic as a mean over all that a window does: attention and transfers between products leave tensor pipes idle
even in a pure prefill, and products themselves reach some three quarters of the peak (FlashAttention-3, 2024: 75 % on H100).
The table of checks draws the line between dense work and other at the same number.
"""

SM_BUSY = Limit("gpu_sm_active_mean_ratio", ">=", 0.8)
"""NVIDIA's DCGM user guide: 0.8 or more is necessary for effective use, below 0.5 is likely ineffective."""

TENSOR_WORKS = Limit("gpu_tensor_active_mean_ratio", ">=", 0.3)
"""The line below which the table of checks says that kernels wait."""

DRAM_BUSY = Limit("gpu_dram_active_mean_ratio", ">=", 0.7)
"""Near its end: about 0.8 is what can be reached in practice (DCGM user guide, memory bandwidth utilisation)."""

DRAM_RESTS = Limit("gpu_dram_active_mean_ratio", "<", 0.7)

DRAM_WORKS = Limit("gpu_dram_active_mean_ratio", ">=", 0.5)
"""More than half of what can be reached, as a mean over steps that decode and steps that prefill."""

TENSOR_RESTS = Limit("gpu_tensor_active_mean_ratio", "<", 0.3)

COMPUTE: tuple[str, ...] = ("gpu_sm_active_mean_ratio",)
"""What KV is read next to: told where it is known, also where KV or seats decide."""

ROWS: tuple[Row, ...] = (
    # -- nothing to read a resource from -----------------------------------------------------------------------------
    Row(Resource.UNKNOWN, "the server does not answer", (Limit("dead_tail_pages", ">=", 3),)),
    Row(
        Resource.UNKNOWN,
        "nothing moves while work is there",
        (Limit("stalled_seconds", ">=", "thresholds.stalled_seconds"),),
        cites=("stalled_seconds",),
    ),
    Row(
        Resource.UNKNOWN,
        "answers end that the engine's counters do not know",
        (Limit("contradiction", ">=", 10),),
        cites=("contradiction",),
    ),
    Row(Resource.NOTHING, "no request was worked on", (Limit("activity", "<=", 0),)),
    Row(Resource.UNKNOWN, "too few pages; watch longer", (Limit("pages", "<", "thresholds.min_pages"),)),
    Row(
        Resource.UNKNOWN,
        "too short a time; watch longer",
        (Limit("window_seconds", "<", "thresholds.min_seconds", 0.975),),  # pages come a little earlier or later
    ),
    # -- KV: full means that the next request does not fit, at whatever share of the pool that is ------------------------
    Row(
        Resource.KV,
        "more was admitted than the pool holds, so that running requests are thrown out",
        THRASH,
        cites=("preemptions_per_minute", "kv_usage_high_ratio", *COMPUTE),
    ),
    Row(
        Resource.KV,
        "the next request does not fit into the pool, and requests wait for it",
        KV_FULL,
        cites=("kv_usage_high_ratio", "waiting_last", *COMPUTE),
    ),
    Row(
        Resource.KV,
        "hardly any of the pool stays free, and requests wait",
        KV_SPENT,
        cites=("kv_usage_high_ratio", "waiting_last", *COMPUTE),
    ),
    Row(
        Resource.KV,
        "admission is capped where the pool ends: another seat would be taken out of it later",
        KV_CAPPED,
        cites=("kv_usage_high_ratio", "running_max", *COMPUTE),
    ),
    # -- grammars, adapters, KV from elsewhere -----------------------------------------------------------------------------
    Row(
        Resource.NOTHING,
        "what waits does not wait for capacity",
        (QUEUED, KV_FREE, Limit("deferred_share_ratio", ">=", 0.5)),
        cites=("deferred_share_ratio",),
    ),
    # -- seats: all taken, with room for one more in KV and in the time of a token (the limits of batch-too-small) ----------
    Row(
        Resource.SEATS,
        "every seat is taken and requests wait, while KV has room and tokens come in time",
        (
            QUEUED,
            KV_FREE,
            Limit("running_pinned_ratio", ">=", 0.7),
            Limit("turnover_ratio", ">=", 2),
            Limit("spare_seats", ">=", 1),
            Limit("prompt_share_ratio", "<", 0.9),
            Limit("itl_p99_low_seconds", "<", "slo.tpot_seconds", 5),
            Limit("token_mean_seconds", "<", "slo.tpot_seconds", 0.75),
            Limit("tpot_harm_p", ">=", "thresholds.harm_p"),
        ),
        cites=("running_max", "waiting_last", "kv_usage_high_ratio", *COMPUTE),
    ),
    # -- compute and bandwidth: only from profiling counters -------------------------------------------------------------
    Row(
        Resource.COMPUTE,
        "tensor pipes work most of the time",
        (TENSOR_BUSY,),
        PRESSED,
        ("gpu_tensor_active_mean_ratio", "gpu_dram_active_mean_ratio"),
    ),
    Row(
        Resource.COMPUTE,
        "SMs are active and tensor pipes work, while memory is not at its limit",
        (SM_BUSY, TENSOR_WORKS, DRAM_RESTS),
        PRESSED,
        ("gpu_sm_active_mean_ratio", "gpu_tensor_active_mean_ratio"),
    ),
    Row(
        Resource.BANDWIDTH,
        "the memory of the GPUs moves data nearly all the time that it can",
        (DRAM_BUSY,),
        SLOW,
        ("gpu_dram_active_mean_ratio",),
    ),
    Row(
        Resource.BANDWIDTH,
        "SMs are active and their memory moves data, while tensor pipes rest",
        (SM_BUSY, DRAM_WORKS, TENSOR_RESTS),
        SLOW,
        ("gpu_dram_active_mean_ratio", "gpu_tensor_active_mean_ratio"),
    ),
    Row(
        Resource.BANDWIDTH,
        "GPUs wait for the link between them",
        (*GPU_WAITS, LINK_BUSY),
        SLOW,
        ("gpu_link_use_ratio", "gpu_dram_active_mean_ratio"),
    ),
    # -- nothing ---------------------------------------------------------------------------------------------------------
    Row(
        Resource.NOTHING,
        "KV and GPUs have room and nobody waits: the time goes elsewhere",
        (NOT_QUEUED, KV_FREE, GPU_IDLE),
        (TTFT_HARM, TPOT_HARM),
        ("gpu_sm_active_mean_ratio", "kv_usage_high_ratio"),
    ),
    Row(
        Resource.NOTHING,
        "in the engine nobody waits and nobody is late",
        (NOT_QUEUED, Limit("harm_p", ">=", "thresholds.harm_p")),
        cites=("kv_usage_high_ratio", *COMPUTE),
    ),
)

PROFILING: frozenset[str] = frozenset(f"gpu_{x}_active_mean_ratio" for x in ("sm", "tensor", "dram"))
UTILISATION = "gpu_busy_mean_ratio"


def binding(readings: Readings, settings: Settings) -> Binding:
    """The resource that binds, by the first row of :data:`ROWS` that holds; else unknown, with what would settle it."""
    open_rows: list[tuple[Evidence, ...]] = []
    for row in ROWS:
        must = tuple(weigh(limit, readings, settings) for limit in row.when)
        one = tuple(weigh(limit, readings, settings) for limit in row.any_of)
        spoken = tuple(e for e in one if e.holds)
        if all(e.holds for e in must) and (spoken or not one):
            why = f"{row.why}{numbers(row.cites, readings)}"
            return Binding(row.resource, must + spoken, why)
        if not any(e.holds is False for e in must) and (spoken or not one or any(e.holds is None for e in one)):
            open_rows.append(must if spoken or not one else must + one)
    return Binding(Resource.UNKNOWN, *_undecided(open_rows, readings))


def _undecided(rows: Iterable[tuple[Evidence, ...]], readings: Readings) -> tuple[tuple[Evidence, ...], str]:
    """The conditions that nobody can decide, and what is missing in words."""
    unseen = {e.signal: e for row in rows for e in row if e.holds is None}
    if not unseen:
        return (), "work waits or is late, and none of KV, seats, compute and bandwidth shows at its limit"
    rest = [f"{e.title}: {e.gap.partition(': ')[2]}" for name, e in unseen.items() if name not in PROFILING]
    blind = next((e for name, e in unseen.items() if name in PROFILING), None)
    said = [f"GPU profiling is missing ({blind.gap.partition(': ')[2]})"] if blind is not None else []
    busy = readings[UTILISATION].value
    if blind is not None and busy is not None:
        said.append(f"utilisation of {with_unit(busy, 'ratio')} says only that a kernel was resident")
    return tuple(unseen.values()), "; ".join(said or rest[:2])
