"""What a remedy brings, what it costs, and how to see that it worked: one row per cause.

Limits are not written here: what must move where is the opposite of the condition that fires, as the check has it. What a row
says of the effect is the mechanism; how large it is, only the numbers tell afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from llmvitals.settings import Settings
from llmvitals.triage.model import AGAINST
from llmvitals.triage.units import inside, with_unit
from llmvitals.triage.verdict import Evidence

CONFIG, RESTART, OUTSIDE = "Within 2 min", "Within 2 min of serving again", "Within 15 min"
"""When the numbers are believed: a window and as much again once a setting is in force, where that takes a start anew from then on;
time for clients, a proxy or an operator to follow. Orders of magnitude, not promises.
"""

PROMISES: Mapping[str, tuple[str, str]] = {
    "ttft_harm_p": ("first tokens", "ttft_seconds"),
    "tpot_harm_p": ("times per output token", "tpot_seconds"),
}
"""What a promise is about, and its threshold in the settings: the chance itself is nothing to watch."""


@dataclass(frozen=True, slots=True)
class Expected:
    """``effect``: what happens when this is changed, the price with it. ``signs``: signals that must leave the range in which
    the check fires, those first that move first. ``when``: by when. ``also``: what else must be seen, in words.
    """

    effect: str
    signs: tuple[str, ...] = ()
    when: str = CONFIG
    also: str = ""


USERS = ("ttft_harm_p", "tpot_harm_p", "harm_p")

EXPECTED: Mapping[str, Expected] = {
    "not-serving": Expected(
        "Running requests are lost, and new ones wait until the model is loaded; what stalled may come back "
        "until its reason is found.",
        ("dead_tail_pages", "stalled_seconds", "silent_failures", "error_ratio", "probe_silent_failures"),
        RESTART,
        "generated tokens per second leave zero",
    ),
    "hardware-event": Expected(
        "The replica's load moves to the others, which must have room for it; until the card is back there is "
        "one replica less.",
        (
            "gpu_xid_errors",
            "gpu_ecc_errors",
            "gpu_remap_pending",
            "gpu_throttle_ratio",
            "gpu_power_cap_ratio",
            "gpu_clock_ratio",
            "gpu_link_error_excess",
        ),
        OUTSIDE,
    ),
    "vram-headroom": Expected(
        "The KV pool shrinks by what is left free, so fewer requests fit; out-of-memory ends stop. The engine "
        "must be started anew.",
        ("gpu_memory_free_low_ratio", "gpu_memory_other_ratio", "device_oom_restarts", "restarts"),
        RESTART,
    ),
    "overloaded-and-shedding": Expected(
        "More capacity admits what is refused now; nothing gets faster for those who are served already.",
        ("rejection_ratio", "refused_call_ratio"),
        RESTART,
    ),
    "cold-start": Expected(
        "It passes without a change; a warm replica is ready later, and the first users no longer pay for "
        "loading and compiling.",
        ("ttft_harm_p",),
        CONFIG,
        "no late first token after the first two minutes",
    ),
    "rollout-and-probes": Expected(
        "Streams end by themselves before the process does, so that a rollout takes as long as the longest answer.",
        ("planned_restarts", "restarts_not_crashed", "not_ready_ratio", "failed_scrape_ratio", "lost_by_restarts"),
        OUTSIDE,
    ),
    "interconnect-bound": Expected(
        "Steps no longer wait for the link; each replica then holds all weights, so that its KV pool is smaller. "
        "A restart.",
        ("gpu_link_use_ratio", "tensor_parallel_gpus", *USERS),
        RESTART,
    ),
    "kv-transfer-bound": Expected(
        "The KV comes before decoding asks for it; prefill and decode together give up that long prompts and "
        "streams are kept apart.",
        ("kv_transfer_mean_seconds", "kv_transfer_failures", *USERS),
        RESTART,
    ),
    "adapter-slots": Expected(
        "Requests of more adapters run side by side; each slot takes GPU memory from the KV pool. A restart.",
        ("adapters_short_ratio", "deferred_share_ratio", "waiting_share_ratio", *USERS),
        RESTART,
    ),
    "grammar-compilation": Expected(
        "Known schemas are compiled before anybody waits for them; a new one still costs its first request that time.",
        ("deferred_share_ratio", "waiting_share_ratio", "ttft_harm_p"),
        OUTSIDE,
    ),
    "retry-storm": Expected(
        "Failed work is no longer multiplied, so that load falls to first calls; some clients see an error "
        "sooner than they did.",
        ("retry_ratio", "call_failure_ratio", "breaker_open_ratio"),
        OUTSIDE,
    ),
    "runaway-agent": Expected(
        "The session ends with an error and its share of the load with it; an honest long task may meet the "
        "limit as well.",
        ("session_calls_excess", "session_repeats_peak", "session_call_ratio"),
    ),
    "noisy-tenant": Expected(
        "That tenant waits or is refused above its share, and the others' queue time falls; the total served "
        "does not grow.",
        ("tenant_excess", "tenant_surplus_ratio", "others_queue_harm_p", "users_harm_p", "others_refused_ratio"),
    ),
    "fan-out": Expected(
        "Fewer model calls per user request, so that load falls by as much; answers may lose what the extra "
        "calls brought.",
        ("fan_out_excess",),
        OUTSIDE,
    ),
    "uncached-repeats": Expected(
        "Repeated questions are answered without the GPU; a cached answer can be out of date, and must not cross "
        "users.",
        ("uncached_repeat_ratio",),
        OUTSIDE,
    ),
    "preemption-mode": Expected(
        "A preempted prompt comes back from host memory instead of being computed again; host memory and PCIe "
        "are used. A restart.",
        ("preemptions_per_minute", "preemptions_per_completion"),
        RESTART,
        "the pace of running streams is steady",
    ),
    "preemption-thrash": Expected(
        "Fewer run at once, so more requests wait for their first token, and nothing is computed twice: tokens "
        "per second should not "
        "fall, and running streams get steady. A restart.",
        ("preemptions_per_minute", "preemptions_per_completion", "preemption_spread_ratio", "kv_free_low_ratio"),
        RESTART,
    ),
    "block-fragmentation": Expected(
        "Short requests stop holding blocks that they do not fill, so more fit; smaller blocks cost a little "
        "more bookkeeping. A restart.",
        ("kv_fill_ratio", "kv_free_low_ratio", "kv_room_ratio", "waiting_share_ratio", "ttft_harm_p"),
        RESTART,
    ),
    "kv-cache-saturation": Expected(
        "The limit alone moves the wait to the door and keeps it from turning into preemptions: first tokens "
        "stay late until there is "
        "more KV (FP8, smaller weights, another replica) or less load. A restart.",
        ("kv_room_ratio", "kv_free_low_ratio", "waiting_share_ratio", "ttft_harm_p"),
        RESTART,
    ),
    "context-imbalance": Expected(
        "Requests beyond that length are refused; the pool itself does not grow. A restart.",
        ("contexts_in_pool", "context_slack_ratio", "waiting_share_ratio"),
        RESTART,
    ),
    "draft-rejected": Expected(
        "Steps no longer pay for drafts that are thrown away; at low load a good draft would have been faster. A "
        "restart.",
        ("draft_acceptance_ratio", "tpot_harm_p", "ttft_harm_p"),
        RESTART,
    ),
    "batch-too-small": Expected(
        "More run at once and fewer wait; each step gets longer, so time per token rises: stop where it nears "
        "its target. A restart.",
        ("running_pinned_ratio", "waiting_share_ratio", "ttft_harm_p"),
        RESTART,
        "time per token stays inside its promise",
    ),
    "batch-too-large": Expected(
        "Every token comes faster for those who run; what no longer fits waits, so first tokens get later unless "
        "replicas are added. A restart.",
        ("tpot_median_low_seconds", "itl_median_low_seconds", "tpot_harm_p"),
        RESTART,
        "nobody begins to wait",
    ),
    "connection-exhaustion": Expected(
        "New connections are accepted and streams stay open; a higher limit only gains time where connections leak.",
        (
            "fd_usage_ratio",
            "port_usage_ratio",
            "gateway_connection_ratio",
            "close_wait_ratio",
            "connect_error_ratio",
            "streams_cut_ratio",
        ),
        OUTSIDE,
    ),
    "api-server-bound": Expected(
        "Requests reach the engine, and tokens leave it, without a wait in front; more API processes take more "
        "cores. A restart.",
        (
            "page_answer_seconds",
            "frontend_residual_seconds",
            "residual_share_ratio",
            "stalled_front_ratio",
            "api_cpu_full_ratio",
            "api_throttled_ratio",
            "span_frontend_mean_seconds",
            "span_frontend_share_ratio",
        ),
        RESTART,
    ),
    "prefix-caching-off": Expected(
        "Shared beginnings are computed once, if there are any; where prompts share nothing, nothing changes. A "
        "restart.",
        ("prefix_caching_enabled", "prompt_share_ratio", "harm_p"),
        RESTART,
        "the prefix hit ratio rises above zero",
    ),
    "prefix-cache-miss": Expected(
        "Prompts that share their beginning are computed from where they differ; nothing is gained where they "
        "share none.",
        ("prefix_hit_ratio", "prompt_share_ratio", "harm_p"),
        OUTSIDE,
    ),
    "prefill-bound": Expected(
        "Prompts are computed as fast as they come, so nobody waits for their turn; another pool or replica "
        "costs its GPUs.",
        ("waiting_share_ratio", "ttft_harm_p"),
        RESTART,
    ),
    "prefill-decode-interference": Expected(
        "With smaller steps running streams are interrupted for less long; long prompts take more of them, so "
        "their first token "
        "comes later. A restart.",
        ("tpot_harm_p",),
        RESTART,
        "the slowest gaps between tokens come nearer to their median, and first tokens stay inside their promise",
    ),
    "head-of-line-blocking": Expected(
        "Small requests no longer stand behind large ones; a pool of its own may stand idle while the other is full.",
        ("small_ttft_harm_p", "ttft_harm_p"),
        OUTSIDE,
    ),
    "unbounded-queue": Expected(
        "What cannot be served in time is refused at once and may be tried elsewhere; those who are let in get "
        "their answer in time. "
        "It serves no more than before.",
        (
            "waiting_growth_sigmas",
            "wait_ahead_seconds",
            "queue_age_seconds",
            "calls_waiting_growth_sigmas",
            "calls_wait_ahead_seconds",
        ),
        RESTART,
    ),
    "ghost-compute": Expected(
        "Work for clients that left stops, and its seats and KV are free for others; nobody who still waits "
        "loses anything.",
        ("ghost_call_ratio", "wasted_decode_ratio", "aborted_ratio"),
        OUTSIDE,
    ),
    "unbounded-output": Expected(
        "Answers end at the limit, and some are cut that would have gone on; seats and KV come free in a bounded time.",
        ("open_max_tokens_ratio",),
        OUTSIDE,
    ),
    "telemetry-broken": Expected(
        "Nothing gets faster: the next verdict can be trusted.",
        ("failed_scrape_ratio", "core_families_missing", "contradiction", "processes_behind"),
    ),
}
"""By cause."""


def effect(cause: str) -> str:
    """What happens when the cause's remedy is applied; '' for a cause that has no row."""
    found = EXPECTED.get(cause)
    return found.effect if found else ""


