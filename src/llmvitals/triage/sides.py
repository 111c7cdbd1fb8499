"""Which way of a signal is the bad one: as the checks have it, and for what users and operators feel, as it is."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from llmvitals.triage.checks import BY_CAUSE
from llmvitals.triage.expected import EXPECTED

UP, DOWN = "up", "down"

FELT: Mapping[str, str] = {
    **dict.fromkeys((f"ttft_{x}_seconds" for x in ("p50", "p95", "p99", "mean")), UP),
    **dict.fromkeys((f"itl_{x}_seconds" for x in ("p50", "p99", "mean")), UP),
    **dict.fromkeys((f"tpot_{x}_seconds" for x in ("p50", "p95", "mean")), UP),
    **dict.fromkeys((f"e2e_{x}_seconds" for x in ("p50", "p95", "mean")), UP),
    **dict.fromkeys(("queue_mean_seconds", "queue_p95_seconds", "queue_share_ratio", "token_mean_seconds"), UP),
    **dict.fromkeys(("prefill_mean_seconds", "decode_mean_seconds", "inference_mean_seconds"), UP),
    **dict.fromkeys(("requests_waiting", "waiting_last", "waiting_tokens", "preempted_waiting"), UP),
    **dict.fromkeys(("ttft_breach_ratio", "tpot_breach_ratio", "server_errors", "error_ratio", "lost_call_ratio"), UP),
    **dict.fromkeys(
        ("restarts", "oom_restarts", "failed_scrape_ratio", "gpu_memory_temperature_celsius", "slo_burn_peak"), UP
    ),
    **dict.fromkeys(("goodput_low_ratio", "goodput_high_ratio", "slo_goodput_ratio", "slo_worst_goodput_ratio"), DOWN),
    **dict.fromkeys(("slo_ttft_attainment_ratio", "slo_tpot_attainment_ratio", "prefix_hit_ratio"), DOWN),
}
"""What is worse by itself: waiting, failing, and promises that are not kept. Load is not in it: more of it is no fault."""

_NEITHER = frozenset({"tensor_parallel_gpus", "prefix_caching_enabled", "prompt_share_ratio", "running_pinned_ratio"})
"""What is set, or asked for, and only points at a cause: neither side of it is bad by itself."""


@cache
def _judged() -> Mapping[str, str]:
    """Of what must leave the range in which a check fires, that side; none where two checks fire on different ones."""
    found: dict[str, set[str]] = {}
    for cause, row in EXPECTED.items():
        for limit in (limit for rows in BY_CAUSE[cause].when for limit in rows if limit.signal in row.signs):
            found.setdefault(limit.signal, set()).add(UP if limit.op.startswith(">") else DOWN)
    return {signal: sides.pop() for signal, sides in found.items() if len(sides) == 1 and signal not in _NEITHER}


def bad_side(signal: str) -> str:
    """``up`` or ``down``, whichever is worse; '' where neither is by itself."""
    return FELT.get(signal) or _judged().get(signal, "")