def verify(cause: str, evidence: Sequence[Evidence], settings: Settings) -> str:
    """How to see that it worked: the conditions that fire, turned round; '' for a cause that has no row."""
    found = EXPECTED.get(cause)
    if found is None:
        return ""
    rows: dict[str, Evidence] = {}
    for e in evidence:
        if e.holds and e.bound is not None:
            rows.setdefault(e.signal, e)
    signs = [_sign(rows[name], settings) for name in found.signs if name in rows]
    told = [*dict.fromkeys(filter(None, signs)), *([found.also] if found.also else [])]
    return f"{found.when}: {'; '.join(told)}." if told else ""


_WORDS: Mapping[str, str] = {"<": "under", "<=": "at most", ">": "over", ">=": "at least"}


def _sign(e: Evidence, settings: Settings) -> str:
    """One condition turned round, as a person would watch it."""
    if e.signal in PROMISES:
        what, threshold = PROMISES[e.signal]
        share, limit = settings.slo.objective, getattr(settings.slo, threshold)
        return f"{with_unit(share, 'ratio')} of the {what} within {with_unit(limit, 'seconds')}"
    if e.unit == "probability":
        return "no promise to users is broken"
    op = AGAINST[e.limit.split(maxsplit=1)[0]]
    return f"{inside(e.title)} {_WORDS[op]} {with_unit(e.bound or 0.0, e.unit)}"
